//! The shape restrictions that the geometric partitioning algorithm needs.

use super::Knot;

/// Removes or lowers the points that break the admissible shape: rising and concave up to the highest
/// speed, not rising after it.
///
/// `points` are in ascending order of `d`, each `d` once. The four rules, in order:
/// 1. The peak is the point of highest speed (the first of several).
/// 2. Up to the peak, a point slower than the one before it is removed.
/// 3. Up to the peak, a point after which the slope grows is removed, and the one before it is tested
///    again.
/// 4. After the peak, a point faster than the one before it gets the speed of that one.
///
/// # Deviations
/// * **shape restrictions, first point**: the thesis compares slopes between points only (section
///   3.2.1). Here a first point that takes as long as the next one or longer is removed, because
///   `t(d)` would not increase. The function is constant to the left of the first point. If start-up
///   cost or noise makes that point slow, a line through the origin may meet the function twice,
///   although it is concave between points.
/// * **shape restrictions, after the peak**: the thesis removes a point faster than its predecessor
///   (section 3.2.1). Here it counts as equally fast, because a plateau would lose its edge. Any point
///   of a plateau may be a little faster than the one before. Without its last point the speed would
///   seem to fall from the middle of the plateau on, although the cliff begins at its end.
///
/// # References
/// Clarke's thesis, section 3.2.1.
pub(super) fn restrict_shape(points: &[Knot]) -> Vec<Knot> {
    let mut peak = 0;
    for (i, point) in points.iter().enumerate() {
        if point.speed > points[peak].speed {
            peak = i;
        }
    }
    let rising = points.len().min(peak + 1);
    let mut knots: Vec<Knot> = Vec::with_capacity(points.len());
    let mut fastest = 0.0;
    for &point in &points[..rising] {
        if point.speed < fastest {
            continue;
        }
        fastest = point.speed;
        while breaks_concavity(&knots, point) {
            knots.pop();
        }
        knots.push(point);
    }
    for &Knot { d, speed } in &points[rising..] {
        if let Some(last) = knots.last() {
            let speed = speed.min(last.speed);
            knots.push(Knot { d, speed });
        }
    }
    knots
}

/// Returns `true` if the last of `knots` lies below the line from its predecessor to `next`. The
/// predecessor of a first knot is the origin, and a first knot on the line counts as below it.
fn breaks_concavity(knots: &[Knot], next: Knot) -> bool {
    match knots {
        [] => false,
        [only] => only.time_s() >= next.time_s(),
        [.., before, last] => last.slope_to(next) > before.slope_to(*last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restricted(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        let knots: Vec<Knot> = points.iter().map(|&(d, speed)| Knot { d, speed }).collect();
        (restrict_shape(&knots).iter()).map(|k| (k.d, k.speed)).collect()
    }

    #[test]
    fn admissible_points_stay() {
        let points = [(1.0, 10.0), (10.0, 30.0), (20.0, 40.0), (30.0, 25.0), (40.0, 1.0)];
        assert_eq!(restricted(&points), points);
        assert_eq!(restricted(&[]), []);
    }

    #[test]
    fn a_dip_before_the_peak_goes_and_a_bump_after_it_is_cut() {
        let points = [(1.0, 10.0), (5.0, 9.0), (20.0, 40.0), (30.0, 25.0), (40.0, 26.0)];
        assert_eq!(restricted(&points), [(1.0, 10.0), (20.0, 40.0), (30.0, 25.0), (40.0, 25.0)]);
    }

    #[test]
    fn a_growing_slope_goes_back_as_far_as_needed() {
        // Only the chord from the first point to the peak is concave.
        let points = [(1.0, 10.0), (10.0, 12.0), (20.0, 15.0), (30.0, 40.0)];
        assert_eq!(restricted(&points), [(1.0, 10.0), (30.0, 40.0)]);
    }

    #[test]
    fn a_first_point_slower_in_time_than_a_larger_one_goes() {
        // t(1) = 1 s, t(100) = 0.5 s.
        assert_eq!(restricted(&[(1.0, 1.0), (100.0, 200.0)]), [(100.0, 200.0)]);
    }
}
