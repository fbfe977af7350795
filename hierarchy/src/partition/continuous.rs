//! The line of equal time: the real-valued optimum that the partitioners round.

use std::ops::RangeInclusive;

use super::PartitionError;
use super::segment_cache::SegmentCache;
use crate::model::SpeedModel;

/// A division into real-valued shares of equal time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EqualTime {
    /// Seconds of every share.
    pub time_s: f64,
    /// Units of each device.
    pub shares: Vec<f64>,
}

/// Divides `total` units into real-valued shares of equal time, `t_1(x_1) = … = t_p(x_p)` with
/// `Σ x_i = total`, to machine precision. This is the line through the origin of the speed plot that
/// gives out `total` units.
///
/// No division into whole units finishes before `time_s`, and [`gpa`](super::gpa()) finishes at most
/// one unit's time later.
///
/// # Errors
/// Returns [`PartitionError::NoDevices`] if there are units and no models; [`PartitionError::InvalidModel`] for a model
/// that is empty or whose time does not grow with the problem size.
///
/// # References
/// Clarke's thesis, section 4.1, equations 4.1 to 4.4.
pub fn continuous(models: &[&dyn SpeedModel], total: u64) -> Result<EqualTime, PartitionError> {
    // Adding the shares up loses less than this.
    const PRECISION: f64 = 4.0 * f64::EPSILON;
    if total == 0 {
        return Ok(EqualTime { time_s: 0.0, shares: vec![0.0; models.len()] });
    }
    let units = total as f64;
    let goal = units * (1.0 - PRECISION)..=units * (1.0 + PRECISION);
    let line = EqualTimeLine::find(models, total, goal)?;
    Ok(EqualTime { time_s: line.time_s, shares: line.shares })
}

/// A line through the origin of the speed plot.
pub(super) struct EqualTimeLine<'a> {
    pub devices: SegmentCache<'a>,
    pub time_s: f64,
    /// Sizes at which the line meets the speed functions.
    pub shares: Vec<f64>,
    /// Relative growth of the shares' sum for a relative growth of the time.
    pub elasticity: f64,
}

impl<'a> EqualTimeLine<'a> {
    /// Finds the line that gives out a number of units within `goal`. If the number jumps across `goal`
    /// from one representable time to the next, the shares lie between the two lines and sum to
    /// `total`.
    ///
    /// `total` must not be 0, and `goal` must contain a positive number.
    pub fn find(
        models: &'a [&'a dyn SpeedModel],
        total: u64,
        goal: RangeInclusive<f64>,
    ) -> Result<Self, PartitionError> {
        if models.is_empty() {
            return Err(PartitionError::NoDevices { total });
        }
        let mut search = LineSearch::new(models, total as f64, goal);
        Ok(match search.find_time()? {
            Some(time_s) => Self {
                time_s,
                elasticity: search.elasticity(),
                shares: search.shares,
                devices: search.devices,
            },
            None => search.interpolate_jump(),
        })
    }
}

/// A search for the time `T` at which `N(T) = Σ x_i(T)`, the units completed within `T`, meets the goal.
/// `N` does not decrease, and is nearly a straight line if speeds change little.
struct LineSearch<'a> {
    devices: SegmentCache<'a>,
    total: f64,
    goal: RangeInclusive<f64>,
    start: SearchStart,
    /// Shares of the line evaluated last.
    shares: Vec<f64>,
    /// The two points `(T, N(T))` closest to the goal, the closer one last.
    points: [(f64, f64); 2],
    /// Largest known time at which `N` is below the goal.
    low_s: f64,
    /// Smallest known time at which `N` is above the goal.
    high_s: f64,
    /// The bracket's width before the last evaluation.
    width: u64,
    /// Evaluations since the bracket was last halved.
    slow: u8,
}

