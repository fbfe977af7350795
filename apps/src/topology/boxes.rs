//! A host as boxes within boxes: what stands in each, for the tree and for the picture.

use isochron_devices::topology::{HostPart, PartKind, size_text};

use super::host::{Gpu, Host, ranges};

/// A part of a host with its label.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// What it is: `package 1`, `L3 36 MiB`, `cores 0-3`.
    pub title: String,
    /// What else is known about it.
    pub facts: Vec<String>,
    /// Its NUMA nodes.
    pub memory: Vec<String>,
    /// What it would do: the devices of cores, the host core of a GPU.
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
}

/// The host; a core stands for the caches that it has for itself.
pub fn labelled(host: &Host) -> Labelled {
    let mut root = part(host, &host.tree);
    let shown: Vec<_> = addresses(&host.tree);
    let hidden = host
        .gpus
        .iter()
        .filter(|gpu| !shown.contains(&gpu.info.bus_id));
    root.parts.extend(hidden.map(|found| gpu(host, found)));
    root
}

/// The addresses of all GPUs below a part.
fn addresses(part: &HostPart) -> Vec<isochron_devices::BusId> {
    let below = part.parts.iter().flat_map(addresses);
    part.gpus.iter().copied().chain(below).collect()
}

fn part(host: &Host, part: &HostPart) -> Labelled {
    if let Some(core) = single_core(host, part) {
        return core;
    }
    let mut found = Labelled::new(title(part, host));
    found.facts.extend(part.name.clone());
    found.memory = memory(part);
    found.parts = part
        .parts
        .iter()
        .map(|child| self::part(host, child))
        .collect();
    // Slices of one GPU are several at one address.
    let here = host
        .gpus
        .iter()
        .filter(|gpu| part.gpus.contains(&gpu.info.bus_id));
    found.parts.extend(here.map(|found| gpu(host, found)));
    found
}

fn memory(part: &HostPart) -> Vec<String> {
    let text = |node: &isochron_devices::topology::MemoryInfo| match node.memory_bytes {
        0 => format!("NUMA {}", node.numa),
        bytes => format!("NUMA {} {}", node.numa, size_text(bytes)),
    };
    part.memory.iter().map(text).collect()
}

fn title(part: &HostPart, host: &Host) -> String {
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

/// A core with the caches around it, where these hold nothing else.
fn single_core(host: &Host, part: &HostPart) -> Option<Labelled> {
    if !part.memory.is_empty() || !part.gpus.is_empty() {
        return None;
    }
    match (part.kind, part.parts.as_slice()) {
        (PartKind::Core, _) => {
            let &core = part.cores.first()?;
            let mut found = Labelled::new(format!("core {core}"));
            found.facts.extend(host.kind_name(core));
            let threads = host.threads(core);
            if threads > 1 {
                found.facts.push(format!("{threads} threads"));
            }
            found.role = host.role(core);
            found.cores = vec![core];
            Some(found)
        }
        (PartKind::Cache { .. }, [inner]) => {
            let mut found = single_core(host, inner)?;
            found.facts.push(title(part, host));
            Some(found)
        }
        _ => None,
    }
}

fn gpu(host: &Host, gpu: &Gpu) -> Labelled {
    let mut found = Labelled::new(format!("GPU {}", gpu.info.bus_id));
    found.facts = gpu.facts();
    found.role = gpu.driver(host);
    found
}

/// The same with neighbouring cores that are alike in one line: `cores 0-7`.
pub fn merged(mut part: Labelled) -> Labelled {
    let mut parts: Vec<Labelled> = Vec::new();
    for next in part.parts.into_iter().map(merged) {
        match parts.last_mut() {
            Some(last) if alike(last, &next) => {
                last.cores.extend(&next.cores);
                last.title = format!("cores {}", ranges(&last.cores));
            }
            _ => parts.push(next),
        }
    }
    part.parts = parts;
    part
}

fn alike(a: &Labelled, b: &Labelled) -> bool {
    let are_cores = !a.cores.is_empty() && !b.cores.is_empty();
    are_cores && a.facts == b.facts && a.role == b.role
}
