//! The model store: times that devices and messages were seen to take, kept from run to run.
//!
//! A store is a folder of *segments*. A job writes one new segment and never changes another, so there is nothing to
//! lock. Readers merge all segments: [`StoredModels`]. Times are kept raw, by a [`StoreKey`] of two parts.
//! The [`Identity`] has to match. A difference in the [`Conditions`] costs a measurement. Times of libraries are kept
//! too, so that the choice among them is the same in every run.
//!
//! * `key.rs`: identity and conditions, made by one function for writing and looking up;
//! * `segment.rs`: the text of a segment, with its checksum;
//! * `folder.rs`: writing, reading and setting aside;
//! * `models.rs`: medians, doubt, staleness, and the curves of a class;
//! * `places.rs`: where stores lie;
//! * `job.rs`: the store of a job;
//! * `known.rs`: what it knows of devices and links;
//! * `kernels.rs`: what it knows of kernels that are no updates of a multiplication;
//! * `libraries.rs`: the choice of a BLAS by kept times;
//! * `given.rs`: models given by hand, in place of the store;
//! * `copier.rs`: copies of a segment on other hosts.

mod copier;
mod folder;
mod given;
mod job;
mod kernels;
mod key;
pub(crate) mod known;
pub(crate) mod libraries;
mod models;
mod places;
pub(crate) mod segment;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use isochron_hierarchy::times::Series;

pub use folder::{FoundSegment, StoreFolder, name_writer};
pub(crate) use given::GivenModels;
pub use job::JobStore;
pub use kernels::{KernelSource, hash_library, list_thread_settings};
pub use key::{
    Conditions, DeviceIdentity, Identity, KernelIdentity, KernelWork, KeySource, Keyed, KeyedWork,
    LibraryIdentity, LibrarySource, LinkIdentity, StoreKey,
};
pub(crate) use key::{LinkTimes, make_link_key};
pub use known::KnownFrom;
pub(crate) use known::KnownTimes;
#[cfg(test)]
pub(crate) use models::KEPT_S;
pub use models::{KnownModel, StoredModels};
pub use places::{NoStorePlace, STORE_VARIABLE, StoreMode, StorePlaces};
pub use segment::{SegmentError, StoredRun, format_segment, parse_segment};
pub(crate) use segment::{SegmentFile, add_series};

#[cfg(test)]
pub(crate) use key::tests::{source as make_test_source, vary as vary_fields};

use crate::error::Error;

/// The store of a job: what all its folders hold, and where the job writes.
#[derive(Debug, Clone)]
pub(crate) struct ModelStore {
    user: StoreFolder,
    models: StoredModels,
    may_write: bool,
    /// The moment of reading, in seconds since 1970.
    now_s: u64,
    words: Vec<String>,
    /// The writer of this job's segment; `None` before the first.
    writer: Option<String>,
    /// Times that this job has seen.
    seen: BTreeMap<StoreKey, Vec<Series>>,
}

impl ModelStore {
    /// Reads all folders. Returns `None` if the store is not to be used, or there is no place for it.
    ///
    /// Nothing here is an error: [`words`](Self::words) names what cannot be read.
    pub fn open(mode: StoreMode, places: Option<StorePlaces>) -> Option<Self> {
        let places = places.filter(|_| mode != StoreMode::None)?;
        let may_write = mode == StoreMode::ReadWrite;
        let user = StoreFolder::new(places.user, may_write);
        let sites = places.sites.into_iter().map(|site| StoreFolder::new(site, false));
        let mut words = Vec::new();
        let mut runs = user.read_all(&mut words);
        for site in sites {
            runs.extend(site.read_all(&mut words));
        }
        let runs = runs.into_iter().filter_map(|segment| segment.runs.ok()).flatten();
        Some(Self {
            user,
            models: StoredModels::merge(runs),
            may_write,
            now_s: read_clock_s(),
            words,
            writer: None,
            seen: BTreeMap::new(),
        })
    }

    /// Returns the unusual findings of reading, one line each.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Everything that was read.
    pub fn models(&self) -> &StoredModels {
        &self.models
    }

    /// Finds the stored model of a device.
    pub fn find(&self, key: &StoreKey) -> Option<KnownModel> {
        self.models.find(key, self.now_s)
    }

    /// Returns `true` if times of this job are to be written.
    pub fn may_write(&self) -> bool {
        self.may_write
    }

