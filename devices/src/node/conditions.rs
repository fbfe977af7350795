//! The state of a host on which the speed of its devices depends, as far as the system tells it.

use std::fs;
use std::path::Path;

use crate::contract::{DeviceInfo, DeviceKind};
use crate::cuda::GpuState;
use crate::host::topology::Topology;
use serde::{Deserialize, Serialize};

/// The state of a host and of one of its devices. What the system does not tell is `None`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct HostConditions {
    /// Hash of the machine's id, which tells machines of one name apart; of links, those of all machines; `None` if
    /// the system does not say, and for libraries.
    pub machine: Option<String>,
    /// The GPU's unique number; `None` for other devices.
    pub uuid: Option<String>,
    /// Version of the GPU's driver; `None` for other devices.
    pub driver: Option<String>,
    /// Version of the system; `None` if the system does not say.
    pub system: Option<String>,
    /// Governor of the cores' clocks; `None` if the system does not say.
    pub governor: Option<String>,
    /// Highest clock that the system allows the cores, in kHz; of a GPU the clock that applications get, in MHz, or
    /// `unknown`. `None` if the system does not say.
    pub clock_cap: Option<String>,
    /// `on` or `off`: clocks above the nominal one; `None` if the system does not say.
    pub boost: Option<String>,
    /// Highest power that the system allows the processor, in µW; of a GPU in mW, or `unknown`. `None` if the system
    /// does not say.
    pub power_cap: Option<String>,
    /// CPU quota of the control groups in cores; `None` without one.
    pub quota: Option<String>,
    /// Eighths of the GPU's memory that are in use; `unknown` if the driver does not say, `None` for other devices.
    pub used_memory: Option<String>,
    /// `on` or `off`: correction of errors in the GPU's memory; `unknown` if the driver does not say, `None` for
    /// other devices.
    pub ecc: Option<String>,
}

/// The value of a fact that a GPU's driver does not tell.
const UNKNOWN: &str = "unknown";

/// The content of a machine's id before its first start.
const UNINITIALIZED: &str = "uninitialized";

impl HostConditions {
    /// Returns these conditions with the state of a GPU in place of that of the cores.
    #[must_use]
    pub fn with_gpu(self, uuid: &str, gpu: GpuState) -> Self {
        let used = gpu.memory_bytes.filter(|(_, all)| *all > 0);
        let eighths = used.map(|(used, all)| (8.0 * used as f64 / all as f64) as u64);
        Self {
            uuid: Some(uuid.to_owned()),
            clock_cap: name_value(gpu.clock_mhz),
            power_cap: name_value(gpu.power_mw),
            used_memory: name_value(eighths),
            ecc: name_value(gpu.corrects_errors.map(name_switch)),
            ..self
        }
    }

    /// Reads the state of this host for one of its devices.
    #[must_use]
    pub fn read(topology: &Topology, device: &DeviceInfo) -> Self {
        let cores = topology.cores();
        let core = device.cores.first();
        let core = core.and_then(|&index| cores.iter().find(|core| core.core == index));
        let cpu = core.and_then(|core| core.pus.first()).copied();
        let quota = topology.cpu_quota_cores();
        let is_gpu = device.kind == DeviceKind::Cuda;
        let gpu = device.bus_id.as_deref().filter(|_| is_gpu);
        Self {
            quota: quota.map(|cores| format!("{cores:.2}")),
            ..Self::read_files(Path::new("/"), cpu, gpu)
        }
    }

    /// Reads the files below `root` for a processing unit and the GPU at an address.
    fn read_files(root: &Path, cpu: Option<u32>, gpu: Option<&str>) -> Self {
        let cpus = root.join("sys/devices/system/cpu");
        let clock = cpu.map(|cpu| cpus.join(format!("cpu{cpu}/cpufreq")));
        let nvidia = root.join("proc/driver/nvidia");
        let gpu = gpu.map(|address| nvidia.join("gpus").join(address).join("information"));
        let power = root.join("sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw");
        Self {
            machine: read_machine(&root.join("etc/machine-id")),
            uuid: gpu.as_deref().and_then(|file| read_field(file, "GPU UUID")),
            driver: read_within(gpu.is_some().then_some(&*nvidia), "version"),
            system: read_value(&root.join("proc/sys/kernel/osrelease")),
            governor: read_within(clock.as_deref(), "scaling_governor"),
            clock_cap: read_within(clock.as_deref(), "scaling_max_freq"),
            boost: read_boost(&cpus),
            power_cap: read_value(&power),
            quota: None,
            used_memory: None,
            ecc: None,
        }
    }
}

