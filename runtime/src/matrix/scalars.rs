//! The scalars of a product.

use isochron_devices::Scalar;
use num_complex::Complex64;

use crate::comm::Settings;

/// The scalars of a multiplication.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalars<T = f64> {
    /// Factor of `op(A)·op(B)`; with 0, A and B are not read.
    pub alpha: T,
    /// Factor of C; with 0, C is not read.
    pub beta: T,
}

impl<T: Scalar> Scalars<T> {
    /// Scalars of a plain product, `C = op(A)·op(B)`.
    pub const PRODUCT: Self = Self { alpha: T::ONE, beta: T::ZERO };

    /// Scalars of an update, `C = C + op(A)·op(B)`.
    pub const UPDATE: Self = Self { alpha: T::ONE, beta: T::ONE };

    /// Returns the scalars as text, by which ranks compare them.
    pub(crate) fn describe(self) -> Settings {
        let scalars = [("alpha", self.alpha), ("beta", self.beta)];
        scalars.map(|(name, scalar)| (name.to_owned(), show_number(scalar.value()))).into()
    }
}

/// Writes a number as a user does: a real one without its imaginary part.
fn show_number(number: Complex64) -> String {
    if number.im == 0.0 { number.re.to_string() } else { number.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_shown_as_a_user_writes_them() {
        let scalars = Scalars { alpha: Complex64::new(1.5, -2.0), beta: Complex64::new(0.5, 0.0) };
        let told = scalars.describe();
        assert_eq!((&*told["alpha"], &*told["beta"]), ("1.5-2i", "0.5"));
    }
}
