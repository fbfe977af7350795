//! This host's GPUs, as NVIDIA's management library tells of them.

use std::ffi::OsStr;
use std::time::Duration;

use nvml_wrapper::enum_wrappers::device::{Clock, PerformancePolicy};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use serde_json::{Value, json};

/// The library, by the name that drivers install.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Part of a repetition's time for which heat may slow a GPU down. The power limit does not count: a busy GPU reaches it as a
/// rule.
const SHARE: f64 = 0.01;

/// The GPUs of this host; none without the library.
#[derive(Debug)]
pub(crate) struct Gpus(Option<Nvml>);

/// The state of a GPU at a moment; `None` for what the library does not tell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GpuReading {
    /// Nanoseconds for which heat has slowed it down so far.
    slowed_ns: Option<u64>,
    /// Programs that compute on it.
    programs: Option<u32>,
}

impl Gpus {
    pub fn open() -> Self {
        Self(Nvml::builder().lib_path(OsStr::new(LIBRARY)).init().ok())
    }

    /// Describes the GPUs; an empty list without any.
    pub fn describe(&self) -> Value {
        let driver = self.0.as_ref().and_then(|nvml| nvml.sys_driver_version().ok());
        self.list(|gpu| {
            json!({
                "name": known(gpu.name()),
                "uuid": known(gpu.uuid()),
                "driver": driver,
                "vbios": known(gpu.vbios_version()),
                "max_clock_mhz": known(gpu.max_clock_info(Clock::SM)),
                "max_memory_clock_mhz": known(gpu.max_clock_info(Clock::Memory)),
                "application_clock_mhz": known(gpu.applications_clock(Clock::SM)),
                "power_limit_mw": known(gpu.enforced_power_limit()),
                "ecc": known(gpu.is_ecc_enabled().map(|ecc| ecc.currently_enabled)),
                "pcie_generation": known(gpu.max_pcie_link_gen()),
                "pcie_width": known(gpu.current_pcie_link_width()),
                "mig": known(gpu.mig_mode().map(|mode| mode.current)),
                "memory_bytes": known(gpu.memory_info().map(|memory| memory.total)),
                "persistence": known(gpu.is_in_persistent_mode()),
                "compute_mode": known(gpu.compute_mode().map(|mode| format!("{mode:?}"))),
            })
        })
        .into()
    }

    /// Reads the state of each GPU.
    pub fn read(&self) -> Vec<GpuReading> {
        self.list(|gpu| {
            let slowed = gpu.violation_status(PerformancePolicy::Thermal);
            GpuReading {
                slowed_ns: slowed.ok().map(|slowed| slowed.violation_time),
                programs: gpu.running_compute_processes_count().ok(),
            }
        })
    }

    fn list<T>(&self, tell: impl Fn(&Device<'_>) -> T) -> Vec<T> {
        let Self(Some(nvml)) = self else {
            return Vec::new();
        };
        (0..nvml.device_count().unwrap_or(0))
            .filter_map(|index| Some(tell(&nvml.device_by_index(index).ok()?)))
            .collect()
    }
}

/// Returns a fact; `null` if the library does not tell it.
fn known<T: Into<Value>>(fact: Result<T, NvmlError>) -> Value {
    fact.map_or(Value::Null, Into::into)
}

impl GpuReading {
    /// Lists the disturbances of GPU `gpu` in the time from `before` to this state.
    pub fn describe(&self, before: &Self, gpu: usize, time: Duration) -> Vec<String> {
        let mut reasons = Vec::new();
        // The measured program had not begun then.
        if before.programs.is_some_and(|programs| programs > 0) {
            reasons.push(format!("disturbed: another program computes on GPU {gpu}"));
        }
        if let (Some(before_ns), Some(after_ns)) = (before.slowed_ns, self.slowed_ns) {
            let slowed = Duration::from_nanos(after_ns.saturating_sub(before_ns));
            let share = slowed.as_secs_f64() / time.as_secs_f64();
            if share > SHARE {
                let share = 100.0 * share.min(1.0);
                reasons.push(format!(
                    "throttled: heat slowed GPU {gpu} down for {share:.0} % of the time"
                ));
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_and_other_programs_are_reasons() {
        let state = |slowed_ns, programs| GpuReading {
            slowed_ns: Some(slowed_ns),
            programs: Some(programs),
        };
        let second = Duration::from_secs(1);
        let quiet: [String; 0] = [];
        assert_eq!(state(105, 1).describe(&state(5, 0), 0, second), quiet);
        assert_eq!(state(9_900_000, 1).describe(&state(0, 0), 0, second), quiet);
        assert_eq!(state(11_000_000, 1).describe(&state(0, 0), 0, second).len(), 1);
        let unknown = GpuReading::default();
        assert_eq!(unknown.describe(&unknown, 0, second), quiet);
        assert_eq!(
            state(250_000_000, 2).describe(&state(0, 1), 3, second),
            [
                "disturbed: another program computes on GPU 3",
                "throttled: heat slowed GPU 3 down for 25 % of the time"
            ]
        );
    }
}
