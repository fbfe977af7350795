//! The line of equal time: the optimum in real numbers that the partitioners round.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::PartitionError;
use super::devices::Devices;
use crate::model::SpeedModel;

/// A division into real-valued shares that all take equally long.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EqualTime {
    /// Seconds that every share takes.
    pub time_s: f64,
    /// Units of each device.
    pub shares: Vec<f64>,
}

/// Divides `total` units into real-valued shares of equal time, `t_1(x_1) = … = t_p(x_p)` with
/// `Σ x_i = total`, to machine precision: the line through the origin of the speed plot that gives
/// out just `total` units.
///
/// No whole division can finish before `time_s`, and [`gpa`](super::gpa()) finishes within one unit's
/// time of it.
///
/// # Errors
/// [`PartitionError::NoDevices`] if there are units and no models;
/// [`PartitionError::InvalidModel`] for a model that is empty or whose time does not grow with the
/// problem size.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{Cpm, SpeedModel};
/// use isochron_hierarchy::partition::continuous;
///
/// let (slow, fast) = (Cpm { speed: 1.0 }, Cpm { speed: 3.0 });
/// let models: [&dyn SpeedModel; 2] = [&slow, &fast];
/// let optimum = continuous(&models, 10)?;
/// assert_eq!(optimum.time_s, 2.5);
/// assert_eq!(optimum.shares, [2.5, 7.5]);
/// # Ok::<(), isochron_hierarchy::partition::PartitionError>(())
/// ```
///
/// # References
/// Clarke's thesis, section 4.1, equations 4.1 to 4.4.
pub fn continuous(models: &[&dyn SpeedModel], total: u64) -> Result<EqualTime, PartitionError> {
    // Less than this is lost in adding the shares up.
    const PRECISION: f64 = 4.0 * f64::EPSILON;
    if total == 0 {
        return Ok(EqualTime {
            time_s: 0.0,
            shares: vec![0.0; models.len()],
        });
    }
    let units = total as f64;
    let goal = units * (1.0 - PRECISION)..=units * (1.0 + PRECISION);
    let line = Line::find(models, total, goal)?;
    Ok(EqualTime {
        time_s: line.time_s,
        shares: line.shares,
    })
}

/// A line through the origin of the speed plot.
pub(super) struct Line<'a> {
    pub devices: Devices<'a>,
    pub time_s: f64,
    /// Where it meets the speed functions.
    pub shares: Vec<f64>,
    /// The relative growth of their sum for a relative growth of the time.
    pub elasticity: f64,
}

impl<'a> Line<'a> {
    /// The line that gives out a number of units within `goal`; or, where the number jumps across
    /// `goal` from one representable time to the next, shares between the two lines that sum to
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
        let mut search = Search::new(models, total as f64, goal);
        Ok(match search.run()? {
            End::Within(time_s) => Self {
                time_s,
                elasticity: search.elasticity(),
                shares: search.shares,
                devices: search.devices,
            },
            End::Jump => search.between(),
        })
    }
}

/// How the units that a line gives out compare with the goal.
enum Verdict {
    TooFew,
    Within,
    TooMany,
}

/// How a search ends.
enum End {
    /// At this time.
    Within(f64),
    /// Between two neighbouring numbers.
    Jump,
}

/// A search for the time `T` at which `N(T) = Σ x_i(T)`, the units that fit into `T`, comes within the
/// goal. `N` does not decrease, and is nearly a straight line where speeds change little.
struct Search<'a> {
    devices: Devices<'a>,
    total: f64,
    goal: RangeInclusive<f64>,
    start: Start,
    /// The line evaluated last.
    shares: Vec<f64>,
    /// The two points `(T, N(T))` closest to the goal, the closer one last.
    points: [(f64, f64); 2],
    /// `N` is below the goal here...
    low_s: f64,
    /// ... and above it here.
    high_s: f64,
    /// The bracket's width before the last evaluation.
    width: u64,
    /// Evaluations since the bracket was last halved.
    slow: u8,
}

