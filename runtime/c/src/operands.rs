//! The memory of A, B and C on this rank as slices, of which no one that is written overlaps another.
//!
//! Parts of one array may lie between each other. Their slices, from the first element to the last, overlap then, although
//! they share no element. Such parts of A and B are copied, and a block of C that overlaps another one is computed in memory
//! of its own.

use std::time::Instant;

use isochron::Error;
use isochron::matrix::{MemoryLines, OperandLines};
use isochron::prelude::Element;

use crate::matrix::MemoryPiece;
use crate::pointers;
use crate::status::CallFailure;

/// The slice and the leading dimension of each piece of a matrix.
type SliceList<D> = Vec<(D, usize)>;

/// The memory of A, B and C, checked.
pub(crate) struct Operands<T> {
    factors: [Vec<OperandPiece<T>>; 2],
    result: Vec<OperandPiece<T>>,
    /// Seconds of copying.
    copying_s: f64,
}

/// A piece of the program's memory, and the memory that stands for it if it cannot be a slice.
struct OperandPiece<T> {
    given: MemoryPiece<T>,
    copy: Option<LineCopy<T>>,
}

/// The lines of a piece without the elements between them.
struct LineCopy<T> {
    elements: Vec<T>,
    line_length: usize,
}

impl<T: Element> Operands<T> {
    /// Checks the memory of A, B and C, and copies the pieces that cannot be slices. C is not read if `reads_c` is false.
    ///
    /// # Safety
    /// Each piece is null or has its elements.
    pub(crate) unsafe fn new(
        [a, b, c]: [Vec<MemoryPiece<T>>; 3],
        reads_c: bool,
    ) -> Result<Self, CallFailure> {
        let lines = OperandLines {
            factors: [&a, &b].map(|pieces| pieces.iter().map(find_lines).collect()),
            result: c.iter().map(find_lines).collect(),
        };
        check_shared(&lines)?;
        for (name, pieces) in [("a.data", &a), ("b.data", &b), ("c.data", &c)] {
            for piece in pieces {
                pointers::check_slice(piece.data.cast_const(), piece.length, name)?;
            }
        }
        let start = Instant::now();
        let [copied_a, copied_b, copied_c] = lines.find_interleaved();
        // SAFETY: checked above, so all pieces have their elements, as the caller says.
        let [a, b, c] = unsafe {
            [
                copy_pieces(a, &copied_a, true)?,
                copy_pieces(b, &copied_b, true)?,
                copy_pieces(c, &copied_c, reads_c)?,
            ]
        };
        Ok(Self {
            factors: [a, b],
            result: c,
            copying_s: start.elapsed().as_secs_f64(),
        })
    }

    /// Returns `true` for each of A, B and C that is copied here, at least in part.
    pub(crate) fn list_copied(&self) -> [bool; 3] {
        let [a, b] = &self.factors;
        [a, b, &self.result].map(|pieces| pieces.iter().any(|piece| piece.copy.is_some()))
    }

    /// Returns the seconds of all copying so far.
    pub(crate) fn copying_s(&self) -> f64 {
        self.copying_s
    }

    /// Returns the memory of A, B and C.
    ///
    /// # Safety
    /// Nothing else writes the elements of A and B for `'a`, or uses those of C.
    pub(crate) unsafe fn as_slices(&mut self) -> ([SliceList<&[T]>; 2], SliceList<&mut [T]>) {
        let factors = self.factors.each_ref().map(|pieces| {
            // SAFETY: as the caller says.
            let slices = pieces.iter().map(|piece| unsafe { piece.as_slice() });
            slices.collect()
        });
        // SAFETY: as the caller says.
        let slices = (self.result.iter_mut()).map(|piece| unsafe { piece.as_mut_slice() });
        (factors, slices.collect())
    }

    /// Writes the blocks of C that were computed in memory of their own.
    ///
    /// # Safety
    /// Nothing else uses the elements of C.
    pub(crate) unsafe fn write_back(&mut self) {
        let start = Instant::now();
        for OperandPiece { given, copy } in &self.result {
            if let Some(copy) = copy {
                // SAFETY: as the caller says; `new` has checked the memory.
                unsafe { copy.write(given) };
            }
        }
        self.copying_s += start.elapsed().as_secs_f64();
    }
}

