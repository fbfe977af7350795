//! cuBLAS: its handle, and the element types that it multiplies.

use super::check::{Outcome, check};
use super::context::Context;
use super::find::CudaInfo;
use super::raw;
use super::stream::Stream;
use num_complex::{Complex32, Complex64};
use std::sync::Arc;

/// A cuBLAS handle whose work goes to one stream.
#[derive(Debug)]
pub struct BlasHandle {
    handle: raw::cublasHandle_t,
    context: Arc<Context>,
}

// SAFETY: a handle may be used from any thread in which its context is current, by one at a time; it has one owner.
unsafe impl Send for BlasHandle {}

impl BlasHandle {
    /// A handle in a bound context, working on `stream`.
    pub fn new(context: &Arc<Context>, stream: &Stream) -> Outcome<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current; one handle is written.
        check("cublasCreate_v2", unsafe {
            raw::cublasCreate_v2(&mut handle)
        })?;
        let blas = Self {
            handle,
            context: Arc::clone(context),
        };
        let raw_stream: raw::cudaStream_t = stream.handle().cast();
        // SAFETY: the handle and the stream live; a stream of the driver is a stream of the runtime.
        let code = unsafe { raw::cublasSetStream_v2(handle, raw_stream) };
        check("cublasSetStream_v2", code)?;
        Ok(blas)
    }

    /// `major.minor.patch`.
    pub fn version(&self) -> Outcome<String> {
        let mut version = 0;
        // SAFETY: the handle lives; one integer is written.
        let code = unsafe { raw::cublasGetVersion_v2(self.handle, &mut version) };
        check("cublasGetVersion_v2", code)?;
        Ok(version_text(version))
    }
}

/// `120804` is 12.8.4; before version 11 it was `10201` for 10.2.1.
fn version_text(version: i32) -> String {
    let unit = if version >= 100_000 { 10_000 } else { 1000 };
    let (major, rest) = (version / unit, version % unit);
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

impl Drop for BlasHandle {
    fn drop(&mut self) {
        let _bound = self.context.bind();
        // SAFETY: created by `new` and destroyed once.
        let _ = unsafe { raw::cublasDestroy_v2(self.handle) };
    }
}

/// Shapes and places of `C += alpha·A·B` in device memory; A: `m×k`, B: `k×n`, C: `m×n`, column-major.
#[derive(Debug, Clone, Copy)]
pub struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Address and leading dimension.
    pub a: (raw::CUdeviceptr, usize),
    pub b: (raw::CUdeviceptr, usize),
    pub c: (raw::CUdeviceptr, usize),
}

/// Types that cuBLAS multiplies: `f32`, `f64`, and complex numbers of them.
///
/// Every pattern of bits is a value of such a type, so that memory which something else wrote can be read.
pub trait Element:
    Copy + PartialEq + Send + Sync + std::fmt::Debug + sealed::Sealed + 'static
{
    /// The number 0.
    const ZERO: Self;
    /// Real operations that one multiplication with addition takes.
    const FLOP: f64;

    /// The element with this real part, and no imaginary one.
    fn of(real: f64) -> Self;

    /// The peak of a GPU in real operations of this precision, flop/s.
    fn peak_flops_per_s(info: &CudaInfo) -> Option<f64>;

    /// Queues the product.
    ///
    /// # Safety
    /// The three matrices lie in device memory of the handle's context and stay there until the work is done; no
    /// dimension exceeds what `i32` holds.
    #[doc(hidden)]
    unsafe fn multiply(blas: &BlasHandle, alpha: Self, product: &Product) -> Outcome<()>;
}

mod sealed {
    /// Only the types that this module names are elements.
    pub trait Sealed {}
}

macro_rules! element {
    ($element:ty, $foreign:ty, $function:ident, $of:expr, $zero:expr, $flop:expr, $peak:ident) => {
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const ZERO: Self = $zero;
            const FLOP: f64 = $flop;

            fn of(real: f64) -> Self {
                $of(real)
            }

            fn peak_flops_per_s(info: &CudaInfo) -> Option<f64> {
                info.$peak
            }

            unsafe fn multiply(blas: &BlasHandle, alpha: Self, product: &Product) -> Outcome<()> {
                let Product { m, n, k, a, b, c } = *product;
                let plain = raw::cublasOperation_t::CUBLAS_OP_N;
                let one = Self::of(1.0);
                // SAFETY: by this function's contract. The scalars are read before the call returns (host pointer
                // mode, the default), and a complex number is laid out as cuBLAS lays it out: two reals.
                let code = unsafe {
                    raw::$function(
                        blas.handle,
                        plain,
                        plain,
                        m as i32,
                        n as i32,
                        k as i32,
                        (&raw const alpha).cast::<$foreign>(),
                        a.0 as *const $foreign,
                        a.1 as i32,
                        b.0 as *const $foreign,
                        b.1 as i32,
                        (&raw const one).cast::<$foreign>(),
                        c.0 as *mut $foreign,
                        c.1 as i32,
                    )
                };
                check(stringify!($function), code)
            }
        }
    };
}

element!(
    f32,
    f32,
    cublasSgemm_v2,
    |real| real as f32,
    0.0,
    2.0,
    peak_f32_flops_per_s
);
element!(
    f64,
    f64,
    cublasDgemm_v2,
    |real| real,
    0.0,
    2.0,
    peak_f64_flops_per_s
);
element!(
    Complex32,
    raw::cuComplex,
    cublasCgemm_v2,
    |real| Complex32::new(real as f32, 0.0),
    Complex32::new(0.0, 0.0),
    8.0,
    peak_f32_flops_per_s
);
element!(
    Complex64,
    raw::cuDoubleComplex,
    cublasZgemm_v2,
    |real| Complex64::new(real, 0.0),
    Complex64::new(0.0, 0.0),
    8.0,
    peak_f64_flops_per_s
);

#[cfg(test)]
mod tests {
    use super::version_text;

    #[test]
    fn versions_are_read() {
        assert_eq!(version_text(120_804), "12.8.4");
        assert_eq!(version_text(130_002), "13.0.2");
        assert_eq!(version_text(10_201), "10.2.1");
    }
}
