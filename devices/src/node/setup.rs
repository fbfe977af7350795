//! The set-up of a rank's node in stages. Each returns facts, which the ranks of a host tell each other, and the next one takes
//! those of all of them: no stage knows messages.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::gpus::{GpuOffers, assign_gpus, offer_gpus};
use super::grouping::Grouping;
use super::heat::HeatSensors;
use super::host_share::{HostScope, HostShare};
use super::load::{Load, list_busy_cores};
use super::rank_gpu::RankGpu;
use super::reserve::reserve_cores;
use super::share::share_cores;
use super::spec::{Cores, NodeSpec};
use super::workers::make_team;
use crate::contract::{Blas, DeviceError, DeviceKind};
use crate::cuda::CudaInfo;
use crate::host::topology::{HostPlace, Topology};
use crate::team::DeviceTeam;

/// A rank and what it tells the other ranks of its host.
pub type Told<F> = (usize, F);

/// The facts by which ranks share their host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Cores that the rank leaves to the program around it.
    reserved: Vec<u32>,
    /// Processing units that it may use.
    units: Vec<u32>,
}

impl HostFacts {
    /// Describes a rank that has left these cores of the host to the program around it.
    pub fn new(topology: &Topology, reserved: &[u32]) -> Self {
        Self { reserved: reserved.to_vec(), units: topology.allowed_pus() }
    }

    /// Returns the place of `rank`, which has these facts, among the ranks of its host that may use the same processing units.
    ///
    /// The processes that the launcher has started on the host count as well, as far as it tells of them: `launched` is the
    /// place of this one among them.
    pub fn find_place(
        &self,
        topology: &Topology,
        host: &[Told<Self>],
        rank: usize,
        launched: Option<HostPlace>,
    ) -> HostPlace {
        // A rank that the launcher has bound to its own cores shares with no other.
        let sharing: Vec<usize> = host
            .iter()
            .filter(|(_, other)| other.units == self.units)
            .map(|&(rank, _)| rank)
            .collect();
        let here = HostPlace {
            index: sharing.partition_point(|&other| other < rank),
            count: sharing.len(),
        };
        launched
            .map(|place| topology.place_among(place))
            .filter(|place| place.count > here.count)
            .unwrap_or(here)
    }
}

/// A host that was looked at.
pub struct FoundHost {
    spec: NodeSpec,
    topology: Arc<Topology>,
    facts: HostFacts,
}

impl FoundHost {
    /// Reads the host's hardware, without the reserved cores.
    ///
    /// # Errors
    /// Returns [`DeviceError::Parameter`] for reserved cores that are not there; the errors of hwloc.
    pub fn look(spec: NodeSpec, reserved: &[u32]) -> Result<Self, DeviceError> {
        let topology = Arc::new(reserve_cores(Topology::discover()?, reserved)?);
        Ok(Self { facts: HostFacts::new(&topology, reserved), spec, topology })
    }

    /// The facts that the other ranks of the host need.
    pub fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// The hardware.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Takes this rank's share of the cores, and returns the GPUs that it could drive. `launched` is its place among the
    /// processes that its launcher has started on the host.
    ///
    /// # Errors
    /// Returns [`DeviceError::Parameter`] if another rank of the host reserves other cores.
    pub fn share(
        self,
        host: &[Told<HostFacts>],
        rank: usize,
        scope: HostScope,
        launched: Option<HostPlace>,
    ) -> Result<(SharedHost, GpuOffers), DeviceError> {
        let reserved = &self.facts.reserved;
        if let Some((_, other)) = host.iter().find(|(_, other)| other.reserved != *reserved) {
            let reason = format!(
                "another rank of this host reserves {:?}: all reserve the same",
                other.reserved
            );
            let mine = format!("{reserved:?}");
            return Err(DeviceError::parameter("reserved cores", mine, reason));
        }
        let launched = launched.filter(|_| scope == HostScope::World);
        let place = (self.facts).find_place(&self.topology, host, rank, launched);
        let mut notices = self.topology.notices();
        let (share, topology, place) = HostShare::take(self.topology, place, scope, &mut notices);
        let (visible, offers) = offer_gpus(&topology, &self.spec, scope, launched, &mut notices);
        let shared = SharedHost {
            spec: self.spec,
            topology,
            share,
            place,
            visible,
            gpus: Vec::new(),
            notices,
        };
        Ok((shared, offers))
    }
}

/// A rank's share of its host.
pub struct SharedHost {
    spec: NodeSpec,
    topology: Arc<Topology>,
    share: HostShare,
    place: HostPlace,
    visible: Vec<CudaInfo>,
    gpus: Vec<RankGpu>,
    notices: Vec<String>,
}

impl SharedHost {
    /// Takes this rank's GPUs, as [`assign_gpus`] assigns them.
    ///
    /// # Errors
    /// On the rank with the wish, returns [`DeviceError::Parameter`] for a GPU that is not there or belongs to another
    /// device, and the driver's error if a file names one and the driver fails. The other ranks get no GPU then.
    pub fn take_gpus(
        &mut self,
        host: Vec<Told<GpuOffers>>,
        rank: usize,
    ) -> Result<(), DeviceError> {
        self.gpus = assign_gpus(&self.visible, host, rank, &mut self.notices)?;
        Ok(())
    }

