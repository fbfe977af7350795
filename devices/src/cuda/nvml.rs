//! The state of GPUs, which NVIDIA's management library tells. It is opened at run time; without it nothing is known.
//!
//! # References
//! NVIDIA, *NVML API Reference Guide*: Device Queries.

use std::ffi::OsStr;
use std::sync::LazyLock;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, PerformancePolicy};

/// The library, by the name that drivers install. Never closed.
static LIBRARY: LazyLock<Option<Nvml>> = LazyLock::new(|| {
    let name = OsStr::new("libnvidia-ml.so.1");
    Nvml::builder().lib_path(name).init().ok()
});

/// The state of a GPU; `None` for facts that the library does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GpuState {
    /// Clock that applications get, in MHz.
    pub clock_mhz: Option<u32>,
    /// Power limit in mW.
    pub power_mw: Option<u32>,
    /// Bytes of its memory that are in use, and all of them.
    pub memory_bytes: Option<(u64, u64)>,
    /// `true` if its memory corrects errors.
    pub corrects_errors: Option<bool>,
    /// Nanoseconds for which heat has slowed it down so far.
    pub slowed_ns: Option<u64>,
}

/// Reads the state of the GPU with this unique number, such as `GPU-4a…` or `MIG-4a…`. Without the library all of it is
/// unknown.
#[must_use]
pub fn read_gpu_state(uuid: &str) -> GpuState {
    let library = LIBRARY.as_ref();
    let Some(gpu) = library.and_then(|library| library.device_by_uuid(uuid).ok()) else {
        return GpuState::default();
    };
    let memory = gpu.memory_info().ok();
    let slowed = gpu.violation_status(PerformancePolicy::Thermal).ok();
    GpuState {
        clock_mhz: gpu.applications_clock(Clock::SM).ok(),
        power_mw: gpu.enforced_power_limit().ok(),
        memory_bytes: memory.map(|memory| (memory.used, memory.total)),
        corrects_errors: gpu.is_ecc_enabled().ok().map(|ecc| ecc.currently_enabled),
        slowed_ns: slowed.map(|slowed| slowed.violation_time),
    }
}
