//! An exact check of products of whole numbers.

use isochron_devices::Scalar;
use num_complex::Complex64;

use super::{SEED, Verdict, enter_factors};
use crate::comm::{CollectiveCall, Comm, agree};
use crate::error::Error;
use crate::matrix::scalars::Scalars;
use crate::matrix::{HeldMatrix, Operand, hash};

/// The Mersenne prime 2⁶¹ - 1.
const PRIME: u64 = (1 << 61) - 1;

/// A check of whole numbers.
///
/// All numbers are taken modulo the prime `p = 2⁶¹ - 1`. Complex numbers are pairs of such numbers; they form a field
/// too, since -1 is no square modulo p. The probe vector is uniform. A result that differs anywhere from `alpha·A·B +
/// beta·C0` passes with probability at most `1/p`. So the check catches a single element in the wrong place, or a block
/// from the wrong rank.
#[derive(Debug)]
pub struct Exact<T = f64> {
    seed: u64,
    scalars: Scalars<T>,
    /// Bound on the magnitudes of all sums so far.
    largest: f64,
    /// This rank's share of `alpha·A·(B·x) + beta·C0·x`.
    expected: Vec<Residue>,
    /// Columns of C.
    cols: usize,
}

/// Returns the magnitude up to which whole numbers and their sums are exact in the elements' precision.
fn exact_limit<T: Scalar>() -> f64 {
    2.0 / T::EPSILON
}

impl<T: Scalar> Exact<T> {
    /// Begins a check with C before the multiplication, which is not read if `beta = 0`.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`], on every rank, if a scalar or an element is no whole number, or is so large that
    /// sums may be inexact.
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrix.
    pub fn begin(
        comm: &dyn Comm,
        scalars: Scalars<T>,
        c: &HeldMatrix<'_, T>,
        seed: u64,
    ) -> Result<Self, Error> {
        let _call = CollectiveCall::new(comm, "beginning an exact check")
            .with_settings(scalars.describe())
            .with("C", &(c.spread().rows(), c.spread().cols()))
            .with("seed", &seed)
            .enter()?;
        let Scalars { alpha, beta } = scalars;
        let checked = check_whole("alpha", alpha).and_then(|_| match check_whole("beta", beta)? {
            0.0 => Ok(0.0),
            beta => Ok(beta * largest_magnitude("C", c)?),
        });
        let c_max = comm.largest(agree(comm, checked)?)?;
        check_limit::<T>(c_max)?;
        let seed = hash(SEED, seed as usize, 2);
        let mut expected = vec![Residue::default(); c.spread().rows()];
        if beta != T::ZERO {
            let x = draw_vector(seed, c.spread().cols());
            add_product(&mut expected, residue(beta), &Operand::from(c), &x);
        }
        Ok(Self { seed, scalars, largest: c_max, expected, cols: c.spread().cols() })
    }

    /// Adds A and B, or a part of k of them. With `alpha = 0` they are not read.
    ///
    /// # Errors
    /// Returns the errors of [`begin`](Self::begin), and [`Error::Shape`] on every rank for factors of another product
    /// than C.
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices; [`Plan::operands`](crate::plan::Plan::operands) gives the
    /// factors.
    pub fn add(&mut self, comm: &dyn Comm, [a, b]: [Operand<'_, T>; 2]) -> Result<(), Error> {
        let _call = enter_factors(
            comm,
            "adding factors to an exact check",
            self.seed,
            self.scalars,
            [&a, &b],
            self.expected.len(),
            self.cols,
        )?;
        let alpha = self.scalars.alpha;
        if alpha == T::ZERO {
            return Ok(());
        }
        let sizes = check_whole("alpha", alpha).and_then(|alpha| {
            let of_a = largest_magnitude("A", a.matrix())?;
            Ok([alpha, of_a, largest_magnitude("B", b.matrix())?])
        });
        let mut bound = a.cols() as f64;
        for size in agree(comm, sizes)? {
            bound *= comm.largest(size)?;
        }
        self.largest += bound;
        check_limit::<T>(self.largest)?;
        let x = draw_vector(self.seed, b.cols());
        let mut bx = vec![Residue::default(); b.rows()];
        add_product(&mut bx, residue(T::ONE), &b, &x);
        sum_over_ranks(comm, &mut bx)?;
        add_product(&mut self.expected, residue(alpha), &a, &bx);
        Ok(())
    }

    /// Finishes the check with C after the multiplication.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrix.
    pub fn finish(self, comm: &dyn Comm, c: &HeldMatrix<'_, T>) -> Result<Verdict, Error> {
        let _call = CollectiveCall::new(comm, "ending an exact check")
            .with("C", &(c.spread().rows(), c.spread().cols()))
            .enter()?;
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let mut expected = self.expected;
        let mut found = vec![Residue::default(); expected.len()];
        let is_whole = largest_magnitude("C", c).is_ok();
        if is_whole {
            let x = draw_vector(self.seed, c.spread().cols());
            add_product(&mut found, residue(T::ONE), &Operand::from(c), &x);
        }
        let mut broken = [u64::from(!is_whole)];
        comm.sum_u64(&mut broken)?;
        sum_over_ranks(comm, &mut expected)?;
        sum_over_ranks(comm, &mut found)?;
        let passed = broken[0] == 0 && expected == found;
        Ok(Verdict {
            passed: Some(passed),
            doubt: None,
            residual: if passed { 0.0 } else { f64::INFINITY },
            finds: None,
        })
    }
}

/// Refuses sums that may be inexact.
fn check_limit<T: Scalar>(sum: f64) -> Result<(), Error> {
    if sum <= exact_limit::<T>() {
        return Ok(());
    }
    Err(Error::Parameter {
        name: "verify",
        value: "exact".to_string(),
        reason: format!("sums may reach {sum:e}, {}", describe_excess::<T>()),
    })
}

fn describe_excess<T: Scalar>() -> String {
    let power = exact_limit::<T>().log2();
    format!("beyond the whole numbers that {} holds (2^{power})", T::TYPE)
}

/// Returns the magnitude of a whole number: the sum of the magnitudes of its two parts.
fn check_whole<T: Scalar>(name: &'static str, element: T) -> Result<f64, Error> {
    let Complex64 { re, im } = element.value();
    let size = re.abs() + im.abs();
    let is_whole = re.fract() == 0.0 && im.fract() == 0.0;
    if is_whole && size <= exact_limit::<T>() {
        return Ok(size);
    }
    let reason = if is_whole {
        describe_excess::<T>() + "; use the probe"
    } else {
        "an exact check needs whole numbers; use the probe".to_string()
    };
    let value = match (T::TYPE.is_complex(), size < 1e17) {
        (true, true) => element.value().to_string(),
        (true, false) => format!("{:e}", element.value()),
        (false, true) => re.to_string(),
        (false, false) => format!("{re:e}"),
    };
    Err(Error::Parameter { name, value, reason })
}

/// Returns the largest magnitude in this rank's part.
fn largest_magnitude<T: Scalar>(
    name: &'static str,
    matrix: &HeldMatrix<'_, T>,
) -> Result<f64, Error> {
    matrix
        .columns()
        .flatten()
        .try_fold(0.0, |max: f64, &element| check_whole(name, element).map(|size| max.max(size)))
}

/// A whole complex number modulo p, as its two parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Residue {
    re: u64,
    im: u64,
}

