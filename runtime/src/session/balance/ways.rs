//! The choice of the way to divide, once the nodes are balanced.

use isochron_devices::Element;
use isochron_hierarchy::balance::{EndReason, Extent, NodeBalance, imbalance};
use isochron_hierarchy::decide::{Division, SplitChoice};
use isochron_hierarchy::layout::{Layout, Method, Rect};
use isochron_hierarchy::predict::{
    Candidate, Multiplication, NodeRate, Way, along_k, choose_way, in_place,
};

use super::Balancer;
use super::split::AlongK;
use crate::error::Error;

/// The ways to divide that were compared.
pub(super) struct Ways {
    /// The way to use.
    pub way: Way,
    /// All ways, in order of their predicted seconds; empty if there was only one.
    pub candidates: Vec<Candidate>,
    /// The layout of C if C is divided.
    pub layout: Layout,
}

impl Ways {
    /// Chooses the best among ways to divide C, the first of which was measured, and k in shares if that was considered.
    fn choose(mut divided: Vec<(Candidate, Layout)>, shares: Option<Candidate>) -> Self {
        let in_place = divided.iter().map(|(way, _)| *way);
        let mut candidates: Vec<Candidate> = in_place.chain(shares).collect();
        let chosen = choose_way(&candidates);
        let way = candidates[chosen].way;
        let index = if chosen < divided.len() { chosen } else { 0 };
        let layout = divided.swap_remove(index).1;
        candidates.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
        if candidates.len() < 2 {
            candidates.clear();
        }
        Self {
            way,
            candidates,
            layout,
        }
    }
}

impl<T: Element> Balancer<'_, T> {
    /// Compares the ways to divide the multiplication among these nodes: C in this layout, in slices if the caller chose no
    /// layout, and k if that was considered.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn compare_ways(
        &mut self,
        layout: &Layout,
        nodes: &[NodeRate],
        whole: Option<&AlongK>,
    ) -> Result<Ways, Error> {
        let work = self.describe_work(nodes)?;
        let mut divided = in_place(&work, layout, nodes)?;
        if self.problem.split() != SplitChoice::Auto || self.config.layout != Method::default() {
            divided.truncate(1);
        }
        let shares = whole.map(|whole| {
            let speeds = self.speeds_of_all_c(whole);
            along_k(&work, &whole.held, &speeds)
        });
        let mut ways = Ways::choose(divided.clone(), shares);
        if ways.layout != *layout && !self.has_room_for(Division::C(ways.layout.clone()))? {
            divided.truncate(1);
            ways = Ways::choose(divided, shares);
        }
        tracing::info!(candidates = ?ways.candidates, "predicted");
        Ok(ways)
    }

    /// Finds the best way for balanced nodes; `None` if their speeds are unknown, or one node has all the work.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn best_way(
        &mut self,
        balance: &NodeBalance,
        whole: Option<&AlongK>,
    ) -> Result<Option<Ways>, Error> {
        let layout = &balance.layout;
        let nodes = self.rates_of_balance(balance);
        let busy = nodes.iter().filter(|node| node.speed > 0.0).count();
        let mut shares = layout.rects().iter().zip(&nodes);
        if busy < 2 || shares.any(|(rect, node)| !rect.is_empty() && node.speed <= 0.0) {
            return Ok(None);
        }
        self.compare_ways(layout, &nodes, whole).map(Some)
    }

    /// Returns the rates of nodes from their times of an update in this layout, with the cost of messages kept apart.
    ///
    /// Predicted times may contain more or less of that cost. So at most half of a time is taken for messages.
    pub(super) fn node_rates(&self, layout: &Layout, times_s: &[f64]) -> Vec<NodeRate> {
        let areas = layout.areas();
        let busy = areas.iter().filter(|&&area| area > 0).count();
        let mut updates_s = Vec::new();
        for (rank, &time_s) in times_s.iter().enumerate() {
            let Rect { rows, cols, .. } = layout.rects()[rank];
            let messages_s = self.messages_s(rank, Extent { rows, cols }, busy);
            updates_s.push((time_s - messages_s).max(0.5 * time_s));
        }
        self.with_messages(&self.node_speeds(&areas, &updates_s))
    }

    /// Returns the rates of balanced nodes, with what each takes however small its part kept apart.
    pub(super) fn rates_of_balance(&self, balance: &NodeBalance) -> Vec<NodeRate> {
        let updates = self.problem.k() as f64 / self.kernel_width.max(1) as f64;
        let mut rates = self.node_rates(&balance.layout, &balance.times_s);
        let areas = balance.layout.areas().into_iter().zip(&balance.fixed_s);
        for (rate, (area, &fixed_s)) in rates.iter_mut().zip(areas) {
            let work_s = area as f64 / rate.speed - fixed_s * updates;
            if rate.speed > 0.0 && fixed_s > 0.0 && work_s > 0.0 {
                rate.speed = area as f64 / work_s;
                rate.fixed_s = fixed_s * updates;
            }
        }
        rates
    }

    /// Returns the rates of nodes with these speeds: the speeds, and each node's cost of messages.
    pub(super) fn with_messages(&self, speeds: &[f64]) -> Vec<NodeRate> {
        let speeds = speeds.iter().enumerate();
        speeds
            .map(|(rank, &speed)| NodeRate {
                speed,
                fixed_s: 0.0,
                element_s: self.byte_s(rank) * size_of::<T>() as f64,
            })
            .collect()
    }

    /// Returns the speeds of nodes from their times of an update on these areas of C, in blocks per second over all of k.
    /// A speed is 0 if the time is unknown.
    pub(super) fn node_speeds(&self, areas: &[u64], times_s: &[f64]) -> Vec<f64> {
        let updates = self.problem.k() as f64 / self.kernel_width.max(1) as f64;
        let nodes = areas.iter().zip(times_s);
        nodes
            .map(|(&area, &time_s)| match time_s > 0.0 {
                true => area as f64 / (time_s * updates),
                false => 0.0,
            })
            .collect()
    }

    /// Describes the multiplication by these nodes for predictions.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn describe_work(&mut self, nodes: &[NodeRate]) -> Result<Multiplication, Error> {
        let (rows, cols) = self.problem.c_blocks();
        let speed: f64 = nodes.iter().map(|node| node.speed).sum();
        let run_s = if speed > 0.0 {
            (rows * cols) as f64 / speed
        } else {
            0.0
        };
        let hosts = self.comm.gather(&self.comm.host().to_owned())?;
        let is_one_host = hosts.iter().all(|host| *host == hosts[0]);
        Ok(Multiplication {
            blocks: self.problem.c_blocks(),
            block: self.problem.block(),
            k: self.problem.k(),
            panel: self.problem.panel(self.comm.size()),
            element_bytes: self.problem.element().bytes(),
            links: self.measured_links(run_s),
            // Between hosts the network moves messages; on one host the computing cores copy them.
            hidden: if is_one_host { 0.0 } else { 1.0 },
        })
    }
}

