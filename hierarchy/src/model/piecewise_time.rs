//! The functional performance model that is linear in time.

use serde::{Deserialize, Serialize};

use super::means::average_knots;
use super::{ModelError, Point, SpeedModel};

/// Functional performance model linear in *time*: from the origin to the first knot, from knot to knot,
/// and beyond the last one at its speed.
///
/// The model needs only a time that strictly increases with the size, not the shape that
/// [`PiecewiseFpm`](super::PiecewiseFpm) needs. It follows valleys and steps of the speed, and represents
/// a start-up cost `t = c + d / s` exactly.
///
/// **Restriction.** The model goes through a largest set of measured sizes with strictly increasing times,
/// of several such sets one of small times, because disturbances only make a measurement longer. With
/// averages instead (isotonic regression) one long outlier would raise the times after it.
///
/// **Beyond the last knot** the speed is constant, as in the thesis. The slope of the last segment would
/// be mostly noise if its two measurements lie close together.
///
/// # Deviations
/// * **time model**: FuPerMod interpolates times linearly, from data coarsened to an admissible shape
///   of the speed, or by an Akima spline (thesis, appendix A.3). Here times are linear between
///   increasing points, because increasing times are all that the geometric algorithm needs.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{PiecewiseTime, Point, SpeedModel};
///
/// let points = [(100, 2.0), (300, 4.0)].map(|(d, t_s)| Point { d, t_s, reps: 3, ci_s: 0.0 });
/// let model = PiecewiseTime::from_points(&points)?;
/// assert_eq!(model.time_s(50.0), 1.0);
/// assert_eq!(model.time_s(200.0), 3.0);
/// assert_eq!(model.units_within(3.0), 200.0);
/// assert_eq!(model.time_s(600.0), 8.0);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
///
/// # References
/// Clarke's thesis, appendix A.3: FuPerMod approximates times. Fredman, "On computing the length of
/// longest increasing subsequences", Discrete Mathematics 11(1), 1975, for the restriction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PiecewiseTime {
    knots: Vec<TimeKnot>,
}

/// A corner of a piecewise linear time function.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TimeKnot {
    /// Problem size in units.
    pub d: f64,
    /// Time of that size in seconds.
    pub t_s: f64,
}

impl TimeKnot {
    /// Returns the speed in units per second, which is 0 at the origin.
    fn speed(self) -> f64 {
        if self.t_s > 0.0 { self.d / self.t_s } else { 0.0 }
    }

    fn slope_to(self, next: Self) -> f64 {
        (next.t_s - self.t_s) / (next.d - self.d)
    }
}

impl PiecewiseTime {
    /// Builds a model of these points, in any order; the times of a repeated size are averaged, weighted by
    /// repetitions. Without points its speed is 0 everywhere.
    ///
    /// # Errors
    /// Returns [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`] for a bad point.
    pub fn from_points(points: &[Point]) -> Result<Self, ModelError> {
        points.iter().try_for_each(Point::check)?;
        let knots: Vec<TimeKnot> = average_knots(points)
            .into_iter()
            .map(|knot| TimeKnot { d: knot.d, t_s: knot.time_s() })
            .collect();
        // Times mostly increase, and nothing is left out then.
        if knots.is_sorted_by(|a, b| a.t_s < b.t_s) {
            return Ok(Self { knots });
        }
        Ok(Self { knots: keep_longest_increasing(knots) })
    }

    /// Returns the corners of the approximation, ascending in size and time, without the origin.
    pub fn knots(&self) -> &[TimeKnot] {
        &self.knots
    }

    /// Returns the corner to the left of the knot `right`, or the origin, and that knot if it exists.
    fn around(&self, right: usize) -> (TimeKnot, Option<TimeKnot>) {
        let left = right.checked_sub(1).map_or_else(TimeKnot::default, |left| self.knots[left]);
        (left, self.knots.get(right).copied())
    }

    fn around_size(&self, d: f64) -> (TimeKnot, Option<TimeKnot>) {
        self.around(self.knots.partition_point(|knot| knot.d <= d))
    }
}

impl SpeedModel for PiecewiseTime {
    fn speed(&self, d: f64) -> f64 {
        match (self.knots.first(), self.knots.last()) {
            (Some(first), _) if d <= first.d => first.speed(),
            (_, Some(last)) if d >= last.d => last.speed(),
            (Some(_), Some(_)) => d / self.time_s(d),
            _ => 0.0,
        }
    }

