//! The hardware of this host, as hwloc sees it. No other module knows hwloc.
//!
//! [`Topology::cores`] are the cores that this process may use: those that control groups allow and, on this machine,
//! those to which the launcher or `taskset` bound the process. Their logical indices are those of the whole topology,
//! so differently bound ranks of one host give a core the same number.

mod binding;
mod failure;
mod kinds;
mod link;
mod memory;
mod neighbours;
mod notices;
mod parts;
mod pci;
mod summary;

pub use binding::ConfinedThread;
pub use kinds::KindInfo;
pub use link::PciLink;
pub use neighbours::HostPlace;
pub use parts::{HostPart, MemoryInfo, PartKind};
pub use pci::{BusId, Distances, DriverGpu, GpuInfo, PciGpu};
pub use summary::{CacheInfo, NumaInfo, PackageInfo, TopologySummary, size_text};

use crate::contract::DeviceError;
use crate::host::memory::memory_installed_bytes;
use failure::{describe_error, explain_machine, explain_synthetic, explain_xml};
use hwlocality::Topology as Hwloc;
use hwlocality::bitmap::Bitmap;
use hwlocality::cpu::binding::CpuBindingFlags;
use hwlocality::cpu::cpuset::CpuSet;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder, TypeFilter};
use isochron_base::cpu_quota_cores;
use serde::{Deserialize, Serialize};
use std::error::Error;

/// One core that this process may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CoreInfo {
    /// Logical index.
    pub core: u32,
    /// The system's numbers of its hardware threads that may be used.
    pub pus: Vec<u32>,
    /// Logical index of its package.
    pub package: u32,
    /// The system's number of its NUMA domain.
    pub numa: u32,
    /// Its kind, 0 the slowest if the system ranks them by speed; `None` if all cores are alike, as far as the system
    /// tells.
    pub kind: Option<u32>,
}

/// The hardware of a host.
///
/// ```
/// use isochron_devices::Topology;
/// let topology = Topology::from_synthetic("pack:2 core:4 pu:2")?;
/// assert_eq!(topology.cores().len(), 8);
/// assert!(!topology.is_this_system());
/// # Ok::<(), isochron_devices::DeviceError>(())
/// ```
#[derive(Debug)]
pub struct Topology {
    hwloc: Hwloc,
    /// Processing units that this process may use.
    allowed: CpuSet,
    /// The units that the system and the launcher have granted it.
    granted: CpuSet,
    /// CPU quota of the control groups, in cores.
    quota: Option<f64>,
}

impl Topology {
    /// Reads the machine that the program runs on.
    ///
    /// The bindings of all threads of the process are taken together, so a thread that was bound before narrows
    /// nothing.
    ///
    /// # Errors
    /// Returns [`DeviceError::Topology`] if hwloc cannot read it.
    pub fn discover() -> Result<Self, DeviceError> {
        let topology = Self::build("this machine", Ok, |error| {
            let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
            explain_machine(&describe_error(error), names)
        })?;
        let quota = cpu_quota_cores().filter(|_| topology.is_this_system());
        Ok(Self { quota, ..topology })
    }

    /// Reads a machine described in hwloc's synthetic notation, such as `pack:2 core:4 pu:2`, for tests and planning.
    ///
    /// # Errors
    /// Returns [`DeviceError::Topology`] if the description is not valid.
    pub fn from_synthetic(description: &str) -> Result<Self, DeviceError> {
        let origin = format!("the synthetic description `{description}`");
        Self::build(
            &origin,
            |builder| Ok(builder.from_synthetic(description)?),
            |_| explain_synthetic(description),
        )
    }

    /// Reads a machine that was saved in hwloc's XML format (`lstopo machine.xml`).
    ///
    /// # Errors
    /// Returns [`DeviceError::Topology`] if the text is not such a description.
    pub fn from_xml(xml: &str) -> Result<Self, DeviceError> {
        Self::build("a saved host", |builder| Ok(builder.from_xml(xml)?), |_| explain_xml(xml))
    }

