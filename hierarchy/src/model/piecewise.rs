//! The functional performance model as a piecewise linear approximation of the speed.

use super::means::{Mean, average_measured, average_sizes};
use super::shape::restrict_shape;
use super::{Flag, Knot, ModelError, Point, Polyline, SpeedModel, SpeedSegment, flags};

/// Functional performance model built point by point. The speed is linear between the knots, and constant
/// to the left of the first and to the right of the last.
///
/// Every measured point is kept, and each addition derives the knots from all of them:
/// 1. Repeated measurements of one size are averaged in time, weighted by their repetitions.
/// 2. Points of nearly the same size and speed are pooled.
/// 3. Points that break the shape which the geometric partitioning algorithm needs (rising and concave,
///    then falling) are left out or lowered. A later point may bring them back.
///
/// # Deviations
/// * **partial FPM**: the thesis draws a line through every point (section 3.3.1). Here alike points
///   of nearly one size are pooled, because noise is then averaged and not followed. Alike means that
///   their confidence intervals explain their difference. Balancing measures closer and closer sizes,
///   and their mean becomes more precise with each of them. Points without an interval are never
///   pooled.
/// * **unfinished measurements**: the thesis repeats until a time is precise (section 3.1.4). Here a
///   point may be a floor, because a size beyond a cliff can take too long. A floor is the time after
///   which measuring was given up. It counts as long as the measured points predict less time.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{PiecewiseFpm, Point, SpeedModel};
///
/// let mut model = PiecewiseFpm::new();
/// model.add(Point { d: 100, t_s: 1.0, reps: 3, ci_s: 0.01 })?;
/// model.add(Point { d: 200, t_s: 4.0, reps: 3, ci_s: 0.02 })?;
/// assert_eq!(model.speed(50.0), 100.0);
/// assert_eq!(model.speed(150.0), 75.0);
/// assert_eq!(model.time_s(150.0), 2.0);
/// assert_eq!(model.units_within(2.0), 150.0);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
///
/// # References
/// Clarke's thesis, sections 3.2.1 and 3.3.1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PiecewiseFpm {
    points: Vec<Point>,
    /// One knot per size: `points` with repeated measurements averaged, and floors.
    raw: Polyline,
    /// `raw` with similar knots pooled, and knots that break the shape left out or lowered.
    fit: Polyline,
}

impl PiecewiseFpm {
    /// Returns a model without points, with speed 0 everywhere.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a model of these points, in any order; sizes may repeat.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn from_points(points: Vec<Point>) -> Result<Self, ModelError> {
        points.iter().try_for_each(Point::check)?;
        Ok(Self::through(points))
    }

    /// Adds a measured point and renews the approximation.
    ///
    /// # Errors
    /// [`ModelError::InvalidPoint`] if `d = 0` or the time is not within 1e-100 to 1e100 s;
    /// [`ModelError::InvalidInterval`] if the half-width is not within 0 to 1e100 s. The model is then
    /// unchanged.
    pub fn add(&mut self, point: Point) -> Result<(), ModelError> {
        point.check()?;
        self.points.push(point);
        *self = Self::through(std::mem::take(&mut self.points));
        Ok(())
    }

    /// Returns every point added, in the order of addition.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns the corners of the approximation, ascending in `d`.
    pub fn knots(&self) -> &[Knot] {
        self.fit.knots()
    }

    /// Returns `true` if no point has been added yet.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Returns `true` if measurements back the model at `d`: one of nearly that size, or two around it with
    /// nearly the same speed. Below the smallest size the model counts as backed. Beyond the largest size,
    /// and on the fast side of a fall, only the measured size itself is certain: a cliff may begin at once.
    pub fn supports(&self, d: f64) -> bool {
        match Polyline::from_means(&average_measured(&self.points)).around(d) {
            (None, next) => next.is_some(),
            (Some(left), None) => d <= AT * left.d,
            (Some(left), Some(right)) if left.speed > SAME_SPEED * right.speed => {
                d <= AT * left.d || NEAR * d >= right.d
            }
            (Some(left), Some(right)) => {
                let same = right.speed <= SAME_SPEED * left.speed;
                same || d <= NEAR * left.d || NEAR * d >= right.d
            }
        }
    }

    /// Returns the model without pooling and without shape restrictions: linear in speed through the mean
    /// of every measured size, dips included. For replaying a recorded device, plots and comparisons.
    pub fn raw(&self) -> &Polyline {
        &self.raw
    }

    /// Returns the measured sizes that contradict their neighbours, ascending in `d`. They should be
    /// measured again before they are believed, but change nothing in the model. Floors are not
    /// considered. The cost is `O(n log n)` for `n` points.
    pub fn flags(&self) -> Vec<Flag> {
        flags::find_contradictions(&average_measured(&self.points))
    }

    fn through(points: Vec<Point>) -> Self {
        let means = average_sizes(&points);
        Self {
            raw: Polyline::from_means(&means),
            fit: Polyline::through(restrict_shape(&pool_similar(&means))),
            points,
        }
    }
}

