//! The shape of a multiplication: dimensions, blocks, operations and element type.
//!
//! # Deviations
//! * **Homogeneous matrices**: the papers' matrices are square, and N is a multiple of b (thesis, section 5.2; Clarke
//!   et al. 2012, section 3). Here any m, n, k and b are allowed, because users' matrices have any shape.

mod element;
mod op;
mod split;

pub use element::ElementType;
pub use op::Op;
pub use split::Split;

use serde::{Deserialize, Serialize};

/// The shape of a multiplication `C = alpha·op(A)·op(B) + beta·C`, and the type of its elements.
///
/// `op(A): m×k`, `op(B): k×n`, `C: m×n`, in blocks of `b×b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Problem {
    /// Rows of A and C.
    m: usize,
    /// Columns of B and C.
    n: usize,
    /// Columns of A, rows of B.
    k: usize,
    /// Block size b.
    block: usize,
    /// Width of the panels that was asked for; `None` without one.
    panel: Option<usize>,
    /// Operations on A and B: `n` none, `t` the transpose, `c` the conjugate transpose.
    ops: [Op; 2],
    /// Type of the elements.
    element: ElementType,
    /// Dimension that the caller wants divided.
    split: Split,
    /// `true` if A and B may be made or read in parts of k.
    in_parts: bool,
}

/// A parameter of a problem that has an impossible value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} = {value}: {reason}")]
pub struct ProblemError {
    /// Name of the parameter.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Reason why it cannot be used.
    pub reason: String,
}

impl ProblemError {
    fn new(name: &'static str, value: impl ToString, reason: impl Into<String>) -> Self {
        Self { name, value: value.to_string(), reason: reason.into() }
    }
}

/// Panel width above which wider updates are hardly faster.
const WIDE_PANEL: usize = 256;
/// Panel width of a single rank. It copies nothing, and a wide panel feeds a streaming device more at a time.
const SINGLE_PANEL: usize = 1024;
/// Inner dimension below which the reading and writing of C bounds the speed of an update.
const NARROW_KERNEL: usize = 128;
/// Fewest steps of a run whose links were not measured; panels are narrower if there would be fewer.
const MIN_STEPS: usize = 32;

/// The widest panel chosen for measured links. Panels twice as wide gain about 1 % and take twice the memory.
const WIDEST_PANEL: usize = 512;
/// Cost of narrow panels: an update of width `w` takes `1 + NARROWNESS/w` times as long as its arithmetic in a wide
/// one, since every update reads and writes C. That is 0.92 of the speed at 128 (`cargo xtask bench update`).
const NARROWNESS: f64 = 12.0;

/// Blocks of C for each rank that divide the work as finely as speeds are known.
const BLOCKS_PER_RANK: usize = 256;
/// The block sizes to choose from.
const BLOCKS: [usize; 3] = [128, 64, 32];

impl Problem {
    /// Returns the block size for C of `m×n` on this number of ranks: the largest of 128, 64 and 32 that
    /// leaves each rank 256 blocks, or 32.
    pub fn choose_block(m: usize, n: usize, ranks: usize) -> usize {
        let count = |block: usize| m.div_ceil(block).saturating_mul(n.div_ceil(block));
        let wanted = BLOCKS_PER_RANK.saturating_mul(ranks);
        BLOCKS.into_iter().find(|&block| count(block) >= wanted).unwrap_or(BLOCKS[BLOCKS.len() - 1])
    }

    /// Makes a multiplication of the given shape, in blocks of any size or the [usual](Self::choose_block) one. Any dimension may be zero.
    ///
    /// # Errors
    /// Returns [`ProblemError`] when `block` is zero or a matrix would have 2⁶⁰ elements or more.
    pub fn new(m: usize, n: usize, k: usize, block: usize) -> Result<Self, ProblemError> {
        let problem = Self {
            m,
            n,
            k,
            // A block larger than every dimension is that dimension's only block.
            block: block.min(m.max(n).max(k).max(1)),
            panel: None,
            ops: [Op::N; 2],
            element: ElementType::F64,
            split: Split::Auto,
            in_parts: false,
        };
        problem.check()?;
        Ok(problem)
    }

    /// Checks a multiplication that was read, as [`new`](Self::new) and [`with_panel`](Self::with_panel) do.
    ///
    /// # Errors
    /// Returns [`ProblemError`] as they return it.
    pub fn check(&self) -> Result<(), ProblemError> {
        let Self { m, n, k, .. } = *self;
        check_widths(self.block, self.panel)?;
        for (name, rows, cols) in [("A", m, k), ("B", k, n), ("C", m, n)] {
            let elements = rows.checked_mul(cols);
            if elements.is_none_or(|elements| elements >= 1 << 60) {
                let reason =
                    format!("matrix {name} would have more elements than any machine can hold");
                return Err(ProblemError::new("size", format!("{rows}×{cols}"), reason));
            }
        }
        Ok(())
    }

