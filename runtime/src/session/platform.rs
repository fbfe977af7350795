//! Platform files: the nodes of a cluster, in TOML.
//!
//! ```toml
//! schema = 1
//!
//! [[node]]                  # one for each rank: in the order of ranks, unless all nodes name their hosts
//! name = "fast"
//! host = "node17"           # each rank gets the next node of its host
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
//! GPUs are given out over all ranks of a host, in the order of ranks and devices, GPUs named by number first. Two
//! devices get the same one only if each of them has `share = true`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use isochron_devices::{DeviceClock, DeviceKind, ElementType, Grouping, Pace};
use isochron_hierarchy::model::{ModelFile, PiecewiseFpm, Point};
use isochron_hierarchy::printable::show_name;
use serde::{Deserialize, Serialize};

use super::known::scale;
use crate::comm::{Comm, agree, agree_on_settings, share_outcome};
use crate::error::Error;
use crate::input::read_text;
use crate::points::read_points;

/// The most cores of a device, which is more than any host has. Paced devices may ask for more than there are.
const MAX_CORES: usize = 65536;

/// The platform format this version reads.
const SCHEMA: u32 = 1;

/// A cluster, node by node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    schema: u32,
    /// Name of the platform.
    #[serde(default)]
    name: String,
    /// The nodes, one for each rank: in the order of ranks, unless they name their hosts.
    #[serde(rename = "node")]
    pub(super) nodes: Vec<NodeSpec>,
}

/// One node: a rank and its devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSpec {
    pub(super) name: String,
    /// The host whose ranks may have the node; empty for any.
    pub(super) host: String,
    pub(super) group: Option<Grouping>,
    #[serde(rename = "device")]
    pub(super) devices: Vec<DeviceSpec>,
}

/// One device of a node: all cores of its rank, unless told otherwise.
///
/// ```
/// use isochron::prelude::*;
///
/// let half = DeviceSpec::new("half speed").on_cores(Cores::Count(2)).slowed(2.0);
/// let gpu = DeviceSpec::gpu("old card").numbered(1).within_memory(8_000_000_000);
/// let node = NodeSpec::new("desk").with_device(half).with_device(gpu);
/// # let _ = node;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceSpec {
    pub(super) name: String,
    pub(super) kind: DeviceKind,
    pub(super) gpu: Option<usize>,
    pub(super) share: bool,
    pub(super) memory_limit: Option<u64>,
    pub(super) host_limit: Option<u64>,
    pub(super) cores: Cores,
    /// At least 1.
    pub(super) pace: Option<f64>,
    /// Path from the folder of the platform file.
    pub(super) points: Option<String>,
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
pub enum Cores {
    /// All cores of the rank; for a GPU, one near it.
    #[default]
    All,
    /// A number of the rank's cores.
    Count(usize),
    /// The cores with these logical numbers.
    List(Vec<u32>),
}

impl NodeSpec {
    /// Makes a node of this name, with the devices found on its host.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Gives the node to a rank on the host of this name. All nodes of a platform name their hosts, or none does.
    #[must_use]
    pub fn on_host(mut self, host: impl Into<String>) -> Self {
        self.host = host.into();
        self
    }

    /// Checks that a rank on this host may have the node.
    ///
    /// # Errors
    /// The reason.
    fn check_host(&self, rank: usize, host: &str) -> Result<(), String> {
        if self.host.is_empty() || self.host == host {
            return Ok(());
        }
        let wanted = &self.host;
        Err(format!(
            "is for a rank on the host {wanted}, but rank {rank} is on {host}"
        ))
    }

    /// Groups the cores that are found by this rule.
    #[must_use]
    pub fn grouped(mut self, grouping: Grouping) -> Self {
        self.group = Some(grouping);
        self
    }

    /// Adds a device. The node then has those that were added, instead of those found on its host.
    #[must_use]
    pub fn with_device(mut self, device: DeviceSpec) -> Self {
        self.devices.push(device);
        self
    }

