//! The place of a part in memory that may be larger.

use std::ops::Range;

use isochron_devices::leading_dimension;

use super::Region;

/// The place of a rank's part in its memory, column-major, with room around it or without.
///
/// The system makes a page at the first write to it, so room costs addresses alone. A part whose borders move within the
/// room keeps its elements where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    part: Region,
    /// Index of the part's first element.
    start: usize,
    /// Distance between the starts of neighbouring columns. Room for rows lies between the part's columns.
    ld: usize,
    /// Rows of the memory, at most `ld`.
    rows: usize,
    /// Columns of the memory.
    cols: usize,
}

impl Frame {
    /// Makes the place of a part in memory without room.
    pub(super) fn exact<T>(part: Region) -> Self {
        let ld = leading_dimension::<T>(part.rows);
        Self { part, start: 0, ld, rows: ld, cols: part.cols }
    }

    /// Makes the place of a part in memory of the program. What lies between the columns is not for the part.
    pub(super) fn lent(part: Region, ld: usize) -> Self {
        Self { part, start: 0, ld: ld.max(1), rows: part.rows, cols: part.cols }
    }

    /// Makes the place of a part with room for `rows` and `cols` more on each side, as far as `whole` has them.
    pub(super) fn with_room<T>(part: Region, whole: &Region, [rows, cols]: [usize; 2]) -> Self {
        if part.is_empty() {
            return Self::exact::<T>(part);
        }
        let rows = widen(part.row_range(), whole.row_range(), rows);
        let cols = widen(part.col_range(), whole.col_range(), cols);
        let ld = leading_dimension::<T>(rows.len());
        Self {
            part,
            start: part.row - rows.start + (part.col - cols.start) * ld,
            ld,
            rows: ld,
            cols: cols.len(),
        }
    }

    /// Returns the place of another part, in which the elements of both parts stay where they are. `None` if the memory has no
    /// room for it, or if more than half of its columns would be room.
    pub(crate) fn move_to(&self, part: Region) -> Option<Self> {
        if part.is_empty() {
            return Some(Self { part, start: 0, ..*self });
        }
        let (row, col) = if self.part.is_empty() {
            (0, self.cols.saturating_sub(part.cols) / 2)
        } else {
            (
                shift(self.start % self.ld, self.part.row, part.row)?,
                shift(self.start / self.ld, self.part.col, part.col)?,
            )
        };
        let fits = row + part.rows <= self.rows && col + part.cols <= self.cols;
        let is_dense = part.rows >= self.ld / 2;
        (fits && is_dense).then(|| Self { part, start: row + col * self.ld, ..*self })
    }

    /// Returns the same place with another number for the first row and column.
    pub(super) fn renumber(&self, part: Region) -> Self {
        Self { part, ..*self }
    }

    /// Returns the part.
    pub(crate) fn part(&self) -> Region {
        self.part
    }

    /// Returns rows, columns and leading dimension of the memory.
    pub(super) fn memory_shape(&self) -> (usize, usize, usize) {
        (self.rows, self.cols, self.ld)
    }

    /// Returns the rows and columns of the memory that hold the part: none for a part without elements.
    pub(super) fn place(&self) -> Region {
        if self.part.is_empty() {
            return Region::default();
        }
        Region { row: self.start % self.ld, col: self.start / self.ld, ..self.part }
    }

    /// Returns the number of elements of the memory.
    pub(super) fn len(&self) -> usize {
        self.ld.saturating_mul(self.cols)
    }

    /// Counts the elements of the columns that the part covers, with those between the columns: these are the memory that it
    /// takes.
    pub(crate) fn count_covered(&self) -> usize {
        self.ld * self.part.cols
    }
}

/// Widens a range by `more` on both sides, as far as `limits` reach.
fn widen(range: Range<usize>, limits: Range<usize>, more: usize) -> Range<usize> {
    let start = range.start.saturating_sub(more).max(limits.start);
    start..range.end.saturating_add(more).min(limits.end)
}

