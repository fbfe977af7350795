//! The matrix multiplication under every CPU device: a BLAS that is chosen when the program runs.
//!
//! [`choose`] opens the CBLAS libraries that are installed, checks and measures each, and takes the fastest;
//! [`EmbeddedBlas`] is compiled in and always there. All are used sequentially: the threads of a device are ours.

mod cblas;
mod choose;
mod embedded;

pub use cblas::CblasLibrary;
pub use choose::{BLAS_VARIABLE, BlasChoice, available, choose, speed_flops_per_s};
pub use embedded::EmbeddedBlas;

use crate::{View, ViewMut};
use std::fmt;

/// A sequential `C += alpha·A·B` on the calling thread, which several threads may call at once.
pub trait Blas: Send + Sync {
    /// Library, version and what else tells which code runs, such as `OpenBLAS 0.3.21 (libopenblas.so.0, SkylakeX)`.
    fn name(&self) -> &str;

    /// `C += alpha·A·B`, with A: `m × k`, B: `k × n`, C: `m × n`, all column-major. Any dimension may be 0;
    /// `alpha = 0` leaves C as it is and reads neither A nor B.
    ///
    /// # Panics
    /// When the shapes do not fit each other.
    fn gemm(&self, alpha: f64, a: View<'_, f64>, b: View<'_, f64>, c: ViewMut<'_, f64>);
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

/// Checks the shapes of `C += alpha·A·B`; tells whether there is anything to compute.
///
/// # Panics
/// When the shapes do not fit each other: the pointers handed to a foreign library rely on this.
fn has_work(alpha: f64, a: &View<'_, f64>, b: &View<'_, f64>, c: &ViewMut<'_, f64>) -> bool {
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
    alpha != 0.0 && !c.is_empty() && a.cols() > 0
}
