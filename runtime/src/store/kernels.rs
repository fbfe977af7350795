//! Stored times of kernels that are no updates of a multiplication, which a tool times on each rank, without a session.

use std::path::Path;

use isochron_devices::internal::HostConditions;
use isochron_devices::topology::Topology;
use isochron_devices::{DeviceClock, DeviceInfo, DeviceKind};
use isochron_hierarchy::times::Series;
use serde::{Deserialize, Serialize};

use super::JobStore;
use super::key::{
    Conditions, Identity, KernelIdentity, KernelWork, Keyed, StoreKey, shorten_version,
};
use super::known::{KnownTimes, SoughtTimes, judge_found, read_store};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::store::{KnownModel, ModelStore, StoreMode, StorePlaces};

/// Variables that give the threads of libraries a number.
const THREAD_VARIABLES: [&str; 4] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"];

/// Lists the environment variables that give the threads of libraries a number, as `NAME=value`.
pub fn list_thread_settings() -> Vec<String> {
    THREAD_VARIABLES
        .iter()
        .filter_map(|name| {
            let value = std::env::var(name).ok()?;
            Some(format!("{name}={value}"))
        })
        .collect()
}

/// A kernel on a rank, as keys see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelSource {
    /// The kernel.
    pub work: KernelWork,
    /// The processor's model.
    pub class: String,
    /// Logical indices of the cores that it may use: one if it is bound.
    pub cores: Vec<u32>,
    /// Name that its host gives itself.
    pub host: String,
    /// Name of its host that no other host of the job has.
    pub place: String,
    /// The state of its host.
    pub conditions: HostConditions,
}

impl Keyed for KernelSource {
    type Work = ();

    fn place(&self) -> &str {
        &self.place
    }

    fn describe(&self) -> String {
        format!("{}, {}", self.class, self.work.kernel)
    }

    fn make_key(&self, (): (), corunners: Vec<String>) -> StoreKey {
        let blas = self.work.blas.clone();
        let work = KernelWork { blas: blas.as_deref().map(shorten_version), ..self.work.clone() };
        StoreKey {
            identity: Identity::Kernel(KernelIdentity {
                class: self.class.clone(),
                cores: self.cores.clone(),
                work,
                corunners,
            }),
            conditions: Conditions {
                host: self.host.clone(),
                blas: blas.unwrap_or_default(),
                isochron: env!("CARGO_PKG_VERSION").to_owned(),
                state: self.conditions.clone(),
            },
        }
    }
}

impl JobStore<KernelSource> {
    /// Opens the store for this rank's kernel, which is bound to `core`, or may use all cores of its rank. Returns unusual
    /// findings too, one line each.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Device`] if the host's cores are not known, and the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks, with the same `mode`.
    pub fn open_kernels(
        comm: &dyn Comm,
        mode: StoreMode,
        work: KernelWork,
        core: Option<u32>,
    ) -> Result<(Self, Vec<String>), Error> {
        let mut notices = Vec::new();
        let store = read_store(comm, mode, StorePlaces::find(), &mut notices);
        let mine = match mode {
            StoreMode::None => Vec::new(),
            StoreMode::Read | StoreMode::ReadWrite => {
                let topology = agree(comm, Topology::discover().map_err(Error::from))?;
                vec![describe_kernel(comm, &topology, work, core)]
            }
        };
        let job = Self::open(comm, mode, store, mine)?;
        notices.extend(job.words().to_vec());
        Ok((job, notices))
    }

