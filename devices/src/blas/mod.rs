//! The matrix multiplication under every CPU device: a BLAS that is chosen at run time.
//!
//! [`choose_blas`] opens the installed CBLAS libraries, checks and measures each, and takes the fastest. [`EmbeddedBlas`] is
//! compiled in and always available. All are used sequentially: the threads of a device are ours.

mod cblas;
mod choose;
mod embedded;

pub use cblas::CblasLibrary;
pub use choose::{BlasChoice, available_blas, choose_blas};
pub use embedded::EmbeddedBlas;

use crate::{Element, View, ViewMut};
use num_complex::{Complex32, Complex64};
use std::fmt;

/// A sequential `C += alpha·A·B` on the calling thread; several threads may call it at once.
///
/// A: `m × k`, B: `k × n`, C: `m × n`, all column-major. Any dimension may be 0; `alpha = 0` does not change C and
/// reads neither A nor B. Every function panics if the shapes do not fit each other. [`gemm`](trait.Blas.html#method.gemm)
/// picks the one for an element type.
pub trait Blas: Send + Sync {
    /// Returns the library, its version and the kernels in use, such as `OpenBLAS 0.3.21 (libopenblas.so.0, SkylakeX)`.
    fn name(&self) -> &str;

    /// Multiplies real matrices in single precision.
    fn sgemm(&self, alpha: f32, a: View<'_, f32>, b: View<'_, f32>, c: ViewMut<'_, f32>);

    /// Multiplies real matrices in double precision.
    fn dgemm(&self, alpha: f64, a: View<'_, f64>, b: View<'_, f64>, c: ViewMut<'_, f64>);

    /// Multiplies complex matrices in single precision.
    fn cgemm(
        &self,
        alpha: Complex32,
        a: View<'_, Complex32>,
        b: View<'_, Complex32>,
        c: ViewMut<'_, Complex32>,
    );

    /// Multiplies complex matrices in double precision.
    fn zgemm(
        &self,
        alpha: Complex64,
        a: View<'_, Complex64>,
        b: View<'_, Complex64>,
        c: ViewMut<'_, Complex64>,
    );
}

impl dyn Blas + '_ {
    /// Computes `C += alpha·A·B`.
    ///
    /// # Panics
    /// If the shapes do not fit each other.
    pub fn gemm<T: Element>(&self, alpha: T, a: View<'_, T>, b: View<'_, T>, c: ViewMut<'_, T>) {
        T::gemm(self, alpha, a, b, c);
    }
}

impl fmt::Display for dyn Blas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for dyn Blas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Checks the shapes of `C += alpha·A·B`, and returns `true` if there is anything to compute.
///
/// # Panics
/// If the shapes do not fit each other: the pointers passed to a foreign library rely on this.
fn has_work<T: Element>(alpha: T, a: &View<'_, T>, b: &View<'_, T>, c: &ViewMut<'_, T>) -> bool {
    assert!(
        a.rows() == c.rows() && b.cols() == c.cols() && a.cols() == b.rows(),
        "C {}x{} += A {}x{} times B {}x{}",
        c.rows(),
        c.cols(),
        a.rows(),
        a.cols(),
        b.rows(),
        b.cols()
    );
    alpha != T::ZERO && !c.is_empty() && a.cols() > 0
}
