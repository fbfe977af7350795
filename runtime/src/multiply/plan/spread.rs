//! How the matrices of a plan are spread over the ranks.

use std::sync::Arc;

use isochron_devices::Element;
use isochron_hierarchy::layout::{Layout, columns, slice_cols, slice_rows};

use super::{Plan, Split};
use crate::matrix::{Distribution, Matrix, Operand};
use crate::multiply::schedule::{A, B, StepSchedule};

impl Plan {
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
    pub(in crate::multiply) fn factors(&self) -> [Distribution; 2] {
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
    pub(in crate::multiply) fn needs_panels(&self, schedule: &StepSchedule) -> [bool; 2] {
        let mut needed = schedule.needs_panels();
        for (side, needed) in needed.iter_mut().enumerate() {
            *needed |= self.problem.ops()[side].transposes() && schedule.reads_factor(side);
        }
        needed
    }
}
