//! Distributed matrices: every rank holds its own rectangle, no rank the whole.

mod distribution;
pub mod file;
mod generate;
mod operand;
pub mod redistribute;

use isochron_devices::{Element, View, ViewMut, leading_dimension, try_zeroed_matrix};

pub(crate) use distribution::intersect;
pub use distribution::{Distribution, Part};
pub use generate::Generator;
pub(crate) use generate::hash;
pub use operand::{Op, Operand};

use crate::error::Error;

/// This rank's part of a distributed matrix.
///
/// The local part is column-major; its leading dimension is that of [`leading_dimension`].
#[derive(Debug, Clone)]
pub struct Matrix<T = f64> {
    distribution: Distribution,
    part: Part,
    ld: usize,
    local: Vec<T>,
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
        })
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
        let Part { row, col, rows, .. } = self.part;
        for (j, column) in self.local.chunks_exact_mut(self.ld).enumerate() {
            for (i, value) in column[..rows].iter_mut().enumerate() {
                *value = element(row + i, col + j);
            }
        }
    }

    /// How the matrix is spread.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The elements this rank holds.
    pub fn part(&self) -> Part {
        self.part
    }

    /// The local elements, `part().rows × part().cols`, column-major.
    pub fn local(&self) -> View<'_, T> {
        View::new(&self.local, self.part.rows, self.part.cols, self.ld)
    }

    /// The local elements, to be written.
    pub fn local_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(&mut self.local, self.part.rows, self.part.cols, self.ld)
    }

    /// The local element in local `row` and `col`.
    pub(crate) fn at(&self, row: usize, col: usize) -> T {
        self.local[row + col * self.ld]
    }

    /// Sets the local element in local `row` and `col`.
    pub(crate) fn set(&mut self, row: usize, col: usize, value: T) {
        self.local[row + col * self.ld] = value;
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
