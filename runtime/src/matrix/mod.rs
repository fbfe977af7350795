//! Distributed matrices: every rank holds its own rectangle, no rank the whole.

mod distribution;
pub mod file;
mod generate;
mod operand;
pub mod redistribute;
mod region;

use isochron_devices::{Element, View, ViewMut, leading_dimension, try_zeroed_matrix};

pub use distribution::Distribution;
pub use generate::Generator;
pub(crate) use generate::hash;
pub use operand::{Op, Operand};
pub use region::Region;
pub(crate) use region::intersect;

use crate::error::Error;

/// This rank's part of a distributed matrix.
///
/// The local part is column-major; its leading dimension is that of [`leading_dimension`].
#[derive(Debug, Clone)]
pub struct Matrix<T = f64> {
    distribution: Distribution,
    part: Region,
    ld: usize,
    local: Vec<T>,
    /// Whether nobody has written since it was made of zeros: to make it zero once more costs a pass over its memory.
    is_zero: bool,
}

impl<T: Element> Matrix<T> {
    /// A matrix of zeros.
    ///
    /// It is not written yet: its pages come to lie next to whoever writes them first.
    /// [`Session::zeros`](crate::session::Session::zeros) makes a C whose devices have written it.
    ///
    /// # Errors
    /// [`Error::Allocation`] when the memory cannot be had.
    ///
    /// # Panics
    /// When `distribution` has no part for `rank`.
    pub fn zeros(distribution: Distribution, rank: usize) -> Result<Self, Error> {
        let part = distribution.part(rank);
        let ld = leading_dimension::<T>(part.rows);
        let local = try_zeros(ld * part.cols, "a matrix")?;
        Ok(Self {
            distribution,
            part,
            ld,
            local,
            is_zero: true,
        })
    }

    /// The same, after `zero`, which writes zeros, has written it.
    pub(crate) fn zeroed_by<E>(
        mut self,
        zero: impl FnOnce(ViewMut<'_, T>) -> Result<(), E>,
    ) -> Result<Self, E> {
        zero(self.local_mut())?;
        self.is_zero = true;
        Ok(self)
    }

    /// Whether `beta` times this matrix may be another one, as far as this rank knows.
    pub(crate) fn is_changed_by(&self, beta: T) -> bool {
        beta != T::ONE && (beta != T::ZERO || !self.is_zero)
    }

    /// A generated matrix.
    ///
    /// # Errors
    /// As [`zeros`](Matrix::zeros).
    pub fn generate(
        distribution: Distribution,
        rank: usize,
        generator: Generator,
    ) -> Result<Self, Error> {
        let mut matrix = Self::zeros(distribution, rank)?;
        matrix.fill(|row, col| generator.element(row, col));
        Ok(matrix)
    }

    /// Sets every local element to `element(row, col)`, indices in the whole matrix.
    pub fn fill(&mut self, element: impl Fn(usize, usize) -> T) {
        let Region { row, col, rows, .. } = self.part;
        let ld = self.ld;
        for (j, column) in self.written().chunks_exact_mut(ld).enumerate() {
            for (i, value) in column[..rows].iter_mut().enumerate() {
                *value = element(row + i, col + j);
            }
        }
    }

    /// A [window](Distribution::within) as a matrix of its own: the same elements, whose rows and columns count from its
    /// first one.
    #[must_use]
    pub fn alone(self, rank: usize) -> Self {
        let distribution = self.distribution.alone();
        Self {
            part: distribution.part(rank),
            distribution,
            ..self
        }
    }

    /// How the matrix is spread.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The elements this rank holds.
    pub fn part(&self) -> Region {
        self.part
    }

    /// The local elements, `part().rows × part().cols`, column-major.
    pub fn local(&self) -> View<'_, T> {
        View::new(&self.local, self.part.rows, self.part.cols, self.ld)
    }

    /// The local elements, to be written.
    pub fn local_mut(&mut self) -> ViewMut<'_, T> {
        let (Region { rows, cols, .. }, ld) = (self.part, self.ld);
        ViewMut::new(self.written(), rows, cols, ld)
    }

    /// The memory of the local elements, to be written.
    fn written(&mut self) -> &mut [T] {
        self.is_zero = false;
        &mut self.local
    }

    /// The local element in local `row` and `col`.
    pub(crate) fn at(&self, row: usize, col: usize) -> T {
        self.local[row + col * self.ld]
    }

    /// Sets the local element in local `row` and `col`.
    pub(crate) fn set(&mut self, row: usize, col: usize, value: T) {
        let place = row + col * self.ld;
        self.written()[place] = value;
    }

    /// The local columns, each as long as the part has rows.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &[T]> {
        self.local
            .chunks_exact(self.ld)
            .map(|column| &column[..self.part.rows])
    }
}

/// A vector of zeros, or an error where the memory cannot be had.
pub(crate) fn try_zeros<T: Element>(len: usize, what: &'static str) -> Result<Vec<T>, Error> {
    try_zeroed_matrix(len).ok_or(Error::Allocation {
        what,
        bytes: (size_of::<T>() as u64).saturating_mul(len as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_known_until_somebody_writes() {
        let zeros = || Matrix::<f64>::zeros(Distribution::whole(3, 2), 0).unwrap();
        let mut matrix = zeros();
        assert!(!matrix.is_changed_by(0.0) && matrix.is_changed_by(f64::NAN));
        matrix.set(1, 1, 5.0);
        assert!(matrix.is_changed_by(0.0) && !matrix.is_changed_by(1.0));
        let made = zeros().zeroed_by(|mut view| {
            view.scale(0.0);
            Ok::<(), Error>(())
        });
        let mut matrix = made.unwrap();
        assert!(!matrix.is_changed_by(0.0));
        matrix.local_mut();
        assert!(matrix.is_changed_by(0.0));
        let mut matrix = zeros();
        matrix.fill(|_, _| 1.0);
        assert!(matrix.is_changed_by(0.0));
    }
}
