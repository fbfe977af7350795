//! The GPU, its host cores and the other cores.

use std::sync::Arc;

use anyhow::{Context, bail};
use isochron_devices::cuda::{self, CudaInfo};
use isochron_devices::topology::CoreInfo;
use isochron_devices::{BusId, CudaConfig, CudaWorker, Topology};

/// Tried numbers of cores that copy for the GPU; one is the default of a platform file.
pub const HOST_CORES: [usize; 4] = [1, 2, 4, 8];

/// The first GPU of this host.
pub struct GpuCard {
    topology: Arc<Topology>,
    pub info: CudaInfo,
    /// The state of CUDA in words.
    pub finding: String,
    /// The cores that this process may use, the nearest to the GPU first.
    pub cores: Vec<CoreInfo>,
    /// The number of cores that copy for the GPU.
    pub host_cores: usize,
}

impl GpuCard {
    /// Finds the first GPU.
    ///
    /// # Errors
    /// If there is none; the message describes the state of CUDA.
    pub fn find() -> anyhow::Result<Self> {
        let survey = cuda::survey();
        let Some(info) = survey.devices.into_iter().next() else {
            bail!("there is no GPU to measure: {}", survey.finding);
        };
        let topology = Arc::new(Topology::discover()?);
        let mut cores = topology.affordable_cores();
        let bus_id: Result<BusId, _> = info.pci_bus_id.parse();
        let distances = bus_id
            .map(|id| topology.pci_distances(&id))
            .unwrap_or_default();
        cores.sort_by_key(|core| distances.get(&core.core).copied().unwrap_or(u32::MAX));
        Ok(Self {
            finding: survey.finding,
            host_cores: HOST_CORES[0],
            topology,
            info,
            cores,
        })
    }

    /// Makes the device with this number of host cores. Its jobs use at most `limit` bytes of the GPU's memory.
    pub fn make_worker(&self, host_cores: usize, limit: Option<u64>) -> anyhow::Result<CudaWorker> {
        let cores = self.cores.get(..host_cores).unwrap_or(&self.cores);
        let config = CudaConfig {
            memory_limit_bytes: limit,
            ..CudaConfig::default()
        };
        let pin = self.topology.should_pin();
        let topology = Arc::clone(&self.topology);
        CudaWorker::new(topology, "gpu", &self.info, cores, pin, &config)
            .with_context(|| self.info.name.clone())
    }

    /// Returns the numbers of its host cores, and of the other cores.
    pub fn split_cores(&self) -> (Vec<u32>, Vec<u32>) {
        let numbers: Vec<u32> = self.cores.iter().map(|core| core.core).collect();
        let (host, rest) = numbers.split_at(self.host_cores.min(numbers.len()));
        (host.to_vec(), rest.to_vec())
    }
}

/// Makes a short name for files: `h200` of `NVIDIA H200`.
pub fn make_file_name(name: &str) -> String {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !["", "nvidia", "geforce"].contains(word))
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::make_file_name;

    #[test]
    fn files_are_named_after_the_model() {
        assert_eq!(make_file_name("NVIDIA H200"), "h200");
        assert_eq!(make_file_name("NVIDIA A100-SXM4-80GB"), "a100-sxm4-80gb");
        assert_eq!(make_file_name("NVIDIA GeForce RTX 4090"), "rtx-4090");
        assert_eq!(
            make_file_name("Emulated CUDA device 0"),
            "emulated-cuda-device-0"
        );
    }
}