impl<'a> Search<'a> {
    fn new(models: &'a [&'a dyn SpeedModel], total: f64, goal: RangeInclusive<f64>) -> Self {
        Self {
            devices: Devices::new(models),
            total,
            goal,
            start: Start::of(models, total),
            shares: vec![0.0; models.len()],
            points: [(f64::NAN, f64::NAN); 2],
            low_s: 0.0,
            high_s: f64::INFINITY,
            width: u64::MAX,
            slow: 0,
        }
    }

    fn run(&mut self) -> Result<End, PartitionError> {
        let mut time_s = self.start.time_s;
        let mut verdict = self.evaluate(time_s);
        self.check_models()?;
        // A point where the tangent that is expected here meets the axis.
        self.points[0] = (time_s * (1.0 - 1.0 / self.start.elasticity), 0.0);
        loop {
            match verdict {
                Verdict::Within => return Ok(End::Within(time_s)),
                Verdict::TooFew => self.low_s = time_s,
                Verdict::TooMany => self.high_s = time_s,
            }
            time_s = match self.next_time() {
                Some(next_s) => next_s,
                None if self.high_s.is_infinite() => return Err(self.stuck()),
                None => return Ok(End::Jump),
            };
            verdict = self.evaluate(time_s);
        }
    }

    fn aim(&self) -> f64 {
        self.goal.start().midpoint(*self.goal.end())
    }

    fn evaluate(&mut self, time_s: f64) -> Verdict {
        let given = self.devices.give_out(self.total, time_s, &mut self.shares);
        self.remember((time_s, given));
        if given < *self.goal.start() {
            Verdict::TooFew
        } else if given > *self.goal.end() {
            Verdict::TooMany
        } else {
            Verdict::Within
        }
    }

    /// Keeps the point if it is closer to the goal than one of the two known ones.
    fn remember(&mut self, new: (f64, f64)) {
        let error = |point: (f64, f64)| (point.1 - self.aim()).abs();
        let closer_than = |old| error(old).is_nan() || error(new) < error(old);
        if closer_than(self.points[1]) {
            self.points = [self.points[1], new];
        } else if closer_than(self.points[0]) {
            self.points[0] = new;
        }
    }

    /// A model without any speed gets nothing from a line, one with an infinite speed everything.
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

    /// The next time to try, strictly inside the bracket; `None` if there is no number inside.
    ///
    /// That is where the secant meets the goal. If it has come closer from one side only, it is
    /// stretched, to enclose the goal from the other; if that does not halve the bracket either,
    /// a safe step does.
    fn next_time(&mut self) -> Option<f64> {
        let width = numbers_between(self.low_s, self.high_s);
        if width < 2 {
            return None;
        }
        let halved = width <= self.width / 2;
        self.slow = if halved { 0 } else { self.slow + 1 };
        self.width = width;
        let secant_s = match self.slow {
            0..=2 => self.secant(1.0),
            3 | 4 => self.secant(f64::from(self.slow - 1)),
            _ => f64::NAN,
        };
        let inside = |time_s: &f64| self.low_s < *time_s && *time_s < self.high_s;
        Some(secant_s)
            .filter(inside)
            .or_else(|| self.outer_line().filter(inside))
            // Halves the exponents first, so that it takes 64 steps at most whatever the bracket.
            .or(Some(f64::from_bits(self.low_s.to_bits() + width / 2)))
    }

    /// Where the line through the two best points, `stretch` times as far from the better one as it
    /// should be, meets the goal.
    fn secant(&self, stretch: f64) -> f64 {
        let [(t0, n0), (t1, n1)] = self.points;
        t1 + stretch * (self.aim() - n1) * ((t1 - t0) / (n1 - n0))
    }

    /// The relative growth of `N` for a relative growth of `T`, by the two best points.
    fn elasticity(&self) -> f64 {
        let [(t0, n0), (t1, n1)] = self.points;
        let elasticity = (n1 - n0) / (t1 - t0) * (t1 / n1);
        if elasticity.is_finite() && elasticity > 0.0 {
            elasticity
        } else {
            1.0
        }
    }

    /// The line that theory has beyond the goal, while nothing else bounds it. It is taken twice as
    /// far out, for where a time hardly grows its inverse is inexact.
    fn outer_line(&self) -> Option<f64> {
        if self.high_s.is_infinite() {
            Some(2.0 * self.start.longest_s)
        } else if self.low_s == 0.0 {
            Some(0.5 * self.start.shortest_s)
        } else {
            None
        }
    }

    /// The device that more time gives no more units.
    fn stuck(&self) -> PartitionError {
        let bounded = |&share: &f64| share < self.total;
        let index = self.shares.iter().position(bounded).unwrap_or(0);
        let d = self.shares[index];
        PartitionError::InvalidModel {
            index,
            d,
            time_s: self.devices.models[index].time_s(d),
        }
    }

    /// The shares that sum to `total` between two lines whose times are neighbouring numbers. Some
    /// function is so steep that whole units lie between them, and all of those take equally long.
    fn between(mut self) -> Line<'a> {
        let mut lower = vec![0.0; self.shares.len()];
        let mut given =
            |time_s, shares: &mut [f64]| self.devices.give_out(self.total, time_s, shares);
        let few = given(self.low_s, &mut self.shares);
        let many = given(self.high_s, &mut lower);
        let part = ((self.total - few) / (many - few)).clamp(0.0, 1.0);
        for (share, &more) in self.shares.iter_mut().zip(&lower) {
            *share += (more - *share) * part;
        }
        Line {
            time_s: self.high_s,
            shares: self.shares,
            elasticity: f64::INFINITY,
            devices: self.devices,
        }
    }
}

/// Where a search begins.
struct Start {
    /// A time at which the goal is likely.
    time_s: f64,
    /// The relative growth of `N` for a relative growth of `T` there.
    elasticity: f64,
    /// Of an even division, the time of the device that finishes first...
    shortest_s: f64,
    /// ... and last.
    longest_s: f64,
}

impl Start {
    /// With more devices than this, a sample of about as many is balanced first.
    const SAMPLE: usize = 2048;

    fn of(models: &[&dyn SpeedModel], total: f64) -> Self {
        let stride = models.len() / Self::SAMPLE;
        if stride < 2 {
            return Self::proportional(models, total);
        }
        // Not an even stride: every second, fourth or eighth device may be a special one.
        let sample: Vec<_> = models.iter().step_by(stride | 1).copied().collect();
        let total = total * (sample.len() as f64 / models.len() as f64);
        let mut search = Search::new(&sample, total, 0.999 * total..=1.001 * total);
        match search.run() {
            Ok(End::Within(time_s)) => Self {
                time_s,
                elasticity: search.elasticity(),
                ..search.start
            },
            _ => search.start,
        }
    }

    /// A division in proportion to the speeds that the devices show at an even share.
    fn proportional(models: &[&dyn SpeedModel], total: f64) -> Self {
        let d = total / models.len() as f64;
        let (mut shortest_s, mut longest_s) = (f64::INFINITY, 0.0_f64);
        // Relative to one of them, the sum of the speeds cannot overflow unless a ratio does.
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

/// How many steps from number to next number lead from `low` to `high`, both of at least 0.
fn numbers_between(low: f64, high: f64) -> u64 {
    high.to_bits().saturating_sub(low.to_bits())
}
