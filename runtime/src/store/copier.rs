//! Copies of a job's segment in the stores of all its hosts.
//!
//! The head rank writes what the job has learnt. If the store lies on a disk of the head's host, jobs whose head rank runs on
//! another host would not find it. So one rank of each other host looks for the segment in its own store, and adds it there
//! if it is missing. Hosts with one folder find it, and that folder has one file.

use crate::comm::Comm;
use crate::error::Error;
use crate::store::{SegmentFile, StoreFolder, StoreMode, StorePlaces};

/// This rank's part in copying segments.
#[derive(Debug, Default)]
pub(crate) struct SegmentCopier {
    /// `true`, on all ranks, if segments are written and there are several hosts.
    is_needed: bool,
    /// `true` if this rank looks after the store of its host.
    has_store: bool,
}

impl SegmentCopier {
    /// Chooses the ranks that copy segments: the first of each host but the head rank's.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with the same `mode`.
    pub(crate) fn new(comm: &dyn Comm, mode: StoreMode) -> Result<Self, Error> {
        let mut hosts = Vec::new();
        if mode == StoreMode::ReadWrite {
            hosts = comm.gather(&comm.host().to_owned())?;
        }
        let first = hosts.iter().position(|host| host == comm.host());
        let is_first = first == Some(comm.rank());
        Ok(Self {
            is_needed: hosts.iter().any(|host| *host != hosts[0]),
            has_store: is_first && comm.rank() > 0,
        })
    }

    /// Adds the segment that the head rank has written, if it has, to the stores of the other hosts that lack it. Returns
    /// the reasons of hosts that cannot keep it, one line each.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks; `written` is that of the head rank.
    pub(crate) fn copy(
        &self,
        comm: &dyn Comm,
        written: Option<SegmentFile>,
    ) -> Result<Vec<String>, Error> {
        if !self.is_needed {
            return Ok(Vec::new());
        }
        let Some(segment) = comm.share(0, Some(written))? else {
            return Ok(Vec::new());
        };
        let reason = if self.has_store { keep_segment(&segment).err() } else { None };
        let reasons = comm.gather(&reason.map(|reason| (comm.host().to_owned(), reason)))?;
        Ok(reasons
            .into_iter()
            .flatten()
            .map(|(host, reason)| format!("models are not kept on {host}: {reason}"))
            .collect())
    }
}

/// Adds a segment to the store of this host, if it lacks it; the error is the reason.
fn keep_segment(segment: &SegmentFile) -> Result<(), String> {
    let places = StorePlaces::find()
        .map_err(|reason| format!("it has no folder for the model store: {reason}"))?;
    let folder = StoreFolder::new(places.user, true);
    let copied = folder.copy_segment(segment).map_err(|error| error.to_string())?;
    tracing::debug!(copied, folder = %folder.root().display(), "the segment is in this host's store");
    Ok(())
}
