//! The description of a node: a rank and its devices, as a platform file has it.

use std::collections::BTreeSet;
use std::iter::repeat_n;

use isochron_hierarchy::model::{PiecewiseFpm, Point};
use isochron_hierarchy::printable::show_name;
use isochron_hierarchy::problem::ElementType;
use serde::{Deserialize, Serialize};

use super::grouping::Grouping;
use crate::contract::{DeviceClock, DeviceError, DeviceKind};
use crate::paced::Pace;

/// The most cores of a device, which is more than any host has. Paced devices may ask for more than there are.
const MAX_CORES: usize = 65536;

/// The most nodes that one entry of a platform file stands for.
const MAX_NODES: usize = 65536;

/// One node: a rank and its devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct NodeSpec {
    /// Name of the node in reports.
    pub(super) name: String,
    /// Name of its host; all nodes have one, or none. Each rank gets the next node of its host.
    pub(super) host: String,
    /// Number of nodes like this one, which follow each other; 1 by default.
    pub(super) count: Option<usize>,
    /// Rule by which cores form one device, for a node without devices of its own; `auto` by default.
    pub(super) group: Option<Grouping>,
    /// Its devices; without them, the devices that are found on the host.
    #[serde(rename = "device")]
    pub(super) devices: Vec<DeviceSpec>,
}

/// One device of a node: all cores of its rank, unless told otherwise.
///
/// ```
/// use isochron_devices::internal::{Cores, DeviceSpec, NodeSpec};
///
/// let half = DeviceSpec::new("half speed").on_cores(Cores::Count(2)).slowed(2.0);
/// let gpu = DeviceSpec::gpu("old card").numbered(1).within_memory(8_000_000_000);
/// let node = NodeSpec::new("desk").with_device(half).with_device(gpu);
/// # let _ = node;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DeviceSpec {
    /// Its name in reports.
    pub(super) name: String,
    /// Its kind; `cpu` by default.
    pub(super) kind: DeviceKind,
    /// Number of the GPU in the process; without it the next one of the host that no device has.
    pub(super) gpu: Option<usize>,
    /// `true` if other devices with `share = true` may have the same GPU.
    pub(super) share: bool,
    /// Bytes of GPU memory that may be used; by default the free memory, or an equal part of a shared GPU.
    pub(super) memory_limit: Option<u64>,
    /// Bytes of host memory that may be pinned for the GPU; by default all GPUs of the host share a quarter of its
    /// free memory.
    pub(super) host_limit: Option<u64>,
    /// Number of the rank's cores for it, or a list of logical core numbers. The default is all, or for a GPU one
    /// near core.
    pub(super) cores: Cores,
    /// Emulation: factor by which the device is slower than its cores, at least 1.
    pub(super) pace: Option<f64>,
    /// Emulation: points file, relative to this file, with the speeds that the device has. Not with `pace`. The file
    /// needs the header `# block: N`.
    pub(super) points: Option<String>,
    /// The contents of that file, once it is loaded.
    #[serde(rename = "loaded-points")]
    #[cfg_attr(feature = "schemars", schemars(skip))]
    loaded: Option<SavedModel>,
}

/// The content of a points file, as it travels from the head rank to the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedModel {
    /// The kernel, if the file names it.
    pub kernel: Option<String>,
    /// The type of the elements, if the file names it.
    pub element: Option<ElementType>,
    /// Elements on the side of a unit.
    pub block: u64,
    /// The measured times.
    pub points: Vec<Point>,
}

