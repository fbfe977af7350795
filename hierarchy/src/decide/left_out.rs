//! The nodes that help less than they cost, as [`choose_nodes()`] predicts them.

use super::{LeftOut, Planner};
use crate::layout::LayoutError;
use crate::network::Network;
use crate::predict::{NodeRate, choose_nodes};

/// Share of the predicted time below which nodes are left out. Speeds and links have measurement errors,
/// and another balancing costs time. Holder: `no_node_is_left_out_for_links_that_were_disturbed_once`.
const CLEARLY_FASTER: f64 = 0.95;

impl Planner {
    /// Finds the nodes without which the multiplication is predicted to be faster; `None` if every node
    /// helps.
    ///
    /// # Errors
    /// Returns [`LayoutError`] if C has more blocks than can be counted.
    ///
    /// # Panics
    /// If no node has a speed.
    pub(super) fn find_left_out(
        &self,
        rates: &[NodeRate],
        network: &Network,
    ) -> Result<Option<LeftOut>, LayoutError> {
        let found = choose_nodes(&self.problem, self.cluster, network, rates)?;
        if found.wall_s >= CLEARLY_FASTER * found.all_s {
            return Ok(None);
        }
        let ranks = (0..rates.len()).filter(|rank| found.nodes.binary_search(rank).is_err());
        Ok(Some(LeftOut { ranks: ranks.collect(), with_s: found.all_s, without_s: found.wall_s }))
    }
}
