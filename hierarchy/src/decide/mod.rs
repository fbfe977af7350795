//! The decision how a multiplication is divided among nodes: which dimension, and each node's part.
//!
//! [`Planner`] is a step machine. It asks for times, links and memory, and ends in a [`Decision`]. Its end
//! is [`decide()`], a pure function: what is known of the nodes ([`Models`]), the links and the [`Work`]
//! give the [`Division`] that is predicted to be the fastest. Neither measures anything.

mod decision;
mod division;
mod left_out;
mod models;
mod planner;
mod work;

pub use decision::{Decision, LeftOut};
pub use division::{Division, SplitChoice, hold_evenly};
pub use left_out::find_left_out;
pub use models::{AllOfC, Models, decide};
pub use planner::{PlanAnswer, PlanRequest, Planner};
pub use work::Work;

use crate::balance::BalanceError;
use crate::layout::LayoutError;

/// The reason why nothing was decided.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// The nodes cannot be balanced by these times.
    #[error(transparent)]
    Balance(#[from] BalanceError),
    /// C cannot be laid out.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
