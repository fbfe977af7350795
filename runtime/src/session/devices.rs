//! The devices of this rank's node: found on the host, or as the platform file says.

use std::sync::Arc;

use isochron_devices::CpuWorker;
use isochron_devices::DeviceTeam;
use isochron_devices::PacedWorker;
use isochron_devices::Worker;
use isochron_devices::blas::Blas;
use isochron_devices::topology::{CoreInfo, Topology};
use isochron_devices::{Grouping, default_groups, share_cores};

use super::platform::{Cores, DeviceSpec, NodeSpec};
use crate::error::Error;

/// The cores of a host that one of its ranks may take, as device after device is made.
struct Share {
    cores: Vec<CoreInfo>,
    taken: usize,
    /// Whether each core belongs to this rank alone, and threads may be bound to it.
    exclusive: bool,
}

impl Share {
    /// The cores of the host that rank `index` of `count` gets, by [`share_cores`]; where there are more ranks than cores,
    /// ranks share.
    fn new(topology: &Topology, index: usize, count: usize) -> Self {
        let all = topology.affordable_cores();
        let mut shares = share_cores(&all, count);
        Self {
            exclusive: count <= all.len() && topology.should_pin(),
            cores: shares.swap_remove(index),
            taken: 0,
        }
    }

    /// `count` cores for one device, and whether its threads may be pinned to them. An emulated device may share
    /// cores: its pace comes from CPU time, which another device on the core does not change.
    fn take(&mut self, count: usize, emulated: bool) -> Result<(Vec<CoreInfo>, bool), Error> {
        let left = self.cores.len() - self.taken.min(self.cores.len());
        if count > left && (!emulated || self.cores.is_empty()) {
            return Err(Error::Parameter {
                name: "cores",
                value: count.to_string(),
                reason: format!("this rank has {left} cores left for the device"),
            });
        }
        let picked =
            (self.taken..self.taken + count).map(|i| self.cores[i % self.cores.len()].clone());
        let picked = picked.collect();
        self.taken += count;
        Ok((picked, self.exclusive && count <= left))
    }
}

/// Makes the devices of a node; those that the platform file does not name are grouped by `grouping`. `place` is this rank's index among the ranks of its host, and their number.
///
/// # Errors
/// [`Error::Device`] when the hardware cannot be found or bound; [`Error::Parameter`] when a device wants cores
/// that are not there.
pub(super) fn make_team(
    node: &NodeSpec,
    place: (usize, usize),
    grouping: Grouping,
    topology: &Arc<Topology>,
    blas: &Arc<dyn Blas>,
) -> Result<DeviceTeam, Error> {
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    if node.devices.is_empty() {
        for group in default_groups(topology, place, grouping) {
            let (topology, blas) = (topology.clone(), blas.clone());
            workers.push(Box::new(CpuWorker::new(
                topology,
                &group.name,
                group.cores,
                group.pin,
                blas,
            )?));
        }
    }
    let mut share = Share::new(topology, place.0, place.1);
    // What a device asks for by number is not for those that ask for a count, before or after it.
    for device in &node.devices {
        if let Cores::List(list) = &device.cores {
            share.cores.retain(|core| !list.contains(&core.core));
        }
    }
    for (index, device) in node.devices.iter().enumerate() {
        workers.push(make_worker(device, index, &mut share, topology, blas)?);
    }
    Ok(DeviceTeam::new(workers)?)
}

fn make_worker(
    device: &DeviceSpec,
    index: usize,
    share: &mut Share,
    topology: &Arc<Topology>,
    blas: &Arc<dyn Blas>,
) -> Result<Box<dyn Worker>, Error> {
    let pace = device.pace()?;
    let (cores, pin) = match &device.cores {
        Cores::All => share.take(
            share.cores.len() - share.taken.min(share.cores.len()),
            pace.is_some(),
        )?,
        Cores::Count(count) => share.take(*count, pace.is_some())?,
        Cores::List(list) => (listed(topology, list)?, topology.is_this_system()),
    };
    let name = if device.name.is_empty() {
        format!("cpu{index}")
    } else {
        device.name.clone()
    };
    let worker = CpuWorker::new(topology.clone(), &name, cores, pin, blas.clone())?;
    Ok(match pace {
        Some(pace) => Box::new(PacedWorker::new(Box::new(worker), pace)?),
        None => Box::new(worker),
    })
}

fn listed(topology: &Topology, list: &[u32]) -> Result<Vec<CoreInfo>, Error> {
    let find = |&wanted: &u32| {
        topology
            .cores()
            .iter()
            .find(|core| core.core == wanted)
            .cloned()
            .ok_or_else(|| Error::Parameter {
                name: "cores",
                value: wanted.to_string(),
                reason: format!(
                    "this process may use {} cores of its host, not this one",
                    topology.cores().len()
                ),
            })
    };
    list.iter().map(find).collect()
}
