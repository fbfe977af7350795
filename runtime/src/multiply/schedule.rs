//! Who sends what to whom in one step of SUMMA.
//!
//! In step `s` every rank needs the rows of its part of C from the pivot columns of A, and the columns of its part from
//! the pivot rows of B. A piece goes from the rank that holds it straight to each rank that needs it, so the volume is
//! what the layout says it is: per step, the half perimeters of the parts less what a rank holds itself. The pivot is as
//! wide as the panels, whatever the blocks are, so that several ranks may hold a part of it.

use std::ops::Range;

use super::plan::Plan;
use crate::matrix::{Part, intersect};

/// A stretch of the pivot columns of A or the pivot rows of B that goes from one rank to another, or stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// The other rank, or this rank itself.
    pub rank: usize,
    /// Indices in the whole matrix: rows of A, columns of B.
    pub lines: Range<usize>,
    /// Indices along k.
    pub k: Range<usize>,
}

/// One rank's share of one step.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Transfers {
    pub sends: Vec<Segment>,
    pub recvs: Vec<Segment>,
    /// What this rank holds itself of what it needs.
    pub own: Option<Segment>,
}

/// One rank's transfers in every step.
#[derive(Debug)]
pub(super) struct Schedule {
    rank: usize,
    width: usize,
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
            width: plan.panel(),
            k: plan.problem().k(),
            a_parts: ranks.clone().map(|rank| a.part(rank)).collect(),
            b_parts: ranks.clone().map(|rank| b.part(rank)).collect(),
            c_parts: ranks.map(|rank| c.part(rank)).collect(),
        }
    }

    /// Whether this rank needs panels of A, and of B, that it does not hold itself, in any step.
    pub(super) fn needs_panels(&self) -> [bool; 2] {
        let c = &self.c_parts[self.rank];
        let (a, b) = (&self.a_parts[self.rank], &self.b_parts[self.rank]);
        let whole = |lines: Range<usize>, held: Range<usize>, k: Range<usize>| {
            intersect(&lines, &held) == lines && k == (0..self.k)
        };
        let a = whole(c.row_range(), a.row_range(), a.col_range());
        let b = whole(c.col_range(), b.col_range(), b.row_range());
        [a, b].map(|whole| !whole && !c.is_empty())
    }

    /// The indices along k of one step.
    pub(super) fn k_range(&self, step: usize) -> Range<usize> {
        let start = step * self.width;
        start..(start + self.width).min(self.k)
    }

    /// Rows of A in one step.
    pub(super) fn a(&self, step: usize) -> Transfers {
        let held = |part: &Part| (part.row_range(), part.col_range());
        self.transfers(step, &self.a_parts, held, Part::row_range)
    }

    /// Columns of B in one step.
    pub(super) fn b(&self, step: usize) -> Transfers {
        let held = |part: &Part| (part.col_range(), part.row_range());
        self.transfers(step, &self.b_parts, held, Part::col_range)
    }

    /// `held`: the lines and the indices along k that a part of an operand holds; `needed`: the lines that a part of C
    /// needs.
    fn transfers(
        &self,
        step: usize,
        parts: &[Part],
        held: impl Fn(&Part) -> (Range<usize>, Range<usize>),
        needed: impl Fn(&Part) -> Range<usize>,
    ) -> Transfers {
        let pivot = self.k_range(step);
        let shared = |holder: usize, reader: usize| {
            let part = &self.c_parts[reader];
            let (lines, k) = held(&parts[holder]);
            let (lines, k) = (intersect(&lines, &needed(part)), intersect(&k, &pivot));
            (!part.is_empty() && !lines.is_empty() && !k.is_empty()).then_some((lines, k))
        };
        let segment = |rank: usize, (lines, k)| Segment { rank, lines, k };
        let others = || (0..self.c_parts.len()).filter(|&rank| rank != self.rank);
        let me = self.rank;
        Transfers {
            sends: others()
                .filter_map(|rank| Some(segment(rank, shared(me, rank)?)))
                .collect(),
            recvs: others()
                .filter_map(|rank| Some(segment(rank, shared(rank, me)?)))
                .collect(),
            own: shared(me, me).map(|what| segment(me, what)),
        }
    }
}
