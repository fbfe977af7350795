//! A host as a tree of parts, for pictures.

use super::pci::{gpu_address, object_info};
use super::summary::level_and_size;
use super::{BusId, Topology, index_u32};
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use serde::{Deserialize, Serialize};

/// The kind of a part of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum PartKind {
    /// The whole host.
    Host,
    /// The processor in a socket.
    Package,
    /// A piece of silicon in a package.
    Die,
    /// Any other group of cores, such as a NUMA domain within a package.
    Group,
    /// A data or unified cache.
    Cache {
        /// Level of a cache, 1 next to the core.
        level: u32,
        /// Size of a cache, in bytes.
        size_bytes: u64,
    },
    /// A core.
    Core,
}

/// Memory of a NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MemoryInfo {
    /// The system's number of the memory's domain.
    pub numa: u32,
    /// Its size in bytes.
    pub memory_bytes: u64,
}

/// A part of a host, with the parts in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct HostPart {
    /// Its kind.
    #[serde(flatten)]
    pub kind: PartKind,
    /// Its logical index among parts of its kind.
    pub index: u32,
    /// Model of a package, if the system tells.
    pub name: Option<String>,
    /// Memory next to it.
    pub memory: Vec<MemoryInfo>,
    /// Bus addresses of GPUs next to it.
    pub gpus: Vec<BusId>,
    /// Cores in it that may be used, by logical index.
    pub cores: Vec<u32>,
    /// The parts in it that have a core that may be used, memory or a GPU. They have the same fields.
    pub parts: Vec<HostPart>,
}

impl HostPart {
    /// Returns `true` if it has nothing that this process may use.
    fn is_empty(&self) -> bool {
        self.memory.is_empty()
            && self.gpus.is_empty()
            && self.cores.is_empty()
            && self.parts.is_empty()
    }
}

impl Topology {
    /// Returns the host as a tree, down to the cores.
    pub fn tree(&self) -> HostPart {
        self.make_part(self.hwloc.root_object(), PartKind::Host)
    }

    /// Counts the cores of the host, also those that this process may not use.
    pub(super) fn all_cores(&self) -> usize {
        match self.hwloc.objects_with_type(ObjectType::Core).count() {
            0 => self.hwloc.objects_with_type(ObjectType::PU).count(),
            cores => cores,
        }
    }

    fn make_part(&self, object: &TopologyObject, kind: PartKind) -> HostPart {
        let mut part = HostPart {
            kind,
            index: index_u32(object.logical_index()),
            name: object_info(object, "CPUModel").filter(|_| kind == PartKind::Package),
            memory: Vec::new(),
            gpus: Vec::new(),
            cores: Vec::new(),
            parts: Vec::new(),
        };
        collect_memory(object, &mut part.memory);
        collect_gpus(object, &mut part.gpus);
        if kind == PartKind::Core {
            let core = self.describe_core(object);
            part.cores.extend(core.map(|core| core.core));
            return part;
        }
        for child in object.normal_children() {
            self.add_child(child, &mut part);
        }
        part
    }

    /// Adds a part of the host with the parts in it to `parent`. If a part is not shown itself, `parent` gets the parts
    /// in it.
    fn add_child(&self, object: &TopologyObject, parent: &mut HostPart) {
        let kind = match object.object_type() {
            ObjectType::Package => Some(PartKind::Package),
            ObjectType::Die => Some(PartKind::Die),
            ObjectType::Group => Some(PartKind::Group),
            _ if is_core(object) => Some(PartKind::Core),
            _ => level_and_size(object)
                .map(|(level, size_bytes)| PartKind::Cache { level, size_bytes }),
        };
        let mut part = self.make_part(object, kind.unwrap_or(PartKind::Group));
        parent.cores.append(&mut part.cores.clone());
        if kind.is_none() {
            parent.memory.append(&mut part.memory);
            parent.gpus.append(&mut part.gpus);
            parent.parts.append(&mut part.parts);
        } else if !part.is_empty() {
            parent.parts.push(part);
        }
    }
}

/// Returns `true` for a core, and for a processing unit that belongs to no core.
fn is_core(object: &TopologyObject) -> bool {
    match object.object_type() {
        ObjectType::Core => true,
        ObjectType::PU => object.first_ancestor_with_type(ObjectType::Core).is_none(),
        _ => false,
    }
}

/// Collects the memory attached to `object` itself, also behind a memory-side cache.
fn collect_memory(object: &TopologyObject, found: &mut Vec<MemoryInfo>) {
    for child in object.memory_children() {
        if child.object_type() == ObjectType::NUMANode {
            found.push(MemoryInfo {
                numa: index_u32(child.os_index().unwrap_or(child.logical_index())),
                memory_bytes: child.total_memory(),
            });
        }
        collect_memory(child, found);
    }
}

/// Collects the GPUs attached to `object` itself, behind any number of bridges.
fn collect_gpus(object: &TopologyObject, found: &mut Vec<BusId>) {
    for child in object.io_children() {
        found.extend(gpu_address(child));
        collect_gpus(child, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_holds_everything_once() {
        let description =
            "pack:2 [numa(memory=1048576)] l3:1(size=4096) l2:2(size=1024) core:1 pu:2";
        let tree = Topology::from_synthetic(description).unwrap().tree();
        assert_eq!((tree.kind, tree.cores.as_slice()), (PartKind::Host, &[0, 1, 2, 3][..]));
        let package = &tree.parts[1];
        assert_eq!((package.kind, package.index), (PartKind::Package, 1));
        let memory = MemoryInfo { numa: 1, memory_bytes: 1 << 20 };
        assert_eq!(package.memory, [memory]);
        let l3 = &package.parts[0];
        let caches = [l3.kind, l3.parts[1].kind];
        let expected = [(3, 4096), (2, 1024)];
        assert_eq!(
            caches,
            expected.map(|(level, size_bytes)| PartKind::Cache { level, size_bytes })
        );
        let core = &l3.parts[1].parts[0];
        assert_eq!((core.kind, core.cores.as_slice()), (PartKind::Core, &[3][..]));
    }

    #[test]
    fn units_without_cores_are_shown_as_cores() {
        let tree = Topology::from_synthetic("pack:1 pu:3").unwrap().tree();
        let package = &tree.parts[0];
        assert_eq!(package.parts.len(), 3);
        assert!(package.parts.iter().all(|part| part.kind == PartKind::Core));
    }
}
