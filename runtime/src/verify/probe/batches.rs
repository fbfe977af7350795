//! Passes over the elements of a factor, a few columns at a time.

use std::ops::Range;

use isochron_devices::{ElementType, Scalar as Element, View, ViewMut};
use num_complex::Complex64;
use pulp::{Arch, Simd, WithSimd};

use crate::matrix::{Operand, Region};
use crate::watch::note_progress;

/// Columns of a batch: the sum of one row's elements of a batch is added to the row's total at once.
pub(super) const BATCH: usize = 8;
/// Real numbers of a batch's column: a batch and its sums stay in a core's own caches, and are long enough that their loops
/// cost more than what is around them.
const COLUMN: usize = 2048;
/// Lines of a batch that all groups take before the next ones: they stay in the fastest cache.
const LINES: usize = 256;
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
pub(super) fn count_parts<T: Element>() -> usize {
    if T::TYPE.is_complex() { 2 } else { 1 }
}

/// Returns the rectangle of the factor that this rank holds.
pub(super) fn find_part<T: Element>(factor: &Operand<'_, T>) -> Region {
    let stored = factor.matrix().part();
    if factor.op().transposes() { stored.transposed() } else { stored }
}

/// Passes over the elements of `region` that this rank holds.
pub(super) fn pass_over<T: Element>(
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
            note_progress();
        }
    }
}

/// Cuts a range into pieces of at most `len`.
fn cut(range: Range<usize>, len: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(len).map(move |start| start..end.min(start + len))
}

fn copy_tile<'b, T: Element>(
    factor: &Operand<'_, T>,
    tile: &Region,
    copied: &'b mut Vec<T>,
) -> View<'b, T> {
    copied.resize(tile.len(), T::ZERO);
    factor.copy(tile, ViewMut::new(copied, tile.rows, tile.cols, tile.rows));
    View::new(copied, tile.rows, tile.cols, tile.rows)
}

/// Returns the columns as real numbers in double precision.
fn read_columns<'b, T: Element>(view: View<'b, T>, converted: &'b mut Vec<f64>) -> Vec<&'b [f64]> {
    let columns = (0..view.cols()).map(|j| view.col(j));
    if matches!(T::TYPE, ElementType::F64 | ElementType::C64) {
        return columns.map(bytemuck::cast_slice).collect();
    }
    converted.clear();
    for column in columns {
        let singles: &[f32] = bytemuck::cast_slice(column);
        converted.extend(singles.iter().map(|&single| f64::from(single)));
    }
    converted.chunks_exact(view.rows() * count_parts::<T>()).collect()
}

/// The terms that are added beside products.
#[derive(Debug, Clone, Copy)]
pub(super) enum Terms {
    /// Magnitudes, each times its column's factor.
    Sizes,
    /// Squares of the products with the column's factor.
    Squares,
}

/// Totals in twice the precision of `f64`: each is `high + low`.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    high: Vec<f64>,
    low: Vec<f64>,
}

impl Totals {
    pub(super) fn zeros(len: usize) -> Self {
        Self { high: vec![0.0; len], low: vec![0.0; len] }
    }

    /// Adds other totals from `first` on, times a factor. Those of complex elements lie in pairs: real part, imaginary part.
    pub(super) fn add_multiple<T: Element>(
        &mut self,
        factor: Complex64,
        other: &Self,
        first: usize,
    ) {
        for at in 0..self.high.len() {
            self.add_product(at, factor.re, other, first + at);
            if T::TYPE.is_complex() {
                let (partner, factor) = match at % 2 {
                    0 => (at + 1, -factor.im),
                    _ => (at - 1, factor.im),
                };
                self.add_product(at, factor, other, first + partner);
            }
        }
    }

    /// Adds to one total a number of others, times a factor.
    fn add_product(&mut self, at: usize, factor: f64, others: &Self, from: usize) {
        let product = factor * others.high[from];
        let (high, low) = (&mut self.high[at], &mut self.low[at]);
        add_exactly(high, low, product);
        *low += factor.mul_add(others.high[from], -product) + factor * others.low[from];
    }

    /// Returns the totals, rounded once.
    pub(super) fn round(&self) -> Vec<f64> {
        self.high.iter().zip(&self.low).map(|(high, low)| high + low).collect()
    }
}

/// Adds a number to a total of twice its precision.
///
/// # References
/// Knuth, "The Art of Computer Programming", volume 2, 3rd edition, section 4.2.2, theorem B (the error of a sum).
#[inline(always)]
fn add_exactly(high: &mut f64, low: &mut f64, number: f64) {
    let total = *high + number;
    let added = total - *high;
    *low += (*high - (total - added)) + (number - added);
    *high = total;
}

/// Adds a batch to the sums of some groups of columns of C, which begin `stride` apart: products, terms, and the number of zeros.
/// Reads each column once.
pub(super) struct AddGroups<'a> {
    /// Empty if only terms are wanted.
    pub totals: &'a mut Totals,
    pub terms: Terms,
    /// Sums of the terms.
    pub sums: &'a mut [f64],
    /// Numbers of nonzero terms, if they are wanted; else empty.
    pub counts: &'a mut [f64],
    /// Place of the batch's first number in the first group's sums.
    pub first: usize,
    pub stride: usize,
    pub batch: &'a Batch<'a>,
    /// The factors of the columns' products and of their terms, for each group.
    pub factors: &'a [[[f64; BATCH]; 2]],
    /// The factors of further products, whose totals follow those of the groups.
    pub turned: &'a [[f64; BATCH]],
}

