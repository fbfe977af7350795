//! The hosts of a job with the devices of each rank, and a host as a number of ranks would share it.

use std::collections::BTreeMap;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::FoundDevices;
use isochron_devices::cuda::{self, CudaState};
use isochron_devices::{
    BusId, CudaInfo, DriverGpu, GpuInfo, Grouping, RankDevices, Topology, host_devices,
};
use serde::{Deserialize, Serialize};

use super::host::{CoreDevice, Driven, GpuReport, HostReport, RankReport};

/// Describes `topology` as `ranks` ranks would share it, the first numbered 0.
pub fn plan_host(topology: &Topology, group: Grouping, ranks: usize) -> HostReport {
    let survey = topology.is_this_system().then(cuda::survey);
    let seen = survey.iter().flat_map(|survey| &survey.devices);
    let mut host = HostReport::new(topology, group, join_gpus(topology, seen));
    let gpus = host.gpus.iter_mut().filter(|gpu| gpu.info.is_cuda());
    let mut gpus: Vec<&mut GpuReport> = gpus.collect();
    let addresses: Vec<BusId> = gpus.iter().map(|gpu| gpu.info.bus_id).collect();
    let devices = host_devices(topology, ranks, group, &addresses);
    for (rank, devices) in devices.into_iter().enumerate() {
        for found in &devices.gpus {
            let gpu = &mut gpus[found.gpu];
            let driver = gpu.info.driver.as_ref();
            gpu.driven = Some(Driven {
                rank,
                // A GPU without a driver here has the number that a driver would give it.
                device: driver.map_or(format!("cuda{}", found.gpu), DriverGpu::device_name),
                host_core: found.core.core,
            });
        }
        host.ranks.push(RankReport { rank, devices: core_devices(devices) });
    }
    host.cuda_finding = survey.map(|survey| survey.finding);
    host
}

/// Joins the GPUs of the topology with those that the driver has `seen`.
fn join_gpus<'a>(topology: &Topology, seen: impl Iterator<Item = &'a CudaInfo>) -> Vec<GpuInfo> {
    let known = seen.filter_map(|gpu| DriverGpu::try_from(gpu).ok());
    GpuInfo::join(topology.gpus(), known.collect())
}

fn core_devices(devices: RankDevices) -> Vec<CoreDevice> {
    devices
        .groups
        .into_iter()
        .map(|group| CoreDevice {
            name: group.name,
            kind: group.kind,
            cores: group.cores.iter().map(|core| core.core).collect(),
            pinned: group.pin,
        })
        .collect()
}

/// One rank's part of a host, as it tells the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RankShare {
    host: String,
    allowed_pus: Vec<u32>,
    devices: Vec<CoreDevice>,
    /// The GPUs that the rank sees.
    seen: Vec<CudaInfo>,
    /// The UUIDs of the GPUs that it would drive, each with its host core.
    driven: Vec<(String, u32)>,
}

impl RankShare {
    fn new(comm: &dyn Comm, topology: &Topology, survey: &CudaState, found: FoundDevices) -> Self {
        let FoundDevices { devices, gpus } = found;
        let driven = devices.gpus.iter().map(|host| (gpus[host.gpu].uuid.clone(), host.core.core));
        Self {
            host: comm.host().to_owned(),
            allowed_pus: topology.allowed_pus(),
            driven: driven.collect(),
            devices: core_devices(devices),
            seen: survey.devices.clone(),
        }
    }
}

/// Describes the hosts of the job, in the order of their first ranks. Cores and GPUs are shared out as in a
/// multiplication.
///
/// # Errors
/// Fails on every rank when any rank cannot describe its host.
///
/// # Collective
/// All ranks.
pub fn describe_hosts(comm: &dyn Comm, group: Grouping) -> Result<Vec<HostReport>, Error> {
    let topology = agree(comm, Topology::discover().map_err(Error::from))?;
    let survey = cuda::survey();
    let found = FoundDevices::find(comm, &topology, group)?;
    let here =
        comm.gather(&RankShare::new(comm, &topology, &survey, found))?.into_iter().enumerate();
    let here: Vec<_> = here.filter(|(_, share)| share.host == comm.host()).collect();
    // One rank describes the host for all that run there.
    let mine = here.first().is_some_and(|(rank, _)| *rank == comm.rank()).then(|| {
        let mut host = describe_host(topology, group, &here);
        host.cuda_finding = Some(survey.finding);
        host.look_for_blas();
        host
    });
    Ok(comm.gather(&mine)?.into_iter().flatten().collect())
}

