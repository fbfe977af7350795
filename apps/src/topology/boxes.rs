//! A host as labelled parts within parts, for the tree and for the picture.

use isochron_devices::topology::{HostPart, MemoryInfo, PartKind, size_text};

use super::host::{GpuReport, HostReport, ranges_text};

/// A part of a host with its label.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// Its name: `package 1`, `L3 36 MiB`, `cores 0-3`.
    pub title: String,
    /// Other facts about it.
    pub facts: Vec<String>,
    /// Its NUMA nodes.
    pub memory: Vec<String>,
    /// Its use: the devices of cores, the host core of a GPU.
    pub role: String,
    /// The cores of a leaf of the tree; empty for GPUs and for parts that have parts.
    pub cores: Vec<u32>,
    /// The parts in it, the GPUs last.
    pub parts: Vec<Labelled>,
}

impl Labelled {
    fn new(title: String) -> Self {
        Self {
            title,
            facts: Vec::new(),
            memory: Vec::new(),
            role: String::new(),
            cores: Vec::new(),
            parts: Vec::new(),
        }
    }

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

    /// Returns `true` for cores with the same facts and role.
    fn is_alike(&self, other: &Self) -> bool {
        let are_cores = !self.cores.is_empty() && !other.cores.is_empty();
        are_cores && self.facts == other.facts && self.role == other.role
    }
}

/// Labels the parts of a host. A core stands for its private caches.
pub fn label_host(host: &HostReport) -> Labelled {
    let mut root = label_part(host, &host.tree);
    let shown = gpu_addresses(&host.tree);
    let hidden = host
        .gpus
        .iter()
        .filter(|gpu| !shown.contains(&gpu.info.bus_id));
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
    let mut found = Labelled::new(part_title(part, host));
    found.facts.extend(part.name.clone());
    found.memory = part.memory.iter().map(memory_text).collect();
    found.parts = part
        .parts
        .iter()
        .map(|child| label_part(host, child))
        .collect();
    // Slices of one GPU are several at one address.
    let here = host
        .gpus
        .iter()
        .filter(|gpu| part.gpus.contains(&gpu.info.bus_id));
    found.parts.extend(here.map(|gpu| label_gpu(host, gpu)));
    found
}

fn memory_text(node: &MemoryInfo) -> String {
    match node.memory_bytes {
        0 => format!("NUMA {}", node.numa),
        bytes => format!("NUMA {} {}", node.numa, size_text(bytes)),
    }
}

fn part_title(part: &HostPart, host: &HostReport) -> String {
    let index = part.index;
    match part.kind {
        PartKind::Host => match host.topology.memory_total_bytes {
            0 => "host".to_owned(),
            bytes => format!("host {}", size_text(bytes)),
        },
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
            let mut found = Labelled::new(format!("core {core}"));
            found.facts.extend(host.kind_name(core));
            let threads = host.n_threads(core);
            if threads > 1 {
                found.facts.push(format!("{threads} threads"));
            }
            found.role = host.role(core);
            found.cores = vec![core];
            Some(found)
        }
        (PartKind::Cache { .. }, [inner]) => {
            let mut found = label_single_core(host, inner)?;
            found.facts.push(part_title(part, host));
            Some(found)
        }
        _ => None,
    }
}

fn label_gpu(host: &HostReport, gpu: &GpuReport) -> Labelled {
    let mut found = Labelled::new(format!("GPU {}", gpu.info.bus_id));
    found.facts = gpu.facts();
    found.role = gpu.driver_text(host);
    found
}