/// The cores on which a device computes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "cores must be a number of cores or a list of logical core numbers")]
pub enum Cores {
    /// All cores of the rank; for a GPU, one near it.
    #[default]
    #[cfg_attr(feature = "schemars", schemars(skip))]
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
        Self { name: name.into(), ..Self::default() }
    }

    /// Gives the node to a rank on the host of this name. All nodes of a platform name their hosts, or none does.
    #[must_use]
    pub fn on_host(mut self, host: impl Into<String>) -> Self {
        self.host = host.into();
        self
    }

    /// The name; empty without one.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host whose ranks may have the node; empty for any.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The rule by which cores that are found are grouped; `None` for the session's.
    pub fn grouping(&self) -> Option<Grouping> {
        self.group
    }

    /// Returns as many nodes like this one as it counts for.
    pub fn repeat(self) -> impl Iterator<Item = Self> {
        let count = self.count.unwrap_or(1);
        repeat_n(Self { count: None, ..self }, count)
    }

    /// The devices; none for those that are found.
    pub fn devices(&self) -> &[DeviceSpec] {
        &self.devices
    }

    /// Loads the models that its devices' paces follow: `read` returns that of a name.
    ///
    /// # Errors
    /// Returns the reason, which names the device.
    pub fn load_points(
        &mut self,
        read: &mut dyn FnMut(&str) -> Result<SavedModel, String>,
    ) -> Result<(), String> {
        for (index, device) in self.devices.iter_mut().enumerate() {
            device.load_points(read).map_err(|reason| format!("device {index}: {reason}"))?;
        }
        Ok(())
    }

    /// Checks that a rank on this host may have the node.
    ///
    /// # Errors
    /// Returns the reason why it does not fit.
    pub fn check_host(&self, rank: usize, host: &str) -> Result<(), String> {
        if self.host.is_empty() || self.host == host {
            return Ok(());
        }
        let wanted = &self.host;
        Err(format!("is for a rank on the host {wanted}, but rank {rank} is on {host}"))
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
    /// Returns [`DeviceError::Parameter`] for a node with a GPU, or with several devices of which one follows points;
    /// [`DeviceError::Model`] for points that make no model.
    pub fn pace_of_core(&self) -> Result<Option<Pace>, DeviceError> {
        if let [device] = &self.devices[..]
            && device.kind == DeviceKind::Cpu
        {
            return device.pace();
        }
        let factors: Result<Vec<f64>, String> =
            self.devices.iter().map(DeviceSpec::slowdown_of_core).collect();
        let speed: f64 = factors
            .map_err(|reason| DeviceError::parameter("node", &self.name, reason))?
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
    /// Returns the reason, which names the node and the device.
    pub fn check(&self, rank: usize) -> Result<(), String> {
        for name in [&self.name, &self.host] {
            check_name(name).map_err(|reason| format!("node {rank}: {reason}"))?;
        }
        if let Some(count) = self.count.filter(|count| !(1..=MAX_NODES).contains(count)) {
            return Err(format!("node {rank}: count = {count}: 1 to {MAX_NODES} nodes are alike"));
        }
        if self.group.is_some() && !self.devices.is_empty() {
            return Err(format!("node {rank} has either `group` or devices of its own, not both"));
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
        Self { name: name.into(), ..Self::default() }
    }

    /// Makes a device of a GPU and its host core: the next free GPU, unless it is [`numbered`](Self::numbered).
    #[must_use]
    pub fn gpu(name: impl Into<String>) -> Self {
        Self { kind: DeviceKind::Cuda, ..Self::new(name) }
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
        self.loaded = Some(SavedModel { kernel: None, element: None, block, points });
        self
    }

    /// Returns the slowdown of the device, 1 without one.
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
    /// Returns [`DeviceError::Model`] when the saved points make no model.
    pub fn pace(&self) -> Result<Option<Pace>, DeviceError> {
        if let Some(SavedModel { block, points, .. }) = &self.loaded {
            let model = PiecewiseFpm::from_points(points.clone())?;
            let name = self.points.clone().unwrap_or_default();
            return Ok(Some(Pace::Points { name, model, block: *block }));
        }
        Ok(self.pace.map(Pace::Slowdown))
    }

    /// The device's name; empty if it has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's kind.
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// Number of cores that it asks for; 0 if it takes what there is.
    pub fn count_cores(&self) -> usize {
        match &self.cores {
            Cores::All => 0,
            Cores::Count(count) => *count,
            Cores::List(list) => list.len(),
        }
    }

    /// The model that its pace follows, once it is loaded; `None` without points.
    pub fn saved_model(&self) -> Option<&SavedModel> {
        self.loaded.as_ref()
    }

    /// The clock that the device's time follows.
    pub fn clock(&self) -> DeviceClock {
        match self.kind {
            _ if self.points.is_some() => DeviceClock::Prescribed,
            _ if self.pace.is_some() => DeviceClock::Slowed,
            kind => kind.clock(),
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
            Cores::Count(count) if *count > MAX_CORES => {
                Err(format!("cores = {count}: a device has at most {MAX_CORES} cores"))
            }
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

    /// Loads the model that the device's pace follows, if it names one: `read` returns that of a name.
    fn load_points(
        &mut self,
        read: &mut dyn FnMut(&str) -> Result<SavedModel, String>,
    ) -> Result<(), String> {
        if self.loaded.is_some() {
            return Err("unknown field `loaded-points`".to_owned());
        }
        if let Some(name) = &self.points {
            self.loaded = Some(read(name)?);
        }
        Ok(())
    }
}

/// Refuses a name that would break the lines of reports and logs.
///
/// # Errors
/// Returns the reason why it does not fit.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.contains(char::is_control) {
        Err(format!("name = \"{}\": control characters are not allowed", show_name(name)))
    } else {
        Ok(())
    }
}

/// Returns a number that occurs twice.
fn find_repeated(list: &[u32]) -> Option<u32> {
    let mut seen = BTreeSet::new();
    list.iter().copied().find(|&core| !seen.insert(core))
}
