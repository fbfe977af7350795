//! Everything decided before a multiplication runs.

use std::sync::Arc;

use isochron_devices::{MeasureTally, leading_dimension};
use isochron_hierarchy::balance::NodeBalance;
use isochron_hierarchy::layout::{Layout, columns};

use super::SETS;
use super::schedule::Schedule;
use crate::error::Error;
use crate::matrix::{Distribution, Part, intersect};

/// The shape of a multiplication `C = alpha·A·B + beta·C`: `A: m×k`, `B: k×n`, `C: m×n`, in blocks of `b×b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    m: usize,
    n: usize,
    k: usize,
    block: usize,
    panel: Option<usize>,
}

/// The inner dimension from which on wider updates are hardly faster.
const WIDE_PANEL: usize = 256;
/// Of one rank, which copies nothing: a device that streams is fed with more at a time.
const SINGLE_PANEL: usize = 1024;
/// Panels are narrower where there would be fewer steps.
const MIN_STEPS: usize = 32;

/// The most blocks within `width`, in elements, and one at least.
fn whole_blocks(width: usize, block: usize) -> usize {
    (width / block).max(1) * block
}

impl Problem {
    /// A multiplication of the given shape. Any dimension may be zero.
    ///
    /// # Errors
    /// [`Error::Parameter`] when `block` is zero or a matrix would have 2⁶⁰ elements or more.
    pub fn new(m: usize, n: usize, k: usize, block: usize) -> Result<Self, Error> {
        if block == 0 {
            let reason = "a block needs at least one row and column".to_string();
            return Err(Error::Parameter {
                name: "block",
                value: "0".to_string(),
                reason,
            });
        }
        for (name, rows, cols) in [("A", m, k), ("B", k, n), ("C", m, n)] {
            if rows
                .checked_mul(cols)
                .is_none_or(|elements| elements >= 1 << 60)
            {
                return Err(Error::Parameter {
                    name: "size",
                    value: format!("{rows}×{cols}"),
                    reason: format!(
                        "matrix {name} would have more elements than any machine can hold"
                    ),
                });
            }
        }
        // A block larger than every dimension is that dimension's only block.
        let block = block.min(m.max(n).max(k).max(1));
        Ok(Self {
            m,
            n,
            k,
            block,
            panel: None,
        })
    }

    /// The same multiplication with panels of this width.
    ///
    /// # Errors
    /// [`Error::Parameter`] when `panel` is zero.
    pub fn with_panel(self, panel: usize) -> Result<Self, Error> {
        if panel == 0 {
            return Err(Error::Parameter {
                name: "panel",
                value: "0".to_string(),
                reason: "a panel is at least one column wide".to_string(),
            });
        }
        Ok(Self {
            panel: Some(panel),
            ..self
        })
    }

    /// Rows of A and C.
    pub fn m(&self) -> usize {
        self.m
    }

    /// Columns of B and C.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Columns of A, rows of B.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Block size `b`.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Width of the panels on so many ranks: the inner dimension of an update, and what is sent at a time. Where nobody
    /// says, it is a multiple of the block, wide enough for the BLAS to be near its peak, and narrow enough that there are
    /// some dozens of steps to hide communication in. One rank has nothing to hide.
    pub fn panel(&self, ranks: usize) -> usize {
        let by_itself = match ranks {
            1 => whole_blocks(SINGLE_PANEL, self.block),
            _ => whole_blocks(WIDE_PANEL.min(self.k / MIN_STEPS), self.block),
        };
        self.panel.unwrap_or(by_itself).min(self.k.max(1))
    }

    /// Inner dimension of the update whose time tells the devices' speeds: that of the panels, unless fewer than `steps`
    /// of them make up k. Then it is narrower, whole blocks if it can be, so that measuring costs a small part of the
    /// whole.
    pub fn kernel_width(&self, steps: usize, ranks: usize) -> usize {
        whole_blocks(self.k / steps.max(1), self.block).min(self.panel(ranks))
    }

    /// Rows and columns of C in blocks.
    pub fn c_blocks(&self) -> (u64, u64) {
        (
            self.m.div_ceil(self.block) as u64,
            self.n.div_ceil(self.block) as u64,
        )
    }

