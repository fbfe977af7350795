//! Copies between views.

use super::{LINE_BYTES, View, ViewMut};
use std::ptr;

/// Rows and columns of the tiles that are copied at a time if contiguous lines of one side cross those of the other. One tile
/// of each side fits the first-level cache. A tile is short along the columns of the target: if the rows of the source are a
/// power of 2 apart, the second-level cache has few places for them.
const TILE: (usize, usize) = (16, 64);

impl<T: Copy> ViewMut<'_, T> {
    /// Copies a matrix of the same size here.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn copy_from(&mut self, source: View<'_, T>) {
        if !self.is_by_columns() {
            return self.reborrow().transposed().copy_from(source.transposed());
        }
        self.check_size(&source);
        if self.is_packed() && source.is_packed() {
            let count = self.rows * self.cols;
            // SAFETY: the elements of both follow each other without others between them. `self` alone uses its own, so the
            // source has none of them (invariant 3).
            unsafe { ptr::copy_nonoverlapping(source.as_ptr(), self.as_mut_ptr(), count) };
        } else if source.is_by_columns() {
            for j in 0..self.cols {
                self.col_mut(j).copy_from_slice(source.col(j));
            }
        } else {
            self.update_from(source, |to, value| *to = value);
        }
    }

    /// Calls `put` with each element, and the value of the element at the same place in a matrix of the same size.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn update_from(&mut self, source: View<'_, T>, put: impl Fn(&mut T, T)) {
        if !self.is_by_columns() {
            let mut transposed = self.reborrow().transposed();
            return transposed.update_from(source.transposed(), put);
        }
        self.check_size(&source);
        let (rows, cols) = (self.rows, self.cols);
        if source.is_by_columns() {
            for j in 0..cols {
                let (to, from) = (self.col_mut(j), source.col(j));
                to.iter_mut().zip(from).for_each(|(to, &from)| put(to, from));
            }
            return;
        }
        for col in (0..cols).step_by(TILE.1) {
            for row in (0..rows).step_by(TILE.0) {
                let (rows, cols) = (row..rows.min(row + TILE.0), col..cols.min(col + TILE.1));
                self.reborrow()
                    .into_block(rows.clone(), cols.clone())
                    .update_across(source.block(rows, cols), &put);
            }
        }
    }

    /// Does the same for columns here that cross contiguous rows of `source`. A cache line of the source has elements of several
    /// columns, which are all used at once: it need not stay in the cache until the next column.
    fn update_across(&mut self, source: View<'_, T>, put: &impl Fn(&mut T, T)) {
        let group = (LINE_BYTES / size_of::<T>().max(1)).max(1);
        let (rows, cols) = (self.rows, self.cols);
        let (first, ld) = (self.first, self.ld());
        let (from, from_ld) = (source.first, source.transposed().ld());
        let update = |i: usize, j: usize| {
            // SAFETY: both have an element (i, j), as the loops see to and `update_from` has checked. Columns here and rows of
            // the source are contiguous, as `ld` has checked. Nothing else uses the first element, and nothing writes the
            // other one (invariants 1 and 3).
            unsafe {
                put(first.add(i + j * ld).as_mut(), from.add(i * from_ld + j).read());
            }
        };
        let whole = cols / group * group;
        for start in (0..whole).step_by(group) {
            for i in 0..rows {
                (start..start + group).for_each(|j| update(i, j));
            }
        }
        for j in whole..cols {
            (0..rows).for_each(|i| update(i, j));
        }
    }

    fn check_size(&self, source: &View<'_, T>) {
        let size = (self.rows, self.cols);
        assert_eq!(size, (source.rows, source.cols), "sizes of a copy");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(i: usize, j: usize) -> i64 {
        (i + 1000 * j) as i64
    }

    /// Returns memory with a matrix in it, whose lines have `along` elements and `gap` others behind them.
    fn store(along: usize, lines: usize, gap: usize, at: impl Fn(usize, usize) -> i64) -> Vec<i64> {
        (0..(along + gap) * lines)
            .map(|place| (place % (along + gap), place / (along + gap)))
            .map(|(i, line)| if i < along { at(i, line) } else { -7 })
            .collect()
    }

    #[test]
    fn matrices_of_every_order_are_copied_to_every_order() {
        let sizes = [(1, 1), (3, 5), (33, 70), (64, 31), (1, 40), (40, 1), (0, 4), (4, 0)];
        for ((rows, cols), gap) in sizes.into_iter().flat_map(|size| [(size, 0), (size, 2)]) {
            let by_columns = store(rows, cols, gap, element);
            let by_rows = store(cols, rows, gap, |j, i| element(i, j));
            let negative = |values: &[i64]| -> Vec<i64> {
                let negate = |&value: &i64| if value < 0 { value } else { -value };
                values.iter().map(negate).collect()
            };
            for source in [
                View::new(&by_columns, rows, cols, (rows + gap).max(1)),
                View::by_rows(&by_rows, rows, cols, (cols + gap).max(1)),
            ] {
                let mut target = store(rows, cols, gap, |_, _| 0);
                let mut view = ViewMut::new(&mut target, rows, cols, (rows + gap).max(1));
                view.update_from(source, |to, value| *to -= value);
                assert_eq!(target, negative(&by_columns), "{source:?}");
                ViewMut::new(&mut target, rows, cols, (rows + gap).max(1)).copy_from(source);
                assert_eq!(target, by_columns, "{source:?}");
                let mut target = store(cols, rows, gap, |_, _| 0);
                let mut view = ViewMut::by_rows(&mut target, rows, cols, (cols + gap).max(1));
                view.update_from(source, |to, value| *to -= value);
                assert_eq!(target, negative(&by_rows), "{source:?}");
                ViewMut::by_rows(&mut target, rows, cols, (cols + gap).max(1)).copy_from(source);
                assert_eq!(target, by_rows, "{source:?}");
            }
        }
    }
}
