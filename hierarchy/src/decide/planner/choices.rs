//! The choices of a [`Planner`]: whether k is divided, which nodes are left out, and the way to divide.

use super::super::models::{AllOfC, Models};
use super::super::{Decision, LeftOut};
use super::{PlanPause, PlanPhase, Planner};
use crate::balance::{BalanceOutcome, EndReason, NodeBalance};
use crate::layout::{LayoutError, Way, columns};
use crate::predict::{NodeRate, choose_nodes, panel_phase, reduction_phase};
use crate::problem::Split;

/// The panels must take more than this many times as long to travel as the sum of C before k is
/// considered, since nothing hides the sum. Otherwise k is no candidate: its seconds would be the only
/// ones without a measurement.
const CLEARLY_LESS: f64 = 2.0;

/// Times as much measuring of the links before nodes are left out.
const CERTAINTY: f64 = 4.0;

impl Planner {
    /// Divides k if the caller wants it or if it is predicted to be the fastest.
    ///
    /// All nodes are measured once, on all of C, which each would compute. The same speeds predict
    /// a division of C. If that, or a run on fewer nodes, is predicted to be faster, the nodes are balanced
    /// for C first, and k stays a candidate.
    pub(super) fn consider_k(&self) -> Result<(), PlanPause> {
        let split = self.problem.split();
        let keeps_c = split == Split::C || self.config.layout.grid.is_some();
        if self.cluster.nodes < 2 || self.problem.is_empty() || keeps_c {
            return Ok(());
        }
        if split == Split::Auto && !self.is_worth_a_look()? {
            return Ok(());
        }
        let whole = self.times_of_all_c()?;
        let speeds = self.speeds_on_all_of_c(whole);
        let is_known = speeds.iter().any(|&speed| speed > 0.0);
        if split == Split::K || !is_known {
            return Err(PlanPause::end(self.decide_along_k(whole, Vec::new())));
        }
        // Unlike nodes have unlike shares, and the largest has to fit too.
        if !self.has_room(self.divide_k(whole))? {
            return Ok(());
        }
        self.divide_k_if_fastest(whole, &speeds)
    }

    /// Divides k if that is predicted to be the fastest by the nodes' speeds on all of C.
    fn divide_k_if_fastest(&self, whole: &AllOfC, speeds: &[f64]) -> Result<(), PlanPause> {
        let rates = self.add_messages(speeds);
        let models = self.predict_in_rectangles(speeds, rates.clone(), whole)?;
        let candidates = self.compare_ways(&models)?.candidates;
        let network = self.network(self.arithmetic_s(&rates))?;
        let some_nodes = choose_nodes(&self.problem, self.cluster, network, &rates)?;
        // The least advantage decides, since all ways were predicted from one measurement. Fewer nodes,
        // which balancing may find, could do without messages.
        let best = candidates
            .iter()
            .map(|&way| self.weigh(way))
            .min_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
        if best.is_some_and(|best| best.way == Way::K && best.wall_s <= some_nodes.wall_s) {
            Err(PlanPause::end(self.decide_along_k(whole, candidates)))
        } else {
            Ok(())
        }
    }

    /// Returns `true` if dividing k is worth measuring, since clearly less travels, and its memory is
    /// there.
    fn is_worth_a_look(&self) -> Result<bool, PlanPause> {
        let (problem, nodes) = (&self.problem, self.cluster.nodes);
        let held = self.hold_evenly()?;
        let (rows, cols) = problem.c_blocks();
        let layout = columns::br(&vec![1.0; nodes], rows, cols)?;
        let panel = problem.panel(nodes);
        let network = self.network(0.0)?;
        let divided = panel_phase(network, &layout, problem.block(), problem.k(), panel);
        let summed = reduction_phase(network, &held, problem.block(), &vec![true; nodes]);
        let [sum_s, panels_s] =
            [&summed, &divided].map(|phase| network.phase_s(phase, problem.element().bytes()));
        Ok(CLEARLY_LESS * sum_s < panels_s && self.has_room(self.divide_k_evenly(held))?)
    }

    /// Predicts the nodes' times in rectangles of C by their speeds on all of C.
    fn predict_in_rectangles(
        &self,
        speeds: &[f64],
        rates: Vec<NodeRate>,
        whole: &AllOfC,
    ) -> Result<Models, LayoutError> {
        let (rows, cols) = self.problem.c_blocks();
        let layout = self.config.layout.arrange(speeds, rows, cols)?;
        let balance = NodeBalance {
            fixed_s: vec![0.0; speeds.len()],
            outcome: BalanceOutcome {
                times_s: vec![0.0; speeds.len()],
                imbalance: 0.0,
                iterations: 0,
                converged: false,
                why: EndReason::Predicted,
                history: Vec::new(),
                falling: Vec::new(),
            },
            layout,
        };
        Ok(Models { balance, rates, of_all_c: Some(whole.clone()) })
    }

    /// Balances fewer nodes if that is predicted to be faster. Else the ways to divide are to be compared.
    pub(super) fn leave_nodes_out(
        &self,
        nodes: &[usize],
        balance: NodeBalance,
        left_out: Option<&LeftOut>,
    ) -> Result<PlanPhase, PlanPause> {
        let rates = self.balance_rates(&balance);
        let known = rates.iter().filter(|node| node.speed > 0.0).count();
        if left_out.is_none()
            && self.config.layout.grid.is_none()
            && known > 1
            && let Some(left_out) = self.find_surely_left_out(&rates)?
        {
            let mut rest = nodes.to_vec();
            rest.retain(|node| !left_out.ranks.contains(node));
            return Ok(self.balance(rest, Some(left_out)));
        }
        let of_all_c = match &self.known.of_all_c {
            Some(whole) if self.has_room(self.divide_k(whole))? => Some(whole.clone()),
            _ => None,
        };
        let models = Models { balance, rates, of_all_c };
        Ok(PlanPhase::Compare { models: Box::new(models), left_out: left_out.cloned() })
    }

    /// Finds the nodes that cost more than they help, by a network that is measured more precisely before any node is left
    /// out: they may have been disturbed.
    fn find_surely_left_out(&self, rates: &[NodeRate]) -> Result<Option<LeftOut>, PlanPause> {
        let mut found = None;
        for precision in [1.0, CERTAINTY] {
            let network = self.network(precision * self.arithmetic_s(rates))?;
            found = self.find_left_out(rates, network)?;
            if found.is_none() {
                break;
            }
        }
        Ok(found)
    }

    /// Decides with the memory that there is: another layout than the balanced one may need too much.
    pub(super) fn compare_ways(&self, models: &Models) -> Result<Decision, PlanPause> {
        if self.problem.split() != Split::Auto || !models.can_be_compared() {
            return Ok(self.decide(models, None, true)?);
        }
        let network = Some(self.network(self.arithmetic_s(&models.rates))?);
        let decision = self.decide(models, network, true)?;
        if decision.division.shares().is_some()
            || *decision.division.layout() == models.balance.layout
            || self.has_room(decision.division.clone())?
        {
            return Ok(decision);
        }
        Ok(self.decide(models, network, false)?)
    }
}