impl<'a> LineSearch<'a> {
    fn new(models: &'a [&'a dyn SpeedModel], total: f64, goal: RangeInclusive<f64>) -> Self {
        Self {
            devices: SegmentCache::new(models),
            total,
            goal,
            start: SearchStart::estimate(models, total),
            shares: vec![0.0; models.len()],
            points: [(f64::NAN, f64::NAN); 2],
            low_s: 0.0,
            high_s: f64::INFINITY,
            width: u64::MAX,
            slow: 0,
        }
    }

    /// Finds the time of a line within the goal, or returns `None` for two lines of neighbouring times on
    /// either side of the goal.
    fn find_time(&mut self) -> Result<Option<f64>, PartitionError> {
        let mut time_s = self.start.time_s;
        let mut units = self.evaluate_line(time_s);
        self.check_models()?;
        // The point at which the expected tangent meets the axis.
        self.points[0] = (time_s * (1.0 - 1.0 / self.start.elasticity), 0.0);
        while !self.goal.contains(&units) {
            if units < *self.goal.start() {
                self.low_s = time_s;
            } else {
                self.high_s = time_s;
            }
            time_s = match self.next_time() {
                Some(next_s) => next_s,
                None if self.high_s.is_infinite() => return Err(self.name_stuck_device()),
                None => return Ok(None),
            };
            units = self.evaluate_line(time_s);
        }
        Ok(Some(time_s))
    }

    fn middle_of_goal(&self) -> f64 {
        self.goal.start().midpoint(*self.goal.end())
    }

    /// Returns the units that a line gives out.
    fn evaluate_line(&mut self, time_s: f64) -> f64 {
        let units = self.devices.give_out(self.total, time_s, &mut self.shares);
        self.keep_point(time_s, units);
        units
    }

    /// Keeps the point if it is closer to the goal than one of the two known ones.
    fn keep_point(&mut self, time_s: f64, units: f64) {
        let [farther, closer] = self.points;
        if self.is_closer(units, closer.1) {
            self.points = [closer, (time_s, units)];
        } else if self.is_closer(units, farther.1) {
            self.points[0] = (time_s, units);
        }
    }

    /// Returns `true` if `units` are closer to the goal than `old_units`, or `old_units` are not known yet.
    fn is_closer(&self, units: f64, old_units: f64) -> bool {
        let [error, old_error] = [units, old_units].map(|n| (n - self.middle_of_goal()).abs());
        old_error.is_nan() || error < old_error
    }

    /// Refuses a model without any speed, which gets nothing from a line, and one of infinite speed,
    /// which gets everything.
    fn check_models(&self) -> Result<(), PartitionError> {
        let d = self.total / self.devices.models.len() as f64;
        for (index, &share) in self.shares.iter().enumerate() {
            if share > 0.0 && share < self.total {
                continue;
            }
            let time_s = self.devices.models[index].time_s(d);
            if !(time_s.is_finite() && time_s > 0.0) {
                return Err(PartitionError::InvalidModel { index, d, time_s });
            }
        }
        Ok(())
    }

    /// Returns the next time to try, strictly inside the bracket, or `None` if no number lies inside.
    ///
    /// That is the time at which the secant meets the goal. A secant that has approached the goal from
    /// one side only is stretched, to enclose the goal from the other side. If that does not halve the
    /// bracket either, a safe step does.
    fn next_time(&mut self) -> Option<f64> {
        let width = numbers_between(self.low_s, self.high_s);
        if width < 2 {
            return None;
        }
        let is_halved = width <= self.width / 2;
        self.slow = if is_halved { 0 } else { self.slow + 1 };
        self.width = width;
        let secant_s = match self.slow {
            0..=2 => self.secant_time(1.0),
            3 | 4 => self.secant_time(f64::from(self.slow - 1)),
            _ => f64::NAN,
        };
        [Some(secant_s), self.outer_time()]
            .into_iter()
            .flatten()
            .find(|&time_s| self.low_s < time_s && time_s < self.high_s)
            // Halving the bits halves the exponents first, and takes 64 steps at most.
            .or(Some(f64::from_bits(self.low_s.to_bits() + width / 2)))
    }

    /// Returns the time at which the line through the two best points meets the goal, moved `stretch`
    /// times as far from the better point.
    fn secant_time(&self, stretch: f64) -> f64 {
        let [(t0, n0), (t1, n1)] = self.points;
        t1 + stretch * (self.middle_of_goal() - n1) * ((t1 - t0) / (n1 - n0))
    }

    /// Returns the relative growth of `N` for a relative growth of `T`, by the two best points.
    fn elasticity(&self) -> f64 {
        let [(t0, n0), (t1, n1)] = self.points;
        let elasticity = (n1 - n0) / (t1 - t0) * (t1 / n1);
        if elasticity.is_finite() && elasticity > 0.0 { elasticity } else { 1.0 }
    }

    /// Returns the time of a line beyond the goal, while the bracket is open on one side. Theory places
    /// the line at the extreme time of an even division. It is taken twice as far out, because the
    /// inverse of a time that hardly grows is inexact.
    fn outer_time(&self) -> Option<f64> {
        if self.high_s.is_infinite() {
            Some(2.0 * self.start.longest_s)
        } else if self.low_s == 0.0 {
            Some(0.5 * self.start.shortest_s)
        } else {
            None
        }
    }

    /// Returns the error that names a device which completes no more units in more time.
    fn name_stuck_device(&self) -> PartitionError {
        let mut shares = self.shares.iter();
        let index = shares.position(|&share| share < self.total).unwrap_or(0);
        let d = self.shares[index];
        PartitionError::InvalidModel { index, d, time_s: self.devices.models[index].time_s(d) }
    }

    /// Returns the shares that sum to `total` between two lines of neighbouring times. Some function is
    /// so steep that whole units lie between the lines, and all of them take the same time.
    fn interpolate_jump(mut self) -> EqualTimeLine<'a> {
        let (devices, total) = (&mut self.devices, self.total);
        let mut larger = vec![0.0; self.shares.len()];
        let few = devices.give_out(total, self.low_s, &mut self.shares);
        let many = devices.give_out(total, self.high_s, &mut larger);
        let part = ((total - few) / (many - few)).clamp(0.0, 1.0);
        for (share, &more) in self.shares.iter_mut().zip(&larger) {
            *share += (more - *share) * part;
        }
        EqualTimeLine {
            time_s: self.high_s,
            shares: self.shares,
            elasticity: f64::INFINITY,
            devices: self.devices,
        }
    }
}

