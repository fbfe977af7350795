//! A sweep of Jacobi's method.

use crate::KernelParameters;
use crate::memory::{MemoryCount, count_units, make_element};
use isochron_kernel::{Interrupt, Kernel, KernelError};

/// A sweep over `d` rows of a dense system with `width` unknowns: `x'_i = (b_i - Σ_{j≠i} a_ij·x_j) / a_ii`.
///
/// The new values are copied back into x, which stands for their exchange.
///
/// # References
/// Clarke's thesis, section 4.3.1.
#[derive(Debug, Default)]
pub struct Jacobi {
    parameters: KernelParameters,
    /// The rows, one after the other.
    a: Vec<f64>,
    b: Vec<f64>,
    x: Vec<f64>,
    next: Vec<f64>,
}

impl Jacobi {
    /// Makes the kernel.
    #[must_use]
    pub fn new(parameters: KernelParameters) -> Self {
        Self {
            parameters,
            ..Self::default()
        }
    }

    fn sweep_row(&self, row: usize) -> f64 {
        let width = self.parameters.width;
        let a = &self.a[row * width..(row + 1) * width];
        // The unknown that the row is solved for; rows beyond the system begin again.
        let own = row % width;
        let sum: f64 = a.iter().zip(&self.x).map(|(a, x)| a * x).sum();
        (self.b[row] - sum + a[own] * self.x[own]) / a[own]
    }
}

impl Kernel for Jacobi {
    /// Returns `2·width·d`.
    fn complexity(&self, d: u64) -> f64 {
        2.0 * self.parameters.width as f64 * d as f64
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        let (rows, width) = (count_units(d)?, self.parameters.width);
        let mut memory = MemoryCount::new(self.parameters.memory_bytes);
        // Dominated by its diagonal, so that the method converges.
        self.a = memory.fill((rows, width), |at| {
            match (at / width) % width == at % width {
                true => width as f64,
                false => make_element(at),
            }
        })?;
        self.b = memory.fill((rows, 1), make_element)?;
        self.x = memory.fill((width, 1), |_| 0.0)?;
        self.next = memory.fill((rows, 1), |_| 0.0)?;
        Ok(())
    }

    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
        for row in 0..self.b.len() {
            interrupt.check()?;
            self.next[row] = self.sweep_row(row);
        }
        let known = self.next.len().min(self.x.len());
        self.x[..known].copy_from_slice(&self.next[..known]);
        Ok(())
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        *self = Self::new(self.parameters);
        Ok(())
    }
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
        for row in 0..12 {
            let a = &kernel.a[row * 12..(row + 1) * 12];
            let sum: f64 = a.iter().zip(&kernel.x).map(|(a, x)| a * x).sum();
            assert!((sum - kernel.b[row]).abs() < 1e-12, "row {row}");
        }
        assert_eq!(kernel.complexity(5), 120.0);
    }
}
