//! Which way to divide, once the nodes are balanced.

use std::sync::Arc;

use isochron_devices::Element;
use isochron_hierarchy::balance::{EndReason, Extent, NodeBalance, imbalance};
use isochron_hierarchy::layout::{Layout, Method, Rect};
use isochron_hierarchy::predict::{
    Candidate, Multiplication, NodeRate, Way, along_k, choose_way, in_place,
};

use super::Balancer;
use super::split::AlongK;
use crate::error::Error;
use crate::matrix::Spread;
use crate::multiply::{Plan, SplitChoice};

/// The ways that were compared.
pub(super) struct Ways {
    /// The one to use.
    pub way: Way,
    /// All, in order of their seconds; empty where there was nothing to compare.
    pub candidates: Vec<Candidate>,
    /// How C is divided where it is.
    pub layout: Layout,
}

impl Ways {
    /// The best of these, of which the first is as measured, and k in shares where it was looked at.
    fn of(mut divided: Vec<(Candidate, Layout)>, shares: Option<Candidate>) -> Self {
        let in_place = divided.iter().map(|(way, _)| *way);
        let mut candidates: Vec<Candidate> = in_place.chain(shares).collect();
        let chosen = choose_way(&candidates);
        let way = candidates[chosen].way;
        let layout = match chosen < divided.len() {
            true => divided.swap_remove(chosen).1,
            false => divided.swap_remove(0).1,
        };
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
    /// The ways to divide the multiplication among these nodes: C in this layout, in slices where the layout is
    /// ours to choose, and k where it was looked at.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn ways(
        &mut self,
        layout: &Layout,
        nodes: &[NodeRate],
        whole: Option<&AlongK>,
    ) -> Result<Ways, Error> {
        let work = self.work()?;
        let message = |error: &dyn std::fmt::Display| Error::Message(error.to_string());
        let mut divided = in_place(&work, layout, nodes).map_err(|error| message(&error))?;
        if self.problem.split() != SplitChoice::Auto || self.config.layout != Method::default() {
            divided.truncate(1);
        }
        let shares = whole.map(|whole| {
            let speeds = self.speeds_of_all_c(whole);
            along_k(&work, &whole.held, &speeds)
        });
        let mut ways = Ways::of(divided.clone(), shares);
        if ways.layout != *layout && !self.has_room(&ways.layout)? {
            divided.truncate(1);
            ways = Ways::of(divided, shares);
        }
        tracing::info!(candidates = ?ways.candidates, "predicted");
        Ok(ways)
    }

    /// Whether every rank has the memory for this layout.
    ///
    /// # Collective
    /// All ranks.
    fn has_room(&mut self, layout: &Layout) -> Result<bool, Error> {
        let (problem, rank) = (&self.problem, self.comm.rank());
        let spread = Arc::new(layout.clone());
        let spread = Spread::on_layout(problem.m(), problem.n(), problem.block(), spread);
        let slices = vec![spread.part(rank).cols];
        let plan = Plan::with_layout(*problem, layout.clone(), slices, rank)?;
        self.has_room_for(plan)
    }