    /// Returns the same multiplication with these operations on A and B. The shape stays that of `op(A)` and `op(B)`:
    /// with [`Op::T`] A is stored as `k×m`.
    #[must_use]
    pub fn with_ops(self, ops: [Op; 2]) -> Self {
        Self { ops, ..self }
    }

    /// Returns the same multiplication with elements of this type instead of `f64`.
    #[must_use]
    pub fn with_element(self, element: ElementType) -> Self {
        Self { element, ..self }
    }

    /// Returns the same multiplication with this choice of the dimension that is divided among the nodes.
    #[must_use]
    pub fn with_split(self, split: Split) -> Self {
        Self { split, ..self }
    }

    /// Returns the same multiplication with panels of this width.
    ///
    /// # Errors
    /// Returns [`ProblemError`] when `panel` is zero.
    pub fn with_panel(self, panel: usize) -> Result<Self, ProblemError> {
        let problem = Self { panel: Some(panel), ..self };
        problem.check()?;
        Ok(problem)
    }

    /// Returns the same multiplication over a part of k.
    #[must_use]
    pub fn part_of_k(self, k: usize) -> Self {
        Self { k, ..self }
    }

    /// Allows A and B in parts of k, used if they do not fit the memory whole. The caller must make or read them in
    /// parts.
    #[must_use]
    pub fn in_parts(self) -> Self {
        Self { in_parts: true, ..self }
    }

