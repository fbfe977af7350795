//! A random probe in floating point, with a derived bound.

use super::{SEED, Verdict};
use crate::comm::Comm;
use crate::matrix::{Matrix, hash};
use crate::multiply::Scalars;

/// A check that is begun before a multiplication (which overwrites C) and finished after it.
///
/// The probe vector `x` has entries ±1. With `u = 2⁻⁵³`, `γ_i = i·u/(1 - i·u)` and
/// `g = |alpha|·|A|·(|B|·|x|) + |beta|·|C0|·|x|`, componentwise:
///
/// * the computed C differs from the exact one by at most `γ_{k+2}·(|alpha|·|A|·|B| + |beta|·|C0|)`, in whatever
///   order a BLAS sums, which moves `C·x` by at most `γ_{k+2}·g`;
/// * computing `C·x` errs by at most `γ_n·|C|·|x| ≤ γ_n·(1 + γ_{k+2})·g`;
/// * computing `alpha·A·(B·x) + beta·(C0·x)` errs by at most `γ_{n+k+4}·g`.
///
/// So the residual is at most `(γ_{k+2} + γ_n·(1 + γ_{k+2}) + γ_{n+k+4})·g`, which is below `2·(n + k + 4)·u·g`
/// as long as `(n + k)·u` is small; the bound used doubles that, for `g` itself is computed, and adds
/// `(n + k + 4)·(k + 2)·(1 + |alpha|)·2⁻¹⁰²²` for products that underflow. Rank by rank sums are only another order
/// of summation.
///
/// # References
/// Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, section 3.5.
#[derive(Debug)]
pub struct Probe {
    seed: u64,
    scalars: Scalars,
    /// `beta·C0·x` and `|beta|·|C0|·|x|`, this rank's share.
    from_c: (Vec<f64>, Vec<f64>),
}

impl Probe {
    /// Begins a check: `c` is what it is before the multiplication.
    ///
    /// With `beta = 0`, C is not read.
    pub fn begin(scalars: Scalars, c: &Matrix, seed: u64) -> Self {
        let (rows, cols) = (c.distribution().rows(), c.distribution().cols());
        let mut from_c = (vec![0.0; rows], vec![0.0; rows]);
        let seed = hash(SEED, seed as usize, 0);
        if scalars.beta != 0.0 {
            let x = signs(seed, cols);
            let ones = vec![1.0; cols];
            add_product(&mut from_c.0, scalars.beta, c, &x, |v| v);
            add_product(&mut from_c.1, scalars.beta.abs(), c, &ones, f64::abs);
        }
        Self {
            seed,
            scalars,
            from_c,
        }
    }

    /// Finishes the check: `c` is the result. NaN or infinite residuals do not pass.
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices.
    pub fn finish(self, comm: &dyn Comm, operands: (&Matrix, &Matrix), c: &Matrix) -> Verdict {
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let (a, b) = operands;
        let (n, k) = (b.distribution().cols(), b.distribution().rows());
        let x = signs(self.seed, n);
        let (mut residual, mut gauge) = self.from_c;
        if self.scalars.alpha != 0.0 {
            let mut bx = vec![0.0; k];
            let mut abs_bx = vec![0.0; k];
            add_product(&mut bx, 1.0, b, &x, |v| v);
            add_product(&mut abs_bx, 1.0, b, &vec![1.0; n], f64::abs);
            comm.sum_f64(&mut bx);
            comm.sum_f64(&mut abs_bx);
            add_product(&mut residual, self.scalars.alpha, a, &bx, |v| v);
            add_product(&mut gauge, self.scalars.alpha.abs(), a, &abs_bx, f64::abs);
        }
        add_product(&mut residual, -1.0, c, &x, |v| v);
        comm.sum_f64(&mut residual);
        comm.sum_f64(&mut gauge);
        let unit = f64::EPSILON / 2.0;
        let products = (n + k + 4) as f64 * (k + 2) as f64;
        let underflow = products * (1.0 + self.scalars.alpha.abs()) * f64::MIN_POSITIVE;
        let factor = 4.0 * (n + k + 4) as f64 * unit;
        let ratios = residual
            .iter()
            .zip(&gauge)
            .map(|(r, g)| ratio(r.abs(), factor * g + underflow));
        let residual = ratios.fold(0.0, f64::max);
        Verdict {
            passed: residual <= 1.0,
            residual,
        }
    }
}

/// Residual in units of its bound; infinite for NaN, and for a residual where the bound is zero.
fn ratio(residual: f64, bound: f64) -> f64 {
    if residual == 0.0 {
        return 0.0;
    }
    let ratio = residual / bound;
    if ratio.is_nan() { f64::INFINITY } else { ratio }
}

/// A vector of ±1.
fn signs(seed: u64, len: usize) -> Vec<f64> {
    (0..len)
        .map(|i| if hash(seed, i, 1) & 1 == 0 { 1.0 } else { -1.0 })
        .collect()
}

/// `y += factor·map(M)·x` with this rank's part of M; `y` and `x` are whole vectors.
fn add_product(y: &mut [f64], factor: f64, matrix: &Matrix, x: &[f64], map: impl Fn(f64) -> f64) {
    let part = matrix.part();
    if part.is_empty() {
        return;
    }
    let y = &mut y[part.row_range()];
    for (column, x) in matrix.columns().zip(&x[part.col_range()]) {
        for (y, &value) in y.iter_mut().zip(column) {
            *y += factor * map(value) * x;
        }
    }
}