/// Returns the place of line `to` if line `from` has this one; `None` if it would lie before the memory.
fn shift(place: usize, from: usize, to: usize) -> Option<usize> {
    (place + to).checked_sub(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Region = Region { row: 0, col: 0, rows: 40, cols: 60 };

    /// Rows 10..30 and columns 20..30 with room for 2 rows and 5 columns on each side.
    fn framed() -> Frame {
        Frame::with_room::<f64>(Region::new(10..30, 20..30), &WHOLE, [2, 5])
    }

    fn is_moved(frame: &Frame, rows: Range<usize>, cols: Range<usize>) -> bool {
        let Some(moved) = frame.move_to(Region::new(rows.clone(), cols.clone())) else {
            return false;
        };
        // Element (8, 15) has the first place in the memory.
        let place = moved.place();
        assert_eq!((place.row, place.col), (rows.start - 8, cols.start - 15));
        let (n_rows, n_cols, _) = moved.memory_shape();
        assert!(place.row_range().end <= n_rows && place.col_range().end <= n_cols);
        true
    }

    #[test]
    fn there_is_room_on_the_left_and_on_the_right() {
        let frame = framed();
        assert_eq!(
            (frame.memory_shape(), frame.place()),
            ((24, 20, 24), Region::new(2..22, 5..15))
        );
        assert!(is_moved(&frame, 10..30, 15..30));
        assert!(is_moved(&frame, 10..30, 20..35));
        assert!(is_moved(&frame, 10..30, 15..35));
        assert!(is_moved(&frame, 10..30, 24..28));
    }

    #[test]
    fn there_is_room_above_and_below() {
        let frame = framed();
        assert!(is_moved(&frame, 8..30, 20..30));
        assert!(is_moved(&frame, 10..32, 20..30));
        assert!(is_moved(&frame, 12..32, 15..21));
    }

    #[test]
    fn a_part_in_lent_memory_stays_within_its_rows() {
        let frame = Frame::lent(Region::new(10..30, 20..30), 64);
        assert!(frame.move_to(Region::new(10..31, 20..30)).is_none());
        // Less than half of each column would be the part's.
        assert!(frame.move_to(Region::new(10..20, 20..30)).is_none());
        let dense = Frame::lent(Region::new(10..30, 20..30), 21);
        let smaller = dense.move_to(Region::new(12..30, 22..30)).unwrap();
        assert_eq!(smaller.place(), Region::new(2..20, 2..10));
        assert_eq!(smaller.move_to(dense.part()), Some(dense));
    }

    #[test]
    fn exhausted_room_is_no_place() {
        let frame = framed();
        for (rows, cols) in
            [(10..30, 14..30), (10..30, 20..36), (7..30, 20..30), (10..33, 20..30), (0..40, 0..60)]
        {
            assert!(!is_moved(&frame, rows, cols));
        }
        let exact = Frame::exact::<f64>(Region::new(10..30, 20..30));
        assert!(exact.move_to(Region::new(10..30, 20..31)).is_none());
        assert!(exact.move_to(Region::new(10..29, 21..30)).is_some());
    }

    #[test]
    fn few_rows_of_long_columns_get_memory_of_their_own() {
        let frame = framed();
        assert!(is_moved(&frame, 18..30, 20..30));
        assert!(!is_moved(&frame, 20..30, 20..30));
    }

    #[test]
    fn room_ends_where_the_matrix_does() {
        let part = Region::new(0..40, 50..60);
        let frame = Frame::with_room::<f64>(part, &WHOLE, [5, 100]);
        assert_eq!(frame.memory_shape(), (40, 60, 40));
        assert_eq!(frame.place(), part);
    }

    #[test]
    fn a_part_that_was_empty_takes_any_place() {
        let frame = framed();
        let idle = frame.move_to(Region::default()).unwrap();
        assert!(idle.place().is_empty() && idle.len() == frame.len());
        let narrow = frame.move_to(Region::new(0..40, 9..9)).unwrap();
        assert!(narrow.place().is_empty() && narrow.part().rows == 40);
        let back = idle.move_to(Region::new(0..20, 40..60)).unwrap();
        assert_eq!((back.place().rows, back.place().cols), (20, 20));
        assert!(idle.move_to(Region::new(0..25, 0..9)).is_none());
        let empty = Frame::with_room::<f64>(Region::default(), &WHOLE, [2, 5]);
        assert!(empty.len() == 0 && empty.move_to(Region::new(0..1, 0..1)).is_none());
    }

    #[test]
    fn columns_of_colliding_length_lie_apart() {
        let part = Region::new(0..512, 0..3);
        let frame = Frame::with_room::<f64>(part, &Region::new(0..512, 0..9), [0, 3]);
        assert_eq!(frame.ld, 520);
        assert_eq!(frame.move_to(Region::new(0..512, 0..6)).unwrap().ld, 520);
    }
}
