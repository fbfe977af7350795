//! Distributed matrices.
//!
//! A [`Spread`] says which rank holds which elements. A [`Matrix`] is one rank's rectangle of a matrix that is spread
//! over a layout; no rank holds the whole. [`redistribute`] moves elements between any two spreads, and
//! [`file`](mod@file) between a matrix and a file.

mod digest;
mod distribution;
pub mod file;
mod finite;
mod frame;
mod generate;
mod lines;
mod memory;
mod operand;
pub mod redistribute;
mod region;
pub(crate) mod scalars;
pub(crate) mod spread;
mod stored;

use isochron_devices::internal::{is_unwritten_memory_free, try_zeroed_matrix};
use isochron_devices::{Scalar, View, ViewMut};

pub use digest::Digest;
pub use distribution::{BlockList, Distribution, Pieces};
pub use finite::NotFinite;
pub(crate) use frame::Frame;
pub use generate::Generator;
pub(crate) use generate::hash;
pub use isochron_hierarchy::problem::Op;
pub use lines::{MemoryLines, OperandLines};
pub use operand::Operand;
pub use region::Region;
pub(crate) use region::intersect;
pub use spread::error::SpreadError;
pub use spread::{BlockCyclic, HeldElement, ProcessGrid, Spread, volume};
pub(crate) use spread::{Numbering, cut_rect, digest};
pub use stored::{LocalMemory, Order, Stored, StoredMut};

use crate::error::Error;
use crate::fault::flip_bit;
use crate::watch::note_progress;
use memory::MatrixMemory;
use spread::HeldLines;

/// One rank's part of a distributed matrix: a rectangle, column-major, with the leading dimension of
/// [`leading_dimension`](isochron_devices::leading_dimension) or more. It has memory of its own.
pub type Matrix<T = f64> = HeldMatrix<'static, T>;

/// One rank's part of a distributed matrix, in memory of its own or in the program's: see [`Matrix`].
#[derive(Debug)]
pub struct HeldMatrix<'m, T> {
    spread: Spread,
    frame: Frame,
    memory: MatrixMemory<'m, T>,
    /// The places of rows and of columns in memory, if they are not in order there. Only factors of a product may be so.
    scattered: Option<[HeldLines; 2]>,
    /// The program's memory, if the elements have left it.
    left: Option<ViewMut<'m, T>>,
    /// `true` until something is written to the zeros that it was made of: scaling it by 0 then needs no pass over
    /// memory.
    is_zero: bool,
}

impl<T: Scalar> Matrix<T> {
    fn in_own_memory(spread: Spread, frame: Frame, local: Vec<T>) -> Self {
        Self {
            spread,
            frame,
            memory: MatrixMemory::Own(local),
            scattered: None,
            left: None,
            is_zero: true,
        }
    }

    /// Makes a matrix of zeros.
    ///
    /// Its memory is not written yet: the pages will lie next to the core that writes them first.
    /// [`Product::zeros`](crate::product::Product::zeros) makes a C that the devices have written.
    ///
    /// # Errors
    /// Returns [`Error::Allocation`] if the system refuses the memory; [`Error::Spread`] if the elements of `rank` are
    /// not one rectangle.
    ///
    /// # Panics
    /// If `spread` has no such rank.
    pub fn zeros(spread: Spread, rank: usize) -> Result<Self, Error> {
        let frame = Frame::exact::<T>(find_part(&spread, rank)?);
        let local = try_zeros(frame.len(), "a matrix")?;
        Ok(Self::in_own_memory(spread, frame, local))
    }

    /// Makes a matrix of zeros whose part has room for as many columns again on each side, and for `rows` more rows above and
    /// below. Room is [never written](is_unwritten_memory_free) before it is used; there is none where that would count.
    pub(crate) fn zeros_with_room(spread: Spread, rank: usize, rows: usize) -> Result<Self, Error> {
        let part = find_part(&spread, rank)?;
        let frame = Frame::with_room::<T>(part, &spread.window(), [rows, part.cols]);
        let local = is_unwritten_memory_free().then(|| try_zeroed_matrix(frame.len()));
        match local.flatten() {
            Some(local) => Ok(Self::in_own_memory(spread, frame, local)),
            None => Self::zeros(spread, rank),
        }
    }

