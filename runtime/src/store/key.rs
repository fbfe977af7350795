//! The key of stored times: identity and conditions.

use std::collections::BTreeSet;

use isochron_devices::internal::{HostConditions, TRIAL_VERSION};
use isochron_devices::{DeviceInfo, ElementType};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The facts that must be equal for stored times to apply.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Identity {
    /// Of times of a device.
    Device(DeviceIdentity),
    /// Of times of messages.
    Links(LinkIdentity),
    /// Of times of a BLAS among others.
    Library(LibraryIdentity),
    /// Of times of a kernel that is no update of a multiplication.
    Kernel(KernelIdentity),
}

impl Identity {
    /// Returns the class of the device, or of the hosts that exchange messages.
    pub fn class(&self) -> &str {
        match self {
            Self::Device(device) => &device.class,
            Self::Links(links) => &links.class,
            Self::Library(library) => &library.class,
            Self::Kernel(kernel) => &kernel.class,
        }
    }

    /// Describes the work that was timed.
    pub fn describe_work(&self) -> String {
        match self {
            Self::Device(device) => {
                format!("{} {} {}", device.kernel, device.element, device.width)
            }
            Self::Links(links) => format!("{} {}", links.kernel, links.mpi),
            Self::Library(library) => {
                format!("{} {} {}", library.kernel, library.element, library.library)
            }
            Self::Kernel(kernel) => kernel.work.describe(),
        }
    }

    /// Returns the number of the device's cores, of the ranks that exchange messages, of the cores of a rank that
    /// chooses a library, or of those that a kernel may use.
    pub fn count_cores(&self) -> usize {
        match self {
            Self::Device(device) => device.cores.len(),
            Self::Links(links) => links.ranks.iter().sum(),
            Self::Library(library) => library.cores,
            Self::Kernel(kernel) => kernel.cores.len(),
        }
    }
}

/// The facts that must be equal for stored times of messages to apply.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LinkIdentity {
    /// The timed work. `pair`: seconds of messages between two hosts, or within one, while others exchange some; `message-cpu`: CPU time of their bytes on a class.
    #[cfg_attr(feature = "schemars", schemars(extend("enum" = ["pair", "message-cpu"])))]
    pub kernel: String,
    /// Version of the measurement.
    pub kernel_version: u32,
    /// The hosts of a pair, or the model of the processor whose CPU time it is.
    pub class: String,
    /// The message-passing library.
    pub mpi: String,
    /// Number of hosts.
    pub hosts: usize,
    /// Numbers of consecutive ranks on one host.
    pub ranks: Vec<usize>,
}

/// The facts that must be equal for stored times of a BLAS to choose among libraries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LibraryIdentity {
    /// The timed work: an update of one size.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = "blas-trial")))]
    pub kernel: String,
    /// Version of the measurement.
    pub kernel_version: u32,
    /// Model of the processor.
    pub class: String,
    /// Number of cores of the rank.
    pub cores: usize,
    /// Type of the elements.
    pub element: ElementType,
    /// All libraries that the rank has found, each with its version, its file and its kernels, in the order of
    /// preference.
    pub libraries: Vec<String>,
    /// The one whose times these are.
    pub library: String,
}

/// The facts that must be equal for stored times of a device to apply.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceIdentity {
    /// Model of the processor, or of the GPU with its memory.
    pub class: String,
    /// Logical cores that it computes with.
    pub cores: Vec<u32>,
    /// `true` if its threads are bound to these cores.
    pub pinned: bool,
    /// Number of its threads.
    pub threads: usize,
    /// Type of the elements.
    pub element: ElementType,
    /// The kernel that was timed.
    pub kernel: String,
    /// Version of the kernel.
    pub kernel_version: u32,
    /// Inner dimension of an update.
    pub width: usize,
    /// `true` if the times include transfers to the device's own memory and back.
    pub transfers: bool,
    /// BLAS with its major version; with the minor one too if that is 0.
    pub blas: String,
    /// The pace that slowed it down on purpose; `null` at full speed.
    pub pace: Option<String>,
    /// The other devices that computed on its host at the same time, each by its kind and its cores.
    pub corunners: Vec<String>,
}