/// The estimate at which a search begins.
struct SearchStart {
    /// A time that is likely to meet the goal.
    time_s: f64,
    /// Relative growth of `N` for a relative growth of `T` there.
    elasticity: f64,
    /// Shortest time of a device in an even division.
    shortest_s: f64,
    /// Longest time of a device in an even division.
    longest_s: f64,
}

impl SearchStart {
    /// With at least twice as many devices as this, a sample of about this size is balanced first.
    const SAMPLE: usize = 2048;

    fn estimate(models: &[&dyn SpeedModel], total: f64) -> Self {
        let stride = models.len() / Self::SAMPLE;
        if stride < 2 {
            return Self::from_even_division(models, total);
        }
        // The stride is odd, because every second, fourth or eighth device may be a special one.
        let sample: Vec<_> = models.iter().step_by(stride | 1).copied().collect();
        let sampled = total * (sample.len() as f64 / models.len() as f64);
        let mut search = LineSearch::new(&sample, sampled, 0.999 * sampled..=1.001 * sampled);
        match search.find_time() {
            Ok(Some(time_s)) => Self { time_s, elasticity: search.elasticity(), ..search.start },
            _ => search.start,
        }
    }

    /// Estimates the time by a division in proportion to the devices' speeds at an even share.
    fn from_even_division(models: &[&dyn SpeedModel], total: f64) -> Self {
        let d = total / models.len() as f64;
        let (mut shortest_s, mut longest_s) = (f64::INFINITY, 0.0_f64);
        // Relative to one speed, the sum of the speeds cannot overflow unless a ratio does.
        let (mut unit_s, mut speeds) = (0.0, 0.0);
        for model in models {
            let time_s = model.time_s(d);
            if !(time_s.is_finite() && time_s > 0.0) {
                continue;
            }
            if speeds == 0.0 {
                unit_s = time_s;
            }
            speeds += unit_s / time_s;
            shortest_s = shortest_s.min(time_s);
            longest_s = longest_s.max(time_s);
        }
        let time_s = unit_s * (models.len() as f64 / speeds);
        Self {
            time_s: if time_s.is_finite() { time_s } else { 1.0 },
            elasticity: 1.0,
            shortest_s,
            longest_s,
        }
    }
}

/// Returns the number of steps from a floating-point number to the next that lead from `low` to `high`,
/// both at least 0.
fn numbers_between(low: f64, high: f64) -> u64 {
    high.to_bits().saturating_sub(low.to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_speeds_get_their_exact_shares() {
        let (slow, fast) = (crate::model::Cpm { speed: 1.0 }, crate::model::Cpm { speed: 3.0 });
        let optimum = continuous(&[&slow, &fast], 10).expect("valid");
        assert_eq!(optimum.time_s, 2.5);
        assert_eq!(optimum.shares, [2.5, 7.5]);
    }
}