    fn build(
        origin: &str,
        read: impl FnOnce(TopologyBuilder) -> Result<TopologyBuilder, Box<dyn Error>>,
        explain: impl FnOnce(&(dyn Error + 'static)) -> String,
    ) -> Result<Self, DeviceError> {
        let hwloc = build_hwloc(read).map_err(|error| DeviceError::Topology {
            origin: origin.to_owned(),
            reason: explain(error.as_ref()),
        })?;
        let mut allowed = hwloc.allowed_cpuset().clone_target();
        // The binding says nothing about another machine.
        if hwloc.is_this_system()
            && let Ok(bound) = hwloc.cpu_binding(CpuBindingFlags::PROCESS)
            && bound.intersects(&allowed)
        {
            allowed &= bound;
        }
        Ok(Self { hwloc, granted: allowed.clone(), allowed, quota: None })
    }

    /// Returns the answer of hwloc to a question about the machine that the program runs on, or the reason for none.
    fn ask_this_system<R, E: Error + 'static>(
        &self,
        ask: impl FnOnce(&Hwloc) -> Result<R, E>,
    ) -> Result<R, String> {
        if !self.is_this_system() {
            return Err("this topology describes another machine".to_owned());
        }
        ask(&self.hwloc).map_err(|error| describe_error(&error))
    }

    /// Returns the CPU quota of this process in cores, as [`cpu_quota_cores`]; `None` without one, and on another
    /// machine's topology.
    pub fn cpu_quota_cores(&self) -> Option<f64> {
        self.quota
    }

    /// Returns the cores to compute on: [`cores`](Self::cores) or, under a CPU quota, as many of them as it pays for,
    /// rounded down and at least one. More threads would be stopped in every period, all at once and at any moment, and
    /// their times would mean nothing.
    pub fn affordable_cores(&self) -> Vec<CoreInfo> {
        let mut cores = self.cores();
        if let Some(quota) = self.quota {
            // A float that is too large for an integer becomes the largest one.
            cores.truncate((quota as usize).max(1));
        }
        cores
    }

    /// Returns `true` if threads should be bound to these cores: not on another machine's topology, and not if a CPU
    /// quota leaves only some of the cores. Neighbours with quotas would bind to the same first cores.
    pub fn should_pin(&self) -> bool {
        self.is_this_system() && self.affordable_cores().len() == self.cores().len()
    }

    /// Returns the processing units to which threads without a core of their own are bound together: those that are left
    /// if [`with_allowed_pus`](Self::with_allowed_pus) has taken others away from this process. `None` if it has not, since
    /// such threads then run where the process may run, and on another machine's topology.
    pub(crate) fn units_left(&self) -> Option<Vec<u32>> {
        let left = &self.allowed & &self.granted;
        let is_part = self.is_this_system() && !left.is_empty() && left != self.granted;
        is_part.then(|| set_indices(&left))
    }

    /// Returns `true` if this is the machine that the program runs on, so that threads can be bound to its cores.
    pub fn is_this_system(&self) -> bool {
        self.hwloc.is_this_system()
    }

    /// Returns the operating system's indices of the processing units that this process may use, ascending.
    ///
    /// Ranks of one host share cores if their sets are equal or overlap. Ranks that the launcher bound apart do not.
    pub fn allowed_pus(&self) -> Vec<u32> {
        set_indices(&self.allowed)
    }

    /// Returns the host as processes see it that may use these processing units, such as all its ranks together. Units
    /// that the host does not have are left out.
    #[must_use]
    pub fn with_allowed_pus(mut self, pus: &[u32]) -> Self {
        let host = self.hwloc.complete_cpuset().clone_target();
        let units = host.iter_set();
        self.allowed = units.filter(|pu| pus.contains(&index_u32(usize::from(*pu)))).collect();
        self
    }

    /// Returns this process's place among those that share its cores, if it has the place `launched` among all that a
    /// launcher has started on this host. The launcher binds none of them, or all alike.
    pub fn place_among(&self, launched: HostPlace) -> HostPlace {
        let host = self.list_core_numbers(self.hwloc.allowed_cpuset().clone_target());
        let granted = self.list_core_numbers(self.granted.clone());
        let before = host.iter().filter(|core| Some(*core) < granted.first());
        launched.among_sharers(host.len(), granted.len(), before.count())
    }

    fn list_core_numbers(&self, allowed: CpuSet) -> Vec<u32> {
        let cores = self.hwloc.objects_with_type(ObjectType::Core);
        let mut usable: Vec<u32> = cores
            .filter(|core| core.cpuset().is_some_and(|set| set.intersects(&allowed)))
            .map(|core| index_u32(core.logical_index()))
            .collect();
        if usable.is_empty() {
            // If the system knows no cores, every processing unit is one.
            usable = set_indices(&allowed);
        }
        usable
    }

    /// Returns the cores that this process may use, by logical index.
    ///
    /// If the system knows no cores, as in some virtual machines, every processing unit is one.
    pub fn cores(&self) -> Vec<CoreInfo> {
        let mut objects: Vec<&TopologyObject> =
            self.hwloc.objects_with_type(ObjectType::Core).collect();
        if objects.is_empty() {
            objects = self.hwloc.objects_with_type(ObjectType::PU).collect();
        }
        objects.into_iter().filter_map(|object| self.describe_core(object)).collect()
    }

    /// Returns the installed memory of the host in bytes.
    pub fn memory_total_bytes(&self) -> u64 {
        match self.hwloc.root_object().total_memory() {
            // hwloc reads it below `/sys`, which some containers do not have.
            0 if self.is_this_system() => memory_installed_bytes().unwrap_or(0),
            bytes => bytes,
        }
    }

    /// Describes `object` as a core; `None` if none of its processing units may be used.
    fn describe_core(&self, object: &TopologyObject) -> Option<CoreInfo> {
        let usable = &self.allowed & object.cpuset()?;
        let pus = set_indices(&usable);
        if pus.is_empty() {
            return None;
        }
        let package = object.first_ancestor_with_type(ObjectType::Package);
        let numa = object
            .nodeset()
            .and_then(|nodes| nodes.first_set())
            .map_or(0, |node| index_u32(usize::from(node)));
        let kind = self.kind_of(&usable);
        Some(CoreInfo {
            core: index_u32(object.logical_index()),
            pus,
            package: package.map_or(0, |p| index_u32(p.logical_index())),
            numa,
            kind,
        })
    }
}

/// Reads the topology of a source that `read` sets.
///
/// It keeps cores that the process may not use, so that the usable ones have the same numbers in every process of the
/// host. Among the devices on the buses it keeps those that compute or communicate.
fn build_hwloc(
    read: impl FnOnce(TopologyBuilder) -> Result<TopologyBuilder, Box<dyn Error>>,
) -> Result<Hwloc, Box<dyn Error>> {
    let builder = TopologyBuilder::new()
        .with_flags(BuildFlags::INCLUDE_DISALLOWED)?
        .with_io_type_filter(TypeFilter::KeepImportant)?;
    Ok(read(builder)?.build()?)
}

/// Converts an index of hwloc, which counts in C's unsigned integers: a larger one does not exist.
fn index_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn set_indices(set: &impl AsRef<Bitmap>) -> Vec<u32> {
    set.as_ref().iter_set().map(|i| index_u32(usize::from(i))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_of_two_packages() {
        let topology = Topology::from_synthetic("pack:2 core:4 pu:2").unwrap();
        let cores = topology.cores();
        assert_eq!(cores.len(), 8);
        assert_eq!(cores.iter().map(|c| c.core).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        assert_eq!(cores.iter().map(|c| c.package).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(cores[5].pus, [10, 11]);
        assert_eq!(topology.allowed_pus().len(), 16);
    }

    #[test]
    fn cores_of_two_numa_nodes() {
        let numa: Vec<u32> = Topology::from_synthetic("numa:2 core:2 pu:1")
            .unwrap()
            .cores()
            .iter()
            .map(|c| c.numa)
            .collect();
        assert_eq!(numa, [0, 0, 1, 1]);
    }

    #[test]
    fn processing_units_stand_in_for_missing_cores() {
        let pus: Vec<Vec<u32>> = Topology::from_synthetic("pack:1 pu:3")
            .unwrap()
            .cores()
            .into_iter()
            .map(|c| c.pus)
            .collect();
        assert_eq!(pus, [[0], [1], [2]]);
    }

    #[test]
    fn the_view_of_other_processes_shows_their_cores() {
        let topology = Topology::from_synthetic("core:4 pu:2").unwrap();
        let topology = topology.with_allowed_pus(&[2, 3, 5, 99]);
        let cores: Vec<u32> = topology.cores().iter().map(|c| c.core).collect();
        assert_eq!(cores, [1, 2]);
        assert_eq!(topology.allowed_pus(), [2, 3, 5]);
        assert_eq!(topology.tree().cores, [1, 2]);
    }

    #[test]
    fn nonsense_is_an_error_that_quotes_it() {
        let error = Topology::from_synthetic("socks:2").unwrap_err().to_string();
        assert!(error.contains("socks:2"), "{error}");
        let error = Topology::from_xml("<topology").unwrap_err().to_string();
        assert!(error.contains("ends before its last element"), "{error}");
    }

    #[test]
    fn xml_describes_another_machine() {
        let xml = concat!(
            r#"<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">"#,
            r#"<object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" "#,
            r#"nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">"#,
            r#"<object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" "#,
            r#"complete_nodeset="0x1" gp_index="2" local_memory="4096"/>"#,
            r#"<object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" "#,
            r#"complete_nodeset="0x1" gp_index="3"/>"#,
            r#"<object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" "#,
            r#"complete_nodeset="0x1" gp_index="4"/></object></topology>"#
        );
        let topology = Topology::from_xml(xml).unwrap();
        assert_eq!(topology.memory_total_bytes(), 4096);
        assert_eq!(topology.cores().len(), 2);
        assert!(!topology.is_this_system());
    }

    #[test]
    fn this_machine_has_a_core_and_memory() {
        let topology = Topology::discover().unwrap();
        assert!(!topology.cores().is_empty());
        assert!(topology.memory_total_bytes() > 0);
    }
}
