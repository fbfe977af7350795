//! An exact check of products of whole numbers.

use super::{SEED, Verdict};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::{Matrix, hash};
use crate::multiply::Scalars;

/// The Mersenne prime 2⁶¹ - 1.
const PRIME: u64 = (1 << 61) - 1;
/// Whole numbers up to here, and their sums up to here, are exact in f64.
const EXACT_LIMIT: f64 = 9_007_199_254_740_992.0;

/// A check that is begun before a multiplication of whole numbers and finished after it.
///
/// All numbers are taken modulo the prime `p = 2⁶¹ - 1`, the probe vector is uniform in `[0, p)`. A result that
/// differs anywhere from `alpha·A·B + beta·C0` passes with probability at most `1/p`; so one element in the wrong
/// place, or one block from the wrong rank, is caught.
#[derive(Debug)]
pub struct Exact {
    seed: u64,
    scalars: Scalars,
    /// `beta·C0·x`, this rank's share.
    from_c: Vec<u64>,
}

impl Exact {
    /// Begins a check: `c` is what it is before the multiplication. With `alpha = 0`, A and B are not read; with
    /// `beta = 0`, C is not.
    ///
    /// # Errors
    /// [`Error::Parameter`], on every rank, when a scalar or an element is no whole number, or when numbers are so
    /// large that the product need not be exact.
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices.
    pub fn begin(
        comm: &dyn Comm,
        scalars: Scalars,
        operands: (&Matrix, &Matrix),
        c: &Matrix,
        seed: u64,
    ) -> Result<Self, Error> {
        let Scalars { alpha, beta } = scalars;
        let k = operands.0.distribution().cols();
        let checked = (|| {
            whole("alpha", alpha)?;
            whole("beta", beta)?;
            let of = |name, matrix, factor: f64| {
                if factor == 0.0 {
                    Ok(0.0)
                } else {
                    largest(name, matrix)
                }
            };
            Ok((
                of("A", operands.0, alpha)?,
                of("B", operands.1, alpha)?,
                of("C", c, beta)?,
            ))
        })();
        let (a_max, b_max, c_max) = agree(comm, checked)?;
        let product =
            alpha.abs() * largest_of_all(comm, a_max) * largest_of_all(comm, b_max) * k as f64;
        let sum = product + beta.abs() * largest_of_all(comm, c_max);
        if sum > EXACT_LIMIT {
            return Err(Error::Parameter {
                name: "verify",
                value: "exact".to_string(),
                reason: format!(
                    "sums may reach {sum:e}, beyond the whole numbers that f64 holds (2^53)"
                ),
            });
        }
        let seed = hash(SEED, seed as usize, 2);
        let mut from_c = vec![0; c.distribution().rows()];
        if beta != 0.0 {
            add_product(
                &mut from_c,
                residue(beta),
                c,
                &vector(seed, c.distribution().cols()),
            );
        }
        Ok(Self {
            seed,
            scalars,
            from_c,
        })
    }

    /// Finishes the check: `c` is the result.
    ///
    /// # Collective
    /// All ranks, with their parts of the same matrices.
    pub fn finish(self, comm: &dyn Comm, operands: (&Matrix, &Matrix), c: &Matrix) -> Verdict {
        let _entered = tracing::info_span!("verify", rank = comm.rank()).entered();
        let (a, b) = operands;
        let (n, k) = (b.distribution().cols(), b.distribution().rows());
        let x = vector(self.seed, n);
        let mut expected = self.from_c;
        if self.scalars.alpha != 0.0 {
            let mut bx = vec![0; k];
            add_product(&mut bx, 1, b, &x);
            sum(comm, &mut bx);
            add_product(&mut expected, residue(self.scalars.alpha), a, &bx);
        }
        let mut found = vec![0; expected.len()];
        let is_whole = c
            .columns()
            .flatten()
            .all(|value| value.fract() == 0.0 && value.abs() <= EXACT_LIMIT);
        if is_whole {
            add_product(&mut found, 1, c, &x);
        }
        let mut broken = [u64::from(!is_whole)];
        comm.sum_u64(&mut broken);
        sum(comm, &mut expected);
        sum(comm, &mut found);
        let passed = broken[0] == 0 && expected == found;
        Verdict {
            passed,
            residual: if passed { 0.0 } else { f64::INFINITY },
        }
    }
}

fn whole(name: &'static str, value: f64) -> Result<(), Error> {
    if value.fract() == 0.0 && value.abs() <= EXACT_LIMIT {
        return Ok(());
    }
    let reason = "an exact check needs whole numbers; use the probe".to_string();
    Err(Error::Parameter {
        name,
        value: value.to_string(),
        reason,
    })
}

/// Largest magnitude in this rank's part.
fn largest(name: &'static str, matrix: &Matrix) -> Result<f64, Error> {
    matrix
        .columns()
        .flatten()
        .try_fold(0.0, |max: f64, &value| {
            whole(name, value).map(|()| max.max(value.abs()))
        })
}

/// The largest of all ranks' values.
fn largest_of_all(comm: &dyn Comm, value: f64) -> f64 {
    let all = comm.all_gather(&value.to_le_bytes());
    all.iter()
        .filter_map(|bytes| Some(f64::from_le_bytes(bytes.as_slice().try_into().ok()?)))
        .fold(0.0, f64::max)
}

/// A vector uniform in `[0, p)`, up to the bias of one part in 2⁶¹ that a division leaves.
fn vector(seed: u64, len: usize) -> Vec<u64> {
    (0..len).map(|i| hash(seed, i, 3) % PRIME).collect()
}

/// A whole number modulo p.
fn residue(value: f64) -> u64 {
    let magnitude = value.abs() as u64 % PRIME;
    if value < 0.0 && magnitude > 0 {
        PRIME - magnitude
    } else {
        magnitude
    }
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

/// `y += factor·M·x` modulo p with this rank's part of M.
fn add_product(y: &mut [u64], factor: u64, matrix: &Matrix, x: &[u64]) {
    let part = matrix.part();
    if part.is_empty() {
        return;
    }
    let y = &mut y[part.row_range()];
    for (column, &x) in matrix.columns().zip(&x[part.col_range()]) {
        let x = multiply(factor, x);
        for (y, &value) in y.iter_mut().zip(column) {
            *y = add(*y, multiply(residue(value), x));
        }
    }
}

/// Sums over all ranks modulo p. Both halves of 32 bits are summed apart, so nothing is lost with fewer than
/// 2³² ranks.
fn sum(comm: &dyn Comm, values: &mut [u64]) {
    let mut halves: Vec<u64> = values
        .iter()
        .flat_map(|v| [v & 0xffff_ffff, v >> 32])
        .collect();
    comm.sum_u64(&mut halves);
    for (value, half) in values.iter_mut().zip(halves.chunks_exact(2)) {
        *value = add(half[0] % PRIME, multiply(half[1] % PRIME, 1 << 32));
    }
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
        fn residues_of_negative_numbers_cancel(value in 0..(1u64 << 53)) {
            let value = value as f64;
            prop_assert_eq!(add(residue(value), residue(-value)), 0);
        }
    }
}
