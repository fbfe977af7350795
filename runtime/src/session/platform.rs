//! Platform files: the nodes of a cluster, in TOML.
//!
//! ```toml
//! schema = 1
//!
//! [[node]]                  # one per rank, in rank order
//! name = "fast"
//!
//! [[node]]
//! group = "numa"            # its devices: auto (default), package, numa, kind or node
//!
//! [[node]]
//! [[node.device]]           # without devices: those found on the host
//! name = "slow cores"
//! cores = 2                 # number of the rank's cores, or a list of logical core numbers
//! pace = 4.0                # emulation: 4 times slower than its cores
//!
//! [[node]]
//! [[node.device]]
//! cores = 1
//! points = "models/old.points"  # emulation: with the speeds of this saved model
//!
//! [[node.device]]
//! kind = "cuda"             # a GPU and its host cores; default for `cores`: one near the GPU
//! gpu = 0                   # its number in the process; default: the next free one of the host
//! share = true              # other devices with `share = true` may have the same GPU; default: false
//! memory_limit = 8000000000 # bytes of its memory that may be used; default: all that is free, or its part if shared
//! host_limit = 1000000000   # bytes of host memory that may be pinned; default: its part of a quarter of the free memory
//! ```
//!
//! GPUs are given out over all ranks of a host, in the order of ranks and devices, GPUs named by number first. Two devices
//! get the same one only if each of them has `share = true`.

use std::collections::BTreeSet;
use std::path::Path;

use isochron_devices::{DeviceClock, DeviceKind, ElementType, Grouping, Pace};
use isochron_hierarchy::model::{ModelFile, PiecewiseFpm, Point};
use serde::{Deserialize, Serialize};

use super::known::scale;
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::input::read_text;

/// The most cores of a device, which is more than any host has. Paced devices may ask for more than there are.
const MAX_CORES: usize = 65536;

/// The platform format this version reads.
const SCHEMA: u32 = 1;

/// A cluster, node by node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Platform {
    schema: u32,
    /// Name of the platform.
    #[serde(default)]
    pub name: String,
    /// The nodes, by rank.
    #[serde(rename = "node")]
    pub nodes: Vec<NodeSpec>,
}

/// One node: a rank and its devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct NodeSpec {
    /// Name of the node.
    pub name: String,
    /// Rule by which cores form one device, for a node without listed devices.
    pub group: Option<Grouping>,
    /// Its devices; if empty, those found on the host.
    #[serde(rename = "device")]
    pub devices: Vec<DeviceSpec>,
}

/// One device of a node, as the module's example describes its keys.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DeviceSpec {
    pub name: String,
    pub kind: DeviceKind,
    pub gpu: Option<usize>,
    pub share: bool,
    pub memory_limit: Option<u64>,
    pub host_limit: Option<u64>,
    pub cores: Cores,
    /// At least 1.
    pub pace: Option<f64>,
    /// Path from the folder of the platform file.
    pub points: Option<String>,
    /// The contents of that file, once it is loaded.
    #[serde(rename = "loaded-points")]
    loaded: Option<SavedModel>,
}

/// The content of a points file, as it travels from the head rank to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedModel {
    /// The kernel and the type of the elements, if the file names them.
    pub kernel: Option<String>,
    pub element: Option<ElementType>,
    pub block: u64,
    pub points: Vec<Point>,
}

/// The cores on which a device computes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "cores must be a number of cores or a list of logical core numbers"
)]
pub(super) enum Cores {
    /// All cores of the rank.
    #[default]
    All,
    /// A number of the rank's cores.
    Count(usize),
    /// The cores with these logical numbers.
    List(Vec<u32>),
}

impl NodeSpec {
    /// Returns a core that two devices list, unless their clocks tolerate it.
    fn core_of_two_devices(&self) -> Option<u32> {
        let devices = self.devices.iter();
        let mut all = Vec::new();
        for device in devices.filter(|device| !device.clock().tolerates_sharing()) {
            if let Cores::List(list) = &device.cores {
                all.extend(list.iter().copied().collect::<BTreeSet<u32>>());
            }
        }
        find_repeated(&all)
    }
}

