//! Matrix views: the arguments of workers and BLAS libraries, and parts of a program's arrays.
//!
//! Element `(i, j)` of a view lies `i*row_stride + j*col_stride` elements behind the first one. One of the strides is 1, so
//! columns or rows are contiguous. A view borrows its elements alone. The elements between its lines may belong to other
//! views, also to views that are written: parts of one array that lie between each other are views without copies.

mod copy;

use crate::contract::Scalar;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;

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

/// Returns the number of elements from the first to the last one of `lines` lines of `along` elements, `ld` apart.
fn count_spanned(along: usize, lines: usize, ld: usize) -> usize {
    if along == 0 || lines == 0 {
        return 0;
    }
    (lines - 1).checked_mul(ld).and_then(|n| n.checked_add(along)).unwrap_or(usize::MAX)
}

/// A `rows × cols` matrix in memory that is borrowed as `D`, a shared or a mutable slice. Elements between its lines are not
/// borrowed.
// Invariants, which every constructor establishes and every cut keeps:
// 1. If there are elements, those at `first + i*row_stride + j*col_stride` lie in one allocation, and the last one is at most
//    `isize::MAX` bytes behind the first.
// 2. One stride is 1. The other one is at least the length of a line, so no two elements share a place.
// 3. With `D = &[T]` nothing writes the elements while the view lives; with `D = &mut [T]` nothing else uses them.
pub struct MatrixView<T, D> {
    first: NonNull<T>,
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
    memory: PhantomData<D>,
}

/// A read-only matrix.
///
/// ```
/// use isochron_devices::View;
/// let a = View::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2, 3, 2);
/// assert_eq!(a.col(1), &[3.0, 4.0]);
/// assert_eq!(a.columns(1..3).col(1), &[5.0, 6.0]);
/// ```
pub type View<'a, T> = MatrixView<T, &'a [T]>;

/// A writable matrix.
///
/// The parts of an array can be used together, although their columns lie between each other:
/// ```
/// use isochron_devices::ViewMut;
/// let mut array = [1.0, 2.0, 3.0, 4.0];
/// let (mut top, bottom) = ViewMut::new(&mut array, 2, 2, 2).split_at_row(1);
/// top.copy_from(bottom.rb());
/// assert_eq!(array, [2.0, 2.0, 4.0, 4.0]);
/// ```
pub type ViewMut<'a, T> = MatrixView<T, &'a mut [T]>;

// SAFETY: a view gives the access to its elements that the slice `D` gives, so it may go wherever the slice may.
unsafe impl<T, D: Send> Send for MatrixView<T, D> {}

// SAFETY: as above.
unsafe impl<T, D: Sync> Sync for MatrixView<T, D> {}

impl<T, D: Copy> Clone for MatrixView<T, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, D: Copy> Copy for MatrixView<T, D> {}

impl<T, D> fmt::Debug for MatrixView<T, D> {
    /// Prints the shape and the strides.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MatrixView")
            .field("rows", &self.rows)
            .field("cols", &self.cols)
            .field("row_stride", &self.row_stride)
            .field("col_stride", &self.col_stride)
            .finish_non_exhaustive()
    }
}

impl<T, D: Into<NonNull<[T]>>> MatrixView<T, D> {
    /// Views `data` as a `rows × cols` matrix, column-major with leading dimension `ld`. The data may end right after the last
    /// element.
    ///
    /// # Panics
    /// If `ld < max(1, rows)` or `data` is shorter than `(cols - 1)*ld + rows`.
    pub fn new(data: D, rows: usize, cols: usize, ld: usize) -> Self {
        let (least, needed) = (rows.max(1), count_spanned(rows, cols, ld));
        assert!(ld >= least, "a view of {rows}x{cols} needs ld >= {least}, not {ld}");
        let data = data.into();
        assert!(
            data.len() >= needed,
            "a view of {rows}x{cols} with ld {ld} needs {needed} elements, not {}",
            data.len()
        );
        Self { first: data.cast(), rows, cols, row_stride: 1, col_stride: ld, memory: PhantomData }
    }

    /// Views `data` as a `rows × cols` matrix, row-major with leading dimension `ld`. The data may end right after the last
    /// element.
    ///
    /// # Panics
    /// If `ld < max(1, cols)` or `data` is shorter than `(rows - 1)*ld + cols`.
    pub fn by_rows(data: D, rows: usize, cols: usize, ld: usize) -> Self {
        Self::new(data, cols, rows, ld).transposed()
    }

