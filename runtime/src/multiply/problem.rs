//! What is multiplied: shapes, blocks, operations and the type of the elements.

use std::fmt;
use std::str::FromStr;

use isochron_devices::ElementType;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::matrix::Op;

/// What the nodes' shares are to be cut from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SplitChoice {
    /// What is predicted to be faster.
    #[default]
    Auto,
    /// C: panels of A and B travel.
    C,
    /// k: A and B stay, and parts of C are summed.
    K,
}

impl fmt::Display for SplitChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::C => "c",
            Self::K => "k",
        })
    }
}

impl FromStr for SplitChoice {
    type Err = String;

    /// Reads `auto`, `c` or `k`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "c" => Ok(Self::C),
            "k" => Ok(Self::K),
            _ => Err(format!("unknown split `{text}`: use auto, c or k")),
        }
    }
}

/// The shape of a multiplication `C = alpha·op(A)·op(B) + beta·C`: `op(A): m×k`, `op(B): k×n`, `C: m×n`, in blocks of
/// `b×b`, and the type of its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    m: usize,
    n: usize,
    k: usize,
    block: usize,
    panel: Option<usize>,
    ops: [Op; 2],
    element: ElementType,
    split: SplitChoice,
    in_parts: bool,
}

/// The inner dimension from which on wider updates are hardly faster.
const WIDE_PANEL: usize = 256;
/// Of one rank, which copies nothing: a device that streams is fed with more at a time.
const SINGLE_PANEL: usize = 1024;
/// The inner dimension below which an update is bound by the memory that C is read from and written to.
const NARROW_KERNEL: usize = 128;
/// Panels are narrower where there would be fewer steps and nothing is known of the links.
const MIN_STEPS: usize = 32;

