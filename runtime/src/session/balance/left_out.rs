//! The nodes that help less than they cost.
//!
//! After balancing, the run is predicted for the fastest node alone, the two fastest and so on. If fewer nodes are faster
//! by 5 %, these are balanced again and the others get nothing. `hierarchy/src/predict/subset.rs` describes the
//! prediction and lists the deviation from the paper.

use isochron_devices::Element;
use isochron_hierarchy::balance::NodeBalance;
use isochron_hierarchy::predict::choose_nodes;

use super::{Balancer, to_message};
use crate::error::Error;
use crate::multiply::LeftOut;

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
        let nodes = self.node_rates(&balance.layout, &balance.times_s);
        if nodes.iter().filter(|node| node.speed > 0.0).count() < 2 {
            return Ok(None);
        }
        let ranks = self.comm.size();
        let work = self.describe_work()?;
        let found = choose_nodes(&work, &nodes).map_err(to_message)?;
        tracing::debug!(?found, "the nodes that help");
        if found.wall_s >= CLEARLY_FASTER * found.all_s {
            return Ok(None);
        }
        let ranks = (0..ranks)
            .filter(|rank| !found.nodes.contains(rank))
            .collect();
        Ok(Some(LeftOut {
            ranks,
            with_s: found.all_s,
            without_s: found.wall_s,
        }))
    }
}
