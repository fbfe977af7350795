//! Everything decided before a multiplication runs.

mod memory;
mod parts;
mod spread;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use isochron_devices::{Depth, JobShape, MeasureTally};
use isochron_hierarchy::balance::NodeBalance;
use isochron_hierarchy::layout::{Layout, slice_cols};
use isochron_hierarchy::predict::{self, Candidate, Links, Traffic, Way};
use serde::{Deserialize, Serialize};

pub use parts::PartOfK;

use super::LEAST_LOOKAHEAD;
use super::problem::Problem;
use crate::error::Error;
use crate::matrix::Part;

/// What the nodes' shares of the work are cut from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// C: every node computes its rectangle of it, C stays, and panels of A and B travel.
    C,
    /// k: every node computes all of C over its share, so many blocks of k by rank; A and B stay, and what the nodes have
    /// computed is summed where C is held.
    K(Vec<u64>),
}

/// Nodes that help less than they cost, and what is predicted with and without them, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The ranks that get nothing.
    pub ranks: Vec<usize>,
    /// Predicted seconds of the multiplication by all nodes.
    pub with_s: f64,
    /// Predicted seconds of the multiplication by the others.
    pub without_s: f64,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Split::C => "c",
            Split::K(_) => "k",
        })
    }
}

/// Who computes what, and how it was decided.
#[derive(Debug, Clone)]
pub struct Plan {
    problem: Problem,
    layout: Arc<Layout>,
    split: Split,
    rank: usize,
    slices: Vec<usize>,
    balance: Option<NodeBalance>,
    left_out: Option<LeftOut>,
    candidates: Vec<Candidate>,
    balance_s: f64,
    measured: MeasureTally,
    kernel_width: usize,
    links: Option<Links>,
    lookahead: usize,
    k_parts: usize,
}

/// What balancing found.
pub(crate) struct Found {
    /// The rectangles of C that the nodes hold, in blocks.
    pub layout: Arc<Layout>,
    pub split: Split,
    /// The rank whose slices these are.
    pub rank: usize,
    /// Columns of each of this rank's devices, in elements.
    pub slices: Vec<usize>,
    pub balance: Option<NodeBalance>,
    pub left_out: Option<LeftOut>,
    /// The ways to divide that were compared, in order of their seconds.
    pub candidates: Vec<Candidate>,
    /// Seconds that it took.
    pub balance_s: f64,
    pub measured: MeasureTally,
    /// Inner dimension of the updates that were measured.
    pub kernel_width: usize,
    /// What the links between ranks carry, where they were measured.
    pub links: Option<Links>,
}

impl Plan {
    pub(crate) fn balanced(problem: Problem, found: Found) -> Self {
        let plan = Self {
            problem,
            layout: found.layout,
            split: found.split,
            rank: found.rank,
            slices: found.slices,
            balance: found.balance,
            left_out: found.left_out,
            candidates: found.candidates,
            balance_s: found.balance_s,
            measured: found.measured,
            kernel_width: found.kernel_width,
            links: found.links,
            lookahead: LEAST_LOOKAHEAD,
            k_parts: 1,
        };
        plan.tuned()
    }

    /// A plan that was found before; it is checked as those of the caller's own are.
    pub(crate) fn restored(problem: Problem, found: Found) -> Result<Self, Error> {
        Self::balanced(problem, found).checked()
    }

    /// A plan on a layout of the caller's own: any tiling of C's blocks, one rectangle a rank. `slices` are the
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

    /// A plan that splits k: `shares` are blocks of k by rank. C is held in slices of columns, as even as blocks allow.
    /// `slices` are the columns of all of C for each of `rank`'s devices, or nothing where its share is.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shares do not add up to the blocks of k, or the slices to the columns of C.
    pub fn along_k(
        problem: Problem,
        shares: Vec<u64>,
        slices: Vec<usize>,
        rank: usize,
    ) -> Result<Self, Error> {
        let layout = held_evenly(&problem, shares.len())?;
        Self::new(problem, layout, Split::K(shares), slices, rank)
    }

    fn new(
        problem: Problem,
        layout: Layout,
        split: Split,
        slices: Vec<usize>,
        rank: usize,
    ) -> Result<Self, Error> {
        let plan = Self {
            problem,
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
            lookahead: LEAST_LOOKAHEAD,
            k_parts: 1,
        };
        plan.checked()
    }

    /// The plan, when its parts fit each other.
    fn checked(self) -> Result<Self, Error> {
        let (problem, layout) = (&self.problem, &self.layout);
        let (rows, cols) = problem.c_blocks();
        if (layout.rows(), layout.cols()) != (rows, cols) {
            let found = format!("{}×{}", layout.rows(), layout.cols());
            return Err(Error::Shape(format!(
                "the layout has {found} blocks, C has {rows}×{cols}"
            )));
        }
        if let Split::K(shares) = &self.split {
            let total = shares
                .iter()
                .try_fold(0u64, |sum, &share| sum.checked_add(share));
            let wanted = problem.k_blocks();
            if total != Some(wanted) || shares.len() != self.n_ranks() {
                return Err(Error::Shape(format!(
                    "the shares {shares:?} do not make up the {wanted} blocks of k"
                )));
            }
        }
        let slices = self.slices.iter();
        let found = slices.fold(0usize, |sum, &columns| sum.saturating_add(columns));
        let wanted = self.computed(self.rank).cols;
        if found != wanted {
            return Err(Error::Shape(format!(
                "the slices have {found} columns, the part has {wanted}"
            )));
        }
        Ok(self)
    }

    /// The shape of the multiplication.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The rectangle of C that every node holds, in blocks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What the nodes' shares are cut from.
    pub fn split(&self) -> &Split {
        &self.split
    }

