//! The GPUs of this process, and their properties.

use super::check::{CallError, CallResult};
use super::raw::{self, CUdevice_attribute, Missing};
use crate::contract::{DeviceError, ElementType};
use crate::host::topology::DriverGpu;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, c_char};

/// The oldest CUDA version whose driver has every function that is called here.
const OLDEST: (u32, u32) = (11, 4);

/// A GPU, or a slice of one, as the driver describes it.
///
/// `CUDA_VISIBLE_DEVICES` has its effect in the driver: hidden GPUs are not listed, and the numbers count the others.
///
/// Of a GPU that is split (MIG) a process sees slices: one compute instance of each GPU instance. With drivers before
/// R570 (CUDA 12.8) it sees a single slice, and no whole GPU. `CUDA_VISIBLE_DEVICES=MIG-…` chooses the slice; other
/// processes may see others.
///
/// # References
/// NVIDIA Multi-Instance GPU User Guide, *CUDA Device Enumeration*.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CudaInfo {
    /// Number of the device in this process, from 0.
    pub ordinal: usize,
    /// The model, such as `NVIDIA H200`. Not unique.
    pub name: String,
    /// Unique in the world: `GPU-…`, or `MIG-…` for a slice.
    pub uuid: String,
    /// `domain:bus:device.function` in lower-case hexadecimal digits, such as `0000:17:00.0`. Slices of one GPU share
    /// it.
    pub pci_bus_id: String,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// The highest clock rate in hertz; `None` if the driver does not report it.
    pub clock_hz: Option<f64>,
    /// Double-precision peak in flop/s at the highest clock, tensor cores included: computed, not measured. `None` for
    /// an unknown compute capability.
    pub peak_f64_flops_per_s: Option<f64>,
    /// Single-precision peak in flop/s, without tensor cores, which round more.
    pub peak_f32_flops_per_s: Option<f64>,
    /// `true` for a slice of a GPU (MIG).
    pub is_slice: bool,
}

impl CudaInfo {
    /// Describes the class of the GPU: its model, multiprocessors and memory.
    pub fn describe_class(&self) -> String {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        format!("{}, {} multiprocessors, {gib:.0} GiB", self.name, self.multiprocessors)
    }

    /// Returns the peak for elements of this type in real operations, flop/s; `None` for an unknown compute capability.
    pub fn peak_flops_per_s(&self, kind: ElementType) -> Option<f64> {
        match kind {
            ElementType::F32 | ElementType::C32 => self.peak_f32_flops_per_s,
            ElementType::F64 | ElementType::C64 => self.peak_f64_flops_per_s,
        }
    }
}

impl TryFrom<&CudaInfo> for DriverGpu {
    type Error = DeviceError;

    /// Returns the properties that join a GPU with the host's view of its buses.
    fn try_from(gpu: &CudaInfo) -> Result<Self, DeviceError> {
        Ok(Self {
            ordinal: u32::try_from(gpu.ordinal).unwrap_or(u32::MAX),
            bus_id: gpu.pci_bus_id.parse()?,
            name: gpu.name.clone(),
            memory_bytes: gpu.memory_bytes,
        })
    }
}

/// Returns the GPUs that this process may use; none if there is no driver, or the driver sees none.
///
/// # Errors
/// Returns [`DeviceError::Cuda`] and [`DeviceError::CudaLibrary`] if there is a driver that fails or is too old. A GPU
/// that does not answer is left out if another one does; [`survey`] reports it.
pub fn devices() -> Result<Vec<CudaInfo>, DeviceError> {
    ask_driver().map(|(found, _)| found)
}

/// Returns the GPUs, and the errors of GPUs that do not answer.
fn ask_driver() -> Result<Listed, DeviceError> {
    const DRIVER: &str = "the CUDA driver (libcuda)";
    let driver = raw::find_driver();
    if driver == Err(Missing::Library) {
        return Ok((Vec::new(), Vec::new()));
    }
    if let Some((major, minor)) = raw::driver_version().filter(|&version| version < OLDEST) {
        return Err(DeviceError::CudaLibrary {
            library: DRIVER.to_owned(),
            reason: format!(
                "it is for CUDA {major}.{minor}, and {}.{} is the oldest that will do: update the driver",
                OLDEST.0, OLDEST.1
            ),
        });
    }
    driver.map_err(|missing| {
        let remedy = "it is not a complete driver: look for another libcuda on LD_LIBRARY_PATH";
        missing.error(DRIVER, remedy)
    })?;
    match list_gpus() {
        Err(error) if error.is_absence() => Ok((Vec::new(), Vec::new())),
        listed => listed.map_err(|error| error.on("the CUDA driver")),
    }
}

