//! Performance models: how fast a device is at every problem size.
//!
//! [`Point`] is one measurement, [`Cpm`] the constant model, [`PiecewiseFpm`] the functional model
//! built from points, [`ModelFile`] the points file on disk. [`PiecewiseTime`], [`AkimaFpm`] and
//! [`Polyline`] are other fits of the same points, [`Fit`] chooses between them by name; [`Surface`] is
//! the functional model in two dimensions, [`SurfaceFile`] its points on disk. Partitioners see
//! [`SpeedModel`] only, or, where functions may have any shape, [`TimeFunction`].

use std::fmt::Debug;

pub mod akima;
pub mod cpm;
mod cubic;
pub mod discrete;
pub mod fit;
pub mod flags;
mod means;
pub mod piece;
pub mod piecewise;
pub mod piecewise_time;
pub mod point;
pub mod polyline;
mod shape;
pub mod surface;
pub mod surface_text;
pub mod text;

pub use akima::AkimaFpm;
pub use cpm::Cpm;
pub use discrete::{Estimate, TimeFunction};
pub use fit::Fit;
pub use flags::{Flag, Reason, contradictions};
pub use piece::Piece;
pub use piecewise::PiecewiseFpm;
pub use piecewise_time::{PiecewiseTime, TimeKnot};
pub use point::Point;
pub use polyline::{Knot, Polyline};
pub use surface::{Surface, SurfacePoint};
pub use surface_text::SurfaceFile;
pub use text::ModelFile;

/// A speed function `s(d)` in computational units per second, and the time `t(d) = d / s(d)`.
///
/// Partitioners rely on one property: `t` is strictly increasing and unbounded, so that a line
/// through the origin of the speed plot meets the function exactly once. It holds wherever `s`
/// first rises concavely from a non-negative value and then falls. [`Cpm`], [`PiecewiseFpm`] and
/// [`PiecewiseTime`] have it by construction; [`AkimaFpm`] and [`Polyline`] follow the measurements
/// wherever they go, and answer [`units_within`](Self::units_within) with the last of several sizes.
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

    /// The straight piece of the speed function on which `units_within(t_s)` lies, if the function is
    /// made of such pieces. On it the piece says the same as the model.
    fn piece_within(&self, _t_s: f64) -> Option<Piece> {
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

    fn piece_within(&self, t_s: f64) -> Option<Piece> {
        (**self).piece_within(t_s)
    }
}

/// What makes a measurement or a points file unusable.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// There is nothing to make a model of.
    #[error("no points: a model needs at least one measurement")]
    NoPoints,
    /// A name that is not that of a [`Fit`].
    #[error("unknown model \"{name}\": expected one of {}", Fit::names())]
    UnknownFit {
        /// The name.
        name: String,
    },
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
    /// More points than anybody can use.
    #[error("{points} points, and {limit} at most: choose a larger granule")]
    TooManyPoints {
        /// Points that were asked for.
        points: u64,
        /// The most that are allowed.
        limit: u64,
    },
    /// A confidence interval that is not one.
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
    /// A grid of measured points that has a hole.
    #[error("m = {m}, n = {n} is not measured: a grid needs every height at every width")]
    IncompleteGrid {
        /// Height of the first missing point, in blocks.
        m: f64,
        /// Width of the first missing point, in blocks.
        n: f64,
    },
    /// A surface cannot be cut there.
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
        /// What is wrong with it, with the offending text.
        reason: String,
    },
}