/// Returns the pieces of a matrix, with memory for those that are copied. It has their elements if these are read.
///
/// # Safety
/// Each piece has its elements.
unsafe fn copy_pieces<T: Element>(
    pieces: Vec<MemoryPiece<T>>,
    copied: &[bool],
    is_read: bool,
) -> Result<Vec<OperandPiece<T>>, CallFailure> {
    pieces
        .into_iter()
        .zip(copied)
        .map(|(given, is_copied)| {
            let copy = match (is_copied, is_read) {
                (false, _) => None,
                // SAFETY: as the caller says.
                (true, true) => Some(unsafe { LineCopy::read(&given)? }),
                (true, false) => Some(LineCopy::make_zeros(&given)?),
            };
            Ok(OperandPiece { given, copy })
        })
        .collect()
}

/// Returns the number of lines of a piece, and the elements of each. There are none without memory that could be used.
fn find_shape<T>(piece: &MemoryPiece<T>) -> (usize, usize) {
    let bytes = piece.length.checked_mul(size_of::<T>());
    let is_memory = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if piece.length == 0 || piece.data.is_null() || !is_memory {
        return (0, 0);
    }
    let ld = piece.ld.max(1);
    let count = piece.length.div_ceil(ld);
    (count, piece.length - (count - 1) * ld)
}

