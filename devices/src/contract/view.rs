//! Column-major matrix views: the arguments of workers and BLAS libraries.
//!
//! Element `(i, j)` of a view lies at `data[i + j*ld]`. A view may end right after its last element:
//! it needs `(cols - 1)*ld + rows` elements, or none when it is empty.

use crate::contract::Scalar;
use std::ops::{Deref, Range};

/// The distance in bytes at which addresses share a set of a first-level cache.
const PAGE_BYTES: usize = 4096;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Returns the best leading dimension for a matrix of `rows` rows: `rows`, or a cache line more if the elements of a
/// row would lie multiples of 4 KiB apart and push each other out of the caches.
pub fn leading_dimension<T>(rows: usize) -> usize {
    if rows > 0 && rows.is_multiple_of(PAGE_BYTES / size_of::<T>()) {
        rows + LINE_BYTES / size_of::<T>()
    } else {
        rows.max(1)
    }
}

/// Returns the number of elements that a `rows × cols` matrix with leading dimension `ld` spans.
fn span(rows: usize, cols: usize, ld: usize) -> usize {
    if rows == 0 || cols == 0 {
        return 0;
    }
    (cols - 1)
        .checked_mul(ld)
        .and_then(|n| n.checked_add(rows))
        .unwrap_or(usize::MAX)
}

/// A matrix in memory `D`: `rows × cols`, column-major, leading dimension `ld >= max(1, rows)`.
#[derive(Debug, Clone, Copy)]
pub struct MatrixView<D> {
    data: D,
    rows: usize,
    cols: usize,
    ld: usize,
}

/// A read-only matrix.
///
/// ```
/// use isochron_devices::View;
/// let a = View::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, 3, 2);
/// assert_eq!(a.col(1), &[3.0, 4.0]);
/// assert_eq!(a.columns(1..3).col(1), &[5.0, 6.0]);
/// ```
pub type View<'a, T> = MatrixView<&'a [T]>;

/// A writable matrix.
pub type ViewMut<'a, T> = MatrixView<&'a mut [T]>;

impl<T, D: Deref<Target = [T]>> MatrixView<D> {
    fn new_checked(data: D, rows: usize, cols: usize, ld: usize) -> Self {
        let (least, needed) = (rows.max(1), span(rows, cols, ld));
        assert!(
            ld >= least,
            "a view of {rows}x{cols} needs ld >= {least}, not {ld}"
        );
        assert!(
            data.len() >= needed,
            "a view of {rows}x{cols} with ld {ld} needs {needed} elements, not {}",
            data.len()
        );
        Self {
            data,
            rows,
            cols,
            ld,
        }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the distance between the starts of neighbouring columns, in elements.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// Returns `true` if there is no element.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Returns the place of a block's elements among the data.
    fn locate_block(&self, rows: &Range<usize>, cols: &Range<usize>) -> Range<usize> {
        let (n_rows, n_cols) = (self.rows, self.cols);
        assert!(
            rows.start <= rows.end && rows.end <= n_rows,
            "rows {rows:?} of {n_rows}"
        );
        assert!(
            cols.start <= cols.end && cols.end <= n_cols,
            "columns {cols:?} of {n_cols}"
        );
        match span(rows.len(), cols.len(), self.ld) {
            0 => 0..0,
            needed => {
                let first = cols.start * self.ld + rows.start;
                first..first + needed
            }
        }
    }

    fn locate_column(&self, j: usize) -> Range<usize> {
        assert!(j < self.cols, "column {j} of {}", self.cols);
        self.locate_block(&(0..self.rows), &(j..j + 1))
    }
}

impl<'a, T> View<'a, T> {
    /// Views `data` as a `rows × cols` matrix.
    ///
    /// # Panics
    /// If `ld < max(1, rows)` or `data` is shorter than `(cols - 1)*ld + rows`.
    pub fn new(data: &'a [T], rows: usize, cols: usize, ld: usize) -> Self {
        Self::new_checked(data, rows, cols, ld)
    }

