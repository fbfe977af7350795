//! The functional performance model that is linear in time.

use serde::{Deserialize, Serialize};

use super::means::means;
use super::{Knot, ModelError, Point, SpeedModel};

/// Functional performance model linear in *time* between its knots: from the origin to the first knot,
/// from knot to knot, and beyond the last one at its speed.
///
/// Where [`PiecewiseFpm`](super::PiecewiseFpm) needs a speed that rises concavely and then falls, this
/// model needs only a time that strictly increases with the size, which is what makes the line through
/// the origin of the speed plot meet the function once. It so follows valleys and steps of the speed,
/// and a start-up cost `t = c + d / s` exactly.
///
/// **Restriction.** Times that do not increase contradict each other. The model goes through a largest
/// set of measured sizes whose times strictly increase with them; of several such sets, one of small
/// times, because disturbances only make a measurement longer. Averaging the contradicting times
/// (isotonic regression) would use all points, but drag everything after one long outlier along until
/// the true times have caught up with it. Every point is kept ([`points`](Self::points)), and a later
/// one may bring back what is left out.
///
/// **Beyond the last knot** time goes on along the ray from the origin: constant speed, as in the
/// thesis. The last segment's slope is that of two measurements that may lie close together, and so
/// mostly noise.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{PiecewiseTime, Point, SpeedModel};
///
/// let point = |d, t_s| Point { d, t_s, reps: 3, ci_s: 0.0 };
/// let model = PiecewiseTime::from_points(vec![point(100, 2.0), point(300, 4.0)])?;
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<Point>", into = "Vec<Point>")]
pub struct PiecewiseTime {
    points: Vec<Point>,
    knots: Vec<TimeKnot>,
}

/// A corner of a piecewise linear time function.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TimeKnot {
    /// Problem size in units.
    pub d: f64,
    /// Seconds there.
    pub t_s: f64,
}

impl TimeKnot {
    /// 0 at the origin.
    fn speed(self) -> f64 {
        if self.t_s > 0.0 {
            self.d / self.t_s
        } else {
            0.0
        }
    }

    fn slope_to(self, next: Self) -> f64 {
        (next.t_s - self.t_s) / (next.d - self.d)
    }
}

impl From<Knot> for TimeKnot {
    fn from(knot: Knot) -> Self {
        Self {
            d: knot.d,
            t_s: knot.time_s(),
        }
    }
}

impl PiecewiseTime {
    /// A model without points: speed 0 everywhere.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A model of these points, in any order; the times of a repeated size are averaged, weighted by
    /// repetitions.
    ///
    /// # Errors
    /// [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`] for a bad point.
    pub fn from_points(points: Vec<Point>) -> Result<Self, ModelError> {
        points.iter().try_for_each(Point::check)?;
        let knots = approximate(&points);
        Ok(Self { points, knots })
    }

    /// Adds a measured point and derives the approximation anew.
    ///
    /// # Errors
    /// As [`from_points`](Self::from_points); the model is then unchanged.
    pub fn add(&mut self, point: Point) -> Result<(), ModelError> {
        point.check()?;
        self.points.push(point);
        self.knots = approximate(&self.points);
        Ok(())
    }

    /// Every point ever added, in the order of addition.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The corners of the approximation, ascending in size and time; the origin is not among them.
    #[must_use]
    pub fn knots(&self) -> &[TimeKnot] {
        &self.knots
    }

    /// Whether nothing has been measured yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// The corners around the place where there are `right` corners to the left, the origin included.
    fn around(&self, right: usize) -> (TimeKnot, Option<TimeKnot>) {
        let left = right
            .checked_sub(1)
            .map_or_else(TimeKnot::default, |left| self.knots[left]);
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
            // With t = a.t_s + m (d - a.d): (t - d m) / t², and t - d m is the same all along.
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

impl TryFrom<Vec<Point>> for PiecewiseTime {
    type Error = ModelError;

    fn try_from(points: Vec<Point>) -> Result<Self, ModelError> {
        Self::from_points(points)
    }
}

impl From<PiecewiseTime> for Vec<Point> {
    fn from(model: PiecewiseTime) -> Self {
        model.points
    }
}

fn approximate(points: &[Point]) -> Vec<TimeKnot> {
    let means: Vec<TimeKnot> = means(points).iter().map(|mean| mean.knot.into()).collect();
    increasing(&means)
}

/// A largest part of `knots`, which ascend in size, whose times strictly increase.
fn increasing(knots: &[TimeKnot]) -> Vec<TimeKnot> {
    // The last corner of the part of each length that ends with the least time.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(knots.len());
    for (i, knot) in knots.iter().enumerate() {
        let length = ends.partition_point(|&end| knots[end].t_s < knot.t_s);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = i,
            None => ends.push(i),
        }
    }
    let path = std::iter::successors(ends.last().copied(), |&i| before[i]);
    let mut kept: Vec<TimeKnot> = path.map(|i| knots[i]).collect();
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(points: &[(u64, f64)]) -> PiecewiseTime {
        let point = |&(d, t_s): &(u64, f64)| Point {
            d,
            t_s,
            reps: 1,
            ci_s: 0.0,
        };
        PiecewiseTime::from_points(points.iter().map(point).collect()).expect("valid")
    }

    #[test]
    fn an_empty_model_fits_nothing() {
        let model = PiecewiseTime::new();
        assert!(model.is_empty());
        assert_eq!(model.speed(5.0), 0.0);
        assert_eq!(model.time_s(5.0), f64::INFINITY);
        assert_eq!(model.units_within(5.0), 0.0);
    }

    #[test]
    fn one_outlier_takes_no_other_point_with_it() {
        let times = [
            (1, 1.0),
            (2, 2.0),
            (3, 300.0),
            (4, 4.0),
            (5, 5.0),
            (6, 0.01),
            (7, 7.0),
        ];
        let model = model(&times);
        let kept: Vec<f64> = model.knots().iter().map(|knot| knot.d).collect();
        assert_eq!(kept, [1.0, 2.0, 4.0, 5.0, 7.0]);
        assert_eq!(model.points().len(), 7);
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

    #[test]
    fn only_points_are_serialised() {
        let model = model(&[(10, 1.0)]);
        let json = serde_json::to_string(&model).expect("serialises");
        assert_eq!(json, r#"[{"d":10,"t_s":1.0,"reps":1,"ci_s":0.0}]"#);
        assert_eq!(
            serde_json::from_str::<PiecewiseTime>(&json).expect("reads back"),
            model
        );
    }
}
