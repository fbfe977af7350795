//! The devices that a rank drives without a platform file.

use isochron_devices::internal::{HostScope, NodeSpec, found_devices};
use isochron_devices::topology::Topology;
use isochron_devices::{CudaInfo, Grouping, RankDevices};

use super::join::{place_on_host, share_gpus};
use crate::comm::{Comm, agree};
use crate::error::Error;

/// The devices that a [`Session`](super::Session) without a platform file would make on one rank.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundDevices {
    /// This rank's index among the ranks of its host that share its cores, and their number.
    pub place: (usize, usize),
    /// Its groups of cores, and the host core of each GPU, by its index in `gpus`.
    pub devices: RankDevices,
    /// The GPUs that it drives.
    pub gpus: Vec<CudaInfo>,
}

impl FoundDevices {
    /// Shares the hosts' cores and GPUs among the ranks, by the rules of a session, and makes no device.
    ///
    /// # Errors
    /// [`Error::Device`] on every rank when a GPU has no address.
    ///
    /// # Collective
    /// All ranks, each with the topology of its host.
    pub fn find(comm: &dyn Comm, topology: &Topology, grouping: Grouping) -> Result<Self, Error> {
        let scope = HostScope::default();
        let place = place_on_host(comm, topology, scope)?;
        // `cuda::survey` reports problems with GPUs.
        let node = NodeSpec::default();
        let gpus = share_gpus(comm, topology, &node, scope, &mut Vec::new())?;
        let devices = found_devices(topology, place, grouping, &gpus);
        Ok(Self {
            place,
            devices: agree(comm, devices.map_err(Error::from))?,
            gpus: gpus.into_iter().map(|gpu| gpu.info).collect(),
        })
    }
}