/// The state of CUDA on this machine, in one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CudaState {
    /// The GPUs that can be used.
    pub devices: Vec<CudaInfo>,
    /// The line: the hardware and libraries found, and the consequence.
    pub finding: String,
    /// `true` if a driver is there and no GPU can be used: there is none, it does not answer, cuBLAS is missing, or the
    /// driver fails or is too old. A machine without a driver is not broken.
    pub is_broken: bool,
}

/// Looks for the driver, GPUs and cuBLAS. Never fails: the line describes any error.
pub fn survey() -> CudaState {
    if raw::find_driver() == Err(Missing::Library) {
        return CudaState {
            is_broken: false,
            ..CudaState::unusable("no CUDA driver: libcuda was not found")
        };
    }
    let (devices, silent) = match ask_driver() {
        Ok(found) => found,
        Err(error) => return CudaState::unusable(&error.to_string()),
    };
    let version = raw::driver_version()
        .map_or(String::new(), |(major, minor)| format!(" for CUDA {major}.{minor}"));
    if devices.is_empty() {
        let reason = list_gpus().err().map_or("it lists none", |error| error.cause());
        return CudaState::unusable(&format!("a CUDA driver{version}, but no GPU: {reason}"));
    }
    if let Err(error) = find_blas() {
        return CudaState::unusable(&format!("{} GPU(s), but {error}", devices.len()));
    }
    let names: Vec<_> =
        devices.iter().map(|gpu| format!("{} at {}", gpu.name, gpu.pci_bus_id)).collect();
    let left_out = silent.first().map_or_else(String::new, |error| {
        let count = silent.len();
        format!("; {count} more do not answer and are not used: {}", error.cause())
    });
    CudaState {
        finding: format!("a CUDA driver{version}, and {}{left_out}", names.join(", ")),
        is_broken: !silent.is_empty(),
        devices,
    }
}

impl CudaState {
    /// Returns the survey of a machine on which no GPU can be used.
    fn unusable(finding: &str) -> Self {
        Self {
            devices: Vec::new(),
            finding: format!("{finding}; GPUs are not used"),
            is_broken: true,
        }
    }
}

/// Checks that cuBLAS is there.
pub(super) fn find_blas() -> Result<(), DeviceError> {
    raw::find_blas().map_err(|missing| {
        missing.error(
            "cuBLAS (libcublas.so)",
            "install the CUDA toolkit's libcublas of version 11, 12 or 13, or put its folder on LD_LIBRARY_PATH",
        )
    })
}

/// The GPUs that the driver describes, and the errors of the others.
type Listed = (Vec<CudaInfo>, Vec<CallError>);

/// Lists the GPUs of a driver that is there.
fn list_gpus() -> CallResult<Listed> {
    // SAFETY: the function is there; initialising twice does no harm.
    unsafe { raw::cuInit(0) }?;
    let mut count = 0;
    // SAFETY: one integer is written.
    unsafe { raw::cuDeviceGetCount(&mut count) }?;
    let (mut found, mut silent) = (Vec::new(), Vec::new());
    for described in (0..count).map(describe) {
        match described {
            Ok(gpu) => found.push(gpu),
            Err(error) => silent.push(error),
        }
    }
    // If no GPU answers, there is none to use without the others.
    match silent.pop() {
        Some(error) if found.is_empty() => Err(error),
        last => {
            silent.extend(last);
            Ok((found, silent))
        }
    }
}

