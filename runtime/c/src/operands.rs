//! The memory of A, B and C on this rank as views. All three may be parts of one array that lie between each other, since views
//! have elements alone.

use std::ptr::NonNull;

use isochron::Error;
use isochron::devices::MatrixView;
use isochron::matrix::{MemoryLines, OperandLines};
use isochron::prelude::{Element, View, ViewMut};

use crate::matrix::MemoryPiece;
use crate::pointers;
use crate::status::CallFailure;

/// The pieces of A, B and C.
#[derive(Debug)]
pub(crate) struct Operands<'m, T> {
    pub a: Vec<View<'m, T>>,
    pub b: Vec<View<'m, T>>,
    pub c: Vec<ViewMut<'m, T>>,
}

impl<T: Element> Operands<'_, T> {
    /// Checks the memory of A, B and C.
    ///
    /// # Safety
    /// Each piece is null or has its elements. As long as they are viewed, nothing else writes the elements of A and B, or uses
    /// those of C.
    pub(crate) unsafe fn view([a, b, c]: [Vec<MemoryPiece<T>>; 3]) -> Result<Self, CallFailure> {
        check_shared(&OperandLines {
            factors: [&a, &b].map(|pieces| pieces.iter().map(find_lines).collect()),
            result: c.iter().map(find_lines).collect(),
        })?;
        // SAFETY: as the caller says. Pieces of C share no element with others, as has been checked.
        unsafe {
            Ok(Self {
                a: view_pieces("A", "a.data", &a)?,
                b: view_pieces("B", "b.data", &b)?,
                c: view_pieces("C", "c.data", &c)?,
            })
        }
    }
}

/// Views the pieces of a matrix, after a check of their pointers and leading dimensions.
///
/// # Safety
/// The conditions of [`Operands::view`].
unsafe fn view_pieces<T: Element, D>(
    name: &str,
    field: &str,
    pieces: &[MemoryPiece<T>],
) -> Result<Vec<MatrixView<T, D>>, CallFailure> {
    pieces
        .iter()
        .map(|piece| {
            let (rows, cols) = piece.shape;
            pointers::check_slice(piece.data.cast_const(), piece.length, field)?;
            let Some(first) = NonNull::new(piece.data).filter(|_| piece.length > 0) else {
                return Ok(MatrixView::empty(rows, cols));
            };
            let strides = piece.order.find_strides(piece.shape, piece.ld);
            let strides =
                strides.map_err(|error| Error::Shape(format!("the memory of {name}: {error}")))?;
            // SAFETY: the pointer and the length have been checked, so all elements lie in the memory of the piece, which is
            // as the caller says.
            Ok(unsafe { MatrixView::from_raw(first, [rows, cols], strides) })
        })
        .collect()
}

/// Returns the lines of a piece; `None` if it has no elements, or no memory that could be used.
fn find_lines<T>(piece: &MemoryPiece<T>) -> Option<MemoryLines> {
    let bytes = piece.length.checked_mul(size_of::<T>());
    let is_memory = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if piece.length == 0 || piece.data.is_null() || !is_memory {
        return None;
    }
    let (along, lines) = piece.order.find_lines(piece.shape);
    let distance = piece.ld.saturating_mul(size_of::<T>());
    MemoryLines::new(piece.data.addr(), lines, along * size_of::<T>(), distance)
}

/// Refuses a result whose elements are those of a factor too, or two of whose pieces have an element in common.
fn check_shared(lines: &OperandLines) -> Result<(), CallFailure> {
    let Some(side) = lines.find_shared() else {
        return Ok(());
    };
    let name = ["a", "b", "another block of c"][side];
    let reason = format!("shares memory with {name}: the result needs memory of its own");
    Err(CallFailure::argument("c", reason))
}

#[cfg(test)]
mod tests {
    use isochron::prelude::Order;

    use super::*;

    /// Two rows of a column-major array of 4 × 3.
    fn cut_rows(array: &mut [f64; 12], row: usize) -> MemoryPiece<f64> {
        MemoryPiece {
            data: array.as_mut_ptr().wrapping_add(row),
            shape: (2, 3),
            order: Order::Columns,
            length: 4 * 2 + 2,
            ld: 4,
        }
    }

    /// Returns why a product of these pieces is refused.
    fn refuse(pieces: [Vec<MemoryPiece<f64>>; 3]) -> Option<String> {
        // SAFETY: the pieces have their elements, or are refused before they are touched.
        let made = unsafe { Operands::view(pieces) };
        made.err().map(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_result_in_the_memory_of_a_factor_is_refused() {
        let mut array = [0.0; 12];
        let [one, other] = [0, 1].map(|row| vec![cut_rows(&mut array, row)]);
        let twice = vec![cut_rows(&mut array, 1), cut_rows(&mut array, 2)];
        for (pieces, name) in [
            ([one, Vec::new(), other], "shares memory with a:"),
            ([Vec::new(), Vec::new(), twice], "another block of c:"),
        ] {
            let text = refuse(pieces).unwrap();
            assert!(text.contains(name), "{text}");
        }
        let empty = MemoryPiece { length: 0, shape: (2, 0), ..cut_rows(&mut array, 0) };
        let whole = vec![cut_rows(&mut array, 0)];
        assert_eq!(refuse([whole, Vec::new(), vec![empty]]), None);
    }

    #[test]
    fn what_is_no_memory_is_not_compared() {
        let [one, other] = [0, 1].map(|_| {
            vec![MemoryPiece {
                data: NonNull::<f64>::dangling().as_ptr(),
                shape: (usize::MAX, 1),
                order: Order::Columns,
                length: usize::MAX,
                ld: usize::MAX,
            }]
        });
        let text = refuse([one, Vec::new(), other]).unwrap();
        assert!(text.contains("more than any memory has"), "{text}");
    }

    #[test]
    fn lines_that_overlap_are_refused() {
        let mut array = [0.0; 12];
        let piece = MemoryPiece { length: 4, ld: 1, ..cut_rows(&mut array, 0) };
        let text = refuse([vec![piece], Vec::new(), Vec::new()]).unwrap();
        assert!(text.contains("where a column has 2"), "{text}");
    }

    #[test]
    fn pieces_between_each_other_are_used_where_they_lie() {
        let mut array: [f64; 12] = std::array::from_fn(|index| index as f64);
        let [top, bottom] = [0, 2].map(|row| vec![cut_rows(&mut array, row)]);
        // SAFETY: the pieces lie in the array, which nothing else uses.
        let mut operands = unsafe { Operands::view([top, Vec::new(), bottom]) }.unwrap();
        operands.c[0].copy_from(operands.a[0]);
        assert_eq!(array, [0.0, 1.0, 0.0, 1.0, 4.0, 5.0, 4.0, 5.0, 8.0, 9.0, 8.0, 9.0]);
        let blocks = [0, 2].map(|row| cut_rows(&mut array, row));
        let pieces = [Vec::new(), Vec::new(), Vec::from(blocks)];
        // SAFETY: as above.
        let mut operands = unsafe { Operands::view(pieces) }.unwrap();
        for (number, block) in operands.c.iter_mut().enumerate() {
            for col in 0..3 {
                block.col_mut(col).fill(number as f64);
            }
        }
        assert_eq!(array, std::array::from_fn(|at| (at / 2 % 2) as f64));
    }
}
