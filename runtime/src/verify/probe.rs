//! A check by a random vector in floating point, with a derived bound.

use isochron_devices::Scalar;
use num_complex::Complex64;

use super::{SEED, Verdict, enter_factors};
use crate::comm::{CollectiveCall, Comm};
use crate::error::Error;
use crate::matrix::{HeldMatrix, Operand, hash};
use crate::multiply::Scalars;

/// A check in floating point.
///
/// The probe vector `x` has entries ±1. Let `u` be the unit roundoff of the elements (2⁻⁵³, or 2⁻²⁴ in single
/// precision), `γ_i = i·u/(1 - i·u)`, and `g = |alpha|·|A|·(|B|·|x|) + |beta|·|C0|·|x|`, componentwise. Then:
///
/// * the computed C differs from the exact one by at most `γ_{k+2}·(|alpha|·|A|·|B| + |beta|·|C0|)`, whatever the order
///   in which a BLAS sums; this moves `C·x` by at most `γ_{k+2}·g`;
/// * computing `C·x` errs by at most `γ_n·|C|·|x| ≤ γ_n·(1 + γ_{k+2})·g`;
/// * computing `alpha·A·(B·x) + beta·(C0·x)` errs by at most `γ_{n+k+4}·g`.
///
/// So the residual is at most `(γ_{k+2} + γ_n·(1 + γ_{k+2}) + γ_{n+k+4})·g`, which is below `2·(n + k + 4)·u·g` for
/// small `(n + k)·u`. The bound used is twice that, since `g` itself is computed. It adds `(n + k + 4)·(k + 2)·(1 +
/// |alpha|)·f` for products that underflow, where `f` is the smallest normal number. Sums over ranks are only another
/// order of summation. The check itself computes in double precision, which errs no more than this.
///
/// Complex arithmetic errs by `√8·γ_2` where real arithmetic errs by `γ_1`. `g` takes the sum of the magnitudes of both
/// parts of a number, which is at least its magnitude. So complex elements have a `√8` times larger `u`, and `γ_{2i}`
/// for `γ_i`.
///
/// # References
/// Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, sections 3.5 and 3.6.
#[derive(Debug)]
pub struct Probe<T = f64> {
    seed: u64,
    scalars: Scalars<T>,
    /// Sum of the parts of k added so far.
    k: usize,
    /// This rank's share of `alpha·A·(B·x) + beta·C0·x`, with `g`.
    expected: GaugedVector,
}

impl<T: Scalar> Probe<T> {
    /// Begins a check with C before the multiplication, which is not read if `beta = 0`.
    pub fn begin(scalars: Scalars<T>, c: &HeldMatrix<'_, T>, seed: u64) -> Self {
        let (rows, cols) = (c.spread().rows(), c.spread().cols());
        let mut expected = GaugedVector::zeros(rows);
        let seed = hash(SEED, seed as usize, 0);
        if scalars.beta != T::ZERO {
            let x = GaugedVector::draw_signs(seed, cols);
            expected.add_product(scalars.beta, &Operand::from(c), &x);
        }
        Self {
            seed,
            scalars,
            k: 0,
            expected,
        }
    }