/// The facts that must be equal for stored times of a kernel to apply.
// Unknown facts are refused although a part is flattened: `an_identity_with_an_unknown_fact_is_not_read` tests it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KernelIdentity {
    /// Model of the processor.
    pub class: String,
    /// Logical cores that it may use: one if it is bound.
    pub cores: Vec<u32>,
    /// The kernel that was timed, and the way it ran. The BLAS has its major version, the minor one too if that is 0.
    #[serde(flatten)]
    pub work: KernelWork,
    /// The kernels of other ranks that ran on its host at the same time, each with its processor's model.
    pub corunners: Vec<String>,
}

/// A kernel, and the way to run it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct KernelWork {
    /// The kernel that was timed: a built-in one, or the name of its library.
    pub kernel: String,
    /// Version of the built-in kernels; 0 of a library.
    pub kernel_version: u32,
    /// Checksum and length of its library; `null` for a built-in kernel.
    pub library: Option<String>,
    /// Block size of a built-in kernel of blocks; `null` for others.
    pub block: Option<usize>,
    /// Length of a row of a built-in kernel of rows; `null` for others.
    pub width: Option<usize>,
    /// BLAS with its major version; with the minor one too if that is 0; `null` if it calls none.
    pub blas: Option<String>,
    /// Environment variables that set the threads of libraries, as `NAME=value`; empty for a bound built-in kernel.
    #[serde(default)]
    pub threads: Vec<String>,
    /// `true` if it ran in a process of its own.
    pub isolated: bool,
}

impl KernelWork {
    /// Describes the kernel by its name and the sizes within a unit.
    pub(super) fn describe(&self) -> String {
        let block = self.block.map(|block| format!("block {block}"));
        let width = self.width.map(|width| format!("width {width}"));
        let parts =
            [Some(self.kernel.clone()), self.library.clone(), block, width, self.blas.clone()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(" ")
    }
}

/// The facts that may differ from run to run: a difference costs a measurement, and the times stay in use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Conditions {
    /// The host; of links, all hosts.
    pub host: String,
    /// BLAS with its version, its file and its kernels; empty for links, for libraries, and for kernels that call
    /// none.
    pub blas: String,
    /// Version of Isochron.
    pub isochron: String,
    /// The state of the host, or of all hosts.
    #[serde(flatten)]
    pub state: HostConditions,
}

/// The key of stored times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StoreKey {
    /// Facts that must be equal for the times to apply.
    pub identity: Identity,
    /// Facts that may differ from run to run.
    pub conditions: Conditions,
}

/// The work whose times a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedWork {
    /// Type of the elements.
    pub element: ElementType,
    /// Inner dimension of an update.
    pub width: usize,
}

/// A device as keys see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeySource {
    /// The device.
    pub device: DeviceInfo,
    /// The processor's model, or the GPU's with its memory.
    pub class: String,
    /// Name that its host gives itself.
    pub host: String,
    /// Name of its host that no other host of the job has.
    pub place: String,
    /// The state of its host.
    pub conditions: HostConditions,
}

/// Something of a rank that is timed while others of its host compute, as keys see it.
pub trait Keyed {
    /// What tells timed works of one source apart.
    type Work: Copy;

    /// Returns the name of its host that no other host of the job has.
    fn place(&self) -> &str;

    /// Describes it as it disturbs others.
    fn describe(&self) -> String;

    /// Makes the key for some work beside others, as these describe themselves. Writing and looking up times both use this
    /// function, so their keys cannot differ.
    fn make_key(&self, work: Self::Work, corunners: Vec<String>) -> StoreKey;
}

/// Makes the keys of sources that compute at the same time.
pub fn make_keys<S: Keyed>(sources: &[&S], work: S::Work) -> Vec<StoreKey> {
    let keys = sources.iter().enumerate().map(|(index, source)| {
        let others = sources.iter().enumerate();
        let beside = others.filter(|(other, of)| *other != index && of.place() == source.place());
        let mut corunners: Vec<String> = beside.map(|(_, other)| other.describe()).collect();
        corunners.sort();
        source.make_key(work, corunners)
    });
    keys.collect()
}

/// The update of a part of C, `C_j += alpha·A_w·B_wj`.
const UPDATE: (&str, u32) = ("gemm-update", 1);

impl Keyed for KeySource {
    type Work = KeyedWork;

    fn place(&self) -> &str {
        &self.place
    }

    /// Describes its class, the number of its cores, and its pace.
    fn describe(&self) -> String {
        let (class, cores) = (&self.class, self.device.cores.len());
        match &self.device.paced {
            None => format!("{class}, cores {cores}"),
            Some(pace) => format!("{class}, cores {cores}, {pace}"),
        }
    }

