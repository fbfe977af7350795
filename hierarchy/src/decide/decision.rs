//! The decision before a multiplication, with the measurements and predictions behind it.

use serde::{Deserialize, Serialize};

use super::Division;
use crate::balance::{BalanceConfig, BalanceOutcome, Strategy};
use crate::predict::Candidate;

/// A division of a multiplication among nodes, with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Decision {
    /// The part of each node.
    pub division: Division,
    /// The nodes' times in this division; `None` for a layout of the caller's own.
    pub balance: Option<BalanceOutcome>,
    /// The ways that were compared, fastest first, with the one used.
    ///
    /// Slices are compared if the caller chose no layout, and shares of k if they would make much less
    /// travel. Empty if the caller chose the way, if nothing was measured, or if there was only one way.
    pub candidates: Vec<Candidate>,
    /// Nodes without work because the product is faster without them; `None` if all nodes help.
    pub left_out: Option<LeftOut>,
    /// The settings that led to it, as the caller gave them.
    pub config: BalanceConfig,
    /// Inner dimension of the updates that were measured.
    pub kernel_width: usize,
}

impl Decision {
    /// Makes the decision of a caller who divides without measuring.
    pub fn of_caller(division: Division) -> Self {
        Self {
            division,
            balance: None,
            candidates: Vec::new(),
            left_out: None,
            config: BalanceConfig { strategy: Strategy::Homogeneous, ..BalanceConfig::default() },
            kernel_width: 1,
        }
    }

    /// Returns the slowest node's seconds of an update; `None` if nothing was measured.
    pub fn slowest_s(&self) -> Option<f64> {
        Some(self.balance.as_ref()?.times_s.iter().copied().fold(0.0, f64::max))
            .filter(|&slowest| slowest > 0.0)
    }
}

/// Nodes that help less than they cost, with the predictions that say so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Ranks without work.
    pub ranks: Vec<usize>,
    /// Predicted seconds with all nodes.
    pub with_s: f64,
    /// Predicted seconds without these ranks.
    pub without_s: f64,
}
