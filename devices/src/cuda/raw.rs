//! First layer: the foreign functions that are called, with checked result codes, and the search for them.
//!
//! cudarc opens the libraries, and describes their functions and types. Its functions are not called, for two reasons.
//! They declare result codes as Rust enumerations, so a code of a newer library would be undefined behaviour; and they
//! panic if a function is missing. Here a code is a number ([`DriverCode`], [`BlasCode`]), and all functions are looked
//! up before the first one is called. The compiler checks that their arguments are those of the bindings.

use super::check::{CallResult, check};
use super::codes::{BlasCode, DriverCode};
use crate::contract::DeviceError;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

pub use cudarc::cublas::sys::{
    cuComplex, cuDoubleComplex, cublasHandle_t, cublasOperation_t, cudaStream_t,
};
pub use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUmemorytype,
    CUstream, CUuuid,
};

/// The functions of a library: a table of their addresses, the code that fills it, and a function of the same name for
/// each.
///
/// The bindings' own function must have the same arguments, and a result of the size of ours: enumerations with the
/// representation of the number that the library returns.
macro_rules! functions {
    ($table:ident of $library:ident, $enumeration:ident as $code:ident:
        $(fn $name:ident($($argument:ident: $type:ty),*);)+) => {
        #[allow(non_snake_case, reason = "the names are those of the library")]
        struct $table {
            $($name: unsafe extern "C" fn($($type),*) -> $code,)+
        }

        impl $table {
            /// Looks for the library and every function, once.
            fn get() -> &'static Result<Self, Missing> {
                static FOUND: OnceLock<Result<$table, Missing>> = OnceLock::new();
                FOUND.get_or_init(|| {
                    // SAFETY: opening the library runs its initialisers, which are meant to run then.
                    if !unsafe { cudarc::$library::sys::is_culib_present() } {
                        return Err(Missing::Library);
                    }
                    // SAFETY: as above; it is only called when the library is there.
                    let library = unsafe { cudarc::$library::sys::culib() };
                    // SAFETY: each is a C function with the arguments that the bindings say, which is checked below. It
                    // returns an integer of 32 bits: the bindings' enumeration, of which the code here takes every
                    // value.
                    Ok(unsafe { Self { $($name: find_symbol(library, stringify!($name))?,)+ } })
                })
            }
        }

        const _: () = assert!(
            size_of::<cudarc::$library::sys::$enumeration>() == size_of::<$code>()
        );

        $(
            const _: unsafe fn($($type),*) -> cudarc::$library::sys::$enumeration =
                cudarc::$library::sys::$name;

            /// Calls the library's function of this name.
            ///
            /// # Errors
            /// Returns the code of the call unless that is success.
            ///
            /// # Safety
            /// The conditions of its manual.
            #[allow(non_snake_case, reason = "the name is that of the library")]
            #[allow(clippy::too_many_arguments, reason = "the arguments are those of the library")]
            pub unsafe fn $name($($argument: $type),*) -> CallResult<()> {
                let found = $table::get().as_ref();
                let table = found.unwrap_or_else(|missing| {
                    panic!("{} was called, but {missing:?} is missing", stringify!($name))
                });
                // SAFETY: by this function's contract.
                check(stringify!($name), unsafe { (table.$name)($($argument),*) })
            }
        )+
    };
}

functions! {
    Driver of driver, CUresult as DriverCode:
    fn cuDriverGetVersion(version: *mut c_int);
    fn cuInit(flags: c_uint);
    fn cuDeviceGetCount(count: *mut c_int);
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
    fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: CUdevice);
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    fn cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    fn cuCtxPushCurrent_v2(context: CUcontext);
    fn cuCtxPopCurrent_v2(context: *mut CUcontext);
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    fn cuMemFree_v2(address: CUdeviceptr);
    fn cuMemHostAlloc(start: *mut *mut c_void, bytes: usize, flags: c_uint);
    fn cuMemFreeHost(start: *mut c_void);
    fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream);
    fn cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    fn cuStreamDestroy_v2(stream: CUstream);
    fn cuStreamSynchronize(stream: CUstream);
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    fn cuEventCreate(event: *mut CUevent, flags: c_uint);
    fn cuEventDestroy_v2(event: CUevent);
    fn cuEventRecord(event: CUevent, stream: CUstream);
    fn cuEventSynchronize(event: CUevent);
}

