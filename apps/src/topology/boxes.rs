//! A host as labelled parts within parts, for the tree.

use isochron_devices::topology::{HostPart, PartKind, size_text};

use super::host::{GpuReport, HostReport, ranges_text};

/// A part of a host with its label.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Labelled {
    /// Its name: `package 1`, `L3 36 MiB`, `cores 0-3`.
    pub title: String,
    /// Other facts about it.
    pub facts: Vec<String>,
    /// Its NUMA nodes.
    pub memory: Vec<String>,
    /// Its use: the devices of cores, the host core of a GPU.
    pub role: String,
    /// The cores of a line of the tree; empty for GPUs and for parts that have cores in parts.
    pub cores: Vec<u32>,
    /// The parts in it, the GPUs last.
    pub parts: Vec<Labelled>,
}

impl Labelled {
    /// Returns `true` for a part without parts and memory.
    pub fn is_leaf(&self) -> bool {
        self.parts.is_empty() && self.memory.is_empty()
    }

    /// Returns the part with neighbouring cores that are alike in one line: `cores 0-7`.
    pub fn merge_cores(mut self) -> Self {
        let mut parts: Vec<Self> = Vec::new();
        for next in self.parts.into_iter().map(Self::merge_cores) {
            match parts.last_mut() {
                Some(last) if last.is_alike(&next) => {
                    last.cores.extend(&next.cores);
                    last.title = format!("cores {}", ranges_text(&last.cores));
                }
                _ => parts.push(next),
            }
        }
        self.parts = parts;
        self
    }

    /// Returns `true` for cores with the same facts and role, and with no memory or GPU of their own.
    fn is_alike(&self, other: &Self) -> bool {
        let are_cores = [self, other].iter().all(|part| !part.cores.is_empty() && part.is_leaf());
        are_cores && self.facts == other.facts && self.role == other.role
    }
}

/// Labels the parts of a host. A core stands for its private caches.
pub fn label_host(host: &HostReport) -> Labelled {
    let mut root = label_part(host, &host.tree);
    let shown = gpu_addresses(&host.tree);
    let hidden = host.gpus.iter().filter(|gpu| !shown.contains(&gpu.info.bus_id));
    root.parts.extend(hidden.map(|gpu| label_gpu(host, gpu)));
    root
}

/// Returns the addresses of all GPUs below a part.
fn gpu_addresses(part: &HostPart) -> Vec<isochron_devices::BusId> {
    let below = part.parts.iter().flat_map(gpu_addresses);
    part.gpus.iter().copied().chain(below).collect()
}

fn label_part(host: &HostReport, part: &HostPart) -> Labelled {
    if let Some(core) = label_single_core(host, part) {
        return core;
    }
    let memory = part.memory.iter();
    let parts = part.parts.iter().map(|child| label_part(host, child));
    // Slices of one GPU are several at one address.
    let here = host.gpus.iter().filter(|gpu| part.gpus.contains(&gpu.info.bus_id));
    let core = part.cores.first();
    let named = match core.filter(|_| matches!(part.kind, PartKind::Core)) {
        Some(&core) => label_core(host, core),
        None => Labelled {
            title: part_title(part, host),
            facts: part.name.iter().cloned().collect(),
            ..Labelled::default()
        },
    };
    Labelled {
        memory: memory
            .map(|node| add_size(format!("NUMA {}", node.numa), node.memory_bytes))
            .collect(),
        parts: parts.chain(here.map(|gpu| label_gpu(host, gpu))).collect(),
        ..named
    }
}

/// Adds the size of a memory, if it is known.
fn add_size(name: String, bytes: u64) -> String {
    match bytes {
        0 => name,
        _ => format!("{name} {}", size_text(bytes)),
    }
}

fn part_title(part: &HostPart, host: &HostReport) -> String {
    let index = part.index;
    match part.kind {
        PartKind::Host => add_size("host".to_owned(), host.topology.memory_total_bytes),
        PartKind::Package => format!("package {index}"),
        PartKind::Die => format!("die {index}"),
        PartKind::Group => format!("group {index}"),
        PartKind::Cache { level, size_bytes } => format!("L{level} {}", size_text(size_bytes)),
        PartKind::Core => format!("core {index}"),
    }
}

/// Labels a core together with the caches around it, if they hold nothing else.
fn label_single_core(host: &HostReport, part: &HostPart) -> Option<Labelled> {
    if !part.memory.is_empty() || !part.gpus.is_empty() {
        return None;
    }
    match (part.kind, part.parts.as_slice()) {
        (PartKind::Core, _) => {
            let &core = part.cores.first()?;
            Some(label_core(host, core))
        }
        (PartKind::Cache { .. }, [inner]) => {
            let mut found = label_single_core(host, inner)?;
            found.facts.push(part_title(part, host));
            Some(found)
        }
        _ => None,
    }
}

fn label_core(host: &HostReport, core: u32) -> Labelled {
    let n_threads = host.n_threads(core);
    let threads = (n_threads > 1).then(|| format!("{n_threads} threads"));
    Labelled {
        title: format!("core {core}"),
        facts: host.kind_name(core).into_iter().chain(threads).collect(),
        role: host.role(core),
        cores: vec![core],
        ..Labelled::default()
    }
}

fn label_gpu(host: &HostReport, gpu: &GpuReport) -> Labelled {
    Labelled {
        title: format!("GPU {}", gpu.info.bus_id),
        facts: gpu.facts(),
        role: gpu.driver_text(host),
        ..Labelled::default()
    }
}
