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
/// Lines of a batch that are added at a time, by vector instructions.
const LINES: usize = 8;
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

    /// Adds the products of lines with these factors to the totals at `places`.
    #[inline(always)]
    fn add_products(&mut self, lines: &Lines, factors: &[f64; BATCH], places: Range<usize>) {
        let (highs, lows) = (&mut self.totals.high[places.clone()], &mut self.totals.low[places]);
        let (mut high, mut low) = (load(highs), load(lows));
        let sums = sum_lines(lines, |column, number| factors[column] * number);
        for line in 0..LINES {
            add_exactly(&mut high[line], &mut low[line], sums[line]);
        }
        store(highs, high);
        store(lows, low);
    }
}

/// Compiled for the vector instructions of this processor: all that it calls is inlined.
impl WithSimd for AddGroups<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _simd: S) {
        let len = self.batch.columns[0].len();
        for start in (0..len).step_by(LINES) {
            let count = LINES.min(len - start);
            let lines: Lines = [0, 1, 2, 3, 4, 5, 6, 7]
                .map(|column| load(&self.batch.columns[column][start..start + count]));
            let mut places = self.first + start..self.first + start + count;
            if !self.counts.is_empty() {
                // A column that only repeats another has no zeros.
                let columns = self.batch.cols.len();
                let zeros =
                    sum_lines(
                        &lines,
                        |column, number| {
                            if number == 0.0 && column < columns { 1.0 } else { 0.0 }
                        },
                    );
                let counts = &mut self.counts[places.clone()];
                let before = load(counts);
                store(counts, std::array::from_fn(|line| before[line] - zeros[line]));
            }
            for [factors, term_factors] in self.factors {
                let terms = match self.terms {
                    Terms::Sizes => {
                        sum_lines(&lines, |column, number| term_factors[column] * number.abs())
                    }
                    Terms::Squares => sum_lines(&lines, |column, number| {
                        let product = term_factors[column] * number;
                        product * product
                    }),
                };
                let sums = &mut self.sums[places.clone()];
                let before = load(sums);
                store(sums, std::array::from_fn(|line| before[line] + terms[line]));
                if !self.totals.high.is_empty() {
                    self.add_products(&lines, factors, places.clone());
                }
                places = places.start + self.stride..places.end + self.stride;
            }
            for factors in self.turned {
                self.add_products(&lines, factors, places.clone());
                places = places.start + self.stride..places.end + self.stride;
            }
        }
    }
}

/// Some lines of each column of a batch.
type Lines = [[f64; LINES]; BATCH];

/// Reads at most [`LINES`] numbers; zeros follow the last ones.
#[inline(always)]
fn load(numbers: &[f64]) -> [f64; LINES] {
    if let Some(lines) = numbers.first_chunk() {
        return *lines;
    }
    let mut lines = [0.0; LINES];
    lines[..numbers.len()].copy_from_slice(numbers);
    lines
}

/// Writes at most [`LINES`] numbers.
#[inline(always)]
fn store(numbers: &mut [f64], lines: [f64; LINES]) {
    match numbers.first_chunk_mut() {
        Some(all) => *all = lines,
        None => numbers.copy_from_slice(&lines[..numbers.len()]),
    }
}

/// Adds up a term of each column, line by line.
#[inline(always)]
fn sum_lines(lines: &Lines, term: impl Fn(usize, f64) -> f64) -> [f64; LINES] {
    let mut sums = [0.0; LINES];
    for column in 0..BATCH {
        for line in 0..LINES {
            sums[line] += term(column, lines[column][line]);
        }
    }
    sums
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
        let (mut sizes, mut squares) = ([0.0; 4 * LINES], [0.0; 4 * LINES]);
        let (chunks, rest) = self.0.as_chunks::<{ 4 * LINES }>();
        for numbers in chunks {
            for (at, number) in numbers.iter().enumerate() {
                sizes[at] += number.abs();
                squares[at] += number * number;
            }
        }
        for (at, number) in rest.iter().enumerate() {
            sizes[at] += number.abs();
            squares[at] += number * number;
        }
        [sizes.iter().sum(), squares.iter().sum()]
    }
}
