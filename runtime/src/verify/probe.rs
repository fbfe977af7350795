//! A check by a random vector in floating point, with a derived bound.

use isochron_devices::Element;
use num_complex::Complex64;

use super::{SEED, Verdict};
use crate::comm::Comm;
use crate::matrix::{Matrix, Operand, hash};
use crate::multiply::Scalars;

/// A check in floating point. It begins before the multiplication, which overwrites C; then it is given A and B, whole or in
/// parts of k; it finishes after the multiplication.
///
/// The probe vector `x` has entries ±1. Let `u` be the unit roundoff of the elements (2⁻⁵³, or 2⁻²⁴ in single precision),
/// `γ_i = i·u/(1 - i·u)`, and `g = |alpha|·|A|·(|B|·|x|) + |beta|·|C0|·|x|`, componentwise. Then:
///
/// * the computed C differs from the exact one by at most `γ_{k+2}·(|alpha|·|A|·|B| + |beta|·|C0|)`, whatever the order in
///   which a BLAS sums; this moves `C·x` by at most `γ_{k+2}·g`;
/// * computing `C·x` errs by at most `γ_n·|C|·|x| ≤ γ_n·(1 + γ_{k+2})·g`;
/// * computing `alpha·A·(B·x) + beta·(C0·x)` errs by at most `γ_{n+k+4}·g`.
///
/// So the residual is at most `(γ_{k+2} + γ_n·(1 + γ_{k+2}) + γ_{n+k+4})·g`, which is below `2·(n + k + 4)·u·g` for small
/// `(n + k)·u`. The bound used is twice that, since `g` itself is computed. It adds
/// `(n + k + 4)·(k + 2)·(1 + |alpha|)·f` for products that underflow, where `f` is the smallest normal number. Sums over
/// ranks are only another order of summation. The check itself computes in double precision, which errs no more than this.
///
/// Complex arithmetic errs by `√8·γ_2` where real arithmetic errs by `γ_1`. `g` takes the sum of the magnitudes of both parts
/// of a number, which is at least its magnitude. So complex elements have a `√8` times larger `u`, and `γ_{2i}` for `γ_i`.
///
/// # References
/// Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, sections 3.5 and 3.6.
#[derive(Debug)]
pub struct Probe<T = f64> {
    seed: u64,
    scalars: Scalars<T>,
    /// Sum of the parts of k added so far.
    k: usize,
    /// This rank's share of `alpha·A·(B·x) + beta·C0·x`.
    expected: Vec<Complex64>,
    /// This rank's share of `g`.
    gauge: Vec<Complex64>,
}

impl<T: Element> Probe<T> {
    /// Begins a check with C before the multiplication, which is not read if `beta = 0`.
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
                &draw_signs(seed, cols),
                value,
            );
            add_product(
                &mut gauge,
                part_sum(beta),
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

    /// Adds A and B, or a part of k of them. With `alpha = 0` they are not read.
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices; [`Plan::operands`](crate::multiply::Plan::operands) gives the
    /// factors.
    pub fn add(&mut self, comm: &dyn Comm, [a, b]: [Operand<'_, T>; 2]) {
        let (n, k) = (b.cols(), b.rows());
        self.k += k;
        if self.scalars.alpha == T::ZERO {
            return;
        }
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let (x, alpha) = (draw_signs(self.seed, n), self.scalars.alpha.value());
        let (mut bx, mut abs_bx) = (zeros(k), zeros(k));
        add_product(&mut bx, ONE, &b, &x, value);
        add_product(&mut abs_bx, ONE, &b, &ones(n), magnitude);
        sum_over_ranks(comm, &mut bx);
        sum_over_ranks(comm, &mut abs_bx);
        add_product(&mut self.expected, alpha, &a, &bx, value);
        add_product(&mut self.gauge, part_sum(alpha), &a, &abs_bx, magnitude);
    }

    /// Finishes the check with C after the multiplication. NaN or infinite residuals do not pass.
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrix.
    pub fn finish(self, comm: &dyn Comm, c: &Matrix<T>) -> Verdict {
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let n = c.spread().cols();
        let (mut residual, mut gauge) = (self.expected, self.gauge);
        let x = draw_signs(self.seed, n);
        add_product(&mut residual, -ONE, &Operand::from(c), &x, value);
        sum_over_ranks(comm, &mut residual);
        sum_over_ranks(comm, &mut gauge);
        let alpha = part_sum(self.scalars.alpha.value()).re;
        let bound = Bound::new::<T>(n, self.k, alpha);
        let ratios = residual
            .iter()
            .zip(&gauge)
            .map(|(r, g)| residual_ratio(r.norm(), bound.factor * g.re + bound.underflow));
        let residual = ratios.fold(0.0, f64::max);
        Verdict {
            passed: residual <= 1.0,
            residual,
        }
    }
}

/// Largest residual of a correct result: `factor·g + underflow`.
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
    part_sum(element.value())
}

/// Returns the sum of the magnitudes of both parts.
fn part_sum(value: Complex64) -> Complex64 {
    Complex64::new(value.l1_norm(), 0.0)
}

fn zeros(len: usize) -> Vec<Complex64> {
    vec![Complex64::ZERO; len]
}

fn ones(len: usize) -> Vec<Complex64> {
    vec![ONE; len]
}

fn sum_over_ranks(comm: &dyn Comm, values: &mut [Complex64]) {
    comm.sum_f64(bytemuck::cast_slice_mut(values));
}

/// Returns a residual in units of its bound; infinite for NaN, and for a nonzero residual with bound zero.
fn residual_ratio(residual: f64, bound: f64) -> f64 {
    if residual == 0.0 {
        return 0.0;
    }
    let ratio = residual / bound;
    if ratio.is_nan() { f64::INFINITY } else { ratio }
}

/// Draws a vector of ±1.
fn draw_signs(seed: u64, len: usize) -> Vec<Complex64> {
    (0..len)
        .map(|i| if hash(seed, i, 1) & 1 == 0 { ONE } else { -ONE })
        .collect()
}

/// Computes `y += factor·map(M)·x` with this rank's part of M; `y` and `x` are whole vectors.
fn add_product<T: Element>(
    y: &mut [Complex64],
    factor: Complex64,
    matrix: &Operand<'_, T>,
    x: &[Complex64],
    map: impl Fn(T) -> Complex64,
) {
    matrix.for_each(|row, col, element| y[row] += factor * map(element) * x[col]);
}
