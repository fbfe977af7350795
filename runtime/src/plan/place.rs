//! Divisions as parts of C and columns of devices, and the cost of changing to them.

use std::ops::Range;
use std::sync::Arc;

use isochron_hierarchy::layout::Layout;
use isochron_hierarchy::learn::{Adaptive, AdaptiveError, LaidOut, Request};
use isochron_hierarchy::network::{Network, PhaseTraffic, Traffic};
use isochron_hierarchy::partition::apportion;

use super::{Assignment, Plan};
use crate::matrix::{Region, Spread, intersect};

/// Conditions of a run that decide, besides the plan, on the cost of a change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunConditions {
    /// For each rank, the devices that keep their columns of C in their own memory: changing these costs transfers.
    /// Empty if there are none.
    pub keeps_c: Vec<Vec<bool>>,
    /// `true` if C may stay where the last step was computed.
    pub leaves_c: bool,
    /// For each rank, the share of its time that a thread can run; 1 if it is not known.
    pub core_shares: Vec<f64>,
}

/// Bytes a second with which a rank packs what it gives away of C, and writes what it gets to new memory, until a
/// change was timed.
const COPIED_PER_S: f64 = 7e8;

/// Bytes a second between ranks whose links were not measured, until a change was timed.
const SENT_PER_S: f64 = 1e9;

/// Bytes a second between a GPU and its host, until a change was timed.
const TRANSFERRED_PER_S: f64 = 5e9;

/// The places of the ranks that divide the same steps: what they compute now, and what changing it costs.
pub(crate) struct Places<'a> {
    pub plan: &'a Plan,
    pub now: &'a Assignment,
    pub ranks: Range<usize>,
    pub conditions: &'a RunConditions,
    /// Parts of C may move between ranks.
    pub may_move: bool,
    pub costs: ChangeCosts,
}

/// Costs of the changes so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeCosts {
    /// Real cost of moving C over the expected one.
    pub move_factor: f64,
    /// Seconds of a change of columns alone.
    pub columns_s: f64,
}

impl Default for ChangeCosts {
    /// Expects more than is likely, until a change was timed.
    fn default() -> Self {
        Self { move_factor: 1.5, columns_s: 2e-3 }
    }
}

impl ChangeCosts {
    /// Learns from a change that took `seconds` in place of those expected.
    pub fn learn(&mut self, moves_c: bool, expected_s: f64, seconds: f64) {
        if !moves_c {
            self.columns_s = seconds;
        } else if expected_s > 0.0 {
            let [least, most] = MOVE_FACTORS;
            let ratio = (seconds + STALL_S) / (expected_s + STALL_S);
            self.move_factor = (self.move_factor * ratio).clamp(least, most);
        }
    }
}

/// Range of the real cost of moving C over the expected one that is believed.
const MOVE_FACTORS: [f64; 2] = [0.1, 20.0];

/// Seconds for which a host with a quota may stall. The time of a small change says little about large ones.
const STALL_S: f64 = 0.05;

/// A division as it can be laid out.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub assignment: Assignment,
    pub laid_out: LaidOut,
}

