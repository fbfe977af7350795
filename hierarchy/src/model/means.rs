//! What repeated measurements of one size say together.

use super::{Knot, Point, Polyline, SpeedModel};

/// A measured speed and how well it is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mean {
    pub(super) knot: Knot,
    /// Half-width of the speed's confidence interval.
    pub(super) ci: f64,
    /// Repetitions; 0 for a floor.
    pub(super) weight: f64,
}

/// One mean for each size; ascending in `d`: of a measured one that of its times weighted by
/// repetitions, and the floors of other sizes, as far as the measured speeds promise less time.
pub(super) fn means(points: &[Point]) -> Vec<Mean> {
    let mut means = measured(points);
    if means.len() == points.len() {
        return means;
    }
    let line = Polyline::of(&means);
    let promises_less =
        |floor: &Mean| line.is_empty() || line.time_s(floor.knot.d) < floor.knot.time_s();
    let is_new = |floor: &Mean| line.knots().iter().all(|knot| knot.d != floor.knot.d);
    means.extend(
        floors(points)
            .into_iter()
            .filter(is_new)
            .filter(promises_less),
    );
    means.sort_by(|a, b| a.knot.d.total_cmp(&b.knot.d));
    means
}

/// One mean for each size that was measured, ascending in `d`.
///
/// The order of the points does not matter, not even to the last digit. Sizes that are the same number
/// in floating point (above 2⁵³ neighbours are) count as the same.
pub(super) fn measured(points: &[Point]) -> Vec<Mean> {
    by_size(points.iter().filter(|point| point.reps > 0))
}

/// The floors, ascending in `d`: no size takes less than the floor of a smaller one.
fn floors(points: &[Point]) -> Vec<Mean> {
    let mut floors = by_size(points.iter().filter(|point| point.reps == 0));
    let mut least_s: f64 = 0.0;
    for Mean { knot, .. } in &mut floors {
        least_s = least_s.max(knot.time_s());
        knot.speed = knot.d / least_s;
    }
    floors
}

fn by_size<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<Mean> {
    let mut sorted: Vec<Point> = points.copied().collect();
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
    /// Repetitions; 0 for a floor.
    pub(super) reps: f64,
}

/// The mean of times weighted by repetitions, of `(t_s, reps, ci_s)` of the same size; of floors only, the
/// largest.
pub(super) fn mean_time(same: impl Iterator<Item = (f64, u32, f64)> + Clone) -> MeanTime {
    let total: f64 = same.clone().map(|(_, reps, _)| f64::from(reps)).sum();
    if total == 0.0 {
        return MeanTime {
            t_s: same.map(|(t_s, _, _)| t_s).fold(0.0, f64::max),
            ci_s: 0.0,
            reps: 0.0,
        };
    }
    let weight = |reps: u32| f64::from(reps) / total;
    let t_s = same.clone().map(|(t_s, reps, _)| t_s * weight(reps)).sum();
    let ci_s = same
        .map(|(_, reps, ci_s)| ci_s * weight(reps))
        .fold(0.0, f64::hypot);
    MeanTime {
        t_s,
        ci_s,
        reps: total,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(d: u64, t_s: f64, reps: u32) -> Point {
        Point {
            d,
            t_s,
            reps,
            ci_s: 0.0,
        }
    }

    fn times(points: &[Point]) -> Vec<(f64, f64)> {
        let means = means(points);
        means.iter().map(|m| (m.knot.d, m.knot.time_s())).collect()
    }

    #[test]
    fn a_floor_counts_where_the_measured_speed_promises_less_time() {
        let measured = point(100, 1.0, 3);
        assert_eq!(
            times(&[measured, point(200, 8.0, 0)]),
            [(100.0, 1.0), (200.0, 8.0)]
        );
        // 200 units take 2 s at the measured speed: to know that it is 1.5 s or more says nothing.
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
