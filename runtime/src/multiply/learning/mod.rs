//! Learning in mid-run: a director that changes the parts as the times of the steps suggest.
//!
//! * `director.rs`: what is learnt and decided on the head rank;
//! * `crew.rs`: the ranks that divide the same steps, with their learner;
//! * `place.rs`: divisions laid out as parts of C and columns of devices, and the cost of a change;
//! * `learnt.rs`: what a run has learnt, for reports;
//! * `steady.rs`: the times of steps, for later runs;
//! * `record.rs`: times and decisions of a run, from which it can be repeated.

mod crew;
mod director;
mod learnt;
mod place;
mod record;
mod steady;

pub use director::{LearningDirector, LearningSettings, RunConditions};
pub use learnt::{Learnt, LearntChange, LearntDevice, LearntDrift};
pub(crate) use place::{ChangeCosts, Placed, Places};
pub use record::{RecordedDecision, RunRecord};
pub use steady::SteadyTimes;