impl SpeedModel for PiecewiseFpm {
    fn speed(&self, d: f64) -> f64 {
        self.fit.speed(d)
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        self.fit.speed_derivative(d)
    }

    fn units_within(&self, t_s: f64) -> f64 {
        self.fit.units_within(t_s)
    }

    fn segment_within(&self, t_s: f64) -> Option<SpeedSegment> {
        self.fit.segment_within(t_s)
    }
}

/// Largest ratio of sizes that count as nearly the same.
const SAME_SIZE: f64 = 1.25;

/// Largest ratio between a size and a measured one that backs it.
const NEAR: f64 = 1.1;

/// The same if the speed may fall between the two.
const AT: f64 = 1.02;

/// Largest ratio of speeds that leaves no room for a cliff between them.
const SAME_SPEED: f64 = 1.25;

/// Replaces neighbouring sizes of indistinguishable speeds by their mean.
fn pool_similar(means: &[Mean]) -> Vec<Knot> {
    let mut pooled: Vec<(Mean, f64)> = Vec::with_capacity(means.len());
    for &next in means {
        match pooled.last_mut() {
            Some((group, first_d))
                if next.knot.d <= SAME_SIZE * *first_d && group.agrees_with(&next) =>
            {
                *group = group.average_with(&next);
            }
            _ => pooled.push((next, next.knot.d)),
        }
    }
    pooled.into_iter().map(|(mean, _)| mean.knot).collect()
}

impl Mean {
    /// Returns `true` if both confidence intervals are known and explain the difference of the speeds.
    fn agrees_with(&self, other: &Self) -> bool {
        let difference = (self.knot.speed - other.knot.speed).abs();
        self.ci > 0.0 && other.ci > 0.0 && difference <= self.ci.hypot(other.ci)
    }

