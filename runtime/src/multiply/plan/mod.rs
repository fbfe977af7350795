//! The plan of a multiplication: everything decided before it runs.

mod memory;
mod parts;
mod spread;

use std::ops::Range;
use std::sync::Arc;

use isochron_devices::{Depth, JobShape, MeasureTally};
use isochron_hierarchy::balance::NodeBalance;
use isochron_hierarchy::layout::{Layout, slice_cols};
use isochron_hierarchy::predict::{self, Candidate, Links, Traffic, Way};
use serde::{Deserialize, Serialize};
use strum::Display;

pub use parts::PartOfK;

use super::LEAST_LOOKAHEAD;
use super::problem::Problem;
use crate::error::Error;
use crate::matrix::{Region, cut_rect};

/// The dimension of the work that is divided among the nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Split {
    /// C: every node computes its rectangle of C, which stays, and panels of A and B travel.
    C,
    /// k: every node computes all of C over its share of k, given in blocks by rank. A and B stay, and the nodes'
    /// contributions are summed where C is held.
    K(Vec<u64>),
}

/// Nodes that help less than they cost, with the predictions that say so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The ranks that get nothing.
    pub ranks: Vec<usize>,
    /// Predicted seconds of the multiplication by all nodes.
    pub with_s: f64,
    /// Predicted seconds of the multiplication by the others.
    pub without_s: f64,
}

/// The shares of all ranks and of this rank's devices, and the decisions that led to them.
#[derive(Debug, Clone)]
pub struct Plan {
    problem: Problem,
    found: BalanceResult,
    lookahead: usize,
    k_parts: usize,
}

/// The result of balancing, from which a plan is made.
#[derive(Debug, Clone)]
pub(crate) struct BalanceResult {
    pub layout: Arc<Layout>,
    pub split: Split,
    /// The rank to which `slices` belong.
    pub rank: usize,
    pub slices: Vec<usize>,
    pub balance: Option<NodeBalance>,
    /// The nodes that get nothing because the run is faster without them; `None` if every node helps.
    pub left_out: Option<LeftOut>,
    /// The ways to divide that were compared, including the one used, in order of their predicted seconds.
    ///
    /// Slices are compared if the caller chose no layout, and shares of k if they would make much less travel. Empty if
    /// the caller chose the way, if nothing was measured, or if there was only one way.
    pub candidates: Vec<Candidate>,
    /// Seconds of measuring and partitioning.
    pub balance_s: f64,
    pub measured: MeasureTally,
    /// Inner dimension of the measured updates.
    pub kernel_width: usize,
    /// Capacity of the links between ranks; `None` if they were not measured.
    pub links: Option<Links>,
}

impl Plan {
    pub(crate) fn from_balance(problem: Problem, found: BalanceResult) -> Self {
        let plan = Self {
            problem,
            found,
            lookahead: LEAST_LOOKAHEAD,
            k_parts: 1,
        };
        plan.tune_for_links()
    }

    /// Makes a plan that was found elsewhere, if its parts fit each other.
    pub(crate) fn restore(problem: Problem, found: BalanceResult) -> Result<Self, Error> {
        let plan = Self::from_balance(problem, found);
        plan.check_parts().map_err(Error::Shape)?;
        Ok(plan)
    }

    /// Makes a plan on a layout of the caller's own: any tiling of C's blocks, one rectangle per rank. `slices` are the
    /// columns of `rank`'s part for each of its devices.
    ///
    /// # Errors
    /// [`Error::Shape`] when the layout is not in blocks of C, or the slices do not add up to the part's columns.
    pub fn with_layout(
        problem: Problem,
        layout: Layout,
        slices: Vec<usize>,
        rank: usize,
    ) -> Result<Self, Error> {
        Self::new(problem, layout, Split::C, slices, rank)
    }

    /// Makes a plan that splits k: `shares` are blocks of k by rank. C is held in slices of columns, as even as blocks
    /// allow. `slices` are the columns of all of C for each of `rank`'s devices, or none if its share is empty.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shares do not add up to the blocks of k, or the slices to the columns of C.
    pub fn along_k(
        problem: Problem,
        shares: Vec<u64>,
        slices: Vec<usize>,
        rank: usize,
    ) -> Result<Self, Error> {
        let layout = even_slices(&problem, shares.len())?;
        Self::new(problem, layout, Split::K(shares), slices, rank)
    }

    fn new(
        problem: Problem,
        layout: Layout,
        split: Split,
        slices: Vec<usize>,
        rank: usize,
    ) -> Result<Self, Error> {
        let found = BalanceResult {
            layout: Arc::new(layout),
            split,
            rank,
            slices,
            balance: None,
            left_out: None,
            candidates: Vec::new(),
            balance_s: 0.0,
            measured: MeasureTally::default(),
            kernel_width: 1,
            links: None,
        };
        Self::restore(problem, found)
    }

    /// Checks that the parts of the plan fit each other.
    fn check_parts(&self) -> Result<(), String> {
        let (problem, layout) = (&self.problem, &self.found.layout);
        let (rows, cols) = problem.c_blocks();
        if (layout.rows(), layout.cols()) != (rows, cols) {
            let found = format!("{}×{}", layout.rows(), layout.cols());
            return Err(format!(
                "the layout has {found} blocks, C has {rows}×{cols}"
            ));
        }
        if let Split::K(shares) = &self.found.split {
            let total = shares
                .iter()
                .try_fold(0u64, |sum, &share| sum.checked_add(share));
            let wanted = problem.k_blocks();
            if total != Some(wanted) || shares.len() != self.n_ranks() {
                return Err(format!(
                    "the shares {shares:?} do not make up the {wanted} blocks of k"
                ));
            }
        }
        let found = self.slices().iter().copied().fold(0, usize::saturating_add);
        let wanted = self.computed(self.found.rank).cols;
        if found != wanted {
            return Err(format!(
                "the slices have {found} columns, the part has {wanted}"
            ));
        }
        Ok(())
    }

