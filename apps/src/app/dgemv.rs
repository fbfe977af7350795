//! `isochron app dgemv`: the product of a matrix and a vector, y = A·x.
//!
//! Every rank has rows of A, and the same rows of x and of y. A run brings all of x to every rank, and multiplies.
//!
//! # References
//! Khaleghzadeh, Reddy and Lastovetsky, supplement of the HPOPTA paper, section 2.

use std::ops::Range;

use isochron_core::comm::{Message, Transfer, agree};
use isochron_core::hierarchy::rebalance::list_ranges;
use isochron_core::prelude::*;
use isochron_kernels::KernelParameters;

use crate::app::rows::{RowApplication, RowProblem, RunSteps, keep_worse, prepare_kernel};

/// This rank's rows of a product.
pub struct MatrixVector {
    problem: RowProblem,
    rank: usize,
    /// The rows of every rank.
    rows: Vec<Range<usize>>,
    /// This rank's part of x, and all of x as it was gathered last.
    vectors: Vec<Vec<f64>>,
    /// It holds A, x and y.
    kernel: isochron_kernels::Dgemv,
}

/// Returns an element of A.
fn make_element(problem: RowProblem, row: usize, col: usize) -> f64 {
    let seed = problem.seed;
    Generator::Uniform { seed }.element(row, col)
}

/// Returns an element of x.
fn make_unknown(problem: RowProblem, row: usize) -> f64 {
    let seed = problem.seed.wrapping_add(1);
    Generator::Uniform { seed }.element(row, 0)
}

impl RowApplication for MatrixVector {
    const KERNEL: &'static str = "dgemv";
    const PASSES: u32 = 1;

    fn count_row_bytes(size: usize) -> u64 {
        (size as u64).saturating_add(2).saturating_mul(size_of::<f64>() as u64)
    }

    fn prepare(problem: RowProblem, comm: &dyn Comm, rows: &[u64]) -> Result<Self, Error> {
        agree(comm, Self::allocate(problem, comm.rank(), rows))
    }

    fn run(&mut self, comm: &dyn Comm, steps: RunSteps<'_>) -> Result<Vec<f64>, Error> {
        let (size, rows) = (self.problem.size, self.rows[self.rank].len());
        let travels = [size - rows, rows * (comm.size() - 1)].map(|rows| rows * size_of::<f64>());
        steps.exchange("x", 0, comm, travels, || self.gather_x(comm))?;
        self.kernel.split_operands().1.copy_from_slice(&self.vectors[1]);
        let flop = 2.0 * rows as f64 * size as f64;
        Ok(vec![steps.time_kernel(&mut self.kernel, 0, rows, flop)])
    }

    /// Computes every entry again, term after term, from the rules of A and x.
    fn check(&self, comm: &dyn Comm) -> Result<f64, Error> {
        let problem = self.problem;
        let bound = 2.0 * problem.size as f64 * f64::EPSILON;
        let mut worst: f64 = 0.0;
        for (row, y) in self.rows[self.rank].clone().zip(self.kernel.product()) {
            let terms = (0..problem.size)
                .map(|col| make_element(problem, row, col) * make_unknown(problem, col));
            let (sum, most) = terms.fold((0.0, f64::MIN_POSITIVE), |(sum, most), term: f64| {
                (sum + term, most + term.abs())
            });
            worst = keep_worse(worst, (sum - y).abs() / (bound * most));
        }
        let mut all = vec![0.0; self.rows.len()];
        all[self.rank] = worst;
        comm.sum_f64(&mut all)?;
        Ok(all.into_iter().fold(0.0, keep_worse))
    }
}

impl MatrixVector {
    /// Allocates and fills the rows of `rank`.
    fn allocate(problem: RowProblem, rank: usize, rows: &[u64]) -> Result<Self, Error> {
        let width = problem.size;
        let mut kernel =
            isochron_kernels::Dgemv::new(KernelParameters { width, ..KernelParameters::default() });
        prepare_kernel(&mut kernel, Self::KERNEL, rows[rank], Self::count_row_bytes(width))?;
        let ranges = list_ranges(rows).into_iter();
        let ranges: Vec<Range<usize>> =
            ranges.map(|rows| rows.start as usize..rows.end as usize).collect();
        let own = ranges[rank].clone();
        let (a, _) = kernel.split_operands();
        for (row, elements) in own.clone().zip(a.chunks_exact_mut(width)) {
            for (col, element) in elements.iter_mut().enumerate() {
                *element = make_element(problem, row, col);
            }
        }
        let part = own.map(|row| make_unknown(problem, row)).collect();
        Ok(Self { problem, rank, rows: ranges, vectors: vec![part, vec![f64::NAN; width]], kernel })
    }

    /// Brings the parts of x of all ranks together.
    fn gather_x(&mut self, comm: &dyn Comm) -> Result<(), Error> {
        let own = self.rows[self.rank].clone();
        let (part, x) = self.vectors.split_at_mut(1);
        x[0][own.clone()].copy_from_slice(&part[0]);
        let others = (0..self.rows.len()).filter(|&rank| rank != self.rank);
        let sends: Vec<Message> =
            others.clone().map(|rank| Message::plain(rank, 0, 0..own.len())).collect();
        let recvs: Vec<Message> =
            others.map(|rank| Message::plain(rank, 1, self.rows[rank].clone())).collect();
        let vectors = std::mem::take(&mut self.vectors);
        self.vectors = Transfer::start(comm, vectors, &sends, &recvs)?.finish()?;
        Ok(())
    }
}
