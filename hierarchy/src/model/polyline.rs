//! Speed as a line through given corners, of any shape.

use super::means::{Mean, average_knots};
use super::{ModelError, Point, SpeedModel, SpeedSegment};

/// A corner of a piecewise linear speed function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knot {
    /// Problem size in units.
    pub d: f64,
    /// Speed at that size in units per second.
    pub speed: f64,
}

impl Knot {
    /// Returns the seconds of this size: `d / speed`.
    pub fn time_s(&self) -> f64 {
        self.d / self.speed
    }

    pub(super) fn slope_to(self, next: Self) -> f64 {
        (next.speed - self.speed) / (next.d - self.d)
    }

    /// Returns the speed at `d` on the line through this knot and `other`.
    pub(super) fn interpolate_to(self, other: Self, d: f64) -> f64 {
        self.speed + (other.speed - self.speed) * ((d - self.d) / (other.d - self.d))
    }
}

/// Speed function of any shape, linear between its knots, constant to the left of the first and to the
/// right of the last.
///
/// It is the counterpart of [`PiecewiseFpm`](super::PiecewiseFpm) without restrictions, to replay, plot
/// and compare measurements, and the section of a [`Surface`](super::Surface). Its time need not
/// increase: [`units_within`](SpeedModel::units_within) is the largest of several sizes of one time.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{Knot, Polyline, SpeedModel};
///
/// // From 20 to 30 units the time falls from 4 to 2 seconds.
/// let knots = [(10.0, 10.0), (20.0, 5.0), (30.0, 15.0)];
/// let model = Polyline::from_knots(knots.map(|(d, speed)| Knot { d, speed }).to_vec())?;
/// assert_eq!(model.time_s(20.0), 4.0);
/// assert_eq!(model.units_within(3.0), 45.0);
/// assert_eq!(model.units_within(0.5), 5.0);
/// # Ok::<(), isochron_hierarchy::model::ModelError>(())
/// ```
///
/// # References
/// Clarke's thesis, section 3.2.1, before the shape is restricted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Polyline {
    knots: Vec<Knot>,
    /// Entry `i`: the least time at knot `i` and all to the right of it.
    least_s: Vec<f64>,
}

impl Polyline {
    /// Builds the line through the measured sizes, in any order; the times of a repeated size are averaged,
    /// weighted by repetitions.
    ///
    /// # Errors
    /// Returns [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`] for a bad point.
    pub fn from_points(points: &[Point]) -> Result<Self, ModelError> {
        points.iter().try_for_each(Point::check)?;
        Ok(Self::through(average_knots(points)))
    }

    /// Builds the line through these corners; without any, the speed is 0 everywhere.
    ///
    /// # Errors
    /// Returns [`ModelError::InvalidKnot`] unless sizes are positive and ascend, speeds are positive, and all are
    /// finite.
    pub fn from_knots(knots: Vec<Knot>) -> Result<Self, ModelError> {
        let mut last_d = 0.0;
        for (index, &Knot { d, speed }) in knots.iter().enumerate() {
            let usable = d.is_finite() && d > last_d && speed.is_finite() && speed > 0.0;
            if !usable {
                return Err(ModelError::InvalidKnot { index, d, speed });
            }
            last_d = d;
        }
        Ok(Self::through(knots))
    }

    /// Builds the line through the means of measured sizes.
    pub(super) fn from_means(means: &[Mean]) -> Self {
        Self::through(means.iter().map(|mean| mean.knot).collect())
    }

    /// Builds the line through corners that are known to be valid.
    pub(super) fn through(knots: Vec<Knot>) -> Self {
        let least_s = suffix_minima(knots.iter().map(Knot::time_s));
        Self { knots, least_s }
    }

    /// Returns the corners, ascending in `d`.
    pub fn knots(&self) -> &[Knot] {
        &self.knots
    }

    /// Returns the straight segment that ends at the knot `right`, or the constant one beyond the last
    /// knot. Returns `None` without knots.
    fn segment_before(&self, right: usize) -> Option<SpeedSegment> {
        let left = right.checked_sub(1).map(|left| self.knots[left]);
        let next = self.knots.get(right).copied();
        let start = left.or(next)?;
        let slope = match (left, next) {
            (Some(a), Some(b)) => a.slope_to(b),
            _ => 0.0,
        };
        Some(SpeedSegment {
            start: left.map_or(0.0, |knot| knot.d),
            end: next.map_or(f64::INFINITY, |knot| knot.d),
            speed: start.speed,
            slope,
            from_s: right.checked_sub(1).map_or(0.0, |left| self.least_s[left]),
            to_s: self.least_s.get(right).copied().unwrap_or(f64::INFINITY),
        })
    }