/// Moves a balance to another layout: the nodes' times change in proportion to their areas.
pub(super) fn move_to_layout(balance: NodeBalance, layout: &Layout) -> NodeBalance {
    if balance.layout == *layout {
        return balance;
    }
    let areas = balance.layout.areas().into_iter().zip(layout.areas());
    let times = areas.zip(&balance.times_s);
    let times_s: Vec<f64> = times
        .map(|((was, is), &time_s)| time_s * is as f64 / was.max(1) as f64)
        .collect();
    NodeBalance {
        layout: layout.clone(),
        imbalance: imbalance(&times_s),
        times_s,
        converged: false,
        why: EndReason::Predicted,
        ..balance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochron_hierarchy::layout::{br, slice_cols, slice_rows};

    fn divided(seconds: [f64; 3]) -> Vec<(Candidate, Layout)> {
        let layouts = [
            br(&[1.0; 4], 8, 8).unwrap(),
            slice_rows(8, &[2; 4]).unwrap(),
            slice_cols(8, &[2; 4]).unwrap(),
        ];
        let ways = seconds.into_iter().zip(layouts);
        ways.map(|(wall_s, layout)| {
            let way = Way::of(&layout);
            (Candidate { way, wall_s }, layout)
        })
        .collect()
    }

    fn order(ways: &Ways) -> Vec<Way> {
        ways.candidates.iter().map(|way| way.way).collect()
    }

    #[test]
    fn the_balanced_layout_stays_unless_another_is_clearly_faster() {
        let ways = Ways::choose(divided([1.0, 0.98, 1.2]), None);
        assert_eq!((ways.way, Way::of(&ways.layout)), (Way::C, Way::C));
        assert_eq!(order(&ways), [Way::M, Way::C, Way::N]);
        let ways = Ways::choose(divided([1.0, 1.1, 0.9]), None);
        assert_eq!((ways.way, Way::of(&ways.layout)), (Way::N, Way::N));
    }

    #[test]
    fn shares_of_k_leave_the_layout_as_it_is() {
        let shares = Candidate {
            way: Way::K,
            wall_s: 0.5,
        };
        let ways = Ways::choose(divided([1.0, 0.9, 1.2]), Some(shares));
        assert_eq!((ways.way, Way::of(&ways.layout)), (Way::K, Way::C));
        assert_eq!(order(&ways), [Way::K, Way::M, Way::C, Way::N]);
        let slower = Candidate {
            wall_s: 0.95,
            ..shares
        };
        let ways = Ways::choose(divided([1.0, 0.9, 1.2]), Some(slower));
        assert_eq!(ways.way, Way::M);
    }

    #[test]
    fn one_way_is_compared_with_nothing() {
        let mut only = divided([1.0, 1.1, 1.2]);
        only.truncate(1);
        let ways = Ways::choose(only, None);
        assert_eq!((ways.way, ways.candidates), (Way::C, Vec::new()));
    }

    #[test]
    fn times_go_with_the_areas_when_a_layout_is_replaced() {
        let balanced = NodeBalance {
            layout: br(&[1.0, 3.0], 8, 8).unwrap(),
            times_s: vec![1.0, 1.0],
            imbalance: 0.0,
            iterations: 2,
            converged: true,
            why: EndReason::Balanced,
            history: Vec::new(),
            fixed_s: vec![0.0; 2],
            falling: Vec::new(),
        };
        let same = balanced.layout.clone();
        assert_eq!(move_to_layout(balanced.clone(), &same), balanced);
        let moved = move_to_layout(balanced, &slice_rows(8, &[4, 4]).unwrap());
        // From 16 and 48 blocks to 32 and 32.
        assert_eq!(moved.times_s, [2.0, 2.0 / 3.0]);
        assert_eq!((moved.converged, moved.why), (false, EndReason::Predicted));
        assert!((moved.imbalance - 2.0).abs() < 1e-12);
        assert_eq!(moved.layout.areas(), [32, 32]);
    }
}
