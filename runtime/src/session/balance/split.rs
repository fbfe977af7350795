//! The choice between dividing C and k, and the division of k, as `hierarchy/src/predict/ways.rs` predicts them.
//!
//! If k is long against m and n, the panels of A and B that travel for a division of C outweigh C itself.

use isochron_devices::{Element, memory_bounds};
use isochron_hierarchy::balance::{
    EndReason, Extent, Observation, Strategy, imbalance, shrink_alike,
};
use isochron_hierarchy::decide::{BalanceOutcome, Decision, Division, SplitChoice};
use isochron_hierarchy::layout::{Layout, arrange, columns};
use isochron_hierarchy::partition::apportion;
use isochron_hierarchy::predict::{self, Candidate, Way};

use super::{Balancer, Decided, NodeMemory};
use crate::error::Error;
use crate::multiply::{Plan, even_slices};
use crate::session::memory::{self, MemoryNeed};

/// The panels must take more than this many times as long to travel as the sum of C before k is considered, since nothing
/// hides the sum. Otherwise k is no candidate: its seconds would be the only ones without a measurement.
const CLEARLY_LESS: f64 = 2.0;

/// The division of k, for which every node was measured on all of C.
#[derive(Clone)]
pub(super) struct AlongK {
    /// The rectangles of C that the nodes hold.
    pub held: Layout,
    /// Time of every node for an update of all of C, by rank.
    times: Vec<Observation>,
    found: NodeMemory,
    /// `true` if k is to be divided.
    pub chosen: bool,
    /// The ways that were compared, including this one.
    pub candidates: Vec<Candidate>,
}

