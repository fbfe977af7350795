//! Measurements of updates that the command makes with the devices of a session, and what is known of these devices.

use std::sync::Arc;

use isochron_devices::internal::Load;
use isochron_devices::measure::UpdateOperands;
use isochron_devices::{Depth, JobShape, Scalar};
use isochron_hierarchy::times::Series;

use super::Session;
use crate::comm::CollectiveCall;
use crate::error::Error;
use crate::plan::host_memory::prepare_operands;
use crate::store::known::describe_sources;
use crate::store::{KeySource, KeyedWork, KnownModel};

/// Writes the operands of updates of `rows × slices[i]` that all ranks are about to measure, if every host has room.
///
/// # Errors
/// On every rank, returns [`Error::Memory`] for the host that lacks most, [`Error::Device`] for slices that do not fit
/// the team.
///
/// # Collective
/// All ranks, each with its own slices.
pub fn prepare_updates<T: Scalar>(
    session: &mut Session,
    operands: &mut UpdateOperands<T>,
    rows: usize,
    slices: &[usize],
    depth: Depth,
) -> Result<(), Error> {
    let comm = Arc::clone(&session.comm);
    let _call = CollectiveCall::new(comm.as_ref(), "preparing updates")
        .with("element", &T::TYPE)
        .enter()?;
    let job = JobShape::of::<T>(rows, slices.iter().sum(), depth);
    prepare_operands(comm.as_ref(), session.team(), operands, &job, slices)
}

/// Keeps the repetitions of a measured size of each of this rank's devices, for
/// [`save_models`](Session::save_models); `None` for a device that did not show them.
///
/// # Errors
/// Returns [`Error::Unreadable`] on every rank.
///
/// # Collective
/// All ranks.
pub fn keep_samples(
    session: &mut Session,
    work: KeyedWork,
    samples: &[Option<Series>],
) -> Result<(), Error> {
    let samples = session.comm.gather(&samples.to_vec())?;
    if let Some(store) = &mut session.models.store {
        store.keep_series(work, samples.concat());
    }
    Ok(())
}

/// Describes this rank's devices with their models and the state of their host; nothing for devices that were made by others.
pub fn describe_devices(session: &Session) -> Vec<KeySource> {
    let host = session.node.host.as_ref();
    host.map_or_else(Vec::new, |host| {
        describe_sources(session.comm.as_ref(), host, session.devices())
    })
}

/// Finds the stored times of the job's devices for this work, each on its own host: on the head rank, by device in the order of
/// the ranks; nothing on the others, and without a store.
pub fn find_histories(session: &Session, work: KeyedWork) -> Vec<Option<KnownModel>> {
    let store = session.models.store.as_ref();
    store.map_or_else(Vec::new, |store| store.find_histories(work))
}

/// Lets measured times be those of a long run in which `device` alone computes on this host, or all devices for `None`.
pub fn expect_alone(session: &mut Session, device: Option<usize>) {
    let node = &mut session.node;
    let share = match (device, &node.host) {
        (Some(device), Some(host)) => {
            let info = &node.team.infos()[device];
            let busy: &[u32] = if info.clock.keeps_cores_busy() { &info.cores } else { &[] };
            Load::find(&host.topology, busy, busy, &[busy.len()]).share
        }
        _ => node.load.share,
    };
    node.team.set_share_of_time(share);
}
