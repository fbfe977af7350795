//! The plan of a multiplication: everything decided before it runs, as one document that is equal on all ranks.

mod ahead;
mod assignment;
mod check;
mod divided;
mod file;
pub(crate) mod host_memory;
mod hpopta;
mod made;
pub(crate) mod measuring;
mod memory;
mod node;
mod order;
mod parts;
pub(crate) mod place;
mod prediction;
pub(crate) mod reduction;
mod replay;
pub(crate) mod schedule;
mod search;
mod spread;
mod tree;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochron_devices::{Depth, DeviceKind, JobShape};
use isochron_hierarchy::decide::{Decision, Division, hold_evenly};
use isochron_hierarchy::layout::{Layout, Way};
use isochron_hierarchy::learn::FirstLook;
use isochron_hierarchy::network::Network;
use serde::{Deserialize, Serialize};

pub use ahead::{ModelledCluster, PlanAhead, WhatIf};
pub use assignment::Assignment;
pub use hpopta::{check_hpopta, refuse_hpopta};
pub use isochron_hierarchy::problem::Problem;
pub(crate) use isochron_hierarchy::problem::check_widths;
pub use made::{Making, format_utc};
pub(crate) use node::find_difference;
pub use node::{PlannedDevice, PlannedNode};
pub use parts::PartOfK;
pub use prediction::{PredictedDevice, PredictedNode, Prediction};
pub use search::{
    HostRanks, PlanCandidate, PlanSearch, PlannedRanks, SearchConfig, SearchedPlan, list_problems,
};

pub use crate::store::KnownFrom;
pub(crate) use schedule::{A, B};

use crate::error::Error;
use crate::matrix::redistribute::Moved;
use crate::matrix::{Region, SpreadError, cut_rect};
use host_memory::AvailableMemory;
use schedule::StepSchedule;

/// The fewest steps ahead whose panels are here or under way while one is computed. Devices can copy the panels of the
/// next step if they are here, while those of the step after it travel.
const LEAST_LOOKAHEAD: usize = 2;
/// The most steps ahead: each holds memory on every rank.
const MAX_LOOKAHEAD: usize = 8;

/// Checks a tolerance.
pub(crate) fn check_epsilon(epsilon: f64) -> Result<(), Error> {
    if epsilon.is_finite() && epsilon > 0.0 {
        return Ok(());
    }
    let reason = "use a positive number, such as 0.05";
    Err(Error::parameter("epsilon", epsilon, reason))
}

/// Version of the document.
pub(crate) const SCHEMA: u32 = 4;

/// The parts of all ranks and their devices, and the decisions that led to them: one document, equal on all ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Plan {
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = SCHEMA)))]
    schema: u32,
    /// Time, version and measurements of its making.
    made: Making,
    /// The product.
    problem: Problem,
    /// The decision, with the measurements and predictions that led to it.
    decision: Arc<Decision>,
    /// Settings that suit the decision to the network and the memory.
    tuning: PlanTuning,
    /// The nodes that the plan is for, by rank.
    nodes: Arc<Vec<PlannedNode>>,
    /// The first look at the devices, if the division changes in the run; `null` if it stays.
    #[serde(default)]
    look: Arc<Option<FirstLook>>,
    /// Predictions of the plan. They follow from the rest, and are not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    predicted: Option<Arc<Prediction>>,
    /// The memory that was available when the plan was made to fit it.
    #[serde(skip)]
    available: Option<Arc<AvailableMemory>>,
    /// The rectangle of op(A) and of op(B) that each rank has, if not in the proportions of C.
    #[serde(skip)]
    lying: [Option<Arc<[Region]>>; 2],
    /// For A and B, `true` if ranks have their rectangles' elements in another order in memory.
    #[serde(skip)]
    scattered: [bool; 2],
    /// The file that it was read from.
    #[serde(skip)]
    file: Option<PathBuf>,
}

