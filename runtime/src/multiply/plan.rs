//! Everything decided before a multiplication runs.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use isochron_devices::{Depth, Element, ElementType, MeasureTally, leading_dimension};
use isochron_hierarchy::balance::NodeBalance;
use isochron_hierarchy::layout::{Layout, columns, slice_cols, slice_rows};
use isochron_hierarchy::predict::{self, Links, Traffic};
use num_complex::Complex64;
use serde::{Deserialize, Serialize};

use super::problem::Problem;
use super::reduce;
use super::schedule::{A, B, Schedule};
use super::{LEAST_LOOKAHEAD, MAX_LOOKAHEAD};
use crate::error::Error;
use crate::matrix::{Distribution, Matrix, Operand, Part, intersect};

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

/// Panels are not made narrower than this to save memory.
const NARROWEST: usize = 8;

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
    balance_s: f64,
    measured: MeasureTally,
    kernel_width: usize,
    links: Option<Links>,
    lookahead: usize,
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
        let mut plan = Self {
            problem,
            layout: found.layout,
            split: found.split,
            rank: found.rank,
            slices: found.slices,
            balance: found.balance,
            left_out: found.left_out,
            balance_s: found.balance_s,
            measured: found.measured,
            kernel_width: found.kernel_width,
            links: found.links,
            lookahead: LEAST_LOOKAHEAD,
        };
        plan.lookahead = plan.wanted_lookahead();
        plan
    }

    /// As many steps ahead as the links need, by the predicted time of a step.
    fn wanted_lookahead(&self) -> usize {
        let known = self.links.as_ref().zip(self.predicted_s());
        let Some((links, predicted_s)) = known.filter(|_| self.split == Split::C) else {
            return LEAST_LOOKAHEAD;
        };
        let steps = self.problem.k().div_ceil(self.panel()).max(1) as f64;
        let bytes = self.problem.element().bytes();
        let ahead = |node: Traffic| {
            let of_step = Traffic {
                elements: node.elements / steps,
                messages: node.messages / steps,
            };
            links.lookahead(&of_step, bytes, predicted_s / steps)
        };
        let most = self.traffic().into_iter().map(ahead).max();
        most.unwrap_or(0).clamp(LEAST_LOOKAHEAD, MAX_LOOKAHEAD)
    }

    /// A plan with the same shares that needs less memory: fewer steps under way, and then narrower panels; `None` where
    /// there is none.
    pub(crate) fn leaner(&self) -> Option<Self> {
        let lookahead = LEAST_LOOKAHEAD;
        if self.lookahead > lookahead {
            return Some(Self {
                lookahead,
                ..self.clone()
            });
        }
        let panel = self.panel() / 2;
        let problem = self.problem.with_panel(panel).ok()?;
        (panel >= NARROWEST).then(|| Self {
            problem,
            ..self.clone()
        })
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
            balance_s: 0.0,
            measured: MeasureTally::default(),
            kernel_width: 1,
            links: None,
            lookahead: LEAST_LOOKAHEAD,
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

    /// Predicted seconds of a rank's arithmetic: updates times what one was measured or predicted to take. `None` where
    /// nothing was measured.
    pub fn node_s(&self, rank: usize) -> Option<f64> {
        let updates = self.problem.k().div_ceil(self.kernel_width) as f64;
        let time_s = *self.balance.as_ref()?.times_s.get(rank)?;
        self.predicted_s().map(|_| updates * time_s)
    }

    /// Predicted seconds of the arithmetic of the slowest node; `None` where nothing was measured.
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

    /// How C is spread: one rectangle a rank.
    pub fn c(&self) -> Distribution {
        let problem = &self.problem;
        let layout = self.layout.clone();
        Distribution::new(problem.m(), problem.n(), problem.block(), layout)
    }

    /// How A is spread, as it is stored: the rows of op(A) as C's, its columns (k) over the owners of C's columns in
    /// proportion; or in slices of columns, where k is split.
    pub fn a(&self) -> Distribution {
        self.stored(A)
    }

    /// How B is spread, as it is stored: the columns of op(B) as C's, its rows (k) over the owners of C's rows in
    /// proportion; or in slices of rows, where k is split.
    pub fn b(&self) -> Distribution {
        self.stored(B)
    }

    /// The factors of the product, of A and B as they are stored.
    pub fn operands<'a, T: Element>(
        &self,
        (a, b): (&'a Matrix<T>, &'a Matrix<T>),
    ) -> [Operand<'a, T>; 2] {
        let [op_a, op_b] = self.problem.ops();
        [Operand::new(a, op_a), Operand::new(b, op_b)]
    }

    fn stored(&self, side: usize) -> Distribution {
        let [a, b] = self.factors();
        let factor = if side == A { a } else { b };
        if self.problem.ops()[side].transposes() {
            factor.transposed()
        } else {
            factor
        }
    }

    /// How op(A) and op(B) are spread.
    pub(super) fn factors(&self) -> [Distribution; 2] {
        let problem = &self.problem;
        let blocks = problem.k_blocks();
        let (rows, cols) = (self.layout.rows(), self.layout.cols());
        let [of_a, of_b] = match &self.split {
            Split::K(shares) => [slice_cols(rows, shares), slice_rows(cols, shares)]
                .map(|layout| layout.unwrap_or_else(|error| panic!("shares of k: {error}"))),
            Split::C => [
                match cols {
                    0 => self.even(rows, blocks),
                    _ => self.layout.scale_cols(blocks),
                },
                match rows {
                    0 => self.even(blocks, cols),
                    _ => self.layout.scale_rows(blocks),
                },
            ],
        };
        let (m, n, k, block) = (problem.m(), problem.n(), problem.k(), problem.block());
        [
            Distribution::new(m, k, block, Arc::new(of_a)),
            Distribution::new(k, n, block, Arc::new(of_b)),
        ]
    }

    /// A layout for an operand of an empty C, which gives no proportions to follow.
    fn even(&self, rows: u64, cols: u64) -> Layout {
        columns::br(&vec![1.0; self.n_ranks()], rows, cols)
            .unwrap_or_else(|error| panic!("equal areas have a layout: {error}"))
    }

    /// Whether a rank needs panels of A, and of B, beside what it holds: where others hold a part, or it has to be
    /// transposed.
    pub(super) fn needs_panels(&self, schedule: &Schedule) -> [bool; 2] {
        let mut needed = schedule.needs_panels();
        for (side, needed) in needed.iter_mut().enumerate() {
            *needed |= self.problem.ops()[side].transposes() && schedule.reads(side);
        }
        needed
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

    /// Sets of panels: one is computed with.
    pub(super) fn sets(&self) -> usize {
        self.lookahead + 1
    }

    /// Bytes of host memory that `rank` needs for its parts, the panels and messages of the steps under way, what it computes of a C
    /// that others hold, and the vectors of the result check.
    pub fn memory_bytes(&self, rank: usize) -> u64 {
        let problem = &self.problem;
        let stored = |matrix: &Distribution| {
            let part = matrix.part(rank);
            self.leading_dimension(part.rows) * part.cols
        };
        let parts = stored(&self.a()) + stored(&self.b()) + stored(&self.c());
        let travelling = match &self.split {
            Split::C => self.panel_elements(rank),
            Split::K(_) => {
                let mine = self.computed(rank);
                let schedule = Schedule::new(self, rank);
                let [of_a, of_b] = self.needs_panels(&schedule).map(usize::from);
                let panels = self.sets() * self.panel() * (of_a * mine.rows + of_b * mine.cols);
                let computed = self.leading_dimension(mine.rows) * mine.cols;
                panels + computed + reduce::elements_under_way(self, rank)
            }
        };
        let check = 6 * 16 * (problem.m() + problem.n() + problem.k());
        (problem.element().bytes() * (parts + travelling) + check) as u64
    }

    /// Elements of the panels, rows of A on their way into one, and what is packed for others, in each set.
    fn panel_elements(&self, rank: usize) -> usize {
        let c = self.c();
        let mine = c.part(rank);
        let schedule = Schedule::new(self, rank);
        let [of_a, of_b] = self.needs_panels(&schedule).map(usize::from);
        let panels = 2 * of_a * mine.rows + of_b * mine.cols;
        let [my_a, my_b] = self.factors().map(|factor| factor.part(rank));
        let sent = |other: Part| {
            let rows = intersect(&my_a.row_range(), &other.row_range()).len();
            rows + intersect(&my_b.col_range(), &other.col_range()).len()
        };
        let others = (0..c.n_ranks()).filter(|&other| other != rank);
        self.sets()
            * self.panel()
            * (panels + others.map(|other| sent(c.part(other))).sum::<usize>())
    }

    fn leading_dimension(&self, rows: usize) -> usize {
        match self.problem.element() {
            ElementType::F32 => leading_dimension::<f32>(rows),
            ElementType::F64 | ElementType::C32 => leading_dimension::<f64>(rows),
            ElementType::C64 => leading_dimension::<Complex64>(rows),
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