    /// Returns the elements, with the gaps between columns.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// Returns column `j`, a slice of `rows` elements.
    ///
    /// # Panics
    /// If `j >= cols`.
    pub fn col(&self, j: usize) -> &'a [T] {
        &self.data[self.locate_column(j)]
    }

    /// Returns the columns `range` of this view.
    ///
    /// # Panics
    /// If the range reaches past `cols`, or runs backwards.
    pub fn columns(&self, range: Range<usize>) -> Self {
        self.block(0..self.rows, range)
    }

    /// Returns the part of this view in the rows and columns given.
    ///
    /// # Panics
    /// If a range reaches past the view, or runs backwards.
    pub fn block(&self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let data = &self.data[self.locate_block(&rows, &cols)];
        Self::new(data, rows.len(), cols.len(), self.ld)
    }
}

impl<'a, T> ViewMut<'a, T> {
    /// Views `data` as a `rows × cols` matrix.
    ///
    /// # Panics
    /// As [`View::new`].
    pub fn new(data: &'a mut [T], rows: usize, cols: usize, ld: usize) -> Self {
        Self::new_checked(data, rows, cols, ld)
    }

    /// Returns the elements, with the gaps between columns.
    pub fn data(&self) -> &[T] {
        self.data
    }

    /// Returns the elements, with the gaps between columns.
    pub fn data_mut(&mut self) -> &mut [T] {
        self.data
    }

    /// Returns column `j`, to be changed.
    ///
    /// # Panics
    /// If `j >= cols`.
    pub fn col_mut(&mut self, j: usize) -> &mut [T] {
        let column = self.locate_column(j);
        &mut self.data[column]
    }

    /// Returns the same matrix, to be read.
    pub fn rb(&self) -> View<'_, T> {
        View::new(self.data, self.rows, self.cols, self.ld)
    }

    /// Returns the same matrix for a shorter time, so that this view can be used again.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(self.data, self.rows, self.cols, self.ld)
    }

    /// Returns the columns before `j`, and the others.
    ///
    /// # Panics
    /// If `j > cols`.
    fn split_at_col(self, j: usize) -> (Self, Self) {
        assert!(j <= self.cols, "split at column {j} of {}", self.cols);
        // The last column may end before a whole `ld`, so the cut can lie past the end.
        let cut = j.saturating_mul(self.ld).min(self.data.len());
        let (left, right) = self.data.split_at_mut(cut);
        (
            Self::new(left, self.rows, j, self.ld),
            Self::new(right, self.rows, self.cols - j, self.ld),
        )
    }

    /// Returns the part of this matrix in the rows and columns given.
    ///
    /// # Panics
    /// If a range reaches past the view, or runs backwards.
    pub fn into_block(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        let place = self.locate_block(&rows, &cols);
        Self::new(&mut self.data[place], rows.len(), cols.len(), self.ld)
    }

    /// Cuts the matrix into vertical slices of the widths given, from left to right.
    ///
    /// # Panics
    /// If the widths do not sum to `cols`.
    pub fn split_columns(self, widths: impl IntoIterator<Item = usize>) -> Vec<Self> {
        let mut rest = self;
        let mut slices = Vec::new();
        for width in widths {
            let (slice, right) = rest.split_at_col(width);
            slices.push(slice);
            rest = right;
        }
        let left = rest.cols;
        assert!(left == 0, "the widths leave {left} columns over");
        slices
    }
}

impl<T: Scalar> ViewMut<'_, T> {
    /// Copies a matrix of the same size here; the gaps between columns stay as they are.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn copy_from(&mut self, source: View<'_, T>) {
        let size = (self.rows, self.cols);
        assert_eq!(size, (source.rows, source.cols), "sizes of a copy");
        if self.ld == self.rows && source.ld == source.rows {
            return self.data[..size.0 * size.1].copy_from_slice(&source.data[..size.0 * size.1]);
        }
        for j in 0..self.cols {
            self.col_mut(j).copy_from_slice(source.col(j));
        }
    }

    /// Computes `C = beta·C`; `beta = 0` overwrites C without reading it. The gaps between columns stay as they are.
    pub fn scale(&mut self, beta: T) {
        if beta == T::ONE {
            return;
        }
        for j in 0..self.cols {
            let column = self.col_mut(j);
            if beta == T::ZERO {
                column.fill(T::ZERO);
            } else {
                for value in column {
                    *value = beta * *value;
                }
            }
        }
    }
}

