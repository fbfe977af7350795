//! A product of a matrix and a vector.

use crate::KernelParameters;
use crate::memory::{MemoryCount, count_units, make_element};
use isochron_kernel::{Interrupt, Kernel, KernelError};

/// The product `y = A·x` with `d` rows of `width` columns. Its speed is that of the memory that holds A.
#[derive(Debug, Default)]
pub struct Dgemv {
    parameters: KernelParameters,
    /// The rows, one after the other.
    a: Vec<f64>,
    x: Vec<f64>,
    y: Vec<f64>,
}

impl Dgemv {
    /// Makes the kernel.
    #[must_use]
    pub fn new(parameters: KernelParameters) -> Self {
        Self {
            parameters,
            ..Self::default()
        }
    }
}

/// Returns the scalar product, in eight sums that do not wait for each other.
fn multiply_row(a: &[f64], x: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a, x) = (a.chunks_exact(8), x.chunks_exact(8));
    let rest = a.remainder().iter().zip(x.remainder());
    let rest: f64 = rest.map(|(a, x)| a * x).sum();
    for (a, x) in a.zip(x) {
        for (sum, (a, x)) in sums.iter_mut().zip(a.iter().zip(x)) {
            *sum += a * x;
        }
    }
    rest + sums.iter().sum::<f64>()
}

impl Kernel for Dgemv {
    /// Returns `2·width·d`.
    fn complexity(&self, d: u64) -> f64 {
        2.0 * self.parameters.width as f64 * d as f64
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        let (rows, width) = (count_units(d)?, self.parameters.width);
        let mut memory = MemoryCount::new(self.parameters.memory_bytes);
        self.a = memory.fill((rows, width), make_element)?;
        self.x = memory.fill((width, 1), make_element)?;
        self.y = memory.fill((rows, 1), |_| 0.0)?;
        Ok(())
    }

    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
        let rows = self.a.chunks_exact(self.parameters.width);
        for (y, row) in self.y.iter_mut().zip(rows) {
            interrupt.check()?;
            *y = multiply_row(row, &self.x);
        }
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
    fn every_row_is_multiplied() {
        let parameters = KernelParameters {
            width: 21,
            ..KernelParameters::default()
        };
        let mut kernel = Dgemv::new(parameters);
        kernel.initialize(5).expect("memory");
        kernel.execute(&Interrupt::default()).expect("a run");
        for (row, y) in kernel.y.iter().enumerate() {
            let a = &kernel.a[row * 21..(row + 1) * 21];
            let sum: f64 = a.iter().zip(&kernel.x).map(|(a, x)| a * x).sum();
            assert!((sum - y).abs() < 1e-13 && *y > 0.0, "row {row}");
        }
        assert_eq!(kernel.complexity(5), 210.0);
    }
}
