//! First layer: the foreign functions that are called, and whether they are there.
//!
//! cudarc opens the libraries at the first call and panics when a library or a function is missing. So nothing is
//! called before [`driver`] or [`blas`] has looked for the library and for every function of it that is used.

use crate::DeviceError;
use std::sync::OnceLock;

/// Brings functions of a library into scope, and lists their names.
macro_rules! functions {
    ($library:ident, $names:ident: $($name:ident)+) => {
        pub use cudarc::$library::sys::{$($name),+};
        const $names: &[&str] = &[$(stringify!($name)),+];
    };
}

// The version comes first: a driver that lacks another function can still say how old it is.
functions!(driver, DRIVER_FUNCTIONS:
    cuDriverGetVersion cuInit cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetUuid_v2 cuDeviceGetPCIBusId
    cuDeviceGetAttribute cuDeviceTotalMem_v2 cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2
    cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuMemGetInfo_v2 cuMemAlloc_v2 cuMemFree_v2 cuMemHostAlloc cuMemFreeHost cuMemcpy2DAsync_v2
    cuStreamCreate cuStreamDestroy_v2 cuStreamSynchronize cuStreamWaitEvent
    cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventSynchronize
);

functions!(cublas, BLAS_FUNCTIONS:
    cublasCreate_v2 cublasDestroy_v2 cublasSetStream_v2 cublasGetVersion_v2
    cublasSgemm_v2 cublasDgemm_v2 cublasCgemm_v2 cublasZgemm_v2
);

pub use cudarc::cublas::sys::{
    cuComplex, cuDoubleComplex, cublasHandle_t, cublasOperation_t, cublasStatus_t, cudaStream_t,
};
pub use cudarc::driver::sys::{
    CUDA_MEMCPY2D, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUmemorytype,
    CUresult, CUstream, CUuuid,
};

/// What keeps a library from being used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// There is none by any of its names.
    Library,
    /// It lacks this function.
    Function(&'static str),
}

impl Missing {
    /// The error of someone who needs the library.
    pub fn error(&self, library: &str, remedy: &str) -> DeviceError {
        let reason = match self {
            Self::Library => format!("it was not found; {remedy}"),
            Self::Function(name) => format!("it has no function `{name}`; {remedy}"),
        };
        DeviceError::CudaLibrary {
            library: library.to_owned(),
            reason,
        }
    }
}

fn look(
    present: bool,
    library: impl FnOnce() -> &'static libloading::Library,
    names: &'static [&'static str],
) -> Result<(), Missing> {
    if !present {
        return Err(Missing::Library);
    }
    let library = library();
    let absent = names.iter().find(|name| {
        // SAFETY: the symbol is only looked for; its address is never used as the function it is taken for here.
        unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err()
    });
    absent.map_or(Ok(()), |name| Err(Missing::Function(name)))
}

/// Looks for the driver, once.
pub fn driver() -> Result<(), Missing> {
    static FOUND: OnceLock<Result<(), Missing>> = OnceLock::new();
    let find = || {
        // SAFETY: opening the library runs its initialisers, which the driver is made for.
        let present = unsafe { cudarc::driver::sys::is_culib_present() };
        // SAFETY: as above; it is only called when the library is there.
        look(
            present,
            || unsafe { cudarc::driver::sys::culib() },
            DRIVER_FUNCTIONS,
        )
    };
    FOUND.get_or_init(find).clone()
}

/// Looks for cuBLAS, once. It is large: this takes a moment.
pub fn blas() -> Result<(), Missing> {
    static FOUND: OnceLock<Result<(), Missing>> = OnceLock::new();
    let find = || {
        // SAFETY: opening the library runs its initialisers, which cuBLAS is made for.
        let present = unsafe { cudarc::cublas::sys::is_culib_present() };
        // SAFETY: as above; it is only called when the library is there.
        look(
            present,
            || unsafe { cudarc::cublas::sys::culib() },
            BLAS_FUNCTIONS,
        )
    };
    FOUND.get_or_init(find).clone()
}

/// The version of CUDA that the driver speaks, `(major, minor)`, where it tells even that.
pub fn driver_version() -> Option<(u32, u32)> {
    if matches!(
        driver(),
        Err(Missing::Library | Missing::Function("cuDriverGetVersion"))
    ) {
        return None;
    }
    let mut version = 0;
    // SAFETY: the function is there, and writes one integer. It may be called before `cuInit`.
    let code = unsafe { cuDriverGetVersion(&mut version) };
    let version = u32::try_from(version).ok().filter(|&v| v > 0)?;
    (code == CUresult::CUDA_SUCCESS).then_some((version / 1000, version % 1000 / 10))
}
