//! The model store of tools that time a kernel on each rank, without a session.
//!
//! As in a session, the head rank alone reads and writes, and a rank of each other host adds the segment to a store on that
//! host's own disk.

use isochron_devices::internal::HostConditions;
use isochron_devices::topology::Topology;
use isochron_devices::{DeviceClock, DeviceInfo, DeviceKind};
use isochron_hierarchy::times::Series;

use super::copier::SegmentCopier;
use super::known::{KnownTimes, SoughtTimes, judge_found, read_store};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::store::{
    KernelSource, KernelWork, KnownModel, ModelStore, SegmentFile, StoreMode, StorePlaces,
};

/// The store of a job in which each rank runs a kernel.
#[derive(Debug)]
pub struct KernelStore {
    /// The models that were read, on the head rank.
    store: Option<ModelStore>,
    /// The kernels of all ranks; empty if the store is not used.
    sources: Vec<KernelSource>,
    copier: SegmentCopier,
    /// Unusual findings, one line each.
    notices: Vec<String>,
}

impl KernelStore {
    /// Opens the store for this rank's kernel, which is bound to `core`, or may use all cores of its rank.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Device`] if the host's cores are not known, and the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with the same `mode`.
    pub fn open(
        comm: &dyn Comm,
        mode: StoreMode,
        work: KernelWork,
        core: Option<u32>,
    ) -> Result<Self, Error> {
        let mut notices = Vec::new();
        let places = StorePlaces::find();
        let store = read_store(comm, mode, places, &mut notices);
        notices.extend(store.iter().flat_map(|store| store.words().to_vec()));
        let sources = match mode {
            StoreMode::None => Vec::new(),
            StoreMode::Read | StoreMode::ReadWrite => {
                let topology = agree(comm, Topology::discover().map_err(Error::from))?;
                comm.gather(&describe_kernel(comm, &topology, work, core))?
            }
        };
        Ok(Self { store, sources, copier: SegmentCopier::new(comm, mode)?, notices })
    }

    /// Finds the stored times of every rank's kernel.
    ///
    /// Kernels of a host are timed together: if one of them has to be, all are.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn find_kernels(&mut self, comm: &dyn Comm) -> Result<Vec<KnownTimes>, Error> {
        let mut known = vec![KnownTimes::fresh(); comm.size()];
        if let Some(store) = &self.store {
            let (found, words) = find_known(store, &self.sources);
            known = found;
            self.notices.extend(words);
        }
        comm.share(0, (comm.rank() == 0).then_some(known))
    }

    /// Keeps the repetitions of a size of this rank's kernel; `None` if it has none.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn keep_times(&mut self, comm: &dyn Comm, times: Option<Series>) -> Result<(), Error> {
        if self.sources.is_empty() {
            return Ok(());
        }
        let times = comm.gather(&times)?;
        if let Some(store) = &mut self.store {
            let keys = KernelSource::make_keys(&self.sources).into_iter();
            let places = self.sources.iter().map(|source| source.place.as_str());
            store.keep(keys.zip(places), times);
        }
        Ok(())
    }

    /// Writes the times that this job has kept so far, in place of what it wrote before. That they cannot be written is a
    /// notice.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn save(&mut self, comm: &dyn Comm) -> Result<(), Error> {
        let written = self.write(comm.host_name());
        let reasons = self.copier.copy(comm, written)?;
        if comm.rank() == 0 {
            reasons.into_iter().for_each(|reason| self.note_once(reason));
        }
        Ok(())
    }

    fn write(&mut self, host: &str) -> Option<SegmentFile> {
        match self.store.as_mut()?.save(host) {
            Ok(written) => written.map(|(_, segment)| segment),
            Err(error) => {
                self.note_once(format!("models are not kept: {error}"));
                None
            }
        }
    }

    fn note_once(&mut self, notice: String) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// Adds an unusual finding.
    pub fn note(&mut self, finding: &str) {
        self.notices.push(finding.to_owned());
    }

    /// Returns the unusual findings so far, one line each; those about the store are the head rank's.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

