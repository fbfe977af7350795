//! Everything that is known about a host, and the devices of its ranks.

use isochron_devices::topology::{HostPart, KindInfo};
use isochron_devices::{CoreGroup, CoreInfo, GpuInfo, Grouping, Topology, TopologySummary};
use isochron_devices::{blas, memory_available_bytes};
use serde::{Deserialize, Serialize};

/// A host, as it is printed in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Its name; `null` for one that was saved or made up.
    pub host: Option<String>,
    #[serde(flatten)]
    pub topology: TopologySummary,
    /// Kinds of cores; empty when there is one.
    pub kinds: Vec<KindInfo>,
    /// CPU time that the control groups leave, in cores; `null` without a quota.
    pub cpu_quota_cores: Option<f64>,
    /// What this process can still allocate; `null` where the system does not tell, and on another host.
    pub memory_available_bytes: Option<u64>,
    /// What is unusual, one line each.
    pub notices: Vec<String>,
    /// What was found of CUDA, and what it means, in words; `null` on another host.
    pub cuda_finding: Option<String>,
    /// The libraries that can be called, the preferred one first; none on another host.
    pub blas: Vec<String>,
    /// The GPUs, and who would drive them.
    pub gpus: Vec<Gpu>,
    /// Which cores form one device.
    pub group: Grouping,
    /// The groups of cores of each rank.
    pub ranks: Vec<Rank>,
    /// The parts of the host.
    pub tree: HostPart,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    #[serde(flatten)]
    pub info: GpuInfo,
    /// Who would drive it, and on which core; `null` for a GPU that no rank drives.
    pub driven: Option<Driven>,
}

/// Who drives a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Driven {
    pub rank: usize,
    /// The name of the rank's device.
    pub device: String,
    /// The host core's logical index.
    pub host_core: u32,
}

/// A rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// Its number in the job, or among those that would share the host.
    pub rank: usize,
    pub devices: Vec<Device>,
}

/// A group of cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub name: String,
    /// The kind of all its cores.
    pub kind: Option<u32>,
    /// Logical indices of its cores.
    pub cores: Vec<u32>,
    /// Whether its threads would be pinned.
    pub pinned: bool,
}

impl Host {
    /// A host that has no ranks yet. Its BLAS libraries are not looked for.
    pub fn new(topology: &Topology, group: Grouping, gpus: Vec<GpuInfo>) -> Self {
        let gpus = gpus.into_iter().map(|info| Gpu { info, driven: None });
        Self {
            host: None,
            topology: topology.summary(),
            kinds: topology.kinds(),
            cpu_quota_cores: topology.cpu_quota_cores(),
            memory_available_bytes: memory_available_bytes().filter(|_| topology.is_this_system()),
            notices: topology.notices(),
            cuda_finding: None,
            blas: Vec::new(),
            gpus: gpus.collect(),
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

    /// The ranks in words, where there are several: `rank 3`, `ranks 4-7`.
    pub fn ranks_text(&self) -> String {
        let s = if self.ranks.len() == 1 { "" } else { "s" };
        let numbers = self.ranks.iter();
        let numbers = numbers.map(|rank| u32::try_from(rank.rank).unwrap_or(u32::MAX));
        format!("rank{s} {}", ranges(&numbers.collect::<Vec<_>>()))
    }

    /// What it is called among others: its name and its ranks.
    pub fn caption(&self) -> String {
        let name = self.host.as_deref().unwrap_or("host");
        format!("{name}, {}", self.ranks_text())
    }

    /// The groups of cores of all ranks, each with its rank.
    pub fn devices(&self) -> impl Iterator<Item = (usize, &Device)> {
        let ranks = self.ranks.iter();
        ranks.flat_map(|Rank { rank, devices }| devices.iter().map(move |d| (*rank, d)))
    }

    /// The name of a rank's device, with the rank where there are several.
    pub fn device_name(&self, rank: usize, name: &str) -> String {
        match self.ranks.len() {
            1 => name.to_owned(),
            _ => format!("rank {rank} {name}"),
        }
    }

    /// What a core would do: compute for devices, feed GPUs, or nothing (empty).
    pub fn role(&self, core: u32) -> String {
        let names = self.devices();
        let names = names.filter(|(_, device)| device.cores.contains(&core));
        let names = names.map(|(rank, device)| self.device_name(rank, &device.name));
        let driven = self.gpus.iter().filter_map(|gpu| gpu.driven.as_ref());
        let fed = driven.filter(|driven| driven.host_core == core);
        let fed = fed.map(|Driven { rank, device, .. }| {
            format!("host of {}", self.device_name(*rank, device))
        });
        names.chain(fed).collect::<Vec<_>>().join(", ")
    }

    /// Hardware threads of a core that may be used.
    pub fn threads(&self, core: u32) -> usize {
        let found = self.topology.cores.iter().find(|c| c.core == core);
        found.map_or(0, |core| core.pus.len())
    }

    /// The kind of a core in words; nothing where there is one.
    pub fn kind_name(&self, core: u32) -> Option<String> {
        let core = self.topology.cores.iter().find(|c| c.core == core)?;
        let kind = self.kinds.iter().find(|k| Some(k.kind) == core.kind)?;
        let number = || format!("kind {}", kind.kind);
        Some(kind.name.clone().unwrap_or_else(number))
    }
}

impl From<CoreGroup> for Device {
    fn from(group: CoreGroup) -> Self {
        let core = |core: &CoreInfo| core.core;
        Self {
            name: group.name,
            kind: group.kind,
            cores: group.cores.iter().map(core).collect(),
            pinned: group.pin,
        }
    }
}

impl Gpu {
    /// What it is, its memory and its link, as far as they are known.
    pub fn facts(&self) -> Vec<String> {
        let info = &self.info;
        let memory = info
            .memory_bytes()
            .map(isochron_devices::topology::size_text);
        let pci = info.pci.as_ref();
        let link = pci.and_then(|pci| pci.link);
        let width = link.map(|link| match link.width == link.max_width {
            true => format!("x{} at {} GT/s", link.width, link.gt_per_s),
            false => format!(
                "x{} of x{} at {} GT/s",
                link.width, link.max_width, link.gt_per_s
            ),
        });
        let speed = pci.and_then(|pci| pci.link_gb_per_s);
        let speed = speed.map(|speed| format!("{speed:.1} GB/s"));
        let facts = [Some(info.name().to_owned()), memory, width, speed];
        facts.into_iter().flatten().collect()
    }

    /// Who drives it, in words.
    pub fn driver(&self, host: &Host) -> String {
        match &self.driven {
            Some(driven) => {
                let name = host.device_name(driven.rank, &driven.device);
                format!("{name}, host core {}", driven.host_core)
            }
            None => "not driven".to_owned(),
        }
    }
}

/// Ascending numbers as ranges: `0-3,8`.
pub fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[7]), "7");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[u32::MAX, 0]), "4294967295,0");
    }
}
