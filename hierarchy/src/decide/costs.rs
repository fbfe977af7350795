//! Speeds and costs of the nodes, from their times of the update that is measured.

use super::{Division, Planner, hold_evenly};
use crate::balance::{Extent, NodeBalance};
use crate::layout::{Layout, LayoutError, Way};
use crate::partition::apportion;
use crate::predict::{Candidate, NodeRate, messages_s};

/// Factor by which shares of k must be faster than a division of C for a run that learns, between hosts.
const FIXED_SHARES: f64 = 1.1;

impl Planner {
    /// Returns a way to divide with the seconds that it is compared by. Shares of k stay as they are to the end, so a run that
    /// learns takes them only if they are much faster. On one host the least advantage is enough: the computing cores copy
    /// the panels there, and cold ones take several times as long as the messages that were measured.
    pub(super) fn weigh(&self, way: Candidate) -> Candidate {
        let is_learnt = self.config.rule().learns() && self.cluster.hidden > 0.0;
        let is_fixed = way.way == Way::K && is_learnt;
        let factor = if is_fixed { FIXED_SHARES } else { 1.0 };
        Candidate { wall_s: factor * way.wall_s, ..way }
    }

    /// Returns the rectangles of C that nodes hold while k is divided.
    pub(super) fn hold_evenly(&self) -> Result<Layout, LayoutError> {
        hold_evenly(self.problem.c_blocks(), self.cluster.nodes)
    }

    /// Divides k in shares as even as blocks allow, with C held in `held`.
    pub(super) fn divide_k_evenly(&self, held: Layout) -> Division {
        Division::K {
            shares: apportion(self.problem.k_blocks(), &vec![1.0; self.cluster.nodes]),
            held,
        }
    }

    /// Returns the seconds that the messages of a measured update take from the arithmetic of a node with such a part of
    /// C, one of `nodes` parts, if a byte takes `byte_s`.
    pub(super) fn messages_s(&self, byte_s: f64, part: Extent, nodes: usize) -> f64 {
        messages_s(&self.problem, self.kernel_width, part, nodes, byte_s)
    }

    /// Returns the number of measured updates that make up the multiplication.
    fn count_updates(&self) -> f64 {
        self.problem.k() as f64 / self.kernel_width.max(1) as f64
    }

    /// Returns the speeds of nodes from their times of an update on these areas of C, in blocks per
    /// second over all of k. A speed is 0 if the time is unknown.
    pub(super) fn node_speeds(&self, areas: &[u64], times_s: &[f64]) -> Vec<f64> {
        let updates = self.count_updates();
        areas
            .iter()
            .zip(times_s)
            .map(
                |(&area, &time_s)| {
                    if time_s > 0.0 { area as f64 / (time_s * updates) } else { 0.0 }
                },
            )
            .collect()
    }

    /// Returns the rates of nodes with these speeds, with the cost of their messages.
    pub(super) fn add_messages(&self, speeds: &[f64]) -> Vec<NodeRate> {
        speeds
            .iter()
            .zip(self.byte_s())
            .map(|(&speed, byte_s)| NodeRate {
                speed,
                fixed_s: 0.0,
                element_s: byte_s * self.problem.element().bytes() as f64,
            })
            .collect()
    }

    /// Returns the rates of nodes from their times of an update in this layout, with the cost of messages
    /// kept apart.
    ///
    /// Predicted times may contain more or less of that cost. So at most half of a time is taken for
    /// messages.
    pub(super) fn node_rates(&self, layout: &Layout, times_s: &[f64]) -> Vec<NodeRate> {
        let areas = layout.areas();
        let busy = areas.iter().filter(|&&area| area > 0).count();
        let updates_s: Vec<f64> = layout
            .rects()
            .iter()
            .zip(times_s)
            .zip(self.byte_s())
            .map(|((rect, &time_s), &byte_s)| {
                let messages_s = self.messages_s(byte_s, Extent::from(rect), busy);
                (time_s - messages_s).max(0.5 * time_s)
            })
            .collect();
        self.add_messages(&self.node_speeds(&areas, &updates_s))
    }

    /// Returns the rates of balanced nodes, as [`node_rates`](Self::node_rates), with the time that each takes however
    /// small its part kept apart too.
    pub(super) fn balance_rates(&self, balance: &NodeBalance) -> Vec<NodeRate> {
        let updates = self.count_updates();
        let mut rates = self.node_rates(&balance.layout, &balance.outcome.times_s);
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

    /// Returns the seconds of the arithmetic by nodes of these rates; 0 if no rate is known.
    pub(super) fn arithmetic_s(&self, nodes: &[NodeRate]) -> f64 {
        let (rows, cols) = self.problem.c_blocks();
        let speed: f64 = nodes.iter().map(|node| node.speed).sum();
        if speed > 0.0 { (rows * cols) as f64 / speed } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::planner::tests::small;
    use super::*;
    use crate::layout::slice_cols;

    #[test]
    fn the_cost_of_messages_is_taken_from_the_times_again() {
        let byte_s = [1e-9, 2e-9];
        let planner = small(2, 10).planner_with(&byte_s);
        let layout = slice_cols(64, &[16, 48]).unwrap();
        let times_s = [0, 1].map(|node| {
            let cols = layout.rects()[node].cols;
            1e-3 + planner.messages_s(byte_s[node], Extent { rows: 64, cols }, 2)
        });
        for (node, (cols, element_s)) in
            planner.node_rates(&layout, &times_s).iter().zip([(16.0, 8e-9), (48.0, 16e-9)])
        {
            let speed = 64.0 * cols / (1e-3 * 10.0);
            assert!((node.speed / speed - 1.0).abs() < 1e-9);
            assert_eq!(node.element_s, element_s);
        }
        // This time contains less of the cost than it should.
        let hopeful = planner.node_rates(&layout, &[1e-12, 1e-3]);
        assert!((hopeful[0].speed * 1e-12 * 10.0 / (64.0 * 16.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_part_costs_as_much_as_its_messages() {
        let (planner, quarter) = (small(4, 10).planner(), Extent { rows: 32, cols: 32 });
        assert_eq!(planner.messages_s(0.0, quarter, 4), 0.0);
        // Half of 32 rows and 32 columns comes, and as much goes.
        let bytes = (32 + 32) * 8;
        assert!((planner.messages_s(1e-9, quarter, 4) - 1e-9 * bytes as f64).abs() < 1e-15);
        assert_eq!(planner.messages_s(1e-9, Extent::default(), 4), 0.0);
    }

    #[test]
    fn slices_that_hold_c_are_as_even_as_blocks_allow() {
        let held = hold_evenly((7, 7), 3).unwrap();
        let widths: Vec<u64> = held.rects().iter().map(|rect| rect.cols).collect();
        assert_eq!(widths, [3, 2, 2]);
    }
}