/// Settings that suit a decision to the network and the memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct PlanTuning {
    /// Width of the panels.
    panel: usize,
    /// Steps whose panels are there or on their way while one step is computed.
    lookahead: usize,
    /// Number of parts of k in which A and B are held; 1 if they are held whole.
    k_parts: usize,
    /// Measured network between ranks; `null` if it was not measured.
    network: Option<Arc<Network>>,
}

impl Plan {
    /// Makes the plan of a decision for these nodes, with the panels and the lookahead that suit the network.
    pub(crate) fn new(
        problem: Problem,
        decision: Decision,
        network: Option<Network>,
        nodes: Vec<PlannedNode>,
        made: Making,
    ) -> Self {
        let panel = match &decision.division {
            Division::C(layout) => problem.panel(layout.rects().len()),
            // Panels stay with their rank.
            Division::K { .. } => problem.panel(1),
        };
        let plan = Self {
            schema: SCHEMA,
            made,
            problem,
            decision: Arc::new(decision),
            tuning: PlanTuning {
                panel,
                lookahead: LEAST_LOOKAHEAD,
                k_parts: 1,
                network: network.map(Arc::new),
            },
            nodes: Arc::new(nodes),
            look: Arc::default(),
            predicted: None,
            available: None,
            lying: [None, None],
            scattered: [false; 2],
            file: None,
        };
        plan.tune_for_network()
    }

    /// Leaves changes of the division to the run, which begins with what was seen of the devices.
    #[must_use]
    pub fn with_look(self, look: Option<FirstLook>) -> Self {
        let look = Arc::new(look);
        let mut plan = Self { look, ..self }.without_fit().tune_for_network();
        if plan.look().is_some() && plan.learns_from_steps() {
            plan.tuning.panel = plan.tuning.panel.min(plan.problem.learning_panel());
        }
        plan
    }

    /// Adds predictions.
    pub(crate) fn with_prediction(self, prediction: Prediction) -> Self {
        Self { predicted: Some(Arc::new(prediction)), ..self }
    }

    /// Returns the same plan without its predictions and the memory that it was made to fit, since it is about to change.
    pub(crate) fn without_fit(self) -> Self {
        Self { predicted: None, available: None, ..self }
    }

    /// Notes the memory that was available when the plan was made to fit it.
    pub(crate) fn with_available(self, available: AvailableMemory) -> Self {
        Self { available: Some(Arc::new(available)), ..self }
    }

    /// Returns the memory that was available when the plan was made to fit it; `None` for a plan that was not made to fit.
    pub(crate) fn available(&self) -> Option<&AvailableMemory> {
        self.available.as_deref()
    }

    /// Returns the predictions; `None` for a plan that was not made by a session, or has changed since.
    pub fn predicted(&self) -> Option<&Prediction> {
        self.predicted.as_deref()
    }

    /// Returns `true` if more and narrower steps teach more. A GPU needs wide panels, and with shares of k nothing
    /// changes in the run unless a node has several devices.
    fn learns_from_steps(&self) -> bool {
        let mut devices = self.nodes.iter().flat_map(|node| &node.devices);
        let may_change = self.division().shares().is_none()
            || self.nodes.iter().any(|node| node.devices.len() > 1);
        may_change && devices.all(|device| device.kind == DeviceKind::Cpu)
    }

    /// Makes the plan of a division, without measurements. `slices` are the columns of every rank's part for each of
    /// its devices.
    pub(crate) fn of_division(problem: Problem, division: Division, slices: &[Vec<usize>]) -> Self {
        let nodes = slices.iter().enumerate();
        let nodes = nodes.map(|(rank, slices)| PlannedNode::unnamed(rank, slices));
        let decision = Decision::of_caller(division);
        Self::new(problem, decision, None, nodes.collect(), Making::default())
    }

    /// Makes a plan on a layout of the caller's own: any tiling of C's blocks, one rectangle per rank. `slices` are the
    /// columns of every rank's part for each of its devices.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] when the layout is not in blocks of C, or the slices do not add up to the parts'
    /// columns.
    pub fn with_layout(
        problem: Problem,
        layout: Layout,
        slices: &[Vec<usize>],
    ) -> Result<Self, Error> {
        let plan = Self::of_division(problem, Division::C(layout), slices);
        plan.check_parts().map_err(Error::Shape)?;
        Ok(plan)
    }