/// Describes this rank's kernel for keys.
fn describe_kernel(
    comm: &dyn Comm,
    topology: &Topology,
    work: KernelWork,
    core: Option<u32>,
) -> KernelSource {
    let cores = match core {
        Some(core) => vec![core],
        None => topology.cores().into_iter().map(|info| info.core).collect(),
    };
    let device = DeviceInfo {
        cores: cores.clone(),
        ..DeviceInfo::new(&work.kernel, DeviceKind::Cpu, DeviceClock::Cores)
    };
    KernelSource {
        work,
        class: topology.describe_class(),
        cores,
        host: comm.host_name().to_owned(),
        place: comm.host().to_owned(),
        conditions: HostConditions::read(topology, &device),
    }
}

/// Finds the stored times of the kernels of all ranks. Returns unusual findings too, one line each.
fn find_known(store: &ModelStore, ranks: &[KernelSource]) -> (Vec<KnownTimes>, Vec<String>) {
    let keys = KernelSource::make_keys(ranks);
    let sought = ranks.iter().zip(&keys).enumerate().map(|(rank, (source, key))| {
        let mut others = ranks.iter().zip(&keys);
        let has_twin = others.any(|(other, same)| same == key && other.place != source.place);
        SoughtTimes {
            name: format!("{} of rank {rank} on {}", source.work.kernel, source.place),
            place: &source.place,
            // Bounds alone tell nothing.
            found: store.find(key).filter(KnownModel::is_measured),
            doubt: None,
            twin: has_twin.then_some("kernel"),
        }
    });
    judge_found(sought.collect())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::store::{
        Identity, KEPT_S, KnownFrom, StoreFolder, StoreKey, StoredRun, make_kernel_source,
        read_clock_s, vary_fields,
    };

    /// Returns the kernels of two ranks of one host.
    fn make_ranks() -> [KernelSource; 2] {
        let one = make_kernel_source();
        let other = KernelSource { cores: vec![5], ..one.clone() };
        [one, other]
    }

    fn store_time(key: &StoreKey, units: u64, time_s: f64) -> StoredRun {
        StoredRun {
            writer: "w".to_owned(),
            run: 1,
            at_s: read_clock_s(),
            key: key.clone(),
            samples: vec![make_sample(units, time_s)],
        }
    }

    fn make_sample(units: u64, time_s: f64) -> Series {
        Series { units, seconds: vec![time_s], at_least: false }
    }

    fn open(folder: &TempDir) -> ModelStore {
        let places = StorePlaces { user: folder.path().to_owned(), sites: Vec::new() };
        ModelStore::open(StoreMode::ReadWrite, Some(places)).unwrap()
    }

    /// Returns the origins of the models of a store with these runs, and the words.
    fn find_origins(runs: &[StoredRun], ranks: &[KernelSource]) -> (Vec<KnownFrom>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        StoreFolder::new(folder.path().to_owned(), true).write("w", runs).unwrap();
        let (known, words) = find_known(&open(&folder), ranks);
        (known.iter().map(|kernel| kernel.from).collect(), words)
    }

    #[test]
    fn what_a_job_keeps_is_where_the_next_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let comm = crate::comm::LocalComm::new();
        let mut job = KernelStore {
            store: Some(open(&folder)),
            sources: vec![make_kernel_source()],
            copier: SegmentCopier::new(&comm, StoreMode::ReadWrite).unwrap(),
            notices: Vec::new(),
        };
        assert_eq!(job.find_kernels(&comm).unwrap(), [KnownTimes::fresh()]);
        for units in [100, 101] {
            let sample = make_sample(units, units as f64 / 200.0);
            job.keep_times(&comm, Some(sample)).unwrap();
            job.keep_times(&comm, None).unwrap();
            job.save(&comm).unwrap();
        }
        job.store = Some(open(&folder));
        let known = job.find_kernels(&comm).unwrap().remove(0);
        let times = known.points.iter().map(|point| (point.d, point.t_s));
        let times: Vec<(u64, f64)> = times.collect();
        let is_same = times.iter().all(|(d, t_s)| (t_s * 200.0 / *d as f64 - 1.0).abs() < 1e-9);
        assert!(is_same && times.len() == 2, "{times:?}");
        assert!(known.from == KnownFrom::Store && job.notices().is_empty());
        // One job is one run, whatever it wrote in between.
        let files = std::fs::read_dir(folder.path().join("v4")).unwrap();
        assert_eq!(files.count(), 1);
    }

    #[test]
    fn every_field_of_a_key_decides_if_a_kernel_is_known() {
        let ranks = make_ranks();
        let keys = KernelSource::make_keys(&ranks);
        let Identity::Kernel(own) = &keys[0].identity else {
            panic!("{keys:?}");
        };
        let mut stored = vec![(String::new(), keys[0].clone(), KnownFrom::Store)];
        stored.extend(vary_fields(own).into_iter().map(|(field, identity)| {
            let identity = Identity::Kernel(identity);
            let conditions = keys[0].conditions.clone();
            let key = StoreKey { identity, conditions };
            (field, key, KnownFrom::Fresh)
        }));
        stored.extend(vary_fields(&keys[0].conditions).into_iter().map(|(field, conditions)| {
            let identity = keys[0].identity.clone();
            let key = StoreKey { identity, conditions };
            (field, key, KnownFrom::StoreAndProbe)
        }));
        for (field, key, origin) in stored {
            let runs = [&key, &keys[1]].map(|key| store_time(key, 100, 0.5));
            let (origins, words) = find_origins(&runs, &ranks);
            assert_eq!(origins[0], origin, "{field}");
            let is_told = words.iter().any(|word| word.ends_with(&format!("other {field}")));
            assert_eq!(is_told, origin == KnownFrom::StoreAndProbe, "{field}");
            // Kernels of a host are timed together.
            assert_eq!(origins[1] == KnownFrom::Store, field.is_empty(), "{field}");
        }
    }

    #[test]
    fn every_fact_about_a_kernel_is_in_its_key() {
        let ranks = make_ranks();
        let keys = KernelSource::make_keys(&ranks);
        let runs = [0, 1].map(|rank| store_time(&keys[rank], 100, 0.5));
        let own = &ranks[0];
        let mut varied: Vec<(String, KernelSource)> = vary_fields(own).into_iter().collect();
        varied.extend(vary_fields(&own.work).into_iter().map(|(field, work)| {
            let source = KernelSource { work, ..own.clone() };
            (format!("work.{field}"), source)
        }));
        for (fact, source) in varied {
            let (origins, _) = find_origins(&runs, &[source, ranks[1].clone()]);
            let origin = match fact.as_str() {
                "host" => KnownFrom::StoreAndProbe,
                _ => KnownFrom::Fresh,
            };
            assert_eq!(origins[0], origin, "{fact}");
        }
    }

    #[test]
    fn old_times_of_a_kernel_are_checked() {
        let ranks = [make_kernel_source()];
        let mut run = store_time(&KernelSource::make_keys(&ranks)[0], 100, 0.5);
        run.at_s -= KEPT_S + 60;
        let (origins, words) = find_origins(&[run], &ranks);
        assert_eq!(origins, [KnownFrom::StoreAndProbe]);
        assert!(words[0].contains("older than 30 days"), "{words:?}");
    }

    #[test]
    fn hosts_of_one_name_are_not_taken_for_one() {
        let ranks = [1, 2]
            .map(|number| KernelSource { place: format!("a ({number})"), ..make_kernel_source() });
        let key = KernelSource::make_keys(&ranks).remove(0);
        let (origins, words) = find_origins(&[store_time(&key, 100, 0.5)], &ranks);
        assert_eq!(origins, [KnownFrom::StoreAndProbe; 2]);
        assert!(words.len() == 2 && words[0].contains("another host"), "{words:?}");
    }
}