impl Places<'_> {
    /// Lets the learner decide. Returns its request, and the division that it has just changed to, if any.
    pub fn ask(&self, learner: &mut Adaptive) -> Result<(Request, Option<Placed>), AdaptiveError> {
        let mut all: Vec<Placed> = Vec::new();
        let request = learner.request_next(|asked| {
            let placed = self.place(asked);
            all.push(placed.clone());
            placed.laid_out
        })?;
        let change = learner.changes().last().filter(|_| learner.is_changed());
        let placed = change.and_then(|change| {
            all.into_iter().find(|placed| placed.laid_out.units == change.units)
        });
        Ok((request, placed))
    }

    /// Lays out elements of C for each device of these ranks.
    pub fn place(&self, asked: &[u64]) -> Placed {
        let mut asked_of = Vec::new();
        let mut rest = asked;
        for rank in self.ranks.clone() {
            let (mine, others) = rest.split_at(self.now.slices[rank].len());
            asked_of.push(mine);
            rest = others;
        }
        let mut assignment = self.now.clone();
        if self.plan.division().shares().is_none() {
            assignment.layout = self.lay_ranks_out(&asked_of);
        }
        for (rank, asked) in self.ranks.clone().zip(asked_of) {
            let cols = self.find_part(&assignment, rank).cols;
            assignment.slices[rank] = share_columns(cols, asked);
        }
        let laid_out = LaidOut {
            units: self.count_elements(&assignment),
            cost_s: self.expect_cost(&assignment),
        };
        Placed { assignment, laid_out }
    }

    /// Counts the elements of C of each device of these ranks.
    pub fn count_elements(&self, assignment: &Assignment) -> Vec<u64> {
        let mut elements = Vec::new();
        for rank in self.ranks.clone() {
            let rows = self.find_part(assignment, rank).rows;
            let slices = assignment.slices[rank].iter();
            elements.extend(slices.map(|&cols| (rows * cols) as u64));
        }
        elements
    }

    fn lay_ranks_out(&self, asked_of: &[&[u64]]) -> Layout {
        let layout = &self.now.layout;
        let asked: Vec<u64> = asked_of.iter().map(|asked| asked.iter().sum()).collect();
        let parts = self.ranks.clone().map(|rank| self.find_part(self.now, rank).len() as u64);
        if !self.may_move || parts.eq(asked.iter().copied()) {
            return layout.clone();
        }
        let areas: Vec<f64> = asked.iter().map(|&units| units as f64).collect();
        let arrangement = self.plan.decision().config.layout;
        let groups = self.plan.network().map(|network| network.list_groups()).unwrap_or_default();
        arrangement.rearrange(layout, &groups, &areas).unwrap_or_else(|error| {
            tracing::warn!(%error, "a division has no layout");
            layout.clone()
        })
    }

    fn find_part(&self, assignment: &Assignment, rank: usize) -> Region {
        match self.plan.division().shares() {
            None => self.spread(&assignment.layout).part(rank),
            Some(_) => self.plan.computed(rank),
        }
    }

    fn spread(&self, layout: &Layout) -> Spread {
        let problem = self.plan.problem();
        Spread::on_layout(problem.m(), problem.n(), problem.block(), layout)
    }

    /// Returns the seconds of a change, with those by which the return of C to the plan's layout takes longer.
    fn expect_cost(&self, next: &Assignment) -> f64 {
        if next == self.now {
            return 0.0;
        }
        let [planned, now, then] =
            [self.plan.layout(), &self.now.layout, &next.layout].map(|layout| self.spread(layout));
        let there_s = self.expect_move(&now, &then);
        let back_s = if self.conditions.leaves_c {
            0.0
        } else {
            self.expect_move(&then, &planned) - self.expect_move(&now, &planned)
        };
        let move_s = self.costs.move_factor * (there_s + back_s).max(0.0);
        move_s + self.costs.columns_s + self.expect_transfer(next)
    }

    /// Returns the seconds of the rank that takes longest to move its part of C, or of the uplink that carries most.
    fn expect_move(&self, from: &Spread, to: &Spread) -> f64 {
        let unmeasured = Network::flat(0.0, SENT_PER_S);
        let network = self.plan.network().map_or(&unmeasured, Arc::as_ref);
        let element_bytes = self.plan.problem().element().bytes();
        let moves = self.ranks.clone().map(|rank| {
            let (from, to) = (from.part(rank), to.part(rank));
            let kept = from.intersection(&to).len();
            let [given, taken] = [&from, &to].map(|part| part.len() - kept);
            // New rows need new memory, to which all is copied.
            let stays = intersect(&from.row_range(), &to.row_range()) == to.row_range();
            let copied = given + taken + if stays { 0 } else { 2 * kept };
            (given.max(taken) as f64, copied as f64)
        });
        let moves: Vec<(f64, f64)> = moves.collect();
        let first = self.ranks.start;
        let phase = if network.uplinks().is_empty() {
            let sent = |elements| Traffic { elements, messages: f64::from(elements > 0.0) };
            let before = vec![Traffic::default(); first];
            PhaseTraffic::of(before.into_iter().chain(moves.iter().map(|(most, _)| sent(*most))))
        } else {
            PhaseTraffic::of_moves(network, self.plan.n_ranks(), self.list_moves(from, to))
        };
        let mut seconds: Vec<f64> = network.list_phase_s(&phase, element_bytes).collect();
        for (rank, (_, copied)) in self.ranks.clone().zip(moves) {
            let share = self.conditions.core_shares.get(rank).copied().unwrap_or(1.0);
            seconds[rank] += element_bytes as f64 * copied / (share * COPIED_PER_S);
        }
        seconds.into_iter().fold(0.0, f64::max)
    }

    /// Lists what each rank gives to another one.
    fn list_moves(&self, from: &Spread, to: &Spread) -> Vec<(usize, usize, f64)> {
        let ranks = || self.ranks.clone();
        let parts: Vec<Region> = ranks().map(|rank| to.part(rank)).collect();
        let pieces = ranks().flat_map(|sender| {
            let has = from.part(sender);
            let others = ranks().zip(&parts).filter(move |(receiver, _)| *receiver != sender);
            others.map(move |(receiver, part)| {
                (sender, receiver, has.intersection(part).len() as f64)
            })
        });
        pieces.filter(|(_, _, elements)| *elements > 0.0).collect()
    }

    /// Returns the seconds in which GPUs that keep their columns of C exchange them for others.
    fn expect_transfer(&self, next: &Assignment) -> f64 {
        let bytes = self.plan.problem().element().bytes() as f64;
        let mut longest_s = 0.0f64;
        for rank in self.ranks.clone() {
            let [now, then] = [self.now, next]
                .map(|assignment| (self.find_part(assignment, rank), &assignment.slices[rank]));
            for (device, _) in self
                .conditions
                .keeps_c
                .get(rank)
                .into_iter()
                .flatten()
                .enumerate()
                .filter(|(_, keeps_c)| **keeps_c)
            {
                let [old, new] =
                    [&now, &then].map(|(part, slices)| place_columns(part, slices, device));
                // A part that moves does so in the memory of the host.
                if old != new || now.0 != then.0 {
                    let moved = bytes * (old.len() + new.len()) as f64;
                    longest_s = longest_s.max(moved / TRANSFERRED_PER_S);
                }
            }
        }
        longest_s
    }
}