    /// Columns of what this rank computes for each of its devices, in elements.
    pub fn slices(&self) -> &[usize] {
        &self.slices
    }

    /// How the nodes were balanced; `None` on a layout of the caller's own.
    pub fn balance(&self) -> Option<&NodeBalance> {
        self.balance.as_ref()
    }

    /// The nodes that get nothing because it is faster without them; `None` where everybody helps.
    pub fn left_out(&self) -> Option<&LeftOut> {
        self.left_out.as_ref()
    }

    /// What is divided: k, or C in the way that its layout is.
    pub fn way(&self) -> Way {
        match self.split {
            Split::C => Way::of(&self.layout),
            Split::K(_) => Way::K,
        }
    }

    /// The ways to divide that were compared, the one that is [used](Self::way) among them, in order of their predicted
    /// seconds. Another than that of the balanced layout is used where it is clearly faster. Slices are compared where the
    /// layout was left to us, k where so much less would travel that all nodes were measured for it; empty where the caller
    /// said what to divide, or nothing was measured or could be compared.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Number of ranks.
    pub fn n_ranks(&self) -> usize {
        self.layout.rects().len()
    }

    /// Width of the panels, as [`Problem::panel`]; where k is split they stay with their rank, and are those of one alone.
    pub fn panel(&self) -> usize {
        match self.split {
            Split::C => self.problem.panel(self.n_ranks()),
            Split::K(_) => self.problem.panel(1),
        }
    }

    /// Steps whose panels are here or on their way while one is computed.
    pub fn lookahead(&self) -> usize {
        self.lookahead
    }

    /// What the links between ranks carry; `None` where they were not measured.
    pub fn links(&self) -> Option<&Links> {
        self.links.as_ref()
    }

    /// Number of updates that this rank makes.
    pub fn steps(&self) -> usize {
        self.k_range(self.rank).len().div_ceil(self.panel())
    }

    /// Inner dimension of the updates that were measured, and by whose times the plan was made.
    pub fn kernel_width(&self) -> usize {
        self.kernel_width
    }

    /// Predicted seconds of a rank's arithmetic, with what messages cost the cores that compute: updates times what one was
    /// measured or predicted to take. `None` where nothing was measured.
    pub fn node_s(&self, rank: usize) -> Option<f64> {
        let updates = self.problem.k().div_ceil(self.kernel_width) as f64;
        let time_s = *self.balance.as_ref()?.times_s.get(rank)?;
        self.predicted_s().map(|_| updates * time_s)
    }

    /// Predicted seconds of the arithmetic of the slowest node, as [`node_s`](Self::node_s); `None` where nothing was measured.
    pub fn predicted_s(&self) -> Option<f64> {
        let updates = self.problem.k().div_ceil(self.kernel_width) as f64;
        let times = self.balance.as_ref()?.times_s.iter().copied();
        let slowest = times.fold(0.0, f64::max);
        (slowest > 0.0).then_some(updates * slowest)
    }

    /// Seconds that measuring and partitioning took.
    pub fn balance_s(&self) -> f64 {
        self.balance_s
    }

    /// How the measurements of this rank's devices went that the plan is made from.
    pub fn measured(&self) -> &MeasureTally {
        &self.measured
    }

    /// The part of C that a rank computes, over [its share of k](Self::k_range).
    pub fn computed(&self, rank: usize) -> Part {
        match &self.split {
            Split::C => self.c().part(rank),
            Split::K(shares) if shares[rank] == 0 => Part::default(),
            Split::K(_) => Part {
                row: 0,
                col: 0,
                rows: self.problem.m(),
                cols: self.problem.n(),
            },
        }
    }

    /// The indices along k over which a rank computes.
    pub fn k_range(&self, rank: usize) -> Range<usize> {
        let k = self.problem.k();
        let Split::K(shares) = &self.split else {
            return 0..k;
        };
        let first: u64 = shares[..rank].iter().sum();
        let cut = |blocks: u64| {
            (blocks as usize)
                .saturating_mul(self.problem.block())
                .min(k)
        };
        cut(first)..cut(first + shares[rank])
    }

    /// The inner dimensions of the updates that a rank makes.
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

    /// The work of a rank, in updates of a `b×b` block of C over all of k.
    pub fn units(&self, rank: usize) -> f64 {
        self.units_of(rank, self.computed(rank).cols)
    }

    /// The work of so many columns of what a rank computes, as [`units`](Self::units).
    pub(crate) fn units_of(&self, rank: usize, cols: usize) -> f64 {
        let block = (self.problem.block() as f64).powi(2);
        let share = self.k_range(rank).len() as f64 / self.problem.k().max(1) as f64;
        let share = if self.problem.k() == 0 { 1.0 } else { share };
        (self.computed(rank).rows * cols) as f64 / block * share
    }

    /// What every rank receives, as [`predict`] counts it.
    pub fn traffic(&self) -> Vec<Traffic> {
        let block = self.problem.block();
        match &self.split {
            Split::C => predict::panels(&self.layout, block, self.problem.k(), self.panel()),
            Split::K(shares) => {
                let computes: Vec<bool> = shares.iter().map(|&share| share > 0).collect();
                predict::reduction(&self.layout, block, &computes)
            }
        }
    }
}

/// C in slices of columns, as even as blocks allow.
pub(crate) fn held_evenly(problem: &Problem, ranks: usize) -> Result<Layout, Error> {
    let (rows, cols) = problem.c_blocks();
    let ranks = ranks as u64;
    let widths: Vec<u64> = (0..ranks)
        .map(|rank| cols / ranks + u64::from(rank < cols % ranks))
        .collect();
    slice_cols(rows, &widths).map_err(|error| Error::Message(error.to_string()))
}