impl DeviceSpec {
    /// Returns the emulated pace of the device; `None` if it is not slowed down.
    ///
    /// # Errors
    /// [`Error::Model`] when the saved points make no model.
    pub fn pace(&self) -> Result<Option<Pace>, Error> {
        if let Some(SavedModel { block, points, .. }) = &self.loaded {
            let model = PiecewiseFpm::from_points(points.clone())?;
            let name = self.points.clone().unwrap_or_default();
            return Ok(Some(Pace::Points {
                name,
                model,
                block: *block,
            }));
        }
        Ok(self.pace.map(Pace::Slowdown))
    }

    /// Returns a checksum of the times that its points prescribe; `None` without points. Their file may change under its name.
    pub fn hash_points(&self) -> Option<u32> {
        let model = serde_json::to_string(self.loaded.as_ref()?).ok()?;
        Some(crc32fast::hash(model.as_bytes()))
    }

    /// The clock that the device's time follows.
    pub fn clock(&self) -> DeviceClock {
        match self.kind {
            _ if self.points.is_some() => DeviceClock::Prescribed,
            _ if self.pace.is_some() => DeviceClock::Slowed,
            DeviceKind::Cpu => DeviceClock::Cores,
            DeviceKind::Cuda => DeviceClock::Accelerator,
        }
    }