impl Residue {
    fn plus(self, other: Self) -> Self {
        Self { re: add(self.re, other.re), im: add(self.im, other.im) }
    }

    fn times(self, other: Self) -> Self {
        Self {
            re: add(multiply(self.re, other.re), PRIME - multiply(self.im, other.im)),
            im: add(multiply(self.re, other.im), multiply(self.im, other.re)),
        }
    }
}

/// Draws a vector of uniform pairs, up to a bias of one part in 2⁶¹ from the division.
fn draw_vector(seed: u64, len: usize) -> Vec<Residue> {
    (0..len)
        .map(|i| Residue { re: hash(seed, i, 3) % PRIME, im: hash(seed, i, 4) % PRIME })
        .collect()
}

/// Takes a whole number modulo p.
fn residue<T: Scalar>(element: T) -> Residue {
    let Complex64 { re, im } = element.value();
    Residue { re: real_residue(re), im: real_residue(im) }
}

fn real_residue(value: f64) -> u64 {
    (value as i64).rem_euclid(PRIME as i64) as u64
}

fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    // 2⁶¹ ≡ 1: the high part is added to the low one.
    add((product & u128::from(PRIME)) as u64, (product >> 61) as u64)
}

fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= PRIME { sum - PRIME } else { sum }
}

/// Computes `y += factor·M·x` modulo p with this rank's part of M.
fn add_product<T: Scalar>(
    y: &mut [Residue],
    factor: Residue,
    matrix: &Operand<'_, T>,
    x: &[Residue],
) {
    let x: Vec<Residue> = x.iter().map(|x| factor.times(*x)).collect();
    matrix.for_each(|row, col, element| y[row] = y[row].plus(residue(element).times(x[col])));
}

/// Sums over all ranks modulo p. The halves of 32 bits are summed apart, so that no sum overflows with fewer than 2³²
/// ranks.
fn sum_over_ranks(comm: &dyn Comm, values: &mut [Residue]) -> Result<(), Error> {
    let mut halves: Vec<u64> = values
        .iter()
        .flat_map(|value| [value.re, value.im])
        .flat_map(|part| [part & 0xffff_ffff, part >> 32])
        .collect();
    comm.sum_u64(&mut halves)?;
    for (value, halves) in values.iter_mut().zip(halves.chunks_exact(4)) {
        value.re = join_halves(halves[0], halves[1]);
        value.im = join_halves(halves[2], halves[3]);
    }
    Ok(())
}

/// Returns `low + 2³²·high` modulo p.
fn join_halves(low: u64, high: u64) -> u64 {
    add(low % PRIME, multiply(high % PRIME, 1 << 32))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arithmetic_is_that_of_the_field(a in 0..PRIME, b in 0..PRIME) {
            let exact = (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64;
            prop_assert_eq!(multiply(a, b), exact);
            prop_assert_eq!(add(a, b), ((u128::from(a) + u128::from(b)) % u128::from(PRIME)) as u64);
        }

        #[test]
        fn complex_products_are_those_of_whole_numbers(parts in prop::array::uniform4(-1_000_000i64..1_000_000)) {
            let [a, b, c, d] = parts.map(|part| part as f64);
            let product = Complex64::new(a * c - b * d, a * d + b * c);
            let factors = [Complex64::new(a, b), Complex64::new(c, d)].map(residue);
            prop_assert_eq!(factors[0].times(factors[1]), residue(product));
        }
    }
}