    /// Views `data` as a matrix of one column.
    pub fn column(data: D) -> Self {
        let data = data.into();
        Self {
            first: data.cast(),
            rows: data.len(),
            cols: 1,
            row_stride: 1,
            col_stride: data.len().max(1),
            memory: PhantomData,
        }
    }
}

impl<T, D> MatrixView<T, D> {
    /// Views memory that begins at `first` as a `rows × cols` matrix. No reference to the elements is made before they are
    /// used.
    ///
    /// # Safety
    /// If the matrix has elements, `first` is aligned, and all elements are values of one allocation, in which the last is at
    /// most `isize::MAX` bytes behind the first. As long as the view lives, nothing writes the elements of a [`View`], and
    /// nothing else uses those of a [`ViewMut`].
    ///
    /// # Panics
    /// If neither stride is 1 with the other one at least `max(1, rows)` or `max(1, cols)`, the length of a line.
    pub unsafe fn from_raw(
        first: NonNull<T>,
        [rows, cols]: [usize; 2],
        [row_stride, col_stride]: [usize; 2],
    ) -> Self {
        assert!(
            row_stride == 1 && col_stride >= rows.max(1)
                || col_stride == 1 && row_stride >= cols.max(1),
            "a view of {rows}x{cols} has strides {row_stride} and {col_stride}"
        );
        let is_empty = rows == 0 || cols == 0;
        Self {
            first: if is_empty { NonNull::dangling() } else { first },
            rows,
            cols,
            row_stride,
            col_stride,
            memory: PhantomData,
        }
    }

