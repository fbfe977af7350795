//! Performance models: how fast a device is at every problem size.
//!
//! [`Point`] is one measurement, [`Cpm`] the constant model, [`PiecewiseFpm`] the functional model
//! built from points, [`ModelFile`] the points file on disk. Partitioners see [`SpeedModel`] only, or,
//! where functions may have any shape, [`TimeFunction`].

use std::fmt::Debug;

pub mod cpm;
pub mod discrete;
pub mod piecewise;
pub mod point;
mod shape;
pub mod text;

pub use cpm::Cpm;
pub use discrete::{Estimate, TimeFunction};
pub use piecewise::{Knot, PiecewiseFpm};
pub use point::Point;
pub use text::ModelFile;

/// A speed function `s(d)` in computational units per second, and the time `t(d) = d / s(d)`.
///
/// Partitioners rely on one property: `t` is strictly increasing and unbounded, so that a line
/// through the origin of the speed plot meets the function exactly once. It holds wherever `s`
/// first rises concavely from a non-negative value and then falls.
///
/// A model that knows nothing has speed 0, time infinity, and fits no units into any time.
///
/// # References
/// Clarke's thesis, section 4.1, equations 4.1 to 4.4.
pub trait SpeedModel: Debug {
    /// Speed at `d` units, in units per second.
    fn speed(&self, d: f64) -> f64;

    /// Seconds that `d` units take: `d / speed(d)`, and 0 at `d = 0`.
    fn time_s(&self, d: f64) -> f64 {
        if d <= 0.0 { 0.0 } else { d / self.speed(d) }
    }

    /// Slope of the speed at `d`, in units per second per unit; at a corner of the model, the slope to
    /// the right of it.
    fn speed_derivative(&self, d: f64) -> f64;

    /// Slope of the time at `d`, in seconds per unit: `(1 - d · s'(d) / s(d)) / s(d)`.
    fn time_derivative(&self, d: f64) -> f64 {
        let speed = self.speed(d);
        (1.0 - d * self.speed_derivative(d) / speed) / speed
    }

    /// The largest `d` with `time_s(d) <= t_s`: where the line of slope `1 / t_s` through the origin
    /// meets the speed function.
    fn units_within(&self, t_s: f64) -> f64;
}

/// What makes a measurement or a points file unusable.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A point that has no finite positive speed.
    #[error("point d = {d}, t = {t_s} s: d must be at least 1 and t finite and positive")]
    InvalidPoint {
        /// Units of the rejected point.
        d: u64,
        /// Seconds of the rejected point.
        t_s: f64,
    },
    /// A granule of no units.
    #[error("granule 0: sizes must be multiples of at least 1 unit")]
    ZeroGranule,
    /// A size between two granules.
    #[error("point d = {d}: not a multiple of the granule, {granule} units")]
    NotAMultiple {
        /// Units of the rejected point.
        d: u64,
        /// The granule in units.
        granule: u64,
    },
    /// Two times for one size.
    #[error("point d = {d}: given twice")]
    RepeatedSize {
        /// Units of the repeated point.
        d: u64,
    },
    /// A confidence interval that is none.
    #[error("point d = {d}: confidence interval {ci_s} s: must be finite and at least 0")]
    InvalidInterval {
        /// Units of the rejected point.
        d: u64,
        /// Its half-width in seconds.
        ci_s: f64,
    },
    /// More points than anybody can use.
    #[error("{points} points, and {limit} at most: choose a larger granule")]
    TooManyPoints {
        /// Points that were asked for.
        points: u64,
        /// The most that are allowed.
        limit: u64,
    },
    /// A line of a points file that cannot be read.
    #[error("line {line}: {reason}")]
    Syntax {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it, with the offending text.
        reason: String,
    },
}