    /// Finds the stored times of every rank's kernel. Returns unusual findings of the head rank too, one line each.
    ///
    /// Kernels of a host are timed together: if one of them has to be, all are.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn find_kernels(&self, comm: &dyn Comm) -> Result<(Vec<KnownTimes>, Vec<String>), Error> {
        let (mut known, mut words) = (vec![KnownTimes::fresh(); comm.size()], Vec::new());
        if let Some(store) = &self.store {
            (known, words) = self.judge_kernels(store);
        }
        Ok((comm.share(0, (comm.rank() == 0).then_some(known))?, words))
    }

    fn judge_kernels(&self, store: &ModelStore) -> (Vec<KnownTimes>, Vec<String>) {
        let keys = self.make_keys(());
        let sought = self.list_sources().zip(&keys).enumerate().map(|(rank, (source, key))| {
            SoughtTimes {
                name: format!("{} of rank {rank} on {}", source.work.kernel, source.place),
                place: &source.place,
                // Bounds alone tell nothing.
                found: store.find(key).filter(KnownModel::is_measured),
                doubt: None,
                twin: self.has_twin(source, key, &keys).then_some("kernel"),
            }
        });
        judge_found(sought.collect())
    }

    /// Keeps the repetitions of a size of this rank's kernel; `None` if it has none.
    ///
    /// # Errors
    /// Returns the errors of [`Comm`].
    ///
    /// # Collective
    /// All ranks.
    pub fn keep_times(&mut self, comm: &dyn Comm, times: Option<Series>) -> Result<(), Error> {
        if self.list_sources().next().is_none() {
            return Ok(());
        }
        let times = comm.gather(&times)?;
        self.keep_series((), times);
        Ok(())
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

/// Returns the checksum and the length of a library: its times are those of this content, whatever its path.
///
/// # Errors
/// Returns [`Error::File`] if it cannot be read.
pub fn hash_library(path: &Path) -> Result<String, Error> {
    let content = std::fs::read(path).map_err(|error| Error::file(path, error))?;
    let crc32 = crc32fast::hash(&content);
    Ok(format!("{crc32:08x}-{}", content.len()))
}

#[cfg(test)]
pub(crate) mod tests {
    use tempfile::TempDir;

    use super::super::key::make_keys;
    use super::super::known::tests::{open_folder, open_store};
    use super::*;
    use crate::comm::LocalComm;
    use crate::store::{KEPT_S, KnownFrom, StoredRun, read_clock_s, vary_fields};

    /// Returns the keys of kernels that run at the same time.
    pub fn key_all(ranks: &[KernelSource]) -> Vec<StoreKey> {
        make_keys(&ranks.iter().collect::<Vec<_>>(), ())
    }

    /// Returns a kernel with every fact known.
    pub fn make_source() -> KernelSource {
        KernelSource {
            work: KernelWork {
                kernel: "gemm".to_owned(),
                kernel_version: 1,
                library: Some("0a-7".to_owned()),
                block: Some(32),
                width: Some(1024),
                blas: Some("OpenBLAS 0.3.21 (libopenblas.so.0)".to_owned()),
                threads: vec!["OMP_NUM_THREADS=2".to_owned()],
                isolated: false,
            },
            class: "Some CPU".to_owned(),
            cores: vec![1],
            host: "a".to_owned(),
            place: "a".to_owned(),
            conditions: HostConditions::default(),
        }
    }

    #[test]
    fn a_library_is_known_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a.so", "b.so", "c.so"].map(|name| folder.path().join(name));
        for (path, content) in paths.iter().zip(["one", "one", "two"]) {
            std::fs::write(path, content).unwrap();
        }
        let hashes = paths.each_ref().map(|path| hash_library(path).unwrap());
        assert!(hashes[0] == hashes[1] && hashes[0] != hashes[2], "{hashes:?}");
        assert!(hash_library(&folder.path().join("d.so")).is_err());
    }

    #[test]
    fn the_work_of_a_kernel_is_its_name_and_the_sizes_within_a_unit() {
        let mut source = make_source();
        (source.work.library, source.work.block) = (None, None);
        let key = key_all(&[source]).remove(0);
        let work = "gemm width 1024 OpenBLAS 0.3";
        assert_eq!(key.identity.describe_work(), work);
    }

    #[test]
    fn an_identity_with_an_unknown_fact_is_not_read() {
        let identity = key_all(&[make_source()]).remove(0).identity;
        let mut stored = serde_json::to_value(&identity).unwrap();
        // The facts of the kernel lie beside the others.
        assert_eq!((&stored["class"], &stored["kernel"]), (&"Some CPU".into(), &"gemm".into()));
        let read: Identity = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(read, identity);
        stored["later"] = true.into();
        assert!(serde_json::from_value::<Identity>(stored).is_err());
    }

    /// Returns the kernels of two ranks of one host.
    fn make_ranks() -> [KernelSource; 2] {
        let one = make_source();
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

    /// Returns the origins of the models of a store with these runs, and the words.
    fn find_origins(runs: &[StoredRun], ranks: &[KernelSource]) -> (Vec<KnownFrom>, Vec<String>) {
        let (_folder, job) = open_store(ranks, runs);
        let (known, words) = job.judge_kernels(job.store.as_ref().unwrap());
        (known.iter().map(|kernel| kernel.from).collect(), words)
    }

    #[test]
    fn what_a_job_keeps_is_where_the_next_one_begins() {
        let (folder, comm) = (tempfile::tempdir().unwrap(), LocalComm::new());
        let open = |folder: &TempDir| open_folder(folder, &[make_source()]);
        let mut job = open(&folder);
        assert_eq!(job.find_kernels(&comm).unwrap(), (vec![KnownTimes::fresh()], vec![]));
        for units in [100, 101] {
            let sample = make_sample(units, units as f64 / 200.0);
            job.keep_times(&comm, Some(sample)).unwrap();
            job.keep_times(&comm, None).unwrap();
            assert!(job.save(&comm).unwrap().is_empty());
        }
        let (mut known, words) = open(&folder).find_kernels(&comm).unwrap();
        let known = known.remove(0);
        let times = known.points.iter().map(|point| (point.d, point.t_s));
        let times: Vec<(u64, f64)> = times.collect();
        let is_same = times.iter().all(|(d, t_s)| (t_s * 200.0 / *d as f64 - 1.0).abs() < 1e-9);
        assert!(is_same && times.len() == 2, "{times:?}");
        assert!(known.from == KnownFrom::Store && words.is_empty());
        // One job is one run, whatever it wrote in between.
        let files = std::fs::read_dir(folder.path().join("v4")).unwrap();
        assert_eq!(files.count(), 1);
    }

    #[test]
    fn every_field_of_a_key_decides_if_a_kernel_is_known() {
        let ranks = make_ranks();
        let keys = key_all(&ranks);
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
        let keys = key_all(&ranks);
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
        let ranks = [make_source()];
        let mut run = store_time(&key_all(&ranks)[0], 100, 0.5);
        run.at_s -= KEPT_S + 60;
        let (origins, words) = find_origins(&[run], &ranks);
        assert_eq!(origins, [KnownFrom::StoreAndProbe]);
        assert!(words[0].contains("older than 30 days"), "{words:?}");
    }

    #[test]
    fn hosts_of_one_name_are_not_taken_for_one() {
        let ranks =
            [1, 2].map(|number| KernelSource { place: format!("a ({number})"), ..make_source() });
        let key = key_all(&ranks).remove(0);
        let (origins, words) = find_origins(&[store_time(&key, 100, 0.5)], &ranks);
        assert_eq!(origins, [KnownFrom::StoreAndProbe; 2]);
        assert!(words.len() == 2 && words[0].contains("another host"), "{words:?}");
    }
}