    fn average_with(&self, other: &Self) -> Self {
        let weight = self.weight + other.weight;
        let (a, b) = (self.weight / weight, other.weight / weight);
        Self {
            knot: Knot {
                d: a * self.knot.d + b * other.knot.d,
                speed: a * self.knot.speed + b * other.knot.speed,
            },
            ci: (a * self.ci).hypot(b * other.ci),
            weight,
        }
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

    #[test]
    fn an_empty_model_fits_nothing() {
        let model = PiecewiseFpm::new();
        assert!(model.is_empty());
        assert_eq!(model.speed(5.0), 0.0);
        assert_eq!(model.time_s(5.0), f64::INFINITY);
        assert_eq!(model.units_within(5.0), 0.0);
    }

    #[test]
    fn a_disturbed_measurement_is_flagged() {
        // 10 units per second, except for one size.
        let times = [(10, 1.0), (20, 2.0), (30, 9.0), (40, 4.0), (50, 5.0)];
        let points = times.map(|(d, t_s)| point(d, t_s, 3));
        let model = PiecewiseFpm::from_points(points.to_vec()).expect("valid");
        let flags = model.flags();
        assert_eq!(
            (flags.len(), flags[0].d, flags[0].reason),
            (1, 30, crate::model::Reason::TooSlow)
        );
    }

    #[test]
    fn impossible_points_are_refused_and_change_nothing() {
        let mut model = PiecewiseFpm::new();
        for (d, t_s) in [
            (0, 1.0),
            (1, 0.0),
            (1, -1.0),
            (1, f64::NAN),
            (1, f64::INFINITY),
            (1, 5e-324),
        ] {
            assert!(matches!(
                model.add(point(d, t_s, 1)),
                Err(ModelError::InvalidPoint { .. })
            ));
        }
        assert!(model.is_empty());
    }

    #[test]
    fn repeated_measurements_are_averaged_by_repetitions() {
        let model =
            PiecewiseFpm::from_points(vec![point(10, 1.0, 3), point(10, 5.0, 1)]).expect("valid");
        assert_eq!(model.time_s(10.0), 2.0);
        assert_eq!(model.points().len(), 2);
    }

    fn measured(d: u64, t_s: f64, ci_s: f64) -> Point {
        Point {
            ci_s,
            ..point(d, t_s, 3)
        }
    }

    #[test]
    fn speeds_that_measuring_cannot_tell_apart_are_pooled() {
        let points = vec![measured(100, 1.0, 0.05), measured(110, 1.06, 0.05)];
        let model = PiecewiseFpm::from_points(points.clone()).expect("valid");
        assert_eq!(model.knots().len(), 1);
        let mean = (100.0 + 110.0 / 1.06) / 2.0;
        assert!((model.speed(105.0) - mean).abs() < 1e-9);
        assert_eq!(model.points(), points);
        // The raw model keeps every point.
        assert!((model.raw().time_s(110.0) - 1.06).abs() < 1e-12);
    }

    #[test]
    fn speeds_that_differ_for_sure_or_far_apart_stay() {
        let certain = [measured(100, 1.0, 0.01), measured(110, 1.3, 0.01)];
        let far = [measured(100, 1.0, 0.1), measured(200, 2.01, 0.1)];
        let unknown = [point(100, 1.0, 1), point(110, 1.2, 1)];
        for points in [certain, far, unknown] {
            let model = PiecewiseFpm::from_points(points.to_vec()).expect("valid");
            assert_eq!(model.knots().len(), 2);
        }
    }

    #[test]
    fn the_model_is_backed_near_its_points_and_between_equal_speeds() {
        let points = vec![point(100, 1.0, 1), point(200, 2.0, 1), point(400, 40.0, 1)];
        let model = PiecewiseFpm::from_points(points).expect("valid");
        for backed in [10.0, 105.0, 150.0, 203.0, 380.0, 407.0] {
            assert!(model.supports(backed), "{backed}");
        }
        for unknown in [215.0, 300.0, 430.0] {
            assert!(!model.supports(unknown), "{unknown}");
        }
        assert!(!PiecewiseFpm::new().supports(1.0));
        let floor = PiecewiseFpm::from_points(vec![point(100, 1.0, 0)]).expect("valid");
        assert!(!floor.supports(100.0));
    }

    #[test]
    fn raw_interpolation_keeps_what_the_shape_drops() {
        let points = vec![point(10, 1.0, 1), point(20, 4.0, 1), point(30, 2.0, 1)];
        let model = PiecewiseFpm::from_points(points).expect("valid");
        assert_eq!(model.raw().time_s(20.0), 4.0);
        assert_eq!(model.time_s(20.0), 20.0 / 12.5);
        assert_eq!(model.raw().time_s(60.0), 4.0);
    }

    #[test]
    fn slopes_are_those_of_the_segment_to_the_right() {
        let points = vec![point(10, 1.0, 1), point(20, 4.0, 1)];
        let model = PiecewiseFpm::from_points(points).expect("valid");
        assert_eq!(model.speed_derivative(5.0), 0.0);
        assert_eq!(model.speed_derivative(10.0), -0.5);
        assert_eq!(model.speed_derivative(20.0), 0.0);
        let (d, step) = (15.0, 1e-6);
        let slope = (model.time_s(d + step) - model.time_s(d - step)) / (2.0 * step);
        assert!((model.time_derivative(d) - slope).abs() < 1e-6 * slope);
    }
}
