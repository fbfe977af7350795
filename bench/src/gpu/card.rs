//! The GPU and its host cores.

use std::sync::Arc;

use anyhow::{Context, bail};
use isochron_devices::cuda::{self, CudaInfo};
use isochron_devices::topology::CoreInfo;
use isochron_devices::{BusId, CudaConfig, CudaWorker, Topology};

/// The first GPU of this host.
pub struct GpuCard {
    topology: Arc<Topology>,
    pub info: CudaInfo,
    /// The cores that this process may use, the nearest to the GPU first.
    cores: Vec<CoreInfo>,
}

impl GpuCard {
    /// Finds the first GPU.
    ///
    /// # Errors
    /// Fails if there is none; the message describes the state of CUDA.
    pub fn find() -> anyhow::Result<Self> {
        let survey = cuda::survey();
        let Some(info) = survey.devices.into_iter().next() else {
            bail!("there is no GPU to measure: {}", survey.finding);
        };
        let topology = Arc::new(Topology::discover()?);
        let mut cores = topology.affordable_cores();
        let bus_id: Result<BusId, _> = info.pci_bus_id.parse();
        let distances = bus_id.map(|id| topology.pci_distances(&id)).unwrap_or_default();
        cores.sort_by_key(|core| distances.get(&core.core).copied().unwrap_or(u32::MAX));
        Ok(Self { topology, info, cores })
    }

    /// Makes the device with this number of host cores. Its jobs use at most `limit` bytes of the GPU's memory.
    ///
    /// # Errors
    /// Fails if this process may not use that number of cores, or if the driver refuses.
    pub fn make_worker(&self, host_cores: usize, limit: Option<u64>) -> anyhow::Result<CudaWorker> {
        let most = self.cores.len();
        let cores =
            (1..=most).contains(&host_cores).then(|| &self.cores[..host_cores]).with_context(
                || format!("{host_cores} host cores: this process may use 1 to {most}"),
            )?;
        let config = CudaConfig { memory_limit_bytes: limit, ..CudaConfig::default() };
        let pin = self.topology.should_pin();
        let topology = Arc::clone(&self.topology);
        CudaWorker::new(topology, "gpu", &self.info, cores, pin, &config)
            .with_context(|| self.info.name.clone())
    }
}