    fn check_values(&self) -> Result<(), String> {
        check_name(&self.name)?;
        if self.pace.is_some() && self.points.is_some() {
            return Err("a device has either `pace` or `points`, not both".to_string());
        }
        if self.loaded.is_some() {
            return Err("unknown field `loaded-points`".to_string());
        }
        let limits = self.memory_limit.or(self.host_limit);
        if self.kind == DeviceKind::Cpu && (self.gpu.is_some() || self.share || limits.is_some()) {
            let keys = "`gpu`, `share`, `memory_limit` and `host_limit`";
            return Err(format!("{keys} are for kind = \"cuda\""));
        }
        if let Some(pace) = self.pace
            && !(pace.is_finite() && pace >= 1.0)
        {
            let advice = "a device can only be made slower; use 1.0 or more";
            return Err(format!("pace = {pace}: {advice}"));
        }
        match &self.cores {
            Cores::Count(count) if *count > MAX_CORES => Err(format!(
                "cores = {count}: a device has at most {MAX_CORES} cores"
            )),
            Cores::Count(0) => Err("cores = 0: a device needs at least one core".to_string()),
            Cores::List(list) if list.is_empty() => {
                Err("cores = []: a device needs at least one core".to_string())
            }
            Cores::List(list) => match find_repeated(list) {
                Some(core) => Err(format!("cores: {core} is listed twice")),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Loads the model that the device's pace follows, if it names one.
    fn load_points(&mut self, folder: &Path) -> Result<(), String> {
        if let Some(name) = &self.points {
            let path = folder.join(name);
            let model = SavedModel::read(&path);
            self.loaded = Some(model.map_err(|reason| format!("{}: {reason}", path.display()))?);
        }
        Ok(())
    }
}

/// Refuses a name that would break the lines of reports and logs.
fn check_name(name: &str) -> Result<(), String> {
    match name.contains(char::is_control) {
        true => Err(format!(
            "name = {name:?}: control characters are not allowed"
        )),
        false => Ok(()),
    }
}

/// Returns a number that occurs twice.
fn find_repeated(list: &[u32]) -> Option<u32> {
    let mut seen = BTreeSet::new();
    list.iter().copied().find(|&core| !seen.insert(core))
}

/// Describes a mistake in TOML in one line.
fn describe_mistake(error: &toml::de::Error, source: &str) -> String {
    let message: Vec<&str> = error.message().lines().collect();
    let message = message.join(", ");
    let Some(before) = error.span().and_then(|span| source.get(..span.start)) else {
        return message;
    };
    let line = before.matches('\n').count();
    let text = source.lines().nth(line).unwrap_or_default().trim();
    let text = text.replace(char::is_control, " ");
    format!("line {} (`{text}`): {message}", 1 + line)
}

impl Platform {
    /// Reads a platform from TOML; points files are looked up in `folder`.
    ///
    /// # Errors
    /// The reason, with the line if it has one.
    fn parse(source: &str, folder: &Path) -> Result<Self, String> {
        let mut platform: Platform =
            toml::from_str(source).map_err(|error| describe_mistake(&error, source))?;
        let schema = platform.schema;
        if schema != SCHEMA {
            return Err(format!(
                "schema = {schema}: this version reads schema {SCHEMA}"
            ));
        }
        check_name(&platform.name)?;
        for (rank, node) in platform.nodes.iter_mut().enumerate() {
            check_name(&node.name).map_err(|reason| format!("node {rank}: {reason}"))?;
            if node.group.is_some() && !node.devices.is_empty() {
                return Err(format!(
                    "node {rank} has either `group` or devices of its own, not both"
                ));
            }
            if let Some(core) = node.core_of_two_devices() {
                return Err(format!(
                    "node {rank}: core {core} is listed for two devices, which would halve each other's speed"
                ));
            }
            for (index, device) in node.devices.iter_mut().enumerate() {
                device
                    .check_values()
                    .and_then(|()| device.load_points(folder))
                    .map_err(|reason| format!("node {rank}, device {index}: {reason}"))?;
            }
        }
        Ok(platform)
    }

    /// Reads the platform file at `path` on the head rank and passes it to all ranks.
    ///
    /// # Errors
    /// [`Error::File`] on every rank when it cannot be read, has unknown keys or values out of range, or
    /// describes fewer nodes than there are ranks.
    ///
    /// # Collective
    /// All ranks.
    pub fn load(comm: &dyn Comm, path: &Path) -> Result<Self, Error> {
        let read = (comm.rank() == 0).then(|| Self::read_file(path, comm.size()));
        comm.share(0, agree(comm, read.transpose())?)
    }

    /// Reads a platform file, which must describe at least this number of ranks.
    fn read_file(path: &Path, ranks: usize) -> Result<Self, Error> {
        let source = read_text(path).map_err(|error| Error::file(path, error))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let platform = Self::parse(&source, folder).map_err(|reason| Error::file(path, reason))?;
        let nodes = platform.nodes.len();
        if nodes < ranks {
            let reason = format!("describes {nodes} nodes, but there are {ranks} ranks");
            return Err(Error::file(path, reason));
        }
        Ok(platform)
    }
}

impl SavedModel {
    /// Reads a points file that names its block size. If the updates had another inner dimension, which the header `panel`
    /// tells, their times become those of the block size.
    pub fn read(path: &Path) -> Result<Self, String> {
        let source = read_text(path).map_err(|error| error.to_string())?;
        let file = ModelFile::parse(&source).map_err(|error| error.to_string())?;
        let read_size = |key: &str| file.headers.get(key)?.parse().ok().filter(|&size| size > 0);
        let block: u64 = read_size("block").ok_or("the header `# block: N` is missing")?;
        let panel = read_size("panel").unwrap_or(block);
        if file.points.is_empty() {
            return Err("holds no points".to_owned());
        }
        let element = file.headers.get("element").map(|name| name.parse());
        Ok(Self {
            kernel: file.headers.get("kernel").cloned(),
            element: element.transpose()?,
            block,
            points: scale_points(&file.points, block as f64 / panel as f64),
        })
    }
}

fn scale_points(points: &[Point], factor: f64) -> Vec<Point> {
    let scaled = points.iter().map(|point| scale(*point, factor));
    scaled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(source: &str) -> Result<Platform, String> {
        Platform::parse(source, Path::new("."))
    }

    #[test]
    fn nodes_and_devices_are_read() {
        let source = "schema = 1\n[[node]]\n[[node.device]]\ncores = 2\npace = 4.0\n[[node]]\nname = \"b\"\n";
        let platform = parse(source).unwrap();
        assert_eq!(platform.nodes.len(), 2);
        assert_eq!(platform.nodes[0].devices[0].cores, Cores::Count(2));
        assert_eq!(platform.nodes[0].devices[0].pace, Some(4.0));
        assert!(platform.nodes[1].devices.is_empty());
        let gpu = "schema = 1\n[[node]]\n[[node.device]]\nkind = \"cuda\"\ngpu = 1\nmemory_limit = 1000\nhost_limit = 500\nshare = true\n";
        let device = parse(gpu)
            .unwrap()
            .nodes
            .swap_remove(0)
            .devices
            .swap_remove(0);
        assert_eq!(device.kind, DeviceKind::Cuda);
        assert_eq!((device.gpu, device.share), (Some(1), true));
        assert_eq!(
            (device.memory_limit, device.host_limit),
            (Some(1000), Some(500))
        );
        let grouped = parse("schema = 1\n[[node]]\ngroup = \"numa\"\n").unwrap();
        assert_eq!(grouped.nodes[0].group, Some(Grouping::Numa));
    }

    #[test]
    fn errors_name_the_reason() {
        let wrong = [
            (
                "schema = 1\n[[node]]\nspeed = 3\n",
                "line 3 (`speed = 3`): unknown field `speed`",
            ),
            ("schema = 2\nnode = []\n", "schema = 2"),
            (
                "schema = 1\n[[node]]\n[[node.device]]\npace = 0.5\n",
                "pace = 0.5",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\ncores = 0\n",
                "at least one core",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\npace = 2.0\npoints = \"x\"\n",
                "not both",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\npoints = \"no-such.points\"\n",
                "no-such.points",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\ncores = \"all\"\n",
                "a number of cores or a list",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\ncores = [1, 0, 1]\n",
                "1 is listed twice",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\ncores = [1]\n[[node.device]]\ncores = [0, 1]\n",
                "core 1 is listed for two devices",
            ),
            (
                "schema = 1\n[[node]]\ngroup = \"socket\"\n",
                "unknown variant `socket`",
            ),
            (
                "schema = 1\n[[node]]\ngroup = \"numa\"\n[[node.device]]\n",
                "either `group` or devices",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\ngpu = 0\n",
                "are for kind = \"cuda\"",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\nhost_limit = 5\n",
                "`host_limit` are for kind = \"cuda\"",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\nshare = true\n",
                "are for kind = \"cuda\"",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\nkind = \"tpu\"\n",
                "unknown variant `tpu`",
            ),
            (
                "schema = 1\n[[node\n",
                "line 2 (`[[node`): unclosed array table, expected `]]`",
            ),
        ];
        assert_refused(&wrong);
    }

    #[test]
    fn names_with_control_characters_and_numbers_out_of_range_are_refused() {
        assert_refused(&[
            (
                "schema = 1\nname = \"a\\tb\"\n[[node]]\n",
                "name = \"a\\tb\": control characters",
            ),
            (
                "schema = 1\n[[node]]\n[[node]]\nname = \"\\u001b[31m\"\n",
                "node 1: name = \"\\u{1b}[31m\": control",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\n[[node.device]]\nname = \"a\\nb\"\n",
                "node 0, device 1: name = \"a\\nb\": control",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\ncores = 1000000000\npace = 2.0\n",
                "node 0, device 0: cores = 1000000000: a device has at most 65536",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\ncores = 99999999999999999999\n",
                "cores",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\ncores = [-1]\n",
                "a number of cores or a list",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\nkind = \"cuda\"\ngpu = -1\n",
                "-1",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\npace = nan\n",
                "pace = NaN",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\npace = inf\n",
                "pace = inf",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\npace = -2.0\n",
                "pace = -2",
            ),
            (
                "schema = 1\n[[node]]\n[[node.device]]\npace = 0.0\n",
                "pace = 0",
            ),
        ]);
    }

    fn assert_refused(wrong: &[(&str, &str)]) {
        for &(source, reason) in wrong {
            let error = parse(source).unwrap_err();
            assert_eq!(error.lines().count(), 1, "{error}");
            assert!(
                error.contains(reason),
                "{error:?} should contain {reason:?}"
            );
        }
    }
}
