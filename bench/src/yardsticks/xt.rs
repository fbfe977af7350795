//! cuBLASXt: products of matrices in host memory, as NVIDIA's own library streams them through a GPU.

use isochron_devices::{CudaInfo, View, ViewMut};

use super::foreign::{Xt, XtHandle, check};

/// The operation of an operand that is not transposed.
const PLAIN: u32 = 0;

/// cuBLASXt on one GPU.
///
/// # References
/// cuBLAS documentation, *Using the cuBLASXt API*.
pub struct BlasXt {
    functions: &'static Xt,
    handle: XtHandle,
}

impl BlasXt {
    /// Makes a handle for `gpu`; `None` if cuBLAS is not there or has no cuBLASXt.
    ///
    /// # Errors
    /// Fails if a call fails.
    pub fn open(gpu: &CudaInfo) -> anyhow::Result<Option<Self>> {
        let Some(functions) = Xt::find() else {
            return Ok(None);
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: one handle is written.
        check("cublasXtCreate", unsafe { (functions.create)(&mut handle) })?;
        let xt = Self { functions, handle };
        let mut ordinal = i32::try_from(gpu.ordinal).unwrap_or(i32::MAX);
        // SAFETY: the handle lives, and one number is read. The runtime counts devices as the driver does.
        let code = unsafe { (functions.select)(xt.handle, 1, &mut ordinal) };
        check("cublasXtDeviceSelect", code)?;
        Ok(Some(xt))
    }

    /// Cuts matrices into squares of `side` rows and columns from now on.
    ///
    /// # Errors
    /// Fails for a side that the library refuses.
    pub fn set_block(&mut self, side: usize) -> anyhow::Result<()> {
        let side = i32::try_from(side).unwrap_or(i32::MAX);
        // SAFETY: the handle lives.
        let code = unsafe { (self.functions.set_block)(self.handle, side) };
        check("cublasXtSetBlockDim", code)
    }

    /// Computes `C += A·B` with A: `m×k`, B: `k×n`, C: `m×n` in host memory, pinned or not. Returns when C is complete.
    ///
    /// # Errors
    /// Fails if a call fails; the content of C is then unknown.
    ///
    /// # Panics
    /// If the shapes do not match.
    pub fn multiply(
        &mut self,
        a: View<'_, f64>,
        b: View<'_, f64>,
        mut c: ViewMut<'_, f64>,
    ) -> anyhow::Result<()> {
        assert!(
            a.rows() == c.rows() && b.rows() == a.cols() && b.cols() == c.cols(),
            "the shapes of a product do not fit"
        );
        if c.is_empty() || a.is_empty() {
            return Ok(());
        }
        let one = 1.0;
        let (m, n, k) = (c.rows(), c.cols(), a.cols());
        let ldc = c.ld();
        // SAFETY: the views hold matrices of these shapes, A and B are only read, and C is borrowed alone. The call
        // blocks until the result is in C, as its manual says, so that nothing outlives the borrows.
        let code = unsafe {
            (self.functions.dgemm)(
                self.handle,
                PLAIN,
                PLAIN,
                m,
                n,
                k,
                &one,
                a.as_ptr(),
                a.ld(),
                b.as_ptr(),
                b.ld(),
                &one,
                c.as_mut_ptr(),
                ldc,
            )
        };
        check("cublasXtDgemm", code)
    }
}

impl Drop for BlasXt {
    fn drop(&mut self) {
        // SAFETY: created by `open` and destroyed once; no call is under way.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}
