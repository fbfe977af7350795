//! A sweep of Jacobi's method.

use crate::KernelParameters;
use crate::memory::make_element;
use crate::rows::{DenseRows, multiply_row};
use isochron_kernel::{Interrupt, Kernel, KernelError};

/// A sweep over `d` rows of a dense system with `width` unknowns: `x'_i = (b_i - Σ_{j≠i} a_ij·x_j) / a_ii`.
///
/// The new values are copied back into x, which stands for their exchange.
///
/// # References
/// Clarke's thesis, section 2.3.1 (the method, and its balance) and appendix A.5 (the program).
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
        Self { rows: DenseRows::new(parameters), b: Vec::new() }
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
        self.b = memory.fill(self.rows.y.len(), 1, make_element)?;
        Ok(())
    }

    fn execute(&mut self, interrupt: &Interrupt) -> Result<(), KernelError> {
        let (b, width) = (&self.b, self.rows.width());
        self.rows.multiply(interrupt, |row, a, x, product| {
            update_unknown(a, row % width, x, b[row] - product)
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

/// Some rows of a dense linear system `A·x = b`.
#[derive(Debug, Clone, Copy)]
pub struct SystemRows<'a> {
    /// The rows of A, one after the other.
    pub a: &'a [f64],
    /// Their right sides.
    pub b: &'a [f64],
    /// The index of the first row in the system.
    pub first: usize,
}

/// Sweeps over rows: writes the new values of their unknowns to `next`. Returns the largest residual `|b_i - a_i·x|` of
/// these rows; infinite if one is no number.
///
/// The result of a row depends on nothing but the row and `x`, so it is the same in any division of the rows.
///
/// # Panics
/// If `next` and `b` have not one element for each row, or the rows lie beyond the system.
pub fn sweep_rows(rows: SystemRows<'_>, x: &[f64], next: &mut [f64]) -> f64 {
    assert_eq!(rows.b.len(), next.len(), "one right side for each row");
    assert_eq!(rows.a.len(), next.len() * x.len(), "rows of the width of x");
    let mut largest = 0.0_f64;
    for (index, (row, next)) in rows.a.chunks_exact(x.len().max(1)).zip(next).enumerate() {
        let residual = rows.b[index] - multiply_row(row, x);
        *next = update_unknown(row, rows.first + index, x, residual);
        // A comparison with NaN would pass it over.
        largest = largest.max(if residual.is_nan() { f64::INFINITY } else { residual.abs() });
    }
    largest
}

/// Returns the value of unknown `own` that makes its row true, by the row's residual `b_i - a_i·x`.
fn update_unknown(row: &[f64], own: usize, x: &[f64], residual: f64) -> f64 {
    x[own] + residual / row[own]
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
        let parameters = KernelParameters { width: 12, ..KernelParameters::default() };
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

    #[test]
    fn a_sweep_is_the_same_in_any_division_and_tells_its_largest_residual() {
        let (n, cut) = (5, 2);
        let a: Vec<f64> =
            (0..n * n).map(|at| make_dominant(at / n, at % n, 9).unwrap_or(0.25)).collect();
        let (b, x) = ([1.0, -2.0, 3.0, 4.0, 5.0], [0.5, 0.25, -1.0, 2.0, 0.0]);
        let sweep = |rows: std::ops::Range<usize>, next: &mut [f64]| {
            let (a, first) = (&a[rows.start * n..rows.end * n], rows.start);
            sweep_rows(SystemRows { a, b: &b[rows], first }, &x, next)
        };
        let (mut whole, mut parts) = ([0.0; 5], [0.0; 5]);
        let largest = sweep(0..n, &mut whole);
        let (first, last) = parts.split_at_mut(cut);
        let halves = [sweep(0..cut, first), sweep(cut..n, last)];
        assert_eq!((whole, largest), (parts, halves[0].max(halves[1])));
        let [r0, r1] = [0, 1].map(|i| b[i] - (0..n).map(|j| a[i * n + j] * x[j]).sum::<f64>());
        assert_eq!([whole[0], whole[1]], [x[0] + r0 / 9.0, x[1] + r1 / 9.0]);
        let nan = [f64::NAN; 5];
        let rows = SystemRows { a: &a, b: &b, first: 0 };
        assert_eq!(sweep_rows(rows, &nan, &mut whole), f64::INFINITY);
    }
}
