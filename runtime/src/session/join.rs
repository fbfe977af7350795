//! The opening of a session: each stage of a node's set-up returns facts, which the ranks of a host tell each other.

use std::path::Path;
use std::sync::Arc;

use isochron_devices::internal::{
    HeatSensors, HostScope, HostShare, Load, NodeSpec, RankGpu, assign_gpus, list_busy_cores,
    make_team, offer_gpus, reserve_cores,
};
use isochron_devices::{DeviceInfo, Topology};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::log::LineLog;
use super::models::SessionModels;
use super::node::SessionNode;
use super::{Session, SessionBuilder};
use crate::comm::{CollectiveCall, Comm, LinkLadder, agree, launched_place};
use crate::error::Error;
use crate::store::libraries::{ChoosingRank, choose_library};
use crate::store::{GivenModels, JobStore, SegmentCopier, StoreMode, StorePlaces, known};

impl Session {
    /// Opens a session with these settings.
    pub(super) fn build(settings: SessionBuilder, comm: Arc<dyn Comm>) -> Result<Self, Error> {
        let _log = settings.log.as_ref().map(LineLog::begin);
        let span = tracing::info_span!("discover", rank = comm.rank());
        let _entered = span.enter();
        let shared = comm;
        let comm = shared.as_ref();
        let _call = CollectiveCall::new(comm, "opening a session")
            .with_settings(settings.describe())
            .enter()?;
        let node = settings.platform.find_node(comm)?;
        let topology = find_topology(comm, &settings.reserved)?;
        // Every thread that is started for the session keeps off the reserved cores, also those of libraries.
        let _confined = topology.confine_current_thread();
        let mut notices = topology.notices();
        for notice in &notices {
            tracing::info!(host = comm.host(), "{notice}");
        }
        let scope = settings.host_scope;
        let place = place_on_host(comm, &topology, scope)?;
        let (share, topology, place) = HostShare::take(topology, place, scope, &mut notices);
        let gpus = share_gpus(comm, &topology, &node, scope, &mut notices)?;
        let places = StorePlaces::find();
        let stored = known::read_store(comm, settings.store, places, &mut notices);
        let rank = ChoosingRank::new(&topology, place, settings.element);
        let from = (settings.store, stored.as_ref());
        let chosen = choose_library(comm, &settings.blas, rank, from)?;
        notices.extend(chosen.words);
        let grouping = settings.grouping.or(node.grouping()).unwrap_or_default();
        let made = settings.measure.validate().and_then(|()| {
            let blas = &chosen.blas;
            make_team(&node, place, grouping, &gpus, &topology, blas, &mut notices)
        });
        let mut team = agree(comm, made.map_err(Error::from))?;
        let uuids = gpus.iter().map(|gpu| gpu.info.uuid.clone());
        share.keep(team.infos(), uuids);
        let (load, threads) = find_load(comm, &topology, team.infos())?;
        team.set_share_of_time(load.share);
        let devices = (team.infos(), &gpus[..]);
        let store = match settings.store {
            StoreMode::None => None,
            _ => JobStore::take(comm, stored, &topology, &node, devices)?,
        };
        let store = store.map(|store| store.with_libraries(chosen.measured));
        let copier = SegmentCopier::new(comm, settings.store)?;
        let given = match &settings.models {
            Some(folder) => load_models(comm, folder, team.infos())?,
            None => None,
        };
        let links = match settings.store {
            StoreMode::None => LinkLadder::default(),
            _ => known::recall_links(comm, store.as_ref())?,
        };
        notices.extend(store.iter().flat_map(|store| store.words().to_vec()));
        Ok(Self {
            comm: Arc::clone(&shared),
            node: SessionNode {
                name: node.name().to_owned(),
                blas_known: chosen.known,
                load,
                threads,
                heat: find_sensors(&topology, team.infos(), &gpus),
                team,
                _share: Some(share),
            },
            measure: settings.measure,
            models: SessionModels {
                store,
                copier,
                links,
                given,
                are_given: settings.models.is_some(),
            },
            observer: settings.observer,
            log: settings.log,
            notices,
        })
    }
}

/// Reads this host's hardware, without the reserved cores.
///
/// # Errors
/// On every rank: [`Error::Device`], and [`Error::Parameter`] for reserved cores that are not there or differ between the
/// ranks of a host.
///
/// # Collective
/// All ranks.
fn find_topology(comm: &dyn Comm, reserved: &[u32]) -> Result<Arc<Topology>, Error> {
    let left = Topology::discover()
        .and_then(|topology| reserve_cores(topology, reserved))
        .map_err(Error::from);
    let topology = agree(comm, left)?;
    let unlike = gather_on_host(comm, reserved.to_vec())?
        .into_iter()
        .map(|(_, cores)| cores)
        .find(|cores| cores != reserved);
    let checked = unlike.map_or(Ok(()), |other| Err(refuse_unlike(reserved, &other)));
    agree(comm, checked)?;
    Ok(Arc::new(topology))
}

