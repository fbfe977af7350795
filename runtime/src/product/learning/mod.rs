//! Learning in mid-run: a director that changes the parts as the times of the steps suggest.
//!
//! * `director.rs`: what is learnt and decided on the head rank;
//! * `crew.rs`: the ranks that divide the same steps, with their learner;
//! * `learnt.rs`: what a run has learnt, for reports.

mod crew;
mod director;
mod learnt;

pub use director::LearningDirector;
pub use learnt::{Learnt, LearntChange, LearntDevice, LearntDrift};
