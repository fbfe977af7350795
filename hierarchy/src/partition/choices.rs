//! The possible sizes of each device: those of its time function that its limits allow.

use super::limits::check_capacity;
use super::{Limits, PartitionError};
use crate::model::TimeFunction;

/// Largest number of bytes for the sums of one computation.
pub(super) const MAX_BYTES: u128 = 1 << 29;

/// A possible size and its time. Idleness, size 0 in 0 s, is always possible and never listed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SizeTime {
    /// Size in multiples of [`SizeProblem::unit`].
    pub size: u64,
    pub time_s: f64,
}

/// The choices of one device.
#[derive(Debug)]
pub(super) struct Choices {
    /// All choices, by ascending time, then descending size.
    by_time: Vec<SizeTime>,
    /// Entry `i`: the largest size of the choices up to `i`.
    most: Vec<u64>,
    /// Entry `i`: the greatest common divisor of the sizes of the choices up to `i`.
    divisor: Vec<u64>,
}

impl Choices {
    pub fn new(mut choices: Vec<SizeTime>) -> Self {
        choices.sort_unstable_by(|a, b| a.time_s.total_cmp(&b.time_s).then(b.size.cmp(&a.size)));
        Self {
            most: accumulate_sizes(&choices, u64::max),
            divisor: accumulate_sizes(&choices, gcd),
            by_time: choices,
        }
    }

    /// Returns all choices, by ascending time.
    pub fn all(&self) -> &[SizeTime] {
        &self.by_time
    }

    /// Returns the choices that take at most `time_s`.
    pub fn within(&self, time_s: f64) -> &[SizeTime] {
        let n = (self.by_time).partition_point(|choice| choice.time_s <= time_s);
        &self.by_time[..n]
    }

    /// Returns the largest size; 0 without choices.
    pub fn largest_size(&self) -> u64 {
        self.largest_of_first(self.by_time.len())
    }

    /// Returns the largest size of the first `n` choices; 0 if `n` is 0.
    pub fn largest_of_first(&self, n: usize) -> u64 {
        n.checked_sub(1).map_or(0, |last| self.most[last])
    }

    /// Returns the size threshold `σ(time_s)`: the largest size that takes at most `time_s`.
    pub fn largest_within(&self, time_s: f64) -> u64 {
        self.largest_of_first(self.within(time_s).len())
    }

    /// Returns the greatest common divisor of the sizes that take at most `time_s`; 0 without any.
    pub fn divisor_within(&self, time_s: f64) -> u64 {
        self.within(time_s).len().checked_sub(1).map_or(0, |last| self.divisor[last])
    }

    /// Returns all choices, ascending in size.
    pub fn sort_by_size(&self) -> Vec<SizeTime> {
        let mut choices = self.by_time.clone();
        choices.sort_unstable_by_key(|choice| choice.size);
        choices
    }
}

/// Joins the sizes from the first choice on, and returns the intermediate results.
fn accumulate_sizes(choices: &[SizeTime], join: fn(u64, u64) -> u64) -> Vec<u64> {
    (choices.iter())
        .scan(0, |so_far, choice| {
            *so_far = join(*so_far, choice.size);
            Some(*so_far)
        })
        .collect()
}

/// An amount to divide and the possible sizes, in the greatest unit that divides all sizes.
#[derive(Debug)]
pub(super) struct SizeProblem {
    /// Greatest common divisor of all possible sizes.
    pub unit: u64,
    /// The amount to divide, in that unit, rounded down.
    pub target: u64,
    /// `true` if the rounding lost nothing.
    pub exact: bool,
    /// The choices of each device.
    pub devices: Vec<Choices>,
}

impl SizeProblem {
    /// States the problem of dividing `total` units among `copies` of these devices.
    ///
    /// # Errors
    /// Returns [`PartitionError::NoDevices`], [`PartitionError::BeyondModels`] or [`PartitionError::BeyondLimits`].
    pub fn new(
        functions: &[TimeFunction],
        limits: &[Limits],
        copies: usize,
        total: u64,
    ) -> Result<Self, PartitionError> {
        check_capacity(functions, limits, copies, total)?;
        let mut devices: Vec<Vec<SizeTime>> = (functions.iter().zip(limits))
            .map(|(function, limits)| allowed_choices(function, limits, total))
            .collect();
        let unit = devices.iter().flatten().map(|choice| choice.size).fold(0, gcd).max(1);
        for choice in devices.iter_mut().flatten() {
            choice.size /= unit;
        }
        Ok(Self {
            unit,
            target: total / unit,
            exact: total.is_multiple_of(unit),
            devices: devices.into_iter().map(Choices::new).collect(),
        })
    }
}

/// Refuses `copies` identical devices or nodes of `bytes_each` bytes.
///
/// # Errors
/// Returns [`PartitionError::TooManyCopies`] for more than [`MAX_BYTES`].
pub(super) fn check_copies(copies: usize, bytes_each: u128) -> Result<(), PartitionError> {
    let bytes = bytes_each.saturating_mul(copies as u128);
    if bytes > MAX_BYTES {
        return Err(PartitionError::TooManyCopies { bytes, copies });
    }
    Ok(())
}

/// Returns the points that the limits allow and that do not exceed `total`.
fn allowed_choices(function: &TimeFunction, limits: &Limits, total: u64) -> Vec<SizeTime> {
    (function.points().iter())
        .take_while(|&&(units, _)| units <= total)
        .filter(|&&(units, _)| limits.allows(units))
        .map(|&(size, time_s)| SizeTime { size, time_s })
        .collect()
}

/// Returns the greatest common divisor; 0 has all divisors.
pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