    /// Returns the pace of work that runs on one core and stands for the whole node. Devices that are slowed down by
    /// `f₁, f₂, …` are together as fast as one that is slowed down by `1/(1/f₁ + 1/f₂ + …)`. A node that is not emulated has
    /// no pace.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a node with a GPU, or with several devices of which one follows points; [`Error::Model`]
    /// for points that make no model.
    pub fn pace_of_core(&self) -> Result<Option<Pace>, Error> {
        if let [device] = &self.devices[..]
            && device.kind == DeviceKind::Cpu
        {
            return device.pace();
        }
        let factors: Result<Vec<f64>, String> = self
            .devices
            .iter()
            .map(DeviceSpec::slowdown_of_core)
            .collect();
        let speed: f64 = factors
            .map_err(|reason| Error::parameter("node", &self.name, reason))?
            .iter()
            .map(|factor| 1.0 / factor)
            .sum();
        Ok(self
            .devices
            .iter()
            .any(|device| device.pace.is_some())
            .then(|| Pace::Slowdown((1.0 / speed).max(1.0))))
    }

    /// Checks the values of the node of this rank.
    ///
    /// # Errors
    /// The reason, which names the node and the device.
    fn check(&self, rank: usize) -> Result<(), String> {
        for name in [&self.name, &self.host] {
            check_name(name).map_err(|reason| format!("node {rank}: {reason}"))?;
        }
        if self.group.is_some() && !self.devices.is_empty() {
            return Err(format!(
                "node {rank} has either `group` or devices of its own, not both"
            ));
        }
        if let Some(core) = self.core_of_two_devices() {
            return Err(format!(
                "node {rank}: core {core} is listed for two devices, which would halve each other's speed"
            ));
        }
        for (index, device) in self.devices.iter().enumerate() {
            device
                .check_values()
                .map_err(|reason| format!("node {rank}, device {index}: {reason}"))?;
        }
        Ok(())
    }

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
    /// Makes a device of cores.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Makes a device of a GPU and its host core: the next free GPU, unless it is [`numbered`](Self::numbered).
    #[must_use]
    pub fn gpu(name: impl Into<String>) -> Self {
        Self {
            kind: DeviceKind::Cuda,
            ..Self::new(name)
        }
    }

    /// Computes on these cores, or feeds the GPU from them.
    #[must_use]
    pub fn on_cores(mut self, cores: Cores) -> Self {
        self.cores = cores;
        self
    }

    /// Takes the GPU with this number in the process.
    #[must_use]
    pub fn numbered(mut self, gpu: usize) -> Self {
        self.gpu = Some(gpu);
        self
    }

