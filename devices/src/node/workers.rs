//! The devices of this rank's node, found on the host or described by the platform file.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::discover::{RankDevices, rank_devices};
use super::grouping::Grouping;
use super::host_cores::{HostCores, reserve_hosts};
use super::rank_gpu::RankGpu;
use super::share::share_cores;
use super::spec::{Cores, DeviceSpec, NodeSpec};
use crate::contract::{Blas, DeviceClock, DeviceError, DeviceKind, Worker};
use crate::cpu::CpuWorker;
use crate::cuda::{CudaConfig, CudaWorker};
use crate::host::topology::{BusId, CoreInfo, DriverGpu, HostPlace, Topology};
use crate::paced::PacedWorker;
use crate::team::DeviceTeam;

/// The cores of a host that one of its ranks may use. Devices take them one after the other.
struct RankCores {
    cores: Vec<CoreInfo>,
    taken: usize,
    /// `true` if each core belongs to this rank alone and a thread may be bound to it.
    exclusive: bool,
}

impl RankCores {
    /// Finds the cores of the host that the rank at `place` gets, by [`share_cores`]. Ranks share cores if there are more
    /// ranks than cores.
    fn new(topology: &Topology, place: HostPlace) -> Self {
        let all = topology.affordable_cores();
        let mut shares = share_cores(&all, place.count);
        Self {
            exclusive: place.count <= all.len() && topology.should_pin(),
            cores: shares.swap_remove(place.index),
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
        device: usize,
        count: usize,
        clock: DeviceClock,
    ) -> Result<(Vec<CoreInfo>, bool), DeviceError> {
        let left = self.left();
        if count > left && (!clock.tolerates_sharing() || self.cores.is_empty()) {
            let reason = format!("this rank has {left} cores left for its device {device}");
            return Err(DeviceError::parameter("cores", count, reason));
        }
        let cores = self.cores.iter().cycle().skip(self.taken).take(count);
        self.taken += count;
        Ok((cores.cloned().collect(), self.exclusive && count <= left))
    }

    /// Takes the host cores of GPUs out of the cores left, as [`reserve_hosts`] chooses. If none is left, the GPUs' threads
    /// have no core of their own.
    fn reserve_host_cores(
        &mut self,
        topology: &Topology,
        gpus: &[&RankGpu],
    ) -> Result<Vec<(Vec<CoreInfo>, bool)>, DeviceError> {
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
        Ok(hosts.into_iter().map(|core| (vec![core], self.exclusive)).collect())
    }
}

/// Returns the addresses of GPUs on the buses of their host.
fn bus_addresses<'a>(gpus: impl Iterator<Item = &'a RankGpu>) -> Result<Vec<BusId>, DeviceError> {
    gpus.map(|gpu| gpu.info.pci_bus_id.parse()).collect()
}

/// Makes the devices that the platform file names; a node without any there gets groups of its cores by `grouping`.
///
/// `gpus` are this rank's, in the order of the file's devices. `place` is this rank's place among the ranks that share
/// its cores. GPUs that were found and cannot be used are added to `notices`.
///
/// # Errors
/// Returns errors of hardware that cannot be found or bound; [`DeviceError::Parameter`] when a device names cores that
/// are not there.
pub fn make_team(
    node: &NodeSpec,
    place: HostPlace,
    grouping: Grouping,
    gpus: &[RankGpu],
    topology: &Arc<Topology>,
    blas: &Arc<dyn Blas>,
    notices: &mut Vec<String>,
) -> Result<DeviceTeam, DeviceError> {
    if node.devices.is_empty() {
        let workers = default_workers(place, grouping, gpus, topology, blas, notices)?;
        return DeviceTeam::new(workers);
    }
    let mut rank_cores = RankCores::new(topology, place);
    // A core that a device lists is not for devices that ask for a count, before or after it.
    for device in &node.devices {
        if let Cores::List(list) = &device.cores {
            rank_cores.cores.retain(|core| !list.contains(&core.core));
        }
    }
    // GPUs take their host cores first; a device of all cores gets the rest.
    let devices = node.devices.iter().enumerate();
    let (with_gpu, of_cores): (Vec<_>, Vec<_>) =
        devices.partition(|(_, device)| device.kind == DeviceKind::Cuda);
    let anywhere: Vec<&RankGpu> = with_gpu
        .iter()
        .zip(gpus)
        .filter(|((_, device), _)| device.cores == Cores::All)
        .map(|(_, gpu)| gpu)
        .collect();
    let hosts = rank_cores.reserve_host_cores(topology, &anywhere)?;
    let mut hosts = hosts.into_iter();
    let mut workers: Vec<(usize, Box<dyn Worker>)> = Vec::new();
    for ((index, device), gpu) in with_gpu.into_iter().zip(gpus) {
        let (cores, pin) = match &device.cores {
            Cores::All => hosts.next().unwrap_or_default(),
            // A paced GPU, too, needs its own host core.
            Cores::Count(count) => {
                rank_cores.take_cores(index, *count, DeviceClock::Accelerator)?
            }
            Cores::List(list) => (find_cores(topology, list)?, topology.is_this_system()),
        };
        workers.push((index, make_gpu_worker(device, gpu, cores, pin, topology)?));
    }
    for (index, device) in of_cores {
        let worker = make_cpu_worker(device, index, &mut rank_cores, topology, blas)?;
        workers.push((index, worker));
    }
    workers.sort_by_key(|(index, _)| *index);
    // Reports, plans and files tell devices apart by name.
    let mut names = BTreeSet::new();
    for (_, worker) in &workers {
        let name = &worker.info().name;
        if !names.insert(name) {
            let reason = "two devices of this node would have this name: give each its own";
            return Err(DeviceError::parameter("name", name, reason));
        }
    }
    let workers = workers.into_iter().map(|(_, worker)| worker);
    DeviceTeam::new(workers.collect())
}