fn name_value(value: Option<impl ToString>) -> Option<String> {
    Some(value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string()))
}

/// Returns the hash of a machine's id. Stores are shared and exported, and the id itself is not meant to be published.
fn read_machine(path: &Path) -> Option<String> {
    let id = read_value(path).filter(|id| id != UNINITIALIZED)?;
    Some(format!("{:08x}", crc32fast::hash(id.as_bytes())))
}

/// Returns `on` or `off`, as one of the two drivers of clocks says.
fn read_boost(cpus: &Path) -> Option<String> {
    let boost = read_value(&cpus.join("cpufreq/boost")).map(|value| value == "1");
    let no_turbo = read_value(&cpus.join("intel_pstate/no_turbo")).map(|value| value == "1");
    let is_on = boost.or(no_turbo.map(|off| !off))?;
    Some(name_switch(is_on).to_owned())
}

fn name_switch(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// Returns the first line of a file in a folder, if there are such.
fn read_within(folder: Option<&Path>, name: &str) -> Option<String> {
    read_value(&folder?.join(name))
}

/// Returns the first line of a file, if there is one.
fn read_value(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// Returns the value of the line `name: value` of a file.
fn read_field(path: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.trim() == name)?;
    Some(value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_the_system_tells_is_read() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let nothing = HostConditions::read_files(root, Some(3), Some("0000:17:00.0"));
        assert_eq!(nothing, HostConditions::default());
        let cpu = "sys/devices/system/cpu";
        for (name, text) in [
            (&*format!("{cpu}/cpu3/cpufreq/scaling_governor"), "powersave\n"),
            (&*format!("{cpu}/cpu3/cpufreq/scaling_max_freq"), "2100000\n"),
            (&*format!("{cpu}/intel_pstate/no_turbo"), "1\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("etc/machine-id", "a1b2\n"),
            ("sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw", "9000\n"),
            ("proc/driver/nvidia/version", "NVRM version: 575\nGCC\n"),
            (
                "proc/driver/nvidia/gpus/0000:17:00.0/information",
                "Model: \t NVIDIA H200\nGPU UUID: \t GPU-4a\n",
            ),
        ] {
            write(root, name, text);
        }
        let told = HostConditions::read_files(root, Some(3), Some("0000:17:00.0"));
        let expected = [
            (&told.governor, "powersave"),
            (&told.clock_cap, "2100000"),
            (&told.boost, "off"),
            (&told.system, "6.1.0"),
            (&told.power_cap, "9000"),
            (&told.driver, "NVRM version: 575"),
            (&told.uuid, "GPU-4a"),
        ];
        for (value, expected) in expected {
            assert_eq!(value.as_deref(), Some(expected));
        }
        let machine = told.machine.expect("an id");
        assert!(machine.len() == 8 && !machine.contains("a1b2"), "{machine}");
        for (id, is_told) in [("a1b3\n", true), ("uninitialized\n", false), ("\n", false)] {
            write(root, "etc/machine-id", id);
            let other = HostConditions::read_files(root, None, None).machine;
            assert!(other.is_some() == is_told && other.as_ref() != Some(&machine), "{id}");
        }
        write(root, &format!("{cpu}/cpufreq/boost"), "1\n");
        let told = HostConditions::read_files(root, Some(4), None);
        assert_eq!((told.boost.as_deref(), told.governor, told.uuid), (Some("on"), None, None));
    }

    #[test]
    fn the_state_of_a_gpu_is_told_in_steps_and_unknown_without_its_library() {
        let told = HostConditions::default().with_gpu("GPU-4a", GpuState::default());
        assert_eq!(told.uuid.as_deref(), Some("GPU-4a"));
        for value in [&told.clock_cap, &told.power_cap, &told.used_memory, &told.ecc] {
            assert_eq!(value.as_deref(), Some("unknown"));
        }
        for (used, eighths) in [(0, "0"), (999, "0"), (1000, "1"), (7999, "7"), (8000, "8")] {
            let state = GpuState {
                clock_mhz: Some(1980),
                power_mw: Some(700_000),
                memory_bytes: Some((used, 8000)),
                corrects_errors: Some(used > 0),
                slowed_ns: None,
            };
            let told = HostConditions::default().with_gpu("GPU-4a", state);
            let values = [&told.clock_cap, &told.power_cap, &told.used_memory];
            let values = values.map(|value| value.as_deref());
            assert_eq!(values, [Some("1980"), Some("700000"), Some(eighths)]);
            let ecc = if used > 0 { "on" } else { "off" };
            assert_eq!(told.ecc.as_deref(), Some(ecc));
        }
    }
}
