//! Passes over the elements of a factor, a few columns at a time.

use std::marker::PhantomData;
use std::ops::Range;

use isochron_devices::{ElementType, Scalar as Element, View, ViewMut};
use num_complex::Complex64;
use pulp::{Arch, Scalar, Simd, WithSimd};

use crate::matrix::{Operand, Region};
use crate::watch::note_progress;

/// Columns of a batch: the sum of one row's elements of a batch is added to the row's total at once.
pub(super) const BATCH: usize = 8;
/// Real numbers of a batch's column: a batch and its sums stay in a core's own caches, and are long enough that their loops
/// cost more than what is around them.
const COLUMN: usize = 2048;
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

/// The terms that are added beside products. No type: these functions are compiled here and not for each user, whose code may
/// be optimised less.
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
        add_exactly(Scalar::new(), high, low, product);
        *low += factor.mul_add(others.high[from], -product) + factor * others.low[from];
    }

    /// Returns the totals, rounded once.
    pub(super) fn round(&self) -> Vec<f64> {
        self.high.iter().zip(&self.low).map(|(high, low)| high + low).collect()
    }
}

/// The vectors of a batch's columns, and the numbers that are left over.
#[inline(always)]
fn cut_columns<'a, S: Simd>(
    columns: &[&'a [f64]; BATCH],
    len: usize,
) -> ([&'a [S::f64s]; BATCH], [&'a [f64]; BATCH]) {
    let [c0, c1, c2, c3, c4, c5, c6, c7] = shorten(columns, len);
    let [(v0, r0), (v1, r1), (v2, r2), (v3, r3), (v4, r4), (v5, r5), (v6, r6), (v7, r7)] = [
        S::as_simd_f64s(c0),
        S::as_simd_f64s(c1),
        S::as_simd_f64s(c2),
        S::as_simd_f64s(c3),
        S::as_simd_f64s(c4),
        S::as_simd_f64s(c5),
        S::as_simd_f64s(c6),
        S::as_simd_f64s(c7),
    ];
    ([v0, v1, v2, v3, v4, v5, v6, v7], [r0, r1, r2, r3, r4, r5, r6, r7])
}

/// Gives all columns one length, so that no index is checked in a loop. Written out: the compiler forgets the length in a
/// function that it does not inline, as those of arrays.
#[inline(always)]
fn shorten<'a, V>(columns: &[&'a [V]; BATCH], len: usize) -> [&'a [V]; BATCH] {
    let [c0, c1, c2, c3, c4, c5, c6, c7] = *columns;
    [&c0[..len], &c1[..len], &c2[..len], &c3[..len], &c4[..len], &c5[..len], &c6[..len], &c7[..len]]
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
        simd.mul_add_e_f64s(factor, find_magnitude(simd, number), sum)
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

/// The factor, if the number is zero.
struct Zeros;

impl Term for Zeros {
    #[inline(always)]
    fn add<S: Simd>(simd: S, sum: S::f64s, factor: S::f64s, number: S::f64s) -> S::f64s {
        let zero = simd.splat_f64s(0.0);
        let is_zero = simd.equal_f64s(number, zero);
        simd.add_f64s(sum, simd.select_f64s(is_zero, factor, zero))
    }
}

/// Returns the magnitudes of numbers. `abs_f64s` is no intrinsic, and a call for each vector.
#[inline(always)]
fn find_magnitude<S: Simd>(simd: S, numbers: S::f64s) -> S::f64s {
    simd.and_f64s(numbers, simd.splat_f64s(f64::from_bits(u64::MAX >> 1)))
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
    [splat(f0), splat(f1), splat(f2), splat(f3), splat(f4), splat(f5), splat(f6), splat(f7)]
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

/// Adds a batch to the sums of some groups of columns of C, which begin `stride` apart: products, terms, and the number of zeros.
/// Reads each column once.
pub(super) struct AddGroups<'a> {
    /// Empty if only terms are wanted.
    pub totals: &'a mut Totals,
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
    pub fn run(self, terms: Terms) {
        match terms {
            Terms::Sizes => Arch::new().dispatch(AddTerms(self, PhantomData::<Sizes>)),
            Terms::Squares => Arch::new().dispatch(AddTerms(self, PhantomData::<Squares>)),
        }
    }

    /// Adds lines whose totals and sums begin at `first`. Each line is taken by all groups before the next one, so that memory is
    /// read while they compute.
    #[inline(always)]
    fn add<S: Simd, K: Term>(&mut self, simd: S, columns: &[&[S::f64s]; BATCH], first: usize) {
        let len = columns[0].len();
        let columns = shorten(columns, len);
        // A column that only repeats another has no zeros.
        let mut minus_one = [0.0; BATCH];
        minus_one[..self.batch.cols.len()].fill(-1.0);
        let minus_one = splat(simd, &minus_one);
        for i in 0..len {
            let line = take_line(&columns, i);
            let mut at = first + i * S::F64_LANES;
            if !self.counts.is_empty() {
                let counts = vector_at::<S>(self.counts, at);
                *counts = simd.add_f64s(*counts, Zeros::sum(simd, &minus_one, &line));
            }
            for [factors, term_factors] in self.factors {
                let sums = vector_at::<S>(self.sums, at);
                let sum = K::sum(simd, &splat(simd, term_factors), &line);
                *sums = simd.add_f64s(*sums, sum);
                if !self.totals.high.is_empty() {
                    self.add_products(simd, &line, factors, at);
                }
                at += self.stride;
            }
            for factors in self.turned {
                self.add_products(simd, &line, factors, at);
                at += self.stride;
            }
        }
    }

    /// Adds the products of a line with these factors to the totals at `at`.
    #[inline(always)]
    fn add_products<S: Simd>(
        &mut self,
        simd: S,
        line: &[S::f64s; BATCH],
        factors: &[f64; BATCH],
        at: usize,
    ) {
        let high = vector_at::<S>(&mut self.totals.high, at);
        let low = vector_at::<S>(&mut self.totals.low, at);
        add_exactly(simd, high, low, Products::sum(simd, &splat(simd, factors), line));
    }
}

/// [`AddGroups`] with terms of this kind.
struct AddTerms<'a, K>(AddGroups<'a>, PhantomData<K>);

