//! Errors of calls: every result code becomes one that names the call, the code and its likely cause.

use super::codes::{CUresult, Code, cublasStatus_t};
use crate::contract::DeviceError;

/// A call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallError {
    pub call: &'static str,
    pub code: Code,
}

/// The result of calls in this module; [`CallError::on`] adds the device.
pub type CallResult<T> = Result<T, CallError>;

/// Turns the code that `call` returned into a result.
pub fn check(call: &'static str, code: impl Into<Code>) -> CallResult<()> {
    let code = code.into();
    match code {
        Code::Driver(CUresult::CUDA_SUCCESS)
        | Code::Blas(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => Ok(()),
        _ => Err(CallError { call, code }),
    }
}

impl CallError {
    /// Returns `true` if the call asked for memory that is not there.
    pub fn is_out_of_memory(&self) -> bool {
        match self.code {
            Code::Driver(CUresult::CUDA_ERROR_OUT_OF_MEMORY)
            | Code::Blas(cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED) => true,
            // The system refused to pin the memory.
            Code::Driver(CUresult::CUDA_ERROR_OPERATING_SYSTEM) => self.call == "cuMemHostAlloc",
            _ => false,
        }
    }

    /// Returns `true` if there is no usable GPU, as opposed to one that fails.
    pub fn is_absence(&self) -> bool {
        matches!(
            self.code,
            Code::Driver(
                CUresult::CUDA_ERROR_NO_DEVICE
                    | CUresult::CUDA_ERROR_STUB_LIBRARY
                    | CUresult::CUDA_ERROR_INVALID_DEVICE
            )
        )
    }

    /// Returns the library's name of the code, and its number.
    pub fn name(&self) -> String {
        match self.code {
            Code::Driver(code) => format!("{code:?} ({})", code as u32),
            Code::Blas(code) => format!("{code:?} ({})", code as u32),
            Code::Unknown { library, number } => {
                format!("{library} error {number} (unknown to this version)")
            }
        }
    }

    /// Returns the error of a device.
    pub fn on(&self, device: &str) -> DeviceError {
        DeviceError::Cuda {
            call: self.call,
            device: device.to_owned(),
            code: self.name(),
            cause: self.cause(),
        }
    }

    /// Returns the likely cause, and the remedy.
    pub fn cause(&self) -> &'static str {
        match self.code {
            Code::Driver(code) => driver_cause(code),
            Code::Blas(code) => blas_cause(code),
            Code::Unknown { .. } => "the library is newer than this program: see its manual",
        }
    }
}

fn driver_cause(code: CUresult) -> &'static str {
    use CUresult as C;
    match code {
        C::CUDA_ERROR_OUT_OF_MEMORY => {
            "the memory of the GPU, or what the host may pin, is used up: other programs hold it, or the memory limit is too high"
        }
        C::CUDA_ERROR_NO_DEVICE => {
            "the driver sees no GPU: there is none, CUDA_VISIBLE_DEVICES hides it, or the container was started without it"
        }
        C::CUDA_ERROR_STUB_LIBRARY => {
            "the toolkit's stub of libcuda was opened: take its folder off LD_LIBRARY_PATH so that the real driver is found"
        }
        C::CUDA_ERROR_INVALID_DEVICE => {
            "there is no GPU of this number, or CUDA_VISIBLE_DEVICES hides it"
        }
        C::CUDA_ERROR_DEVICE_UNAVAILABLE => {
            "another process has the GPU for itself (exclusive compute mode), or a MIG slice has to be chosen"
        }
        C::CUDA_ERROR_NOT_INITIALIZED | C::CUDA_ERROR_DEINITIALIZED => {
            "the driver is not initialised, or the process is ending"
        }
        C::CUDA_ERROR_INVALID_CONTEXT | C::CUDA_ERROR_CONTEXT_IS_DESTROYED => {
            "the context of the GPU is gone: something else in this process reset the device"
        }
        C::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "libcuda and the kernel module are of different driver versions: reload the module or restart the host after the update"
        }
        C::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            "a CUDA compatibility package is used that this GPU does not support: use the driver's own libcuda"
        }
        C::CUDA_ERROR_SYSTEM_NOT_READY => {
            "the GPU's fabric is not up: check the fabric manager service"
        }
        C::CUDA_ERROR_ECC_UNCORRECTABLE => {
            "the memory of the GPU has an error that could not be corrected: results are void, have the GPU checked (nvidia-smi -q -d ECC)"
        }
        C::CUDA_ERROR_NVLINK_UNCORRECTABLE => "the NVLink connection failed: have the GPU checked",
        C::CUDA_ERROR_LAUNCH_FAILED
        | C::CUDA_ERROR_LAUNCH_TIMEOUT
        | C::CUDA_ERROR_HARDWARE_STACK_ERROR
        | C::CUDA_ERROR_UNKNOWN => {
            "the GPU was lost while it worked: see the kernel log for an Xid message; the process must be restarted"
        }
        C::CUDA_ERROR_ILLEGAL_ADDRESS
        | C::CUDA_ERROR_MISALIGNED_ADDRESS
        | C::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | C::CUDA_ERROR_ILLEGAL_INSTRUCTION => {
            "work on the GPU touched memory that is not its own: an error in this program or in cuBLAS; the process must be restarted"
        }
        C::CUDA_ERROR_OPERATING_SYSTEM => {
            "the system refused: the device files may be missing, or pinned memory is limited (ulimit -l)"
        }
        C::CUDA_ERROR_NOT_PERMITTED => "this user may not use the GPU",
        C::CUDA_ERROR_NOT_SUPPORTED => "this GPU or driver cannot do that",
        C::CUDA_ERROR_MPS_CONNECTION_FAILED | C::CUDA_ERROR_MPS_SERVER_NOT_READY => {
            "the MPS server does not answer: restart it, or unset CUDA_MPS_PIPE_DIRECTORY"
        }
        _ => "see CUresult in the manual of the CUDA driver",
    }
}

