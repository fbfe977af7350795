//! The timeline of a run, as a trace for Perfetto (`--trace`).
//!
//! [`recorder`] keeps what this rank does, which it learns as an [`Observer`](isochron_core::progress::Observer) of the
//! session. [`clocks`] compares the clocks of the hosts. At the end [`events`] makes the
//! tracks, slices, flows and counters of each rank, and [`gather`] brings them into the file of the head rank.

mod clocks;
mod events;
mod gather;
mod recorder;

use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::output::PartialFile;
use isochron_core::internal::watch::RankPhase;

use crate::lines::count;
use crate::output::{create_file, note};
use clocks::{ClockReading, RankClock, compare_clocks};
use events::RecordedRank;
use gather::gather_events;
use recorder::MOST_EVENTS;
pub use recorder::Recorder;

/// A trace that is recorded.
pub struct RunTrace {
    recorder: Rc<Recorder>,
    /// On the head rank.
    file: Option<PartialFile>,
    /// The hosts of the ranks.
    hosts: Vec<String>,
    /// The clock of this rank's host at the beginning.
    first: ClockReading,
}

impl RunTrace {
    /// Begins to record a process that began at `start`, and creates the file, if a trace is wanted.
    ///
    /// # Errors
    /// On every rank, returns the errors of the file, and of messages.
    ///
    /// # Collective
    /// All ranks, with the same path.
    pub fn begin(
        comm: &dyn Comm,
        path: Option<&Path>,
        start: Instant,
    ) -> Result<Option<Self>, Error> {
        if path.is_none() {
            return Ok(None);
        }
        let file = create_file(path.filter(|_| comm.rank() == 0));
        let file = agree(comm, file)?;
        let hosts = comm.gather(&comm.host().to_owned())?;
        let phase = RankPhase::Start.describe();
        Ok(Some(Self {
            recorder: Rc::new(Recorder::started_at(start, phase)),
            file,
            first: compare_clocks(comm, &hosts)?,
            hosts,
        }))
    }

    /// Returns the recorder of this rank.
    pub fn recorder(&self) -> &Rc<Recorder> {
        &self.recorder
    }

    /// Ends the recording, and writes the events of all ranks.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Output`] if the file cannot be written; the errors of messages.
    ///
    /// # Collective
    /// All ranks.
    pub fn finish(self, comm: &dyn Comm) -> Result<(), Error> {
        let recording = self.recorder.finish();
        let rank = comm.rank();
        let mine = RecordedRank {
            rank,
            host: &self.hosts[rank],
            clock: RankClock { first: self.first, last: compare_clocks(comm, &self.hosts)? },
            recording: &recording,
        };
        gather_events(comm, self.file, &mine)?;
        let dropped = comm.gather(&recording.dropped)?;
        if rank == 0 {
            note_dropped(&dropped);
        }
        Ok(())
    }
}

/// Says on standard error which ranks have dropped events.
fn note_dropped(dropped: &[u64]) {
    let ranks = dropped.iter().filter(|&&dropped| dropped > 0).count();
    if ranks > 0 {
        let events = count(dropped.iter().sum(), "event");
        let ranks = count(ranks as u64, "rank");
        note(&format!("the trace lacks the last {events} of {ranks}: a rank keeps {MOST_EVENTS}"));
    }
}
