//! Passes over the elements of a factor, a few columns at a time.

use std::marker::PhantomData;
use std::ops::Range;

use isochron_devices::{ElementType, Scalar as Element, View, ViewMut};
use pulp::{Arch, Scalar, Simd, WithSimd};

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
pub(super) fn count_parts<T: Element>() -> usize {
    if T::TYPE.is_complex() { 2 } else { 1 }
}

/// Returns the rectangle of the factor that this rank holds.
pub(super) fn find_part<T: Element>(factor: &Operand<'_, T>) -> Region {
    let stored = factor.matrix().part();
    if factor.op().transposes() {
        stored.transposed()
    } else {
        stored
    }
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

/// The vectors of a batch's columns, and the numbers that are left over.
#[inline(always)]
fn cut_columns<'a, S: Simd>(
    columns: &[&'a [f64]; BATCH],
    len: usize,
) -> ([&'a [S::f64s]; BATCH], [&'a [f64]; BATCH]) {
    let cut = columns.map(|column| S::as_simd_f64s(&column[..len]));
    (cut.map(|(vectors, _)| vectors), cut.map(|(_, rest)| rest))
}

/// Adds to a sum a term of a column's factor and a number of the column.
trait Term {
    fn add<S: Simd>(simd: S, sum: S::f64s, factor: S::f64s, number: S::f64s) -> S::f64s;

    /// Returns the sum of the terms of a line of the batch.
    #[inline(always)]
    fn sum<S: Simd>(simd: S, factors: &[S::f64s; BATCH], numbers: &[S::f64s; BATCH]) -> S::f64s {
        let [f0, f1, f2, f3, f4, f5, f6, f7] = *factors;
        let [x0, x1, x2, x3, x4, x5, x6, x7] = *numbers;
        let zero = simd.splat_f64s(0.0);
        let left = Self::add(simd, Self::add(simd, zero, f0, x0), f1, x1);
        let left = Self::add(simd, Self::add(simd, left, f2, x2), f3, x3);
        let right = Self::add(simd, Self::add(simd, zero, f4, x4), f5, x5);
        let right = Self::add(simd, Self::add(simd, right, f6, x6), f7, x7);
        simd.add_f64s(left, right)
    }
}

/// The product.
struct Products;

impl Term for Products {
    #[inline(always)]
    fn add<S: Simd>(simd: S, sum: S::f64s, factor: S::f64s, number: S::f64s) -> S::f64s {
        simd.mul_add_e_f64s(factor, number, sum)
    }
}

/// The magnitude of the number, times the factor.
struct Sizes;

impl Term for Sizes {
    #[inline(always)]
    fn add<S: Simd>(simd: S, sum: S::f64s, factor: S::f64s, number: S::f64s) -> S::f64s {
        simd.mul_add_e_f64s(factor, simd.abs_f64s(number), sum)
    }
}

/// The square of the product.
struct Squares;

impl Term for Squares {
    #[inline(always)]
    fn add<S: Simd>(simd: S, sum: S::f64s, factor: S::f64s, number: S::f64s) -> S::f64s {
        let product = simd.mul_f64s(factor, number);
        simd.mul_add_e_f64s(product, product, sum)
    }
}

/// The factor, if the number is not zero.
struct Present;

impl Term for Present {
    #[inline(always)]
    fn add<S: Simd>(simd: S, sum: S::f64s, factor: S::f64s, number: S::f64s) -> S::f64s {
        let zero = simd.splat_f64s(0.0);
        let is_zero = simd.equal_f64s(number, zero);
        simd.add_f64s(sum, simd.select_f64s(is_zero, zero, factor))
    }
}

/// Returns line `i` of a batch.
#[inline(always)]
fn take_line<V: Copy>(columns: &[&[V]; BATCH], i: usize) -> [V; BATCH] {
    let [c0, c1, c2, c3, c4, c5, c6, c7] = *columns;
    [c0[i], c1[i], c2[i], c3[i], c4[i], c5[i], c6[i], c7[i]]
}

/// Returns the factors as vectors.
#[inline(always)]
fn splat<S: Simd>(simd: S, factors: &[f64; BATCH]) -> [S::f64s; BATCH] {
    let [f0, f1, f2, f3, f4, f5, f6, f7] = *factors;
    let splat = |factor| simd.splat_f64s(factor);
    [
        splat(f0),
        splat(f1),
        splat(f2),
        splat(f3),
        splat(f4),
        splat(f5),
        splat(f6),
        splat(f7),
    ]
}

/// Adds a number to a total of twice its precision.
///
/// # References
/// Knuth, "The Art of Computer Programming", volume 2, 3rd edition, section 4.2.2, theorem B (the error of a sum).
#[inline(always)]
fn add_exactly<S: Simd>(simd: S, high: &mut S::f64s, low: &mut S::f64s, sum: S::f64s) {
    let total = simd.add_f64s(*high, sum);
    let added = simd.sub_f64s(total, *high);
    let lost = simd.sub_f64s(*high, simd.sub_f64s(total, added));
    let lost = simd.add_f64s(lost, simd.sub_f64s(sum, added));
    *low = simd.add_f64s(*low, lost);
    *high = total;
}

struct AddProducts<'a> {
    high: &'a mut [f64],
    low: &'a mut [f64],
    columns: &'a [&'a [f64]; BATCH],
    factors: &'a [f64; BATCH],
}

