//! A topology as plain data, for reports and scripts.

use super::pci::object_info;
use super::{CoreInfo, Topology, index_u32, set_indices};
use hwlocality::object::TopologyObject;
use hwlocality::object::attributes::ObjectAttributes;
use hwlocality::object::types::{CacheType, ObjectType};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A package: the processor in a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PackageInfo {
    /// Logical index of the package.
    pub package: u32,
    /// Model of the processor, if the system tells.
    pub model: Option<String>,
    /// Cores of it that may be used.
    pub cores: usize,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct NumaInfo {
    /// The system's number of the domain.
    pub numa: u32,
    /// Memory of the domain, in bytes.
    pub memory_bytes: u64,
    /// Hardware threads next to it that may be used.
    pub pus: Vec<u32>,
}

/// Caches of one level and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CacheInfo {
    /// Level, 1 next to the core.
    pub level: u32,
    /// Size of one cache, in bytes.
    pub size_bytes: u64,
    /// Number of such caches.
    pub count: usize,
}

/// The hardware of a host in plain data, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct TopologySummary {
    /// `true` for the machine that the program runs on.
    pub this_system: bool,
    /// Installed memory, in bytes.
    pub memory_total_bytes: u64,
    /// The packages.
    pub packages: Vec<PackageInfo>,
    /// The NUMA domains.
    pub numa_nodes: Vec<NumaInfo>,
    /// Data and unified caches, from level 1 up.
    pub caches: Vec<CacheInfo>,
    /// The cores that may be used.
    pub cores: Vec<CoreInfo>,
}

impl Topology {
    /// Returns everything that is known, in plain data.
    pub fn summary(&self) -> TopologySummary {
        TopologySummary {
            this_system: self.is_this_system(),
            memory_total_bytes: self.memory_total_bytes(),
            packages: self.packages(),
            numa_nodes: self.numa_nodes(),
            caches: self.caches(),
            cores: self.cores(),
        }
    }

    /// Describes the class of this host's processors: their models, or their caches if the system does not tell a model.
    pub fn describe_class(&self) -> String {
        let mut models: Vec<String> =
            self.packages().into_iter().filter_map(|package| package.model).collect();
        models.dedup();
        if models.is_empty() {
            let caches = self.caches();
            let caches = caches
                .iter()
                .map(|cache| format!("L{} {}", cache.level, size_text(cache.size_bytes)));
            models = vec!["processor".to_owned()];
            models.extend(caches);
        }
        models.join(", ")
    }

    /// Returns the packages, by logical index; empty if the system does not tell.
    fn packages(&self) -> Vec<PackageInfo> {
        let cores = self.cores();
        self.hwloc
            .objects_with_type(ObjectType::Package)
            .map(|object| {
                let package = index_u32(object.logical_index());
                PackageInfo {
                    package,
                    model: object_info(object, "CPUModel"),
                    cores: cores.iter().filter(|core| core.package == package).count(),
                }
            })
            .collect()
    }

    /// Returns the NUMA nodes, by logical index.
    pub(crate) fn numa_nodes(&self) -> Vec<NumaInfo> {
        self.hwloc
            .objects_with_type(ObjectType::NUMANode)
            .map(|object| NumaInfo {
                numa: index_u32(object.os_index().unwrap_or(object.logical_index())),
                memory_bytes: object.total_memory(),
                pus: object
                    .cpuset()
                    .map_or_else(Vec::new, |set| set_indices(&(&self.allowed & set))),
            })
            .collect()
    }

    /// Returns the data and unified caches, one entry for each level and size, from level 1 up.
    fn caches(&self) -> Vec<CacheInfo> {
        let mut counts: BTreeMap<(u32, u64), usize> = BTreeMap::new();
        for cache in self.hwloc.objects().filter_map(level_and_size) {
            *counts.entry(cache).or_default() += 1;
        }
        counts
            .into_iter()
            .map(|((level, size_bytes), count)| CacheInfo { level, size_bytes, count })
            .collect()
    }
}

/// Formats a number of bytes in the largest binary unit that leaves at least 1, such as `1.5 MiB`.
pub fn size_text(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while value >= 1024.0
        && let Some(larger) = units.next()
    {
        value /= 1024.0;
        unit = larger;
    }
    // Cache sizes are whole numbers or quarters of a unit, and are written in full.
    if (4.0 * value).fract() == 0.0 {
        return format!("{value} {unit}");
    }
    format!("{value:.1} {unit}")
}

/// Returns the level and size of a cache that holds data; `None` for any other object, or if the size is unknown.
pub(super) fn level_and_size(object: &TopologyObject) -> Option<(u32, u64)> {
    match object.attributes()? {
        ObjectAttributes::Cache(cache) if cache.cache_type() != CacheType::Instruction => {
            Some((index_u32(cache.depth()), cache.size()?.get()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_what_the_description_says() {
        let description =
            "pack:2 [numa(memory=1048576)] l3:1(size=4096) core:2 l2:1(size=1024) pu:2";
        let summary = Topology::from_synthetic(description).unwrap().summary();
        assert!(!summary.this_system);
        assert_eq!(summary.memory_total_bytes, 2 * 1_048_576);
        assert_eq!(summary.packages.iter().map(|p| p.cores).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(summary.numa_nodes[1].pus, [4, 5, 6, 7]);
        let caches = [(2, 1024, 4), (3, 4096, 2)];
        let caches =
            caches.map(|(level, size_bytes, count)| CacheInfo { level, size_bytes, count });
        assert_eq!(summary.caches, caches);
        assert_eq!(summary.cores.len(), 4);
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size_text(512), "512 B");
        assert_eq!(size_text(1 << 20), "1 MiB");
        assert_eq!(size_text(5 << 18), "1.25 MiB");
        assert_eq!(size_text(3 << 39), "1536 GiB");
        assert_eq!(size_text(1_600_000), "1.5 MiB");
    }
}
