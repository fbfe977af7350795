//! Passes over the elements of a factor, a few columns at a time.

use std::ops::Range;

use isochron_devices::{ElementType, Scalar, View, ViewMut};
use pulp::{Arch, Simd, WithSimd};

use crate::matrix::{Operand, Region};

/// Columns of a batch: the sum of one row's elements of a batch is added to the row's total at once.
pub(super) const BATCH: usize = 8;
/// Real numbers of a batch's column: a batch and its sums stay in a core's own caches.
const COLUMN: usize = 1024;
/// Columns that are copied or converted at a time, if the elements cannot be read in place.
const COPIED: usize = 32;

/// A few columns of some rows, as real numbers. A complex element is two of them.
pub(super) struct Batch<'a> {
    /// The rows of the factor.
    pub rows: Range<usize>,
    /// The columns of the factor, at most [`BATCH`].
    pub cols: Range<usize>,
    /// The real numbers of each column. The last ones repeat the first one if there are fewer columns.
    pub columns: [&'a [f64]; BATCH],
}

impl Batch<'_> {
    /// Picks the values of the batch's columns, with zeros for columns that only repeat another.
    pub(super) fn pick(&self, values: &[f64]) -> [f64; BATCH] {
        let mut picked = [0.0; BATCH];
        picked[..self.cols.len()].copy_from_slice(&values[self.cols.clone()]);
        picked
    }
}

/// Returns the number of real numbers in an element.
pub(super) fn count_parts<T: Scalar>() -> usize {
    if T::TYPE.is_complex() { 2 } else { 1 }
}

/// Returns the rectangle of the factor that this rank holds.
pub(super) fn find_part<T: Scalar>(factor: &Operand<'_, T>) -> Region {
    let stored = factor.matrix().part();
    if factor.op().transposes() {
        stored.transposed()
    } else {
        stored
    }
}

/// Passes over the elements of `region` that this rank holds.
pub(super) fn pass_over<T: Scalar>(
    factor: &Operand<'_, T>,
    region: &Region,
    mut take: impl FnMut(&Batch<'_>),
) {
    let held = region.intersection(&find_part(factor));
    let (mut copied, mut converted) = (Vec::new(), Vec::new());
    for cols in cut(held.col_range(), COPIED) {
        for rows in cut(held.row_range(), COLUMN / count_parts::<T>()) {
            let tile = Region::new(rows.clone(), cols.clone());
            let view = match factor.in_place(&tile) {
                Some(view) => view,
                None => copy_tile(factor, &tile, &mut copied),
            };
            let columns = read_columns(view, &mut converted);
            for (at, some) in columns.chunks(BATCH).enumerate() {
                let first = cols.start + at * BATCH;
                let mut batch = [some[0]; BATCH];
                batch[..some.len()].copy_from_slice(some);
                take(&Batch {
                    rows: rows.clone(),
                    cols: first..first + some.len(),
                    columns: batch,
                });
            }
        }
    }
}

/// Cuts a range into pieces of at most `len`.
fn cut(range: Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range
        .step_by(len)
        .map(move |start| start..end.min(start + len))
}

fn copy_tile<'b, T: Scalar>(
    factor: &Operand<'_, T>,
    tile: &Region,
    copied: &'b mut Vec<T>,
) -> View<'b, T> {
    copied.resize(tile.len(), T::ZERO);
    factor.copy(tile, ViewMut::new(copied, tile.rows, tile.cols, tile.rows));
    View::new(copied, tile.rows, tile.cols, tile.rows)
}

/// Returns the columns as real numbers in double precision.
fn read_columns<'b, T: Scalar>(view: View<'b, T>, converted: &'b mut Vec<f64>) -> Vec<&'b [f64]> {
    let columns = (0..view.cols()).map(|j| view.col(j));
    if matches!(T::TYPE, ElementType::F64 | ElementType::C64) {
        return columns.map(bytemuck::cast_slice).collect();
    }
    converted.clear();
    for column in columns {
        let singles: &[f32] = bytemuck::cast_slice(column);
        converted.extend(singles.iter().map(|&single| f64::from(single)));
    }
    converted
        .chunks_exact(view.rows() * count_parts::<T>())
        .collect()
}

/// Totals in twice the precision of `f64`: each is `high + low`.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    high: Vec<f64>,
    low: Vec<f64>,
}

impl Totals {
    pub(super) fn zeros(len: usize) -> Self {
        Self {
            high: vec![0.0; len],
            low: vec![0.0; len],
        }
    }

    /// Adds the sum of the columns, each times its factor, to the totals from `first` on.
    pub(super) fn add(&mut self, first: usize, columns: &[&[f64]; BATCH], factors: &[f64; BATCH]) {
        let range = first..first + columns[0].len();
        Arch::new().dispatch(AddProducts {
            high: &mut self.high[range.clone()],
            low: &mut self.low[range],
            columns,
            factors,
        });
    }

    /// As [`add`](Self::add), and adds to each line's size the magnitudes of its numbers, each times the size of its column.
    pub(super) fn add_sized(
        &mut self,
        first: usize,
        columns: &[&[f64]; BATCH],
        factors: &[f64; BATCH],
        sizes: &mut [f64],
        column_sizes: &[f64; BATCH],
    ) {
        let range = first..first + columns[0].len();
        let products = AddProducts {
            high: &mut self.high[range.clone()],
            low: &mut self.low[range.clone()],
            columns,
            factors,
        };
        Arch::new().dispatch(AddSizedProducts {
            products,
            sizes: &mut sizes[range],
            column_sizes,
        });
    }

    /// Returns the totals, rounded once.
    pub(super) fn round(&self) -> Vec<f64> {
        self.high
            .iter()
            .zip(&self.low)
            .map(|(high, low)| high + low)
            .collect()
    }
}

