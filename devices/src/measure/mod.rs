//! Measuring how long updates take, until the mean is known well enough.
//!
//! [`measure_team`] measures all devices of a node together, because devices that share memory slow each other down:
//! a core measured alone is faster than it will ever be again. [`repeat_until_confident`] decides when there have
//! been enough repetitions, and takes their times from a closure.

mod repeat;
mod stats;
mod team;

pub use repeat::{InStep, MeasureConfig, Measurement, alone, repeat_until_confident};
pub use stats::Sample;
pub use team::{Operands, measure_team};