/// Returns the region of C of a device of a rank with this part.
fn place_columns(part: &Region, slices: &[usize], device: usize) -> Region {
    let first = part.col + slices[..device].iter().sum::<usize>();
    Region::new(part.row_range(), first..first + slices[device])
}

/// Divides the columns of a rank in proportion to the elements asked for its devices.
fn share_columns(cols: usize, asked: &[u64]) -> Vec<usize> {
    let weights: Vec<f64> = asked.iter().map(|&units| units as f64).collect();
    apportion(cols as u64, &weights).into_iter().map(|cols| cols as usize).collect()
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::{slice_cols, slice_rows};

    use super::*;
    use crate::plan::Problem;

    /// Returns the seconds of a move of a C of 16×16 blocks.
    fn expect_between(from: &Layout, to: &Layout) -> f64 {
        let problem = Problem::new(1024, 1024, 64, 64).unwrap();
        let layout = slice_cols(16, &[8, 8]).unwrap();
        let plan = Plan::with_layout(problem, layout, &[vec![512], vec![512]]).unwrap();
        let places = Places {
            plan: &plan,
            now: &plan.assignment(),
            ranks: 0..2,
            conditions: &RunConditions::default(),
            may_move: true,
            costs: ChangeCosts::default(),
        };
        places.expect_move(&places.spread(from), &places.spread(to))
    }

    #[test]
    fn what_moves_costs_and_not_the_part() {
        let cols = [[8, 8], [9, 7], [12, 4]].map(|widths| slice_cols(16, &widths).unwrap());
        let small_s = expect_between(&cols[0], &cols[1]);
        let large_s = expect_between(&cols[0], &cols[2]);
        assert!((large_s / small_s - 4.0).abs() < 1e-9);
        assert_eq!(expect_between(&cols[0], &cols[0]), 0.0);
        // Columns that get longer are copied.
        let rows = [[8, 8], [9, 7]].map(|heights| slice_rows(16, &heights).unwrap());
        assert!(expect_between(&rows[0], &rows[1]) > 4.0 * small_s);
    }

    #[test]
    fn a_small_change_that_stalls_does_not_make_large_ones_dear() {
        for (expected_s, seconds, ratios) in
            [(0.002, 0.04, 1.0..2.0), (0.5, 1.5, 2.5..3.0), (1.5, 0.5, 0.33..0.4)]
        {
            let mut costs = ChangeCosts::default();
            costs.learn(true, expected_s, seconds);
            let ratio = costs.move_factor / ChangeCosts::default().move_factor;
            assert!(ratios.contains(&ratio), "{ratio}");
        }
    }
}
