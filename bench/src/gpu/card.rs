//! The GPU, and the cores that it and the others have.

use std::sync::Arc;

use anyhow::{Context, bail};
use isochron_devices::cuda::{self, CudaInfo};
use isochron_devices::topology::CoreInfo;
use isochron_devices::{BusId, CudaConfig, CudaWorker, Topology, Worker as _};

/// How many host cores may copy for the GPU; one is what a GPU has where nobody says more.
pub const HOST_CORES: [usize; 4] = [1, 2, 4, 8];

/// The first GPU of this host.
pub struct Card {
    topology: Arc<Topology>,
    pub info: CudaInfo,
    /// What the survey of CUDA said.
    pub finding: String,
    /// The cores that this process may use, those nearest to the GPU first.
    pub cores: Vec<CoreInfo>,
    /// How many of them copy for the GPU.
    pub host_cores: usize,
}

impl Card {
    /// Looks for it.
    ///
    /// # Errors
    /// What was found instead.
    pub fn find() -> anyhow::Result<Self> {
        let survey = cuda::survey();
        let Some(info) = survey.devices.into_iter().next() else {
            bail!("there is no GPU to measure: {}", survey.finding);
        };
        let topology = Arc::new(Topology::discover()?);
        let mut cores = topology.affordable_cores();
        let bus_id: Result<BusId, _> = info.pci_bus_id.parse();
        let distances = bus_id.map(|id| topology.pci_distances(&id));
        let distances = distances.unwrap_or_default();
        cores.sort_by_key(|core| distances.get(&core.core).copied().unwrap_or(u32::MAX));
        Ok(Self {
            finding: survey.finding,
            host_cores: HOST_CORES[0],
            topology,
            info,
            cores,
        })
    }

    /// Whether it is none: the emulator says so in the name.
    pub fn is_emulated(&self) -> bool {
        self.info.name.starts_with("Emulated CUDA")
    }

    /// cuBLAS with its version, as a device tells it.
    pub fn blas(&self) -> anyhow::Result<String> {
        Ok(self.worker(None)?.info().blas.clone())
    }

    /// The device with its host cores, whose jobs use at most `limit` bytes of the GPU's memory.
    pub fn worker(&self, limit: Option<u64>) -> anyhow::Result<CudaWorker> {
        self.worker_on(self.host_cores, limit)
    }

    /// The same with so many host cores.
    pub fn worker_on(&self, host_cores: usize, limit: Option<u64>) -> anyhow::Result<CudaWorker> {
        let cores = self.cores.get(..host_cores).unwrap_or(&self.cores);
        let config = CudaConfig {
            memory_limit_bytes: limit,
            ..CudaConfig::default()
        };
        let pin = self.topology.should_pin();
        let topology = Arc::clone(&self.topology);
        CudaWorker::new(topology, "gpu", &self.info, (cores, pin), &config)
            .with_context(|| self.info.name.clone())
    }

    /// The numbers of its host cores, and of the cores that are left.
    pub fn divided_cores(&self) -> (Vec<u32>, Vec<u32>) {
        let numbers: Vec<u32> = self.cores.iter().map(|core| core.core).collect();
        let (host, rest) = numbers.split_at(self.host_cores.min(numbers.len()));
        (host.to_vec(), rest.to_vec())
    }

    /// A short name for files: `h200` of `NVIDIA H200`.
    pub fn slug(&self) -> String {
        slug(&self.info.name)
    }
}

fn slug(name: &str) -> String {
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words
        .filter(|word| !["", "nvidia", "geforce"].contains(word))
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn files_are_named_after_the_model() {
        assert_eq!(slug("NVIDIA H200"), "h200");
        assert_eq!(slug("NVIDIA A100-SXM4-80GB"), "a100-sxm4-80gb");
        assert_eq!(slug("NVIDIA GeForce RTX 4090"), "rtx-4090");
        assert_eq!(slug("Emulated CUDA device 0"), "emulated-cuda-device-0");
    }
}
