//! The opening of a session: each stage of a node's set-up returns facts, which the ranks of a host tell each other.

use std::path::Path;
use std::sync::Arc;

use isochron_devices::DeviceInfo;
use isochron_devices::internal::{FoundHost, Told};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::log::LineLog;
use super::models::SessionModels;
use super::{Session, SessionBuilder};
use crate::comm::{CollectiveCall, Comm, NetworkProbe, agree, launched_place, number_hosts};
use crate::error::Error;
use crate::store::libraries::{ChoosingRank, choose_library};
use crate::store::{GivenModels, JobStore, StoreMode, StorePlaces, known};

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
        comm.check_messages()?;
        let spec = settings.platform.find_node(comm)?;
        let found = FoundHost::look(spec, &settings.reserved).map_err(Error::from);
        let found = agree(comm, found)?;
        // Every thread that is started for the session keeps off the reserved cores, also those of libraries.
        let _confined = found.topology().confine_current_thread();
        for notice in found.topology().notices() {
            tracing::info!(host = comm.host(), "{notice}");
        }
        let facts = gather_on_host(comm, found.facts().clone())?;
        let part = found.share(&facts, comm.rank(), settings.host_scope, launched_place());
        let (mut part, offers) = agree(comm, part.map_err(Error::from))?;
        let offers = gather_on_host(comm, offers)?;
        let taken = part.take_gpus(offers, comm.rank());
        agree(comm, taken.map_err(Error::from))?;
        let mut notices = Vec::new();
        let places = StorePlaces::find();
        let stored = known::read_store(comm, settings.store, places, &mut notices);
        let rank = ChoosingRank::new(&part, settings.element);
        let chosen = choose_library(comm, &settings.blas, rank, stored.as_ref())?;
        notices.extend(chosen.words);
        let node = (settings.measure.validate())
            .and_then(|()| part.open(settings.grouping, &chosen.blas))
            .map_err(Error::from);
        let mut node = agree(comm, node)?;
        let busy = gather_on_host(comm, node.busy_cores())?;
        node.settle(&busy);
        notices.splice(0..0, std::mem::take(&mut node.notices));
        let store = match (settings.store, &node.host) {
            (StoreMode::Read | StoreMode::ReadWrite, Some(host)) => {
                let mine = known::describe_sources(comm, host, node.team.infos());
                let store = JobStore::open(comm, settings.store, stored, mine)?;
                Some(store.with_libraries(chosen.measured))
            }
            _ => None,
        };
        let given = match &settings.models {
            Some(folder) => load_models(comm, folder, node.team.infos())?,
            None => None,
        };
        let hosts = number_hosts(comm)?;
        let network = match settings.store {
            StoreMode::None => NetworkProbe::on(hosts),
            _ => known::recall_network(comm, store.as_ref(), hosts)?,
        };
        notices.extend(store.iter().flat_map(|store| store.words().to_vec()));
        Ok(Self {
            comm: Arc::clone(&shared),
            node,
            measure: settings.measure,
            models: SessionModels {
                store,
                network,
                given,
                are_given: settings.models.is_some(),
                blas_known: chosen.known,
            },
            observer: settings.observer,
            log: settings.log,
            notices,
        })
    }
}

/// Gathers the values of the ranks of this host.
///
/// # Collective
/// All ranks.
pub(super) fn gather_on_host<V: Serialize + DeserializeOwned>(
    comm: &dyn Comm,
    mine: V,
) -> Result<Vec<Told<V>>, Error> {
    Ok(comm
        .gather(&(comm.host().to_owned(), mine))?
        .into_iter()
        .enumerate()
        .filter(|(_, (host, _))| host == comm.host())
        .map(|(rank, (_, value))| (rank, value))
        .collect())
}

/// Reads the models that are given by hand, on the head rank.
///
/// # Errors
/// On every rank, returns [`Error::File`].
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
