//! cuBLASXt: products of matrices in host memory, as NVIDIA's own library streams them through a GPU. Nothing here computes
//! with it; it is what our own streaming is compared with.

use super::check::{Outcome, check};
use super::find::CudaInfo;
use super::raw;
use crate::{DeviceError, View, ViewMut};

/// cuBLASXt on one GPU.
///
/// # References
/// cuBLAS documentation, *Using the cuBLASXt API*.
#[derive(Debug)]
pub struct BlasXt {
    functions: &'static raw::Xt,
    handle: raw::XtHandle,
    name: String,
}

impl BlasXt {
    /// A handle for the GPU `gpu`, called `name` in errors.
    ///
    /// # Errors
    /// [`DeviceError::CudaLibrary`] where cuBLAS is not there or has no cuBLASXt; [`DeviceError::Cuda`] when a call fails.
    pub fn new(name: &str, gpu: &CudaInfo) -> Result<Self, DeviceError> {
        let functions = raw::xt().map_err(|missing| {
            missing.error("cuBLASXt", "it is a part of the CUDA toolkit's libcublas")
        })?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: one handle is written.
        let created = check("cublasXtCreate", unsafe { (functions.create)(&mut handle) });
        created.map_err(|error| error.on(name))?;
        let xt = Self {
            functions,
            handle,
            name: name.to_owned(),
        };
        let mut ordinal = i32::try_from(gpu.ordinal).unwrap_or(i32::MAX);
        // SAFETY: the handle lives, and one number is read. The runtime counts devices as the driver does.
        let code = unsafe { (functions.select)(xt.handle, 1, &mut ordinal) };
        xt.told(check("cublasXtDeviceSelect", code))?;
        Ok(xt)
    }

    /// Cuts matrices into squares of so many rows and columns from now on.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`] when the library refuses.
    pub fn set_block(&mut self, side: usize) -> Result<(), DeviceError> {
        let side = i32::try_from(side).unwrap_or(i32::MAX);
        // SAFETY: the handle lives.
        let code = unsafe { (self.functions.set_block)(self.handle, side) };
        self.told(check("cublasXtSetBlockDim", code))
    }

    /// `C += A·B`; A: `m×k`, B: `k×n`, C: `m×n`, in host memory, pinned or not. When it returns, that is done.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`] when the call fails; what C holds is not known then.
    ///
    /// # Panics
    /// When the shapes do not fit each other.
    pub fn multiply(
        &mut self,
        a: View<'_, f64>,
        b: View<'_, f64>,
        mut c: ViewMut<'_, f64>,
    ) -> Result<(), DeviceError> {
        assert!(
            a.rows() == c.rows() && b.rows() == a.cols() && b.cols() == c.cols(),
            "the shapes of a product do not fit"
        );
        if c.is_empty() || a.is_empty() {
            return Ok(());
        }
        let plain = raw::cublasOperation_t::CUBLAS_OP_N;
        let one = 1.0;
        let (m, n, k) = (c.rows(), c.cols(), a.cols());
        let ldc = c.ld();
        // SAFETY: the views hold matrices of these shapes, A and B are only read, and C is borrowed alone. The call blocks
        // until the result is in C, as its manual says, so that nothing outlives the borrows.
        let code = unsafe {
            (self.functions.dgemm)(
                self.handle,
                plain,
                plain,
                m,
                n,
                k,
                &one,
                a.data().as_ptr(),
                a.ld(),
                b.data().as_ptr(),
                b.ld(),
                &one,
                c.data_mut().as_mut_ptr(),
                ldc,
            )
        };
        self.told(check("cublasXtDgemm", code))
    }

    fn told<R>(&self, outcome: Outcome<R>) -> Result<R, DeviceError> {
        outcome.map_err(|error| error.on(&self.name))
    }
}

impl Drop for BlasXt {
    fn drop(&mut self) {
        // SAFETY: created by `new` and destroyed once; no call is under way.
        let _ = unsafe { (self.functions.destroy)(self.handle) };
    }
}
