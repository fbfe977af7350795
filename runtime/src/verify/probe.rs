//! A random probe in floating point, with a derived bound.

use isochron_devices::Element;
use num_complex::Complex64;

use super::{SEED, Verdict};
use crate::comm::Comm;
use crate::matrix::{Matrix, Operand, hash};
use crate::multiply::Scalars;

/// A check that is begun before a multiplication (which overwrites C), is shown A and B, whole or in parts of k, and is finished
/// after the multiplication.
///
/// The probe vector `x` has entries ±1. With the unit roundoff `u` of the elements (2⁻⁵³, or 2⁻²⁴ in single precision), `γ_i = i·u/(1 - i·u)` and
/// `g = |alpha|·|A|·(|B|·|x|) + |beta|·|C0|·|x|`, componentwise:
///
/// * the computed C differs from the exact one by at most `γ_{k+2}·(|alpha|·|A|·|B| + |beta|·|C0|)`, in whatever
///   order a BLAS sums, which moves `C·x` by at most `γ_{k+2}·g`;
/// * computing `C·x` errs by at most `γ_n·|C|·|x| ≤ γ_n·(1 + γ_{k+2})·g`;
/// * computing `alpha·A·(B·x) + beta·(C0·x)` errs by at most `γ_{n+k+4}·g`.
///
/// So the residual is at most `(γ_{k+2} + γ_n·(1 + γ_{k+2}) + γ_{n+k+4})·g`, which is below `2·(n + k + 4)·u·g`
/// as long as `(n + k)·u` is small; the bound used doubles that, for `g` itself is computed, and adds
/// `(n + k + 4)·(k + 2)·(1 + |alpha|)·f` for products that underflow, where `f` is the smallest normal number. Rank by
/// rank sums are only another order of summation, and the check itself computes in double precision, which errs no more
/// than this.
///
/// Complex arithmetic errs by `√8·γ_2` where real arithmetic errs by `γ_1`, and a magnitude is at most the sum of those of
/// its two parts, which `g` is made of; so `u` is `√8` times as large for complex elements, with `γ_{2i}` for `γ_i`.
///
/// # References
/// Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, sections 3.5 and 3.6.
#[derive(Debug)]
pub struct Probe<T = f64> {
    seed: u64,
    scalars: Scalars<T>,
    /// k, as far as A and B were shown.
    k: usize,
    /// `alpha·A·(B·x) + beta·C0·x`, this rank's share.
    expected: Vec<Complex64>,
    /// `g`, this rank's share.
    gauge: Vec<Complex64>,
}

impl<T: Element> Probe<T> {
    /// Begins a check: `c` is what it is before the multiplication.
    ///
    /// With `beta = 0`, C is not read.
    pub fn begin(scalars: Scalars<T>, c: &Matrix<T>, seed: u64) -> Self {
        let (rows, cols) = (c.spread().rows(), c.spread().cols());
        let (mut expected, mut gauge) = (zeros(rows), zeros(rows));
        let seed = hash(SEED, seed as usize, 0);
        let beta = scalars.beta.value();
        if scalars.beta != T::ZERO {
            add_product(
                &mut expected,
                beta,
                &Operand::from(c),
                &signs(seed, cols),
                value,
            );
            add_product(
                &mut gauge,
                size(beta),
                &Operand::from(c),
                &ones(cols),
                magnitude,
            );
        }
        Self {
            seed,
            scalars,
            k: 0,
            expected,
            gauge,
        }
    }

    /// Shows A and B, or a part of k of them. With `alpha = 0` they are not read.
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices; [`Plan::operands`](crate::multiply::Plan::operands) gives the factors.
    pub fn add(&mut self, comm: &dyn Comm, [a, b]: [Operand<'_, T>; 2]) {
        let (n, k) = (b.cols(), b.rows());
        self.k += k;
        if self.scalars.alpha == T::ZERO {
            return;
        }
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let (x, alpha) = (signs(self.seed, n), self.scalars.alpha.value());
        let (mut bx, mut abs_bx) = (zeros(k), zeros(k));
        add_product(&mut bx, ONE, &b, &x, value);
        add_product(&mut abs_bx, ONE, &b, &ones(n), magnitude);
        sum(comm, &mut bx);
        sum(comm, &mut abs_bx);
        add_product(&mut self.expected, alpha, &a, &bx, value);
        add_product(&mut self.gauge, size(alpha), &a, &abs_bx, magnitude);
    }

    /// Finishes the check: `c` is the result. NaN or infinite residuals do not pass.
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrix.
    pub fn finish(self, comm: &dyn Comm, c: &Matrix<T>) -> Verdict {
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let n = c.spread().cols();
        let (mut residual, mut gauge) = (self.expected, self.gauge);
        let x = signs(self.seed, n);
        add_product(&mut residual, -ONE, &Operand::from(c), &x, value);
        sum(comm, &mut residual);
        sum(comm, &mut gauge);
        let alpha = size(self.scalars.alpha.value()).re;
        let bound = Bound::new::<T>(n, self.k, alpha);
        let ratios = residual
            .iter()
            .zip(&gauge)
            .map(|(r, g)| ratio(r.norm(), bound.factor * g.re + bound.underflow));
        let residual = ratios.fold(0.0, f64::max);
        Verdict {
            passed: residual <= 1.0,
            residual,
        }
    }
}

/// What a residual may be: `factor·g + underflow`.
struct Bound {
    factor: f64,
    underflow: f64,
}

impl Bound {
    fn new<T: Element>(n: usize, k: usize, alpha: f64) -> Self {
        let unit = T::EPSILON / 2.0;
        let complex = if T::TYPE.is_complex() {
            2.0 * 8f64.sqrt()
        } else {
            1.0
        };
        let products = (n + k + 4) as f64 * (k + 2) as f64;
        Self {
            factor: 4.0 * complex * (n + k + 4) as f64 * unit,
            underflow: complex * products * (1.0 + alpha) * T::SMALLEST_NORMAL,
        }
    }
}

const ONE: Complex64 = Complex64::ONE;

fn value<T: Element>(element: T) -> Complex64 {
    element.value()
}

fn magnitude<T: Element>(element: T) -> Complex64 {
    size(element.value())
}

/// The sum of the magnitudes of both parts.
fn size(value: Complex64) -> Complex64 {
    Complex64::new(value.l1_norm(), 0.0)
}

fn zeros(len: usize) -> Vec<Complex64> {
    vec![Complex64::ZERO; len]
}

fn ones(len: usize) -> Vec<Complex64> {
    vec![ONE; len]
}

fn sum(comm: &dyn Comm, values: &mut [Complex64]) {
    comm.sum_f64(bytemuck::cast_slice_mut(values));
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
fn signs(seed: u64, len: usize) -> Vec<Complex64> {
    let sign = |i| if hash(seed, i, 1) & 1 == 0 { ONE } else { -ONE };
    (0..len).map(sign).collect()
}

/// `y += factor·map(M)·x` with this rank's part of M; `y` and `x` are whole vectors.
fn add_product<T: Element>(
    y: &mut [Complex64],
    factor: Complex64,
    matrix: &Operand<'_, T>,
    x: &[Complex64],
    map: impl Fn(T) -> Complex64,
) {
    matrix.for_each(|row, col, element| y[row] += factor * map(element) * x[col]);
}
