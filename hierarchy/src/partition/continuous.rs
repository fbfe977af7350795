//! The line of equal time: the optimum in real numbers that the partitioners round.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::PartitionError;
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
    equal_time(
        models,
        total,
        units * (1.0 - PRECISION)..=units * (1.0 + PRECISION),
    )
}

/// The line that gives out a number of units within `goal`; or, where the number jumps across `goal`
/// from one representable time to the next, shares between the two lines that sum to `total`.
///
/// `total` must not be 0, and `goal` must contain a positive number.
pub(super) fn equal_time(
    models: &[&dyn SpeedModel],
    total: u64,
    goal: RangeInclusive<f64>,
) -> Result<EqualTime, PartitionError> {
    let even = EvenDivision::of(models, total)?;
    // By constant speeds this is the very line.
    let mut time_s = even.proportional_s;
    let mut search = Search::new(models, total as f64, goal, even);
    loop {
        match search.evaluate(time_s) {
            Verdict::Within => {
                let shares = search.shares;
                return Ok(EqualTime { time_s, shares });
            }
            Verdict::TooFew => search.low_s = time_s,
            Verdict::TooMany => search.high_s = time_s,
        }
        match search.next_time() {
            Some(next_s) => time_s = next_s,
            None if search.high_s.is_infinite() => return Err(search.stuck()),
            None => return Ok(search.between()),
        }
    }
}

/// Seconds that the models predict for an even division, which enclose the time of the best one.
struct EvenDivision {
    /// Of the fastest device.
    shortest_s: f64,
    /// Of the slowest device.
    longest_s: f64,
    /// Of a division in proportion to the speeds that the devices show at an even share.
    proportional_s: f64,
}

impl EvenDivision {
    /// Asks every model, and so notices those that are unusable.
    fn of(models: &[&dyn SpeedModel], total: u64) -> Result<Self, PartitionError> {
        if models.is_empty() {
            return Err(PartitionError::NoDevices { total });
        }
        let d = total as f64 / models.len() as f64;
        let (mut shortest_s, mut longest_s) = (f64::INFINITY, 0.0_f64);
        // Relative to the first speed, the sum cannot overflow unless a ratio of speeds does.
        let (mut first_s, mut relative_speeds) = (0.0, 0.0);
        for (index, model) in models.iter().enumerate() {
            let time_s = model.time_s(d);
            if !(time_s.is_finite() && time_s > 0.0) {
                return Err(PartitionError::InvalidModel { index, d, time_s });
            }
            if index == 0 {
                first_s = time_s;
            }
            relative_speeds += first_s / time_s;
            shortest_s = shortest_s.min(time_s);
            longest_s = longest_s.max(time_s);
        }
        let mean = relative_speeds / models.len() as f64;
        Ok(Self {
            shortest_s,
            longest_s,
            proportional_s: (first_s / mean).clamp(shortest_s, longest_s),
        })
    }
}

/// How the units that a line gives out compare with the goal.
enum Verdict {
    TooFew,
    Within,
    TooMany,
}

/// A search for the time `T` at which `N(T) = Σ x_i(T)`, the units that fit into `T`, comes within the
/// goal. `N` does not decrease, and is nearly a straight line where speeds change little.
struct Search<'a> {
    models: &'a [&'a dyn SpeedModel],
    total: f64,
    goal: RangeInclusive<f64>,
    even: EvenDivision,
    /// The line evaluated last.
    shares: Vec<f64>,
    /// The two points `(T, N(T))` closest to the goal, the closer one last; at first the origin.
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
    fn new(
        models: &'a [&'a dyn SpeedModel],
        total: f64,
        goal: RangeInclusive<f64>,
        even: EvenDivision,
    ) -> Self {
        Self {
            models,
            total,
            goal,
            even,
            shares: vec![0.0; models.len()],
            points: [(f64::NAN, f64::NAN), (0.0, 0.0)],
            low_s: 0.0,
            high_s: f64::INFINITY,
            width: u64::MAX,
            slow: 0,
        }
    }

    fn aim(&self) -> f64 {
        self.goal.start().midpoint(*self.goal.end())
    }

    fn evaluate(&mut self, time_s: f64) -> Verdict {
        let given = give_out(self.models, self.total, time_s, &mut self.shares);
        let error = |point: (f64, f64)| (point.1 - self.aim()).abs();
        let new = (time_s, given);
        if error(new) < error(self.points[1]) {
            self.points = [self.points[1], new];
        } else if error(self.points[0]).is_nan() || error(new) < error(self.points[0]) {
            self.points[0] = new;
        }
        if given < *self.goal.start() {
            Verdict::TooFew
        } else if given > *self.goal.end() {
            Verdict::TooMany
        } else {
            Verdict::Within
        }
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
            0 | 1 => self.secant(1.0),
            2 | 3 => self.secant(f64::from(self.slow)),
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

    /// The line that theory has beyond the goal, while nothing else bounds it. It is taken twice as
    /// far out, for where a time hardly grows its inverse is inexact.
    fn outer_line(&self) -> Option<f64> {
        if self.high_s.is_infinite() {
            Some(2.0 * self.even.longest_s)
        } else if self.low_s == 0.0 {
            Some(0.5 * self.even.shortest_s)
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
            time_s: self.models[index].time_s(d),
        }
    }

    /// The shares that sum to `total` between two lines whose times are neighbouring numbers. Some
    /// function is so steep that whole units lie between them, and all of those take equally long.
    fn between(mut self) -> EqualTime {
        let mut lower = vec![0.0; self.models.len()];
        let given = |time_s, shares: &mut Vec<f64>| {
            give_out(self.models, self.total, time_s, shares.as_mut_slice())
        };
        let few = given(self.low_s, &mut self.shares);
        let many = given(self.high_s, &mut lower);
        let part = ((self.total - few) / (many - few)).clamp(0.0, 1.0);
        for (share, &more) in self.shares.iter_mut().zip(&lower) {
            *share += (more - *share) * part;
        }
        EqualTime {
            time_s: self.high_s,
            shares: self.shares,
        }
    }
}

/// Writes the units that each device fits into `time_s`, at most `total`, and returns their sum.
fn give_out(models: &[&dyn SpeedModel], total: f64, time_s: f64, shares: &mut [f64]) -> f64 {
    let mut sum = 0.0;
    for (model, share) in models.iter().zip(shares) {
        // The order of the two bounds turns what is not a number into no units.
        *share = model.units_within(time_s).max(0.0).min(total);
        sum += *share;
    }
    sum
}

/// How many steps from number to next number lead from `low` to `high`, both of at least 0.
fn numbers_between(low: f64, high: f64) -> u64 {
    high.to_bits().saturating_sub(low.to_bits())
}
