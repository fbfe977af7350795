//! Measurements of a multiplication.

use serde::{Deserialize, Serialize};

use super::learning::Learnt;
use crate::matrix::Region;
use crate::plan::Plan;

/// This rank's measurements of one multiplication.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Execution {
    /// Seconds from the first rank's start to the last rank's end.
    pub wall_s: f64,
    /// Busy seconds of each device of this rank, as [`DeviceReport::busy_s`](crate::report::DeviceReport::busy_s).
    pub busy_s: Vec<f64>,
    /// Seconds in which the devices waited for panels, or for the decision about a step: communication that no
    /// computation hid. Packing and copying by
    /// this rank's thread do not count, even if they outlast the devices' update.
    pub exposed_s: f64,
    /// Seconds in which parts of A and B were made, as [`NodeReport::parts_s`](crate::report::NodeReport::parts_s).
    pub parts_s: f64,
    /// Seconds of the sum of C over the ranks, as [`NodeReport::sum_s`](crate::report::NodeReport::sum_s).
    pub sum_s: f64,
    /// Messages this rank sent.
    pub messages: u64,
    /// Bytes this rank sent.
    pub bytes: u64,
    /// The products of elements that each device of this rank computed.
    pub products: Vec<f64>,
    /// The part of C that this rank has at the end.
    pub part: Region,
    /// The changes of the assignment in mid-run, in their order. The last one returns C to where the caller has it, if
    /// it has moved and is not [left](super::RunConfig::leaves_c) there.
    pub changes: Vec<ChangeCost>,
    /// Seconds of all changes. The devices' times at the beginning and the end of their jobs count as busy too.
    pub changing_s: f64,
    /// The results of learning, on the head rank; `None` if all was decided before the run.
    pub learnt: Option<Learnt>,
}

impl Execution {
    /// Returns the work of each device of `rank`, whose execution this is, as [`Plan::units`]: as planned, or as it was
    /// done if the assignment changed in mid-run.
    pub fn count_units(&self, plan: &Plan, rank: usize) -> Vec<f64> {
        if self.changes.is_empty() {
            return plan.slices(rank).into_iter().map(|cols| plan.units_of(rank, cols)).collect();
        }
        let problem = plan.problem();
        let unit = (problem.block() as f64).powi(2) * problem.k() as f64;
        self.products.iter().map(|done| done / unit).collect()
    }
}

/// The cost of a change of the assignment in mid-run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangeCost {
    /// The step of this rank that it came before; the number of steps if it came after the last.
    pub step: usize,
    /// Seconds it took on this rank, with the wait for ranks that came later.
    pub seconds: f64,
    /// Bytes of C this rank sent.
    pub bytes: u64,
}
