//! The functions of cuBLASXt: products of matrices in host memory, computed there.

use crate::arithmetic::{DeviceGemm, GemmElement};
use crate::call::{Out, export, write_result};
use crate::codes::{INVALID_HANDLE, INVALID_VALUE};
use crate::state::{Emulator, lock};
use std::ffi::{c_int, c_uint};

export! { blas:
    Plain fn cublasXtCreate(handle: Out<'_, u64>) {
        let mut emulator = lock();
        let id = emulator.fresh_id();
        write_result(handle, id)?;
        emulator.xt.insert(id);
        Ok(())
    }

    Releases fn cublasXtDestroy(handle: u64) {
        let removed = lock().xt.remove(&handle);
        removed.then_some(()).ok_or(INVALID_HANDLE)
    }

    Plain fn cublasXtDeviceSelect(handle: u64, count: c_int, devices: Option<&c_int>) {
        let emulator = lock();
        emulator.knows_xt(handle)?;
        let device = devices.filter(|_| count == 1).ok_or(INVALID_VALUE)?;
        usize::try_from(*device).is_ok_and(|device| device < emulator.devices.len()).then_some(()).ok_or(INVALID_VALUE)
    }

    Plain fn cublasXtSetBlockDim(handle: u64, side: c_int) {
        lock().knows_xt(handle)?;
        (side > 0).then_some(()).ok_or(INVALID_VALUE)
    }

    #[allow(clippy::too_many_arguments, reason = "the signature is cuBLASXt's")]
    Plain fn cublasXtDgemm(
        handle: u64,
        transpose_a: c_uint,
        transpose_b: c_uint,
        m: usize,
        n: usize,
        k: usize,
        alpha: Option<&f64>,
        a: *const f64,
        lda: usize,
        b: *const f64,
        ldb: usize,
        beta: Option<&f64>,
        c: *mut f64,
        ldc: usize,
    ) {
        lock().knows_xt(handle)?;
        // The places are given with the call.
        let gemm = DeviceGemm {
            kind: GemmElement::F64,
            m,
            n,
            k,
            alpha: [*alpha.ok_or(INVALID_VALUE)?, 0.0],
            a: 0,
            lda,
            b: 0,
            ldb,
            beta: [*beta.ok_or(INVALID_VALUE)?, 0.0],
            c: 0,
            ldc,
        };
        // Matrices on a GPU are not emulated.
        let on_host = [a.addr(), b.addr(), c.addr()]
            .iter()
            .all(|&address| address != 0 && Emulator::can_be_host(address));
        if !gemm.fits() || !on_host || (transpose_a, transpose_b) != (0, 0) {
            return Err(INVALID_VALUE);
        }
        // The caller promises that matrices of these shapes lie there, and waits for the call.
        gemm.run(a.cast(), b.cast(), c.cast());
        Ok(())
    }
}

impl Emulator {
    /// Refuses a number that is no handle of cuBLASXt.
    fn knows_xt(&self, handle: u64) -> Result<(), u32> {
        self.xt.contains(&handle).then_some(()).ok_or(INVALID_HANDLE)
    }
}
