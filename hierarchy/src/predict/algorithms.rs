//! Algorithms whose time is predicted: a stencil with halos, a reduction along a tree, and a multiplication on a grid.

use super::{Algorithm, Scheme};
use crate::network::count_rounds;
use crate::partition::apportion;

/// Sweeps over a grid in slices of rows. Before each sweep neighbours exchange their outermost rows. A unit is a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Stencil {
    /// Rows of each process.
    pub rows: Vec<u64>,
    /// Bytes of a row.
    pub row_bytes: f64,
    /// Number of sweeps.
    pub sweeps: usize,
}

impl Algorithm for Stencil {
    fn processes(&self) -> usize {
        self.rows.len()
    }

    fn volume(&self, process: usize) -> f64 {
        (self.rows[process] * self.sweeps as u64) as f64
    }

    fn size(&self, process: usize) -> f64 {
        self.rows[process] as f64
    }

    fn bytes(&self, from: usize, to: usize) -> f64 {
        if from.abs_diff(to) == 1 { self.row_bytes * self.sweeps as f64 } else { 0.0 }
    }

    fn scheme(&self, order: &mut Scheme) {
        let percent = 100.0 / self.sweeps as f64;
        order.repeat(self.sweeps, |order| {
            order.par(|order| {
                for process in 1..self.processes() {
                    order.transfer(process - 1, process, percent);
                    order.transfer(process, process - 1, percent);
                }
            });
            order.par(|order| (0..self.processes()).for_each(|it| order.compute(it, percent)));
        });
    }
}

/// All processes work, and then a sum of vectors goes along a binomial tree to process 0.
#[derive(Debug, Clone, PartialEq)]
pub struct ReductionTree {
    /// Units of work of each process.
    pub volumes: Vec<f64>,
    /// Bytes of a vector.
    pub bytes: f64,
}

impl Algorithm for ReductionTree {
    fn processes(&self) -> usize {
        self.volumes.len()
    }

    fn volume(&self, process: usize) -> f64 {
        self.volumes[process]
    }

    fn bytes(&self, from: usize, to: usize) -> f64 {
        let is_sent = from > to && from - to == 1 << from.trailing_zeros();
        if is_sent { self.bytes } else { 0.0 }
    }

    fn scheme(&self, order: &mut Scheme) {
        order.par(|order| (0..self.processes()).for_each(|it| order.compute(it, 100.0)));
        for round in 0..count_rounds(self.processes().saturating_sub(1)) {
            let distance = 1_usize << round;
            order.par(|order| {
                let senders = (distance..self.processes()).step_by(2 * distance);
                senders.for_each(|from| order.transfer(from, from - distance, 100.0));
            });
        }
    }
}

/// The multiplication of Alonso, Reddy and Lastovetsky 2009 (section 4, Fig. 6 and 7): C, A and B lie in columns of processes, each
/// column with heights of its own. In every step the owners of a column of blocks of A send what overlaps to each process
/// of other columns, then in each column of processes the owner of a row of blocks of B sends its part to each other one, and then all update
/// their part of C. Nothing overlaps, and no process passes anything on. A unit is the update of a block by a pair of blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct GridProduct {
    /// Blocks of the widths of the columns of processes.
    pub widths: Vec<u64>,
    /// For each column of processes, the blocks of their heights, from above.
    pub heights: Vec<Vec<u64>>,
    /// Bytes of a block.
    pub block_bytes: f64,
}

impl GridProduct {
    /// Divides `blocks × blocks` blocks over a grid of these speeds, row of processes by row: widths in proportion to the sums of
    /// columns, and the heights of each column to its speeds.
    ///
    /// # Panics
    /// If the speeds do not fill whole rows of `columns` processes.
    pub fn in_proportion(blocks: u64, speeds: &[f64], columns: usize, block_bytes: f64) -> Self {
        assert_eq!(speeds.len() % columns, 0, "whole rows of processes");
        let of_column = |column: usize| speeds.iter().skip(column).step_by(columns).copied();
        let sums: Vec<f64> = (0..columns).map(|column| of_column(column).sum()).collect();
        let heights =
            (0..columns).map(|column| apportion(blocks, &of_column(column).collect::<Vec<_>>()));
        Self { widths: apportion(blocks, &sums), heights: heights.collect(), block_bytes }
    }

    fn column_and_row(&self, process: usize) -> (usize, usize) {
        (process % self.widths.len(), process / self.widths.len())
    }

    /// Returns the first row of blocks of a process, and the one after its last.
    fn rows(&self, process: usize) -> (u64, u64) {
        let (column, row) = self.column_and_row(process);
        let first = self.heights[column][..row].iter().sum();
        (first, first + self.heights[column][row])
    }

    /// Returns the width and the height of the rectangle of a process.
    fn sides(&self, process: usize) -> (u64, u64) {
        let (column, row) = self.column_and_row(process);
        (self.widths[column], self.heights[column][row])
    }

    /// Returns the rows of blocks that two processes of unlike columns have in common.
    fn overlap(&self, a: usize, b: usize) -> u64 {
        let ((first_a, end_a), (first_b, end_b)) = (self.rows(a), self.rows(b));
        end_a.min(end_b).saturating_sub(first_a.max(first_b))
    }

    /// Lists the messages of a step in which the column of A lies at `at` and the row of B, too: sender, receiver and percent.
    fn list_messages(&self, at: u64, of_a: bool) -> Vec<(usize, usize, f64)> {
        let all = self.processes();
        let pairs = (0..all).flat_map(|from| (0..all).map(move |to| (from, to)));
        let messages = pairs.filter_map(|(from, to)| {
            let column = self.column_and_row(from).0;
            let (first, end) = if of_a {
                let first: u64 = self.widths[..column].iter().sum();
                (first, first + self.widths[column])
            } else {
                self.rows(from)
            };
            let is_across = column != self.column_and_row(to).0;
            let sends =
                is_across == of_a && (first..end).contains(&at) && self.bytes(from, to) > 0.0;
            sends.then(|| (from, to, 100.0 / (end - first) as f64))
        });
        messages.collect()
    }
}

impl Algorithm for GridProduct {
    fn processes(&self) -> usize {
        self.heights.iter().map(Vec::len).sum()
    }

    fn volume(&self, process: usize) -> f64 {
        let steps: u64 = self.widths.iter().sum();
        steps as f64 * self.size(process)
    }

    fn size(&self, process: usize) -> f64 {
        let (width, height) = self.sides(process);
        (width * height) as f64
    }

    fn bytes(&self, from: usize, to: usize) -> f64 {
        let (width, height) = self.sides(from);
        let blocks = match (self.column_and_row(from), self.column_and_row(to)) {
            _ if self.size(to) == 0.0 => 0,
            ((a, _), (b, _)) if a != b => width * self.overlap(from, to),
            ((_, a), (_, b)) if a != b => width * height,
            _ => 0,
        };
        blocks as f64 * self.block_bytes
    }

    fn scheme(&self, order: &mut Scheme) {
        let steps: u64 = self.widths.iter().sum();
        for at in 0..steps {
            for of_a in [true, false] {
                order.par(|order| {
                    let messages = self.list_messages(at, of_a);
                    messages.into_iter().for_each(|(from, to, it)| order.transfer(from, to, it));
                });
            }
            order.par(|order| {
                (0..self.processes()).for_each(|it| order.compute(it, 100.0 / steps as f64));
            });
        }
    }
}
