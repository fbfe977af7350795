//! Devices that heat slows down.

use std::fs;
use std::path::{Path, PathBuf};

use crate::contract::DeviceInfo;
use crate::cuda::read_gpu_state;
use crate::host::topology::Topology;

/// The counters of each device that grow when heat slows it down. Devices without counters never seem slowed down.
#[derive(Debug, Clone, Default)]
pub struct HeatSensors {
    devices: Vec<DeviceSensors>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct DeviceSensors {
    /// Files with a counter of a core or its package.
    files: Vec<PathBuf>,
    /// The unique number of a GPU.
    gpu: Option<String>,
}

/// The counters at a moment, by device.
pub type HeatCounts = Vec<u64>;

impl HeatSensors {
    /// Finds the counters of these devices, each with its unique number if it is a GPU.
    #[must_use]
    pub fn find(topology: &Topology, devices: &[(&DeviceInfo, Option<&str>)]) -> Self {
        let cores = topology.cores();
        let devices = devices.iter().map(|(device, gpu)| {
            let cpus = cores
                .iter()
                .filter(|core| device.cores.contains(&core.core))
                .filter_map(|core| core.pus.first().copied());
            DeviceSensors {
                files: list_files(Path::new("/sys/devices/system/cpu"), cpus),
                gpu: gpu.map(str::to_owned),
            }
        });
        Self { devices: devices.collect() }
    }

    /// Reads the counters.
    #[must_use]
    pub fn read(&self) -> HeatCounts {
        self.devices
            .iter()
            .map(|device| {
                let cores: u64 = device.files.iter().map(|file| read_count(file)).sum();
                let gpu = device.gpu.as_ref();
                let gpu = gpu.and_then(|uuid| read_gpu_state(uuid).slowed_ns);
                cores.saturating_add(gpu.unwrap_or(0))
            })
            .collect()
    }

    /// Returns for each device if heat has slowed it down since the counters were `before`.
    #[must_use]
    pub fn find_slowed(&self, before: &HeatCounts) -> Vec<bool> {
        let now = self.read().into_iter();
        now.zip(before).map(|(now, before)| now > *before).collect()
    }
}

/// Lists the counters of these processing units that are there.
fn list_files(cpus: &Path, units: impl Iterator<Item = u32>) -> Vec<PathBuf> {
    units
        .flat_map(|unit| {
            let folder = cpus.join(format!("cpu{unit}/thermal_throttle"));
            ["core_throttle_count", "package_throttle_count"].map(|name| folder.join(name))
        })
        .filter(|file| file.exists())
        .collect()
}

fn read_count(file: &Path) -> u64 {
    fs::read_to_string(file).unwrap_or_default().trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_grows_is_a_device_slowed_down() {
        let root = tempfile::tempdir().unwrap();
        for (unit, count) in [(0, "7\n"), (2, "9\n")] {
            let folder = root.path().join(format!("cpu{unit}/thermal_throttle"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("core_throttle_count"), count).unwrap();
        }
        let devices = [vec![0, 1], vec![2], vec![3]].map(|units| DeviceSensors {
            files: list_files(root.path(), units.into_iter()),
            gpu: None,
        });
        assert_eq!(devices.each_ref().map(|device| device.files.len()), [1, 1, 0]);
        let sensors = HeatSensors { devices: devices.to_vec() };
        let before = sensors.read();
        assert_eq!((&before[..], sensors.find_slowed(&before)), (&[7, 9, 0][..], vec![false; 3]));
        let grown = root.path().join("cpu2/thermal_throttle/core_throttle_count");
        fs::write(grown, "10\n").unwrap();
        assert_eq!(sensors.find_slowed(&before), [false, true, false]);
    }
}
