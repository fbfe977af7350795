//! Rows of a dense matrix, and the vector that they are multiplied by.

use crate::KernelParameters;
use crate::memory::{MemoryCount, count_units, make_element};
use isochron_kernel::{Interrupt, KernelError};

/// A matrix A of `d` rows of `width` columns, the vector x, and a result y.
#[derive(Debug, Default)]
pub struct DenseRows {
    parameters: KernelParameters,
    /// The rows, one after the other.
    pub a: Vec<f64>,
    pub x: Vec<f64>,
    pub y: Vec<f64>,
}

impl DenseRows {
    /// Makes an empty matrix.
    pub fn new(parameters: KernelParameters) -> Self {
        Self { parameters, ..Self::default() }
    }

    /// Gives the memory back.
    pub fn clear(&mut self) {
        *self = Self::new(self.parameters);
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.parameters.width
    }

    /// Returns the operations of a product with `d` rows: `2·width·d`.
    pub fn complexity(&self, d: u64) -> f64 {
        2.0 * self.width() as f64 * d as f64
    }

    /// Makes `d` rows with these elements of A by row and column, and of x. Returns the memory that is left.
    ///
    /// # Errors
    /// Returns [`KernelError::NoMemory`].
    pub fn fill(
        &mut self,
        d: u64,
        element: impl Fn(usize, usize) -> Option<f64>,
        unknown: impl Fn(usize) -> f64,
    ) -> Result<MemoryCount, KernelError> {
        let (rows, width) = (count_units(d)?, self.width());
        let mut memory = MemoryCount::new(self.parameters.memory_bytes);
        self.a = memory.fill(rows, width, |at| {
            element(at / width, at % width).unwrap_or_else(|| make_element(at))
        })?;
        self.x = memory.fill(width, 1, unknown)?;
        self.y = memory.fill(rows, 1, |_| 0.0)?;
        Ok(memory)
    }

    /// Computes `y_i = finish(i, a_i, x, a_i·x)` for every row.
    ///
    /// # Errors
    /// Returns [`KernelError::Interrupted`].
    pub fn multiply(
        &mut self,
        interrupt: &Interrupt,
        finish: impl Fn(usize, &[f64], &[f64], f64) -> f64,
    ) -> Result<(), KernelError> {
        let rows = self.a.chunks_exact(self.parameters.width).enumerate();
        for (y, (index, row)) in self.y.iter_mut().zip(rows) {
            interrupt.check()?;
            *y = finish(index, row, &self.x, multiply_row(row, &self.x));
        }
        Ok(())
    }
}

/// Returns the scalar product, in eight sums that do not wait for each other.
pub fn multiply_row(a: &[f64], x: &[f64]) -> f64 {
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
