//! Devices that take a given time: one machine emulates an unlike cluster.
//!
//! A [`PacedWorker`] slows another worker down, a [`PacedWork`] a program's own work. A [`RecordedWorker`] replays a model
//! without any arithmetic.

mod model_time;
mod recorded;
mod turns;
mod visit;
mod work;
mod worker;

pub use recorded::RecordedWorker;
pub use work::PacedWork;
pub use worker::{Pace, PacedWorker};
