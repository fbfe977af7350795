//! The state of GPUs, which NVIDIA's management library tells. It is opened at run time; without it nothing is known.
//!
//! # References
//! NVIDIA, *NVML API Reference Guide*: Device Queries.

use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use libloading::Library;

const LIBRARY: &str = "libnvidia-ml.so.1";

/// The clock of the multiprocessors, and the policy of heat, as the library numbers them.
const MULTIPROCESSOR_CLOCK: c_int = 1;
const THERMAL_POLICY: c_int = 1;

/// A GPU of the library.
type DeviceHandle = *mut c_void;

/// Bytes of a GPU's memory.
#[repr(C)]
#[derive(Default)]
struct MemoryBytes {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// Time for which a policy has slowed a GPU down.
#[repr(C)]
#[derive(Default)]
struct ViolationTime {
    reference_us: c_ulonglong,
    violation_ns: c_ulonglong,
}

/// The functions that are called. Each returns 0 for success.
struct Functions {
    get_handle: unsafe extern "C" fn(*const c_char, *mut DeviceHandle) -> c_int,
    get_clock: unsafe extern "C" fn(DeviceHandle, c_int, *mut c_uint) -> c_int,
    get_power_limit: unsafe extern "C" fn(DeviceHandle, *mut c_uint) -> c_int,
    get_memory: unsafe extern "C" fn(DeviceHandle, *mut MemoryBytes) -> c_int,
    get_ecc_mode: unsafe extern "C" fn(DeviceHandle, *mut c_int, *mut c_int) -> c_int,
    get_violation: unsafe extern "C" fn(DeviceHandle, c_int, *mut ViolationTime) -> c_int,
    /// Never closed, since the functions are called as long as the process lives.
    _library: Library,
}

impl Functions {
    fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
        FOUND.get_or_init(Self::open).as_ref()
    }

    fn open() -> Option<Self> {
        // SAFETY: opening NVIDIA's library runs its initialisers, which are meant to run then.
        let library = unsafe { Library::new(LIBRARY) }.ok()?;
        // SAFETY: each function has the type that the manual says.
        unsafe {
            let initialize: unsafe extern "C" fn() -> c_int = *library.get(b"nvmlInit_v2").ok()?;
            let found = Self {
                get_handle: *library.get(b"nvmlDeviceGetHandleByUUID").ok()?,
                get_clock: *library.get(b"nvmlDeviceGetApplicationsClock").ok()?,
                get_power_limit: *library.get(b"nvmlDeviceGetEnforcedPowerLimit").ok()?,
                get_memory: *library.get(b"nvmlDeviceGetMemoryInfo").ok()?,
                get_ecc_mode: *library.get(b"nvmlDeviceGetEccMode").ok()?,
                get_violation: *library.get(b"nvmlDeviceGetViolationStatus").ok()?,
                _library: library,
            };
            (initialize() == 0).then_some(found)
        }
    }

    /// Returns the GPU with a unique number, such as `GPU-4a…` or `MIG-4a…`.
    fn find_device(&self, uuid: &str) -> Option<DeviceHandle> {
        let uuid = CString::new(uuid).ok()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library reads a text that ends, and writes a pointer of its own.
        let code = unsafe { (self.get_handle)(uuid.as_ptr(), &mut handle) };
        (code == 0).then_some(handle)
    }
}

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

/// Reads the state of the GPU with this unique number. Without the library all of it is unknown.
#[must_use]
pub fn read_gpu_state(uuid: &str) -> GpuState {
    let Some(functions) = Functions::find() else {
        return GpuState::default();
    };
    let Some(device) = functions.find_device(uuid) else {
        return GpuState::default();
    };
    let (mut clock_mhz, mut power_mw) = (0, 0);
    // The mode now, and the one after the next start.
    let (mut ecc_mode, mut next_ecc_mode) = (0, 0);
    let (mut memory, mut violation) = (MemoryBytes::default(), ViolationTime::default());
    // SAFETY: the handle is the library's own, and each function writes values of the types given.
    let codes = unsafe {
        [
            (functions.get_clock)(device, MULTIPROCESSOR_CLOCK, &mut clock_mhz),
            (functions.get_power_limit)(device, &mut power_mw),
            (functions.get_memory)(device, &mut memory),
            (functions.get_ecc_mode)(device, &mut ecc_mode, &mut next_ecc_mode),
            (functions.get_violation)(device, THERMAL_POLICY, &mut violation),
        ]
    };
    let [has_clock, has_power, has_memory, has_ecc, has_violation] = codes.map(|code| code == 0);
    GpuState {
        clock_mhz: has_clock.then_some(clock_mhz),
        power_mw: has_power.then_some(power_mw),
        memory_bytes: has_memory.then_some((memory.used, memory.total)),
        corrects_errors: has_ecc.then_some(ecc_mode != 0),
        slowed_ns: has_violation.then_some(violation.violation_ns),
    }
}