fn refuse_unlike(mine: &[u32], other: &[u32]) -> Error {
    let reason = format!("another rank of this host reserves {other:?}: all reserve the same");
    Error::parameter("reserved cores", format!("{mine:?}"), reason)
}

/// Gathers the values of the ranks of this host, each with its rank.
///
/// # Collective
/// All ranks.
fn gather_on_host<V: Serialize + DeserializeOwned>(
    comm: &dyn Comm,
    mine: V,
) -> Result<Vec<(usize, V)>, Error> {
    Ok(comm
        .gather(&(comm.host().to_owned(), mine))?
        .into_iter()
        .enumerate()
        .filter(|(_, (host, _))| host == comm.host())
        .map(|(rank, (_, value))| (rank, value))
        .collect())
}

/// Assigns the GPUs of each rank, as [`assign_gpus`] does. Unusual findings are added to `notices`.
///
/// # Errors
/// On every rank: as [`assign_gpus`] on the rank with the wish.
///
/// # Collective
/// All ranks.
pub(super) fn share_gpus(
    comm: &dyn Comm,
    topology: &Topology,
    node: &NodeSpec,
    scope: HostScope,
    notices: &mut Vec<String>,
) -> Result<Vec<RankGpu>, Error> {
    let (found, offers) = offer_gpus(topology, node, scope, launched_place(), notices);
    let ranks = gather_on_host(comm, offers)?;
    let assigned = assign_gpus(&found, ranks, comm.rank(), notices);
    agree(comm, assigned.map_err(Error::from))
}

/// Finds the load of this rank's host, and the number of threads with which each of its ranks computes.
///
/// # Errors
/// [`Error::Unreadable`] on every rank.
///
/// # Collective
/// All ranks, each with its devices.
fn find_load(
    comm: &dyn Comm,
    topology: &Topology,
    devices: &[DeviceInfo],
) -> Result<(Load, Vec<usize>), Error> {
    let mine = (topology.allowed_pus(), list_busy_cores(devices));
    let host = gather_on_host(comm, mine.clone())?;
    let threads: Vec<usize> = host.iter().map(|(_, (_, cores))| cores.len()).collect();
    let sharing: Vec<u32> = host
        .iter()
        .filter(|(_, (units, _))| *units == mine.0)
        .flat_map(|(_, (_, cores))| cores)
        .copied()
        .collect();
    let load = Load::find(topology, &mine.1, &sharing, &threads);
    Ok((load, threads))
}

/// Finds the sensors of this rank's devices, which drive these GPUs.
fn find_sensors(topology: &Topology, devices: &[DeviceInfo], gpus: &[RankGpu]) -> HeatSensors {
    let devices = devices.iter().map(|device| {
        let mut gpus = gpus.iter().map(|gpu| &gpu.info);
        let gpu = gpus.find(|gpu| device.bus_id.as_ref() == Some(&gpu.pci_bus_id));
        (device, gpu.map(|gpu| gpu.uuid.as_str()))
    });
    HeatSensors::find(topology, &devices.collect::<Vec<_>>())
}
/// Reads the models that are given by hand, on the head rank.
///
/// # Errors
/// On every rank: [`Error::File`].
///
/// # Collective
/// All ranks, each with its devices.
fn load_models(
    comm: &dyn Comm,
    folder: &Path,
    devices: &[DeviceInfo],
) -> Result<Option<GivenModels>, Error> {
    let mine: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    let ranks = comm.gather(&mine)?;
    let given = (comm.rank() == 0).then(|| GivenModels::load(folder, &ranks));
    agree(comm, given.transpose())
}
/// Returns this rank's index among the ranks of its host that may use the same processing units, and their number. The ranks
/// of other communicators count as well, as far as the launcher tells of them, unless the scope leaves them out.
///
/// # Collective
/// All ranks.
pub(super) fn place_on_host(
    comm: &dyn Comm,
    topology: &Topology,
    scope: HostScope,
) -> Result<(usize, usize), Error> {
    let mine = topology.allowed_pus();
    // A rank that the launcher has bound to its own cores shares with no other.
    let all: Vec<usize> = gather_on_host(comm, mine.clone())?
        .into_iter()
        .filter(|(_, units)| *units == mine)
        .map(|(rank, _)| rank)
        .collect();
    let among_all = launched_place()
        .filter(|_| scope == HostScope::World)
        .map(|place| topology.place_among(place));
    let here = (all.partition_point(|&rank| rank < comm.rank()), all.len());
    Ok(among_all.filter(|place| place.1 > here.1).unwrap_or(here))
}
