//! The memory of A, B and C on this rank as slices, of which no one that is written overlaps another.
//!
//! Parts of one array may lie between each other. Their slices, from the first element to the last, overlap then, although
//! they share no element. Such parts of A and B are copied, and a block of C that overlaps another one is computed in memory
//! of its own.

use isochron::Error;
use isochron::matrix::MemoryLines;
use isochron::prelude::{Element, Pieces};

use crate::matrix::MemoryPiece;
use crate::overlap::{check_result, find_lines, find_shape};
use crate::pointers;
use crate::status::CallFailure;

/// The memory of A, B and C, checked.
pub(crate) struct Operands<T> {
    factors: [Vec<OperandPiece<T>>; 2],
    result: Vec<OperandPiece<T>>,
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
        check_result([("a", &a), ("b", &b)], &c)?;
        for (name, pieces) in [("a.data", &a), ("b.data", &b), ("c.data", &c)] {
            for piece in pieces {
                pointers::check_slice(piece.data.cast_const(), piece.length, name)?;
            }
        }
        let lines: Vec<Option<MemoryLines>> = c.iter().map(find_lines).collect();
        let (mut result, mut written) = (Vec::new(), Vec::new());
        for (index, given) in c.into_iter().enumerate() {
            let mut others = lines
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            let is_alone = !others.any(|(_, other)| lie_between(lines[index], *other));
            let copy = match (is_alone, reads_c) {
                (true, _) => None,
                // SAFETY: checked above, so it has its elements, as the caller says.
                (false, true) => Some(unsafe { LineCopy::read(&given)? }),
                (false, false) => Some(LineCopy::make_zeros(&given)?),
            };
            written.extend(is_alone.then_some(lines[index]));
            result.push(OperandPiece { given, copy });
        }
        // SAFETY: as above.
        let factors = unsafe { [read_factor(a, &written)?, read_factor(b, &written)?] };
        Ok(Self { factors, result })
    }

    /// Returns the memory of A, B and C.
    ///
    /// # Safety
    /// Nothing else writes the elements of A and B for `'a`, or uses those of C.
    pub(crate) unsafe fn as_slices(&mut self) -> ([Pieces<&[T]>; 2], Pieces<&mut [T]>) {
        let factors = self.factors.each_ref().map(|pieces| {
            // SAFETY: as the caller says.
            let slices = pieces.iter().map(|piece| unsafe { piece.as_slice() });
            Pieces::from(slices.collect::<Vec<_>>())
        });
        // SAFETY: as the caller says.
        let slices = (self.result.iter_mut()).map(|piece| unsafe { piece.as_mut_slice() });
        (factors, Pieces::from(slices.collect::<Vec<_>>()))
    }

    /// Writes the blocks of C that were computed in memory of their own.
    ///
    /// # Safety
    /// Nothing else uses the elements of C.
    pub(crate) unsafe fn write_back(&self) {
        for OperandPiece { given, copy } in &self.result {
            if let Some(copy) = copy {
                // SAFETY: as the caller says; `new` has checked the memory.
                unsafe { copy.write(given) };
            }
        }
    }
}

/// Returns the pieces of A or B, with copies of those that would overlap what is written.
///
/// # Safety
/// Each piece has its elements.
unsafe fn read_factor<T: Element>(
    pieces: Vec<MemoryPiece<T>>,
    written: &[Option<MemoryLines>],
) -> Result<Vec<OperandPiece<T>>, CallFailure> {
    let pieces = pieces.into_iter().map(|given| {
        let lines = find_lines(&given);
        let copy = match written.iter().any(|other| lie_between(lines, *other)) {
            // SAFETY: as the caller says.
            true => Some(unsafe { LineCopy::read(&given)? }),
            false => None,
        };
        Ok(OperandPiece { given, copy })
    });
    pieces.collect()
}

/// Returns `true` if slices of both would overlap.
fn lie_between(one: Option<MemoryLines>, other: Option<MemoryLines>) -> bool {
    one.zip(other)
        .is_some_and(|(one, other)| one.spans_overlap(&other))
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
                let from = piece.data.cast_const().add(index * piece.ld);
                from.copy_to_nonoverlapping(line.as_mut_ptr(), line.len());
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
                let to = piece.data.add(index * piece.ld);
                to.copy_from_nonoverlapping(line.as_ptr(), line.len());
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

    #[test]
    fn slices_of_lines_between_each_other_do_not_overlap() {
        let mut array: [f64; 12] = std::array::from_fn(|index| index as f64);
        let below = [0, 2].map(|row| cut_rows(&mut array, row));
        let [a, c] = below.map(|piece| vec![piece]);
        // SAFETY: the pieces lie in the array.
        let mut operands = unsafe { Operands::new([a, Vec::new(), c], true) }.unwrap();
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