    /// Makes a matrix without elements. One of `rows` and `cols` is 0.
    ///
    /// # Panics
    /// If neither is 0.
    pub fn empty(rows: usize, cols: usize) -> Self {
        assert!(rows == 0 || cols == 0, "{rows}x{cols} has elements");
        Self {
            first: NonNull::dangling(),
            rows,
            cols,
            row_stride: 1,
            col_stride: rows.max(1),
            memory: PhantomData,
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

    /// Returns `true` if there is no element.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Returns `true` if the columns are contiguous, as workers need them.
    pub fn is_by_columns(&self) -> bool {
        self.row_stride == 1 || self.rows <= 1
    }

    /// Returns `true` if the rows are contiguous.
    pub fn is_by_rows(&self) -> bool {
        self.col_stride == 1 || self.cols <= 1
    }

    /// Returns the distance between the starts of neighbouring columns, in elements.
    ///
    /// # Panics
    /// If the columns are not contiguous.
    pub fn ld(&self) -> usize {
        self.check_columns();
        // The distance to a column that does not exist may be less.
        self.col_stride.max(self.rows).max(1)
    }

    /// Returns the address of the first element. Without elements it may be any address.
    pub fn as_ptr(&self) -> *const T {
        self.first.as_ptr()
    }

    /// Returns the memory from the first element to the last one, with what lies between the lines.
    pub fn span(&self) -> *const [T] {
        let (along, lines, ld) = if self.row_stride == 1 {
            (self.rows, self.cols, self.col_stride)
        } else {
            (self.cols, self.rows, self.row_stride)
        };
        ptr::slice_from_raw_parts(self.as_ptr(), count_spanned(along, lines, ld))
    }

    /// Returns the transposed matrix in the same memory.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// Returns `true` if the columns follow each other without elements between them.
    fn is_packed(&self) -> bool {
        self.row_stride == 1 && self.col_stride == self.rows
    }

    fn check_columns(&self) {
        // A copy: a message that borrows the view would keep the compiler from holding it in registers.
        let stride = self.row_stride;
        assert!(
            self.is_by_columns(),
            "columns are not contiguous: rows are {stride} elements apart"
        );
    }

    /// Returns the part in these rows and columns. If the view is writable, only one of two views of an element may be used.
    fn cut(&self, rows: &Range<usize>, cols: &Range<usize>) -> Self {
        let (n_rows, n_cols) = (self.rows, self.cols);
        assert!(rows.start <= rows.end && rows.end <= n_rows, "rows {rows:?} of {n_rows}");
        assert!(cols.start <= cols.end && cols.end <= n_cols, "columns {cols:?} of {n_cols}");
        let first = if rows.is_empty() || cols.is_empty() {
            self.first
        } else {
            let offset = rows.start * self.row_stride + cols.start * self.col_stride;
            // SAFETY: the part has an element, so its first one is an element of this matrix (invariant 1).
            unsafe { self.first.add(offset) }
        };
        Self { first, rows: rows.len(), cols: cols.len(), ..*self }
    }

    /// Returns the first element of column `j`, which is contiguous.
    fn find_column(&self, j: usize) -> NonNull<T> {
        assert!(j < self.cols, "column {j} of {}", self.cols);
        self.check_columns();
        if self.rows == 0 {
            return self.first;
        }
        // SAFETY: the column has an element, its first one (invariant 1).
        unsafe { self.first.add(j * self.col_stride) }
    }
}

impl<'a, T> View<'a, T> {
    /// Returns column `j`, a slice of `rows` elements.
    ///
    /// # Panics
    /// If `j >= cols`, or the columns are not contiguous.
    pub fn col(&self, j: usize) -> &'a [T] {
        let first = self.find_column(j);
        // SAFETY: the elements of the column are those of this view (invariant 1), which nothing writes (invariant 3).
        unsafe { slice::from_raw_parts(first.as_ptr(), self.rows) }
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
        self.cut(&rows, &cols)
    }
}

impl<T> ViewMut<'_, T> {
    /// Returns the address of the first element, to be written. Without elements it may be any address.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.first.as_ptr()
    }

    /// Returns column `j`, to be changed.
    ///
    /// # Panics
    /// If `j >= cols`, or the columns are not contiguous.
    pub fn col_mut(&mut self, j: usize) -> &mut [T] {
        let first = self.find_column(j);
        // SAFETY: the elements of the column are those of this view (invariant 1), which nothing else uses (invariant 3) while
        // it is borrowed.
        unsafe { slice::from_raw_parts_mut(first.as_ptr(), self.rows) }
    }

    /// Returns element `(i, j)`, to be changed.
    ///
    /// # Panics
    /// If `i >= rows` or `j >= cols`.
    pub fn element_mut(&mut self, i: usize, j: usize) -> &mut T {
        let (rows, cols) = (self.rows, self.cols);
        assert!(i < rows && j < cols, "element ({i}, {j}) of {rows}x{cols}");
        // SAFETY: an element of this view (invariant 1), which nothing else uses (invariant 3) while it is borrowed.
        unsafe { self.first.add(i * self.row_stride + j * self.col_stride).as_mut() }
    }

    /// Returns the same matrix, to be read.
    pub fn rb(&self) -> View<'_, T> {
        MatrixView {
            first: self.first,
            rows: self.rows,
            cols: self.cols,
            row_stride: self.row_stride,
            col_stride: self.col_stride,
            memory: PhantomData,
        }
    }

    /// Returns the same matrix for a shorter time, so that this view can be used again.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        MatrixView { ..*self }
    }

    /// Returns the columns before `j`, and the others.
    ///
    /// # Panics
    /// If `j > cols`.
    pub fn split_at_col(self, j: usize) -> (Self, Self) {
        assert!(j <= self.cols, "split at column {j} of {}", self.cols);
        let rows = 0..self.rows;
        (self.cut(&rows, &(0..j)), self.cut(&rows, &(j..self.cols)))
    }

    /// Returns the rows before `i`, and the others.
    ///
    /// # Panics
    /// If `i > rows`.
    pub fn split_at_row(self, i: usize) -> (Self, Self) {
        assert!(i <= self.rows, "split at row {i} of {}", self.rows);
        let cols = 0..self.cols;
        (self.cut(&(0..i), &cols), self.cut(&(i..self.rows), &cols))
    }

    /// Returns the part of this matrix in the rows and columns given.
    ///
    /// # Panics
    /// If a range reaches past the view, or runs backwards.
    pub fn into_block(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        self.cut(&rows, &cols)
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
    /// Computes `C = beta·C` for a C with contiguous columns; `beta = 0` overwrites C without reading it.
    ///
    /// # Panics
    /// If the columns are not contiguous.
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
    #[should_panic(expected = "a view of 3x2 has strides 3 and 2")]
    fn memory_without_contiguous_lines_is_refused() {
        let data = [0; 9];
        // SAFETY: it is refused.
        unsafe { View::from_raw(NonNull::from(&data).cast::<i32>(), [3, 2], [3, 2]) };
    }

    #[test]
    #[should_panic(expected = "are not contiguous")]
    fn rows_are_no_columns() {
        View::by_rows(&[0; 6], 2, 3, 3).ld();
    }

    #[test]
    fn a_row_major_matrix_is_the_transposed_one() {
        let data = [1, 2, 3, -1, 4, 5, 6];
        let view = View::by_rows(&data, 2, 3, 4);
        assert_eq!((view.rows(), view.cols()), (2, 3));
        assert!(!view.is_by_columns() && view.span().len() == 7);
        let transposed = view.transposed();
        assert_eq!((transposed.rows(), transposed.ld()), (3, 4));
        assert_eq!(transposed.col(1), [4, 5, 6]);
        // A single row is a matrix of contiguous columns, and so is a single column without others beside it.
        let row = view.block(1..2, 0..3);
        assert_eq!((row.ld(), row.col(2)), (1, &[6][..]));
        assert_eq!(View::by_rows(&data[..3], 3, 1, 1).ld(), 3);
        let mut copy = [0; 6];
        let mut target = ViewMut::new(&mut copy, 2, 3, 2);
        for (i, j) in (0..2).flat_map(|i| (0..3).map(move |j| (i, j))) {
            *target.element_mut(i, j) = view.transposed().col(i)[j];
        }
        assert_eq!(copy, [1, 4, 2, 5, 3, 6]);
    }

    #[test]
    fn parts_between_each_other_are_used_at_once() {
        let mut array: Vec<i64> = (0..30).collect();
        let whole = ViewMut::new(&mut array, 5, 6, 5);
        let (mut upper, lower) = whole.split_at_row(2);
        let (mut left, right) = lower.split_at_col(3);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..6).for_each(|j| upper.col_mut(j).fill(-1)));
            scope.spawn(|| left.copy_from(right.rb()));
        });
        for (at, &value) in array.iter().enumerate() {
            let expected = match (at % 5, at / 5) {
                (0..2, _) => -1,
                (_, 0..3) => at as i64 + 15,
                _ => at as i64,
            };
            assert_eq!(value, expected, "at {at}");
        }
    }

    #[test]
    fn pieces_of_foreign_memory_may_lie_between_each_other() {
        let mut array = [1.0; 4 * 3];
        let first = NonNull::from(&mut array).cast::<f64>();
        // SAFETY: rows 0 and 1, and row 3, of the array, which have no element in common.
        let (mut upper, mut low) = unsafe {
            (
                ViewMut::from_raw(first, [2, 3], [1, 4]),
                ViewMut::from_raw(first.add(3), [1, 3], [1, 4]),
            )
        };
        let part = upper.reborrow().into_block(1..2, 0..3);
        low.copy_from(part.rb());
        upper.scale(3.0);
        low.scale(2.0);
        upper.scale(0.0);
        upper.col_mut(2)[1] = 7.0;
        assert_eq!((upper.as_mut_ptr(), low.rb().col(1)), (first.as_ptr(), &[2.0][..]));
        assert_eq!(array, [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 1.0, 2.0, 0.0, 7.0, 1.0, 2.0]);
    }

    #[test]
    fn empty_views_need_no_data() {
        let view: View<'_, f64> = View::new(&[], 0, 5, 1);
        assert_eq!(view.col(4), &[] as &[f64]);
        assert_eq!(view.columns(2..5).cols(), 3);
        assert_eq!(View::<f64>::new(&[], 4, 0, 4).block(1..3, 0..0).rows(), 2);
        assert_eq!(ViewMut::<f64>::empty(3, 0).split_at_row(1).1.rows(), 2);
        // SAFETY: there are no elements.
        let view =
            unsafe { View::<f64>::from_raw(NonNull::<u8>::dangling().cast(), [0, 2], [1, 1]) };
        assert_eq!((view.col(1), view.span().len()), (&[][..], 0));
    }

    proptest! {
        #[test]
        fn slices_are_the_columns(rows in 0usize..5, pad in 0usize..3, widths in prop::collection::vec(0usize..4, 0..5)) {
            let ld = (rows + pad).max(1);
            let cols = widths.iter().sum();
            let mut data: Vec<usize> = (0..count_spanned(rows, cols, ld)).collect();
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