    fn make_key(&self, work: KeyedWork, corunners: Vec<String>) -> StoreKey {
        let device = &self.device;
        StoreKey {
            identity: Identity::Device(DeviceIdentity {
                class: self.class.clone(),
                cores: device.cores.clone(),
                pinned: device.pinned,
                threads: device.cores.len(),
                element: work.element,
                kernel: UPDATE.0.to_owned(),
                kernel_version: UPDATE.1,
                width: work.width,
                transfers: device.kind.has_own_memory(),
                blas: shorten_version(&device.blas),
                pace: device.paced.clone(),
                corunners,
            }),
            conditions: Conditions {
                host: self.host.clone(),
                blas: device.blas.clone(),
                isochron: env!("CARGO_PKG_VERSION").to_owned(),
                state: self.conditions.clone(),
            },
        }
    }
}

/// Times of messages that are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkTimes<'c> {
    /// CPU time of these messages on hosts of this class.
    CpuOf(&'c str),
    /// Seconds of messages between ranks of these hosts, while other hosts exchange them too.
    Pair([&'c str; 2]),
}

/// Version of these measurements.
const LINKS_VERSION: u32 = 3;

/// Makes the key for times of messages over this library. `ranks` has a device of each rank, in order. Writing and
/// looking up times both use this function, so their keys cannot differ.
pub fn make_link_key(mpi: &str, ranks: &[&KeySource], times: LinkTimes<'_>) -> StoreKey {
    let places: BTreeSet<&str> = ranks.iter().map(|rank| &*rank.place).collect();
    let names: BTreeSet<&str> = ranks.iter().map(|rank| &*rank.host).collect();
    let blocks = ranks.chunk_by(|one, next| one.place == next.place);
    // The order of the ranks does not tell machines apart.
    let machines: BTreeSet<&Option<String>> =
        ranks.iter().map(|rank| &rank.conditions.machine).collect();
    let (kernel, class) = match times {
        LinkTimes::CpuOf(class) => ("message-cpu", class.to_owned()),
        LinkTimes::Pair([one, other]) if one == other => ("pair", one.to_owned()),
        LinkTimes::Pair(hosts) => ("pair", hosts.join(" and ")),
    };
    StoreKey {
        identity: Identity::Links(LinkIdentity {
            kernel: kernel.to_owned(),
            kernel_version: LINKS_VERSION,
            class,
            mpi: mpi.to_owned(),
            hosts: places.len(),
            ranks: blocks.map(<[_]>::len).collect(),
        }),
        conditions: Conditions {
            host: names.into_iter().collect::<Vec<_>>().join(", "),
            state: HostConditions {
                machine: join_values(machines.into_iter().cloned()),
                system: join_fact(ranks, |state| &state.system),
                governor: join_fact(ranks, |state| &state.governor),
                clock_cap: join_fact(ranks, |state| &state.clock_cap),
                boost: join_fact(ranks, |state| &state.boost),
                power_cap: join_fact(ranks, |state| &state.power_cap),
                quota: join_fact(ranks, |state| &state.quota),
                ..HostConditions::default()
            },
            isochron: env!("CARGO_PKG_VERSION").to_owned(),
            ..Conditions::default()
        },
    }
}

/// Joins a fact about the hosts of ranks.
fn join_fact(ranks: &[&KeySource], fact: fn(&HostConditions) -> &Option<String>) -> Option<String> {
    join_values(ranks.iter().map(|rank| fact(&rank.conditions).clone()))
}

/// Joins the values of ranks in their order: one that follows itself is named once.
fn join_values(values: impl Iterator<Item = Option<String>>) -> Option<String> {
    let mut joined: Vec<String> =
        values.map(|value| value.unwrap_or_else(|| "-".to_owned())).collect();
    joined.dedup();
    (joined != ["-"]).then(|| joined.join(", "))
}

/// A rank that chooses among libraries, as keys see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LibrarySource {
    /// The processor's model.
    pub class: String,
    /// Name of its host.
    pub host: String,
    /// Number of its cores.
    pub cores: usize,
    /// Type of the elements.
    pub element: ElementType,
    /// All libraries that it found, in the order of preference.
    pub libraries: Vec<String>,
}

impl LibrarySource {
    /// Returns the rank that made this key of a library; `None` for other keys.
    pub fn of_key(key: &StoreKey) -> Option<Self> {
        let Identity::Library(library) = &key.identity else {
            return None;
        };
        Some(Self {
            class: library.class.clone(),
            host: key.conditions.host.clone(),
            cores: library.cores,
            element: library.element,
            libraries: library.libraries.clone(),
        })
    }

    /// Makes the key of the times of one of the libraries. Writing and looking up times both use this function, so
    /// their keys cannot differ.
    pub fn make_key(&self, library: &str) -> StoreKey {
        StoreKey {
            identity: Identity::Library(LibraryIdentity {
                kernel: "blas-trial".to_owned(),
                kernel_version: TRIAL_VERSION,
                class: self.class.clone(),
                cores: self.cores,
                element: self.element,
                libraries: self.libraries.clone(),
                library: library.to_owned(),
            }),
            conditions: Conditions {
                host: self.host.clone(),
                isochron: env!("CARGO_PKG_VERSION").to_owned(),
                ..Conditions::default()
            },
        }
    }

    /// Returns the key of each library.
    pub fn list_keys(&self) -> Vec<StoreKey> {
        self.libraries.iter().map(|library| self.make_key(library)).collect()
    }

    /// Returns `true` if the choice of another rank, on whatever host, is this one's too.
    pub fn is_like(&self, other: &Self) -> bool {
        let keys = [self, other].map(|source| source.make_key(""));
        keys[0].identity == keys[1].identity
    }
}

/// Returns the name of a library and its major version; a major version of 0 says nothing without the minor one.
pub(super) fn shorten_version(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    let first =
        words.iter().position(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let (library, rest) = words.split_at(first.unwrap_or(words.len()));
    let mut numbers = rest.first().copied().unwrap_or_default().split('.');
    let major = numbers.next().unwrap_or_default();
    let major = match (major, numbers.next()) {
        ("0", Some(minor)) => format!("0.{minor}"),
        _ => major.to_owned(),
    };
    format!("{} {major}", library.join(" ")).trim_end().to_owned()
}

impl StoreKey {
    /// Returns a short name of the key, the same in every store.
    pub fn name(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        format!("{:08x}", crc32fast::hash(text.as_bytes()))
    }
}

impl Conditions {
    /// Returns the names of the conditions that differ.
    pub fn list_differences(&self, other: &Self) -> Vec<String> {
        let [Ok(Value::Object(mine)), Ok(Value::Object(theirs))] =
            [self, other].map(serde_json::to_value)
        else {
            return Vec::new();
        };
        mine.into_iter()
            .filter(|(name, value)| theirs.get(name) != Some(value))
            .map(|(name, _)| name)
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use isochron_devices::{DeviceClock, DeviceKind};

    use super::*;

    pub fn source() -> KeySource {
        KeySource {
            device: DeviceInfo {
                blas: "OpenBLAS 0.3.21 (libopenblas.so.0, SkylakeX)".to_owned(),
                cores: vec![0, 1],
                pinned: true,
                ..DeviceInfo::new("cpu0", DeviceKind::Cpu, DeviceClock::Cores)
            },
            class: "Some CPU".to_owned(),
            host: "a".to_owned(),
            place: "a".to_owned(),
            conditions: HostConditions::default(),
        }
    }

    pub fn device_identity() -> DeviceIdentity {
        match key().identity {
            Identity::Device(device) => device,
            other => panic!("{other:?}"),
        }
    }

    pub fn key() -> StoreKey {
        let work = KeyedWork { element: ElementType::F64, width: 256 };
        make_keys(&[&source(), &source()], work).remove(0)
    }

    /// Returns variants of a document: each has another value in one field, which is named. Fields that are documents
    /// themselves stay as they are.
    pub fn vary<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> Vec<(String, T)> {
        let Value::Object(fields) = serde_json::to_value(value).unwrap() else {
            panic!("no struct");
        };
        fields
            .iter()
            .filter(|(_, old)| !old.is_object())
            .map(|(name, old)| {
                let varied = list_others(old).into_iter().find_map(|other| {
                    let mut varied = fields.clone();
                    varied.insert(name.clone(), other);
                    serde_json::from_value(Value::Object(varied)).ok()
                });
                (name.clone(), varied.unwrap_or_else(|| panic!("{name} has one value")))
            })
            .collect()
    }

    /// Lists values that differ from this one. The type of a field admits some of them.
    fn list_others(old: &Value) -> Vec<Value> {
        match old {
            Value::Bool(old) => vec![(!old).into()],
            Value::Number(old) => vec![(old.as_u64().unwrap() + 1).into()],
            Value::Array(old) if old.is_empty() => vec![vec!["other"].into()],
            Value::Array(_) => vec![Value::Array(Vec::new())],
            _ => ["other", "f32", "cuda", "slowed"]
                .map(Value::from)
                .into_iter()
                .chain([Value::from(7)])
                .collect(),
        }
    }

    #[test]
    fn a_library_is_known_by_its_major_version() {
        for (name, short) in [
            ("OpenBLAS 0.3.21 (libopenblas.so.0, SkylakeX)", "OpenBLAS 0.3"),
            ("Intel MKL 2024.1 (libmkl_rt.so)", "Intel MKL 2024"),
            ("cuBLAS 13.4.1", "cuBLAS 13"),
            ("none", "none"),
            ("", ""),
        ] {
            assert_eq!(shorten_version(name), short);
        }
    }

    pub fn library_source() -> LibrarySource {
        LibrarySource {
            class: "Some CPU".to_owned(),
            host: "a".to_owned(),
            cores: 2,
            element: ElementType::F64,
            libraries: ["OpenBLAS 0.3.21 (x.so)", "gemm (embedded)"].map(str::to_owned).into(),
        }
    }

    #[test]
    fn every_fact_of_a_choice_of_libraries_is_in_its_key() {
        let (source, library) = (library_source(), "gemm (embedded)");
        let key = source.make_key(library);
        for (field, changed) in vary(&source) {
            let other = changed.make_key(library);
            let is_condition = field == "host";
            assert_eq!(other.identity == key.identity, is_condition, "{field}");
            assert_eq!(changed.is_like(&source), is_condition, "{field}");
            assert_eq!(other.conditions != key.conditions, is_condition, "{field}");
        }
        let keys = source.list_keys();
        assert!(keys.len() == 2 && keys[1] == key && keys[0].identity != key.identity);
        assert_eq!(LibrarySource::of_key(&key), Some(source));
        assert_eq!(LibrarySource::of_key(&tests::key()), None);
    }

    const MPI: &str = "Open MPI v4.1.4";
    const PAIR: LinkTimes<'_> = LinkTimes::Pair(["a", "b"]);

    /// Returns a rank on each of these hosts.
    fn place_ranks(hosts: &str) -> Vec<KeySource> {
        hosts
            .chars()
            .map(|host| KeySource { host: host.to_string(), place: host.to_string(), ..source() })
            .collect()
    }

    fn key_links(mpi: &str, ranks: &[KeySource], times: LinkTimes<'_>) -> StoreKey {
        make_link_key(mpi, &ranks.iter().collect::<Vec<_>>(), times)
    }

    #[test]
    fn every_fact_of_links_is_in_their_key() {
        let ranks = place_ranks("aabb");
        let key = key_links(MPI, &ranks, PAIR);
        let [mut quota, mut system, mut machine] = [(); 3].map(|()| ranks.clone());
        // Two hosts that give themselves one name are two hosts.
        let mut named = ranks.clone();
        named.iter_mut().for_each(|rank| rank.host = "a".to_owned());
        quota[1].conditions.quota = Some("0.50".to_owned());
        system[3].conditions.system = Some("6.2".to_owned());
        machine[3].conditions.machine = Some("4a".to_owned());
        for (index, other) in [
            key_links("MPICH 4", &ranks, PAIR),
            key_links(MPI, &ranks, LinkTimes::CpuOf("Some CPU")),
            key_links(MPI, &ranks, LinkTimes::Pair(["a", "c"])),
            key_links(MPI, &place_ranks("abab"), PAIR),
            key_links(MPI, &place_ranks("aaaa"), PAIR),
            key_links(MPI, &place_ranks("aab"), PAIR),
            key_links(MPI, &place_ranks("aabc"), PAIR),
        ]
        .into_iter()
        .enumerate()
        {
            assert_ne!(other.identity, key.identity, "{index}");
        }
        for (ranks, field) in [
            (place_ranks("aacc"), "host"),
            (named, "host"),
            (quota, "quota"),
            (system, "system"),
            (machine.clone(), "machine"),
        ] {
            let other = key_links(MPI, &ranks, PAIR);
            assert_eq!(other.identity, key.identity);
            assert_eq!(key.conditions.list_differences(&other.conditions), [field]);
        }
        let named = key_links(MPI, &machine, PAIR);
        machine.reverse();
        assert_eq!(key_links(MPI, &machine, PAIR), named);
    }
}
