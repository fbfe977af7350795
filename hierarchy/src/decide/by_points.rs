//! The division of a multiplication by measured points alone.
//!
//! # Deviations
//! * **HPOPTA of a multiplication**: the paper takes sample means at every size of a fine grid (supplement, sections 1 and 4).
//!   Here a size has the upper end of its confidence interval, because the smallest of many noisy means is too small.
//! * **columns of HPOPTA**: the paper divides sizes of one dimension (supplement, sections 4 and 5). Here these are whole
//!   columns of blocks, and the nodes and their devices lie side by side in C, because rectangles would round measured sizes.

use super::{Decision, Division};
use crate::balance::{BalanceConfig, BalanceOutcome, EndReason, imbalance};
use crate::layout::slice_cols;
use crate::model::{Estimate, Point, TimeFunction};
use crate::partition::{PartitionError, hpopta};
use crate::problem::Problem;

/// Divides the block columns of C among the devices of all nodes by [`hpopta()`], without a fit of their points. Returns the
/// decision with the columns of each node's devices.
///
/// `nodes` has the points of each node's devices. A unit is an element of C, updated over an inner dimension of `kernel_width`.
/// The points of `w` whole columns of blocks, `⌈m/b⌉·w` blocks, divide; others are left out.
///
/// # Errors
/// Returns [`PartitionError::Points`] for a bad point, and the errors of [`hpopta()`] if no measured sizes divide C.
pub fn divide_by_points(
    problem: &Problem,
    config: BalanceConfig,
    kernel_width: usize,
    nodes: &[Vec<Vec<Point>>],
) -> Result<(Decision, Vec<Vec<usize>>), PartitionError> {
    let (rows, cols) = problem.c_blocks();
    let column = (rows * (problem.block() * problem.block()) as u64).max(1);
    let functions = nodes.iter().flatten().enumerate().map(|(index, points)| {
        let whole = points.iter().filter(|point| point.d.is_multiple_of(column));
        let whole: Vec<Point> =
            whole.map(|point| Point { d: point.d / column, ..*point }).collect();
        TimeFunction::from_points(1, &whole, Estimate::Upper)
            .map_err(|reason| PartitionError::Points { index, reason })
    });
    let parts = hpopta(&functions.collect::<Result<Vec<_>, _>>()?, &[], cols)?;
    let (mut next, mut parts) = (0, parts.units.into_iter().zip(parts.times_s));
    let (mut widths, mut times_s, mut slices) = (Vec::new(), Vec::new(), Vec::new());
    for devices in nodes {
        let (first, mut time_s, mut columns) = (next, 0.0, Vec::new());
        for (width, device_s) in parts.by_ref().take(devices.len()) {
            let [from, to] = [next, next + width].map(|end| problem.block_end(end, problem.n()));
            columns.push(to - from);
            next += width;
            time_s = f64::max(time_s, device_s);
        }
        widths.push(next - first);
        times_s.push(time_s);
        slices.push(columns);
    }
    let Ok(layout) = slice_cols(rows, &widths) else {
        unreachable!("the blocks of a problem, divided among nodes, can be counted")
    };
    let balance = BalanceOutcome {
        imbalance: imbalance(&times_s),
        times_s,
        iterations: 0,
        converged: false,
        why: EndReason::Predicted,
        history: Vec::new(),
        falling: Vec::new(),
    };
    let decision = Decision {
        balance: Some(balance),
        config,
        kernel_width,
        ..Decision::of_caller(Division::C(layout))
    };
    Ok((decision, slices))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the points of a device: a time and the half-width of its interval, by columns of blocks 16 high.
    fn points(times: &[(u64, f64, f64)]) -> Vec<Point> {
        times.iter().map(|&(d, t_s, ci_s)| Point { d: d * 4 * 16, t_s, reps: 3, ci_s }).collect()
    }

    #[test]
    fn devices_get_measured_columns_of_any_shape_by_the_upper_ends_of_their_intervals() {
        // 4 × 4 blocks of 4; the last column of blocks is cut short.
        let problem = Problem::new(14, 13, 8, 4).unwrap();
        let fast = points(&[(1, 3.0, 0.0), (2, 1.0, 0.0), (3, 0.9, 2.0)]);
        let slow = [points(&[(1, 1.5, 0.0)]), points(&[(1, 1.4, 0.2), (2, 9.0, 0.0)])];
        let nodes = [vec![fast.clone()], slow.to_vec()];
        let config = BalanceConfig::default();
        let (decision, slices) = divide_by_points(&problem, config, 2, &nodes).unwrap();
        // By the means, three columns and one would be the fastest.
        assert_eq!(slices, [vec![8], vec![4, 1]]);
        let layout = decision.division.layout();
        assert_eq!((layout.areas(), layout.rects()[1].col), (vec![8, 8], 2));
        let balance = decision.balance.unwrap();
        assert_eq!(balance.why, EndReason::Predicted);
        assert!(balance.times_s[0] == 1.0 && (balance.times_s[1] - 1.6).abs() < 1e-12);
        let few = divide_by_points(&problem, config, 2, &[vec![fast]]);
        assert!(matches!(few, Err(PartitionError::BeyondModels { .. })), "{few:?}");
        let odd = [vec![vec![Point { d: 100, t_s: 1.0, reps: 1, ci_s: 0.0 }]]];
        assert!(divide_by_points(&problem, config, 2, &odd).is_err());
    }
}
