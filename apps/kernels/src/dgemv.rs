//! A product of a matrix and a vector.

use crate::KernelParameters;
use crate::memory::make_element;
use crate::rows::DenseRows;
use isochron_kernel::{Interrupt, Kernel, KernelError};

/// The product `y = A·x` with `d` rows of `width` columns. Its speed is that of the memory that holds A.
#[derive(Debug, Default)]
pub struct Dgemv(DenseRows);

impl Dgemv {
    /// Makes the kernel.
    #[must_use]
    pub fn new(parameters: KernelParameters) -> Self {
        Self(DenseRows::new(parameters))
    }

    /// Returns the rows of A, one after the other, and x, to be written.
    pub fn split_operands(&mut self) -> (&mut [f64], &mut [f64]) {
        (&mut self.0.a, &mut self.0.x)
    }

    /// Returns the product y of the last run.
    #[must_use]
    pub fn product(&self) -> &[f64] {
        &self.0.y
    }
}

impl Kernel for Dgemv {
    /// Returns `2·width·d`.
    fn complexity(&self, d: u64) -> f64 {
        self.0.complexity(d)
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        self.0.fill(d, |_, _| None, make_element).map(|_| ())
    }

    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
        self.0.multiply(interrupt, |_, _, _, product| product)
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        self.0.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_multiplied() {
        let parameters = KernelParameters { width: 21, ..KernelParameters::default() };
        let mut kernel = Dgemv::new(parameters);
        kernel.initialize(5).expect("memory");
        kernel.execute(&Interrupt::default()).expect("a run");
        let DenseRows { a, x, y, .. } = &kernel.0;
        for (row, (a, y)) in a.chunks(21).zip(y).enumerate() {
            let sum: f64 = a.iter().zip(x).map(|(a, x)| a * x).sum();
            assert!((sum - y).abs() < 1e-13 && *y > 0.0, "row {row}");
        }
        assert_eq!(kernel.complexity(5), 210.0);
    }
}
