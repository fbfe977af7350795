//! Passes over the elements of a factor, a few columns at a time.

use std::ops::Range;

use isochron_devices::{ElementType, Scalar, View, ViewMut};
use pulp::Arch;

use crate::matrix::{Operand, Region};

/// Columns of a batch: the sum of one row's elements of a batch is added to the row's total at once.
pub(super) const BATCH: usize = 8;
/// Real numbers of a batch's column: a batch and its sums stay in a core's first cache.
const COLUMN: usize = 256;
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

/// Runs arithmetic over slices by the widest vector instructions that this processor has.
fn vectorize<R>(work: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(work)
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
    pub(super) fn add(
        &mut self,
        first: usize,
        columns: &[&[f64]; BATCH],
        factors: &[f64; BATCH],
    ) {
        let range = first..first + columns[0].len();
        let (high, low) = (&mut self.high[range.clone()], &mut self.low[range]);
        vectorize(|| add_products(columns, factors, high, low));
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
#[inline(always)]
fn add_products(
    columns: &[&[f64]; BATCH],
    factors: &[f64; BATCH],
    high: &mut [f64],
    low: &mut [f64],
) {
    let len = high.len();
    let columns = columns.map(|column| &column[..len]);
    let low = &mut low[..len];
    for i in 0..len {
        let sum = add_in_pairs(std::array::from_fn(|at| factors[at] * columns[at][i]));
        let total = high[i] + sum;
        let added = total - high[i];
        low[i] += (high[i] - (total - added)) + (sum - added);
        high[i] = total;
    }
}

/// Adds the sum of the columns' magnitudes, each times its factor.
pub(super) fn add_sizes(
    sizes: &mut [f64],
    columns: &[&[f64]; BATCH],
    factors: &[f64; BATCH],
) {
    #[inline(always)]
    fn add(sizes: &mut [f64], columns: &[&[f64]; BATCH], factors: &[f64; BATCH]) {
        let len = sizes.len();
        let columns = columns.map(|column| &column[..len]);
        for i in 0..len {
            sizes[i] += add_in_pairs(std::array::from_fn(|at| {
                factors[at] * columns[at][i].abs()
            }));
        }
    }
    vectorize(|| add(sizes, columns, factors));
}

/// Adds the sum of the columns' squares, each number times its column's factor.
pub(super) fn add_squares(
    squares: &mut [f64],
    columns: &[&[f64]; BATCH],
    factors: &[f64; BATCH],
) {
    #[inline(always)]
    fn add(squares: &mut [f64], columns: &[&[f64]; BATCH], factors: &[f64; BATCH]) {
        let len = squares.len();
        let columns = columns.map(|column| &column[..len]);
        for i in 0..len {
            squares[i] += add_in_pairs(std::array::from_fn(|at| {
                let scaled = factors[at] * columns[at][i];
                scaled * scaled
            }));
        }
    }
    vectorize(|| add(squares, columns, factors));
}

/// Counts the numbers that are not zero; `present` is 1 for the columns that count.
pub(super) fn count_terms(
    counts: &mut [f64],
    columns: &[&[f64]; BATCH],
    present: &[f64; BATCH],
) {
    #[inline(always)]
    fn count(counts: &mut [f64], columns: &[&[f64]; BATCH], present: &[f64; BATCH]) {
        let len = counts.len();
        let columns = columns.map(|column| &column[..len]);
        for i in 0..len {
            counts[i] += add_in_pairs(std::array::from_fn(|at| {
                if columns[at][i] == 0.0 {
                    0.0
                } else {
                    present[at]
                }
            }));
        }
    }
    vectorize(|| count(counts, columns, present));
}

/// Returns the sum of a column's magnitudes.
pub(super) fn sum_sizes(column: &[f64]) -> f64 {
    #[inline(always)]
    fn sum(column: &[f64]) -> f64 {
        let (lines, rest) = column.as_chunks::<BATCH>();
        let mut sums = [0.0; BATCH];
        for line in lines {
            for (sum, number) in sums.iter_mut().zip(line) {
                *sum += number.abs();
            }
        }
        add_in_pairs(sums) + rest.iter().map(|number| number.abs()).sum::<f64>()
    }
    vectorize(|| sum(column))
}

#[inline(always)]
fn add_in_pairs(x: [f64; BATCH]) -> f64 {
    ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]))
}