/// Returns the devices of a rank at `place` without a platform file: cores grouped by `grouping`, and these GPUs.
pub fn found_devices(
    topology: &Topology,
    place: HostPlace,
    grouping: Grouping,
    gpus: &[RankGpu],
) -> Result<RankDevices, DeviceError> {
    let addresses = bus_addresses(gpus.iter())?;
    Ok(rank_devices(topology, place, grouping, &addresses))
}

/// Makes the devices of a node without devices in the platform file. A GPU that cannot be used is noted, and its host core
/// goes to the other devices.
fn default_workers(
    place: HostPlace,
    grouping: Grouping,
    gpus: &[RankGpu],
    topology: &Arc<Topology>,
    blas: &Arc<dyn Blas>,
    notices: &mut Vec<String>,
) -> Result<Vec<Box<dyn Worker>>, DeviceError> {
    let mut usable = gpus.to_vec();
    let (groups, gpus) = loop {
        let found = found_devices(topology, place, grouping, &usable)?;
        let workers = found.gpus.into_iter().map(|host| {
            let (spec, gpu, cores) = (DeviceSpec::default(), &usable[host.gpu], vec![host.core]);
            make_gpu_worker(&spec, gpu, cores, host.pin, topology).map_err(|e| (host.gpu, e))
        });
        match workers.collect::<Result<Vec<_>, _>>() {
            Ok(workers) => break (found.groups, workers),
            Err((gpu, error)) => {
                usable.remove(gpu);
                notices.push(format!("{error}; this GPU is not used"));
            }
        }
    };
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for group in groups {
        let (cores, blas) = (group.cores, blas.clone());
        let worker = CpuWorker::new(topology.clone(), &group.name, cores, group.pin, blas)?;
        workers.push(worker.into());
    }
    workers.extend(gpus);
    Ok(workers)
}

fn make_gpu_worker(
    device: &DeviceSpec,
    gpu: &RankGpu,
    cores: Vec<CoreInfo>,
    pin: bool,
    topology: &Arc<Topology>,
) -> Result<Box<dyn Worker>, DeviceError> {
    let name = match device.name.as_str() {
        "" => &DriverGpu::try_from(&gpu.info)?.device_name(),
        name => name,
    };
    let config = CudaConfig {
        memory_limit_bytes: device.memory_limit.or(gpu.memory_part_bytes()),
        host_limit_bytes: device.host_limit.or(gpu.host_part_bytes()),
        ..CudaConfig::default()
    };
    let worker = CudaWorker::new(topology.clone(), name, &gpu.info, &cores, pin, &config)?;
    pace_worker(worker.into(), device)
}

/// Slows the worker down as the file says.
fn pace_worker(
    worker: Box<dyn Worker>,
    device: &DeviceSpec,
) -> Result<Box<dyn Worker>, DeviceError> {
    Ok(match device.pace()? {
        Some(pace) => PacedWorker::new(worker, pace)?.into(),
        None => worker,
    })
}

fn make_cpu_worker(
    device: &DeviceSpec,
    index: usize,
    rank_cores: &mut RankCores,
    topology: &Arc<Topology>,
    blas: &Arc<dyn Blas>,
) -> Result<Box<dyn Worker>, DeviceError> {
    let clock = device.clock();
    let (cores, pin) = match &device.cores {
        Cores::All => rank_cores.take_cores(index, rank_cores.left(), clock)?,
        Cores::Count(count) => rank_cores.take_cores(index, *count, clock)?,
        Cores::List(list) => (find_cores(topology, list)?, topology.is_this_system()),
    };
    let name = match device.name.as_str() {
        "" => &format!("cpu{index}"),
        name => name,
    };
    let worker = CpuWorker::new(topology.clone(), name, cores, pin, blas.clone())?;
    pace_worker(worker.into(), device)
}

fn find_cores(topology: &Topology, list: &[u32]) -> Result<Vec<CoreInfo>, DeviceError> {
    let cores = topology.cores();
    list.iter()
        .map(|&wanted| {
            cores.iter().find(|core| core.core == wanted).cloned().ok_or_else(|| {
                let n = cores.len();
                let reason = format!("this process may use {n} cores of its host, not this one");
                DeviceError::parameter("cores", wanted, reason)
            })
        })
        .collect()
}