    /// Returns `true` if A and B may be held in parts of k.
    pub fn may_be_in_parts(&self) -> bool {
        self.in_parts
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

    /// The operations on A and B.
    pub fn ops(&self) -> [Op; 2] {
        self.ops
    }

    /// The choice of the dimension that is divided among the nodes.
    pub fn split(&self) -> Split {
        self.split
    }

    /// The type of the elements.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the width of the panels on this number of ranks: the inner dimension of an update, and of a message.
    ///
    /// A width that the caller did not set is in whole blocks. It is wide enough for the BLAS to be near its
    /// peak, and narrow enough for some dozens of steps that hide communication. One rank has none to hide.
    pub fn panel(&self, ranks: usize) -> usize {
        let default = match ranks {
            1 => self.whole_blocks(SINGLE_PANEL),
            _ => self.whole_blocks(WIDE_PANEL.min(self.k / MIN_STEPS)),
        };
        self.panel.unwrap_or(default).min(self.k.max(1))
    }

    /// Returns the best panel width by prediction, or the one that the caller set.
    ///
    /// Narrow panels cost more updates that read and write C: `compute_s·NARROWNESS/w`. Wide panels cost a longer wait
    /// for the first panel on ranks that do not hold it: `travel_s·w/k`. The sum is least for `w =
    /// √(NARROWNESS·k·compute_s/travel_s)`, with both times in seconds.
    pub fn best_panel(&self, compute_s: f64, travel_s: f64) -> usize {
        let best = (NARROWNESS * self.k as f64 * compute_s / travel_s).sqrt();
        // 0/0 is not a number, which the cast makes 0.
        let width = (best as usize).clamp(NARROW_KERNEL, WIDEST_PANEL);
        self.panel.unwrap_or(self.whole_blocks(width)).min(self.k.max(1))
    }

    /// Returns the time of an update of this width, relative to that of its arithmetic in a wide one.
    pub fn relative_cost(width: usize) -> f64 {
        1.0 + NARROWNESS / width as f64
    }

    /// Returns the widest panel of a run that learns, or the one that the caller set.
    pub fn learning_panel(&self) -> usize {
        self.panel.unwrap_or(self.whole_blocks(WIDE_PANEL))
    }

    /// The width of the panels that the caller set.
    pub fn wanted_panel(&self) -> Option<usize> {
        self.panel
    }

    /// Returns the inner dimension of the update that is measured.
    ///
    /// It is the panel width, unless fewer than `steps` panels make up k. Then it is narrower, in whole blocks if
    /// possible, so that measuring costs a small part of the run. Below 128 the reading and writing of C would bound
    /// its speed.
    pub fn kernel_width(&self, steps: usize, ranks: usize) -> usize {
        let affordable = self.k / steps.max(1);
        self.whole_blocks(affordable.max(NARROW_KERNEL)).min(self.panel(ranks))
    }

    /// Returns the width, in elements, of the whole blocks within `width`; at least one block. The
    /// [usual](Self::choose_block) blocks count as 128. So problems of all sizes have panels of few widths, and
    /// stored times of one size serve the others.
    fn whole_blocks(&self, width: usize) -> usize {
        let block = if BLOCKS.contains(&self.block) { BLOCKS[0] } else { self.block };
        (width / block).max(1) * block
    }

    /// Returns `true` if nothing is to be computed.
    pub fn is_empty(&self) -> bool {
        [self.m, self.n, self.k].contains(&0)
    }

    /// Returns the height and the width, in elements, of a part of C of `rows × cols` blocks that begins in its corner.
    pub fn size_in_elements(&self, rows: u64, cols: u64) -> (usize, usize) {
        (self.block_end(rows, self.m), self.block_end(cols, self.n))
    }

    /// Rows and columns of C in blocks.
    pub fn c_blocks(&self) -> (u64, u64) {
        let [rows, cols] = [self.m, self.n].map(|length| length.div_ceil(self.block) as u64);
        (rows, cols)
    }

    /// Returns the index after the first `blocks` blocks of a dimension of `length` elements.
    pub fn block_end(&self, blocks: u64, length: usize) -> usize {
        (blocks as usize).saturating_mul(self.block).min(length)
    }

    /// k in blocks.
    pub fn k_blocks(&self) -> u64 {
        self.k.div_ceil(self.block) as u64
    }

    /// Floating-point operations, `2·m·n·k`; `8·m·n·k` of complex numbers.
    pub fn flop(&self) -> f64 {
        self.element.flop() * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Bytes of the three matrices that are held at a time. If A and B may be in parts of k, a narrow panel of each
    /// counts.
    pub fn matrix_bytes(&self) -> u64 {
        let k = match (self.in_parts, self.split) {
            (true, Split::Auto | Split::C) => NARROW_KERNEL.min(self.k),
            _ => self.k,
        };
        let [m, n, k] = [self.m, self.n, k].map(|length| length as u128);
        let bytes = self.element.bytes() as u128 * (m * k + k * n + m * n);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// Checks the width of blocks, and of panels if it is given.
///
/// # Errors
/// Returns [`ProblemError`] if a width is zero.
pub fn check_widths(block: usize, panel: Option<usize>) -> Result<(), ProblemError> {
    if block == 0 {
        let reason = "a block needs at least one row and column";
        return Err(ProblemError::new("block", 0, reason));
    }
    if panel == Some(0) {
        let reason = "a panel is at least one column wide";
        return Err(ProblemError::new("panel", 0, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_wide_as_leaves_enough_for_each_rank() {
        for (m, n, ranks, block) in [
            (4096, 4096, 4, 128),
            (4095, 4095, 4, 128),
            (3968, 4096, 4, 64),
            (2048, 2048, 4, 64),
            (2048, 2048, 1, 128),
            (65536, 512, 4, 128),
            (1536, 1536, 4, 32),
            (1, 1, 1, 32),
            (0, 9, 2, 32),
            (usize::MAX, usize::MAX, 7, 128),
            (64, 64, usize::MAX, 32),
        ] {
            assert_eq!(Problem::choose_block(m, n, ranks), block, "{m}×{n} on {ranks}");
        }
    }

    #[test]
    fn panels_do_not_depend_on_the_usual_blocks() {
        let list_widths = |block: usize| {
            let problem = Problem::new(2048, 2048, 2048, block).unwrap();
            let best = [0.01, 0.6, 9.0].map(|travel_s| problem.best_panel(1.0, travel_s));
            let others = [
                problem.panel(1),
                problem.panel(4),
                problem.learning_panel(),
                problem.kernel_width(9, 4),
            ];
            [&best[..], &others].concat()
        };
        for block in [64, 32] {
            assert_eq!(list_widths(block), list_widths(128), "{block}");
        }
        assert!(list_widths(48).iter().all(|width| width % 48 == 0));
    }

    #[test]
    fn panels_are_wide_where_little_travels_and_narrow_where_much_does() {
        let problem = Problem::new(4096, 4096, 4096, 64).unwrap();
        let cases = [
            (1.0, 0.0, 512),
            (1.0, 0.001, 512),
            // √(12·4096·1/0.6) = 286, in whole blocks.
            (1.0, 0.6, 256),
            (1.0, 100.0, 128),
            (0.0, 0.0, 128),
        ];
        for (compute_s, travel_s, width) in cases {
            assert_eq!(problem.best_panel(compute_s, travel_s), width);
        }
        assert_eq!(problem.learning_panel(), 256);
        let asked = problem.with_panel(40).unwrap();
        assert_eq!(asked.best_panel(1.0, 0.0), 40);
        assert_eq!(asked.learning_panel(), 40);
        let short = Problem::new(65536, 512, 300, 128).unwrap();
        assert_eq!(short.best_panel(1.0, 1e-9), 300);
        // Without predictions: alone as wide as a streaming device likes it, else 32 steps at least.
        assert_eq!([1, 2].map(|ranks| problem.panel(ranks)), [1024, 128]);
        let long = Problem::new(64, 64, 1 << 20, 64).unwrap();
        assert_eq!([1, 2].map(|ranks| long.panel(ranks)), [1024, 256]);
    }
}