/// The widest panels that are chosen where the links are known: twice as wide ones gain about a hundredth, and take twice
/// the memory.
const WIDEST_PANEL: usize = 512;
/// An update of width `w` takes `1 + NARROWNESS/w` times as long as its arithmetic in wide ones, for C has to be read and
/// written again in each: 0.92 of the speed at 128 (`cargo xtask bench update`).
const NARROWNESS: f64 = 12.0;

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
        // A block larger than every dimension is that dimension's only block.
        let block = if block == 0 {
            0
        } else {
            block.min(m.max(n).max(k).max(1))
        };
        let problem = Self {
            m,
            n,
            k,
            block,
            panel: None,
            ops: [Op::N; 2],
            element: ElementType::F64,
            split: SplitChoice::Auto,
            in_parts: false,
        };
        problem.check()?;
        Ok(problem)
    }

    /// What [`new`](Self::new) and [`with_panel`](Self::with_panel) check, for one that was read.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Self {
            m,
            n,
            k,
            block,
            panel,
            ..
        } = *self;
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
        match panel {
            Some(0) => Err(Error::Parameter {
                name: "panel",
                value: "0".to_string(),
                reason: "a panel is at least one column wide".to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// The same multiplication with these operations on A and on B. The shape stays that of what is multiplied: with
    /// [`Op::T`] A is stored as `k×m`.
    #[must_use]
    pub fn with_ops(self, ops: [Op; 2]) -> Self {
        Self { ops, ..self }
    }

    /// The same multiplication of matrices of this type, in place of `f64`.
    #[must_use]
    pub fn with_element(self, element: ElementType) -> Self {
        Self { element, ..self }
    }

    /// The same multiplication with this to cut the nodes' shares from.
    #[must_use]
    pub fn with_split(self, split: SplitChoice) -> Self {
        Self { split, ..self }
    }

    /// The same multiplication with panels of this width.
    ///
    /// # Errors
    /// [`Error::Parameter`] when `panel` is zero.
    pub fn with_panel(self, panel: usize) -> Result<Self, Error> {
        let problem = Self {
            panel: Some(panel),
            ..self
        };
        problem.check()?;
        Ok(problem)
    }

    /// The same multiplication over a part of k, with panels of this width.
    #[must_use]
    pub(super) fn part_of_k(self, k: usize, panel: usize) -> Self {
        Self {
            k,
            panel: Some(panel),
            ..self
        }
    }

    /// The same multiplication with A and B in parts of k where they do not fit the memory whole: for callers who make or read
    /// them in parts ([`Session::multiply_in_parts`](crate::session::Session::multiply_in_parts)).
    #[must_use]
    pub fn in_parts(self) -> Self {
        Self {
            in_parts: true,
            ..self
        }
    }

    /// Whether A and B may be held in parts of k.
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

    /// What the nodes' shares are to be cut from.
    pub fn split(&self) -> SplitChoice {
        self.split
    }

    /// The type of the elements.
    pub fn element(&self) -> ElementType {
        self.element
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

    /// The same with the width of the panels that is predicted to be best, where nobody says one: narrow panels cost updates
    /// that read and write C once more, `t·NARROWNESS/w` of the arithmetic's `compute_s`, and wide ones a first panel that
    /// those wait for who do not hold it, `w/k` of the messages' `travel_s`. Both together are least for
    /// `w = √(NARROWNESS·k·compute_s/travel_s)`.
    #[must_use]
    pub(crate) fn with_best_panel(self, compute_s: f64, travel_s: f64) -> Self {
        let best = (NARROWNESS * self.k as f64 * compute_s / travel_s).sqrt();
        // Not a number where there is neither.
        let width = if best >= NARROW_KERNEL as f64 {
            best.min(WIDEST_PANEL as f64) as usize
        } else {
            NARROW_KERNEL
        };
        let panel = whole_blocks(width, self.block).min(self.k.max(1));
        Self {
            panel: self.panel.or(Some(panel)),
            ..self
        }
    }

    /// Inner dimension of the update whose time tells the devices' speeds: that of the panels, unless fewer than `steps`
    /// of them make up k. Then it is narrower, whole blocks if it can be, so that measuring costs a small part of the
    /// whole; but not so narrow that it is another kernel, which spends its time on C and not on arithmetic.
    pub fn kernel_width(&self, steps: usize, ranks: usize) -> usize {
        let affordable = self.k / steps.max(1);
        whole_blocks(affordable.max(NARROW_KERNEL), self.block).min(self.panel(ranks))
    }

    /// Rows and columns of C in blocks.
    pub fn c_blocks(&self) -> (u64, u64) {
        (
            self.m.div_ceil(self.block) as u64,
            self.n.div_ceil(self.block) as u64,
        )
    }

    /// k in blocks.
    pub fn k_blocks(&self) -> u64 {
        self.k.div_ceil(self.block) as u64
    }

    /// Floating-point operations, `2·m·n·k`; `8·m·n·k` of complex numbers.
    pub fn flop(&self) -> f64 {
        self.element.flop() * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Bytes of the three matrices together, as far as they are held at a time: of A and B at least a panel.
    pub fn matrix_bytes(&self) -> u64 {
        let k = match (self.in_parts, self.split) {
            (true, SplitChoice::Auto | SplitChoice::C) => NARROW_KERNEL.min(self.k),
            _ => self.k,
        };
        let [m, n, k] = [self.m, self.n, k].map(|length| length as u128);
        let bytes = self.element.bytes() as u128 * (m * k + k * n + m * n);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_are_wide_where_little_travels_and_narrow_where_much_does() {
        let problem = Problem::new(4096, 4096, 4096, 64).unwrap();
        let width = |compute_s, travel_s| {
            let chosen = problem.with_best_panel(compute_s, travel_s);
            chosen.panel(2)
        };
        assert_eq!(width(1.0, 0.0), 512);
        assert_eq!(width(1.0, 0.001), 512);
        // √(12·4096·1/0.6) = 286, in whole blocks.
        assert_eq!(width(1.0, 0.6), 256);
        assert_eq!(width(1.0, 100.0), 128);
        assert_eq!(width(0.0, 0.0), 128);
        let asked = problem.with_panel(40).unwrap();
        assert_eq!(asked.with_best_panel(1.0, 0.0).panel(2), 40);
        let short = Problem::new(65536, 512, 300, 128).unwrap();
        assert_eq!(short.with_best_panel(1.0, 1e-9).panel(2), 300);
    }
}