/// Returns the lines of a piece; `None` if it has no elements, or no memory that could be used.
fn find_lines<T>(piece: &MemoryPiece<T>) -> Option<MemoryLines> {
    let (count, length) = find_shape(piece);
    let distance = piece.ld.max(1).saturating_mul(size_of::<T>());
    MemoryLines::new(
        piece.data.addr(),
        (count, length * size_of::<T>()),
        distance,
    )
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

impl<T: Element> OperandPiece<T> {
    /// Returns the elements and the leading dimension.
    ///
    /// # Safety
    /// Nothing writes the elements for `'a`.
    unsafe fn as_slice(&self) -> (&[T], usize) {
        let Self { given, copy } = self;
        match copy {
            Some(copy) => (&copy.elements, copy.line_length),
            None if given.length == 0 => (&[], given.ld),
            // SAFETY: `Operands::new` has checked the pointer and the length. No slice that is written overlaps this one.
            None => unsafe {
                let elements = std::slice::from_raw_parts(given.data.cast_const(), given.length);
                (elements, given.ld)
            },
        }
    }

    /// Returns the elements to be written, and the leading dimension.
    ///
    /// # Safety
    /// Nothing else uses the elements for `'a`.
    unsafe fn as_mut_slice(&mut self) -> (&mut [T], usize) {
        let Self { given, copy } = self;
        match copy {
            Some(copy) => (&mut copy.elements, copy.line_length),
            None if given.length == 0 => (&mut [], given.ld),
            // SAFETY: `Operands::new` has checked the pointer and the length. No other slice overlaps this one.
            None => unsafe {
                let elements = std::slice::from_raw_parts_mut(given.data, given.length);
                (elements, given.ld)
            },
        }
    }
}

impl<T: Element> LineCopy<T> {
    /// Makes the memory for the lines of a piece, all 0.
    fn make_zeros(piece: &MemoryPiece<T>) -> Result<Self, Error> {
        let (count, line_length) = find_shape(piece);
        let length = count.saturating_mul(line_length);
        let mut elements = pointers::reserve(length, "lines between those of another matrix")?;
        elements.resize(length, T::ZERO);
        Ok(Self {
            elements,
            line_length,
        })
    }

    /// Copies the lines of a piece.
    ///
    /// # Safety
    /// The piece has its elements.
    unsafe fn read(piece: &MemoryPiece<T>) -> Result<Self, Error> {
        let mut copy = Self::make_zeros(piece)?;
        for (index, line) in copy
            .elements
            .chunks_exact_mut(copy.line_length.max(1))
            .enumerate()
        {
            // SAFETY: a line of the piece, as the caller says; the copy is memory of its own.
            unsafe {
                piece
                    .data
                    .cast_const()
                    .add(index * piece.ld)
                    .copy_to_nonoverlapping(line.as_mut_ptr(), line.len());
            }
        }
        Ok(copy)
    }

    /// Writes the lines of a piece.
    ///
    /// # Safety
    /// The piece has its elements, which nothing else uses.
    unsafe fn write(&self, piece: &MemoryPiece<T>) {
        for (index, line) in self
            .elements
            .chunks_exact(self.line_length.max(1))
            .enumerate()
        {
            // SAFETY: a line of the piece, as the caller says; the copy is memory of its own.
            unsafe {
                piece
                    .data
                    .add(index * piece.ld)
                    .copy_from_nonoverlapping(line.as_ptr(), line.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two rows of a column-major array of 4 × 3.
    fn cut_rows(array: &mut [f64; 12], row: usize) -> MemoryPiece<f64> {
        MemoryPiece {
            data: array.as_mut_ptr().wrapping_add(row),
            length: 4 * 2 + 2,
            ld: 4,
        }
    }

    /// Returns why a product of these pieces is refused.
    fn refuse(pieces: [Vec<MemoryPiece<f64>>; 3]) -> Option<String> {
        // SAFETY: the pieces have their elements, or are refused before they are touched.
        let made = unsafe { Operands::new(pieces, true) };
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
        let empty = MemoryPiece {
            length: 0,
            ..cut_rows(&mut array, 0)
        };
        let whole = vec![cut_rows(&mut array, 0)];
        assert_eq!(refuse([whole, Vec::new(), vec![empty]]), None);
    }

    #[test]
    fn what_is_no_memory_is_not_compared() {
        let [one, other] = [0, 1].map(|_| {
            vec![MemoryPiece {
                data: std::ptr::NonNull::<f64>::dangling().as_ptr(),
                length: usize::MAX,
                ld: 1,
            }]
        });
        let text = refuse([one, Vec::new(), other]).unwrap();
        assert!(text.contains("more than any memory has"), "{text}");
    }

    #[test]
    fn slices_of_lines_between_each_other_do_not_overlap() {
        let mut array: [f64; 12] = std::array::from_fn(|index| index as f64);
        let below = [0, 2].map(|row| cut_rows(&mut array, row));
        let [a, c] = below.map(|piece| vec![piece]);
        // SAFETY: the pieces lie in the array.
        let mut operands = unsafe { Operands::new([a, Vec::new(), c], true) }.unwrap();
        assert_eq!(operands.list_copied(), [true, false, false]);
        // SAFETY: nothing else uses the array.
        let ([a, _], c) = unsafe { operands.as_slices() };
        let (a, c) = (format!("{a:?}"), format!("{c:?}"));
        assert!(a.contains("([0.0, 1.0, 4.0, 5.0, 8.0, 9.0], 2)"), "{a}");
        assert!(
            c.contains("([2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0], 4)"),
            "{c}"
        );
    }

    #[test]
    fn blocks_of_the_result_between_each_other_are_written_back() {
        for reads_c in [true, false] {
            let mut array: [f64; 12] = std::array::from_fn(|index| index as f64);
            let blocks = [0, 2].map(|row| cut_rows(&mut array, row));
            let pieces = [Vec::new(), Vec::new(), Vec::from(blocks)];
            // SAFETY: the pieces lie in the array.
            let mut operands = unsafe { Operands::new(pieces, reads_c) }.unwrap();
            assert_eq!(operands.list_copied(), [false, false, true]);
            for piece in &mut operands.result {
                // SAFETY: nothing else uses the array.
                let (elements, ld) = unsafe { piece.as_mut_slice() };
                assert_eq!((elements.len(), ld), (6, 2));
                elements.iter_mut().for_each(|element| *element += 100.0);
            }
            // SAFETY: as above.
            unsafe { operands.write_back() };
            let wanted = |index: usize| 100.0 + if reads_c { index as f64 } else { 0.0 };
            assert_eq!(array, std::array::from_fn(wanted));
        }
    }

    #[test]
    fn lines_beyond_all_memory_are_an_error() {
        let piece = MemoryPiece {
            data: std::ptr::NonNull::<f64>::dangling().as_ptr(),
            length: 1 << 48,
            ld: 1 << 48,
        };
        assert!(LineCopy::make_zeros(&piece).is_err());
    }
}
