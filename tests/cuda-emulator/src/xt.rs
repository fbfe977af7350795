//! The functions of cuBLASXt: products of matrices in host memory, computed there.

use crate::arithmetic::{Gemm, GemmElement};
use crate::call::{Class, blas};
use crate::codes::{INVALID_HANDLE, INVALID_VALUE};
use crate::state::{Emulator, lock};
use std::ffi::{c_int, c_uint};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasXtCreate(handle: *mut u64) -> u32 {
    blas("cublasXtCreate", Class::Plain, || {
        if handle.is_null() {
            return Err(INVALID_VALUE);
        }
        let mut emulator = lock();
        let id = emulator.fresh_id();
        emulator.xt.insert(id);
        // SAFETY: not null, so the caller promises that it can be written.
        unsafe { handle.write(id) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasXtDestroy(handle: u64) -> u32 {
    blas("cublasXtDestroy", Class::Releases, || {
        let removed = lock().xt.remove(&handle);
        removed.then_some(()).ok_or(INVALID_HANDLE)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasXtDeviceSelect(
    handle: u64,
    count: c_int,
    devices: *mut c_int,
) -> u32 {
    blas("cublasXtDeviceSelect", Class::Plain, || {
        let emulator = lock();
        emulator.knows_xt(handle)?;
        if count != 1 || devices.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, so the caller promises that as many as it says can be read.
        let device = usize::try_from(unsafe { devices.read() });
        let is_there = device.is_ok_and(|device| device < emulator.devices.len());
        is_there.then_some(()).ok_or(INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasXtSetBlockDim(handle: u64, side: c_int) -> u32 {
    blas("cublasXtSetBlockDim", Class::Plain, || {
        lock().knows_xt(handle)?;
        (side > 0).then_some(()).ok_or(INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the signature is cuBLASXt's")]
pub unsafe extern "C" fn cublasXtDgemm(
    handle: u64,
    transpose_a: c_uint,
    transpose_b: c_uint,
    m: usize,
    n: usize,
    k: usize,
    alpha: *const f64,
    a: *const f64,
    lda: usize,
    b: *const f64,
    ldb: usize,
    beta: *const f64,
    c: *mut f64,
    ldc: usize,
) -> u32 {
    blas("cublasXtDgemm", Class::Plain, || {
        lock().knows_xt(handle)?;
        let fits = lda >= m.max(1) && ldb >= k.max(1) && ldc >= m.max(1);
        // Matrices on a GPU are not emulated.
        let on_host = [a.addr(), b.addr(), c.addr()]
            .iter()
            .all(|&address| address != 0 && Emulator::can_be_host(address));
        if alpha.is_null() || beta.is_null() || !fits || !on_host {
            return Err(INVALID_VALUE);
        }
        if (transpose_a, transpose_b) != (0, 0) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, so the caller promises that they can be read.
        let (alpha, beta) = unsafe { (alpha.read(), beta.read()) };
        let gemm = Gemm {
            kind: GemmElement::F64,
            m,
            n,
            k,
            alpha: [alpha, 0.0],
            a: 0,
            lda,
            b: 0,
            ldb,
            beta: [beta, 0.0],
            c: 0,
            ldc,
        };
        // The caller promises that matrices of these shapes lie there, and waits for the call.
        gemm.run(a.cast(), b.cast(), c.cast());
        Ok(())
    })
}

impl Emulator {
    /// Refuses a number that is no handle of cuBLASXt.
    fn knows_xt(&self, handle: u64) -> Result<(), u32> {
        self.xt
            .contains(&handle)
            .then_some(())
            .ok_or(INVALID_HANDLE)
    }
}
