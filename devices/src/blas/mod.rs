//! The matrix multiplication under every CPU device: a BLAS that is chosen at run time.
//!
//! [`choose_blas`] opens the installed CBLAS libraries, checks and measures each, and takes the fastest.
//! [`EmbeddedBlas`] is compiled in and always available. All are used sequentially: the threads of a device are ours. The
//! settings of the libraries that the program itself uses stay as they are.

pub(crate) mod cblas;
pub(crate) mod choose;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod elf;
mod embedded;
mod make;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod own_copy;
mod room;
pub(crate) mod trial;

pub use cblas::CblasLibrary;
pub(crate) use cblas::find_reason;
pub use choose::{BlasChoice, available_blas, choose_blas};
pub use embedded::EmbeddedBlas;
pub use room::ReservedThreads;

pub(crate) use trial::BlasCandidates;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use elf::find_file;

/// Finds nothing: this system's loader knows.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn find_file(_file: &str) -> Option<std::path::PathBuf> {
    None
}

use crate::{DeviceError, Scalar, View, ViewMut};
use num_complex::{Complex32, Complex64};
use std::fmt;

/// A sequential `C += alpha·A·B` on the calling thread, for every type of elements; several threads may call it at
/// once. [`Scalar::select_gemm`] selects the one for a type.
pub trait Blas:
    BlasGemm<f32> + BlasGemm<f64> + BlasGemm<Complex32> + BlasGemm<Complex64> + Send + Sync
{
    /// Returns the library, its version and the kernels in use, such as `OpenBLAS 0.3.21 (libopenblas.so.0, SkylakeX)`.
    fn name(&self) -> &str;

    /// Makes sure of the memory that `threads` threads need to multiply at once: once a system refuses it, a product has
    /// no way to say so. It holds until the returned value is dropped.
    ///
    /// # Errors
    /// [`DeviceError::BlasMemory`] if the system refuses it.
    fn reserve(&self, threads: usize) -> Result<ReservedThreads, DeviceError> {
        room::check_packing(threads)
            .map(|()| ReservedThreads::default())
            .map_err(|bytes| DeviceError::refused_library(self.name(), bytes))
    }
}

/// The multiplication of a [`Blas`] for elements of one type.
pub trait BlasGemm<T> {
    /// Computes `C += alpha·A·B` with A: `m × k`, B: `k × n`, C: `m × n`, all column-major. Any dimension may be 0;
    /// `alpha = 0` does not change C and reads neither A nor B.
    ///
    /// # Panics
    /// If the shapes do not fit each other.
    fn gemm(&self, alpha: T, a: View<'_, T>, b: View<'_, T>, c: ViewMut<'_, T>);
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
fn has_work<T: Scalar>(alpha: T, a: &View<'_, T>, b: &View<'_, T>, c: &ViewMut<'_, T>) -> bool {
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