    /// The best way for nodes that are balanced; `None` where nothing is known of them, or one has everything.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn best_way(
        &mut self,
        balance: &NodeBalance,
        whole: Option<&AlongK>,
    ) -> Result<Option<Ways>, Error> {
        let layout = &balance.layout;
        let nodes = self.nodes(layout, &balance.times_s);
        let unknown = |(&area, node): (&u64, &NodeRate)| area > 0 && node.speed <= 0.0;
        let busy = nodes.iter().filter(|node| node.speed > 0.0).count();
        if busy < 2 || layout.areas().iter().zip(&nodes).any(unknown) {
            return Ok(None);
        }
        self.ways(layout, &nodes, whole).map(Some)
    }

    /// The nodes whose update takes so long in this layout, with what messages cost them. Times that were predicted may have
    /// more or less of these in them: no node is taken to be much faster than it was found.
    pub(super) fn nodes(&self, layout: &Layout, times_s: &[f64]) -> Vec<NodeRate> {
        let areas = layout.areas();
        let busy = areas.iter().filter(|&&area| area > 0).count();
        let update_s = |(rank, &time_s): (usize, &f64)| {
            let Rect { rows, cols, .. } = layout.rects()[rank];
            let messages_s = self.messages_s(rank, Extent { rows, cols }, busy);
            (time_s - messages_s).max(0.5 * time_s)
        };
        let updates_s: Vec<f64> = times_s.iter().enumerate().map(update_s).collect();
        self.with_messages(&self.speeds(&areas, &updates_s))
    }

    /// The nodes of these speeds, with what messages cost them.
    pub(super) fn with_messages(&self, speeds: &[f64]) -> Vec<NodeRate> {
        let node = |(rank, &speed): (usize, &f64)| NodeRate {
            speed,
            element_s: self.byte_s(rank) * size_of::<T>() as f64,
        };
        speeds.iter().enumerate().map(node).collect()
    }

    /// The speeds of nodes that take so long for an update of so many blocks of C, in blocks per second over all of k; 0
    /// where nothing is known.
    pub(super) fn speeds(&self, areas: &[u64], times_s: &[f64]) -> Vec<f64> {
        let updates = self.problem.k() as f64 / self.kernel_width.max(1) as f64;
        let speed = |(&area, &time_s): (&u64, &f64)| match time_s > 0.0 {
            true => area as f64 / (time_s * updates),
            false => 0.0,
        };
        areas.iter().zip(times_s).map(speed).collect()
    }

    /// The multiplication, as predictions take it.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn work(&mut self) -> Result<Multiplication, Error> {
        Ok(Multiplication {
            blocks: self.problem.c_blocks(),
            block: self.problem.block(),
            k: self.problem.k(),
            panel: self.problem.panel(self.comm.size()),
            element_bytes: self.problem.element().bytes(),
            links: self.links(),
            hidden: self.hidden()?,
        })
    }
}

/// The balance of nodes that are given this layout in place of the one that was balanced: their times go as their areas.
pub(super) fn moved_to(balance: NodeBalance, layout: &Layout) -> NodeBalance {
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
        let candidate = |(wall_s, layout): (f64, Layout)| {
            let way = Way::of(&layout);
            (Candidate { way, wall_s }, layout)
        };
        seconds.into_iter().zip(layouts).map(candidate).collect()
    }

    fn order(ways: &Ways) -> Vec<Way> {
        ways.candidates.iter().map(|way| way.way).collect()
    }

    #[test]
    fn the_balanced_layout_stays_unless_another_is_clearly_faster() {
        let ways = Ways::of(divided([1.0, 0.98, 1.2]), None);
        assert_eq!((ways.way, Way::of(&ways.layout)), (Way::C, Way::C));
        assert_eq!(order(&ways), [Way::M, Way::C, Way::N]);
        let ways = Ways::of(divided([1.0, 1.1, 0.9]), None);
        assert_eq!((ways.way, Way::of(&ways.layout)), (Way::N, Way::N));
    }

    #[test]
    fn shares_of_k_leave_the_layout_as_it_is() {
        let shares = |wall_s| {
            let way = Way::K;
            Some(Candidate { way, wall_s })
        };
        let ways = Ways::of(divided([1.0, 0.9, 1.2]), shares(0.5));
        assert_eq!((ways.way, Way::of(&ways.layout)), (Way::K, Way::C));
        assert_eq!(order(&ways), [Way::K, Way::M, Way::C, Way::N]);
        let ways = Ways::of(divided([1.0, 0.9, 1.2]), shares(0.95));
        assert_eq!(ways.way, Way::M);
    }

    #[test]
    fn one_way_is_compared_with_nothing() {
        let mut only = divided([1.0, 1.1, 1.2]);
        only.truncate(1);
        let ways = Ways::of(only, None);
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
        };
        let same = balanced.layout.clone();
        assert_eq!(moved_to(balanced.clone(), &same), balanced);
        let moved = moved_to(balanced, &slice_rows(8, &[4, 4]).unwrap());
        // From 16 and 48 blocks to 32 and 32.
        assert_eq!(moved.times_s, [2.0, 2.0 / 3.0]);
        assert_eq!((moved.converged, moved.why), (false, EndReason::Predicted));
        assert!((moved.imbalance - 2.0).abs() < 1e-12);
        assert_eq!(moved.layout.areas(), [32, 32]);
    }
}
