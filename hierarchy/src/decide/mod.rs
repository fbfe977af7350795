//! The decision how a multiplication is divided among nodes: which dimension, and each node's part.
//!
//! [`Planner`] is a step machine. It asks for times, links and memory, and ends in a [`Decision`]. Its end
//! is a pure function of the nodes' speeds, the links and the [`Problem`](crate::problem::Problem): it gives the
//! [`Division`] that is predicted to be the fastest. Nothing is measured here.

mod by_points;
mod costs;
mod decision;
mod devices;
mod division;
mod left_out;
mod modelled;
mod models;
mod planner;

pub use by_points::divide_by_points;
pub use decision::{Decision, LeftOut};
pub use devices::{NodeDevices, apportion_columns};
pub use division::{Division, hold_evenly};
pub use modelled::Modelled;
pub use planner::{PlanAnswer, PlanRequest, Planner};

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