    /// Makes a plan that splits k: `shares` are blocks of k by rank. C is held in slices of columns, as even as blocks
    /// allow. `slices` are the columns of all of C for each of every rank's devices, or none if its share is empty.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] when the shares do not add up to the blocks of k, or the slices to the columns of C.
    pub fn along_k(
        problem: Problem,
        shares: Vec<u64>,
        slices: &[Vec<usize>],
    ) -> Result<Self, Error> {
        let held = hold_evenly(problem.c_blocks(), shares.len())?;
        let plan = Self::of_division(problem, Division::K { shares, held }, slices);
        plan.check_parts().map_err(Error::Shape)?;
        Ok(plan)
    }

    /// Time, version and measurements of its making.
    pub fn made(&self) -> &Making {
        &self.made
    }

    /// The file that it was loaded from; `None` if it was made in this run.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The shape of the multiplication.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The decision, with the measurements and predictions that led to it.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns the first look at the devices, if the division changes in the run; `None` if it stays.
    pub fn look(&self) -> Option<&FirstLook> {
        self.look.as_ref().as_ref()
    }

    /// The part of each node.
    pub fn division(&self) -> &Division {
        &self.decision.division
    }

    /// The rectangle of C that every node holds, in blocks.
    pub fn layout(&self) -> &Layout {
        self.division().layout()
    }

    /// The nodes that it was made for, by rank.
    pub fn nodes(&self) -> &[PlannedNode] {
        &self.nodes
    }

    /// Returns the columns that each device of a rank computes, in elements.
    pub fn slices(&self, rank: usize) -> Vec<usize> {
        self.nodes[rank].slices()
    }

    /// Returns the parts of all ranks and the columns of their devices.
    pub fn assignment(&self) -> Assignment {
        Assignment {
            layout: self.layout().clone(),
            slices: (0..self.n_ranks()).map(|rank| self.slices(rank)).collect(),
        }
    }