fn describe(ordinal: i32) -> CallResult<CudaInfo> {
    use CUdevice_attribute as A;
    let mut device = 0;
    // SAFETY: one integer is written.
    unsafe { raw::cuDeviceGet(&mut device, ordinal) }?;
    let name = read_text(|to, len| {
        // SAFETY: at most `len` characters are written to `to`, which has room for them.
        unsafe { raw::cuDeviceGetName(to, len, device) }
    })?;
    let pci_bus_id = read_text(|to, len| {
        // SAFETY: as above.
        unsafe { raw::cuDeviceGetPCIBusId(to, len, device) }
    })?;
    let mut memory = 0;
    // SAFETY: one integer is written.
    unsafe { raw::cuDeviceTotalMem_v2(&mut memory, device) }?;
    let major = read_attribute(device, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = read_attribute(device, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let compute_capability = (major, minor);
    let multiprocessors = read_attribute(device, A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let ratio = A::CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO;
    let f32_to_f64 = read_attribute(device, ratio)?;
    // Newer drivers may stop reporting the clock.
    let clock_khz = read_attribute(device, A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE).unwrap_or(0);
    let clock_hz = (clock_khz > 0).then_some(f64::from(clock_khz) * 1e3);
    let cycles_per_s = clock_hz.map(|clock_hz| f64::from(multiprocessors) * clock_hz);
    let is_slice = name.contains(" MIG ");
    Ok(CudaInfo {
        ordinal: usize::try_from(ordinal).unwrap_or(0),
        uuid: read_uuid(device, is_slice)?,
        pci_bus_id: pci_bus_id.to_ascii_lowercase(),
        compute_capability,
        memory_bytes: memory as u64,
        multiprocessors,
        clock_hz,
        peak_f64_flops_per_s: flop_per_cycle_f64(compute_capability, f32_to_f64)
            .and_then(|flop| Some(flop * cycles_per_s?)),
        peak_f32_flops_per_s: flop_per_cycle_f32(compute_capability)
            .and_then(|flop| Some(flop * cycles_per_s?)),
        is_slice,
        name,
    })
}

/// Returns the single-precision operations that a multiprocessor begins in a cycle: twice its FMA units.
fn flop_per_cycle_f32(compute_capability: (u32, u32)) -> Option<f64> {
    match compute_capability {
        (6 | 8, 0) | (7, _) => Some(128.0),
        (5..=6 | 8..=12, _) => Some(256.0),
        _ => None,
    }
}

/// Returns the double-precision operations that a multiprocessor begins in a cycle, tensor cores included. Without them
/// single precision is `f32_to_f64` times as fast; models of one compute capability differ in that ratio.
fn flop_per_cycle_f64(compute_capability: (u32, u32), f32_to_f64: u32) -> Option<f64> {
    let plain = flop_per_cycle_f32(compute_capability)? / f64::from(f32_to_f64.max(1));
    match (compute_capability, f32_to_f64) {
        // Models made for double precision have tensor cores for it.
        ((8 | 9, 0), 2) => Some(2.0 * plain),
        _ => Some(plain),
    }
}

/// Returns an attribute of a device; 0 for a negative one.
fn read_attribute(device: raw::CUdevice, what: CUdevice_attribute) -> CallResult<u32> {
    let mut value = 0;
    // SAFETY: one integer is written.
    unsafe { raw::cuDeviceGetAttribute(&mut value, what, device) }?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// Reads a text that the driver writes.
fn read_text(write: impl FnOnce(*mut c_char, i32) -> CallResult<()>) -> CallResult<String> {
    let mut buffer = [0; 256];
    // One character stays 0 whatever the driver writes.
    write(buffer.as_mut_ptr(), 255)?;
    let bytes = buffer.map(|c| c as u8);
    Ok(CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned())
}

fn read_uuid(device: raw::CUdevice, is_slice: bool) -> CallResult<String> {
    let mut uuid = raw::CUuuid { bytes: [0; 16] };
    // SAFETY: 16 bytes are written.
    unsafe { raw::cuDeviceGetUuid_v2(&mut uuid, device) }?;
    let mut text = String::from(if is_slice { "MIG-" } else { "GPU-" });
    for (i, byte) in uuid.bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{:02x}", *byte as u8));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_of_the_data_sheets() {
        // Capability, single to double precision; multiprocessors, boost clock, and TFLOP/s of double and single
        // precision: H100, A100, V100, A40, GTX 1080.
        let sheets = [
            ((9, 0), 2, 132.0, 1.98e9, 66.9, 66.9),
            ((8, 0), 2, 108.0, 1.41e9, 19.5, 19.5),
            ((7, 0), 2, 80.0, 1.53e9, 7.8, 15.7),
            ((8, 6), 64, 84.0, 1.74e9, 0.585, 37.4),
            ((6, 1), 32, 20.0, 1.73e9, 0.277, 8.87),
        ];
        for (capability, ratio, multiprocessors, clock_hz, f64_peak, f32_peak) in sheets {
            let per_cycle = [
                flop_per_cycle_f64(capability, ratio).unwrap(),
                flop_per_cycle_f32(capability).unwrap(),
            ];
            for (per_cycle, sheet) in per_cycle.into_iter().zip([f64_peak, f32_peak]) {
                let found = per_cycle * multiprocessors * clock_hz / 1e12;
                assert!((found / sheet - 1.0).abs() < 0.01, "{found}, not {sheet}");
            }
        }
        assert_eq!(flop_per_cycle_f64((99, 0), 2), None);
    }
}