    /// Generates a matrix.
    ///
    /// # Errors
    /// Returns [`Error::Allocation`] if the system refuses the memory; [`Error::Spread`] if the elements of `rank` are
    /// not one rectangle.
    pub fn generate(spread: Spread, rank: usize, generator: Generator) -> Result<Self, Error> {
        let mut matrix = Self::zeros(spread, rank)?;
        matrix.fill(|row, col| generator.element(row, col));
        Ok(matrix)
    }
}

impl<'m, T: Scalar> HeldMatrix<'m, T> {
    /// Takes the program's local matrix, with contiguous columns, as a matrix that is only read.
    ///
    /// # Errors
    /// Returns [`Error::Spread`] if the elements of `rank` are not one rectangle.
    pub(crate) fn show(spread: Spread, rank: usize, local: View<'m, T>) -> Result<Self, Error> {
        let frame = Frame::lent(find_part(&spread, rank)?, local.ld());
        Ok(Self {
            spread,
            frame,
            memory: MatrixMemory::Shown(local),
            scattered: None,
            left: None,
            is_zero: false,
        })
    }

    /// Takes the program's memory as [`show`](Self::show) does, with the elements of `spread` in the order in which the program
    /// `has` them.
    pub(crate) fn show_scattered(
        spread: Spread,
        has: &Spread,
        rank: usize,
        local: View<'m, T>,
    ) -> Result<Self, Error> {
        let holding = has.holding(rank);
        let lines = [holding.rows, holding.cols].map(HeldLines::clone);
        Ok(Self { scattered: Some(lines), ..Self::show(spread, rank, local)? })
    }

    /// Returns the same matrix in the same memory, to be read.
    pub(crate) fn show_again(&self) -> HeldMatrix<'_, T> {
        HeldMatrix {
            spread: self.spread.clone(),
            frame: self.frame,
            memory: MatrixMemory::Shown(self.memory.view(&self.frame)),
            scattered: self.scattered.clone(),
            left: None,
            is_zero: self.is_zero,
        }
    }

    /// Takes the program's local matrix, with contiguous columns, as a matrix.
    pub(crate) fn lend(spread: Spread, rank: usize, local: ViewMut<'m, T>) -> Result<Self, Error> {
        let frame = Frame::lent(find_part(&spread, rank)?, local.ld());
        Ok(Self {
            spread,
            frame,
            memory: MatrixMemory::Lent(local),
            scattered: None,
            left: None,
            is_zero: false,
        })
    }

    /// Goes on in the memory of `next`, which holds the elements.
    pub(crate) fn replace_by(&mut self, next: Matrix<T>) {
        let before = std::mem::replace(self, next);
        self.left = before.left.or(before.memory.into_lent());
    }

    /// Copies the elements back to the program's memory, if they have left it. The spread must be the one that it was lent for.
    pub(crate) fn return_to_lender(&mut self) {
        let Some(mut home) = self.left.take().filter(|home| !home.is_empty()) else {
            return;
        };
        for (j, column) in self.columns().enumerate() {
            home.col_mut(j).copy_from_slice(column);
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

    /// Sets every local element to `element(row, col)`, with indices in the whole matrix.
    pub fn fill(&mut self, element: impl Fn(usize, usize) -> T) {
        let Region { row, col, cols, .. } = self.part();
        let mut local = self.local_mut();
        for j in 0..cols {
            for (i, value) in local.col_mut(j).iter_mut().enumerate() {
                *value = element(row + i, col + j);
            }
            note_progress();
        }
    }

    /// Makes a [window](Spread::within) a matrix of its own: the same elements, with rows and columns counted from its
    /// first one.
    #[must_use]
    pub fn alone(self, rank: usize) -> Self {
        let spread = self.spread.alone();
        Self { frame: self.frame.renumber(spread.part(rank)), spread, ..self }
    }

    /// Takes another spread of the same matrix, which gives this rank the same part.
    ///
    /// # Panics
    /// If the part is another one.
    pub(crate) fn respread(&mut self, spread: Spread, rank: usize) {
        assert!(spread.part(rank) == self.part(), "another part than the one that is held");
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
        let Region { rows, cols, .. } = self.part();
        if rows == 0 || cols == 0 {
            return View::empty(rows, cols);
        }
        let place = self.frame.place();
        self.memory.view(&self.frame).block(place.row_range(), place.col_range())
    }

    /// Returns the local elements, to be written.
    pub fn local_mut(&mut self) -> ViewMut<'_, T> {
        self.is_zero = false;
        let Region { rows, cols, .. } = self.part();
        if rows == 0 || cols == 0 {
            return ViewMut::empty(rows, cols);
        }
        let place = self.frame.place();
        self.memory.view_mut(&self.frame).into_block(place.row_range(), place.col_range())
    }

    /// Returns the local columns, each as long as the part has rows.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &[T]> {
        let local = self.local();
        (0..local.cols()).map(move |j| {
            note_progress();
            local.col(j)
        })
    }
}

