//! Means of repeated measurements of one size.

use std::cmp::Ordering;

use super::{Knot, Point, Polyline, SpeedModel};

/// A measured speed and its precision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mean {
    pub(super) knot: Knot,
    /// Half-width of the speed's confidence interval, in units per second; 0 if it is not known.
    pub(super) ci: f64,
}

/// Returns one mean for each size, ascending in `d`. A measured size has the mean of its times, weighted
/// by repetitions. Another size has its floor, unless the measured speeds predict at least that time.
pub(super) fn average_sizes(points: &[Point]) -> Vec<Mean> {
    let mut means = average_measured(points);
    if means.len() == points.len() {
        return means;
    }
    let line = Polyline::from_means(&means);
    means.extend(list_floors(points).into_iter().filter(|floor| {
        let d = floor.knot.d;
        let is_new = line.knots().binary_search_by(|knot| knot.d.total_cmp(&d)).is_err();
        is_new && (line.knots().is_empty() || line.time_s(d) < floor.knot.time_s())
    }));
    means.sort_by(|a, b| a.knot.d.total_cmp(&b.knot.d));
    means
}

/// Returns the corners at the [mean speeds](average_sizes), ascending in `d`.
pub(super) fn average_knots(points: &[Point]) -> Vec<Knot> {
    let means = average_sizes(points).into_iter();
    let mut knots: Vec<Knot> = means.map(|mean| mean.knot).collect();
    // They take the place of the means.
    knots.shrink_to_fit();
    knots
}

/// Returns one mean for each measured size, ascending in `d`.
///
/// The order of the points does not matter, not even to the last digit. Sizes that are the same number
/// in floating point, as neighbours above 2⁵³ are, count as one size.
pub(super) fn average_measured(points: &[Point]) -> Vec<Mean> {
    average_by_size(points, |point| point.reps > 0)
}

/// Returns the floors, ascending in `d`. No size takes less than the floor of a smaller one.
fn list_floors(points: &[Point]) -> Vec<Mean> {
    let mut floors = average_by_size(points, |point| point.reps == 0);
    let mut least_s: f64 = 0.0;
    for Mean { knot, .. } in &mut floors {
        least_s = least_s.max(knot.time_s());
        knot.speed = knot.d / least_s;
    }
    floors
}

/// Averages the points that `is_wanted` takes. Points that are in order, as those of a file, are not copied.
fn average_by_size(points: &[Point], is_wanted: fn(&Point) -> bool) -> Vec<Mean> {
    let is_ready = points.iter().all(is_wanted) && points.is_sorted_by(|a, b| order(a, b).is_le());
    if is_ready {
        return average_sorted(points);
    }
    let mut sorted: Vec<Point> = points.iter().filter(|point| is_wanted(point)).copied().collect();
    sorted.sort_unstable_by(order);
    average_sorted(&sorted)
}

fn order(a: &Point, b: &Point) -> Ordering {
    a.d.cmp(&b.d)
        .then(a.t_s.total_cmp(&b.t_s))
        .then(a.reps.cmp(&b.reps))
        .then(a.ci_s.total_cmp(&b.ci_s))
}

fn average_sorted(points: &[Point]) -> Vec<Mean> {
    points
        .chunk_by(|a, b| a.d as f64 == b.d as f64)
        .map(|same| {
            let d = same[0].d as f64;
            let time = mean_time(same.iter().map(|point| (point.t_s, point.reps, point.ci_s)));
            let speed = d / time.t_s;
            Mean { knot: Knot { d, speed }, ci: speed * (time.ci_s / time.t_s) }
        })
        .collect()
}

/// A mean of times.
pub(super) struct MeanTime {
    pub(super) t_s: f64,
    /// Half-width of its confidence interval, in seconds.
    pub(super) ci_s: f64,
}

/// Averages the times of one size, given as `(t_s, reps, ci_s)`, weighted by repetitions. If all are
/// floors, returns the largest.
pub(super) fn mean_time(same: impl Iterator<Item = (f64, u32, f64)> + Clone) -> MeanTime {
    let total: f64 = same.clone().map(|(_, reps, _)| f64::from(reps)).sum();
    if total == 0.0 {
        return MeanTime { t_s: same.map(|(t_s, _, _)| t_s).fold(0.0, f64::max), ci_s: 0.0 };
    }
    let weighted = same.map(|(t_s, reps, ci_s)| (f64::from(reps) / total, t_s, ci_s));
    MeanTime {
        t_s: weighted.clone().map(|(weight, t_s, _)| t_s * weight).sum(),
        ci_s: (weighted.map(|(weight, _, ci_s)| ci_s * weight)).fold(0.0, f64::hypot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(d: u64, t_s: f64, reps: u32) -> Point {
        Point { d, t_s, reps, ci_s: 0.0 }
    }

    fn times(points: &[Point]) -> Vec<(f64, f64)> {
        average_sizes(points).iter().map(|m| (m.knot.d, m.knot.time_s())).collect()
    }

    #[test]
    fn a_floor_counts_if_the_measured_speed_predicts_less_time() {
        let measured = point(100, 1.0, 3);
        assert_eq!(times(&[measured, point(200, 8.0, 0)]), [(100.0, 1.0), (200.0, 8.0)]);
        // 200 units take 2 s at the measured speed, so that a floor of 1.5 s adds no knowledge.
        assert_eq!(times(&[measured, point(200, 1.5, 0)]), [(100.0, 1.0)]);
        assert_eq!(times(&[point(200, 1.5, 0)]), [(200.0, 1.5)]);
    }

    #[test]
    fn a_measured_time_replaces_the_floor_of_its_size() {
        let points = [point(200, 8.0, 0), point(200, 9.0, 1), point(200, 11.0, 1)];
        assert_eq!(times(&points), [(200.0, 10.0)]);
    }

    #[test]
    fn the_floor_of_a_smaller_size_holds_for_a_larger_one() {
        let floors = [point(200, 8.0, 0), point(200, 6.0, 0), point(300, 7.0, 0)];
        assert_eq!(times(&floors), [(200.0, 8.0), (300.0, 8.0)]);
    }
}
