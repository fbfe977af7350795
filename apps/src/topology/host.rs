//! A host with the devices of its ranks.

use isochron_devices::topology::{HostPart, KindInfo, size_text};
use isochron_devices::{
    GpuInfo, Grouping, Topology, TopologySummary, blas, memory_available_bytes,
};
use serde::{Deserialize, Serialize};

/// A host, as it is printed in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct HostReport {
    /// Its name; `null` for a saved or made-up host.
    pub host: Option<String>,
    #[serde(flatten)]
    pub topology: TopologySummary,
    /// Kinds of cores; empty if there is one kind.
    pub kinds: Vec<KindInfo>,
    /// CPU time that control groups grant, in cores; `null` without a quota.
    pub cpu_quota_cores: Option<f64>,
    /// Memory that this process can still allocate, in bytes; `null` if unknown, and for another host.
    pub memory_available_bytes: Option<u64>,
    /// Unusual facts, one line each.
    pub notices: Vec<String>,
    /// Result of the search for CUDA, in words; `null` on another host.
    pub cuda_finding: Option<String>,
    /// BLAS libraries that can be called, the preferred one first; none on another host.
    pub blas: Vec<String>,
    /// The GPUs.
    pub gpus: Vec<GpuReport>,
    /// Rule by which cores form one device.
    pub group: Grouping,
    /// The ranks of the host.
    pub ranks: Vec<RankReport>,
    /// The parts of the host.
    pub tree: HostPart,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct GpuReport {
    #[serde(flatten)]
    pub info: GpuInfo,
    /// The rank that drives it; `null` if no rank does.
    pub driven: Option<Driven>,
}

/// The rank that drives a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Driven {
    /// Rank that drives it.
    pub rank: usize,
    /// Name of that rank's device.
    pub device: String,
    /// Logical index of its host core.
    pub host_core: u32,
}

/// A rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RankReport {
    /// Its number in the job, or on the planned host.
    pub rank: usize,
    /// Its groups of cores.
    pub devices: Vec<CoreDevice>,
}

/// A group of cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CoreDevice {
    /// Name of the group.
    pub name: String,
    /// The kind of all its cores.
    pub kind: Option<u32>,
    /// Logical indices of its cores.
    pub cores: Vec<u32>,
    /// `true` if its threads would be bound.
    pub pinned: bool,
}

impl HostReport {
    /// Describes a host without ranks. Its BLAS libraries are not looked for.
    pub fn new(topology: &Topology, group: Grouping, gpus: Vec<GpuInfo>) -> Self {
        let gpus = gpus.into_iter();
        Self {
            host: None,
            topology: topology.summary(),
            kinds: topology.kinds(),
            cpu_quota_cores: topology.cpu_quota_cores(),
            memory_available_bytes: memory_available_bytes().filter(|_| topology.is_this_system()),
            notices: topology.notices(),
            cuda_finding: None,
            blas: Vec::new(),
            gpus: gpus.map(|info| GpuReport { info, driven: None }).collect(),
            group,
            ranks: Vec::new(),
            tree: topology.tree(),
        }
    }

    /// Looks for the libraries that this process can call.
    pub fn look_for_blas(&mut self) {
        let found = blas::available_blas();
        self.blas = found.iter().map(|blas| blas.name().to_owned()).collect();
    }

    /// Returns its name and its ranks, which tell it from other hosts: `node7, ranks 4-7`.
    pub fn caption(&self) -> String {
        let name = self.host.as_deref().unwrap_or("host");
        let s = if self.ranks.len() == 1 { "" } else { "s" };
        let ranks: Vec<u32> = self.ranks.iter().map(|rank| rank.rank as u32).collect();
        format!("{name}, rank{s} {}", ranges_text(&ranks))
    }

    /// Returns the groups of cores of all ranks, each with its rank.
    pub fn devices(&self) -> impl Iterator<Item = (usize, &CoreDevice)> {
        self.ranks
            .iter()
            .flat_map(|RankReport { rank, devices }| devices.iter().map(move |d| (*rank, d)))
    }

    /// Returns the name of a rank's device, with the rank if there are several.
    pub fn device_name(&self, rank: usize, name: &str) -> String {
        match self.ranks.len() {
            1 => name.to_owned(),
            _ => format!("rank {rank} {name}"),
        }
    }

    /// Returns the use of a core in words: the devices that it computes for, the GPUs that it feeds, or nothing
    /// (empty).
    pub fn role(&self, core: u32) -> String {
        let names = self
            .devices()
            .filter(|(_, device)| device.cores.contains(&core))
            .map(|(rank, device)| self.device_name(rank, &device.name));
        let driven = self.gpus.iter().filter_map(|gpu| gpu.driven.as_ref());
        let fed = driven
            .filter(|driven| driven.host_core == core)
            .map(|driven| self.device_name(driven.rank, &driven.device));
        let fed = fed.map(|name| format!("host of {name}"));
        names.chain(fed).collect::<Vec<_>>().join(", ")
    }

    /// Returns the number of a core's hardware threads that may be used.
    pub fn n_threads(&self, core: u32) -> usize {
        self.topology.cores.iter().find(|c| c.core == core).map_or(0, |core| core.pus.len())
    }

    /// Returns the kind of a core in words; `None` if all cores are of one kind.
    pub fn kind_name(&self, core: u32) -> Option<String> {
        let core = self.topology.cores.iter().find(|c| c.core == core)?;
        let kind = self.kinds.iter().find(|k| Some(k.kind) == core.kind)?;
        Some(kind.name.clone().unwrap_or_else(|| format!("kind {}", kind.kind)))
    }
}

impl GpuReport {
    /// Returns its model, its memory and its link, as far as they are known.
    pub fn facts(&self) -> Vec<String> {
        let info = &self.info;
        let memory = info.memory_bytes().map(size_text);
        let pci = info.pci.as_ref();
        let width = pci.and_then(|pci| pci.link).map(|link| {
            let of_most = if link.width == link.max_width {
                String::new()
            } else {
                format!(" of x{}", link.max_width)
            };
            format!("x{}{of_most} at {} GT/s", link.width, link.gt_per_s)
        });
        let speed = pci.and_then(|pci| pci.link_gb_per_s);
        let speed = speed.map(|speed| format!("{speed:.1} GB/s"));
        [Some(info.name().to_owned()), memory, width, speed].into_iter().flatten().collect()
    }

    /// Returns the device that drives it, in words.
    pub fn driver_text(&self, host: &HostReport) -> String {
        match &self.driven {
            Some(driven) => {
                let name = host.device_name(driven.rank, &driven.device);
                format!("{name}, host core {}", driven.host_core)
            }
            None => "not driven".to_owned(),
        }
    }
}

/// Returns ascending numbers as ranges: `0-3,8`.
pub fn ranges_text(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts = ranges.into_iter().map(|(first, last)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges_text(&[]), "");
        assert_eq!(ranges_text(&[7]), "7");
        assert_eq!(ranges_text(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges_text(&[u32::MAX, 0]), "4294967295,0");
    }
}
