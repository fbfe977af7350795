//! The check of a solution, by a bound that follows from rounding.

use isochron_core::Error;
use isochron_core::comm::Comm;

use super::options::JacobiVerify;
use super::solution::Solution;
use super::system::{LinearSystem, know_solution};

/// The outcome of a check.
pub struct SystemVerdict {
    /// `None` if nothing was checked.
    pub passed: Option<bool>,
    /// Largest difference from the known solution, over its largest element; `None` if none is known or asked for.
    pub error: Option<f64>,
}

/// The largest values over rows.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RowSums {
    /// `|b_i - a_i·x|`, added up from the first column to the last.
    residual: f64,
    /// The most by which rounding may change a residual of the row.
    rounding: f64,
    /// The least of `|a_ii| - Σ_{j≠i} |a_ij|`.
    gap: f64,
}

/// Compares the residual of a solution with one that is computed in another way, and the solution with the known one.
///
/// The residuals may differ by twice what rounding may add to a sum. The difference from the known solution is at most
/// `max |r_i| / min (|a_ii| - Σ_{j≠i} |a_ij|)`, if that is positive; otherwise no bound is known, and the difference is told
/// only.
///
/// # References
/// Varah, "A lower bound for the smallest singular value of a matrix", 1975.
///
/// # Collective
/// All ranks.
pub(super) fn check_solution(
    comm: &dyn Comm,
    system: &LinearSystem,
    solution: &Solution,
    verify: JacobiVerify,
) -> Result<SystemVerdict, Error> {
    if verify == JacobiVerify::None {
        return Ok(SystemVerdict { passed: None, error: None });
    }
    let sums = gather_sums(comm, &add_rows(system, &solution.x))?;
    let told = solution.residual * solution.scale;
    let is_right = (told - sums.residual).abs() <= 2.0 * sums.rounding;
    if verify == JacobiVerify::Residual {
        return Ok(SystemVerdict { passed: Some(is_right), error: None });
    }
    let n = solution.x.len();
    let difference = solution
        .x
        .iter()
        .enumerate()
        .map(|(at, x)| (x - know_solution(n, at)).abs())
        .fold(0.0, f64::max);
    let is_near = sums.gap <= 0.0 || difference * sums.gap <= sums.residual + 2.0 * sums.rounding;
    Ok(SystemVerdict {
        passed: Some(is_right && is_near),
        error: Some(difference / know_solution(n, n - 1)),
    })
}

/// Computes the sums of this rank's rows.
fn add_rows(system: &LinearSystem, x: &[f64]) -> RowSums {
    let rows = system.local();
    let n = x.len();
    let mut sums = RowSums { residual: 0.0, rounding: 0.0, gap: f64::MAX };
    for (index, (row, b)) in rows.a.chunks_exact(n).zip(rows.b).enumerate() {
        let (mut left, mut magnitude, mut others) = (*b, b.abs(), 0.0);
        for (col, (a, x)) in row.iter().zip(x).enumerate() {
            left -= a * x;
            // The right side of the known solution was rounded too.
            magnitude += (a * x).abs() + (a * know_solution(n, col)).abs();
            others += a.abs();
        }
        let diagonal = row[rows.first + index].abs();
        sums.residual = sums.residual.max(left.abs());
        sums.rounding = sums.rounding.max((n as f64 + 2.0) * f64::EPSILON * magnitude);
        sums.gap = sums.gap.min(2.0 * diagonal - others);
    }
    sums
}

fn gather_sums(comm: &dyn Comm, mine: &RowSums) -> Result<RowSums, Error> {
    let all = comm.gather(&[mine.residual, mine.rounding, mine.gap])?;
    let [residuals, roundings, gaps] =
        [0, 1, 2].map(|at| all.iter().map(move |of_rank| of_rank[at]));
    Ok(RowSums {
        residual: residuals.fold(0.0, f64::max),
        rounding: roundings.fold(0.0, f64::max),
        gap: gaps.fold(f64::MAX, f64::min),
    })
}
