//! The probe vector: signs with random sizes, scaled by the columns of C.

use std::ops::Range;

use isochron_devices::Scalar;

use super::batches::{count_parts, find_part, pass_over, size_column};
use crate::comm::Comm;
use crate::error::Error;
use crate::matrix::scalars::Scalars;
use crate::matrix::{Operand, hash};

/// Columns of a group: rounding adds up to `√GROUP` times that of one element.
const GROUP: usize = 512;
/// The most groups. Beyond `GROUP·MOST_GROUPS` columns a group grows, so that the check's cost stays proportional to the
/// matrices.
const MOST_GROUPS: usize = 32;
/// The ratio of sizes that columns may have after they were scaled by a part of all matrices.
const UNEVEN: f64 = 2.0;
/// 2⁻⁴⁰, a factor of all numbers: sums of the largest elements do not overflow.
pub(super) const SHRUNK: f64 = 1.0 / (1u64 << 40) as f64;

/// The columns of C, cut into runs that are checked apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnGroups {
    cols: usize,
    width: usize,
}

impl ColumnGroups {
    /// Returns the number of columns of all groups.
    pub(super) fn n_cols(&self) -> usize {
        self.cols
    }

    pub(super) fn new(cols: usize) -> Self {
        Self { cols, width: GROUP.max(cols.div_ceil(MOST_GROUPS)) }
    }

    pub(super) fn count(&self) -> usize {
        self.cols.div_ceil(self.width)
    }

    /// Returns the columns of a group.
    pub(super) fn cols(&self, group: usize) -> Range<usize> {
        let first = group * self.width;
        first..self.cols.min(first + self.width)
    }
}

/// The numbers of the probe vector, `±(1 + ξ/4)/size` with uniform ξ, where the sizes of columns become known in turn.
#[derive(Debug, Clone)]
pub(super) struct ProbeVector {
    /// `±(1 + ξ/4)`. Each group has as many positive signs as negative ones: rounding that is alike in all columns cancels
    /// out but for ξ.
    draws: Vec<f64>,
    /// The size by which each column is scaled; 0 until a matrix has something in that column.
    scales: Vec<f64>,
    /// The size of each column over all matrices.
    sizes: Vec<f64>,
    /// The size of each column of C.
    of_c: Vec<f64>,
    /// The norms of all parts of A, and of each column of all parts of B.
    of_a: f64,
    of_b: Vec<f64>,
}

impl ProbeVector {
    pub(super) fn draw(seed: u64, groups: &ColumnGroups) -> Self {
        let mut draws = Vec::with_capacity(groups.cols);
        for cols in (0..groups.count()).map(|group| groups.cols(group)) {
            let first = draws.len();
            draws.extend(cols.map(|col| if col % 2 == 0 { 1.0 } else { -1.0 }));
            let signs = &mut draws[first..];
            for last in (1..signs.len()).rev() {
                let other = hash(seed, first + last, 1) % (last as u64 + 1);
                signs.swap(last, other as usize);
            }
        }
        for (col, draw) in draws.iter_mut().enumerate() {
            let fraction = (hash(seed, col, 2) >> 11) as f64 * 2f64.powi(-53);
            *draw *= 1.0 + fraction / 4.0;
        }
        Self {
            scales: vec![0.0; draws.len()],
            sizes: vec![0.0; draws.len()],
            of_c: vec![0.0; draws.len()],
            of_a: 0.0,
            of_b: vec![0.0; draws.len()],
            draws,
        }
    }

    /// Scales the columns by their sizes in C, in B, or in the result.
    pub(super) fn scale(&mut self, sizes: Vec<f64>) {
        self.scales.clone_from(&sizes);
        self.sizes.clone_from(&sizes);
        self.of_c = sizes;
    }

    /// Scales all columns by their sizes over all matrices so far.
    pub(super) fn scale_by_all(&mut self) {
        self.scales.clone_from(&self.sizes);
    }

    /// Notes the norms of one more part of A, and of the columns of B. Columns that were zero before are scaled by them: their
    /// numbers have multiplied nothing yet. The product of all parts has `terms` terms, each times `alpha`.
    pub(super) fn note_part(&mut self, of_a: f64, of_b: &[f64], alpha: f64, terms: usize) {
        self.of_a = self.of_a.hypot(of_a);
        let scale = alpha * self.of_a / (terms.max(1) as f64).sqrt();
        for (col, norm) in of_b.iter().enumerate() {
            self.of_b[col] = self.of_b[col].hypot(*norm);
            self.sizes[col] = self.of_c[col].hypot(scale * self.of_b[col]);
            if self.scales[col] == 0.0 {
                self.scales[col] = self.sizes[col];
            }
        }
    }

    /// Returns `true` if columns are scaled so differently from their sizes over all matrices that one hides errors of
    /// another.
    pub(super) fn is_uneven(&self) -> bool {
        let of_scales = || {
            self.sizes
                .iter()
                .zip(&self.scales)
                .filter(|(_, scale)| **scale != 0.0)
                .map(|(size, scale)| size / scale)
        };
        of_scales().fold(0.0, f64::max) > UNEVEN * of_scales().fold(f64::INFINITY, f64::min)
    }

    /// Returns the numbers of the vector.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let draws = self.draws.iter().map(|draw| draw * SHRUNK);
        divide_by_sizes(draws, &self.scales)
    }

    /// Returns one over the size of each column, times [`SHRUNK`].
    pub(super) fn weights(&self) -> Vec<f64> {
        divide_by_sizes(self.draws.iter().map(|_| SHRUNK), &self.sizes)
    }
}

