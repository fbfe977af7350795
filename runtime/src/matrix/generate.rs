//! Matrices of numbers that any rank can compute by itself.

use isochron_devices::Scalar;
use num_complex::Complex64;

/// Rule for the elements of a generated matrix. An element depends only on the seed and its own indices, so a matrix is
/// the same on any layout and any number of ranks. The real and the imaginary part of a complex element are
/// independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Generator {
    /// Uniform in [-1, 1).
    Uniform {
        /// Seed, different for matrices that should differ.
        seed: u64,
    },
    /// Whole numbers in [-8, 8]. Products of such matrices are exact if `k·64` (`k·128` if they are complex) is below
    /// 2⁵³, or 2²⁴ in single precision.
    Integers {
        /// Seed, different for matrices that should differ.
        seed: u64,
    },
    /// The same value everywhere, possibly NaN.
    Constant(f64),
}

impl Generator {
    /// Returns the element in `row` and `col`.
    pub fn element<T: Scalar>(&self, row: usize, col: usize) -> T {
        let re = self.number(false, row, col);
        let im = if T::TYPE.is_complex() { self.number(true, row, col) } else { 0.0 };
        T::of(Complex64::new(re, im))
    }

    /// Returns the real part of an element, or the imaginary one.
    #[inline]
    fn number(&self, is_imaginary: bool, row: usize, col: usize) -> f64 {
        match *self {
            Generator::Uniform { seed } => to_unit(hash(choose_seed(seed, is_imaginary), row, col)),
            Generator::Integers { seed } => {
                (hash(choose_seed(seed, is_imaginary), row, col) % 17) as f64 - 8.0
            }
            Generator::Constant(value) if !is_imaginary => value,
            Generator::Constant(_) => 0.0,
        }
    }
}

/// Returns the seed of the real parts, or that of the imaginary ones.
fn choose_seed(seed: u64, is_imaginary: bool) -> u64 {
    if is_imaginary { !seed } else { seed }
}

/// Makes a number in [-1, 1) from the highest 53 bits.
fn to_unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * 2f64.powi(-52) - 1.0
}

/// Mixes seed and indices well (the finaliser of SplitMix64, applied twice).
///
/// # References
/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
pub(crate) fn hash(seed: u64, row: usize, col: usize) -> u64 {
    mix(mix(seed.wrapping_add(row as u64 + 1)).wrapping_add((col as u64 + 1) << 1))
}

pub(super) fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_in_range_and_differ() {
        let uniform = Generator::Uniform { seed: 1 };
        let integers = Generator::Integers { seed: 1 };
        let mut seen = [false; 17];
        for row in 0..40 {
            for col in 0..40 {
                let u: f64 = uniform.element(row, col);
                assert!((-1.0..1.0).contains(&u));
                let i: f64 = integers.element(row, col);
                assert!(i.fract() == 0.0 && (-8.0..=8.0).contains(&i));
                seen[(i + 8.0) as usize] = true;
            }
        }
        assert!(seen.iter().all(|&s| s), "every integer of the range turns up");
        let [here, there] =
            [(1, 2), (2, 1)].map(|(row, col)| uniform.element::<Complex64>(row, col));
        assert!(here != there && here.re != here.im);
        assert_ne!(here, Generator::Uniform { seed: 2 }.element(1, 2));
    }
}
