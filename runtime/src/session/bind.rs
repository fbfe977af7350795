//! A rank's place on its host, for work that is not done by devices.

use isochron_devices::internal::share_cores;
use isochron_devices::{CoreInfo, Topology};

use super::find::place_on_host;
use crate::comm::{Comm, agree};
use crate::error::Error;

/// Binds the calling thread to the first core of this rank's share of its host, and returns that core. It is `None`, and
/// nothing is bound, if the host has fewer cores than ranks or a CPU quota leaves only some of the cores.
///
/// Threads and processes that this thread starts are bound as well.
///
/// # Errors
/// Fails on every rank when any rank fails: [`Error::Device`] if the cores are not known or the system refuses.
///
/// # Collective
/// All ranks.
pub fn bind_rank(comm: &dyn Comm) -> Result<Option<CoreInfo>, Error> {
    let topology = agree(comm, Topology::discover().map_err(Error::from))?;
    let place = place_on_host(comm, &topology)?;
    let cores = topology.affordable_cores();
    let core = (cores.len() >= place.count && topology.should_pin())
        .then(|| share_cores(&cores, place.count).swap_remove(place.index))
        .and_then(|share| share.into_iter().next());
    let bound = core.as_ref().map(|core| topology.bind_current_thread(core));
    agree(comm, bound.unwrap_or(Ok(())).map_err(Error::from))?;
    Ok(core)
}
