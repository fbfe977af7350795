//! Who sends what to whom in one step of SUMMA.
//!
//! In step `s` every rank needs the rows of its part of C from the pivot columns of A, and the columns of its part from
//! the pivot rows of B. A piece goes from the rank that holds it straight to each rank that needs it, so the volume is
//! what the layout says it is: per step, the half perimeters of the parts less what a rank holds itself. The pivot is as
//! wide as the panels, whatever the blocks are, so that several ranks may hold a part of it.

use std::ops::Range;

use isochron_devices::ViewMut;

use super::plan::{Plan, Split};
use crate::matrix::{Part, intersect};

/// The factors of a product, as indices.
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;

/// Rows and columns of a factor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub rows: Range<usize>,
    pub cols: Range<usize>,
}

impl Block {
    fn of(part: &Part) -> Self {
        Self {
            rows: part.row_range(),
            cols: part.col_range(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() * self.cols.len()
    }

    fn intersection(&self, other: &Self) -> Self {
        Self {
            rows: intersect(&self.rows, &other.rows),
            cols: intersect(&self.cols, &other.cols),
        }
    }

    /// Where `part` of this block lies in a buffer that holds the block column after column.
    pub(super) fn place<'b, T>(&self, part: &Block, buffer: &'b mut [T]) -> ViewMut<'b, T> {
        let (rows, cols) = (self.rows.len(), self.cols.len());
        let from = |range: &Range<usize>, start: usize| range.start - start..range.end - start;
        ViewMut::new(buffer, rows, cols, rows.max(1)).into_block(
            from(&part.rows, self.rows.start),
            from(&part.cols, self.cols.start),
        )
    }
}

/// One rank's share of one step, for one factor: blocks, and the other rank.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Transfers {
    pub sends: Vec<(usize, Block)>,
    pub recvs: Vec<(usize, Block)>,
    /// What this rank holds itself of what it needs.
    pub own: Option<Block>,
}

/// One rank's transfers in every step.
#[derive(Debug)]
pub(super) struct Schedule {
    rank: usize,
    width: usize,
    /// The indices along k that this rank computes over.
    k: Range<usize>,
    /// What every rank holds of each factor.
    factors: [Vec<Part>; 2],
    /// The part of C that every rank computes with panels of this rank's k.
    c_parts: Vec<Part>,
}

impl Schedule {
    pub(super) fn new(plan: &Plan, rank: usize) -> Self {
        let ranks = 0..plan.n_ranks();
        // Where k is split, nobody else computes with what this rank holds.
        let computed = |other: usize| match plan.split() {
            Split::K(_) if other != rank => Part::default(),
            _ => plan.computed(other),
        };
        let factors = plan.factors().map(|factor| {
            let parts = ranks.clone().map(|rank| factor.part(rank));
            parts.collect()
        });
        Self {
            rank,
            width: plan.panel(),
            k: plan.k_range(rank),
            factors,
            c_parts: ranks.map(computed).collect(),
        }
    }

    /// The part of C that this rank computes.
    pub(super) fn c(&self) -> Part {
        self.c_parts[self.rank]
    }

    /// Whether this rank needs panels of A, and of B, that it does not hold itself, in any step.
    pub(super) fn needs_panels(&self) -> [bool; 2] {
        let needed = self.needed_by(self.rank, &self.k);
        [A, B].map(|side| {
            let held = Block::of(&self.factors[side][self.rank]);
            needed[side].len() > 0 && held.intersection(&needed[side]) != needed[side]
        })
    }

    /// Whether this rank reads a factor at all.
    pub(super) fn reads(&self, side: usize) -> bool {
        self.needed_by(self.rank, &self.k)[side].len() > 0
    }

    /// The indices along k of one step.
    fn k_range(&self, step: usize) -> Range<usize> {
        let start = self.k.start + step * self.width;
        start..(start + self.width).min(self.k.end)
    }

    /// What this rank needs of each factor in one step.
    pub(super) fn panels(&self, step: usize) -> [Block; 2] {
        self.needed_by(self.rank, &self.k_range(step))
    }

    /// What a rank needs of each factor for these indices along k.
    fn needed_by(&self, rank: usize, k: &Range<usize>) -> [Block; 2] {
        let part = &self.c_parts[rank];
        let of_a = Block {
            rows: part.row_range(),
            cols: k.clone(),
        };
        let of_b = Block {
            rows: k.clone(),
            cols: part.col_range(),
        };
        if part.is_empty() {
            return [Block::default(), Block::default()];
        }
        [of_a, of_b]
    }

    /// What of a factor comes and goes in one step.
    pub(super) fn transfers(&self, step: usize, side: usize) -> Transfers {
        let pivot = self.k_range(step);
        let shared = |holder: usize, reader: usize| {
            let held = Block::of(&self.factors[side][holder]);
            let block = held.intersection(&self.needed_by(reader, &pivot)[side]);
            (block.len() > 0).then_some(block)
        };
        let others = || (0..self.c_parts.len()).filter(|&rank| rank != self.rank);
        let me = self.rank;
        Transfers {
            sends: others()
                .filter_map(|rank| Some((rank, shared(me, rank)?)))
                .collect(),
            recvs: others()
                .filter_map(|rank| Some((rank, shared(rank, me)?)))
                .collect(),
            own: shared(me, me),
        }
    }
}
