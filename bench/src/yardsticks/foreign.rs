//! The foreign functions of the yardsticks. Their result codes are plain numbers: a code of a newer library is no
//! enumerator that the bindings know.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use anyhow::{Context as _, ensure};
pub use cudarc::driver::sys::{CUDA_MEMCPY2D, CUcontext, CUdevice, CUdeviceptr, CUmemorytype};
use cudarc::driver::sys::{CUstream, culib as driver_library, is_culib_present as has_driver};

/// A table of functions that a library exports, and the search for them.
macro_rules! functions {
    ($table:ident of $present:path, $library:path:
        $($field:ident = $name:ident($($type:ty),*);)+) => {
        /// Addresses of the functions.
        pub struct $table {
            $(pub $field: unsafe extern "C" fn($($type),*) -> u32,)+
        }

        impl $table {
            /// Looks for the library and every function, once; `None` if one is missing.
            pub fn find() -> Option<&'static Self> {
                static FOUND: OnceLock<Option<$table>> = OnceLock::new();
                FOUND.get_or_init(|| {
                    // SAFETY: opening the library runs its initialisers, which are meant to run then.
                    if !unsafe { $present() } {
                        return None;
                    }
                    // SAFETY: the library is there, as the lines above say.
                    let library = unsafe { $library() };
                    Some(Self {
                        $(
                            // SAFETY: the library's header declares the function with these arguments and a result of
                            // 32 bits. The library is never closed.
                            $field: *unsafe { library.get(stringify!($name).as_bytes()) }.ok()?,
                        )+
                    })
                }).as_ref()
            }
        }
    };
}

functions! {
    Driver of has_driver, driver_library:
    init = cuInit(c_uint);
    device = cuDeviceGet(*mut CUdevice, c_int);
    retain = cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    release = cuDevicePrimaryCtxRelease_v2(CUdevice);
    push = cuCtxPushCurrent_v2(CUcontext);
    pop = cuCtxPopCurrent_v2(*mut CUcontext);
    allocate = cuMemAlloc_v2(*mut CUdeviceptr, usize);
    free = cuMemFree_v2(CUdeviceptr);
    pin = cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    unpin = cuMemFreeHost(*mut c_void);
    create_stream = cuStreamCreate(*mut CUstream, c_uint);
    destroy_stream = cuStreamDestroy_v2(CUstream);
    synchronize = cuStreamSynchronize(CUstream);
    copy = cuMemcpy2DAsync_v2(*const CUDA_MEMCPY2D, CUstream);
}

/// A stream of the driver.
pub type StreamHandle = CUstream;

/// A handle of cuBLASXt.
pub type XtHandle = *mut c_void;

// On machines of 64 bits cuBLAS carries cuBLASXt. cudarc lacks it: these arguments are those that `cublasXt.h` of CUDA
// 11 to 13 declares, where `size_t` is `usize`.
functions! {
    Xt of cudarc::cublas::sys::is_culib_present, cudarc::cublas::sys::culib:
    create = cublasXtCreate(*mut XtHandle);
    destroy = cublasXtDestroy(XtHandle);
    select = cublasXtDeviceSelect(XtHandle, c_int, *mut c_int);
    set_block = cublasXtSetBlockDim(XtHandle, c_int);
    dgemm = cublasXtDgemm(
        XtHandle, c_uint, c_uint, usize, usize, usize,
        *const f64, *const f64, usize, *const f64, usize, *const f64, *mut f64, usize
    );
}

/// Returns the functions of the CUDA driver.
///
/// # Errors
/// Fails for a driver that is not there, or that lacks one of them.
pub fn find_driver() -> anyhow::Result<&'static Driver> {
    Driver::find().context("there is no CUDA driver, or it is incomplete")
}

/// Turns the code that `call` returned into a result; 0 is success in every library of CUDA.
///
/// # Errors
/// Returns any other code.
pub fn check(call: &str, code: u32) -> anyhow::Result<()> {
    ensure!(code == 0, "{call} returned the code {code}");
    Ok(())
}
