//! Distributed matrices.
//!
//! A [`Spread`] says which rank holds which elements. A [`Matrix`] is one rank's rectangle of a matrix that is spread
//! over a layout; no rank holds the whole. [`redistribute`] moves elements between any two spreads, and
//! [`file`](mod@file) between a matrix and a file.

pub(crate) mod copy;
pub mod file;
mod finite;
mod frame;
mod generate;
mod operand;
pub mod redistribute;
mod region;
pub(crate) mod spread;
mod stored;

use isochron_devices::{Element, View, ViewMut, is_unwritten_memory_free, try_zeroed_matrix};

pub use finite::NotFinite;
pub(crate) use frame::Frame;
pub use generate::Generator;
pub(crate) use generate::hash;
pub use operand::{Op, Operand};
pub use region::Region;
pub(crate) use region::intersect;
pub use spread::error::SpreadError;
pub use spread::{BlockCyclic, HeldElement, ProcessGrid, Spread, volume};
pub(crate) use spread::{cut_rect, digest};
pub use stored::{LocalMemory, Order, Stored, StoredMut};

use crate::error::Error;

/// One rank's part of a distributed matrix: a rectangle, column-major, with the leading dimension of
/// [`leading_dimension`](isochron_devices::leading_dimension) or more.
#[derive(Debug)]
pub struct Matrix<T = f64> {
    spread: Spread,
    frame: Frame,
    local: Vec<T>,
    /// `true` until something is written to the zeros that it was made of: scaling it by 0 then needs no pass over
    /// memory.
    is_zero: bool,
}

impl<T: Element> Matrix<T> {
    /// Makes a matrix of zeros.
    ///
    /// Its memory is not written yet: the pages will lie next to the core that writes them first.
    /// [`Session::zeros`](crate::session::Session::zeros) makes a C that the devices have written.
    ///
    /// # Errors
    /// [`Error::Allocation`] if the system refuses the memory; [`Error::Spread`] if the elements of `rank` are not one
    /// rectangle.
    ///
    /// # Panics
    /// If `spread` has no such rank.
    pub fn zeros(spread: Spread, rank: usize) -> Result<Self, Error> {
        let frame = Frame::exact::<T>(find_part(&spread, rank)?);
        let local = try_zeros(frame.len(), "a matrix")?;
        Ok(Self {
            spread,
            frame,
            local,
            is_zero: true,
        })
    }

    /// Makes a matrix of zeros whose part has room for as many columns again on each side, and for `rows` more rows above and
    /// below. Room is [never written](is_unwritten_memory_free) before it is used; there is none where that would count.
    ///
    /// # Errors
    /// As [`zeros`](Self::zeros).
    pub(crate) fn zeros_with_room(spread: Spread, rank: usize, rows: usize) -> Result<Self, Error> {
        let part = find_part(&spread, rank)?;
        let frame = Frame::with_room::<T>(part, &spread.window(), [rows, part.cols]);
        let local = is_unwritten_memory_free().then(|| try_zeroed_matrix(frame.len()));
        match local.flatten() {
            Some(local) => Ok(Self {
                spread,
                frame,
                local,
                is_zero: true,
            }),
            None => Self::zeros(spread, rank),
        }
    }

    /// Lets `zero`, which writes zeros, write all of it first.
    pub(crate) fn zeroed_by<E>(
        mut self,
        zero: impl FnOnce(ViewMut<'_, T>) -> Result<(), E>,
    ) -> Result<Self, E> {
        zero(self.local_mut())?;
        self.is_zero = true;
        Ok(self)
    }

    /// Returns `true` if multiplying this matrix by `beta` may change it, as far as this rank knows.
    pub(crate) fn is_changed_by(&self, beta: T) -> bool {
        beta != T::ONE && (beta != T::ZERO || !self.is_zero)
    }

    /// Generates a matrix.
    ///
    /// # Errors
    /// As [`zeros`](Matrix::zeros).
    pub fn generate(spread: Spread, rank: usize, generator: Generator) -> Result<Self, Error> {
        let mut matrix = Self::zeros(spread, rank)?;
        matrix.fill(|row, col| generator.element(row, col));
        Ok(matrix)
    }

    /// Sets every local element to `element(row, col)`, with indices in the whole matrix.
    pub fn fill(&mut self, element: impl Fn(usize, usize) -> T) {
        let Region { row, col, cols, .. } = self.part();
        let mut local = self.local_mut();
        for j in 0..cols {
            for (i, value) in local.col_mut(j).iter_mut().enumerate() {
                *value = element(row + i, col + j);
            }
        }
    }

    /// Makes a [window](Spread::within) a matrix of its own: the same elements, with rows and columns counted from its
    /// first one.
    #[must_use]
    pub fn alone(self, rank: usize) -> Self {
        let spread = self.spread.alone();
        Self {
            frame: self.frame.renumber(spread.part(rank)),
            spread,
            ..self
        }
    }

    /// Takes another spread of the same matrix, which gives this rank the same part.
    ///
    /// # Panics
    /// If the part is another one.
    pub(crate) fn respread(&mut self, spread: Spread, rank: usize) {
        assert!(
            spread.part(rank) == self.part(),
            "another part than the one that is held"
        );
        self.spread = spread;
    }

    /// Returns the spread of the whole matrix.
    pub fn spread(&self) -> &Spread {
        &self.spread
    }

    /// Returns the rectangle that this rank holds.
    pub fn part(&self) -> Region {
        self.frame.part()
    }

    /// Returns the place of the part in memory.
    pub(crate) fn frame(&self) -> Frame {
        self.frame
    }

    /// Returns the local elements, `part().rows × part().cols`, column-major.
    pub fn local(&self) -> View<'_, T> {
        let (rows, cols, ld) = self.frame.view_shape();
        View::new(&self.local[self.frame.range()], rows, cols, ld)
    }

