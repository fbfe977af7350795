//! The functions of cuBLAS.

use crate::arithmetic::{Gemm, GemmElement};
use crate::call::{Class, blas};
use crate::codes::{INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY};
use crate::schedule::enqueue;
use crate::state::{Handle, lock};
use crate::work::StreamWork;
use std::ffi::{c_int, c_uint};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasCreate_v2(handle: *mut u64) -> u32 {
    blas("cublasCreate_v2", Class::Plain, || {
        let mut emulator = lock();
        let device = emulator.current()?;
        if handle.is_null() {
            return Err(INVALID_VALUE);
        }
        let id = emulator.fresh_id();
        emulator.handles.insert(id, Handle { device, stream: 0 });
        // SAFETY: not null, so the caller promises that it can be written.
        unsafe { handle.write(id) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasDestroy_v2(handle: u64) -> u32 {
    blas("cublasDestroy_v2", Class::Releases, || {
        let mut emulator = lock();
        let removed = emulator.handles.remove(&handle).ok_or(INVALID_HANDLE)?;
        emulator.alive(removed.device)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasSetStream_v2(handle: u64, stream: u64) -> u32 {
    blas("cublasSetStream_v2", Class::Plain, || {
        let mut emulator = lock();
        emulator.stream(stream)?;
        let state = emulator.handles.get_mut(&handle).ok_or(INVALID_HANDLE)?;
        state.stream = stream;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasGetVersion_v2(handle: u64, version: *mut c_int) -> u32 {
    blas("cublasGetVersion_v2", Class::Plain, || {
        if !lock().handles.contains_key(&handle) || version.is_null() {
            return Err(INVALID_VALUE);
        }
        // A version that no cuBLAS has.
        // SAFETY: not null, so the caller promises that it can be written.
        unsafe { version.write(0) };
        Ok(())
    })
}

/// The arguments of a gemm function behind its handle and its two transpositions.
struct GemmArguments {
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: [f64; 2],
    a: u64,
    lda: c_int,
    b: u64,
    ldb: c_int,
    beta: [f64; 2],
    c: u64,
    ldc: c_int,
}

/// Returns a size, which must not be negative.
fn read_size(n: c_int) -> Result<usize, u32> {
    usize::try_from(n).map_err(|_| INVALID_VALUE)
}

fn queue_gemm(
    handle: u64,
    kind: GemmElement,
    transposed: [c_uint; 2],
    arguments: &GemmArguments,
) -> Result<(), u32> {
    let x = arguments;
    let gemm = Gemm {
        kind,
        m: read_size(x.m)?,
        n: read_size(x.n)?,
        k: read_size(x.k)?,
        alpha: x.alpha,
        a: x.a,
        lda: read_size(x.lda)?,
        b: x.b,
        ldb: read_size(x.ldb)?,
        beta: x.beta,
        c: x.c,
        ldc: read_size(x.ldc)?,
    };
    let fits = gemm.lda >= gemm.m.max(1) && gemm.ldb >= gemm.k.max(1) && gemm.ldc >= gemm.m.max(1);
    if !fits || transposed != [0, 0] {
        return Err(INVALID_VALUE);
    }
    let stream = find_room(&gemm, handle)?;
    enqueue(stream, StreamWork::Gemm(gemm))
}

/// Returns the stream of the handle; refuses a product for which there is no workspace.
fn find_room(gemm: &Gemm, handle: u64) -> Result<u64, u32> {
    let mut emulator = lock();
    let stream = emulator.handles.get(&handle).ok_or(INVALID_HANDLE)?.stream;
    let multiplications = [gemm.n, gemm.k].iter().fold(gemm.m as u64, |product, &n| {
        product.saturating_mul(n as u64)
    });
    if multiplications > emulator.settings.product {
        emulator.refused_products += 1;
        return Err(OUT_OF_MEMORY);
    }
    Ok(stream)
}

macro_rules! gemm {
    ($name:ident, $kind:expr, $element:ty, $scalar:expr) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "the signature is cuBLAS's")]
        pub unsafe extern "C" fn $name(
            handle: u64,
            transpose_a: c_uint,
            transpose_b: c_uint,
            m: c_int,
            n: c_int,
            k: c_int,
            alpha: *const $element,
            a: u64,
            lda: c_int,
            b: u64,
            ldb: c_int,
            beta: *const $element,
            c: u64,
            ldc: c_int,
        ) -> u32 {
            blas(stringify!($name), Class::Queues, || {
                if alpha.is_null() || beta.is_null() {
                    return Err(INVALID_VALUE);
                }
                let scalar: fn($element) -> [f64; 2] = $scalar;
                // SAFETY: not null, so the caller promises that it can be read.
                let (alpha, beta) = unsafe { (scalar(alpha.read()), scalar(beta.read())) };
                let arguments = GemmArguments {
                    m,
                    n,
                    k,
                    alpha,
                    a,
                    lda,
                    b,
                    ldb,
                    beta,
                    c,
                    ldc,
                };
                queue_gemm(handle, $kind, [transpose_a, transpose_b], &arguments)
            })
        }
    };
}

gemm!(cublasSgemm_v2, GemmElement::F32, f32, |x| [
    f64::from(x),
    0.0
]);
gemm!(cublasDgemm_v2, GemmElement::F64, f64, |x| [x, 0.0]);
gemm!(cublasCgemm_v2, GemmElement::C32, [f32; 2], |[re, im]| [
    f64::from(re),
    f64::from(im)
]);
gemm!(cublasZgemm_v2, GemmElement::C64, [f64; 2], |x| x);
