//! Time as straight lines between knots, with a fixed cost before the first unit.

use serde::{Deserialize, Serialize};

use crate::model::{SpeedModel, TimeKnot};

/// Number of straight pieces that stand for a power of the size between two knots.
const POWER_STEPS: u32 = 8;

/// Slope behind the end of a line, over the slope before it.
const WALL: f64 = 1e4;

/// A time function that jumps to `start_s` at the first unit and is linear from there to knot after knot.
/// Beyond the last knot each unit takes `end_slope` seconds.
///
/// Sizes and times of the knots ascend strictly, and `end_slope` is positive.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct TimeLine {
    start_s: f64,
    knots: Vec<TimeKnot>,
    end_slope: f64,
}

impl TimeLine {
    /// Starts a line at `start_s` with `slope` seconds a unit.
    pub fn new(start_s: f64, slope: f64) -> Self {
        Self { start_s: start_s.max(0.0), knots: Vec::new(), end_slope: slope }
    }

    /// Continues the line straight to `(d, t_s)`, and from there with `slope`. A knot that does not lie
    /// behind the last one is left out; one that is not above it is lifted.
    pub fn extend_to(&mut self, d: f64, t_s: f64, slope: f64) {
        let last = self.last();
        if d > last.d * (1.0 + 1e-9) {
            let t_s = t_s.max(last.t_s * (1.0 + 1e-6));
            self.knots.push(TimeKnot { d, t_s });
        }
        self.end_slope = slope;
    }

    /// Continues the line straight to `(d, t_s)`, and from there with the slope that it has at its end.
    pub fn lift_to(&mut self, d: f64, t_s: f64) {
        self.extend_to(d, t_s, self.end_slope);
    }

    /// Returns the line with `slope` from `d` units on.
    #[must_use]
    pub fn with_wall(&self, d: f64, slope: f64) -> Self {
        let t_s = self.time_s(d);
        let mut walled = self.clone();
        walled.knots.retain(|knot| knot.d < d);
        walled.extend_to(d, t_s, slope);
        walled
    }

    /// Returns the line with times in proportion to the size up to `d` units.
    #[must_use]
    pub fn in_proportion_below(&self, d: f64) -> Self {
        let first = TimeKnot { d, t_s: self.time_s(d) };
        let later = self.knots.iter().copied().filter(|knot| knot.d > d);
        Self {
            start_s: 0.0,
            knots: std::iter::once(first).chain(later).collect(),
            end_slope: self.end_slope,
        }
    }

    /// Returns the line with times that grow with a power of the size from one knot to the next, from `d` units on.
    #[must_use]
    pub fn with_powers(&self, d: f64) -> Self {
        let mut last = TimeKnot { d, t_s: self.time_s(d) };
        let mut curved = self.with_wall(d, self.end_slope);
        for &knot in self.knots.iter().filter(|knot| knot.d > d) {
            for step in 1..=POWER_STEPS {
                let part = f64::from(step) / f64::from(POWER_STEPS);
                let between = |from: f64, to: f64| from * (to / from).powf(part);
                curved.lift_to(between(last.d, knot.d), between(last.t_s, knot.t_s));
            }
            last = knot;
        }
        curved
    }

    /// Returns the line with the speed of `d` units up to the size `end`, which no larger one is worth.
    #[must_use]
    pub fn as_fast_until(&self, d: f64, end: f64) -> Self {
        let unit_s = self.time_s(d) / d;
        self.with_wall(d, unit_s).with_wall(end, WALL * unit_s)
    }

    /// Returns the line with sizes in granules of `granule` units.
    #[must_use]
    pub fn count_in(&self, granule: f64) -> Self {
        let mut counted = self.clone();
        for knot in &mut counted.knots {
            knot.d /= granule;
        }
        counted.end_slope *= granule;
        counted
    }

    /// Returns the size of the first knot that takes longer than `t_s`.
    pub fn find_beyond(&self, t_s: f64) -> Option<f64> {
        self.knots.iter().find(|knot| knot.t_s > t_s).map(|knot| knot.d)
    }

    fn last(&self) -> TimeKnot {
        let start = TimeKnot { d: 0.0, t_s: self.start_s };
        self.knots.last().copied().unwrap_or(start)
    }

    /// Returns the knot to the left of the knot `right`, and the slope from there.
    fn segment_before(&self, right: usize) -> (TimeKnot, f64) {
        let left = match right.checked_sub(1) {
            Some(left) => self.knots[left],
            None => TimeKnot { d: 0.0, t_s: self.start_s },
        };
        let slope = match self.knots.get(right) {
            Some(next) => (next.t_s - left.t_s) / (next.d - left.d),
            None => self.end_slope,
        };
        (left, slope)
    }
}

impl SpeedModel for TimeLine {
    fn speed(&self, d: f64) -> f64 {
        if d <= 0.0 && self.start_s > 0.0 {
            return 0.0;
        }
        let (left, slope) = self.segment_before(self.knots.partition_point(|knot| knot.d <= d));
        if d <= 0.0 {
            return 1.0 / slope;
        }
        d / (left.t_s + slope * (d - left.d))
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        let (left, slope) = self.segment_before(self.knots.partition_point(|knot| knot.d <= d));
        let t_s = left.t_s + slope * (d - left.d);
        (t_s - d * slope) / t_s / t_s
    }

    fn units_within(&self, t_s: f64) -> f64 {
        if t_s <= self.start_s {
            return 0.0;
        }
        let (left, slope) = self.segment_before(self.knots.partition_point(|knot| knot.t_s <= t_s));
        left.d + (t_s - left.t_s) / slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_times_are_inverse() {
        let mut line = TimeLine::new(1.0, 1.0);
        line.extend_to(4.0, 3.0, 2.0);
        line.extend_to(8.0, 11.0, 5.0);
        for (d, t_s) in [(2.0, 2.0), (4.0, 3.0), (6.0, 7.0), (10.0, 21.0)] {
            assert_eq!(line.time_s(d), t_s);
            assert_eq!(line.units_within(t_s), d);
        }
        assert_eq!((line.time_s(0.0), line.units_within(0.5)), (0.0, 0.0));
        let walled = line.with_wall(6.0, 100.0);
        assert!((walled.time_s(7.0) - 107.0).abs() < 1e-9);
        assert_eq!(line.count_in(2.0).time_s(3.0), 7.0);
    }

    #[test]
    fn knots_that_fall_are_lifted() {
        let mut line = TimeLine::new(0.0, 1.0);
        line.extend_to(4.0, 4.0, 1.0);
        line.extend_to(5.0, 3.0, 1.0);
        assert!(line.time_s(5.0) > 4.0);
        line.extend_to(5.0, 9.0, 2.0);
        assert!(line.time_s(5.0) < 4.1);
        assert!(line.units_within(4.0) >= 4.0);
    }
}
