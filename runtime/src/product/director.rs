//! The contract of directors, which change the division of a multiplication in mid-run.
//!
//! Every few steps the ranks gather the times of their devices, and the director of the head rank decides if other
//! parts of C or other slices would be better. The steps that follow go on meanwhile.
//! [`Execution::changes`](super::Execution::changes) lists the changes that were made.

use isochron_devices::internal::HostClock;
use serde::{Deserialize, Serialize};

use super::seen_step::SeenStep;
use crate::comm::Comm;
use crate::error::Error;
use crate::plan::Assignment;
use crate::plan::host_memory::check_room;

/// The work of all ranks since the last decision.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTimes<'t> {
    /// The step from which on a change would be in force. If k is split, a rank with fewer steps changes at the same
    /// fraction of them.
    pub step: usize,
    /// All steps of the multiplication.
    pub steps: usize,
    /// The assignment that is in force, or will be before this step.
    pub assignment: &'t Assignment,
    /// The steps of each rank since the last decision, by rank. The first of them may belong to the assignment before
    /// the last change.
    pub ranks: Vec<Vec<SeenStep>>,
    /// Seconds of the last change, without waiting for ranks that came later, if there was one since the last decision;
    /// 0 otherwise.
    pub changing_s: f64,
}

/// The outcome of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Directive {
    /// The division to change to; `null` keeps the old one.
    pub change: Option<Assignment>,
    /// Steps until the next decision, at least 1. After a change they are steps with the new division.
    pub steps: usize,
}

impl Directive {
    /// Keeps the division to the end.
    pub(super) const LAST: Self = Self { change: None, steps: usize::MAX };
}

/// A director, and the clock that reads the times of this rank's devices for it.
pub struct TimedDirector<'s> {
    pub director: &'s mut dyn Director,
    pub clock: HostClock,
}

/// Decides in mid-run on the assignment of the steps that follow.
///
/// Every rank has one. That of the head rank decides, and its decision is shared: unlike processors may differ in the
/// last digit of a logarithm, so that ranks could not decide alike by themselves.
pub trait Director {
    /// Returns the number of steps before the first decision, at least 1.
    fn count_first_steps(&mut self) -> usize;

    /// Decides, while the devices compute.
    ///
    /// # Errors
    /// May return any error; the multiplication ends with it on all ranks.
    fn decide(&mut self, at: &StepTimes<'_>) -> Result<Directive, Error>;

    /// Takes the steps after the last decision, by rank, and the seconds of a change since then; on the head rank alone.
    fn note_last_steps(&mut self, _ranks: &[Vec<SeenStep>], _changing_s: f64) {}

    /// Checks that this rank's host has room for `bytes` more before a change takes them.
    ///
    /// # Errors
    /// Fails on every rank if memory is missing on any: the change is then refused.
    ///
    /// # Collective
    /// All ranks, after a decision to change.
    fn check_memory(&mut self, comm: &dyn Comm, bytes: u64) -> Result<(), Error> {
        check_room(comm, bytes)
    }

    /// Learns, on every rank, that the last change found no memory. The old assignment stays in force.
    fn note_refusal(&mut self, _reason: &Error) {}
}
