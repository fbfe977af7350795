//! Heat and other programs on this host's GPUs, as NVIDIA's management library tells them.

use std::ffi::OsStr;
use std::time::Duration;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::PerformancePolicy;

/// The library, by the name that drivers install.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Part of a repetition's time for which heat may slow a GPU down. The limit of power is none of the reasons: a busy GPU is
/// at it as a rule.
const SHARE: f64 = 0.01;

/// The GPUs of this host; none without the library.
#[derive(Debug)]
pub(super) struct Gpus(Option<Nvml>);

/// The state of a GPU at a moment; `None` for what the library does not tell.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GpuState {
    /// Nanoseconds for which heat has slowed it down so far.
    slowed_ns: Option<u64>,
    /// Programs that compute on it.
    programs: Option<u32>,
}

impl Gpus {
    pub fn open() -> Self {
        Self(Nvml::builder().lib_path(OsStr::new(LIBRARY)).init().ok())
    }

    /// Reads the state of each GPU.
    pub fn read(&self) -> Vec<GpuState> {
        let Self(Some(nvml)) = self else {
            return Vec::new();
        };
        let gpus = (0..nvml.device_count().unwrap_or(0)).map(|index| {
            let Ok(gpu) = nvml.device_by_index(index) else {
                return GpuState::default();
            };
            let slowed = gpu.violation_status(PerformancePolicy::Thermal);
            GpuState {
                slowed_ns: slowed.ok().map(|slowed| slowed.violation_time),
                programs: gpu.running_compute_processes_count().ok(),
            }
        });
        gpus.collect()
    }
}

impl GpuState {
    /// Lists the reasons not to trust what took this time on GPU `gpu`, from `before` to this state.
    pub fn describe(&self, before: &Self, gpu: usize, took: Duration) -> Vec<String> {
        let mut reasons = Vec::new();
        // The program that is measured had not begun then.
        if before.programs.is_some_and(|programs| programs > 0) {
            reasons.push(format!("disturbed: another program computes on GPU {gpu}"));
        }
        if let (Some(before_ns), Some(after_ns)) = (before.slowed_ns, self.slowed_ns) {
            let slowed = Duration::from_nanos(after_ns.saturating_sub(before_ns));
            let share = slowed.as_secs_f64() / took.as_secs_f64();
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
        let state = |slowed_ns, programs| GpuState {
            slowed_ns: Some(slowed_ns),
            programs: Some(programs),
        };
        let second = Duration::from_secs(1);
        let quiet: [String; 0] = [];
        assert_eq!(state(105, 1).describe(&state(5, 0), 0, second), quiet);
        let unknown = GpuState::default();
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