/// # References
/// Knuth, "The Art of Computer Programming", volume 2, 3rd edition, section 4.2.2, theorem B (the error of a sum).
struct AddProducts<'a> {
    high: &'a mut [f64],
    low: &'a mut [f64],
    columns: &'a [&'a [f64]; BATCH],
    factors: &'a [f64; BATCH],
}

impl WithSimd for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let len = self.high.len();
        let low = &mut self.low[..len];
        let [f0, f1, f2, f3, f4, f5, f6, f7] = *self.factors;
        let [c0, c1, c2, c3, c4, c5, c6, c7] = self.columns.map(|column| &column[..len]);
        for i in 0..len {
            let left = (f0 * c0[i] + f1 * c1[i]) + (f2 * c2[i] + f3 * c3[i]);
            let right = (f4 * c4[i] + f5 * c5[i]) + (f6 * c6[i] + f7 * c7[i]);
            let (high, sum) = (self.high[i], left + right);
            let total = high + sum;
            let added = total - high;
            low[i] += (high - (total - added)) + (sum - added);
            self.high[i] = total;
        }
    }
}

/// [`AddProducts`], and to each line's size the magnitudes of its numbers, each times the size of its column.
struct AddSizedProducts<'a> {
    products: AddProducts<'a>,
    sizes: &'a mut [f64],
    column_sizes: &'a [f64; BATCH],
}

impl WithSimd for AddSizedProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let AddProducts {
            high,
            low,
            columns,
            factors,
        } = self.products;
        let len = high.len();
        let (low, sizes) = (&mut low[..len], &mut self.sizes[..len]);
        let [f0, f1, f2, f3, f4, f5, f6, f7] = *factors;
        let [s0, s1, s2, s3, s4, s5, s6, s7] = *self.column_sizes;
        let [c0, c1, c2, c3, c4, c5, c6, c7] = columns.map(|column| &column[..len]);
        for i in 0..len {
            let [x0, x1, x2, x3] = [c0[i], c1[i], c2[i], c3[i]];
            let [x4, x5, x6, x7] = [c4[i], c5[i], c6[i], c7[i]];
            let left = (f0 * x0 + f1 * x1) + (f2 * x2 + f3 * x3);
            let right = (f4 * x4 + f5 * x5) + (f6 * x6 + f7 * x7);
            let left_size = (s0 * x0.abs() + s1 * x1.abs()) + (s2 * x2.abs() + s3 * x3.abs());
            let right_size = (s4 * x4.abs() + s5 * x5.abs()) + (s6 * x6.abs() + s7 * x7.abs());
            sizes[i] += left_size + right_size;
            let (first, sum) = (high[i], left + right);
            let total = first + sum;
            let added = total - first;
            low[i] += (first - (total - added)) + (sum - added);
            high[i] = total;
        }
    }
}

/// Defines a function that adds to each line's sum the terms of its numbers in the columns.
macro_rules! row_sums {
    ($(#[$doc:meta])* $name:ident, $kernel:ident, |$factor:ident, $number:ident| $term:expr) => {
        $(#[$doc])*
        pub(super) fn $name(
            sums: &mut [f64],
            columns: &[&[f64]; BATCH],
            factors: &[f64; BATCH],
        ) {
            Arch::new().dispatch($kernel { sums, columns, factors });
        }

        struct $kernel<'a> {
            sums: &'a mut [f64],
            columns: &'a [&'a [f64]; BATCH],
            factors: &'a [f64; BATCH],
        }

        impl WithSimd for $kernel<'_> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, _simd: S) {
                #[inline(always)]
                fn term($factor: f64, $number: f64) -> f64 {
                    $term
                }
                let len = self.sums.len();
                let [f0, f1, f2, f3, f4, f5, f6, f7] = *self.factors;
                let [c0, c1, c2, c3, c4, c5, c6, c7] = self.columns.map(|column| &column[..len]);
                for i in 0..len {
                    let left = (term(f0, c0[i]) + term(f1, c1[i])) + (term(f2, c2[i]) + term(f3, c3[i]));
                    let right = (term(f4, c4[i]) + term(f5, c5[i])) + (term(f6, c6[i]) + term(f7, c7[i]));
                    self.sums[i] += left + right;
                }
            }
        }
    };
}

row_sums!(
    /// Adds the columns' magnitudes, each times its factor.
    add_sizes,
    AddSizes,
    |factor, number| factor * number.abs()
);

row_sums!(
    /// Adds the columns' squares, each number times its column's factor.
    add_squares,
    AddSquares,
    |factor, number| (factor * number) * (factor * number)
);

row_sums!(
    /// Adds the columns' factors where the number is not zero.
    add_present,
    AddPresent,
    |factor, number| if number == 0.0 { 0.0 } else { factor }
);

/// Returns the sum of a column's magnitudes, and the sum of its squares.
pub(super) fn size_column(column: &[f64]) -> [f64; 2] {
    Arch::new().dispatch(SizeColumn(column))
}

struct SizeColumn<'a>(&'a [f64]);

impl WithSimd for SizeColumn<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> [f64; 2] {
        // So many sums at a time that none waits for the one before.
        let (lines, rest) = self.0.as_chunks::<32>();
        let (mut sizes, mut squares) = ([0.0; 32], [0.0; 32]);
        for line in lines {
            for ((size, square), number) in sizes.iter_mut().zip(&mut squares).zip(line) {
                *size += number.abs();
                *square += number * number;
            }
        }
        for (at, number) in rest.iter().enumerate() {
            sizes[at] += number.abs();
            squares[at] += number * number;
        }
        [sizes.iter().sum(), squares.iter().sum()]
    }
}