impl<T: Scalar> Clone for Matrix<T> {
    /// Copies the part without its room.
    fn clone(&self) -> Self {
        let frame = Frame::exact::<T>(self.part());
        let local = vec![T::ZERO; frame.len()];
        let mut copy = Self::in_own_memory(self.spread.clone(), frame, local);
        copy.local_mut().copy_from(self.local());
        Self { scattered: self.scattered.clone(), is_zero: self.is_zero, ..copy }
    }
}

/// Flips a bit of this rank's first column if tests ask for it at this stage.
#[doc(hidden)]
pub fn flip_element<T: Scalar>(stage: &str, matrix: &mut Matrix<T>) {
    if !matrix.part().is_empty() {
        flip_bit(stage, bytemuck::cast_slice_mut(matrix.local_mut().col_mut(0)));
    }
}

fn find_part(spread: &Spread, rank: usize) -> Result<Region, SpreadError> {
    spread.find_part(rank).ok_or(SpreadError::Scattered { rank })
}

/// Allocates a vector of zeros; `what` says in the error for which purpose.
pub(crate) fn try_zeros<T: Scalar>(len: usize, what: &'static str) -> Result<Vec<T>, Error> {
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
        let mut matrix = zeros()
            .zeroed_by(|mut view| {
                view.scale(0.0);
                Ok::<(), Error>(())
            })
            .unwrap();
        assert!(!matrix.is_changed_by(0.0));
        matrix.local_mut();
        assert!(matrix.is_changed_by(0.0));
        let mut matrix = zeros();
        matrix.fill(|_, _| 1.0);
        assert!(matrix.is_changed_by(0.0));
    }

    #[test]
    fn a_matrix_in_lent_memory_writes_its_elements_alone_and_comes_back() {
        let mut data = [9.0; 11];
        let local = ViewMut::new(&mut data, 2, 3, 4);
        let mut matrix = HeldMatrix::lend(Spread::whole(2, 3), 0, local).unwrap();
        assert!(matrix.frame().move_to(Region::new(0..2, 0..3)).is_some());
        matrix.fill(|row, col| (10 * row + col) as f64);
        let mut moved: Matrix = Matrix::zeros(Spread::whole(2, 3), 0).unwrap();
        moved.fill(|row, col| -((10 * row + col) as f64));
        let again = moved.clone();
        matrix.replace_by(moved);
        matrix.replace_by(again);
        matrix.return_to_lender();
        drop(matrix);
        assert_eq!(data[..6], [-0.0, -10.0, 9.0, 9.0, -1.0, -11.0]);
        assert_eq!(data[6..], [9.0, 9.0, -2.0, -12.0, 9.0]);
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
        assert!(copy.frame().len() <= roomy.frame().len());
        for matrix in [roomy, copy] {
            assert!(matrix.columns().eq(exact.columns()));
        }
    }
}