fn divide_by_sizes(numbers: impl Iterator<Item = f64>, sizes: &[f64]) -> Vec<f64> {
    numbers.zip(sizes).map(|(number, size)| number / find_scale(*size)).collect()
}

/// Returns a size by which can be divided.
fn find_scale(size: f64) -> f64 {
    if size == 0.0 || size.is_nan() { 1.0 } else { size.clamp(1e-280, 1e280) }
}

/// Returns the Euclidean norm of each column over all ranks, where each row is divided by its size, if given.
///
/// # Collective
/// All ranks.
pub(super) fn find_norms<T: Scalar>(
    comm: &dyn Comm,
    matrix: &Operand<'_, T>,
    row_sizes: Option<&[f64]>,
) -> Result<Vec<f64>, Error> {
    let n = matrix.cols();
    let mut sums = vec![0.0; 2 * n];
    let mut even = Vec::new();
    pass_over(matrix, &find_part(matrix), |batch| {
        for (col, column) in batch.cols.clone().zip(batch.columns) {
            let mut column = column;
            if let Some(sizes) = row_sizes {
                even.clear();
                let rows = column.chunks_exact(count_parts::<T>()).zip(&sizes[batch.rows.clone()]);
                for (of_row, size) in rows {
                    even.extend(of_row.iter().map(|number| number / find_scale(*size)));
                }
                column = &even;
            }
            let [size, square] = size_column(column);
            sums[col] += size;
            sums[n + col] += square;
        }
    });
    sum_norms(comm, sums)
}

/// Returns the Euclidean norm of each row over all ranks, where each column is divided by its size.
///
/// # Collective
/// All ranks.
fn find_row_norms<T: Scalar>(
    comm: &dyn Comm,
    matrix: &Operand<'_, T>,
    col_sizes: &[f64],
) -> Result<Vec<f64>, Error> {
    let m = matrix.rows();
    let mut sums = vec![0.0; 2 * m];
    pass_over(matrix, &find_part(matrix), |batch| {
        for (col, column) in batch.cols.clone().zip(batch.columns) {
            let scale = find_scale(col_sizes[col]);
            for (row, parts) in batch.rows.clone().zip(column.chunks_exact(count_parts::<T>())) {
                for number in parts.iter().map(|number| number / scale) {
                    sums[row] += number.abs();
                    sums[m + row] += number * number;
                }
            }
        }
    });
    sum_norms(comm, sums)
}

/// Returns the norms over all ranks: sums of magnitudes, and then of squares, are given. If squares overflow or vanish, the sum of
/// magnitudes stands for the norm.
fn sum_norms(comm: &dyn Comm, mut sums: Vec<f64>) -> Result<Vec<f64>, Error> {
    comm.sum_f64(&mut sums)?;
    let (sizes, squares) = sums.split_at(sums.len() / 2);
    let norms = sizes
        .iter()
        .zip(squares)
        .map(|(&size, &square)| if square.is_normal() { square.sqrt() } else { size });
    Ok(norms.collect())
}

/// Returns the sizes of the columns of `beta·C`, or of `alpha·A·B + beta·C` if the terms of products are independent. All
/// rows count alike: the largest one alone would decide otherwise.
///
/// # Collective
/// All ranks.
pub(super) fn find_sum_sizes<T: Scalar>(
    comm: &dyn Comm,
    scalars: Scalars<T>,
    c: &Operand<'_, T>,
    factors: Option<[Operand<'_, T>; 2]>,
) -> Result<Vec<f64>, Error> {
    let [alpha, beta] = [scalars.alpha, scalars.beta].map(|scalar| scalar.value().norm());
    // The product's element of row i and column j is about `of_a[i]·of_b[j]`.
    let (mut of_a, mut of_b) = (vec![0.0; c.rows()], vec![0.0; c.cols()]);
    if let Some([a, b]) = &factors {
        of_a = find_row_norms(comm, a, &vec![1.0; a.cols()])?;
        let scale = alpha / (a.cols().max(1) as f64).sqrt();
        of_b = find_norms(comm, b, None)?.into_iter().map(|norm| scale * norm).collect();
    }
    let add_product = |sums: &mut [f64], of_sum: &[f64], of_other: &[f64], other_sizes: &[f64]| {
        let others = of_other.iter().zip(other_sizes).map(|(norm, size)| norm / find_scale(*size));
        let others = others.fold(0.0, f64::hypot);
        for (sum, norm) in sums.iter_mut().zip(of_sum) {
            *sum = (beta * *sum).hypot(norm * others);
        }
    };
    let mut sizes = find_norms(comm, c, None)?;
    add_product(&mut sizes, &of_b, &of_a, &vec![1.0; of_a.len()]);
    let mut row_sizes = find_row_norms(comm, c, &sizes)?;
    add_product(&mut row_sizes, &of_a, &of_b, &sizes);
    sizes = find_norms(comm, c, Some(&row_sizes))?;
    add_product(&mut sizes, &of_b, &of_a, &row_sizes);
    // Columns that are zero here are scaled by other matrices, whose rows are as they are.
    let usual = row_sizes.iter().copied().fold(0.0, f64::hypot);
    let rows = (row_sizes.len().max(1) as f64).sqrt();
    sizes.iter_mut().for_each(|size| *size *= usual / rows);
    Ok(sizes)
}
