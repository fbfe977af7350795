//! The contract of a library that multiplies.

use crate::contract::{DeviceError, View, ViewMut};
use num_complex::{Complex32, Complex64};
use std::any::Any;
use std::fmt;

/// A sequential `C += alpha·A·B` on the calling thread, for every type of elements; several threads may call it at
/// once. [`Scalar::select_gemm`](crate::contract::Scalar::select_gemm) selects the one for a type.
pub trait Blas:
    BlasGemm<f32> + BlasGemm<f64> + BlasGemm<Complex32> + BlasGemm<Complex64> + Send + Sync
{
    /// Returns the library, its version and the kernels in use, such as `OpenBLAS 0.3.21 (libopenblas.so.0, SkylakeX)`.
    fn name(&self) -> &str;

    /// Makes sure of the memory that `threads` threads need to multiply at once: once a system refuses it, a product has
    /// no way to say so. It holds until the returned value is dropped. By default a library needs none.
    fn reserve(&self, threads: usize) -> Result<ReservedThreads, DeviceError> {
        let _ = threads;
        Ok(ReservedThreads::default())
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

/// Room for a number of threads that multiply at once by one library. It ends when this value is dropped.
#[derive(Debug, Default)]
#[must_use]
pub struct ReservedThreads {
    _room: Option<Box<dyn Any + Send + Sync>>,
}

impl ReservedThreads {
    /// Keeps `room`, which ends when it is dropped.
    pub fn holding(room: impl Any + Send + Sync) -> Self {
        Self { _room: Some(Box::new(room)) }
    }
}