    /// Floating-point operations, `2·m·n·k`.
    pub fn flop(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Bytes of the three matrices together.
    pub fn matrix_bytes(&self) -> u64 {
        let [m, n, k] = [self.m, self.n, self.k].map(|length| length as u128);
        u64::try_from(8 * (m * k + k * n + m * n)).unwrap_or(u64::MAX)
    }
}

/// Who computes what, and how it was decided.
#[derive(Debug, Clone)]
pub struct Plan {
    problem: Problem,
    layout: Arc<Layout>,
    slices: Vec<usize>,
    balance: Option<NodeBalance>,
    balance_s: f64,
    measured: MeasureTally,
    kernel_width: usize,
}

/// What balancing found.
pub(crate) struct Found {
    /// The nodes' rectangles, in blocks.
    pub layout: Arc<Layout>,
    /// Columns of each of this rank's devices, in elements.
    pub slices: Vec<usize>,
    pub balance: NodeBalance,
    /// Seconds that it took.
    pub balance_s: f64,
    pub measured: MeasureTally,
    /// Inner dimension of the updates that were measured.
    pub kernel_width: usize,
}

impl Plan {
    pub(crate) fn balanced(problem: Problem, found: Found) -> Self {
        Self {
            problem,
            layout: found.layout,
            slices: found.slices,
            balance: Some(found.balance),
            balance_s: found.balance_s,
            measured: found.measured,
            kernel_width: found.kernel_width,
        }
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
        let (rows, cols) = problem.c_blocks();
        if (layout.rows(), layout.cols()) != (rows, cols) {
            let found = format!("{}×{}", layout.rows(), layout.cols());
            return Err(Error::Shape(format!(
                "the layout has {found} blocks, C has {rows}×{cols}"
            )));
        }
        let plan = Self {
            problem,
            layout: Arc::new(layout),
            slices,
            balance: None,
            balance_s: 0.0,
            measured: MeasureTally::default(),
            kernel_width: 1,
        };
        let (found, wanted) = (plan.slices.iter().sum::<usize>(), plan.c().part(rank).cols);
        if found != wanted {
            return Err(Error::Shape(format!(
                "the slices have {found} columns, the part has {wanted}"
            )));
        }
        Ok(plan)
    }

    /// The shape of the multiplication.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Where every node's rectangle of C lies, in blocks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Columns of this rank's part of C for each of its devices, in elements.
    pub fn slices(&self) -> &[usize] {
        &self.slices
    }

    /// How the nodes were balanced; `None` on a layout of the caller's own.
    pub fn balance(&self) -> Option<&NodeBalance> {
        self.balance.as_ref()
    }

    /// Width of the panels, as [`Problem::panel`].
    pub fn panel(&self) -> usize {
        self.problem.panel(self.layout.rects().len())
    }

    /// Number of updates, `ceil(k/panel)`.
    pub fn steps(&self) -> usize {
        self.problem.k.div_ceil(self.panel())
    }

    /// Inner dimension of the updates that were measured, and by whose times the plan was made.
    pub fn kernel_width(&self) -> usize {
        self.kernel_width
    }

    /// Seconds that measuring and partitioning took.
    pub fn balance_s(&self) -> f64 {
        self.balance_s
    }

    /// How the measurements of this rank's devices went that the plan is made from.
    pub fn measured(&self) -> &MeasureTally {
        &self.measured
    }

    /// How C is spread: one rectangle a rank.
    pub fn c(&self) -> Distribution {
        let Problem { m, n, block, .. } = self.problem;
        Distribution::new(m, n, block, self.layout.clone())
    }

    /// How A is spread: its rows as C's, its columns (k) over the owners of C's columns in proportion.
    pub fn a(&self) -> Distribution {
        let Problem { m, k, block, .. } = self.problem;
        let blocks = k.div_ceil(block) as u64;
        let layout = if self.layout.cols() == 0 {
            self.even(self.layout.rows(), blocks)
        } else {
            self.layout.scale_cols(blocks)
        };
        Distribution::new(m, k, block, Arc::new(layout))
    }

    /// How B is spread: its columns as C's, its rows (k) over the owners of C's rows in proportion.
    pub fn b(&self) -> Distribution {
        let Problem { n, k, block, .. } = self.problem;
        let blocks = k.div_ceil(block) as u64;
        let layout = if self.layout.rows() == 0 {
            self.even(blocks, self.layout.cols())
        } else {
            self.layout.scale_rows(blocks)
        };
        Distribution::new(k, n, block, Arc::new(layout))
    }

    /// A layout for an operand of an empty C, which gives no proportions to follow.
    fn even(&self, rows: u64, cols: u64) -> Layout {
        columns::br(&vec![1.0; self.layout.rects().len()], rows, cols)
            .unwrap_or_else(|error| panic!("equal areas have a layout: {error}"))
    }

    /// Bytes of host memory that `rank` needs for its parts, the panels and messages of three steps, and
    /// the vectors of the result check.
    pub fn memory_bytes(&self, rank: usize) -> u64 {
        let (a, b, c) = (self.a(), self.b(), self.c());
        let width = self.panel();
        let parts = [&a, &b, &c].map(|matrix| {
            let part = matrix.part(rank);
            leading_dimension(part.rows) * part.cols
        });
        let mine = c.part(rank);
        // In each set the panels, rows of A on their way into one, and what is packed for others.
        let [of_a, of_b] = Schedule::new(self, rank).needs_panels().map(usize::from);
        let panels = width * (SETS * (2 * of_a * mine.rows + of_b * mine.cols));
        let (my_a, my_b) = (a.part(rank), b.part(rank));
        let sent = |other: Part| {
            let rows = intersect(&my_a.row_range(), &other.row_range()).len();
            rows + intersect(&my_b.col_range(), &other.col_range()).len()
        };
        let others = (0..c.n_ranks()).filter(|&other| other != rank);
        let messages = SETS * width * others.map(|other| sent(c.part(other))).sum::<usize>();
        let vectors = 6 * (self.problem.m + self.problem.n + self.problem.k);
        8 * (parts.iter().sum::<usize>() + panels + messages + vectors) as u64
    }
}
