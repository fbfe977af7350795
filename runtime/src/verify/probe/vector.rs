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

/// Draws the probe vector for columns of these sizes: `±(1 + ξ/4)/size` with uniform ξ. Each group has as many positive
/// signs as negative ones: rounding that is alike in all columns cancels out but for ξ.
pub(super) fn draw_vector(seed: u64, groups: &ColumnGroups, sizes: &[f64]) -> Vec<f64> {
    let mut vector = Vec::with_capacity(sizes.len());
    for cols in (0..groups.count()).map(|group| groups.cols(group)) {
        let first = vector.len();
        vector.extend(cols.map(|col| if col % 2 == 0 { 1.0 } else { -1.0 }));
        let signs = &mut vector[first..];
        for last in (1..signs.len()).rev() {
            let other = hash(seed, first + last, 1) % (last as u64 + 1);
            signs.swap(last, other as usize);
        }
    }
    for (col, (x, size)) in vector.iter_mut().zip(sizes).enumerate() {
        let fraction = (hash(seed, col, 2) >> 11) as f64 * 2f64.powi(-53);
        *x *= (1.0 + fraction / 4.0) / find_scale(*size);
    }
    vector
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
