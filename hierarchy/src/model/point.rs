//! One measurement of a device at one problem size.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::ModelError;

/// Range of measured seconds. Any clock's times lie far inside. Within these bounds no arithmetic on
/// times, speeds and slopes of speeds overflows or loses its digits.
pub(super) const TIMES_S: RangeInclusive<f64> = 1e-100..=1e100;

/// A measured point of a speed function: `d` units took `t_s` seconds.
///
/// With `reps = 0` the point is a *floor*: measuring was given up, and the units take at least `t_s`.
/// Models use a floor as the time of its size as long as their measured points predict less time. A
/// measured time of that size replaces the floor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Point {
    /// Units of the point.
    pub d: u64,
    /// Mean time in seconds; with `reps` 0 a lower bound.
    pub t_s: f64,
    /// Repetitions that were averaged; 0 if a run took too long and was stopped.
    pub reps: u32,
    /// Half-width of the confidence interval of the mean, in seconds; 0 if it is not known.
    pub ci_s: f64,
}

impl Point {
    /// Returns the speed in units per second: `d / t_s`.
    pub fn speed(&self) -> f64 {
        self.d as f64 / self.t_s
    }

    /// Returns the point of work that takes `factor` times as long.
    #[must_use]
    pub fn scale_time(self, factor: f64) -> Self {
        Self { t_s: self.t_s * factor, ci_s: self.ci_s * factor, ..self }
    }

    /// Refuses a point that no model can use.
    ///
    /// # Errors
    /// Returns [`ModelError::InvalidPoint`] if `d = 0` or `t_s` is not within 1e-100 to 1e100 s;
    /// [`ModelError::InvalidInterval`] if `ci_s` is not within 0 to 1e100 s.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let Self { d, t_s, ci_s, .. } = *self;
        if d == 0 || !TIMES_S.contains(&t_s) {
            return Err(ModelError::InvalidPoint { d, t_s });
        }
        check_interval(ci_s)
    }
}

/// Refuses a half-width that is not within 0 to 1e100 seconds.
///
/// # Errors
/// Returns [`ModelError::InvalidInterval`].
pub(super) fn check_interval(ci_s: f64) -> Result<(), ModelError> {
    if (0.0..=*TIMES_S.end()).contains(&ci_s) {
        Ok(())
    } else {
        Err(ModelError::InvalidInterval { ci_s })
    }
}
