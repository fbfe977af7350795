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
mod shared;
pub(crate) mod trial;

pub use cblas::CblasLibrary;
pub use choose::{BlasChoice, available_blas, choose_blas};
pub use embedded::EmbeddedBlas;

pub(crate) use trial::BlasCandidates;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use elf::find_file;

/// Finds nothing: this system's loader knows.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn find_file(_file: &str) -> Option<std::path::PathBuf> {
    None
}

use crate::contract::{Scalar, View, ViewMut};

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