    /// The hardware that this rank may use.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the number of this rank's cores, and of the threads with which its devices multiply: those of the platform file
    /// may be more.
    pub fn count_cores(&self) -> (usize, usize) {
        let HostPlace { index, count } = self.place;
        let shares = share_cores(&self.topology.affordable_cores(), count);
        let cores = shares.get(index).map_or(0, Vec::len);
        let devices = self.spec.devices.iter();
        let named = devices.map(|device| match (&device.cores, device.kind) {
            (_, DeviceKind::Cuda) => 0,
            (Cores::All, _) => cores,
            (Cores::Count(count), _) => *count,
            (Cores::List(list), _) => list.len(),
        });
        (cores, cores.max(named.sum()))
    }

    /// Makes the devices of the platform file; a node without devices there gets groups of its cores by `grouping`, or by the
    /// file's own rule.
    ///
    /// # Errors
    /// Returns errors of hardware that cannot be found or bound; [`DeviceError::Parameter`] if a device names cores
    /// that are not there.
    pub fn open(
        mut self,
        grouping: Option<Grouping>,
        blas: &Arc<dyn Blas>,
    ) -> Result<RankNode, DeviceError> {
        let grouping = grouping.or(self.spec.grouping()).unwrap_or_default();
        let team = make_team(
            &self.spec,
            self.place,
            grouping,
            &self.gpus,
            &self.topology,
            blas,
            &mut self.notices,
        )?;
        let uuids = self.gpus.iter().map(|gpu| gpu.info.uuid.clone());
        self.share.keep(team.infos(), uuids);
        Ok(RankNode {
            heat: find_sensors(&self.topology, &team, &self.gpus),
            team,
            host: Some(RankHost {
                spec: self.spec,
                topology: self.topology,
                place: self.place,
                gpus: self.gpus,
                _share: self.share,
            }),
            load: Load::NONE,
            threads: Vec::new(),
            notices: self.notices,
        })
    }
}

/// Finds the sensors of a rank's devices, which drive these GPUs.
fn find_sensors(topology: &Topology, team: &DeviceTeam, gpus: &[RankGpu]) -> HeatSensors {
    let devices = team.infos().iter().map(|device| {
        let gpu = gpus
            .iter()
            .map(|gpu| &gpu.info)
            .find(|gpu| device.bus_id.as_ref() == Some(&gpu.pci_bus_id));
        (device, gpu.map(|gpu| gpu.uuid.as_str()))
    });
    HeatSensors::find(topology, &devices.collect::<Vec<_>>())
}

/// The cores on which a rank's devices compute all the time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BusyCores {
    /// Processing units that the rank may use.
    units: Vec<u32>,
    /// Numbers of the cores, once for each thread.
    cores: Vec<u32>,
}

/// A rank's part of its host.
pub struct RankHost {
    /// The node in the platform file; without one, a node without a name and devices.
    pub spec: NodeSpec,
    /// The hardware that the rank may use.
    pub topology: Arc<Topology>,
    /// Its place among the ranks that share this hardware.
    pub place: HostPlace,
    /// The GPUs that it drives.
    pub gpus: Vec<RankGpu>,
    /// Its claim on the cores and GPUs among the sessions of its process.
    _share: HostShare,
}

/// A rank's devices, and what is known of its host.
pub struct RankNode {
    /// The devices at work.
    pub team: DeviceTeam,
    /// The contention for the host's cores.
    pub load: Load,
    /// Number of threads with which each rank of this host computes.
    pub threads: Vec<usize>,
    /// The sensors of the devices.
    pub heat: HeatSensors,
    /// Unusual findings, one line each.
    pub notices: Vec<String>,
    /// The host; `None` if the devices were made by others. It is dropped last: devices have its cores and GPUs until they are
    /// dropped.
    pub host: Option<RankHost>,
}

impl RankNode {
    /// Takes devices that are made already, with cores of their own. Nothing else is known of the host.
    pub fn of_team(team: DeviceTeam) -> Self {
        Self {
            threads: vec![list_busy_cores(team.infos()).len()],
            team,
            load: Load::NONE,
            heat: HeatSensors::default(),
            notices: Vec::new(),
            host: None,
        }
    }

    /// The name of the node in the platform file; empty without one.
    pub fn name(&self) -> &str {
        self.host.as_ref().map_or("", |host| host.spec.name())
    }

    /// The cores that the other ranks of the host need to know of.
    pub fn busy_cores(&self) -> BusyCores {
        let units = self.host.as_ref().map(|host| host.topology.allowed_pus());
        BusyCores { units: units.unwrap_or_default(), cores: list_busy_cores(self.team.infos()) }
    }

    /// Finds the load of this rank's host from the cores of all its ranks. The devices' measured times are from now on those of
    /// a long run under this load.
    pub fn settle(&mut self, host: &[Told<BusyCores>]) {
        let Some(here) = &self.host else {
            return;
        };
        let mine = self.busy_cores();
        let sharing: Vec<u32> = host
            .iter()
            .filter(|(_, other)| other.units == mine.units)
            .flat_map(|(_, other)| &other.cores)
            .copied()
            .collect();
        self.threads = host.iter().map(|(_, other)| other.cores.len()).collect();
        self.load = Load::find(&here.topology, &mine.cores, &sharing, &self.threads);
        self.team.set_share_of_time(self.load.share);
    }
}
