//! Performance models: the speed of a device at every problem size.
//!
//! [`Fit`] chooses by name among the [models](crate#when-to-use-which) of measured [`Point`]s.
//! [`ModelFile`] and [`SurfaceFile`] are the text that points are kept in.
//! [`ModelSizes`] and [`SurfaceSizes`] choose the sizes at which a full model is measured.
//!
//! Partitioners see only [`SpeedModel`], or [`TimeFunction`] if functions may have any shape.

use std::fmt::Debug;

mod akima;
mod cpm;
mod cubic;
mod discrete;
mod fit;
mod flags;
mod means;
mod piecewise;
mod piecewise_time;
mod point;
mod polyline;
mod segment;
mod shape;
mod sizes;
mod start_up;
mod surface;
mod surface_sizes;
mod surface_text;
mod text;

pub use akima::AkimaFpm;
pub use cpm::Cpm;
pub use discrete::{Estimate, TimeFunction};
pub use fit::Fit;
pub use flags::{Flag, Reason};
pub use piecewise::PiecewiseFpm;
pub use piecewise_time::{PiecewiseTime, TimeKnot};
pub use point::Point;
pub use polyline::{Knot, Polyline};
pub use segment::SpeedSegment;
pub use sizes::{ModelSizes, SizeRule};
pub use start_up::StartUp;
pub use surface::{Surface, SurfacePoint};
pub use surface_sizes::SurfaceSizes;
pub use surface_text::SurfaceFile;
pub use text::ModelFile;

/// A speed function `s(d)` in computational units per second, and the time `t(d) = d / s(d)`.
///
/// Partitioners rely on one property: `t` is strictly increasing and unbounded, so that a line through
/// the origin of the speed plot meets the function exactly once. The property holds if `s` rises
/// concavely from a non-negative value and then falls. [`Cpm`], [`PiecewiseFpm`] and [`PiecewiseTime`]
/// have it by construction. [`AkimaFpm`] and [`Polyline`] follow the measurements; their
/// [`units_within`](Self::units_within) is the last of several sizes.
///
/// A model without points has speed 0 and time infinity, and completes no units within any time.
///
/// # References
/// Clarke's thesis, section 4.1, equations 4.1 to 4.4.
pub trait SpeedModel: Debug {
    /// Returns the speed at `d` units, in units per second.
    fn speed(&self, d: f64) -> f64;

    /// Returns the seconds that `d` units take: `d / speed(d)`, and 0 at `d = 0`.
    fn time_s(&self, d: f64) -> f64 {
        if d <= 0.0 { 0.0 } else { d / self.speed(d) }
    }

    /// Returns the slope of the speed at `d`, in units per second per unit; at a corner of the model,
    /// the slope to its right.
    fn speed_derivative(&self, d: f64) -> f64;

    /// Returns the slope of the time at `d`, in seconds per unit: `(1 - d · s'(d) / s(d)) / s(d)`.
    fn time_derivative(&self, d: f64) -> f64 {
        let speed = self.speed(d);
        (1.0 - d * self.speed_derivative(d) / speed) / speed
    }

    /// Returns the largest `d` with `time_s(d) <= t_s`, at which the line of slope `1 / t_s` through the
    /// origin meets the speed function.
    fn units_within(&self, t_s: f64) -> f64;

    /// Returns the straight segment of the speed function on which `units_within(t_s)` lies. On it, the
    /// segment and the model have the same values. Returns `None` if the model keeps no such segments.
    fn segment_within(&self, _t_s: f64) -> Option<SpeedSegment> {
        None
    }
}

impl<M: SpeedModel + ?Sized> SpeedModel for &M {
    fn speed(&self, d: f64) -> f64 {
        (**self).speed(d)
    }

    fn time_s(&self, d: f64) -> f64 {
        (**self).time_s(d)
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        (**self).speed_derivative(d)
    }

    fn time_derivative(&self, d: f64) -> f64 {
        (**self).time_derivative(d)
    }

    fn units_within(&self, t_s: f64) -> f64 {
        (**self).units_within(t_s)
    }

    fn segment_within(&self, t_s: f64) -> Option<SpeedSegment> {
        (**self).segment_within(t_s)
    }
}

/// The reason why a measurement, a points file or a name cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A model of no points.
    #[error("no points: a model needs at least one measurement")]
    NoPoints,
    /// The name of a [`Fit`] that does not exist.
    #[error(
        "unknown model \"{0}\": expected one of cpm, piecewise-speed, piecewise-time, akima, raw-piecewise"
    )]
    UnknownFit(String),
    /// The name of an [`Estimate`] that does not exist.
    #[error("unknown estimate \"{0}\": expected one of mean, upper")]
    UnknownEstimate(String),
    /// A point that has no usable speed.
    #[error(
        "point d = {d}, t = {t_s} s: d must be at least 1 and t finite and positive, \
         between 1e-100 and 1e100 s"
    )]
    InvalidPoint {
        /// Units of the rejected point.
        d: u64,
        /// Seconds of the rejected point.
        t_s: f64,
    },
    /// A granule of no units.
    #[error("granule 0: sizes must be multiples of at least 1 unit")]
    ZeroGranule,
    /// A size that is not a multiple of the granule.
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
    /// More points than may be sampled from a model.
    #[error("{points} points, and {limit} at most: choose a larger granule")]
    TooManyPoints {
        /// Number of points requested.
        points: u64,
        /// Largest number allowed.
        limit: u64,
    },
    /// A half-width that is not a usable number.
    #[error("confidence interval ci = {ci_s} s: it must be a number from 0 to 1e100")]
    InvalidInterval {
        /// The half-width in seconds.
        ci_s: f64,
    },
    /// A corner of a speed function that has no usable speed or is out of order.
    #[error(
        "knot {index}, d = {d}, speed = {speed} units/s: d must be positive and ascend, the speed be \
         positive, and both finite"
    )]
    InvalidKnot {
        /// Index of the rejected corner.
        index: usize,
        /// Its size in units.
        d: f64,
        /// Its speed in units per second.
        speed: f64,
    },
    /// A point of a surface that has no usable speed.
    #[error(
        "point m = {m}, n = {n}, t = {t_s} s: m and n must be at least 1 and t finite and positive, \
         between 1e-100 and 1e100 s"
    )]
    InvalidSurfacePoint {
        /// Height of the rejected point, in blocks.
        m: u64,
        /// Width of the rejected point, in blocks.
        n: u64,
        /// Seconds of the rejected point.
        t_s: f64,
    },
    /// A section at a height or width that is not finite and positive.
    #[error("extent {extent}: a section lies at a finite positive height or width")]
    InvalidExtent {
        /// The height or width, in blocks.
        extent: f64,
    },
    /// A line of a points file that cannot be read.
    #[error("line {line}: {reason}")]
    Syntax {
        /// Line number, from 1.
        line: usize,
        /// The fault, with the offending text.
        reason: String,
    },
}
