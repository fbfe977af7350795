//! The devices of this rank's node, found on the host or described by the platform file.

use std::sync::Arc;

use isochron_devices::DeviceTeam;
use isochron_devices::blas::Blas;
use isochron_devices::topology::{BusId, CoreInfo, DriverGpu, Topology};
use isochron_devices::{
    CoreGroup, DeviceClock, DeviceKind, GpuHost, Grouping, HostCores, RankDevices,
};
use isochron_devices::{CpuWorker, CudaConfig, CudaWorker, PacedWorker, Worker};
use isochron_devices::{DeviceError, rank_devices, reserve_hosts, share_cores};

use super::platform::{Cores, DeviceSpec, NodeSpec};
use super::rank_gpu::RankGpu;
use crate::error::Error;

/// The cores of a host that one of its ranks may use. Devices take them one after the other.
struct RankCores {
    cores: Vec<CoreInfo>,
    taken: usize,
    /// `true` if each core belongs to this rank alone and threads may be bound to it.
    exclusive: bool,
}

impl RankCores {
    /// Finds the cores of the host that rank `index` of `count` gets, by [`share_cores`]. Ranks share cores if there are
    /// more ranks than cores.
    fn new(topology: &Topology, index: usize, count: usize) -> Self {
        let all = topology.affordable_cores();
        let mut shares = share_cores(&all, count);
        Self {
            exclusive: count <= all.len() && topology.should_pin(),
            cores: shares.swap_remove(index),
            taken: 0,
        }
    }

    /// Number of cores that no device has taken.
    fn left(&self) -> usize {
        self.cores.len().saturating_sub(self.taken)
    }