    /// The network between ranks; `None` if it was not measured.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.tuning.network.as_ref()
    }

    /// Returns the way of dividing: k, or C as its layout divides it.
    pub fn way(&self) -> Way {
        self.division().way()
    }

    /// Number of ranks.
    pub fn n_ranks(&self) -> usize {
        self.layout().rects().len()
    }

    /// Checks that the plan is for this number of ranks.
    pub(crate) fn check_ranks(&self, ranks: usize) -> Result<(), SpreadError> {
        match self.n_ranks() {
            spread if spread == ranks => Ok(()),
            spread => Err(SpreadError::Ranks { spread, ranks }),
        }
    }

    /// Width of the panels: the inner dimension of an update, and of a message.
    pub fn panel(&self) -> usize {
        self.tuning.panel.min(self.problem.k().max(1))
    }

    /// Steps whose panels are here or under way while one is computed.
    pub fn lookahead(&self) -> usize {
        self.tuning.lookahead
    }

    /// Steps between those that a decision is made from and the first that it is in force for: those whose panels were sent for
    /// before the answer can be here.
    pub(crate) fn lag(&self) -> usize {
        self.lookahead() + 1
    }

    /// Number of updates that a rank makes.
    pub fn steps(&self, rank: usize) -> usize {
        self.k_range(rank).len().div_ceil(self.panel())
    }

    /// Returns `true` if a run that learns decides on some of its steps: the first decision is taken after one step, on
    /// the steps that have not been sent for by then.
    pub(crate) fn has_decisions(&self) -> bool {
        let most = (0..self.n_ranks()).map(|rank| self.steps(rank)).max();
        most.unwrap_or(0) > 1 + self.lag()
    }

    /// Predicted seconds of a rank's arithmetic: its updates times the measured or predicted time of one. They include
    /// the time that messages take from the cores that compute. `None` if nothing was measured.
    pub fn node_s(&self, rank: usize) -> Option<f64> {
        let time_s = *self.decision.balance.as_ref()?.times_s.get(rank)?;
        self.predicted_s().map(|_| self.measured_updates() * time_s)
    }

    /// Predicted seconds of the slowest node's arithmetic, as [`node_s`](Self::node_s); `None` if nothing was measured.
    pub fn predicted_s(&self) -> Option<f64> {
        let slowest_s = self.decision.slowest_s()?;
        Some(self.measured_updates() * slowest_s)
    }

    /// Returns the number of updates of the measured width in the run.
    fn measured_updates(&self) -> f64 {
        self.problem.k().div_ceil(self.decision.kernel_width) as f64
    }

    /// Returns the part of C that a rank computes, over [its share of k](Self::k_range).
    pub fn computed(&self, rank: usize) -> Region {
        let problem = &self.problem;
        match self.division() {
            Division::C(layout) => {
                let rect = &layout.rects()[rank];
                cut_rect(rect, problem.block(), problem.m(), problem.n())
            }
            Division::K { shares, .. } if shares[rank] == 0 => Region::default(),
            Division::K { .. } => Region::new(0..problem.m(), 0..problem.n()),
        }
    }

    /// Returns the indices along k over which a rank computes.
    pub fn k_range(&self, rank: usize) -> Range<usize> {
        let k = self.problem.k();
        let Some(shares) = self.division().shares() else {
            return 0..k;
        };
        let first: u64 = shares[..rank].iter().sum();
        self.problem.block_end(first, k)..self.problem.block_end(first + shares[rank], k)
    }

    /// Returns the inner dimensions of a rank's updates.
    pub fn depth(&self, rank: usize) -> Depth {
        Depth { k_max: self.panel(), k_total: self.k_range(rank).len() }
    }

    /// Takes A, B or both from memory in which a rank has the elements of its rectangle in another order.
    #[must_use]
    pub(crate) fn with_scattered(self, scattered: [bool; 2]) -> Self {
        Self { scattered, ..self }
    }

    /// Returns, for A and B, `true` if ranks have their rectangles' elements in another order in memory.
    pub(crate) fn scattered(&self) -> [bool; 2] {
        self.scattered
    }

    /// Returns, for A and B, `true` if even panels of a rank's own elements are copies: the elements are in another order in
    /// memory, or are to be transposed.
    pub(crate) fn copies_panels(&self) -> [bool; 2] {
        let ops = self.problem.ops();
        [A, B].map(|side| ops[side].transposes() || self.scattered[side])
    }

    /// Returns the shape of the job that a rank's devices compute together.
    pub(crate) fn job_shape(&self, rank: usize) -> JobShape {
        JobShape {
            rows: self.computed(rank).rows,
            cols: self.slices(rank).iter().sum(),
            depth: self.depth(rank),
            element: self.problem.element(),
        }
    }

    /// Returns the work of a rank, in updates of a `b×b` block of C over all of k.
    pub fn units(&self, rank: usize) -> f64 {
        self.units_of(rank, self.computed(rank).cols)
    }

    /// Returns the work of `cols` columns of the part that a rank computes, as [`units`](Self::units).
    pub(crate) fn units_of(&self, rank: usize, cols: usize) -> f64 {
        let block = (self.problem.block() as f64).powi(2);
        let share = match self.problem.k() {
            0 => 1.0,
            k => self.k_range(rank).len() as f64 / k as f64,
        };
        (self.computed(rank).rows * cols) as f64 / block * share
    }

    /// Counts the messages that `rank` receives while C is multiplied, and their bytes. The result is exact.
    pub fn count_received(&self, rank: usize) -> Moved {
        if self.division().shares().is_some() {
            return reduction::count_received(self, rank);
        }
        let mut received = Moved::default();
        for (part, alike) in self.unlike_parts() {
            let of_part = StepSchedule::new(part.plan(), rank).count_received();
            received.messages += alike as u64 * of_part.messages;
            received.bytes += alike as u64 * of_part.bytes;
        }
        received
    }
}
