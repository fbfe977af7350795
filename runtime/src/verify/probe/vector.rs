//! The probe vector: signs with random sizes, scaled by the columns of C.

use std::ops::Range;

use isochron_devices::Scalar;

use super::batches::{find_part, pass_over, size_column};
use crate::comm::Comm;
use crate::error::Error;
use crate::matrix::{Operand, hash};

/// Columns of a group: rounding adds up to `√GROUP` times that of one element.
const GROUP: usize = 512;
/// The most groups. Beyond `GROUP·MOST_GROUPS` columns a group grows, so that the check's cost stays proportional to the
/// matrices.
const MOST_GROUPS: usize = 32;

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
        Self {
            cols,
            width: GROUP.max(cols.div_ceil(MOST_GROUPS)),
        }
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
#[derive(Debug)]
pub(super) struct ProbeVector {
    /// `±(1 + ξ/4)`. Each group has as many positive signs as negative ones: rounding that is alike in all columns cancels
    /// out but for ξ.
    draws: Vec<f64>,
    /// The size by which each column is scaled; 0 until a matrix has something in that column.
    scales: Vec<f64>,
    /// The size of each column over all matrices.
    sizes: Vec<f64>,
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
            draws,
        }
    }

    /// Notes the columns' sizes in one more matrix. Columns that were zero before are scaled by it: their numbers have
    /// multiplied nothing yet.
    pub(super) fn note_sizes(&mut self, sizes: &[f64]) {
        for ((scale, total), size) in self.scales.iter_mut().zip(&mut self.sizes).zip(sizes) {
            *total = total.hypot(*size);
            if *scale == 0.0 {
                *scale = *size;
            }
        }
    }

    /// Returns the numbers of the vector.
    pub(super) fn numbers(&self) -> Vec<f64> {
        divide_by_sizes(self.draws.iter().copied(), &self.scales)
    }

    /// Returns one over the size of each column.
    pub(super) fn weights(&self) -> Vec<f64> {
        divide_by_sizes(self.draws.iter().map(|_| 1.0), &self.sizes)
    }
}

fn divide_by_sizes(numbers: impl Iterator<Item = f64>, sizes: &[f64]) -> Vec<f64> {
    numbers
        .zip(sizes)
        .map(|(number, size)| number / find_scale(*size))
        .collect()
}

/// Returns a size by which can be divided.
fn find_scale(size: f64) -> f64 {
    if size == 0.0 || size.is_nan() {
        1.0
    } else {
        size.clamp(1e-280, 1e280)
    }
}

/// Returns the Euclidean norm of each column, over all ranks. If squares overflow or vanish, the sum of its magnitudes stands
/// for it.
///
/// # Collective
/// All ranks.
pub(super) fn find_norms<T: Scalar>(
    comm: &dyn Comm,
    factor: &Operand<'_, T>,
) -> Result<Vec<f64>, Error> {
    let n = factor.cols();
    let mut sums = vec![0.0; 2 * n];
    pass_over(factor, &find_part(factor), |batch| {
        for (col, column) in batch.cols.clone().zip(batch.columns) {
            let [sizes, squares] = size_column(column);
            sums[col] += sizes;
            sums[n + col] += squares;
        }
    });
    comm.sum_f64(&mut sums)?;
    let (sizes, squares) = sums.split_at(n);
    let norms = sizes.iter().zip(squares).map(|(&size, &square)| {
        if square.is_normal() {
            square.sqrt()
        } else {
            size
        }
    });
    Ok(norms.collect())
}

/// Returns the norms that the columns of `alpha·A·B` have if their terms are independent.
///
/// # Errors
/// See [`Comm`].
///
/// # Collective
/// All ranks.
pub(super) fn find_product_norms<T: Scalar>(
    comm: &dyn Comm,
    alpha: T,
    [a, b]: [&Operand<'_, T>; 2],
) -> Result<Vec<f64>, Error> {
    let of_a = find_norms(comm, a)?.into_iter().fold(0.0, f64::hypot);
    let scale = alpha.value().norm() * of_a / (a.cols().max(1) as f64).sqrt();
    Ok(find_norms(comm, b)?
        .into_iter()
        .map(|norm| scale * norm)
        .collect())
}
