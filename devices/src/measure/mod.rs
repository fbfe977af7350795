//! Measuring how long updates take, until the mean is known well enough.
//!
//! [`measure_team`] measures all devices of a node together, because devices that share memory slow each other down:
//! a core measured alone is faster than it will ever be again. A time is that of an update with its part of a whole job:
//! what the job's beginning and end take, such as the copies of a C that stays on a GPU, is spread over its updates. [`repeat_until_confident`] decides when there have
//! been enough repetitions, and takes their times from a closure. A [`Measurement`] says what was found and how far it
//! can be relied on: disturbances are measured again and never averaged in, a size that would take far too long is cut
//! off and gets a bound, and whether the times look normally distributed, as Student's t assumes, is checked.

mod config;
mod deadline;
mod outliers;
mod repeat;
mod stats;
mod tally;
mod team;

pub use config::MeasureConfig;
pub use repeat::{InStep, MeasureOutcome, Measurement, repeat_alone, repeat_until_confident};
pub use stats::{Sample, looks_normal};
pub use tally::MeasureTally;
pub use team::{UpdateOperands, measure_team};