impl<T: Element> Balancer<'_, T> {
    /// Considers the division of k, if it is asked for or could be faster than dividing C.
    ///
    /// All nodes are measured once, on all of C, which each would compute. The same speeds predict a division of C. If
    /// that, or a run on fewer nodes, is predicted to be faster, the nodes are balanced for C first: k is not chosen yet,
    /// and stays a candidate.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn consider_k(&mut self) -> Result<Option<AlongK>, Error> {
        let problem = &self.problem;
        let ranks = self.comm.size();
        let asked = problem.split();
        let possible = ranks > 1 && problem.flop() > 0.0;
        if !possible || asked == SplitChoice::C {
            return Ok(None);
        }
        let held = even_slices(problem, ranks)?;
        if asked == SplitChoice::Auto && !self.is_worth_a_look(&held)? {
            return Ok(None);
        }
        let (times, found) = self.measure_all_c()?;
        let whole = AlongK {
            held,
            times,
            found,
            chosen: true,
            candidates: Vec::new(),
        };
        let speeds = self.speeds_of_all_c(&whole);
        let known = speeds.iter().any(|&speed| speed > 0.0);
        if asked == SplitChoice::K || !known {
            return Ok(Some(whole));
        }
        // Unlike nodes have unlike shares, and the largest has to fit too.
        if !self.has_room_for(self.division_of_k(&whole))? {
            return Ok(None);
        }
        let (rows, cols) = self.problem.c_blocks();
        let layout = arrange(self.config.layout, &speeds, rows, cols)?;
        let nodes = self.with_messages(&speeds);
        let candidates = self.compare_ways(&layout, &nodes, Some(&whole))?.candidates;
        let work = self.describe_work(&nodes)?;
        let some_nodes = predict::choose_nodes(&work, &nodes)?;
        // The least advantage decides, since all ways were predicted from one measurement. Fewer nodes, which balancing
        // may find, could do without messages.
        let best = candidates.first();
        let chosen =
            best.is_some_and(|best| best.way == Way::K && best.wall_s <= some_nodes.wall_s);
        Ok(Some(AlongK {
            chosen,
            candidates,
            ..whole
        }))
    }

    /// Returns `true` if dividing k is worth measuring, since clearly less travels, and its memory is there.
    ///
    /// # Collective
    /// All ranks.
    fn is_worth_a_look(&mut self, held: &Layout) -> Result<bool, Error> {
        let (ranks, block, k) = (self.comm.size(), self.problem.block(), self.problem.k());
        let (rows, cols) = self.problem.c_blocks();
        let even = columns::br(&vec![1.0; ranks], rows, cols)?;
        let divided = predict::panel_traffic(&even, block, k, self.problem.panel(ranks));
        let summed = predict::reduction_traffic(held, block, &vec![true; ranks]);
        let (links, bytes) = (self.measured_links(0.0), self.problem.element().bytes());
        let [sum, panels] = [&summed, &divided].map(|nodes| links.longest_s(nodes, bytes));
        Ok(CLEARLY_LESS * sum < panels && self.has_room_for(self.even_division(held))?)
    }

    /// Returns the nodes' speeds on all of C, as [`node_speeds`](Self::node_speeds).
    pub(super) fn speeds_of_all_c(&self, whole: &AlongK) -> Vec<f64> {
        let (rows, cols) = self.problem.c_blocks();
        let times_s: Vec<f64> = whole.times.iter().map(|time| time.t_s).collect();
        self.node_speeds(&vec![rows * cols; times_s.len()], &times_s)
    }

    /// Returns `true` if every rank has the memory for a plan of this division, or for a [leaner](Plan::make_leaner) one. The
    /// memory of measuring is freed first.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn has_room_for(&mut self, division: Division) -> Result<bool, Error> {
        drop(std::mem::take(&mut self.operands));
        let mut next = Some(Plan::of_division(self.problem, division, &[]));
        while let Some(plan) = next {
            let need = MemoryNeed {
                bytes: plan.memory_bytes(self.comm.rank()),
                ..MemoryNeed::default()
            };
            match memory::share_memory(self.comm, need, &memory_bounds()) {
                Err(Error::Memory { .. }) => next = plan.make_leaner(),
                shared => return shared.map(|_| true),
            }
        }
        Ok(false)
    }

    /// Divides k evenly.
    fn even_division(&self, held: &Layout) -> Division {
        Division::K {
            shares: apportion(self.problem.k_blocks(), &vec![1.0; self.comm.size()]),
            held: held.clone(),
        }
    }

    /// Measures every node's time for an update of all of C, by rank.
    fn measure_all_c(&mut self) -> Result<(Vec<Observation>, NodeMemory), Error> {
        let (rows, cols) = self.problem.c_blocks();
        let mut found = NodeMemory::default();
        self.k_total = self.problem.k() / self.comm.size();
        let mine = self.node_time(Extent { rows, cols }, &mut found);
        self.k_total = self.problem.k();
        Ok((shrink_alike(&self.comm.gather(&mine?)?), found))
    }

    /// Divides k by the nodes' times.
    fn division_of_k(&self, whole: &AlongK) -> Division {
        Division::K {
            shares: self.apportion_k(whole),
            held: whole.held.clone(),
        }
    }

    /// Divides the blocks of k in proportion to the nodes' speeds.
    fn apportion_k(&self, whole: &AlongK) -> Vec<u64> {
        let is_even = self.config.strategy == Strategy::Homogeneous;
        let speeds = whole.times.iter().map(|time| match time.t_s {
            _ if is_even => 1.0,
            t_s if t_s > 0.0 => 1.0 / t_s,
            _ => 0.0,
        });
        let speeds: Vec<f64> = speeds.collect();
        apportion(self.problem.k_blocks(), &speeds)
    }

    /// Makes the decision that divides k by the nodes' times.
    pub(super) fn divide_k(self, whole: AlongK) -> Decided {
        let shares = self.apportion_k(&whole);
        let blocks = self.problem.k_blocks().max(1) as f64;
        let per_update = shares.iter().zip(&whole.times);
        let times_s: Vec<f64> = per_update
            .map(|(&share, time)| time.t_s * share as f64 / blocks)
            .collect();
        let busy: Vec<f64> = times_s.iter().copied().filter(|&time| time > 0.0).collect();
        let (iterations, why) = match busy.is_empty() {
            true => (0, EndReason::NotMeasured),
            false => (1, EndReason::Predicted),
        };
        let columns = match shares[self.comm.rank()] {
            0 => 0,
            _ => self.problem.n(),
        };
        let area = (self.problem.m(), columns);
        let slices = whole
            .found
            .slice_columns(area, self.config, self.team.len());
        let balance = BalanceOutcome {
            imbalance: imbalance(&busy),
            times_s,
            iterations,
            converged: false,
            why,
            history: Vec::new(),
        };
        let decision = Decision {
            candidates: whole.candidates,
            ..self.decision(
                Division::K {
                    shares,
                    held: whole.held,
                },
                balance,
            )
        };
        self.end(decision, slices)
    }
}