impl<K: Term> WithSimd for AddTerms<'_, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(mut groups, _) = self;
        let (first, columns) = (groups.first, &groups.batch.columns);
        let len = columns[0].len();
        let (vectors, rest) = cut_columns::<S>(columns, len);
        groups.add::<S, K>(simd, &vectors, first);
        groups.add::<Scalar, K>(Scalar::new(), &rest, first + len - rest[0].len());
    }
}

/// Returns the vector that begins with number `at`.
#[inline(always)]
fn vector_at<S: Simd>(numbers: &mut [f64], at: usize) -> &mut S::f64s {
    let (vectors, _) = S::as_mut_simd_f64s(&mut numbers[at..at + S::F64_LANES]);
    &mut vectors[0]
}

/// Returns the sum of a column's magnitudes, and the sum of its squares.
pub(super) fn size_column(column: &[f64]) -> [f64; 2] {
    Arch::new().dispatch(SizeColumn(column))
}

struct SizeColumn<'a>(&'a [f64]);

impl WithSimd for SizeColumn<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f64; 2] {
        // Enough sums at a time that none waits for the one before.
        let zero = simd.splat_f64s(0.0);
        let (mut sizes, mut squares) = ([zero; 4], [zero; 4]);
        let (vectors, rest) = S::as_simd_f64s(self.0);
        let (lines, last) = vectors.as_chunks::<4>();
        for line in lines {
            for at in 0..4 {
                sizes[at] = simd.add_f64s(sizes[at], find_magnitude(simd, line[at]));
                squares[at] = simd.mul_add_e_f64s(line[at], line[at], squares[at]);
            }
        }
        for vector in last {
            sizes[0] = simd.add_f64s(sizes[0], find_magnitude(simd, *vector));
            squares[0] = simd.mul_add_e_f64s(*vector, *vector, squares[0]);
        }
        let sum = |[a, b, c, d]: [S::f64s; 4]| {
            simd.reduce_sum_f64s(simd.add_f64s(simd.add_f64s(a, b), simd.add_f64s(c, d)))
        };
        let [mut size, mut square] = [sum(sizes), sum(squares)];
        for number in rest {
            size += number.abs();
            square += number * number;
        }
        [size, square]
    }
}
