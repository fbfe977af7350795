//! What each device may take: the sizes of a time function that its limits allow.

use super::limits::check_capacity;
use super::{Limits, PartitionError};
use crate::model::TimeFunction;

/// Bytes that the sums of one computation may take.
pub(super) const MAX_BYTES: u128 = 1 << 29;

/// A possible size and its time. Idleness, size 0 in 0 s, is possible everywhere and never listed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    /// In multiples of [`Problem::unit`].
    pub size: u64,
    pub time_s: f64,
}

/// The choices of one device.
#[derive(Debug)]
pub(super) struct Choices {
    /// By ascending time, then descending size.
    by_time: Vec<Choice>,
    /// The largest size among the first choices, this one included.
    most: Vec<u64>,
    /// The greatest common divisor of the first choices' sizes, this one included.
    divisor: Vec<u64>,
}

impl Choices {
    pub fn new(mut choices: Vec<Choice>) -> Self {
        choices.sort_unstable_by(|a, b| a.time_s.total_cmp(&b.time_s).then(b.size.cmp(&a.size)));
        let running = |join: fn(u64, u64) -> u64| {
            let next = move |so_far: &mut u64, choice: &Choice| {
                *so_far = join(*so_far, choice.size);
                Some(*so_far)
            };
            choices.iter().scan(0, next).collect()
        };
        Self {
            most: running(u64::max),
            divisor: running(gcd),
            by_time: choices,
        }
    }

    /// All choices, by ascending time.
    pub fn all(&self) -> &[Choice] {
        &self.by_time
    }

    /// The choices that take at most `time_s`.
    pub fn within(&self, time_s: f64) -> &[Choice] {
        &self.by_time[..self
            .by_time
            .partition_point(|choice| choice.time_s <= time_s)]
    }

    /// The largest size within the first `n` choices; 0 without any.
    pub fn most_of(&self, n: usize) -> u64 {
        n.checked_sub(1).map_or(0, |last| self.most[last])
    }

    /// The size threshold `σ(time_s)`: the largest size that takes at most `time_s`.
    pub fn most_within(&self, time_s: f64) -> u64 {
        self.most_of(self.within(time_s).len())
    }

    /// The greatest common divisor of the sizes that take at most `time_s`; 0 without any.
    pub fn divisor_within(&self, time_s: f64) -> u64 {
        let within = self.within(time_s).len();
        within.checked_sub(1).map_or(0, |last| self.divisor[last])
    }

    /// Seconds that `size` takes: a table to look it up in, ascending in size.
    pub fn by_size(&self) -> Vec<Choice> {
        let mut choices = self.by_time.clone();
        choices.sort_unstable_by_key(|choice| choice.size);
        choices
    }
}

/// A division to be made, in the largest unit that all sizes are multiples of.
#[derive(Debug)]
pub(super) struct Problem {
    /// Greatest common divisor of all possible sizes.
    pub unit: u64,
    /// What is to be divided, in that unit, rounded down.
    pub target: u64,
    /// Whether nothing was lost by the rounding.
    pub exact: bool,
    /// What each device may take.
    pub devices: Vec<Choices>,
}

impl Problem {
    /// The problem of dividing `total` units among `copies` of these devices.
    ///
    /// # Errors
    /// As [`check_capacity`].
    pub fn new(
        functions: &[TimeFunction],
        limits: &[Limits],
        copies: usize,
        total: u64,
    ) -> Result<Self, PartitionError> {
        check_capacity(functions, limits, copies, total)?;
        Ok(Self::unchecked(functions, limits, total))
    }

    /// The same without asking whether the devices can take as much.
    pub fn unchecked(functions: &[TimeFunction], limits: &[Limits], total: u64) -> Self {
        let mut devices: Vec<Vec<Choice>> = functions
            .iter()
            .zip(limits)
            .map(|(function, limits)| allowed(function, limits, total))
            .collect();
        let sizes = devices.iter().flatten().map(|choice| choice.size);
        let unit = sizes.fold(0, gcd).max(1);
        for choice in devices.iter_mut().flatten() {
            choice.size /= unit;
        }
        Self {
            unit,
            target: total / unit,
            exact: total.is_multiple_of(unit),
            devices: devices.into_iter().map(Choices::new).collect(),
        }
    }
}

/// Refuses `copies` identical devices or nodes of which each takes so many bytes.
///
/// # Errors
/// [`PartitionError::TooLarge`] for more than [`MAX_BYTES`].
pub(super) fn check_copies(copies: usize, bytes_each: u128) -> Result<(), PartitionError> {
    let bytes = bytes_each.saturating_mul(copies as u128);
    if bytes > MAX_BYTES {
        let copies = Some(copies);
        return Err(PartitionError::TooLarge { bytes, copies });
    }
    Ok(())
}

/// The points that the limits and the whole amount leave.
fn allowed(function: &TimeFunction, limits: &Limits, total: u64) -> Vec<Choice> {
    let max = total.min(limits.max_units());
    let points = function.points().iter();
    points
        .take_while(|&&(units, _)| units <= max)
        .filter(|(units, _)| !limits.forbidden.contains(units))
        .map(|&(size, time_s)| Choice { size, time_s })
        .collect()
}

/// Greatest common divisor; 0 has all divisors.
pub(super) fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