fn blas_cause(code: cublasStatus_t) -> &'static str {
    use cublasStatus_t as S;
    match code {
        S::CUBLAS_STATUS_NOT_INITIALIZED => {
            "cuBLAS could not start: the driver is older than this libcublas, or the GPU's memory is used up"
        }
        S::CUBLAS_STATUS_ALLOC_FAILED => {
            "cuBLAS found no memory for its workspace: other programs hold the GPU's memory, or the memory limit is too high"
        }
        S::CUBLAS_STATUS_ARCH_MISMATCH | S::CUBLAS_STATUS_NOT_SUPPORTED => {
            "this libcublas does not support this GPU: install one that does"
        }
        S::CUBLAS_STATUS_EXECUTION_FAILED | S::CUBLAS_STATUS_MAPPING_ERROR => {
            "the GPU was lost while it worked: see the kernel log for an Xid message; the process must be restarted"
        }
        _ => "see cublasStatus_t in the manual of cuBLAS",
    }
}

#[cfg(test)]
mod tests {
    use super::super::codes::{BlasCode, DriverCode};
    use super::*;

    #[test]
    fn an_error_names_call_device_code_and_cause() {
        let error = check("cuMemAlloc_v2", DriverCode(2)).unwrap_err();
        assert!(error.is_out_of_memory() && !error.is_absence());
        let text = error.on("cuda0").to_string();
        for part in ["cuMemAlloc_v2", "cuda0", "CUDA_ERROR_OUT_OF_MEMORY (2)", "memory limit"] {
            assert!(text.contains(part), "{part:?} in {text:?}");
        }
        let status = check("cublasDgemm_v2", BlasCode(3)).unwrap_err();
        assert!(status.is_out_of_memory());
        let status = check("cublasCreate_v2", BlasCode(1)).unwrap_err();
        assert!(!status.is_out_of_memory());
        let text = status.on("cuda1").to_string();
        assert!(text.contains("driver is older"), "{text}");
        assert_eq!(check("cuInit", DriverCode(0)), Ok(()));
        assert_eq!(check("cublasDgemm_v2", BlasCode(0)), Ok(()));
    }

    #[test]
    fn a_code_of_a_newer_library_is_told_as_it_is() {
        let error = check("cuMemAlloc_v2", DriverCode(5000)).unwrap_err();
        assert!(!error.is_out_of_memory() && !error.is_absence());
        let text = error.on("cuda0").to_string();
        let expected = "cuMemAlloc_v2 on cuda0: CUDA error 5000 (unknown to this version)";
        assert!(text.starts_with(expected), "{text}");
        let error = check("cublasDgemm_v2", BlasCode(99)).unwrap_err();
        assert_eq!(error.name(), "cuBLAS error 99 (unknown to this version)");
    }
}