impl AddProducts<'_> {
    #[inline(always)]
    fn add<S: Simd>(
        simd: S,
        high: &mut [S::f64s],
        low: &mut [S::f64s],
        columns: [&[S::f64s]; BATCH],
        factors: &[f64; BATCH],
    ) {
        // One length for all, so that no index is checked in the loop.
        let columns = columns.map(|column| &column[..high.len()]);
        let factors = splat(simd, factors);
        for (i, (high, low)) in high.iter_mut().zip(low).enumerate() {
            let sum = Products::sum(simd, &factors, &take_line(&columns, i));
            add_exactly(simd, high, low, sum);
        }
    }
}

impl WithSimd for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (vectors, rest) = cut_columns::<S>(self.columns, self.high.len());
        let (high, last_high) = S::as_mut_simd_f64s(self.high);
        let (low, last_low) = S::as_mut_simd_f64s(self.low);
        Self::add(simd, high, low, vectors, self.factors);
        Self::add(Scalar::new(), last_high, last_low, rest, self.factors);
    }
}

/// [`AddProducts`], and to each line's size the magnitudes of its numbers, each times the size of its column.
struct AddSizedProducts<'a> {
    products: AddProducts<'a>,
    sizes: &'a mut [f64],
    column_sizes: &'a [f64; BATCH],
}

impl AddSizedProducts<'_> {
    #[inline(always)]
    fn add<S: Simd>(
        simd: S,
        [high, low, sizes]: [&mut [S::f64s]; 3],
        columns: [&[S::f64s]; BATCH],
        factors: &[f64; BATCH],
        column_sizes: &[f64; BATCH],
    ) {
        // One length for all, so that no index is checked in the loop.
        let columns = columns.map(|column| &column[..high.len()]);
        let (factors, column_sizes) = (splat(simd, factors), splat(simd, column_sizes));
        for (i, ((high, low), size)) in high.iter_mut().zip(low).zip(sizes).enumerate() {
            let line = take_line(&columns, i);
            *size = simd.add_f64s(*size, Sizes::sum(simd, &column_sizes, &line));
            add_exactly(simd, high, low, Products::sum(simd, &factors, &line));
        }
    }
}

impl WithSimd for AddSizedProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let AddProducts {
            high,
            low,
            columns,
            factors,
        } = self.products;
        let (vectors, rest) = cut_columns::<S>(columns, high.len());
        let (high, last_high) = S::as_mut_simd_f64s(high);
        let (low, last_low) = S::as_mut_simd_f64s(low);
        let (sizes, last_sizes) = S::as_mut_simd_f64s(self.sizes);
        let sums = [high, low, sizes];
        Self::add(simd, sums, vectors, factors, self.column_sizes);
        let sums = [last_high, last_low, last_sizes];
        Self::add(Scalar::new(), sums, rest, factors, self.column_sizes);
    }
}

/// Adds the columns' magnitudes, each times its factor.
pub(super) fn add_sizes(sums: &mut [f64], columns: &[&[f64]; BATCH], factors: &[f64; BATCH]) {
    add_terms::<Sizes>(sums, columns, factors);
}

/// Adds the columns' squares, each number times its column's factor.
pub(super) fn add_squares(sums: &mut [f64], columns: &[&[f64]; BATCH], factors: &[f64; BATCH]) {
    add_terms::<Squares>(sums, columns, factors);
}

/// Adds the columns' factors where the number is not zero.
pub(super) fn add_present(sums: &mut [f64], columns: &[&[f64]; BATCH], factors: &[f64; BATCH]) {
    add_terms::<Present>(sums, columns, factors);
}

/// Adds to each line's sum the terms of its numbers in the columns.
fn add_terms<K: Term>(sums: &mut [f64], columns: &[&[f64]; BATCH], factors: &[f64; BATCH]) {
    Arch::new().dispatch(AddTerms {
        sums,
        columns,
        factors,
        kind: PhantomData::<K>,
    });
}

struct AddTerms<'a, K> {
    sums: &'a mut [f64],
    columns: &'a [&'a [f64]; BATCH],
    factors: &'a [f64; BATCH],
    kind: PhantomData<K>,
}

impl<K: Term> AddTerms<'_, K> {
    #[inline(always)]
    fn add<S: Simd>(
        simd: S,
        sums: &mut [S::f64s],
        columns: [&[S::f64s]; BATCH],
        factors: &[f64; BATCH],
    ) {
        // One length for all, so that no index is checked in the loop.
        let columns = columns.map(|column| &column[..sums.len()]);
        let factors = splat(simd, factors);
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = simd.add_f64s(*sum, K::sum(simd, &factors, &take_line(&columns, i)));
        }
    }
}

impl<K: Term> WithSimd for AddTerms<'_, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (vectors, rest) = cut_columns::<S>(self.columns, self.sums.len());
        let (sums, last_sums) = S::as_mut_simd_f64s(self.sums);
        Self::add(simd, sums, vectors, self.factors);
        Self::add(Scalar::new(), last_sums, rest, self.factors);
    }
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
