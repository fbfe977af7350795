//! Measuring how long updates take, until the mean is known well enough.
//!
//! [`measure_team`] measures all devices of a node together, because devices that share memory slow each other down. A core
//! measured alone shows a speed that it never has in a run. A time is that of an update with its part of a whole job.
//! The job's beginning and end, such as copies of a C that stays on a GPU, are spread over its updates.
//!
//! A [`Measurement`] holds the time and says how reliable it is. Disturbances are measured again and never averaged in. A
//! size that would take far too long is cut off and gets a bound. The times are tested for normality, which Student's t
//! assumes.

mod config;
mod deadline;
mod operands;
mod outliers;
mod repeat;
mod stats;
mod tally;
mod team;

pub use config::MeasureConfig;
pub use operands::UpdateOperands;
pub use repeat::{InStep, MeasureOutcome, Measurement, repeat_alone};
pub use tally::MeasureTally;
pub use team::measure_team;
