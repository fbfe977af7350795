//! The key of stored times: identity and conditions.

use isochron_devices::{DeviceInfo, DeviceKind, ElementType, HostConditions};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What has to be equal for times to be those of the same work on the same kind of device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The processor's model, or the GPU's with its memory.
    pub class: String,
    /// Logical indices of the cores that it computes with.
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
    /// Block size of the problem.
    pub block: usize,
    /// Inner dimension of an update.
    pub width: usize,
    /// `true` if the times include transfers to the device's own memory and back.
    pub transfers: bool,
    /// The BLAS with its major version; the minor one too if that is 0.
    pub blas: String,
    /// The pace that slows it down on purpose; `None` at full speed.
    pub pace: Option<String>,
    /// The other devices that computed on its host at the same time, each by its kind and its cores.
    pub corunners: Vec<String>,
}

/// What may differ from run to run: a difference costs a measurement, and the times stay in use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// Name of the host.
    pub host: String,
    /// The GPU's unique number.
    pub uuid: Option<String>,
    /// Version of the GPU's driver.
    pub driver: Option<String>,
    /// Version of the system.
    pub system: Option<String>,
    /// Governor of the cores' clocks.
    pub governor: Option<String>,
    /// Highest clock that the system allows the cores.
    pub clock_cap: Option<String>,
    /// `on` or `off`: clocks above the nominal one.
    pub boost: Option<String>,
    /// Highest power that the system allows the processor.
    pub power_cap: Option<String>,
    /// CPU quota of the control groups, in cores.
    pub quota: Option<String>,
    /// The BLAS with its version, its file and its kernels.
    pub blas: String,
    /// Version of Isochron.
    pub isochron: String,
}

/// The key of stored times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreKey {
    /// What has to be equal.
    pub identity: Identity,
    /// What may differ.
    pub conditions: Conditions,
}

/// The work whose times a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyedWork {
    /// Type of the elements.
    pub element: ElementType,
    /// Block size of the problem.
    pub block: usize,
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
    /// Name of its host.
    pub host: String,
    /// The state of its host.
    pub conditions: HostConditions,
}

/// The update of a part of C, `C_j += alpha·A_w·B_wj`.
const UPDATE: (&str, u32) = ("gemm-update", 1);

impl KeySource {
    /// Makes the key for some work of this device while `corunners` computed on its host. Those who write times and those who
    /// look for them call this function, so that they cannot differ.
    pub fn make_key(&self, work: KeyedWork, corunners: &[&Self]) -> StoreKey {
        let device = &self.device;
        let mut beside: Vec<String> = corunners.iter().map(|other| other.describe()).collect();
        beside.sort();
        let state = self.conditions.clone();
        StoreKey {
            identity: Identity {
                class: self.class.clone(),
                cores: device.cores.clone(),
                pinned: device.pinned,
                threads: device.cores.len(),
                element: work.element,
                kernel: UPDATE.0.to_owned(),
                kernel_version: UPDATE.1,
                block: work.block,
                width: work.width,
                transfers: device.kind == DeviceKind::Cuda,
                blas: shorten_version(&device.blas),
                pace: device.paced.clone(),
                corunners: beside,
            },
            conditions: Conditions {
                host: self.host.clone(),
                uuid: state.uuid,
                driver: state.driver,
                system: state.system,
                governor: state.governor,
                clock_cap: state.clock_cap,
                boost: state.boost,
                power_cap: state.power_cap,
                quota: state.quota,
                blas: device.blas.clone(),
                isochron: env!("CARGO_PKG_VERSION").to_owned(),
            },
        }
    }

    /// Describes the device as it disturbs others: its class, the number of its cores, and its pace.
    fn describe(&self) -> String {
        let (class, cores) = (&self.class, self.device.cores.len());
        match &self.device.paced {
            None => format!("{class}, cores {cores}"),
            Some(pace) => format!("{class}, cores {cores}, {pace}"),
        }
    }
}

