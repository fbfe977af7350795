//! Questions of a [`Planner`](super::Planner), and the answers to them.

use serde::{Deserialize, Serialize};

use super::super::Division;
use crate::balance::Extent;
use crate::network::Network;
use crate::times::Sample;

/// A question of a [`Planner`](super::Planner).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanRequest {
    /// The seconds that a byte of a message takes from the arithmetic of each node.
    MessageCosts,
    /// The network between the nodes.
    Network {
        /// Predicted seconds of the run, which decide how much measuring is worth; 0 if unknown.
        run_s: f64,
    },
    /// The time of each node for an update of such a part of C, without messages.
    Times {
        /// The parts, by node; `0 × 0` for nodes without work.
        extents: Vec<Extent>,
        /// `true` if each node would compute it over its share of k alone.
        along_k: bool,
    },
    /// A check that all nodes have the memory for this division.
    Room(Division),
}

/// The answer to a [`PlanRequest`].
#[derive(Debug, Clone, PartialEq)]
pub enum PlanAnswer {
    /// Seconds, by node.
    MessageCosts(Vec<f64>),
    /// The network.
    Network(Network),
    /// The times, by node.
    Times(Vec<Sample>),
    /// `true` if there is room.
    Room(bool),
}
