//! cuBLAS: its handle, and the products of every element type.

use super::check::CallResult;
use super::context::{Context, Owned};
use super::raw;
use super::stream::{DevicePlace, Stream};
use crate::contract::{ElementType, Scalar};
use std::sync::Arc;

/// A cuBLAS handle whose work goes to one stream.
#[derive(Debug)]
pub struct BlasHandle(Owned<raw::cublasHandle_t>);

impl BlasHandle {
    /// Makes a handle in a bound context, which works on `stream`.
    pub fn new(context: &Arc<Context>, stream: &Stream) -> CallResult<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current; one handle is written.
        unsafe { raw::cublasCreate_v2(&mut handle) }?;
        // SAFETY: a fresh handle, which may be used from any thread in which its context is current, by one at a time.
        let owned = unsafe { Owned::new(context, handle, raw::cublasDestroy_v2) };
        let raw_stream: raw::cudaStream_t = stream.handle().cast();
        // SAFETY: the handle and the stream live; a stream of the driver is a stream of the runtime.
        unsafe { raw::cublasSetStream_v2(handle, raw_stream) }?;
        Ok(Self(owned))
    }

    /// Returns the version of the library as `major.minor.patch`.
    pub fn version(&self) -> CallResult<String> {
        let mut version = 0;
        // SAFETY: the handle lives; one integer is written.
        unsafe { raw::cublasGetVersion_v2(self.0.handle(), &mut version) }?;
        Ok(format_version(version))
    }
}

/// Formats a version number: `120804` is 12.8.4; before version 11, `10201` was 10.2.1.
fn format_version(version: i32) -> String {
    let unit = if version >= 100_000 { 10_000 } else { 1000 };
    let (major, rest) = (version / unit, version % unit);
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

/// Shapes and places of `C += alpha·A·B` in device memory; A: `m×k`, B: `k×n`, C: `m×n`, column-major.
#[derive(Debug, Clone, Copy)]
pub struct GemmProduct {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub a: DevicePlace,
    pub b: DevicePlace,
    pub c: DevicePlace,
}

/// Calls the gemm function of an element type: plain operands, `beta = 1`.
macro_rules! gemm {
    ($function:ident, $foreign:ty, $handle:expr, $alpha:expr, $one:expr, $product:expr) => {{
        let GemmProduct { m, n, k, a, b, c } = *$product;
        let plain = raw::cublasOperation_t::CUBLAS_OP_N;
        // SAFETY: by the contract of `multiply`. The scalars are read before the call returns (host pointer mode, the
        // default); elements are of the type that the function is for, and a complex number is laid out as cuBLAS lays
        // it out: two reals.
        unsafe {
            raw::$function(
                $handle,
                plain,
                plain,
                m as i32,
                n as i32,
                k as i32,
                (&raw const $alpha).cast::<$foreign>(),
                a.address as *const $foreign,
                a.ld as i32,
                b.address as *const $foreign,
                b.ld as i32,
                (&raw const $one).cast::<$foreign>(),
                c.address as *mut $foreign,
                c.ld as i32,
            )
        }
    }};
}

impl BlasHandle {
    /// Queues the product of elements of this type.
    ///
    /// # Safety
    /// The three matrices lie in device memory of the handle's context and stay there until the work is done; no
    /// dimension exceeds what `i32` holds.
    pub unsafe fn multiply<T: Scalar>(&self, alpha: T, product: &GemmProduct) -> CallResult<()> {
        let (handle, one) = (self.0.handle(), T::ONE);
        match T::TYPE {
            ElementType::F32 => gemm!(cublasSgemm_v2, f32, handle, alpha, one, product),
            ElementType::F64 => gemm!(cublasDgemm_v2, f64, handle, alpha, one, product),
            ElementType::C32 => gemm!(cublasCgemm_v2, raw::cuComplex, handle, alpha, one, product),
            ElementType::C64 => {
                gemm!(cublasZgemm_v2, raw::cuDoubleComplex, handle, alpha, one, product)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::format_version;

    #[test]
    fn versions_are_read() {
        assert_eq!(format_version(120_804), "12.8.4");
        assert_eq!(format_version(130_002), "13.0.2");
        assert_eq!(format_version(10_201), "10.2.1");
    }
}