    fn time_s(&self, d: f64) -> f64 {
        if d <= 0.0 {
            return 0.0;
        }
        match self.around_size(d) {
            (a, Some(b)) => a.t_s + (b.t_s - a.t_s) * ((d - a.d) / (b.d - a.d)),
            (a, None) => d / a.speed(),
        }
    }

    fn time_derivative(&self, d: f64) -> f64 {
        match self.around_size(d) {
            (a, Some(b)) => a.slope_to(b),
            (a, None) => 1.0 / a.speed(),
        }
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        match self.around_size(d) {
            // With t = a.t_s + m (d - a.d) the slope is (t - d m) / t², and t - d m is constant.
            (a, Some(b)) if a.d > 0.0 => {
                let t_s = self.time_s(d);
                (a.t_s - a.d * a.slope_to(b)) / t_s / t_s
            }
            _ => 0.0,
        }
    }

    fn units_within(&self, t_s: f64) -> f64 {
        match self.around(self.knots.partition_point(|knot| knot.t_s <= t_s)) {
            (a, Some(b)) => a.d + (b.d - a.d) * ((t_s - a.t_s) / (b.t_s - a.t_s)),
            (a, None) if a.d > 0.0 => t_s * a.speed(),
            _ => 0.0,
        }
    }
}

/// Returns a largest part of `knots` with strictly increasing times. The knots ascend in size.
fn keep_longest_increasing(mut knots: Vec<TimeKnot>) -> Vec<TimeKnot> {
    // For each length, the last corner of the part that ends with the least time.
    let mut ends: Vec<usize> = Vec::new();
    // The corner before each one in such a part; itself if there is none.
    let mut before: Vec<usize> = Vec::with_capacity(knots.len());
    for (i, knot) in knots.iter().enumerate() {
        let length = ends.partition_point(|&end| knots[end].t_s < knot.t_s);
        before.push(length.checked_sub(1).map_or(i, |shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = i,
            None => ends.push(i),
        }
    }
    let mut last = ends.last().copied().unwrap_or(0);
    for end in ends.iter_mut().rev() {
        *end = last;
        last = before[last];
    }
    for (place, &kept) in ends.iter().enumerate() {
        knots[place] = knots[kept];
    }
    knots.truncate(ends.len());
    knots.shrink_to_fit();
    knots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(points: &[(u64, f64)]) -> PiecewiseTime {
        let points: Vec<Point> =
            (points.iter()).map(|&(d, t_s)| Point { d, t_s, reps: 1, ci_s: 0.0 }).collect();
        PiecewiseTime::from_points(&points).expect("valid")
    }

    #[test]
    fn an_empty_model_completes_nothing() {
        let model = model(&[]);
        assert_eq!(model.speed(5.0), 0.0);
        assert_eq!(model.time_s(5.0), f64::INFINITY);
        assert_eq!(model.units_within(5.0), 0.0);
    }

    #[test]
    fn one_outlier_takes_no_other_point_with_it() {
        let times = [(1, 1.0), (2, 2.0), (3, 300.0), (4, 4.0), (5, 5.0), (6, 0.01), (7, 7.0)];
        let model = model(&times);
        let kept: Vec<f64> = model.knots().iter().map(|knot| knot.d).collect();
        assert_eq!(kept, [1.0, 2.0, 4.0, 5.0, 7.0]);
        assert_eq!(model.time_s(3.0), 3.0);
    }

    #[test]
    fn of_two_contradicting_times_the_longer_is_doubted() {
        let model = model(&[(10, 4.0), (20, 2.0)]);
        assert_eq!(model.knots(), [TimeKnot { d: 20.0, t_s: 2.0 }]);
    }

    #[test]
    fn slopes_are_those_of_the_segment_to_the_right() {
        let model = model(&[(10, 1.0), (20, 4.0)]);
        assert_eq!(model.speed_derivative(5.0), 0.0);
        assert_eq!(model.time_derivative(5.0), 0.1);
        assert_eq!(model.time_derivative(10.0), 0.3);
        assert_eq!(model.time_derivative(20.0), 0.2);
        let (d, step) = (15.0, 1e-6);
        let slope = (model.speed(d + step) - model.speed(d - step)) / (2.0 * step);
        assert!((model.speed_derivative(d) / slope - 1.0).abs() < 1e-6);
    }
}
