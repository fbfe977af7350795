//! Who sends what to whom in one step of SUMMA.
//!
//! In step `s` every rank needs the rows of its part of C from the pivot block column of A, and the columns of
//! its part from the pivot block row of B. A piece goes from the rank that holds it straight to each rank that
//! needs it, so the volume is what the layout says it is: per step, the half perimeters of the parts less what
//! a rank holds itself.

use std::ops::Range;

use super::plan::Plan;
use crate::matrix::{Part, intersect};

/// A stretch of the pivot column (rows of A) or the pivot row (columns of B) that goes from one rank to
/// another, or stays where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// The other rank, or this rank itself.
    pub rank: usize,
    /// Indices in the whole matrix: rows of A, columns of B.
    pub range: Range<usize>,
}

/// One rank's share of one step.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Transfers {
    pub sends: Vec<Segment>,
    pub recvs: Vec<Segment>,
    /// What this rank holds itself.
    pub own: Option<Range<usize>>,
}

/// One rank's transfers in every step.
#[derive(Debug)]
pub(super) struct Schedule {
    rank: usize,
    block: usize,
    k: usize,
    a_parts: Vec<Part>,
    b_parts: Vec<Part>,
    c_parts: Vec<Part>,
}

impl Schedule {
    pub(super) fn new(plan: &Plan, rank: usize) -> Self {
        let (a, b, c) = (plan.a(), plan.b(), plan.c());
        let ranks = 0..c.n_ranks();
        Self {
            rank,
            block: plan.problem().block(),
            k: plan.problem().k(),
            a_parts: ranks.clone().map(|rank| a.part(rank)).collect(),
            b_parts: ranks.clone().map(|rank| b.part(rank)).collect(),
            c_parts: ranks.map(|rank| c.part(rank)).collect(),
        }
    }

    /// The indices along k of one step.
    pub(super) fn k_range(&self, step: usize) -> Range<usize> {
        let start = step * self.block;
        start..(start + self.block).min(self.k)
    }

    /// Rows of A in one step.
    pub(super) fn a(&self, step: usize) -> Transfers {
        let pivot = step * self.block;
        self.transfers(
            |rank| {
                self.a_parts[rank]
                    .col_range()
                    .contains(&pivot)
                    .then(|| self.a_parts[rank].row_range())
            },
            |part| part.row_range(),
        )
    }

    /// Columns of B in one step.
    pub(super) fn b(&self, step: usize) -> Transfers {
        let pivot = step * self.block;
        self.transfers(
            |rank| {
                self.b_parts[rank]
                    .row_range()
                    .contains(&pivot)
                    .then(|| self.b_parts[rank].col_range())
            },
            |part| part.col_range(),
        )
    }

    /// `held`: what a rank holds of the pivot; `needed`: what a part of C needs of it.
    fn transfers(
        &self,
        held: impl Fn(usize) -> Option<Range<usize>>,
        needed: impl Fn(&Part) -> Range<usize>,
    ) -> Transfers {
        let needs = |rank: usize| {
            let part = &self.c_parts[rank];
            if part.is_empty() { 0..0 } else { needed(part) }
        };
        let shared = |holder: Option<Range<usize>>, reader: usize| {
            holder
                .map(|range| intersect(&range, &needs(reader)))
                .filter(|range| !range.is_empty())
        };
        let others = || (0..self.c_parts.len()).filter(|&rank| rank != self.rank);
        let segment = |rank, range| Segment { rank, range };
        Transfers {
            sends: others()
                .filter_map(|rank| shared(held(self.rank), rank).map(|range| segment(rank, range)))
                .collect(),
            recvs: others()
                .filter_map(|rank| shared(held(rank), self.rank).map(|range| segment(rank, range)))
                .collect(),
            own: shared(held(self.rank), self.rank),
        }
    }
}