    /// Adds A and B, or a part of k of them. With `alpha = 0` they are not read.
    ///
    /// # Errors
    /// Those of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices; [`Plan::operands`](crate::multiply::Plan::operands) gives the
    /// factors.
    pub fn add(&mut self, comm: &dyn Comm, [a, b]: [Operand<'_, T>; 2]) -> Result<(), Error> {
        let _call = enter_factors((comm, "Probe::add"), (self.seed, self.scalars), [&a, &b])?;
        let (n, k) = (b.cols(), b.rows());
        self.k += k;
        if self.scalars.alpha == T::ZERO {
            return Ok(());
        }
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let mut bx = GaugedVector::zeros(k);
        bx.add_product(T::ONE, &b, &GaugedVector::draw_signs(self.seed, n));
        bx.sum_over_ranks(comm)?;
        self.expected.add_product(self.scalars.alpha, &a, &bx);
        Ok(())
    }

    /// Finishes the check with C after the multiplication. NaN or infinite residuals do not pass.
    ///
    /// # Errors
    /// Those of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrix.
    pub fn finish(self, comm: &dyn Comm, c: &HeldMatrix<'_, T>) -> Result<Verdict, Error> {
        let call = CollectiveCall::new(comm, "Probe::finish");
        let _call = call
            .with("C", &(c.spread().rows(), c.spread().cols()))
            .enter()?;
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let n = c.spread().cols();
        let x = GaugedVector::draw_signs(self.seed, n).sums;
        let mut residual = self.expected;
        Operand::from(c).for_each(|row, col, element| {
            residual.sums[row] -= element.value() * x[col];
        });
        residual.sum_over_ranks(comm)?;
        let alpha = part_sum(self.scalars.alpha.value()).re;
        let [factor, underflow] = find_bound::<T>(n, self.k, alpha);
        let ratios = residual
            .sums
            .iter()
            .zip(&residual.gauge)
            .map(|(r, g)| residual_ratio(r.norm(), factor * g.re + underflow));
        let residual = ratios.fold(0.0, f64::max);
        Ok(Verdict {
            passed: residual <= 1.0,
            residual,
        })
    }
}

/// Returns the factor of `g`, and the addend for products that underflow, of the largest residual of a correct result.
fn find_bound<T: Scalar>(n: usize, k: usize, alpha: f64) -> [f64; 2] {
    let unit = T::EPSILON / 2.0;
    let complex = if T::TYPE.is_complex() {
        2.0 * 8f64.sqrt()
    } else {
        1.0
    };
    let products = (n + k + 4) as f64 * (k + 2) as f64;
    [
        4.0 * complex * (n + k + 4) as f64 * unit,
        complex * products * (1.0 + alpha) * T::SMALLEST_NORMAL,
    ]
}

/// A vector of sums, and the sums of the magnitudes of their terms.
#[derive(Debug)]
struct GaugedVector {
    sums: Vec<Complex64>,
    gauge: Vec<Complex64>,
}

impl GaugedVector {
    fn zeros(len: usize) -> Self {
        Self {
            sums: vec![Complex64::ZERO; len],
            gauge: vec![Complex64::ZERO; len],
        }
    }

    /// Draws a vector of ±1.
    fn draw_signs(seed: u64, len: usize) -> Self {
        let signs = (0..len).map(|i| 1.0 - 2.0 * (hash(seed, i, 1) & 1) as f64);
        Self {
            sums: signs.map(Complex64::from).collect(),
            gauge: vec![Complex64::ONE; len],
        }
    }

    /// Adds `factor·M·x` with this rank's part of M; this vector and `x` are whole.
    fn add_product<T: Scalar>(&mut self, factor: T, matrix: &Operand<'_, T>, x: &Self) {
        let factor = factor.value();
        let size = part_sum(factor);
        matrix.for_each(|row, col, element| {
            let element = element.value();
            self.sums[row] += factor * element * x.sums[col];
            self.gauge[row] += size * part_sum(element) * x.gauge[col];
        });
    }

    fn sum_over_ranks(&mut self, comm: &dyn Comm) -> Result<(), Error> {
        comm.sum_f64(bytemuck::cast_slice_mut(&mut self.sums))?;
        comm.sum_f64(bytemuck::cast_slice_mut(&mut self.gauge))
    }
}

/// Returns the sum of the magnitudes of both parts.
fn part_sum(value: Complex64) -> Complex64 {
    Complex64::new(value.l1_norm(), 0.0)
}

/// Returns a residual in units of its bound; infinite for NaN, and for a nonzero residual with bound zero.
fn residual_ratio(residual: f64, bound: f64) -> f64 {
    if residual == 0.0 {
        return 0.0;
    }
    let ratio = residual / bound;
    if ratio.is_nan() { f64::INFINITY } else { ratio }
}