    /// The shape of the multiplication.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The rectangle of C that every node holds, in blocks.
    pub fn layout(&self) -> &Layout {
        &self.found.layout
    }

    /// The dimension that is divided among the nodes.
    pub fn split(&self) -> &Split {
        &self.found.split
    }

    /// The columns that each device of this rank computes, in elements.
    pub fn slices(&self) -> &[usize] {
        &self.found.slices
    }

    /// The balance of the nodes; `None` on a layout of the caller's own.
    pub fn balance(&self) -> Option<&NodeBalance> {
        self.found.balance.as_ref()
    }

    /// The result of balancing.
    pub(crate) fn found(&self) -> &BalanceResult {
        &self.found
    }

    /// Returns the way of dividing: k, or C as its layout divides it.
    pub fn way(&self) -> Way {
        match self.found.split {
            Split::C => Way::of(&self.found.layout),
            Split::K(_) => Way::K,
        }
    }

    /// Number of ranks.
    pub fn n_ranks(&self) -> usize {
        self.found.layout.rects().len()
    }

    /// Width of the panels, as [`Problem::panel`]. If k is split, panels stay with their rank and are as wide as those of a
    /// single rank.
    pub fn panel(&self) -> usize {
        match self.found.split {
            Split::C => self.problem.panel(self.n_ranks()),
            Split::K(_) => self.problem.panel(1),
        }
    }

    /// Steps whose panels are here or under way while one is computed.
    pub fn lookahead(&self) -> usize {
        self.lookahead
    }

    /// Number of updates that this rank makes.
    pub fn steps(&self) -> usize {
        self.k_range(self.found.rank).len().div_ceil(self.panel())
    }

    /// Predicted seconds of a rank's arithmetic: its updates times the measured or predicted time of one. They include the
    /// time that messages take from the cores that compute. `None` if nothing was measured.
    pub fn node_s(&self, rank: usize) -> Option<f64> {
        let time_s = *self.balance()?.times_s.get(rank)?;
        self.predicted_s().map(|_| self.measured_updates() * time_s)
    }

    /// Predicted seconds of the slowest node's arithmetic, as [`node_s`](Self::node_s); `None` if nothing was measured.
    pub fn predicted_s(&self) -> Option<f64> {
        let times = self.balance()?.times_s.iter().copied();
        let slowest = times.fold(0.0, f64::max);
        (slowest > 0.0).then(|| self.measured_updates() * slowest)
    }

    /// Returns the number of updates of the measured width in the run.
    fn measured_updates(&self) -> f64 {
        self.problem.k().div_ceil(self.found.kernel_width) as f64
    }

    /// Returns the part of C that a rank computes, over [its share of k](Self::k_range).
    pub fn computed(&self, rank: usize) -> Region {
        match &self.found.split {
            Split::C => {
                let (problem, rect) = (&self.problem, &self.found.layout.rects()[rank]);
                cut_rect(rect, problem.block(), (problem.m(), problem.n()))
            }
            Split::K(shares) if shares[rank] == 0 => Region::default(),
            Split::K(_) => Region::new(0..self.problem.m(), 0..self.problem.n()),
        }
    }

    /// Returns the indices along k over which a rank computes.
    pub fn k_range(&self, rank: usize) -> Range<usize> {
        let k = self.problem.k();
        let Split::K(shares) = &self.found.split else {
            return 0..k;
        };
        let first: u64 = shares[..rank].iter().sum();
        self.problem.block_end(first, k)..self.problem.block_end(first + shares[rank], k)
    }

    /// Returns the inner dimensions of a rank's updates.
    pub fn depth(&self, rank: usize) -> Depth {
        Depth {
            k_max: self.panel(),
            k_total: self.k_range(rank).len(),
        }
    }

    /// Returns the shape of the job that a rank's devices compute together.
    pub(crate) fn job_shape(&self, rank: usize) -> JobShape {
        JobShape {
            rows: self.computed(rank).rows,
            cols: self.slices().iter().sum(),
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

    /// Returns the messages and elements that every rank receives, as [`predict`] counts them.
    pub fn traffic(&self) -> Vec<Traffic> {
        let block = self.problem.block();
        match &self.found.split {
            Split::C => {
                predict::panel_traffic(self.layout(), block, self.problem.k(), self.panel())
            }
            Split::K(shares) => {
                let computes: Vec<bool> = shares.iter().map(|&share| share > 0).collect();
                predict::reduction_traffic(self.layout(), block, &computes)
            }
        }
    }
}

/// Divides C into slices of columns, as even as blocks allow.
pub(crate) fn even_slices(problem: &Problem, ranks: usize) -> Result<Layout, Error> {
    let (rows, cols) = problem.c_blocks();
    let ranks = ranks as u64;
    let widths: Vec<u64> = (0..ranks)
        .map(|rank| cols / ranks + u64::from(rank < cols % ranks))
        .collect();
    Ok(slice_cols(rows, &widths)?)
}
