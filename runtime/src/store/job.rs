//! The model store of a job: reads known times and keeps new ones.
//!
//! The head rank alone reads and writes; it has the times of all ranks at the end. It writes one new segment a job, and a
//! rank of each other host adds it to a store that lies on that host's own disk ([`SegmentCopier`]). One reader and one file
//! spare the file system of a large job most.

use isochron_hierarchy::times::Series;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::copier::SegmentCopier;
use super::key::{Keyed, StoreKey, make_keys};
use super::{ModelStore, StoreMode};
use crate::comm::Comm;
use crate::error::Error;

/// The store of a job in which each rank times some sources: devices, or a kernel.
#[derive(Debug)]
pub struct JobStore<S> {
    /// The models that were read, on the head rank.
    pub(super) store: Option<ModelStore>,
    /// The sources of every rank; empty if the store is not used.
    pub(super) sources: Vec<Vec<S>>,
    pub(super) copier: SegmentCopier,
}

impl<S: Keyed> JobStore<S> {
    /// Opens the store that the head rank has read, for the sources of all ranks.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with the same `mode`.
    pub(crate) fn open(
        comm: &dyn Comm,
        mode: StoreMode,
        store: Option<ModelStore>,
        mine: Vec<S>,
    ) -> Result<Self, Error>
    where
        S: Serialize + DeserializeOwned,
    {
        let sources = match mode {
            StoreMode::None => Vec::new(),
            StoreMode::Read | StoreMode::ReadWrite => comm.gather(&mine)?,
        };
        Ok(Self { store, sources, copier: SegmentCopier::new(comm, mode)? })
    }

    /// Returns the unusual findings of reading, one line each.
    pub(crate) fn words(&self) -> &[String] {
        self.store.as_ref().map_or(&[], ModelStore::words)
    }

    /// Returns all sources, in the order of the ranks.
    pub(super) fn list_sources(&self) -> impl Iterator<Item = &S> {
        self.sources.iter().flatten()
    }

    /// Makes the key of every source.
    pub(super) fn make_keys(&self, work: S::Work) -> Vec<StoreKey> {
        make_keys(&self.list_sources().collect::<Vec<_>>(), work)
    }

    /// Returns `true` if a source of another host has the key of this one; `keys` are those of all sources.
    pub(super) fn has_twin(&self, source: &S, key: &StoreKey, keys: &[StoreKey]) -> bool {
        let mut others = self.list_sources().zip(keys);
        others.any(|(other, of_other)| of_other == key && other.place() != source.place())
    }

    /// Keeps repetitions, by source in the order of the ranks.
    pub(crate) fn keep_series(
        &mut self,
        work: S::Work,
        series: impl IntoIterator<Item = impl IntoIterator<Item = Series>>,
    ) {
        let Some(mut store) = self.store.take() else {
            return;
        };
        let keys = self.make_keys(work).into_iter();
        store.keep(keys.zip(self.list_sources().map(Keyed::place)), series);
        self.store = Some(store);
    }

    /// Writes the times that this job has kept so far, in place of what it wrote before. Returns the reasons of hosts that
    /// cannot keep them, one line each, on the head rank.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn save(&mut self, comm: &dyn Comm) -> Result<Vec<String>, Error> {
        let mut reasons = Vec::new();
        let written = match self.store.as_mut().map(|store| store.save(comm.host())).transpose() {
            Ok(written) => written.flatten(),
            Err(error) => {
                reasons.push(format!("models are not kept: {error}"));
                None
            }
        };
        let segment = written.map(|(path, segment)| {
            tracing::info!(path = %path.display(), "models are kept");
            segment
        });
        let elsewhere = self.copier.copy(comm, segment)?;
        reasons.extend(elsewhere.into_iter().filter(|_| comm.rank() == 0));
        Ok(reasons)
    }
}
