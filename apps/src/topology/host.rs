//! Everything that is known about a host, and the devices of its ranks.

use isochron_devices::cuda;
use isochron_devices::topology::{KindInfo, Part};
use isochron_devices::{
    BusId, DriverGpu, GpuInfo, Grouping, RankDevices, Topology, TopologySummary, host_devices,
    memory_available_bytes,
};
use serde::Serialize;

/// A host, as it is printed in JSON.
#[derive(Serialize)]
pub struct Host {
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
    /// What was found of CUDA, and what it means; `null` on another host.
    pub cuda: Option<String>,
    /// The libraries that can be called, the preferred one first; none on another host.
    pub blas: Vec<String>,
    /// The GPUs, and who would drive them.
    pub gpus: Vec<Gpu>,
    /// Which cores form one device.
    pub group: Grouping,
    /// The groups of cores of each rank.
    pub ranks: Vec<Rank>,
    /// The parts of the host.
    pub tree: Part,
}

/// A GPU.
#[derive(Serialize)]
pub struct Gpu {
    #[serde(flatten)]
    pub info: GpuInfo,
    /// Who would drive it, and on which core; `null` for a GPU that CUDA does not know.
    pub driven: Option<Driven>,
}

/// Who drives a GPU.
#[derive(Clone, Copy, Serialize)]
pub struct Driven {
    pub rank: usize,
    /// The host core's logical index.
    pub host_core: u32,
}

/// A rank.
#[derive(Serialize)]
pub struct Rank {
    pub devices: Vec<Device>,
}

/// A group of cores.
#[derive(Serialize)]
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
    /// `topology` shared among `ranks` ranks; its BLAS libraries are not looked for.
    pub fn new(topology: &Topology, group: Grouping, ranks: usize) -> Self {
        let here = topology.is_this_system();
        let cuda_finding = here.then(cuda::survey);
        let driven = cuda_finding.iter().flat_map(|survey| &survey.devices);
        let driven = driven
            .filter_map(|gpu| DriverGpu::try_from(gpu).ok())
            .collect();
        let gpus = GpuInfo::join(topology.gpus(), driven);
        let cuda: Vec<usize> = (0..gpus.len()).filter(|&i| gpus[i].is_cuda()).collect();
        let addresses: Vec<BusId> = cuda.iter().map(|&i| gpus[i].bus_id).collect();
        let devices = host_devices(topology, ranks, group, &addresses);
        let mut driven = vec![None; gpus.len()];
        for (rank, devices) in devices.iter().enumerate() {
            for gpu in &devices.gpus {
                let host_core = gpu.core.core;
                driven[cuda[gpu.gpu]] = Some(Driven { rank, host_core });
            }
        }
        let gpus = gpus.into_iter().zip(driven);
        let cuda_finding = cuda_finding.map(|survey| survey.finding);
        Self {
            topology: topology.summary(),
            kinds: topology.kinds(),
            cpu_quota_cores: topology.cpu_quota_cores(),
            memory_available_bytes: memory_available_bytes().filter(|_| here),
            notices: topology.notices(),
            cuda: cuda_finding,
            blas: Vec::new(),
            gpus: gpus.map(|(info, driven)| Gpu { info, driven }).collect(),
            group,
            ranks: devices.into_iter().map(Rank::new).collect(),
            tree: topology.tree(),
        }
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
        let ranks = self.ranks.iter().enumerate();
        let names = ranks.flat_map(|(rank, Rank { devices })| {
            let mine = devices.iter().filter(|d| d.cores.contains(&core));
            mine.map(move |device| self.device_name(rank, &device.name))
        });
        let feeds = |gpu: &&Gpu| gpu.driven.is_some_and(|driven| driven.host_core == core);
        let fed = self.gpus.iter().filter(feeds);
        let fed = fed.map(|gpu| format!("host of GPU {}", gpu.info.bus_id));
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

impl Rank {
    fn new(devices: RankDevices) -> Self {
        let groups = devices.groups.into_iter();
        let device = |group: isochron_devices::CoreGroup| Device {
            name: group.name,
            kind: group.kind,
            cores: group.cores.iter().map(|core| core.core).collect(),
            pinned: group.pin,
        };
        Self {
            devices: groups.map(device).collect(),
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
        match self.driven {
            Some(Driven { rank, host_core }) => {
                host.device_name(rank, &format!("host core {host_core}"))
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