/// The functions of cuBLAS, with those that multiply matrices of a type.
macro_rules! cublas_functions {
    ($($gemm:ident of $type:ty;)+) => {
        functions! {
            Cublas of cublas, cublasStatus_t as BlasCode:
            fn cublasCreate_v2(handle: *mut cublasHandle_t);
            fn cublasDestroy_v2(handle: cublasHandle_t);
            fn cublasSetStream_v2(handle: cublasHandle_t, stream: cudaStream_t);
            fn cublasGetVersion_v2(handle: cublasHandle_t, version: *mut c_int);
            $(fn $gemm(
                handle: cublasHandle_t, op_a: cublasOperation_t, op_b: cublasOperation_t,
                m: c_int, n: c_int, k: c_int,
                alpha: *const $type, a: *const $type, lda: c_int, b: *const $type, ldb: c_int,
                beta: *const $type, c: *mut $type, ldc: c_int
            );)+
        }
    };
}

cublas_functions! {
    cublasSgemm_v2 of f32;
    cublasDgemm_v2 of f64;
    cublasCgemm_v2 of cuComplex;
    cublasZgemm_v2 of cuDoubleComplex;
}

/// The reason why a library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// No file has one of its names.
    Library,
    /// The library lacks this function.
    Function(&'static str),
}

impl Missing {
    /// Returns the error of a caller that needs the library.
    pub fn error(&self, library: &str, remedy: &str) -> DeviceError {
        let reason = match self {
            Self::Library => format!("it was not found; {remedy}"),
            Self::Function(name) => format!("it has no function `{name}`; {remedy}"),
        };
        DeviceError::CudaLibrary { library: library.to_owned(), reason }
    }
}

/// Returns the address of a function.
///
/// # Safety
/// `F` is a pointer to a function of the type that the library's has.
unsafe fn find_symbol<F: Copy>(library: &Library, name: &'static str) -> Result<F, Missing> {
    // SAFETY: by this function's contract. The library is never closed.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|_| Missing::Function(name))
}

/// Looks for the driver, once.
pub fn find_driver() -> Result<(), Missing> {
    Driver::get().as_ref().map(|_| ()).map_err(Missing::clone)
}

/// Looks for cuBLAS, once. The library is large: this takes a moment.
pub fn find_blas() -> Result<(), Missing> {
    Cublas::get().as_ref().map(|_| ()).map_err(Missing::clone)
}

/// Returns the CUDA version of the driver, `(major, minor)`. A driver that lacks another function may still report it.
pub fn driver_version() -> Option<(u32, u32)> {
    let mut version = 0;
    match Driver::get() {
        // SAFETY: the function writes one integer. It may be called before `cuInit`.
        Ok(_) => unsafe { cuDriverGetVersion(&mut version) },
        Err(Missing::Function(_)) => {
            // SAFETY: the library is there, and so opens.
            let library = unsafe { cudarc::driver::sys::culib() };
            // SAFETY: the function has this type, which is the one in the table above.
            let get: unsafe extern "C" fn(*mut c_int) -> DriverCode =
                unsafe { find_symbol(library, "cuDriverGetVersion") }.ok()?;
            // SAFETY: as above.
            check("cuDriverGetVersion", unsafe { get(&mut version) })
        }
        Err(Missing::Library) => return None,
    }
    .ok()?;
    let version = u32::try_from(version).ok().filter(|&v| v > 0)?;
    Some((version / 1000, version % 1000 / 10))
}