    /// Takes `count` cores for one device, and tells whether its threads may be pinned to them. A device whose clock
    /// tolerates it may share cores that another one took: an emulated pace follows CPU time, which sharing does not change.
    fn take_cores(
        &mut self,
        count: usize,
        clock: DeviceClock,
    ) -> Result<(Vec<CoreInfo>, bool), Error> {
        let left = self.left();
        if count > left && (!clock.tolerates_sharing() || self.cores.is_empty()) {
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

    /// Takes the host cores of GPUs out of the cores left, as [`reserve_hosts`] chooses. If none is left, the GPUs' threads
    /// have no core of their own and are not bound.
    fn reserve_host_cores(
        &mut self,
        topology: &Topology,
        gpus: &[&RankGpu],
    ) -> Result<Vec<(Vec<CoreInfo>, bool)>, Error> {
        let left = self.cores.split_off(self.taken.min(self.cores.len()));
        if left.is_empty() {
            return Ok(vec![(Vec::new(), false); gpus.len()]);
        }
        let addresses = bus_addresses(gpus.iter().copied())?;
        let distances = addresses.iter().map(|id| topology.pci_distances(id));
        let HostCores { hosts, rest } = reserve_hosts(&left, &distances.collect::<Vec<_>>());
        let taken = left.into_iter().filter(|core| !rest.contains(core));
        self.cores.extend(taken);
        self.taken = self.cores.len();
        self.cores.extend(rest);
        let hosts = hosts.into_iter();
        Ok(hosts.map(|core| (vec![core], self.exclusive)).collect())
    }
}

/// Returns the addresses of GPUs on the buses of their host.
fn bus_addresses<'a>(gpus: impl Iterator<Item = &'a RankGpu>) -> Result<Vec<BusId>, DeviceError> {
    gpus.map(|gpu| gpu.info.pci_bus_id.parse()).collect()
}

/// Makes the devices of a node. Devices that the platform file does not name are grouped by `grouping`.
///
/// `gpus` are this rank's, in the order of the file's devices. `place` is this rank's index among the ranks of its
/// host, and their number. GPUs that were found and cannot be used are added to `notices`.
///
/// # Errors
/// [`Error::Device`] when the hardware cannot be found or bound; [`Error::Parameter`] when a device names cores that are
/// not there.
pub(super) fn make_team(
    node: &NodeSpec,
    place: (usize, usize),
    grouping: Grouping,
    gpus: &[RankGpu],
    (topology, blas): (&Arc<Topology>, &Arc<dyn Blas>),
    notices: &mut Vec<String>,
) -> Result<DeviceTeam, Error> {
    if node.devices.is_empty() {
        let workers = default_workers(place, grouping, gpus, (topology, blas), notices)?;
        return Ok(DeviceTeam::new(workers)?);
    }
    let mut rank_cores = RankCores::new(topology, place.0, place.1);
    // A core that a device lists is not for devices that ask for a count, before or after it.
    for device in &node.devices {
        if let Cores::List(list) = &device.cores {
            rank_cores.cores.retain(|core| !list.contains(&core.core));
        }
    }
    // GPUs take their host cores first; a device of all cores gets the rest.
    let mut workers: Vec<Option<Box<dyn Worker>>> = node.devices.iter().map(|_| None).collect();
    let named: Vec<_> = node
        .devices
        .iter()
        .enumerate()
        .filter(|(_, device)| device.kind == DeviceKind::Cuda)
        .zip(gpus)
        .collect();
    let anywhere = named
        .iter()
        .filter(|((_, device), _)| device.cores == Cores::All);
    let anywhere: Vec<&RankGpu> = anywhere.map(|(_, gpu)| *gpu).collect();
    let mut hosts = rank_cores
        .reserve_host_cores(topology, &anywhere)?
        .into_iter();
    for ((index, device), gpu) in named {
        let host = match &device.cores {
            Cores::All => hosts.next().unwrap_or_default(),
            // A paced GPU, too, needs its own host core.
            Cores::Count(count) => rank_cores.take_cores(*count, DeviceClock::Accelerator)?,
            Cores::List(list) => (find_cores(topology, list)?, topology.is_this_system()),
        };
        workers[index] = Some(make_gpu_worker(device, gpu, host, topology)?);
    }
    for (index, (device, worker)) in node.devices.iter().zip(&mut workers).enumerate() {
        if device.kind == DeviceKind::Cpu {
            *worker = Some(make_cpu_worker(
                device,
                index,
                &mut rank_cores,
                topology,
                blas,
            )?);
        }
    }
    let workers: Vec<_> = workers.into_iter().flatten().collect();
    let names: Vec<&str> = workers
        .iter()
        .map(|worker| worker.info().name.as_str())
        .collect();
    check_names(&names)?;
    Ok(DeviceTeam::new(workers)?)
}

/// Checks that the names of a node's devices differ, since reports, plans and files tell them apart by name.
fn check_names(names: &[&str]) -> Result<(), Error> {
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(Error::Parameter {
                name: "name",
                value: (*name).to_owned(),
                reason: "two devices of this node would have this name: give each its own"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns the devices of a rank at `place` without a platform file: cores grouped by `grouping`, and these GPUs.
pub(super) fn found_devices(
    topology: &Topology,
    place: (usize, usize),
    grouping: Grouping,
    gpus: &[RankGpu],
) -> Result<RankDevices, Error> {
    let addresses = bus_addresses(gpus.iter())?;
    Ok(rank_devices(topology, place, grouping, &addresses))
}

/// Makes the devices of a node without devices in the platform file. A GPU that cannot be used is noted, and its host core
/// goes to the other devices.
fn default_workers(
    place: (usize, usize),
    grouping: Grouping,
    gpus: &[RankGpu],
    (topology, blas): (&Arc<Topology>, &Arc<dyn Blas>),
    notices: &mut Vec<String>,
) -> Result<Vec<Box<dyn Worker>>, Error> {
    let mut usable = gpus.to_vec();
    let (groups, gpus) = loop {
        let found = found_devices(topology, place, grouping, &usable)?;
        match gpu_workers(&found.gpus, &usable, topology)? {
            Ok(workers) => break (found.groups, workers),
            Err((gpu, error)) => {
                usable.remove(gpu);
                notices.push(format!("{error}; this GPU is not used"));
            }
        }
    };
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for group in groups {
        let CoreGroup {
            name, cores, pin, ..
        } = group;
        let worker = CpuWorker::new(topology.clone(), &name, cores, pin, blas.clone())?;
        workers.push(Box::new(worker));
    }
    workers.extend(gpus);
    Ok(workers)
}

/// The workers of GPUs, or the first GPU that cannot be used.
type GpuWorkers = Result<Vec<Box<dyn Worker>>, (usize, DeviceError)>;

fn gpu_workers(
    hosts: &[GpuHost],
    gpus: &[RankGpu],
    topology: &Arc<Topology>,
) -> Result<GpuWorkers, Error> {
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for GpuHost { gpu, core, pin } in hosts {
        let info = &gpus[*gpu].info;
        let name = DriverGpu::try_from(info)?.device_name();
        let host = (std::slice::from_ref(core), *pin);
        let config = CudaConfig {
            host_limit_bytes: gpus[*gpu].host_part_bytes(),
            ..CudaConfig::default()
        };
        match CudaWorker::new(topology.clone(), &name, info, host, &config) {
            Ok(worker) => workers.push(Box::new(worker)),
            Err(error) => return Ok(Err((*gpu, error))),
        }
    }
    Ok(Ok(workers))
}

fn make_gpu_worker(
    device: &DeviceSpec,
    gpu: &RankGpu,
    (cores, pin): (Vec<CoreInfo>, bool),
    topology: &Arc<Topology>,
) -> Result<Box<dyn Worker>, Error> {
    let name = match device.name.as_str() {
        "" => DriverGpu::try_from(&gpu.info)?.device_name(),
        name => name.to_owned(),
    };
    let config = CudaConfig {
        memory_limit_bytes: device.memory_limit.or(gpu.memory_part_bytes()),
        host_limit_bytes: device.host_limit.or(gpu.host_part_bytes()),
        ..CudaConfig::default()
    };
    let worker = CudaWorker::new(topology.clone(), &name, &gpu.info, (&cores, pin), &config)?;
    pace_worker(Box::new(worker), device)
}

/// Slows the worker down as the file says.
fn pace_worker(worker: Box<dyn Worker>, device: &DeviceSpec) -> Result<Box<dyn Worker>, Error> {
    Ok(match device.pace()? {
        Some(pace) => Box::new(PacedWorker::new(worker, pace)?),
        None => worker,
    })
}

fn make_cpu_worker(
    device: &DeviceSpec,
    index: usize,
    rank_cores: &mut RankCores,
    topology: &Arc<Topology>,
    blas: &Arc<dyn Blas>,
) -> Result<Box<dyn Worker>, Error> {
    let clock = device.clock();
    let (cores, pin) = match &device.cores {
        Cores::All => rank_cores.take_cores(rank_cores.left(), clock)?,
        Cores::Count(count) => rank_cores.take_cores(*count, clock)?,
        Cores::List(list) => (find_cores(topology, list)?, topology.is_this_system()),
    };
    let name = if device.name.is_empty() {
        format!("cpu{index}")
    } else {
        device.name.clone()
    };
    let worker = CpuWorker::new(topology.clone(), &name, cores, pin, blas.clone())?;
    pace_worker(Box::new(worker), device)
}

fn find_cores(topology: &Topology, list: &[u32]) -> Result<Vec<CoreInfo>, Error> {
    let cores = topology.cores();
    list.iter()
        .map(|&wanted| {
            let core = cores.iter().find(|core| core.core == wanted);
            core.cloned().ok_or_else(|| Error::Parameter {
                name: "cores",
                value: wanted.to_string(),
                reason: format!(
                    "this process may use {} cores of its host, not this one",
                    cores.len()
                ),
            })
        })
        .collect()
}
