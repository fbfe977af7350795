//! Digests of the elements of a matrix.

use std::fmt;

use isochron_devices::Scalar;

use super::generate::mix;
use super::{HeldMatrix, Region};
use crate::comm::Comm;
use crate::error::Error;

/// Value of every NaN in a digest: formats differ in the bits that they keep.
const NAN: u64 = f64::NAN.to_bits();

/// A digest of elements with their places: a sum modulo 2⁶⁴ that does not depend on their order or on the ranks that hold
/// them. The digests of the parts of a matrix add up to the digest of the whole.
///
/// A changed bit changes the digest but for one case in 2⁶⁴. The sign of a zero does not count. It is no protection
/// against a forger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Adds a run of a column's elements, from this row on.
    pub fn add_column<T: Scalar>(&mut self, row: usize, col: usize, elements: &[T]) {
        let of_col = mix(col as u64 + 1);
        for (element, row) in elements.iter().zip(row as u64..) {
            let value = element.value();
            let place = of_col ^ row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.add_number(place, value.re);
            if T::TYPE.is_complex() {
                self.add_number(!place, value.im);
            }
        }
    }

    fn add_number(&mut self, place: u64, number: f64) {
        let bits = if number.is_nan() {
            NAN
        } else {
            // Without the sign of zero.
            (number + 0.0).to_bits()
        };
        // An odd factor: no number takes another one's place by becoming 0.
        let product = u128::from(bits ^ mix(place)) * u128::from(place | 1);
        self.0 = (self.0).wrapping_add(mix((product as u64) ^ (product >> 64) as u64));
    }

    /// Returns the digest of the elements of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Returns the digest of the elements of all ranks.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn sum_over_ranks(self, comm: &dyn Comm) -> Result<Self, Error> {
        let mut sum = [self.0];
        comm.sum_u64(&mut sum)?;
        Ok(Self(sum[0]))
    }
}

impl fmt::Display for Digest {
    /// Formats 16 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl<T: Scalar> HeldMatrix<'_, T> {
    /// Returns the digest of this rank's elements.
    pub fn digest(&self) -> Digest {
        let Region { row, col, .. } = self.part();
        let mut digest = Digest::default();
        for (j, column) in self.columns().enumerate() {
            digest.add_column(row, col + j, column);
        }
        digest
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex32;

    use super::*;
    use crate::matrix::{Generator, Matrix, Spread};

    #[test]
    fn every_bit_of_every_element_counts() {
        let spread = Spread::whole(7, 5);
        let matrix: Matrix<f64> =
            Matrix::generate(spread, 0, Generator::Uniform { seed: 1 }).unwrap();
        let whole = matrix.digest();
        for col in 0..5 {
            for row in 0..7 {
                for bit in 0..64 {
                    let mut changed = matrix.clone();
                    let element = f64::from_bits(matrix.local().col(col)[row].to_bits() ^ 1 << bit);
                    changed.fill(|i, j| {
                        if (i, j) == (row, col) { element } else { matrix.local().col(j)[i] }
                    });
                    assert_ne!(changed.digest(), whole, "bit {bit} of ({row}, {col})");
                }
            }
        }
    }

    #[test]
    fn elements_that_change_places_change_the_digest() {
        let spread = Spread::whole(3, 2);
        let mut matrix: Matrix<Complex32> = Matrix::zeros(spread, 0).unwrap();
        matrix.fill(|row, col| Complex32::new(row as f32, col as f32 - 1.0));
        let whole = matrix.digest();
        let mut swapped = matrix.clone();
        swapped.fill(|row, col| matrix.local().col(1 - col)[row]);
        assert_ne!(swapped.digest(), whole);
        swapped.fill(|row, col| Complex32::new(col as f32 - 1.0, row as f32));
        assert_ne!(swapped.digest(), whole);
    }

    #[test]
    fn parts_add_up_and_signs_of_zero_do_not_count() {
        let column = [1.0, -0.0, f64::NAN, f64::INFINITY];
        let mut whole = Digest::default();
        whole.add_column(3, 2, &column);
        let mut parts = Digest::default();
        parts.add_column(4, 2, &[0.0, -f64::NAN]);
        let mut rest = Digest::default();
        rest.add_column(6, 2, &column[3..]);
        rest.add_column(3, 2, &column[..1]);
        assert_eq!(parts.and(rest), whole);
    }
}
