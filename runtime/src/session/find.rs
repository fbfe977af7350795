//! The devices that a rank drives without a platform file.

use isochron_devices::internal::{
    HostFacts, HostScope, Load, NodeSpec, assign_gpus, found_devices, offer_gpus,
};
use isochron_devices::topology::{HostPlace, Topology};
use isochron_devices::{CudaInfo, Grouping, RankDevices};

use super::join::gather_on_host;
use crate::comm::{Comm, agree, launched_place};
use crate::error::Error;

/// The devices that a [`Session`](super::Session) without a platform file would make on one rank.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundDevices {
    /// Its groups of cores, and the host core of each GPU, by its index in `gpus`.
    pub devices: RankDevices,
    /// The GPUs that it drives.
    pub gpus: Vec<CudaInfo>,
}

impl FoundDevices {
    /// Shares the hosts' cores and GPUs among the ranks, by the rules of a session, and makes no device.
    ///
    /// # Errors
    /// Returns [`Error::Device`] on every rank when a GPU has no address.
    ///
    /// # Collective
    /// All ranks, each with the topology of its host.
    pub fn find(comm: &dyn Comm, topology: &Topology, grouping: Grouping) -> Result<Self, Error> {
        let scope = HostScope::default();
        let place = place_on_host(comm, topology)?;
        // `cuda::survey` reports problems with GPUs.
        let notices = &mut Vec::new();
        let node = NodeSpec::default();
        let (visible, offers) = offer_gpus(topology, &node, scope, launched_place(), notices);
        let host = gather_on_host(comm, offers)?;
        let gpus = assign_gpus(&visible, host, comm.rank(), notices);
        let gpus = agree(comm, gpus.map_err(Error::from))?;
        let devices = found_devices(topology, place, grouping, &gpus);
        Ok(Self {
            devices: agree(comm, devices.map_err(Error::from))?,
            gpus: gpus.into_iter().map(|gpu| gpu.info).collect(),
        })
    }
}

impl FoundDevices {
    /// Returns the seconds that the devices' arithmetic would lose for each second of CPU time of this rank's messages.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, each with the topology of its host.
    pub fn find_message_cost(&self, comm: &dyn Comm, topology: &Topology) -> Result<f64, Error> {
        let groups = self.devices.groups.iter();
        let mine: Vec<u32> =
            groups.flat_map(|group| group.cores.iter().map(|core| core.core)).collect();
        let host = gather_on_host(comm, mine.clone())?;
        let sharing: Vec<u32> = host.iter().flat_map(|(_, cores)| cores).copied().collect();
        let threads: Vec<usize> = host.iter().map(|(_, cores)| cores.len()).collect();
        Ok(Load::find(topology, &mine, &sharing, &threads).message_cost)
    }
}

/// Returns this rank's [place](HostFacts::find_place) on its host, beside all processes that its launcher has started there.
///
/// # Collective
/// All ranks.
pub(super) fn place_on_host(comm: &dyn Comm, topology: &Topology) -> Result<HostPlace, Error> {
    let mine = HostFacts::new(topology, &[]);
    let host = gather_on_host(comm, mine.clone())?;
    Ok(mine.find_place(topology, &host, comm.rank(), launched_place()))
}
