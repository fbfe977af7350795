//! Measuring how long updates take, until the mean is known well enough.
//!
//! [`measure_team`] measures all devices of a node together, because devices that share memory slow each other down. A
//! [`Measurement`](isochron_hierarchy::times::Measurement) holds the time of an update with its part of a whole job, and
//! says how reliable it is.

mod config;
mod deadline;
mod kernel;
mod operands;
mod products;
mod repeat;
mod tally;
mod team;

pub use config::MeasureConfig;
pub use kernel::{limit_run_s, measure_kernel};
pub use operands::UpdateOperands;
pub use products::{ProductCount, count_wrong_products};
pub use repeat::{InStep, repeat_alone};
pub use tally::MeasureTally;
pub use team::measure_team;
