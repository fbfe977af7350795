//! A Fourier transform in two dimensions, whose rows are divided by measured times: `mpirun -n 3 fft2d`.
//!
//! Every rank transforms its rows. The matrix is transposed between the ranks, so that the rows are now the columns, and these
//! are transformed too. A second transposition puts the result in order.
//!
//! # References
//! Khaleghzadeh, Reddy and Lastovetsky, the HPOPTA paper and its supplement (2D-FFT application).

use std::f64::consts::TAU;

use clap::Parser as _;
use isochron::hierarchy::layout::slice_rows;
use isochron::matrix::redistribute::{RedistributeConfig, Redistribution};
use isochron::prelude::*;
use isochron_examples::{
    Application, RowArguments, divide_rows, prepare_kernel, run_application, time_kernel,
};
use isochron_kernels::{FftRows, KernelParameters};

/// The matrix is the sum of two waves, `Σ a·exp(2πi·(p·row + q·col)/n)`. Its transform is `a·n²` at (p, q) modulo n, and 0
/// elsewhere.
const WAVES: [(f64, usize, usize); 2] = [(1.0, 3, 70), (2.0, 250, 11)];

/// This rank's rows of a transform.
struct Fft2d {
    n: usize,
    /// The first row of this rank.
    first: usize,
    /// Makes the transformed rows of all ranks the rows of the next pass: planned once, run twice in every run.
    transposition: Redistribution<Complex64>,
    /// It holds the rows, and their transforms.
    kernel: FftRows,
}

impl Fft2d {
    fn prepare(
        comm: &dyn Comm,
        mut kernel: FftRows,
        n: usize,
        rows: &[u64],
    ) -> Result<Self, Error> {
        prepare_kernel(comm, &mut kernel, rows[comm.rank()])?;
        let spread = Spread::on_layout(n, n, 1, &slice_rows(n as u64, rows)?);
        let config = RedistributeConfig { transposed: true, ..RedistributeConfig::default() };
        let transposition = Redistribution::prepare(comm, &spread, &spread, Order::Rows, &config)?;
        Ok(Self { n, first: spread.part(comm.rank()).row, transposition, kernel })
    }
}

impl Application for Fft2d {
    const PASSES: usize = 2;

    fn restore_input(&mut self) {
        let (n, first) = (self.n, self.first);
        let turn: Vec<Complex64> =
            (0..n).map(|step| Complex64::cis(TAU * step as f64 / n as f64)).collect();
        for (at, element) in self.kernel.split_rows().0.iter_mut().enumerate() {
            let (row, col) = (first + at / n, at % n);
            *element = WAVES.iter().map(|&(a, p, q)| a * turn[(p * row + q * col) % n]).sum();
        }
    }

    fn run(&mut self, comm: &dyn Comm) -> Result<Vec<f64>, Error> {
        let mut passes_s = Vec::new();
        for _ in 0..Self::PASSES {
            passes_s.push(time_kernel(&mut self.kernel)?);
            let (rows, transformed) = self.kernel.split_rows();
            let source = Stored::by_rows(transformed, self.n);
            self.transposition.run(comm, source, StoredMut::by_rows(rows, self.n))?;
        }
        Ok(passes_s)
    }

    /// Compares every element, up to rounding: an error of `8·ε·log₂(n²)` in the 2-norm.
    fn is_right(&self) -> bool {
        let n = self.n as f64;
        let norm = n * WAVES.iter().map(|(a, ..)| a).sum::<f64>();
        let bound = 8.0 * f64::EPSILON * (n * n + 1.0).log2() * n * norm;
        self.kernel.rows().iter().enumerate().all(|(at, found)| {
            let place = (self.first + at / self.n, at % self.n);
            let here = WAVES.iter().filter(|(_, p, q)| (p % self.n, q % self.n) == place);
            let wanted: f64 = here.map(|(a, ..)| a * n * n).sum();
            (found - wanted).norm() <= bound
        })
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = RowArguments::parse();
    let comm = connect()?;
    let width = arguments.size();
    let kernel = || FftRows::new(KernelParameters { width, ..KernelParameters::default() });
    let division = divide_rows(&*comm, &arguments, kernel())?;
    let mut transform = Fft2d::prepare(&*comm, kernel(), width, &division.rows)?;
    run_application(&*comm, &arguments, &division, &mut transform)
}