    /// Shares its GPU with other devices that share it too.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.share = true;
        self
    }

    /// Uses at most this number of bytes of the GPU's memory.
    #[must_use]
    pub fn within_memory(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Pins at most this number of bytes of host memory for the GPU.
    #[must_use]
    pub fn within_host_memory(mut self, bytes: u64) -> Self {
        self.host_limit = Some(bytes);
        self
    }

    /// Emulates a device that is `factor ≥ 1` times slower.
    #[must_use]
    pub fn slowed(mut self, factor: f64) -> Self {
        self.pace = Some(factor);
        self
    }

    /// Emulates a device with the times of these points: units of `block×block` elements, each updated with an inner
    /// dimension of `block`.
    #[must_use]
    pub fn following(mut self, points: Vec<Point>, block: u64) -> Self {
        self.points = Some("points in memory".to_owned());
        self.loaded = Some(SavedModel {
            kernel: None,
            element: None,
            block,
            points,
        });
        self
    }

    /// Returns the slowdown of the device, 1 without one.
    ///
    /// # Errors
    /// The reason why it is no slower core.
    fn slowdown_of_core(&self) -> Result<f64, String> {
        match (self.kind, &self.points) {
            (DeviceKind::Cuda, _) => Err("it has a GPU, and the work runs on a core".to_owned()),
            (_, Some(_)) => Err("one of its several devices follows points".to_owned()),
            _ => Ok(self.pace.unwrap_or(1.0)),
        }
    }

    /// Returns the emulated pace of the device; `None` if it is not slowed down.
    ///
    /// # Errors
    /// [`Error::Model`] when the saved points make no model.
    pub(super) fn pace(&self) -> Result<Option<Pace>, Error> {
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

    /// Returns a checksum of the times that its points prescribe; `None` without points. Their file may change under
    /// its name.
    pub(super) fn hash_points(&self) -> Option<u32> {
        let model = serde_json::to_string(self.loaded.as_ref()?).ok()?;
        Some(crc32fast::hash(model.as_bytes()))
    }

    /// The clock that the device's time follows.
    pub(super) fn clock(&self) -> DeviceClock {
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
        if self.loaded.is_some() {
            return Err("unknown field `loaded-points`".to_owned());
        }
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
    if name.contains(char::is_control) {
        Err(format!(
            "name = \"{}\": control characters are not allowed",
            show_name(name)
        ))
    } else {
        Ok(())
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
    let text = show_name(text);
    format!("line {} (`{text}`): {message}", 1 + line)
}

/// The origin of the nodes of a session.
#[derive(Debug, Clone, Default)]
pub(super) enum PlatformSource {
    /// Every rank uses the devices that it finds.
    #[default]
    Found,
    /// A platform file, read on the head rank.
    File(PathBuf),
    /// A platform in memory, the same on all ranks.
    Whole(Platform),
    /// The node of this rank.
    Own(NodeSpec),
}

impl PlatformSource {
    /// Returns this rank's node.
    ///
    /// # Errors
    /// On every rank: [`Error::Settings`] for ranks with sources of different kinds, [`Error::File`],
    /// [`Error::Parameter`].
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn find_node(&self, comm: &dyn Comm) -> Result<NodeSpec, Error> {
        let kind = match self {
            Self::Found => "found devices",
            Self::File(_) => "a file",
            Self::Whole(_) => "a platform in memory",
            Self::Own(_) => "a node of each rank",
        };
        let settings = [("platform".to_owned(), kind.to_owned())];
        agree_on_settings(comm, &settings.into())?;
        match self {
            Self::Found => Ok(NodeSpec::default()),
            Self::File(path) => Ok(Platform::load(comm, path)?.nodes.swap_remove(comm.rank())),
            Self::Whole(platform) => {
                let hosts = comm.gather(&comm.host_name().to_owned())?;
                agree(comm, platform.pick_node(comm.rank(), &hosts))
            }
            Self::Own(node) => {
                let (rank, host) = (comm.rank(), comm.host_name());
                let checked = node.check(rank).and_then(|()| node.check_host(rank, host));
                let checked = checked.map_err(refuse_node);
                agree(comm, checked.map(|()| node.clone()))
            }
        }
    }
}

fn refuse_node(reason: String) -> Error {
    Error::parameter("platform", "in memory", reason)
}

impl Platform {
    /// Makes a platform of these nodes: in the order of ranks, unless they [name their hosts](NodeSpec::on_host).
    #[must_use]
    pub fn new(nodes: Vec<NodeSpec>) -> Self {
        Self {
            schema: SCHEMA,
            name: String::new(),
            nodes,
        }
    }

    /// Reads a platform from the text of a platform file. Points files are looked up in `folder`.
    ///
    /// # Errors
    /// [`Error::Parameter`] with the reason, and the line if it has one.
    pub fn from_toml(text: &str, folder: &Path) -> Result<Self, Error> {
        Self::parse(text, folder).map_err(refuse_node)
    }

    /// Returns the nodes. Of a platform that was [loaded](Self::load), they are in the order of ranks.
    pub fn nodes(&self) -> &[NodeSpec] {
        &self.nodes
    }

    /// Returns the node of a rank, of all that run on these hosts. All nodes are checked.
    fn pick_node(&self, rank: usize, hosts: &[String]) -> Result<NodeSpec, Error> {
        for (index, node) in self.nodes.iter().enumerate() {
            node.check(index).map_err(refuse_node)?;
        }
        let mut arranged = self.clone();
        arranged.arrange(hosts).map_err(refuse_node)?;
        Ok(arranged.nodes.swap_remove(rank))
    }

    /// Puts the nodes in the order of the ranks on these hosts. If nodes name their hosts, each rank gets the next node of its
    /// host; hosts of one name are one here.
    ///
    /// # Errors
    /// The reason, if a rank gets no node.
    fn arrange(&mut self, hosts: &[String]) -> Result<(), String> {
        let (nodes, ranks) = (self.nodes.len(), hosts.len());
        if nodes < ranks {
            return Err(format!(
                "describes {nodes} nodes, but there are {ranks} ranks"
            ));
        }
        if self.nodes.iter().all(|node| node.host.is_empty()) {
            return Ok(());
        }
        if let Some(index) = self.nodes.iter().position(|node| node.host.is_empty()) {
            return Err(format!("node {index} has no `host`, but others have one"));
        }
        let named: Vec<String> = self.nodes.iter().map(|node| node.host.clone()).collect();
        let mut left = std::mem::take(&mut self.nodes);
        for (rank, host) in hosts.iter().enumerate() {
            let Some(next) = left.iter().position(|node| node.host == *host) else {
                let named = named.join(", ");
                return Err(format!(
                    "is for ranks on the hosts {named}, but rank {rank} is on {host} and has no node left: describe these \
                     hosts by `isochron config`, or remove every `host` to take the nodes in the order of ranks"
                ));
            };
            self.nodes.push(left.remove(next));
        }
        self.nodes.append(&mut left);
        Ok(())
    }

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
            node.check(rank)?;
            for (index, device) in node.devices.iter_mut().enumerate() {
                device
                    .load_points(folder)
                    .map_err(|reason| format!("node {rank}, device {index}: {reason}"))?;
            }
        }
        Ok(platform)
    }

    /// Reads the platform file at `path` on the head rank, puts its nodes in the order of ranks and passes it to all ranks.
    ///
    /// # Errors
    /// [`Error::File`] on every rank when it cannot be read, has unknown keys or values out of range,
    /// describes fewer nodes than there are ranks, or is for other hosts.
    ///
    /// # Collective
    /// All ranks.
    pub fn load(comm: &dyn Comm, path: &Path) -> Result<Self, Error> {
        let hosts = comm.gather(&comm.host_name().to_owned())?;
        let read = (comm.rank() == 0).then(|| Self::read_file(path, &hosts));
        share_outcome(comm, 0, read)
    }

    /// Reads a platform file for ranks on these hosts.
    fn read_file(path: &Path, hosts: &[String]) -> Result<Self, Error> {
        let source = read_text(path).map_err(|error| Error::file(path, error))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&source, folder)
            .and_then(|mut platform| platform.arrange(hosts).map(|()| platform))
            .map_err(|reason| Error::file(path, reason))
    }
}

impl SavedModel {
    /// Reads a points file that names its block size. If the updates had another inner dimension, which the header
    /// `panel` tells, their times become those of the block size.
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = match read_points(path) {
            Ok(file) => file,
            Err(Error::File { reason, .. }) => return Err(reason),
            Err(error) => return Err(error.to_string()),
        };
        let block = read_size(&file, "block").ok_or("the header `# block: N` is missing")?;
        let panel = read_size(&file, "panel").unwrap_or(block);
        if file.points.is_empty() {
            return Err("holds no points".to_owned());
        }
        let element = file.headers.get("element").map(|name| name.parse());
        Ok(Self {
            kernel: file.headers.get("kernel").cloned(),
            element: element.transpose()?,
            block,
            points: scale_points(file.points, block as f64 / panel as f64),
        })
    }
}

/// Reads a header that is a number above 0.
fn read_size(file: &ModelFile, key: &str) -> Option<u64> {
    let size = file.headers.get(key)?.parse().ok();
    size.filter(|&size| size > 0)
}

fn scale_points(points: Vec<Point>, factor: f64) -> Vec<Point> {
    points
        .into_iter()
        .map(|point| scale(point, factor))
        .collect()
}

#[cfg(test)]
mod tests;
