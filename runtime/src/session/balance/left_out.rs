//! Which nodes help less than they cost.

use isochron_devices::Element;
use isochron_hierarchy::balance::NodeBalance;
use isochron_hierarchy::predict::choose_nodes;

use super::Balancer;
use crate::error::Error;
use crate::multiply::LeftOut;

/// How much less time must be predicted without some nodes before they are left out: speeds and links are measured, and
/// another balancing costs time too.
const CLEARLY_FASTER: f64 = 0.95;

impl<T: Element> Balancer<'_, T> {
    /// The nodes that the multiplication is predicted to be faster without; `None` where everybody helps.
    ///
    /// # Collective
    /// All ranks, with the balance of all of them.
    pub(super) fn left_out(&mut self, balance: &NodeBalance) -> Result<Option<LeftOut>, Error> {
        let message = |error: &dyn std::fmt::Display| Error::Message(error.to_string());
        let nodes = self.nodes(&balance.layout, &balance.times_s);
        if nodes.iter().filter(|node| node.speed > 0.0).count() < 2 {
            return Ok(None);
        }
        let ranks = self.comm.size();
        let work = self.work()?;
        let found = choose_nodes(&work, &nodes).map_err(|error| message(&error))?;
        tracing::debug!(?found, "who helps");
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