/// Splits `n` columns into `parts` contiguous ranges whose sizes differ by at most one.
pub(crate) fn even_widths(n: usize, parts: usize) -> impl Iterator<Item = usize> {
    (0..parts).map(move |i| n / parts + usize::from(i < n % parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn last_column_may_end_early() {
        let mut data = vec![0; 3 + 3 + 2];
        let view = ViewMut::new(&mut data, 2, 3, 3);
        let (left, right) = view.split_at_col(3);
        assert_eq!((left.cols(), right.cols()), (3, 0));
    }

    #[test]
    #[should_panic(expected = "ld >= 3")]
    fn small_ld_is_refused() {
        View::new(&[0; 9], 3, 3, 2);
    }

    #[test]
    #[should_panic(expected = "needs 8 elements, not 7")]
    fn short_data_is_refused() {
        View::new(&[0; 7], 2, 3, 3);
    }

    #[test]
    fn empty_views_need_no_data() {
        let view: View<'_, f64> = View::new(&[], 0, 5, 1);
        assert_eq!(view.col(4), &[] as &[f64]);
        assert_eq!(view.columns(2..5).cols(), 3);
        assert_eq!(View::<f64>::new(&[], 4, 0, 4).block(1..3, 0..0).rows(), 2);
    }

    proptest! {
        #[test]
        fn slices_are_the_columns(rows in 0usize..5, pad in 0usize..3, widths in prop::collection::vec(0usize..4, 0..5)) {
            let ld = (rows + pad).max(1);
            let cols = widths.iter().sum();
            let mut data: Vec<usize> = (0..span(rows, cols, ld)).collect();
            let copy = data.clone();
            let whole = View::new(&copy, rows, cols, ld);
            let mut j = 0;
            for slice in ViewMut::new(&mut data, rows, cols, ld).split_columns(widths.iter().copied()) {
                for local in 0..slice.cols() {
                    prop_assert_eq!(slice.rb().col(local), whole.col(j));
                    j += 1;
                }
            }
            prop_assert_eq!(j, cols);
        }

        #[test]
        fn even_widths_sum_and_differ_by_one(n in 0usize..100, parts in 1usize..20) {
            let widths: Vec<usize> = even_widths(n, parts).collect();
            prop_assert_eq!(widths.iter().sum::<usize>(), n);
            prop_assert!(widths.iter().max().unwrap() - widths.iter().min().unwrap() <= 1);
        }

        #[test]
        fn blocks_hold_their_elements(r0 in 0usize..4, r1 in 4usize..6, c0 in 0usize..3, c1 in 3usize..5) {
            let data: Vec<usize> = (0..7 * 5).collect();
            let whole = View::new(&data, 6, 5, 7);
            let block = whole.block(r0..r1, c0..c1);
            let mut copy: Vec<f64> = vec![0.0; 7 * 5];
            let mut same: Vec<f64> = data.iter().map(|&value| value as f64).collect();
            ViewMut::new(&mut copy, 6, 5, 7).into_block(r0..r1, c0..c1)
                .copy_from(ViewMut::new(&mut same, 6, 5, 7).into_block(r0..r1, c0..c1).rb());
            for j in 0..block.cols() {
                prop_assert_eq!(block.col(j), &whole.col(c0 + j)[r0..r1]);
            }
            for (at, &value) in copy.iter().enumerate() {
                let inside = (r0..r1).contains(&(at % 7)) && (c0..c1).contains(&(at / 7));
                prop_assert_eq!(value, if inside { at as f64 } else { 0.0 });
            }
        }
    }
}
