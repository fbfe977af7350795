//! The product of a matrix and a vector, y = A·x, whose rows are divided by measured times: `mpirun -n 3 dgemv`.
//!
//! Every rank has rows of A, and the same rows of x and of y. A run brings all of x to every rank, and multiplies.
//!
//! # References
//! Khaleghzadeh, Reddy and Lastovetsky, supplement of the HPOPTA paper, section 2.

use std::ops::Range;

use clap::Parser as _;
use isochron::hierarchy::rebalance::list_ranges;
use isochron::prelude::*;
use isochron_examples::{
    Application, RowArguments, divide_rows, prepare_kernel, run_application, time_kernel,
};
use isochron_kernels::{Dgemv, KernelParameters};

/// Returns an element of A: a whole number, so that sums are exact in any order.
fn a_element(row: usize, col: usize) -> f64 {
    ((row * 7 + col * 3 + row * col) % 19) as f64
}

/// Returns an element of x, also a whole number.
fn x_element(row: usize) -> f64 {
    (row % 5) as f64
}

/// This rank's rows of a product.
struct MatrixVector {
    n: usize,
    /// The rows of this rank.
    rows: Range<usize>,
    /// This rank's part of x.
    x: Vec<f64>,
    /// It holds the rows of A, all of x, and y.
    kernel: Dgemv,
}

impl MatrixVector {
    fn prepare(comm: &dyn Comm, mut kernel: Dgemv, n: usize, rows: &[u64]) -> Result<Self, Error> {
        prepare_kernel(comm, &mut kernel, rows[comm.rank()])?;
        let rows = list_ranges(rows).swap_remove(comm.rank());
        let rows = rows.start as usize..rows.end as usize;
        let (a, _) = kernel.split_operands();
        for (at, element) in a.iter_mut().enumerate() {
            *element = a_element(rows.start + at / n, at % n);
        }
        Ok(Self { n, x: rows.clone().map(x_element).collect(), rows, kernel })
    }
}

impl Application for MatrixVector {
    const PASSES: usize = 1;

    fn run(&mut self, comm: &dyn Comm) -> Result<Vec<f64>, Error> {
        let parts = comm.all_gather(bytemuck::cast_slice(&self.x))?;
        let (_, x) = self.kernel.split_operands();
        bytemuck::cast_slice_mut(x).copy_from_slice(&parts.concat());
        Ok(vec![time_kernel(&mut self.kernel)?])
    }

    /// Computes every entry again.
    fn is_right(&self) -> bool {
        self.rows.clone().zip(self.kernel.product()).all(|(row, y)| {
            *y == (0..self.n).map(|col| a_element(row, col) * x_element(col)).sum::<f64>()
        })
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = RowArguments::parse();
    let comm = connect()?;
    let width = arguments.size();
    let kernel = || Dgemv::new(KernelParameters { width, ..KernelParameters::default() });
    let division = divide_rows(&*comm, &arguments, kernel())?;
    let mut product = MatrixVector::prepare(&*comm, kernel(), width, &division.rows)?;
    run_application(&*comm, &arguments, &division, &mut product)
}
