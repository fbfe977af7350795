//! The models of a session: given by hand, or of the model store.

use std::sync::Arc;

use isochron_hierarchy::network::Network;

use super::Session;
use crate::comm::{CollectiveCall, NetworkProbe};
use crate::error::Error;
use crate::plan::{KnownFrom, Problem};
use crate::store::{GivenModels, JobStore, KeySource, KnownTimes};

/// The models of a session.
#[derive(Default)]
pub(crate) struct SessionModels {
    /// The model store, on all ranks; `None` if it is not used.
    pub store: Option<JobStore<KeySource>>,
    /// The network between ranks, as far as it is known.
    pub network: NetworkProbe,
    /// The models given by hand, on the head rank.
    pub given: Option<GivenModels>,
    /// `true`, on all ranks, if models are given by hand.
    pub are_given: bool,
    /// The origin of the choice of this rank's BLAS; `None` if it was named.
    pub blas_known: Option<KnownFrom>,
}

/// Gives a session the times of exchanges with both neighbours, in bytes and seconds, and measurements that the passing time does not
/// end: for tests, in which made-up times alone decide.
pub fn make_up_times(session: &mut Session, messages: &[(usize, f64)]) {
    if let [(_, first_s), .., (bytes, last_s)] = *messages {
        let network = Network::flat(first_s, 2.0 * bytes as f64 / (last_s - first_s));
        session.models.network = std::mem::take(&mut session.models.network).given(network);
    }
    session.measure.max_seconds = f64::INFINITY;
}

/// Measures the network between the ranks of a session as precisely as the longest run is worth, for at most about a second, and
/// keeps it in the model store. A network that the store knows is checked by messages.
///
/// # Errors
/// Returns the errors of [`Comm`](crate::comm::Comm).
///
/// # Collective
/// All ranks.
pub fn measure_session_network(session: &mut Session) -> Result<(), Error> {
    let comm = session.comm.as_ref();
    let SessionModels { network, store, .. } = &mut session.models;
    network.find_hosts(comm)?;
    network.measure(comm, f64::INFINITY)?;
    if let Some(store) = store {
        store.keep_network(comm.implementation(), network);
    }
    Ok(())
}

impl Session {
    /// Finds the knowledge of each rank's devices, on the head rank; empty without any. Notes unusual findings.
    pub(super) fn find_known(
        &mut self,
        problem: &Problem,
        width: usize,
    ) -> Result<Vec<Vec<KnownTimes>>, Error> {
        if let Some(given) = &self.models.given {
            return given.find_devices(problem.element(), width);
        }
        let Some(store) = &self.models.store else {
            return Ok(Vec::new());
        };
        let (known, words) = store.find_devices(problem, width);
        self.notices.extend(words);
        Ok(known)
    }

    /// Writes the times of this session's multiplications to the model store, if it is used and they learnt. A later call
    /// replaces the file of an earlier one, so that a session counts as one run.
    ///
    /// The head rank writes. Then one rank of each other host adds the same file to the store of its host, unless that
    /// store has it because it is shared. A host that cannot keep them is no error of the job: it becomes a notice of the
    /// head rank.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] if not all ranks call it, and the errors of
    /// [`Comm`](crate::comm::Comm).
    ///
    /// # Collective
    /// All ranks.
    pub fn save_models(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.comm);
        let comm = shared.as_ref();
        let _call = CollectiveCall::new(comm, "saving models").enter()?;
        if let Some(store) = &mut self.models.store {
            store.save(comm)?.into_iter().for_each(|reason| self.note_once(reason));
        }
        Ok(())
    }
}
