//! `isochron app fft2d`: a Fourier transform in two dimensions, by rows and columns.
//!
//! Every rank transforms its rows. The matrix is transposed between the ranks, so that the rows are now the columns, and
//! these are transformed too. A second transposition puts the result in order.
//!
//! # References
//! Khaleghzadeh, Reddy and Lastovetsky, the HPOPTA paper and its supplement (2D-FFT application).

mod check;

use isochron_core::comm::agree;
use isochron_core::hierarchy::layout::slice_rows;
use isochron_core::matrix::redistribute::{RedistributeConfig, Redistribution};
use isochron_core::prelude::*;
use isochron_kernels::{FftRows, KernelParameters};

use crate::app::rows::{RowApplication, RowProblem, RunSteps, prepare_kernel};
use check::{Waves, compare_entries};

/// This rank's rows of a transform.
pub struct Fft2d {
    size: usize,
    input: Generator,
    /// The first row of this rank.
    first: usize,
    /// Makes the transformed rows of all ranks the rows of the next pass: both transpositions of every run.
    transposition: Redistribution<Complex64>,
    /// It holds the rows, and their transforms.
    kernel: FftRows,
}

impl RowApplication for Fft2d {
    const KERNEL: &'static str = "fft";
    const PASSES: u32 = 2;

    fn count_row_bytes(size: usize) -> u64 {
        (size as u64).saturating_mul(2 * size_of::<Complex64>() as u64)
    }

    fn prepare(problem: RowProblem, comm: &dyn Comm, rows: &[u64]) -> Result<Self, Error> {
        let RowProblem { size, seed } = problem;
        let kernel = agree(comm, allocate_kernel(size, rows[comm.rank()]))?;
        let spread = Spread::on_layout(size, size, 1, &slice_rows(size as u64, rows)?);
        let config = RedistributeConfig { transposed: true, ..RedistributeConfig::default() };
        let transposition = Redistribution::prepare(comm, &spread, &spread, Order::Rows, &config)?;
        Ok(Self {
            size,
            input: Generator::Uniform { seed },
            first: rows[..comm.rank()].iter().sum::<u64>() as usize,
            transposition,
            kernel,
        })
    }

    fn restore_input(&mut self) {
        let (rows, _) = self.kernel.split_rows();
        for (row, elements) in rows.chunks_exact_mut(self.size).enumerate() {
            for (col, element) in elements.iter_mut().enumerate() {
                *element = self.input.element(self.first + row, col);
            }
        }
    }

    fn run(&mut self, comm: &dyn Comm, steps: RunSteps<'_>) -> Result<Vec<f64>, Error> {
        let rows = self.kernel.rows().len() / self.size;
        let elements = self.kernel.rows().len() as f64;
        // The usual count of a fast transform, 5·n·log2 n.
        let flop = 5.0 * elements * (self.size as f64).log2();
        let travels = rows * (self.size - rows) * size_of::<Complex64>();
        let mut passes_s = Vec::new();
        for pass in 0..Self::PASSES {
            passes_s.push(steps.time_kernel(&mut self.kernel, pass, rows, flop));
            steps
                .exchange("transposition", pass + 1, comm, [travels; 2], || self.transpose(comm))?;
        }
        Ok(passes_s)
    }

    /// Compares some entries of the result with sums over the input, and some of the input with sums over the whole
    /// result.
    fn check(&self, comm: &dyn Comm) -> Result<f64, Error> {
        let rows = self.first..self.first + self.kernel.rows().len() / self.size;
        let waves = Waves { comm, size: self.size, rows };
        compare_entries(&waves, &|row, col| self.input.element(row, col), &|row, col| {
            self.kernel.rows()[(row - self.first) * self.size + col]
        })
    }
}

impl Fft2d {
    /// Transposes the transformed rows of all ranks; they become the rows of the next pass.
    fn transpose(&mut self, comm: &dyn Comm) -> Result<(), Error> {
        let (rows, transformed) = self.kernel.split_rows();
        let source = Stored::by_rows(transformed, self.size);
        let target = StoredMut::by_rows(rows, self.size);
        self.transposition.run(comm, source, target).map(|_| ())
    }
}

/// Allocates this many rows of a rank.
fn allocate_kernel(size: usize, rows: u64) -> Result<FftRows, Error> {
    let mut kernel = FftRows::new(KernelParameters { width: size, ..KernelParameters::default() });
    let row_bytes = Fft2d::count_row_bytes(size);
    prepare_kernel(&mut kernel, Fft2d::KERNEL, rows, row_bytes)?;
    Ok(kernel)
}
