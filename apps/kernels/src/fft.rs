//! Fourier transforms of a block of rows.

use crate::KernelParameters;
use crate::memory::{MemoryCount, count_units, make_element};
use isochron_kernel::{Interrupt, Kernel, KernelError};
use num_complex::Complex64;
use rustfft::{Fft, FftPlanner};
use std::sync::Arc;

/// The transforms of `d` rows of `width` complex numbers: the work of a device in the first half of a transform in two
/// dimensions.
///
/// # References
/// Khaleghzadeh et al., supplement of the HPOPTA paper (the row-wise transforms of its 2D-FFT application).
pub struct FftRows {
    parameters: KernelParameters,
    plan: Arc<dyn Fft<f64>>,
    rows: Vec<Complex64>,
    /// The result: every run transforms the same rows.
    transformed: Vec<Complex64>,
    scratch: Vec<Complex64>,
}

impl FftRows {
    /// Makes the kernel.
    #[must_use]
    pub fn new(parameters: KernelParameters) -> Self {
        let plan = FftPlanner::new().plan_fft_forward(parameters.width);
        let scratch = vec![Complex64::default(); plan.get_inplace_scratch_len()];
        Self { parameters, plan, rows: Vec::new(), transformed: Vec::new(), scratch }
    }

    /// Returns the rows, one after the other, to be written, and their transforms by the last run.
    pub fn split_rows(&mut self) -> (&mut [Complex64], &[Complex64]) {
        (&mut self.rows, &self.transformed)
    }

    /// Returns the rows, one after the other.
    #[must_use]
    pub fn rows(&self) -> &[Complex64] {
        &self.rows
    }
}

impl Default for FftRows {
    fn default() -> Self {
        Self::new(KernelParameters::default())
    }
}

impl Kernel for FftRows {
    /// Returns `5·width·log₂(width)·d`, as FFT programs are compared.
    fn complexity(&self, d: u64) -> f64 {
        let width = self.parameters.width as f64;
        5.0 * width * width.log2() * d as f64
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        let (rows, width) = (count_units(d)?, self.parameters.width);
        let mut memory = MemoryCount::new(self.parameters.memory_bytes);
        self.rows = memory.fill(rows, width, |at| Complex64::new(make_element(at), 0.0))?;
        self.transformed = memory.fill(rows, width, |_| Complex64::default())?;
        Ok(())
    }

    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
        let width = self.parameters.width;
        let rows = self.rows.chunks_exact(width);
        for (to, from) in self.transformed.chunks_exact_mut(width).zip(rows) {
            interrupt.check()?;
            to.copy_from_slice(from);
            self.plan.process_with_scratch(to, &mut self.scratch);
        }
        Ok(())
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        (self.rows, self.transformed) = (Vec::new(), Vec::new());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    #[test]
    fn rows_are_transformed_each_by_itself() {
        let parameters = KernelParameters { width: 8, ..KernelParameters::default() };
        let mut kernel = FftRows::new(parameters);
        kernel.initialize(3).expect("memory");
        kernel.execute(&Interrupt::default()).expect("a run");
        for (row, found) in kernel.rows.chunks(8).zip(kernel.transformed.chunks(8)) {
            for (k, found) in found.iter().enumerate() {
                let angles = row
                    .iter()
                    .enumerate()
                    .map(|(j, x)| x * Complex64::cis(-TAU * (j * k) as f64 / 8.0));
                assert!((angles.sum::<Complex64>() - found).norm() < 1e-13, "{k}");
            }
        }
        assert_eq!(kernel.complexity(3), 5.0 * 8.0 * 3.0 * 3.0);
    }
}
