//! What repeated measurements of one size say together.

use super::{Knot, Point};

/// A measured speed and how well it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mean {
    pub(super) knot: Knot,
    /// Half-width of the speed's confidence interval.
    pub(super) ci: f64,
    /// Repetitions.
    pub(super) weight: f64,
}

/// One mean for each measured size, at the mean of its times weighted by repetitions; ascending in
/// `d`.
///
/// The order of the points does not matter, not even to the last digit. Sizes that are the same number
/// in floating point (above 2⁵³ neighbours are) count as the same.
pub(super) fn average(points: &[Point]) -> Vec<Mean> {
    let mut sorted = points.to_vec();
    sorted.sort_unstable_by(|a, b| {
        a.d.cmp(&b.d)
            .then(a.t_s.total_cmp(&b.t_s))
            .then(a.reps.cmp(&b.reps))
            .then(a.ci_s.total_cmp(&b.ci_s))
    });
    sorted
        .chunk_by(|a, b| a.d as f64 == b.d as f64)
        .map(|same| {
            let d = same[0].d as f64;
            let time = mean_time(same.iter().map(|point| (point.t_s, point.reps, point.ci_s)));
            let speed = d / time.t_s;
            Mean {
                knot: Knot { d, speed },
                ci: speed * (time.ci_s / time.t_s),
                weight: time.reps,
            }
        })
        .collect()
}

/// A mean of times.
pub(super) struct MeanTime {
    pub(super) t_s: f64,
    /// Half-width of its confidence interval.
    pub(super) ci_s: f64,
    /// Repetitions.
    pub(super) reps: f64,
}

/// The mean of times weighted by repetitions, of `(t_s, reps, ci_s)`.
pub(super) fn mean_time(same: impl Iterator<Item = (f64, u32, f64)> + Clone) -> MeanTime {
    // A point that claims no repetitions was still measured once.
    let weight = |reps: u32| f64::from(reps.max(1));
    let total: f64 = same.clone().map(|(_, reps, _)| weight(reps)).sum();
    let t_s = same
        .clone()
        .map(|(t_s, reps, _)| t_s * (weight(reps) / total))
        .sum();
    let ci_s = same
        .map(|(_, reps, ci_s)| ci_s * (weight(reps) / total))
        .fold(0.0, f64::hypot);
    MeanTime {
        t_s,
        ci_s,
        reps: total,
    }
}
