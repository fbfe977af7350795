//! Learning while the work is done: the steps of a multiplication are the measurements.
//!
//! [`Adaptive`] divides the units of each step over parts, and learns their times from the steps
//! themselves. It measures nothing, moves nothing and knows no clock. The caller asks for the next
//! [`Request`], carries it out, and hands over the times.
//!
//! # Deviations
//!
//! * **measuring**: the thesis takes the points of partial models from benchmarks before the run or from the first iterations of an
//!   iterative routine (4.3, A.5), and multiplies with benchmarked models (5.2). Here a multiplication begins after a short look, and
//!   its own steps are the measured points, because the run has to win back the time of all measuring before it.
//! * **end of learning**: the thesis ends at an imbalance of ε (4.3). Here a division changes whenever that
//!   saves more in the steps left than it costs, because neither noise nor the cost of moving knows an ε.
//! * **speed functions while learning**: the thesis begins them at `(0, s₁)`, level up to the first point, and passes through the
//!   points (3.3.1). Here a fixed cost and the beginning of a fall are estimated too. A part with a large fixed cost
//!   should get nothing, and a step behind a fall takes many times as long as one before it.
//! * **partitioner**: the thesis divides by the geometric or the numerical algorithm (4.1, 4.2). Here a run that learns divides by
//!   the geometric one alone, whatever partitioner is configured: times between the points are straight lines.

use serde::{Deserialize, Serialize};

use crate::model::ModelError;
use crate::partition::PartitionError;

mod curve;
mod division;
mod first_look;
mod kinds;
mod learner;
mod look;
mod own_loop;
mod part;
mod proposal;
mod record;
mod rugged;
mod time_line;
mod tuning;

pub(crate) use division::Place;
pub use first_look::FirstLook;
pub use learner::Adaptive;
pub(crate) use own_loop::Stakes;
pub use part::AdaptivePart;
pub(crate) use rugged::RuggedLearner;

pub use record::{ChangeReason, DivisionChange, Drift, Observed, PartModel};
pub use tuning::{ChangeTuning, DoubtTuning, DriftTuning, FitTuning, LookTuning, Tuning};

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Measure each part once with these units, all at the same time. A part with 0 units is not measured.
    Measure(Vec<u64>),
    /// Do a number of steps with this division.
    Steps {
        /// Units of each part.
        units: Vec<u64>,
        /// Steps after which the next request is due.
        count: u64,
    },
    /// All steps are done.
    Done,
}

/// A division as it can be laid out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LaidOut {
    /// Units of each part in whole blocks.
    pub units: Vec<u64>,
    /// Seconds that the change from the current division costs.
    pub cost_s: f64,
}

/// The reason why a run cannot be learnt from.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptiveError {
    /// A setting outside its range.
    #[error("{name} = {value}: must be at least {least}")]
    InvalidConfig {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Its least value.
        least: f64,
    },
    /// Work and no parts.
    #[error("{total} units and no part to give them to")]
    NoParts {
        /// Units of a step.
        total: u64,
    },
    /// Parts with too little room.
    #[error("{total} units, and the parts can take {capacity} in sum")]
    BeyondCapacity {
        /// Units of a step.
        total: u64,
        /// Sum of the parts' capacities, in whole granules.
        capacity: u64,
    },
    /// Not one value for each part.
    #[error("{got} values for {wanted} parts")]
    WrongLength {
        /// Number of parts.
        wanted: usize,
        /// Number of values.
        got: usize,
    },
    /// A step of another number of units.
    #[error("a step of {got} units where it has {wanted}")]
    WrongTotal {
        /// Units of a step.
        wanted: u64,
        /// Sum of the units handed over.
        got: u64,
    },
    /// More steps than the run has.
    #[error("the run of {steps} steps is over")]
    Over {
        /// Steps of the run.
        steps: u64,
    },
    /// A part with work and without a usable time, or an unusable earlier point.
    #[error("part {index}: {source}")]
    InvalidTime {
        /// Index of the part.
        index: usize,
        /// The refused point.
        source: ModelError,
    },
    /// A change that costs a negative time, or none that is a number.
    #[error("a change that costs {cost_s} s: must be a number of at least 0")]
    InvalidCost {
        /// The cost in seconds.
        cost_s: f64,
    },
    /// A broken time function.
    #[error("time function: {0}")]
    InvalidFunction(#[from] ModelError),
    /// Time functions of some parts only.
    #[error("part {index} has no time function, and others do: give one for each part or for none")]
    MissingFunction {
        /// Index of the first part without one.
        index: usize,
    },
    /// The models do not admit a division.
    #[error(transparent)]
    Partition(#[from] PartitionError),
}
