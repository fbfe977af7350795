//! The nodes that help less than they cost, as `hierarchy/src/predict/subset.rs` predicts them.

use isochron_devices::Element;
use isochron_hierarchy::balance::NodeBalance;
use isochron_hierarchy::decide::LeftOut;
use isochron_hierarchy::predict::choose_nodes;

use super::Balancer;
use crate::error::Error;

/// Share of the predicted time below which nodes are left out. Speeds and links have measurement errors, and another
/// balancing costs time.
const CLEARLY_FASTER: f64 = 0.95;

impl<T: Element> Balancer<'_, T> {
    /// Finds the nodes without which the multiplication is predicted to be faster; `None` if every node helps.
    ///
    /// # Collective
    /// All ranks, with the balance of all of them.
    pub(super) fn find_left_out(
        &mut self,
        balance: &NodeBalance,
    ) -> Result<Option<LeftOut>, Error> {
        let nodes = self.rates_of_balance(balance);
        if nodes.iter().filter(|node| node.speed > 0.0).count() < 2 {
            return Ok(None);
        }
        let work = self.describe_work(&nodes)?;
        let found = choose_nodes(&work, &nodes)?;
        tracing::debug!(?found, "the nodes that help");
        if found.wall_s >= CLEARLY_FASTER * found.all_s {
            return Ok(None);
        }
        let ranks = (0..self.comm.size()).filter(|rank| !found.nodes.contains(rank));
        Ok(Some(LeftOut {
            ranks: ranks.collect(),
            with_s: found.all_s,
            without_s: found.wall_s,
        }))
    }
}