    /// Keeps repetitions of this job, which come with their keys and the names of their hosts. If several hosts have one key,
    /// those of the first one are kept: times of unlike hosts together would be a model of neither.
    pub fn keep<'s>(
        &mut self,
        sources: impl Iterator<Item = (StoreKey, &'s str)>,
        samples: impl IntoIterator<Item = impl IntoIterator<Item = Series>>,
    ) {
        let mut holders = BTreeMap::new();
        for ((key, place), samples) in sources.zip(samples) {
            let holder = *holders.entry(key.clone()).or_insert(place);
            if holder != place {
                continue;
            }
            let known = self.seen.entry(key).or_default();
            for sample in samples {
                add_series(known, sample);
            }
        }
    }

    /// Keeps these times of a key, and no others that this job has seen.
    pub fn keep_only(&mut self, key: StoreKey, times: Vec<Series>) {
        self.seen.insert(key, times);
    }

    /// Writes the times that this job has seen so far. Its next segment replaces this one: a job counts as one run. Returns
    /// the path of the segment and its content; `None` if there is nothing to write, or the store is only read.
    ///
    /// # Errors
    /// Returns the errors of [`StoreFolder::write`].
    pub fn save(&mut self, host: &str) -> Result<Option<(PathBuf, SegmentFile)>, Error> {
        let seen = self.seen.iter().filter(|(_, samples)| !samples.is_empty());
        if !self.may_write || seen.clone().next().is_none() {
            return Ok(None);
        }
        let writer = self.writer.get_or_insert_with(|| name_writer(host));
        let runs: Vec<StoredRun> = seen
            .map(|(key, samples)| StoredRun {
                writer: writer.clone(),
                run: self.models.number_next(&key.identity),
                at_s: read_clock_s(),
                key: key.clone(),
                samples: samples.clone(),
            })
            .collect();
        let segment = self.user.make_segment(writer, &runs)?;
        let path = self.user.write_segment(&segment)?;
        Ok(Some((path, segment)))
    }
}

/// Returns the seconds since 1970; 0 before.
pub fn read_clock_s() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::key::tests::key;
    use super::*;

    fn sample(units: u64, t_s: f64) -> Vec<Series> {
        vec![Series { units, seconds: vec![t_s], at_least: false }]
    }

    fn keep(store: &mut ModelStore, units: u64) {
        store.keep([(key(), "host")].into_iter(), [sample(units, 0.5)]);
    }

    fn places(folder: &tempfile::TempDir) -> Option<StorePlaces> {
        Some(StorePlaces {
            user: folder.path().join("user"),
            sites: vec![folder.path().join("site")],
        })
    }

    #[test]
    fn what_one_job_writes_the_next_one_finds() {
        let folder = tempfile::tempdir().unwrap();
        for run in 1..=3 {
            let mut store = ModelStore::open(StoreMode::ReadWrite, places(&folder)).unwrap();
            assert_eq!(store.find(&key()).map(|known| known.runs), (run > 1).then_some(run - 1));
            assert_eq!(store.save("host").unwrap(), None);
            keep(&mut store, 100);
            let (path, _) = store.save("host").unwrap().unwrap();
            assert!(path.starts_with(folder.path().join("user/v4")));
        }
        let mut store = ModelStore::open(StoreMode::Read, places(&folder)).unwrap();
        let numbers: Vec<u64> = store.models().runs().map(|run| run.run).collect();
        assert_eq!(numbers, [1, 2, 3]);
        keep(&mut store, 100);
        assert_eq!(store.save("host").unwrap(), None);
        assert!(ModelStore::open(StoreMode::None, places(&folder)).is_none());
        assert!(ModelStore::open(StoreMode::Read, None).is_none());
    }

    #[test]
    fn what_a_job_writes_later_replaces_what_it_wrote_before() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = ModelStore::open(StoreMode::ReadWrite, places(&folder)).unwrap();
        for (count, units) in [(1, 100), (2, 200), (3, 300)] {
            keep(&mut store, units);
            let written = store.save("host");
            let runs: Vec<usize> = ModelStore::open(StoreMode::Read, places(&folder))
                .unwrap()
                .models()
                .runs()
                .map(|run| run.samples.len())
                .collect();
            assert!(written.unwrap().is_some() && runs == [count]);
        }
    }

    #[test]
    fn a_site_is_read_and_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let site = StorePlaces { user: folder.path().join("site"), sites: Vec::new() };
        let mut store = ModelStore::open(StoreMode::ReadWrite, Some(site)).unwrap();
        keep(&mut store, 100);
        store.save("host").unwrap();
        let broken = folder.path().join("site/v4/x.segment");
        std::fs::write(&broken, "x").unwrap();
        let store = ModelStore::open(StoreMode::ReadWrite, places(&folder)).unwrap();
        assert!(store.find(&key()).is_some() && store.words().len() == 1);
        assert!(broken.exists());
    }
}
