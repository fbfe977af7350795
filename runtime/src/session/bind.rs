//! A rank's place on its host, for work that is not done by devices.

use isochron_devices::internal::kernel_core;
use isochron_devices::{CoreInfo, Topology};

use super::find::place_on_host;
use crate::comm::{Comm, agree};
use crate::error::Error;

/// Binds the calling thread to this rank's [core for kernels](kernel_core), and returns that core. Nothing is bound if there is
/// none.
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
    let core = kernel_core(&topology, place);
    let bound = core.as_ref().map(|core| topology.bind_current_thread(core));
    agree(comm, bound.unwrap_or(Ok(())).map_err(Error::from))?;
    Ok(core)
}
