//! A sweep of Jacobi's method.

use crate::KernelParameters;
use crate::memory::make_element;
use crate::rows::DenseRows;
use isochron_kernel::{Interrupt, Kernel, KernelError};

/// A sweep over `d` rows of a dense system with `width` unknowns: `x'_i = (b_i - Σ_{j≠i} a_ij·x_j) / a_ii`.
///
/// The new values are copied back into x, which stands for their exchange.
///
/// # References
/// Clarke's thesis, section 4.3.1.
#[derive(Debug, Default)]
pub struct Jacobi {
    /// A, x, and its new values.
    rows: DenseRows,
    b: Vec<f64>,
}

impl Jacobi {
    /// Makes the kernel.
    #[must_use]
    pub fn new(parameters: KernelParameters) -> Self {
        Self {
            rows: DenseRows::new(parameters),
            b: Vec::new(),
        }
    }
}

impl Kernel for Jacobi {
    /// Returns `2·width·d`.
    fn complexity(&self, d: u64) -> f64 {
        self.rows.complexity(d)
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        let width = self.rows.width();
        let mut memory = (self.rows).fill(d, |row, col| make_dominant(row, col, width), |_| 0.0)?;
        self.b = memory.fill((self.rows.y.len(), 1), make_element)?;
        Ok(())
    }

    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
        let (b, width) = (&self.b, self.rows.width());
        self.rows.multiply(interrupt, |row, a, x, product| {
            // The unknown that the row is solved for.
            let own = row % width;
            (b[row] - product + a[own] * x[own]) / a[own]
        })?;
        let DenseRows { x, y, .. } = &mut self.rows;
        let known = y.len().min(x.len());
        x[..known].copy_from_slice(&y[..known]);
        Ok(())
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        self.rows.clear();
        self.b = Vec::new();
        Ok(())
    }
}

/// Returns the element of a diagonal that dominates its row, so that the method converges; `None` off the diagonal.
/// Rows beyond the system begin again.
fn make_dominant(row: usize, col: usize, width: usize) -> Option<f64> {
    (row % width == col).then_some(width as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_converge_to_the_solution() {
        let parameters = KernelParameters {
            width: 12,
            ..KernelParameters::default()
        };
        let mut kernel = Jacobi::new(parameters);
        kernel.initialize(12).expect("memory");
        for _ in 0..60 {
            kernel.execute(&Interrupt::default()).expect("a run");
        }
        let DenseRows { a, x, .. } = &kernel.rows;
        for (row, (a, b)) in a.chunks(12).zip(&kernel.b).enumerate() {
            let sum: f64 = a.iter().zip(x).map(|(a, x)| a * x).sum();
            assert!((sum - b).abs() < 1e-12, "row {row}");
        }
        assert_eq!(kernel.complexity(5), 120.0);
    }
}
