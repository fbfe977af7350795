//! One measurement of a device at one problem size.

use serde::{Deserialize, Serialize};

use super::ModelError;

/// A measured point of a speed function: `d` units took `t_s` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Problem size in computational units.
    pub d: u64,
    /// Mean time in seconds.
    pub t_s: f64,
    /// Repetitions that the mean was taken over.
    pub reps: u32,
    /// Half-width of the confidence interval of the mean, in seconds.
    pub ci_s: f64,
}

impl Point {
    /// Speed in units per second: `d / t_s`.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.d as f64 / self.t_s
    }

    /// Refuses a point without a finite positive speed.
    ///
    /// # Errors
    /// [`ModelError::InvalidPoint`] if `d = 0`, or if `t_s` or the speed is not finite and positive.
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        let usable = |x: f64| x.is_finite() && x > 0.0;
        if self.d > 0 && usable(self.t_s) && usable(self.speed()) {
            return Ok(());
        }
        Err(ModelError::InvalidPoint {
            d: self.d,
            t_s: self.t_s,
        })
    }
}
