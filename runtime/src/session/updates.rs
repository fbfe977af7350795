//! Measurements of updates that the command makes with the devices of a session.

use std::sync::Arc;

use isochron_devices::measure::UpdateOperands;
use isochron_devices::{Depth, JobShape, Scalar};
use isochron_hierarchy::times::Series;

use super::Session;
use crate::comm::CollectiveCall;
use crate::error::Error;
use crate::plan::host_memory::prepare_operands;
use crate::store::KeyedWork;

/// Writes the operands of updates of `rows × slices[i]` that all ranks are about to measure, if every host has room.
///
/// # Errors
/// On every rank: [`Error::Memory`] for the host that lacks most, [`Error::Device`] for slices that do not fit the team.
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
    let job = JobShape::of::<T>((rows, slices.iter().sum()), depth);
    prepare_operands(comm.as_ref(), session.team(), operands, &job, slices)
}

/// Keeps the repetitions of a measured size of each of this rank's devices, for
/// [`save_models`](Session::save_models); `None` for a device that did not show them.
///
/// # Errors
/// [`Error::Unreadable`] on every rank.
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
