//! The spread of a plan's matrices over the ranks.

use isochron_devices::Scalar;
use isochron_hierarchy::layout::{Layout, columns, slice_cols, slice_rows};

use super::Plan;
use crate::matrix::{HeldMatrix, Operand, Spread};
use crate::plan::schedule::{A, B};

impl Plan {
    /// Returns the spread of C: one rectangle per rank.
    pub fn c(&self) -> Spread {
        let problem = &self.problem;
        Spread::on_layout(problem.m(), problem.n(), problem.block(), self.layout())
    }

    /// Returns the spread of A, as it is stored.
    ///
    /// op(A) takes its rows from C's layout and spreads its columns (k) over the owners of C's columns in proportion. If k
    /// is split, it lies in slices of columns. A [prepared](crate::session::Session::prepare) product may leave it where it
    /// is.
    pub fn a(&self) -> Spread {
        self.stored(A)
    }

    /// Returns the spread of B, as it is stored.
    ///
    /// op(B) takes its columns from C's layout and spreads its rows (k) over the owners of C's rows in proportion. If k is
    /// split, it lies in slices of rows. A [prepared](crate::session::Session::prepare) product may leave it where it is.
    pub fn b(&self) -> Spread {
        self.stored(B)
    }

    /// Returns the factors op(A) and op(B) for A and B as they are stored.
    pub fn operands<'a, T: Scalar>(
        &self,
        a: &'a HeldMatrix<'a, T>,
        b: &'a HeldMatrix<'a, T>,
    ) -> [Operand<'a, T>; 2] {
        let [op_a, op_b] = self.problem.ops();
        [Operand::new(a, op_a), Operand::new(b, op_b)]
    }

    fn stored(&self, side: usize) -> Spread {
        let factor = &self.factors()[side];
        if self.problem.ops()[side].transposes() { factor.transposed() } else { factor.clone() }
    }

    /// Returns the spreads of op(A) and op(B).
    pub(crate) fn factors(&self) -> [Spread; 2] {
        let problem = &self.problem;
        let blocks = problem.k_blocks();
        let layout = self.layout();
        let (rows, cols) = (layout.rows(), layout.cols());
        let [of_a, of_b] = match self.division().shares() {
            Some(shares) => [slice_cols(rows, shares), slice_rows(cols, shares)]
                .map(|layout| layout.unwrap_or_else(|error| panic!("shares of k: {error}"))),
            None => [
                match cols {
                    0 => self.even_layout(rows, blocks),
                    _ => layout.scale_cols(blocks),
                },
                match rows {
                    0 => self.even_layout(blocks, cols),
                    _ => layout.scale_rows(blocks),
                },
            ],
        };
        let (m, n, k) = (problem.m(), problem.n(), problem.k());
        let spread =
            |side: usize, (rows, cols): (usize, usize), layout: &Layout| match &self.lying[side] {
                Some(parts) => Spread::with_regions(rows, cols, parts.iter().copied()),
                None => Spread::on_layout(rows, cols, problem.block(), layout),
            };
        [spread(A, (m, k), &of_a), spread(B, (k, n), &of_b)]
    }

    /// Returns a layout for an operand of an empty C, which has no proportions to follow.
    fn even_layout(&self, rows: u64, cols: u64) -> Layout {
        columns::br(&vec![1.0; self.n_ranks()], rows, cols)
            .unwrap_or_else(|error| panic!("equal areas have a layout: {error}"))
    }
}
