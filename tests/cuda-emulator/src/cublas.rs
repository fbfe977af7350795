//! The functions of cuBLAS.

use crate::arithmetic::{DeviceGemm, GemmElement};
use crate::call::{Out, export, write_result};
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY};
use crate::schedule::enqueue;
use crate::state::{Handle, lock};
use crate::work::StreamWork;
use std::ffi::{c_int, c_uint};

export! { blas:
    Plain fn cublasCreate_v2(handle: Out<'_, u64>) {
        let mut emulator = lock();
        let device = emulator.current()?;
        let id = emulator.fresh_id();
        write_result(handle, id)?;
        emulator.handles.insert(id, Handle { device, stream: 0 });
        Ok(())
    }

    Releases fn cublasDestroy_v2(handle: u64) {
        let mut emulator = lock();
        let removed = emulator.handles.remove(&handle).ok_or(INVALID_HANDLE)?;
        emulator.alive(removed.device)
    }

    Plain fn cublasSetStream_v2(handle: u64, stream: u64) {
        let mut emulator = lock();
        emulator.stream(stream)?;
        emulator.handles.get_mut(&handle).ok_or(INVALID_HANDLE)?.stream = stream;
        Ok(())
    }

    Plain fn cublasGetVersion_v2(handle: u64, version: Out<'_, c_int>) {
        if !lock().handles.contains_key(&handle) {
            return Err(INVALID_VALUE);
        }
        // A version that no cuBLAS has.
        write_result(version, 0)
    }
}

/// Returns a size, which must not be negative.
fn read_size(n: c_int) -> Result<usize, u32> {
    usize::try_from(n).map_err(|_| INVALID_VALUE)
}

fn queue_gemm(handle: u64, transposed: [c_uint; 2], gemm: DeviceGemm) -> Result<(), u32> {
    if !gemm.fits() || transposed != [0, 0] {
        return Err(INVALID_VALUE);
    }
    let stream = find_room(&gemm, handle)?;
    enqueue(stream, StreamWork::Gemm(gemm))
}

/// Returns the stream of the handle; refuses a product for which there is no workspace.
fn find_room(gemm: &DeviceGemm, handle: u64) -> Result<u64, u32> {
    let mut emulator = lock();
    let stream = emulator.handles.get(&handle).ok_or(INVALID_HANDLE)?.stream;
    let multiplications =
        [gemm.n, gemm.k].iter().fold(gemm.m as u64, |product, &n| product.saturating_mul(n as u64));
    if multiplications > emulator.settings.product {
        emulator.refused_products += 1;
        return Err(OUT_OF_MEMORY);
    }
    Ok(stream)
}

macro_rules! export_gemm {
    ($name:ident, $kind:ident, $element:ty, $complex:expr) => {
        export! { blas:
            #[allow(clippy::too_many_arguments, reason = "the signature is cuBLAS's")]
            Queues fn $name(
                handle: u64,
                transpose_a: c_uint,
                transpose_b: c_uint,
                m: c_int,
                n: c_int,
                k: c_int,
                alpha: Option<&$element>,
                a: u64,
                lda: c_int,
                b: u64,
                ldb: c_int,
                beta: Option<&$element>,
                c: u64,
                ldc: c_int,
            ) {
                let complex: fn($element) -> [f64; 2] = $complex;
                let gemm = DeviceGemm {
                    kind: GemmElement::$kind,
                    m: read_size(m)?,
                    n: read_size(n)?,
                    k: read_size(k)?,
                    alpha: complex(*alpha.ok_or(INVALID_VALUE)?),
                    a,
                    lda: read_size(lda)?,
                    b,
                    ldb: read_size(ldb)?,
                    beta: complex(*beta.ok_or(INVALID_VALUE)?),
                    c,
                    ldc: read_size(ldc)?,
                };
                queue_gemm(handle, [transpose_a, transpose_b], gemm)
            }
        }
    };
}

export_gemm!(cublasSgemm_v2, F32, f32, |x| [x.into(), 0.0]);
export_gemm!(cublasDgemm_v2, F64, f64, |x| [x, 0.0]);
export_gemm!(cublasCgemm_v2, C32, [f32; 2], |x| x.map(f64::from));
export_gemm!(cublasZgemm_v2, C64, [f64; 2], |x| x);
