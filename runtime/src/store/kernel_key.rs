//! The key of stored times of a kernel that is no update of a multiplication.

use std::path::Path;

use isochron_devices::internal::HostConditions;
use serde::{Deserialize, Serialize};

use super::key::{Conditions, Identity, KernelIdentity, KernelWork, StoreKey, shorten_version};
use crate::error::Error;

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

impl KernelSource {
    /// Makes the keys of the kernels of all ranks, which run at the same time. Writing and looking up times both use this
    /// function, so their keys cannot differ.
    pub fn make_keys(ranks: &[Self]) -> Vec<StoreKey> {
        ranks
            .iter()
            .enumerate()
            .map(|(rank, source)| {
                let others = ranks.iter().enumerate();
                let beside =
                    others.filter(|&(other, kernel)| other != rank && kernel.place == source.place);
                let mut corunners: Vec<String> =
                    beside.map(|(_, kernel)| kernel.describe()).collect();
                corunners.sort();
                source.make_key(corunners)
            })
            .collect()
    }

    fn make_key(&self, corunners: Vec<String>) -> StoreKey {
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

    /// Describes the kernel as it disturbs others.
    fn describe(&self) -> String {
        format!("{}, {}", self.class, self.work.kernel)
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
    use super::*;

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
        let key = KernelSource::make_keys(&[source]).remove(0);
        let work = "gemm width 1024 OpenBLAS 0.3";
        assert_eq!(key.identity.describe_work(), work);
    }

    #[test]
    fn an_identity_with_an_unknown_fact_is_not_read() {
        let identity = KernelSource::make_keys(&[make_source()]).remove(0).identity;
        let mut stored = serde_json::to_value(&identity).unwrap();
        // The facts of the kernel lie beside the others.
        assert_eq!((&stored["class"], &stored["kernel"]), (&"Some CPU".into(), &"gemm".into()));
        let read: Identity = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(read, identity);
        stored["later"] = true.into();
        assert!(serde_json::from_value::<Identity>(stored).is_err());
    }
}
