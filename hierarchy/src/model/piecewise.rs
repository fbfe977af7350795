//! The functional performance model as a piecewise linear approximation of the speed.

use super::means::{average_knots, average_measured};
use super::shape::restrict_shape;
use super::{Flag, Knot, ModelError, Point, Polyline, SpeedModel, SpeedSegment, flags};

/// Functional performance model built point by point. The speed is linear between the knots, and constant
/// to the left of the first and to the right of the last.
///
/// Every measured point is kept, and each addition derives the knots from all of them:
/// 1. Repeated measurements of one size are averaged in time, weighted by their repetitions.
/// 2. Points that break the shape which the geometric partitioning algorithm needs (rising and concave,
///    then falling) are left out or lowered. A later point may bring them back.
///
/// # Deviations
/// * **unfinished measurements**: the thesis enters an assumed speed for a benchmark that it kills
///   (section 4.3.1). Here such a point is a floor, because no speed was seen. A floor is the time after
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
    /// `raw` with knots that break the shape left out or lowered.
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
    /// Returns [`ModelError::InvalidPoint`] if `d = 0` or the time is not within 1e-100 to 1e100 s;
    /// [`ModelError::InvalidInterval`] if the half-width is not within 0 to 1e100 s.
    pub fn from_points(points: Vec<Point>) -> Result<Self, ModelError> {
        points.iter().try_for_each(Point::check)?;
        Ok(Self::through(points))
    }

    /// Builds the approximation by these points without the points.
    pub(super) fn fit_points(points: &[Point]) -> Result<Polyline, ModelError> {
        points.iter().try_for_each(Point::check)?;
        Ok(Polyline::through(restrict_shape(&average_knots(points))))
    }

    /// Adds a measured point and renews the approximation.
    ///
    /// # Errors
    /// Returns [`ModelError::InvalidPoint`] if `d = 0` or the time is not within 1e-100 to 1e100 s;
    /// [`ModelError::InvalidInterval`] if the half-width is not within 0 to 1e100 s. The model is then unchanged.
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

    /// Returns the most seconds that `d` units can take by the measurements. Between two sizes that is the
    /// line through their times, because behind the edge of a memory the time is linear; below the smallest
    /// size its time. Beyond the largest size it is infinite, because an edge may come at once, except very
    /// near to it.
    pub fn time_at_most(&self, d: f64) -> f64 {
        match Polyline::from_means(&average_measured(&self.points)).around(d) {
            (Some(left), Some(right)) => {
                let [a, b] = [left, right].map(|knot| knot.time_s());
                a + (b - a) * ((d - left.d) / (right.d - left.d))
            }
            (None, Some(right)) => right.time_s(),
            (Some(left), None) if d <= AT * left.d => d / left.speed,
            _ => f64::INFINITY,
        }
    }

    /// Returns the model without shape restrictions: linear in speed through the mean
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
        let knots = average_knots(&points);
        Self {
            fit: Polyline::through(restrict_shape(&knots)),
            raw: Polyline::through(knots),
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

/// Largest ratio between a size and the largest measured one, at which both have the same speed.
const AT: f64 = 1.02;

#[cfg(test)]
mod tests {
    use super::*;

    fn point(d: u64, t_s: f64, reps: u32) -> Point {
        Point { d, t_s, reps, ci_s: 0.0 }
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
        let points = [(10, 1.0), (20, 2.0), (30, 9.0), (40, 4.0), (50, 5.0)]
            .map(|(d, t_s)| point(d, t_s, 3));
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
        for (d, t_s) in
            [(0, 1.0), (1, 0.0), (1, -1.0), (1, f64::NAN), (1, f64::INFINITY), (1, 5e-324)]
        {
            assert!(matches!(model.add(point(d, t_s, 1)), Err(ModelError::InvalidPoint { .. })));
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

    #[test]
    fn times_are_bounded_by_the_line_between_measured_ones() {
        let points = vec![point(100, 1.0, 1), point(200, 20.0, 1)];
        let model = PiecewiseFpm::from_points(points).expect("valid");
        for (d, most_s) in [(10.0, 1.0), (100.0, 1.0), (150.0, 10.5), (190.0, 18.1), (200.0, 20.0)]
        {
            assert!((model.time_at_most(d) - most_s).abs() < 1e-9, "{d}");
        }
        assert!((model.time_at_most(203.0) - 20.3).abs() < 1e-9);
        assert_eq!(model.time_at_most(210.0), f64::INFINITY);
        assert_eq!(PiecewiseFpm::new().time_at_most(1.0), f64::INFINITY);
        let floor = PiecewiseFpm::from_points(vec![point(100, 1.0, 0)]).expect("valid");
        assert_eq!(floor.time_at_most(100.0), f64::INFINITY);
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