    /// Returns the segment that `d` lies on.
    fn segment_at(&self, d: f64) -> Option<SpeedSegment> {
        self.segment_before(self.knots.partition_point(|knot| knot.d <= d))
    }

    /// Returns the last knot at or left of `d`, and the first one right of it.
    pub(super) fn around(&self, d: f64) -> (Option<Knot>, Option<Knot>) {
        let right = self.knots.partition_point(|knot| knot.d <= d);
        let left = right.checked_sub(1).map(|left| self.knots[left]);
        (left, self.knots.get(right).copied())
    }
}

impl SpeedModel for Polyline {
    fn speed(&self, d: f64) -> f64 {
        self.segment_at(d).map_or(0.0, |segment| segment.speed(d))
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        self.segment_at(d).map_or(0.0, |segment| segment.slope)
    }

    fn units_within(&self, t_s: f64) -> f64 {
        self.segment_within(t_s).map_or(0.0, |segment| segment.units_within(t_s))
    }

    fn segment_within(&self, t_s: f64) -> Option<SpeedSegment> {
        self.segment_before(self.least_s.partition_point(|&least_s| least_s <= t_s))
    }
}

/// Returns the least value at each place and all to the right of it. The result ascends, so that
/// bisection finds the last place with a value of at most `x`.
pub(super) fn suffix_minima(values: impl DoubleEndedIterator<Item = f64>) -> Vec<f64> {
    let mut least = f64::INFINITY;
    let mut minima: Vec<f64> = values
        .rev()
        .map(|value| {
            least = least.min(value);
            least
        })
        .collect();
    minima.reverse();
    minima
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(knots: &[(f64, f64)]) -> Result<Polyline, ModelError> {
        Polyline::from_knots(knots.iter().map(|&(d, speed)| Knot { d, speed }).collect())
    }

    #[test]
    fn the_last_size_within_a_time_counts() {
        // Times 1, 4, 2, 5.
        let model = line(&[(10.0, 10.0), (20.0, 5.0), (30.0, 15.0), (40.0, 8.0)]).expect("valid");
        assert_eq!(model.units_within(0.5), 5.0);
        assert_eq!(model.units_within(1.0), 10.0);
        assert_eq!(model.units_within(2.0), 30.0);
        let d = model.units_within(4.0);
        assert!((30.0..40.0).contains(&d) && (model.time_s(d) - 4.0).abs() < 1e-12);
        assert_eq!(model.units_within(10.0), 80.0);
        assert_eq!(Polyline::default().units_within(1.0), 0.0);
    }

    #[test]
    fn a_segment_has_the_values_of_the_line() {
        let model = line(&[(10.0, 10.0), (20.0, 5.0), (30.0, 15.0), (40.0, 8.0)]).expect("valid");
        for t_s in [1e-9, 0.5, 1.0, 1.7, 2.0, 3.0, 4.9, 5.0, 1e9] {
            let segment = model.segment_within(t_s).expect("piecewise linear");
            assert!(segment.holds_time(t_s), "{t_s}: {segment:?}");
            let d = segment.units_within(t_s);
            assert_eq!(d, model.units_within(t_s));
            for d in [d, segment.start, segment.start.midpoint(d)] {
                assert!(d == segment.end || segment.holds_size(d), "{d}: {segment:?}");
                assert!((segment.time_s(d) - model.time_s(d)).abs() <= 1e-12 * model.time_s(d));
            }
        }
        assert_eq!(Polyline::default().segment_within(1.0), None);
        let none = SpeedSegment::default();
        assert!(!none.holds_size(0.0) && !none.holds_time(0.0));
    }

    #[test]
    fn bad_knots_are_named() {
        for (knots, index) in [
            (vec![(0.0, 1.0)], 0),
            (vec![(1.0, 1.0), (1.0, 2.0)], 1),
            (vec![(1.0, 1.0), (2.0, 0.0)], 1),
            (vec![(1.0, f64::NAN)], 0),
            (vec![(f64::INFINITY, 1.0)], 0),
        ] {
            assert!(matches!(
                line(&knots),
                Err(ModelError::InvalidKnot { index: i, .. }) if i == index
            ));
        }
    }
}