impl AddGroups<'_> {
    pub fn run(self) {
        Arch::new().dispatch(self);
    }
}

/// Compiled for the vector instructions of this processor: all that it calls is inlined.
impl WithSimd for AddGroups<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let len = self.batch.columns[0].len();
        for start in (0..len).step_by(LINES) {
            let end = len.min(start + LINES);
            let mut columns = self.batch.columns;
            for column in &mut columns {
                *column = &column[start..end];
            }
            let mut places = self.first + start..self.first + end;
            if !self.counts.is_empty() {
                // A column that only repeats another has no zeros.
                let mut factors = [0.0; BATCH];
                factors[..self.batch.cols.len()].fill(-1.0);
                add(&mut self.counts[places.clone()], &columns, &factors, |sum, factor, number| {
                    if number == 0.0 { sum + factor } else { sum }
                });
            }
            for [factors, term_factors] in self.factors {
                let sums = &mut self.sums[places.clone()];
                match self.terms {
                    Terms::Sizes => add(sums, &columns, term_factors, |sum, factor, number| {
                        factor.mul_add(number.abs(), sum)
                    }),
                    Terms::Squares => add(sums, &columns, term_factors, |sum, factor, number| {
                        (factor * number).mul_add(factor * number, sum)
                    }),
                }
                if !self.totals.high.is_empty() {
                    let Totals { high, low } = &mut *self.totals;
                    let (high, low) = (&mut high[places.clone()], &mut low[places.clone()]);
                    add_products(high, low, &columns, factors);
                }
                places = places.start + self.stride..places.end + self.stride;
            }
            for factors in self.turned {
                let Totals { high, low } = &mut *self.totals;
                let (high, low) = (&mut high[places.clone()], &mut low[places.clone()]);
                add_products(high, low, &columns, factors);
                places = places.start + self.stride..places.end + self.stride;
            }
        }
    }
}

/// Adds to each sum the terms of a line.
#[inline(always)]
fn add(
    sums: &mut [f64],
    columns: &[&[f64]; BATCH],
    factors: &[f64; BATCH],
    term: impl Fn(f64, f64, f64) -> f64,
) {
    let columns = shorten(columns, sums.len());
    for (line, sum) in sums.iter_mut().enumerate() {
        *sum += sum_line(&columns, line, factors, &term);
    }
}

/// Adds to each total the products of a line.
#[inline(always)]
fn add_products(
    high: &mut [f64],
    low: &mut [f64],
    columns: &[&[f64]; BATCH],
    factors: &[f64; BATCH],
) {
    let columns = shorten(columns, high.len());
    for (line, (high, low)) in high.iter_mut().zip(low).enumerate() {
        let sum =
            sum_line(&columns, line, factors, |sum, factor, number| factor.mul_add(number, sum));
        add_exactly(high, low, sum);
    }
}

/// Gives all columns one length, so that no index is checked in a loop. Written out: the compiler forgets the length in a
/// function that it does not inline, as those of arrays.
#[inline(always)]
fn shorten<'a>(columns: &[&'a [f64]; BATCH], len: usize) -> [&'a [f64]; BATCH] {
    let [c0, c1, c2, c3, c4, c5, c6, c7] = *columns;
    [&c0[..len], &c1[..len], &c2[..len], &c3[..len], &c4[..len], &c5[..len], &c6[..len], &c7[..len]]
}

/// Adds up the terms of a line: `term` adds to a sum the term of a factor and a number.
#[inline(always)]
fn sum_line(
    columns: &[&[f64]; BATCH],
    line: usize,
    factors: &[f64; BATCH],
    term: impl Fn(f64, f64, f64) -> f64,
) -> f64 {
    let [mut left, mut right] = [0.0; 2];
    for column in 0..BATCH / 2 {
        left = term(left, factors[column], columns[column][line]);
        right = term(right, factors[4 + column], columns[4 + column][line]);
    }
    left + right
}

/// Returns the sum of a column's magnitudes, and the sum of its squares.
pub(super) fn size_column(column: &[f64]) -> [f64; 2] {
    Arch::new().dispatch(SizeColumn(column))
}

struct SizeColumn<'a>(&'a [f64]);

impl WithSimd for SizeColumn<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> [f64; 2] {
        // Enough sums at a time that none waits for the one before.
        let (mut sizes, mut squares) = ([0.0; 32], [0.0; 32]);
        let (chunks, rest) = self.0.as_chunks::<32>();
        for numbers in chunks {
            for (at, number) in numbers.iter().enumerate() {
                sizes[at] += number.abs();
                squares[at] = number.mul_add(*number, squares[at]);
            }
        }
        for (at, number) in rest.iter().enumerate() {
            sizes[at] += number.abs();
            squares[at] = number.mul_add(*number, squares[at]);
        }
        [sizes.iter().sum(), squares.iter().sum()]
    }
}