    /// Returns the local elements, to be written.
    pub fn local_mut(&mut self) -> ViewMut<'_, T> {
        let (rows, cols, ld) = self.frame.view_shape();
        ViewMut::new(self.data_mut(), rows, cols, ld)
    }

    /// Returns the memory of the local elements, to be written.
    fn data_mut(&mut self) -> &mut [T] {
        self.is_zero = false;
        &mut self.local[self.frame.range()]
    }

    /// Returns the local matrix as stored memory.
    pub(crate) fn stored(&self) -> Stored<'_, T> {
        Stored::by_columns(&self.local[self.frame.range()], self.frame.ld())
    }

    /// Returns the local matrix as stored memory, to be written.
    pub(crate) fn stored_mut(&mut self) -> StoredMut<'_, T> {
        let ld = self.frame.ld();
        StoredMut::by_columns(self.data_mut(), ld)
    }

    /// Returns the local columns, each as long as the part has rows.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &[T]> {
        let local = self.local();
        (0..local.cols()).map(move |j| local.col(j))
    }
}

impl<T: Clone> Clone for Matrix<T> {
    /// Copies the part without its room for columns.
    fn clone(&self) -> Self {
        let (frame, covered) = self.frame.leave_room();
        Self {
            spread: self.spread.clone(),
            frame,
            local: self.local[covered].to_vec(),
            is_zero: self.is_zero,
        }
    }
}

fn find_part(spread: &Spread, rank: usize) -> Result<Region, SpreadError> {
    spread
        .find_part(rank)
        .ok_or(SpreadError::Scattered { rank })
}

/// Allocates a vector of zeros; `what` says in the error for which purpose.
pub(crate) fn try_zeros<T: Element>(len: usize, what: &'static str) -> Result<Vec<T>, Error> {
    try_zeroed_matrix(len).ok_or(Error::Allocation {
        what,
        bytes: (size_of::<T>() as u64).saturating_mul(len as u64),
    })
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::slice_cols;

    use super::*;

    fn zeros() -> Matrix {
        Matrix::zeros(Spread::whole(3, 2), 0).unwrap()
    }

    #[test]
    fn zeros_are_known_until_they_are_written() {
        let mut matrix = zeros();
        assert!(!matrix.is_changed_by(0.0) && matrix.is_changed_by(f64::NAN));
        matrix.local_mut().col_mut(1)[1] = 5.0;
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

    #[test]
    fn a_matrix_with_room_is_like_one_without() {
        let layout = slice_cols(6, &[4, 5, 3]).unwrap();
        let spread = Spread::on_layout(6, 12, 1, &layout);
        let generator = Generator::Uniform { seed: 3 };
        let exact: Matrix = Matrix::generate(spread.clone(), 1, generator).unwrap();
        let mut roomy: Matrix = Matrix::zeros_with_room(spread, 1, 2).unwrap();
        assert!(!roomy.is_changed_by(0.0));
        assert_eq!(roomy.frame() != exact.frame(), is_unwritten_memory_free());
        roomy.fill(|row, col| generator.element(row, col));
        let copy = roomy.clone();
        assert!(copy.local.len() <= roomy.local.len());
        for matrix in [roomy, copy] {
            assert!(matrix.columns().eq(exact.columns()));
            assert_eq!(matrix.stored().data.len(), matrix.local().data().len());
        }
    }
}