/// Returns the name of a library and its major version; a major version of 0 says nothing without the minor one.
fn shorten_version(name: &str) -> String {
    let mut words = name.split_whitespace();
    let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let library: Vec<&str> = words
        .by_ref()
        .take_while(|word| !is_version(word))
        .collect();
    let version = name.split_whitespace().find(is_version).unwrap_or_default();
    let mut numbers = version.split('.');
    let major = numbers.next().unwrap_or_default();
    let major = match (major, numbers.next()) {
        ("0", Some(minor)) => format!("0.{minor}"),
        _ => major.to_owned(),
    };
    format!("{} {major}", library.join(" "))
        .trim_end()
        .to_owned()
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
        let pairs = mine
            .into_iter()
            .filter(|(name, value)| theirs.get(name) != Some(value));
        pairs.map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use isochron_devices::DeviceClock;

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
            conditions: HostConditions::default(),
        }
    }

    pub fn key() -> StoreKey {
        let work = KeyedWork {
            element: ElementType::F64,
            block: 128,
            width: 256,
        };
        source().make_key(work, &[&source()])
    }

    /// Returns variants of a document: each has another value in one field, which is named.
    pub fn vary<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> Vec<(String, T)> {
        let Value::Object(fields) = serde_json::to_value(value).unwrap() else {
            panic!("no struct");
        };
        let varied = fields.iter().map(|(name, old)| {
            let new = match old {
                Value::Null => "other".into(),
                Value::Bool(old) => (!old).into(),
                Value::Number(old) => (old.as_u64().unwrap() + 1).into(),
                Value::Array(_) => Value::Array(Vec::new()),
                Value::String(old) if old == "f64" => "f32".into(),
                _ => "other".into(),
            };
            let mut varied = fields.clone();
            varied.insert(name.clone(), new);
            let varied = serde_json::from_value(Value::Object(varied)).unwrap();
            (name.clone(), varied)
        });
        varied.collect()
    }

    #[test]
    fn a_library_is_known_by_its_major_version() {
        for (name, short) in [
            (
                "OpenBLAS 0.3.21 (libopenblas.so.0, SkylakeX)",
                "OpenBLAS 0.3",
            ),
            ("Intel MKL 2024.1 (libmkl_rt.so)", "Intel MKL 2024"),
            ("cuBLAS 13.4.1", "cuBLAS 13"),
            ("none", "none"),
            ("", ""),
        ] {
            assert_eq!(shorten_version(name), short);
        }
    }

    #[test]
    fn every_fact_of_a_device_is_in_its_key() {
        let (work, key) = (
            KeyedWork {
                element: ElementType::F64,
                block: 128,
                width: 256,
            },
            key(),
        );
        type Change = fn(&mut KeySource, &mut KeyedWork);
        let identities: [Change; 10] = [
            |source, _| source.class.push('x'),
            |source, _| source.device.cores = vec![0, 2],
            |source, _| source.device.cores = vec![0, 1, 2],
            |source, _| source.device.pinned = false,
            |source, _| source.device.paced = Some("slowdown 2".to_owned()),
            |source, _| source.device.kind = DeviceKind::Cuda,
            |source, _| source.device.blas = "OpenBLAS 0.4".to_owned(),
            |_, work| work.element = ElementType::C64,
            |_, work| work.block = 64,
            |_, work| work.width = 128,
        ];
        for (index, change) in identities.iter().enumerate() {
            let (mut source, mut work) = (source(), work);
            change(&mut source, &mut work);
            let other = source.make_key(work, &[&tests::source()]);
            assert_ne!(other.identity, key.identity, "{index}");
        }
        let conditions: [Change; 10] = [
            |source, _| source.host = "b".to_owned(),
            |source, _| source.device.blas.push('x'),
            |source, _| source.conditions.uuid = Some("x".to_owned()),
            |source, _| source.conditions.driver = Some("x".to_owned()),
            |source, _| source.conditions.system = Some("x".to_owned()),
            |source, _| source.conditions.governor = Some("x".to_owned()),
            |source, _| source.conditions.clock_cap = Some("x".to_owned()),
            |source, _| source.conditions.boost = Some("x".to_owned()),
            |source, _| source.conditions.power_cap = Some("x".to_owned()),
            |source, _| source.conditions.quota = Some("x".to_owned()),
        ];
        for (index, change) in conditions.iter().enumerate() {
            let (mut source, mut work) = (source(), work);
            change(&mut source, &mut work);
            let other = source.make_key(work, &[&tests::source()]);
            assert_eq!(other.identity, key.identity, "{index}");
            assert_eq!(key.conditions.list_differences(&other.conditions).len(), 1);
        }
        assert_ne!(source().make_key(work, &[]).identity, key.identity);
        // The name of a device tells nothing about it.
        let mut named = source();
        named.device.name = "other".to_owned();
        assert_eq!(named.make_key(work, &[&named]), key);
    }
}
