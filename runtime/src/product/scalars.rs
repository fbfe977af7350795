//! The scalars of a product.

use isochron_devices::Scalar;

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
}
