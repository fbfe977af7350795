//! A speed function with a start-up cost.

use super::means::average_measured;
use super::{PiecewiseFpm, Point, SpeedModel, SpeedSegment, TimeKnot};

/// Functional performance model of a device that needs time to start. It is a [`PiecewiseFpm`] except in
/// two places:
///
/// * **Start-up cost.** The line of times through the smallest and the fastest measured size meets size 0 at
///   a positive time if the device needs that time however little it gets. Less a standard error, that is
///   the start-up cost. Within less time the device completes nothing. A speed function ends at the origin,
///   and the device would keep a sliver that everyone waits for.
/// * **Growth.** Up to the fastest size, times lie on lines from corner to corner. If the fastest size is
///   the largest too, the line from the start-up cost goes on up to three times that size.
///
/// Without a start-up cost it is the `PiecewiseFpm`.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{PiecewiseFpm, Point, SpeedModel, StartUp};
///
/// let points = [(10, 2.1), (100, 3.0)].map(|(d, t_s)| Point { d, t_s, reps: 3, ci_s: 0.0 });
/// let fpm = PiecewiseFpm::from_points(points.to_vec())?;
/// let model = StartUp::new(&fpm);
/// assert!(model.fixed_s() > 1.9 && model.units_within(1.9) == 0.0);
/// assert!(model.units_within(2.5) > 45.0);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct StartUp<'a> {
    fpm: &'a PiecewiseFpm,
    /// Corners of the time from size 0 on, ascending in size and time; none without a start-up cost.
    corners: Vec<TimeKnot>,
}

/// Ratio of sizes up to which the line from the start-up cost goes on beyond the fastest.
const GROWTH: f64 = 3.0;

/// Largest part of the smallest corner's time that may be start-up.
const ALMOST: f64 = 0.999;

/// Relative standard error of a measured time, between repetitions and between measurements.
const ERROR: f64 = 0.015;

impl<'a> StartUp<'a> {
    /// Makes the model of a device with these measurements.
    pub fn new(fpm: &'a PiecewiseFpm) -> Self {
        Self { fpm, corners: list_corners(fpm) }
    }

    /// Returns the seconds that any number of units takes at least; 0 without a start-up cost.
    pub fn fixed_s(&self) -> f64 {
        self.corners.first().map_or(0.0, |corner| corner.t_s)
    }

    /// Returns the corners on both sides of `d`; `None` to the right of all.
    fn around_size(&self, d: f64) -> Option<(TimeKnot, TimeKnot)> {
        let right = self.corners.partition_point(|corner| corner.d <= d);
        let left = right.checked_sub(1)?;
        Some((self.corners[left], *self.corners.get(right)?))
    }

    /// Returns the slope of the time at `d`; `None` to the right of all corners.
    fn slope(&self, d: f64) -> Option<f64> {
        let (a, b) = self.around_size(d)?;
        Some((b.t_s - a.t_s) / (b.d - a.d))
    }
}

/// Lists the corners of the time, from the start-up cost on; none if there is no such cost.
fn list_corners(fpm: &PiecewiseFpm) -> Vec<TimeKnot> {
    let fixed_s = estimate_fixed_s(fpm.points());
    let falls = fpm.knots().windows(2).position(|two| two[1].speed <= two[0].speed);
    let rising = &fpm.knots()[..falls.map_or(fpm.knots().len(), |last| last + 1)];
    let (Some(first), Some(fastest), true) = (rising.first(), rising.last(), fixed_s > 0.0) else {
        return Vec::new();
    };
    let t_s = fixed_s.min(ALMOST * first.time_s());
    let mut corners = vec![TimeKnot { d: 0.0, t_s }];
    corners.extend(rising.iter().map(|knot| TimeKnot { d: knot.d, t_s: knot.time_s() }));
    if fpm.points().iter().all(|point| point.d as f64 <= fastest.d) {
        corners
            .push(TimeKnot { d: GROWTH * fastest.d, t_s: t_s + GROWTH * (fastest.time_s() - t_s) });
    }
    corners
}

/// Estimates the seconds that do not depend on the size, less a standard error; not positive if there are
/// none for sure.
fn estimate_fixed_s(points: &[Point]) -> f64 {
    let means = average_measured(points);
    let fastest = means.iter().max_by(|a, b| a.knot.speed.total_cmp(&b.knot.speed));
    let (Some(first), Some(fastest)) = (means.first(), fastest) else {
        return 0.0;
    };
    if fastest.knot.d <= first.knot.d {
        return 0.0;
    }
    let [first_s, fastest_s] = [first, fastest].map(|mean| mean.knot.time_s());
    let part = first.knot.d / (fastest.knot.d - first.knot.d);
    let fixed_s = first_s - part * (fastest_s - first_s);
    let error_s = ERROR * ((1.0 + part) * first_s).hypot(part * fastest_s);
    fixed_s.min(first_s) - error_s
}

impl SpeedModel for StartUp<'_> {
    fn speed(&self, d: f64) -> f64 {
        match self.around_size(d) {
            Some(_) if d <= 0.0 => 0.0,
            Some(_) => d / self.time_s(d),
            None => self.fpm.speed(d),
        }
    }

    fn time_s(&self, d: f64) -> f64 {
        match self.around_size(d) {
            _ if d <= 0.0 => 0.0,
            Some((a, b)) => a.t_s + (b.t_s - a.t_s) * ((d - a.d) / (b.d - a.d)),
            None => self.fpm.time_s(d),
        }
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        match self.slope(d) {
            Some(slope) => {
                // At size 0 the time of the smallest share counts.
                let t_s = self.time_s(d).max(self.fixed_s());
                (t_s - d * slope) / t_s / t_s
            }
            None => self.fpm.speed_derivative(d),
        }
    }

    fn time_derivative(&self, d: f64) -> f64 {
        match self.slope(d) {
            Some(slope) => slope,
            None => self.fpm.time_derivative(d),
        }
    }

    fn units_within(&self, t_s: f64) -> f64 {
        let right = self.corners.partition_point(|corner| corner.t_s <= t_s);
        let left = right.checked_sub(1).map(|left| self.corners[left]);
        match (left, self.corners.get(right)) {
            (Some(a), Some(b)) => a.d + (b.d - a.d) * ((t_s - a.t_s) / (b.t_s - a.t_s)),
            (None, Some(_)) => 0.0,
            // The time may jump at the last corner.
            (last, None) => self.fpm.units_within(t_s).max(last.map_or(0.0, |last| last.d)),
        }
    }

    fn segment_within(&self, t_s: f64) -> Option<SpeedSegment> {
        let last = self.corners.last();
        let beyond = last.is_none_or(|last| self.fpm.time_s(last.d) <= t_s);
        self.fpm.segment_within(t_s).filter(|_| beyond)
    }
}
