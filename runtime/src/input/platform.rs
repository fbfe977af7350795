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
//! count = 2                 # two nodes like this one
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
//!
//! [network]                 # for `isochron plan`: times of messages by the number of common groups
//! levels = [
//!     { points = [{ bytes = 0, time_s = 5e-5 }, { bytes = 1000000, time_s = 8.1e-3 }] },
//! ]
//! ```
//!
//! GPUs are given out over all ranks of a host, in the order of ranks and devices, GPUs named by number first. Two
//! devices get the same one only if each of them has `share = true`.

use std::path::{Path, PathBuf};

pub use isochron_devices::internal::{Cores, DeviceSpec, NodeSpec};
use isochron_devices::internal::{SavedModel, check_name};
use isochron_hierarchy::model::ModelFile;
use isochron_hierarchy::network::Network;
use isochron_hierarchy::printable::{show_name, show_path};
use serde::{Deserialize, Serialize};

use crate::comm::{Comm, agree, agree_on_settings, share_outcome};
use crate::error::Error;
use crate::input::points::read_points;
use crate::input::read_text;

/// The platform format this version reads.
const SCHEMA: u32 = 1;

/// A cluster, node by node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlatformSpec {
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = SCHEMA)))]
    schema: u32,
    /// Name of the platform.
    #[serde(default)]
    name: String,
    /// The nodes, one for each rank: in the order of ranks, unless they name their hosts.
    #[serde(rename = "node")]
    pub(crate) nodes: Vec<NodeSpec>,
    /// The network between the nodes, which count from 0, for `isochron plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) network: Option<Network>,
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
pub(crate) enum PlatformSource {
    /// Every rank uses the devices that it finds.
    #[default]
    Found,
    /// A platform file, read on the head rank.
    File(PathBuf),
    /// A platform in memory, the same on all ranks.
    Whole(PlatformSpec),
    /// The node of this rank.
    Own(NodeSpec),
}

impl PlatformSource {
    /// Returns this rank's node.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Settings`] for ranks with sources of different kinds, [`Error::File`],
    /// [`Error::Parameter`].
    ///
    /// # Collective
    /// All ranks.
    pub(crate) fn find_node(&self, comm: &dyn Comm) -> Result<NodeSpec, Error> {
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
            Self::File(path) => Ok(PlatformSpec::load(comm, path)?.nodes.swap_remove(comm.rank())),
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

impl PlatformSpec {
    /// Makes a platform of these nodes: in the order of ranks, unless they [name their hosts](NodeSpec::on_host).
    #[must_use]
    pub fn new(nodes: Vec<NodeSpec>) -> Self {
        Self { schema: SCHEMA, name: String::new(), nodes, network: None }
    }

    /// Reads a platform from the text of a platform file. Points files are looked up in `folder`.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] with the reason, and the line if it has one.
    pub fn from_toml(text: &str, folder: &Path) -> Result<Self, Error> {
        Self::parse(text, folder).map_err(refuse_node)
    }

    /// Returns the nodes. Of a platform that was [loaded](Self::load), they are in the order of ranks.
    pub fn nodes(&self) -> &[NodeSpec] {
        &self.nodes
    }

    /// Returns the network between the nodes, if it is known.
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
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
    /// Returns the reason, if a rank gets no node.
    fn arrange(&mut self, hosts: &[String]) -> Result<(), String> {
        let (nodes, ranks) = (self.nodes.len(), hosts.len());
        if nodes < ranks {
            return Err(format!("describes {nodes} nodes, but there are {ranks} ranks"));
        }
        if self.nodes.iter().all(|node| node.host().is_empty()) {
            return Ok(());
        }
        if let Some(index) = self.nodes.iter().position(|node| node.host().is_empty()) {
            return Err(format!("node {index} has no `host`, but others have one"));
        }
        let named: Vec<String> = self.nodes.iter().map(|node| node.host().to_owned()).collect();
        let mut left = std::mem::take(&mut self.nodes);
        for (rank, host) in hosts.iter().enumerate() {
            let Some(next) = left.iter().position(|node| node.host() == host) else {
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
    fn parse(source: &str, folder: &Path) -> Result<Self, String> {
        let mut platform: PlatformSpec =
            toml::from_str(source).map_err(|error| describe_mistake(&error, source))?;
        let schema = platform.schema;
        if schema != SCHEMA {
            return Err(format!("schema = {schema}: this version reads schema {SCHEMA}"));
        }
        check_name(&platform.name)?;
        for (rank, node) in platform.nodes.iter_mut().enumerate() {
            node.check(rank)?;
            node.load_points(&mut |name| read_from(folder, name))
                .map_err(|reason| format!("node {rank}, {reason}"))?;
        }
        platform.nodes = platform.nodes.into_iter().flat_map(NodeSpec::repeat).collect();
        let (nodes, network) = (platform.nodes.len(), platform.network.as_ref());
        match network.and_then(|network| network.find_contradiction(nodes)) {
            Some(reason) => Err(format!("network: {reason}")),
            None => Ok(platform),
        }
    }

    /// Reads the platform file at `path` on the head rank, puts its nodes in the order of ranks and passes it to all ranks.
    ///
    /// # Errors
    /// Returns [`Error::File`] on every rank when it cannot be read, has unknown keys or values out of range, describes
    /// fewer nodes than there are ranks, or is for other hosts.
    ///
    /// # Collective
    /// All ranks.
    pub fn load(comm: &dyn Comm, path: &Path) -> Result<Self, Error> {
        let hosts = comm.gather(&comm.host_name().to_owned())?;
        let read = (comm.rank() == 0).then(|| Self::read_file(path, &hosts));
        share_outcome(comm, 0, read)
    }

    /// Reads a platform file without ranks: its nodes are in the order of the file.
    ///
    /// # Errors
    /// Returns [`Error::File`] when it cannot be read, or has unknown keys or values out of range.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let source = read_text(path).map_err(|error| Error::file(path, error))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&source, folder).map_err(|reason| Error::file(path, reason))
    }

    /// Reads a platform file for ranks on these hosts.
    fn read_file(path: &Path, hosts: &[String]) -> Result<Self, Error> {
        let mut platform = Self::read(path)?;
        platform.arrange(hosts).map_err(|reason| Error::file(path, reason))?;
        Ok(platform)
    }
}

/// Reads the model of this name from a folder.
fn read_from(folder: &Path, name: &str) -> Result<SavedModel, String> {
    let path = folder.join(name);
    read_model(&path).map_err(|reason| format!("{}: {reason}", show_path(&path)))
}

/// Reads a points file that names its block size. If the updates had another inner dimension, which the header
/// `panel` tells, their times become those of the block size.
///
/// # Errors
/// Returns the reason why it cannot be read.
pub(crate) fn read_model(path: &Path) -> Result<SavedModel, String> {
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
    let factor = block as f64 / panel as f64;
    let points = file.points.into_iter();
    Ok(SavedModel {
        kernel: file.headers.get("kernel").cloned(),
        element: element.transpose()?,
        block,
        points: points.map(|point| point.scale_time(factor)).collect(),
    })
}

/// Reads a header that is a number above 0.
fn read_size(file: &ModelFile, key: &str) -> Option<u64> {
    let size = file.headers.get(key)?.parse().ok();
    size.filter(|&size| size > 0)
}

#[cfg(test)]
mod tests;