/// Describes the host of these ranks, with the cores and the GPUs of all of them.
fn describe_host(topology: Topology, group: Grouping, ranks: &[(usize, RankShare)]) -> HostReport {
    let mut allowed: Vec<u32> = Vec::new();
    let mut seen: BTreeMap<&str, &CudaInfo> = BTreeMap::new();
    let mut driven: BTreeMap<&str, Driven> = BTreeMap::new();
    for (rank, share) in ranks {
        allowed.extend(&share.allowed_pus);
        seen.extend(share.seen.iter().map(|gpu| (gpu.uuid.as_str(), gpu)));
        for (uuid, host_core) in &share.driven {
            // A rank that is shown GPUs of its own numbers them its own way.
            let gpu = share.seen.iter().find(|gpu| gpu.uuid == *uuid);
            let gpu = gpu.and_then(|gpu| DriverGpu::try_from(gpu).ok());
            let found = Driven {
                rank: *rank,
                device: gpu.map_or(String::new(), |gpu| gpu.device_name()),
                host_core: *host_core,
            };
            driven.insert(uuid, found);
        }
    }
    let topology = topology.with_allowed_pus(&allowed);
    let mut known: Vec<&CudaInfo> = seen.into_values().collect();
    known.retain(|gpu| DriverGpu::try_from(*gpu).is_ok());
    known.sort_by_key(|gpu| (gpu.ordinal, gpu.pci_bus_id.clone()));
    let gpus = join_gpus(&topology, known.iter().copied());
    let mut host = HostReport::new(&topology, group, gpus);
    // The driver's GPUs come first, in the order given.
    for (gpu, info) in host.gpus.iter_mut().zip(known) {
        gpu.driven = driven.remove(info.uuid.as_str());
    }
    host.host = ranks.first().map(|(_, share)| share.host.clone());
    let reports = ranks
        .iter()
        .map(|(rank, share)| RankReport { rank: *rank, devices: share.devices.clone() });
    host.ranks = reports.collect();
    host
}

/// Hosts of a made-up job, for tests.
#[cfg(test)]
pub mod made_up {
    use super::*;

    /// Makes two alike hosts with two ranks each, dealt in turns, and one with two GPUs.
    pub fn make_test_hosts() -> Vec<HostReport> {
        let topology = Topology::from_synthetic("core:4 pu:2").expect("a topology");
        // Each rank is shown a GPU of its own, its number 0.
        let shares = [
            make_share("c", &[0], &[(make_gpu("0000:17:00.0"), 1)]),
            make_share("c", &[2], &[(make_gpu("0000:65:00.0"), 3)]),
        ];
        let ranks: Vec<_> = [4, 5].into_iter().zip(shares).collect();
        let unlike = describe_host(topology, Grouping::Auto, &ranks);
        vec![make_twin("a", [0, 2]), make_twin("b", [1, 3]), unlike]
    }

    fn make_share(host: &str, cores: &[u32], driven: &[(CudaInfo, u32)]) -> RankShare {
        let all_cores = cores.iter().chain(driven.iter().map(|(_, core)| core));
        RankShare {
            host: host.to_owned(),
            allowed_pus: all_cores.flat_map(|core| [2 * core, 2 * core + 1]).collect(),
            devices: vec![CoreDevice {
                name: "cpu0".to_owned(),
                kind: None,
                cores: cores.to_vec(),
                pinned: true,
            }],
            seen: driven.iter().map(|(gpu, _)| gpu.clone()).collect(),
            driven: driven.iter().map(|(gpu, core)| (gpu.uuid.clone(), *core)).collect(),
        }
    }

    fn make_twin(host: &str, ranks: [usize; 2]) -> HostReport {
        let shares = [make_share(host, &[0, 1], &[]), make_share(host, &[2, 3], &[])];
        let topology = Topology::from_synthetic("pack:2 core:2 pu:2");
        let ranks: Vec<_> = ranks.into_iter().zip(shares).collect();
        describe_host(topology.expect("a topology"), Grouping::Auto, &ranks)
    }

    fn make_gpu(bus: &str) -> CudaInfo {
        CudaInfo {
            name: "GPU model".to_owned(),
            uuid: format!("GPU-{bus}"),
            pci_bus_id: bus.to_owned(),
            memory_bytes: 1 << 34,
            ..CudaInfo::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::make_test_hosts;
    use super::*;
    use isochron_core::comm::LocalComm;

    #[test]
    fn a_host_has_the_cores_and_the_gpus_of_all_its_ranks() {
        let hosts = make_test_hosts();
        assert_eq!(hosts[0].tree.cores, [0, 1, 2, 3]);
        let devices: Vec<_> = hosts[1].devices().collect();
        assert_eq!((devices[0].0, devices[1].0), (1, 3));
        assert_eq!(devices[1].1.cores, [2, 3]);
        let driven: Vec<_> = hosts[2].gpus.iter().filter_map(|gpu| gpu.driven.as_ref()).collect();
        assert_eq!((driven[0].rank, driven[0].host_core), (4, 1));
        assert_eq!((driven[1].rank, driven[1].host_core), (5, 3));
        assert_eq!((&*driven[0].device, &*driven[1].device), ("cuda0", "cuda0"));
        assert_eq!(hosts[2].role(3), "host of rank 5 cuda0");
        assert_eq!(hosts[2].caption(), "c, ranks 4-5");
    }

    #[test]
    fn hosts_travel_as_they_are() {
        for host in make_test_hosts() {
            let text = serde_json::to_string(&host).expect("JSON");
            let read: HostReport = serde_json::from_str(&text).expect("a host");
            assert_eq!(read, host);
        }
    }

    #[test]
    fn one_process_is_one_rank_with_all_that_it_may_use() {
        let comm = LocalComm::new();
        let hosts = describe_hosts(&comm, Grouping::Node).expect("this host");
        assert_eq!(hosts.len(), 1);
        assert_eq!(hosts[0].host.as_deref(), Some(comm.host()));
        let here = Topology::discover().expect("this host");
        let devices: Vec<_> = hosts[0].devices().map(|(_, d)| d.cores.len()).collect();
        let n_driven = hosts[0].gpus.iter().filter(|g| g.driven.is_some()).count();
        assert_eq!(devices.iter().sum::<usize>() + n_driven, here.affordable_cores().len());
    }
}
