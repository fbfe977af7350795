//! Rectangles of elements.

use std::ops::Range;

use isochron_devices::ViewMut;
use serde::{Deserialize, Serialize};

/// A rectangle of elements of a matrix: a rank's part of it, a window, a panel or a piece of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Region {
    /// First row of the rectangle of C, in elements.
    pub row: usize,
    /// First column of the rectangle of C, in elements.
    pub col: usize,
    /// Rows of the rectangle, in elements.
    pub rows: usize,
    /// Columns of the rectangle, in elements.
    pub cols: usize,
}

impl Region {
    /// Makes the rectangle of these rows and columns.
    pub fn new(rows: Range<usize>, cols: Range<usize>) -> Self {
        Self { row: rows.start, col: cols.start, rows: rows.len(), cols: cols.len() }
    }

    /// Returns the row indices.
    pub fn row_range(&self) -> Range<usize> {
        self.row..self.row + self.rows
    }

    /// Returns the column indices.
    pub fn col_range(&self) -> Range<usize> {
        self.col..self.col + self.cols
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Returns `true` if the rectangle holds no element.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Returns the elements that both rectangles hold. An empty one starts where the intersection would.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::new(
            intersect(&self.row_range(), &other.row_range()),
            intersect(&self.col_range(), &other.col_range()),
        )
    }

    /// Returns the same elements, counted from the first row and column of `outer`, which holds them all.
    ///
    /// # Panics
    /// If `outer` begins after this rectangle (in a debug build).
    #[must_use]
    pub fn relative_to(&self, outer: &Self) -> Self {
        Self { row: self.row - outer.row, col: self.col - outer.col, ..*self }
    }

    /// Returns the same elements in the transposed matrix.
    #[must_use]
    pub fn transposed(&self) -> Self {
        Self { row: self.col, col: self.row, rows: self.cols, cols: self.rows }
    }

    /// Returns the place of `inner` in a buffer that holds this rectangle column after column.
    ///
    /// # Panics
    /// If `inner` does not lie in this rectangle, or `buffer` does not hold it.
    pub(crate) fn view_part<'b, T>(&self, inner: &Region, buffer: &'b mut [T]) -> ViewMut<'b, T> {
        let inner = inner.relative_to(self);
        ViewMut::new(buffer, self.rows, self.cols, self.rows.max(1))
            .into_block(inner.row_range(), inner.col_range())
    }
}

/// Returns the indices that both ranges hold. An empty range starts where the intersection would.
pub(crate) fn intersect(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_meet_where_rows_and_columns_do() {
        let (one, other) = (Region::new(2..6, 0..4), Region::new(4..9, 3..5));
        let both = one.intersection(&other);
        assert_eq!(both, Region::new(4..6, 3..4));
        assert_eq!(both.relative_to(&one), Region::new(2..4, 3..4));
        assert_eq!(both.transposed(), Region::new(3..4, 4..6));
        let apart = one.intersection(&Region::new(7..9, 0..9));
        assert_eq!((apart.row, apart.len()), (7, 0));
        assert!(apart.is_empty());
    }

    #[test]
    fn a_region_has_its_place_in_a_larger_one() {
        let outer = Region::new(1..4, 5..7);
        let mut buffer = vec![0; outer.len()];
        let mut place = outer.view_part(&Region::new(2..4, 6..7), &mut buffer);
        place.col_mut(0).copy_from_slice(&[7, 8]);
        assert_eq!(buffer, [0, 0, 0, 0, 7, 8]);
    }
}
