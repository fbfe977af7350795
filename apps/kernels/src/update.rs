//! The rank-`b` update of a device's part of C.

use crate::KernelParameters;
use crate::memory::{MemoryCount, count_units, make_element};
use isochron_devices::{Blas, BlasGemm, EmbeddedBlas, View, ViewMut};
use isochron_kernel::{Interrupt, Kernel, KernelError};
use std::sync::Arc;

/// A product of matrices that can be interrupted.
pub trait Multiply {
    /// Computes `C += A·B`, all column-major.
    ///
    /// # Errors
    /// Returns [`KernelError::Interrupted`].
    fn multiply(
        &self,
        a: View<'_, f64>,
        b: View<'_, f64>,
        c: ViewMut<'_, f64>,
        interrupt: &Interrupt,
    ) -> Result<(), KernelError>;
}

/// Products by a BLAS, 256 columns at a time, so that an interruption comes through.
pub struct BlasProduct(pub Arc<dyn Blas>);

impl Default for BlasProduct {
    fn default() -> Self {
        Self(Arc::new(EmbeddedBlas))
    }
}

impl Multiply for BlasProduct {
    fn multiply(
        &self,
        a: View<'_, f64>,
        b: View<'_, f64>,
        mut c: ViewMut<'_, f64>,
        interrupt: &Interrupt,
    ) -> Result<(), KernelError> {
        let (rows, cols) = (c.rows(), c.cols());
        for from in (0..cols).step_by(256) {
            interrupt.check()?;
            let part = from..cols.min(from + 256);
            let columns = c.reborrow().into_block(0..rows, part.clone());
            BlasGemm::<f64>::gemm(self.0.as_ref(), 1.0, a, b.columns(part), columns);
        }
        Ok(())
    }
}

/// The update `C += A_b · B_b` of `m×n` blocks of C, `m = ⌊√d⌋` and `n = ⌊d/m⌋`, after copies of the pivot column of A and
/// the pivot row of B, which stand for their messages.
///
/// # References
/// Clarke's thesis, appendix A.2.
#[derive(Default)]
pub struct Update<P> {
    parameters: KernelParameters,
    product: P,
    data: Option<UpdateData>,
}

struct UpdateData {
    rows: usize,
    cols: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    pivot_column: Vec<f64>,
    pivot_row: Vec<f64>,
}

impl<P: Multiply> Update<P> {
    /// Makes the kernel with a way to multiply.
    #[must_use]
    pub fn new(parameters: KernelParameters, product: P) -> Self {
        Self { parameters, product, data: None }
    }
}

/// Returns the blocks of the nearly square part of C that `d` units are.
fn split_area(d: u64) -> (u64, u64) {
    let rows = d.isqrt();
    (rows, d.checked_div(rows).unwrap_or(0))
}

impl<P: Multiply> Kernel for Update<P> {
    /// Returns `2·(m·b)·(n·b)·b`.
    fn complexity(&self, d: u64) -> f64 {
        let (rows, cols) = split_area(d);
        2.0 * rows as f64 * cols as f64 * (self.parameters.block as f64).powi(3)
    }

    fn initialize(&mut self, d: u64) -> Result<(), KernelError> {
        let block = self.parameters.block;
        let (rows, cols) = split_area(d);
        let size = |blocks| count_units(blocks)?.checked_mul(block).ok_or(KernelError::NoMemory);
        let (rows, cols) = (size(rows)?, size(cols)?);
        let mut memory = MemoryCount::new(self.parameters.memory_bytes);
        self.data = Some(UpdateData {
            rows,
            cols,
            a: memory.fill(rows, cols, make_element)?,
            b: memory.fill(rows, cols, make_element)?,
            c: memory.fill(rows, cols, |_| 0.0)?,
            pivot_column: memory.fill(rows, block, |_| 0.0)?,
            pivot_row: memory.fill(block, cols, |_| 0.0)?,
        });
        Ok(())
    }

    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
        let (block, Some(data)) = (self.parameters.block, &mut self.data) else {
            return Ok(());
        };
        let (rows, cols) = (data.rows, data.cols);
        // Both pivots lie at the beginning: a column of blocks, and a row of them.
        let known = data.pivot_column.len().min(data.a.len());
        data.pivot_column[..known].copy_from_slice(&data.a[..known]);
        for (to, from) in data.pivot_row.chunks_mut(block).zip(data.b.chunks(rows.max(1))) {
            to.copy_from_slice(&from[..block]);
        }
        self.product.multiply(
            View::new(&data.pivot_column, rows, block, rows.max(1)),
            View::new(&data.pivot_row, block, cols, block),
            ViewMut::new(&mut data.c, rows, cols, rows.max(1)),
            interrupt,
        )
    }

    fn finalize(&mut self) -> Result<(), KernelError> {
        self.data = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NaiveGemm;

    fn run(product: impl Multiply, d: u64) -> Vec<f64> {
        let parameters = KernelParameters { block: 3, ..KernelParameters::default() };
        let mut kernel = Update::new(parameters, product);
        kernel.initialize(d).expect("memory");
        for _ in 0..2 {
            kernel.execute(&Interrupt::default()).expect("a run");
        }
        kernel.data.expect("data").c
    }

    #[test]
    fn a_blas_and_three_loops_compute_the_same() {
        for d in [1, 2, 7, 12, 400] {
            let [fast, naive] = [run(BlasProduct::default(), d), run(NaiveGemm, d)];
            assert!(fast.iter().any(|&c| c > 0.0));
            // Sums of 6 products of numbers below 1.
            let close = fast.iter().zip(&naive).all(|(a, b)| (a - b).abs() < 1e-13);
            assert!(close && fast.len() == naive.len(), "{d}");
        }
    }

    #[test]
    fn the_work_is_that_of_whole_blocks() {
        let kernel = Update::new(KernelParameters::default(), NaiveGemm);
        // 2 × 3 blocks of 32.
        assert_eq!(kernel.complexity(7), 2.0 * 64.0 * 96.0 * 32.0);
        assert_eq!(kernel.complexity(0), 0.0);
    }

    #[test]
    fn data_that_do_not_fit_are_refused() {
        let parameters = KernelParameters { memory_bytes: 100_000, ..KernelParameters::default() };
        let mut kernel = Update::new(parameters, NaiveGemm);
        assert_eq!(kernel.initialize(2), Ok(()));
        assert_eq!(kernel.initialize(9), Err(KernelError::NoMemory));
        assert_eq!(kernel.initialize(u64::MAX), Err(KernelError::NoMemory));
    }

    #[test]
    fn an_interruption_comes_through() {
        let mut kernel = Update::new(KernelParameters::default(), NaiveGemm);
        kernel.initialize(4).expect("memory");
        let interrupt = Interrupt::default();
        interrupt.set(true);
        assert_eq!(kernel.execute(&interrupt), Err(KernelError::Interrupted));
    }
}
