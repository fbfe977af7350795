//! The result codes of the CUDA driver and of cuBLAS that the emulator returns.

pub const SUCCESS: u32 = 0;
pub const INVALID_VALUE: u32 = 1;
pub const OUT_OF_MEMORY: u32 = 2;
pub const NOT_INITIALIZED: u32 = 3;
pub const NO_DEVICE: u32 = 100;
pub const INVALID_DEVICE: u32 = 101;
pub const INVALID_CONTEXT: u32 = 201;
pub const INVALID_HANDLE: u32 = 400;
pub const ILLEGAL_ADDRESS: u32 = 700;

/// From here on neither library has codes: they stand for later versions.
pub const UNKNOWN: u32 = 5000;

/// The codes of cuBLAS.
pub mod blas {
    pub const NOT_INITIALIZED: u32 = 1;
    pub const ALLOC_FAILED: u32 = 3;
    pub const INVALID_VALUE: u32 = 7;
    pub const EXECUTION_FAILED: u32 = 13;
}

/// Returns `true` if a code means that the context is beyond repair: every later call on the device returns it too.
pub fn loses_device(code: u32) -> bool {
    matches!(code, 46 | 214 | 219 | 220 | 700..=703 | 709..=719 | 999)
}

/// Returns the code of cuBLAS for the driver's `code`.
pub fn as_blas(code: u32) -> u32 {
    match code {
        SUCCESS => SUCCESS,
        OUT_OF_MEMORY => blas::ALLOC_FAILED,
        NOT_INITIALIZED | INVALID_CONTEXT => blas::NOT_INITIALIZED,
        INVALID_VALUE | INVALID_HANDLE => blas::INVALID_VALUE,
        // An unknown code is passed on.
        UNKNOWN.. => code,
        _ => blas::EXECUTION_FAILED,
    }
}
