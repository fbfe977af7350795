//! The NUMA nodes of memory, and moves between them.

use super::{Topology, set_indices};
use crate::contract::DeviceError;
use hwlocality::memory::binding::{MemoryBindingFlags, MemoryBindingPolicy};
use hwlocality::memory::nodeset::NodeSet;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

impl Topology {
    /// Moves the pages of `area` to the NUMA node with the operating system's index `numa`; pages that were never
    /// written will be made there. A page at either end moves with the other data in it. If the node is full, pages
    /// stay. No element is used.
    ///
    /// # Safety
    /// `area` is aligned, and lies in one allocation, which stays while the call lasts.
    ///
    /// # Errors
    /// Returns [`DeviceError::MemoryPlace`] if the system refuses, or the topology is another machine's.
    pub(crate) unsafe fn move_to_numa<T>(
        &self,
        area: *const [T],
        numa: u32,
    ) -> Result<(), DeviceError> {
        // SAFETY: memory that the caller vouches for, in cells of any bytes: other threads may write elements of the area that
        // are not the caller's.
        let area = unsafe { &*(area as *const [UnsafeCell<MaybeUninit<T>>]) };
        let mut nodes = NodeSet::new();
        nodes.set(numa as usize);
        // Without STRICT the node is preferred, not demanded: a full node must not kill the program.
        let (policy, flags) = (MemoryBindingPolicy::Bind, MemoryBindingFlags::MIGRATE);
        self.ask_this_system(|hwloc| match area {
            [] => Ok(()),
            area => hwloc.bind_memory_area(area, &nodes, policy, flags),
        })
        .map_err(|reason| DeviceError::MemoryPlace { numa, reason })
    }

    /// Returns the operating system's indices of the NUMA nodes with pages of `area`, ascending; empty for memory that
    /// was never written, and if the system does not tell.
    pub fn numa_of<T>(&self, area: &[T]) -> Vec<u32> {
        if area.is_empty() {
            return Vec::new();
        }
        let nodes = self.ask_this_system(|hwloc| {
            hwloc.area_memory_location::<_, NodeSet>(area, MemoryBindingFlags::empty())
        });
        nodes.map_or_else(|_| Vec::new(), |nodes| set_indices(&nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lies_where_it_was_moved() {
        let topology = Topology::discover().unwrap();
        let area = vec![1.0; 1 << 16];
        for node in topology.numa_nodes() {
            // SAFETY: the memory of a vector.
            let moved = unsafe { topology.move_to_numa(&raw const area[..], node.numa) };
            let found = topology.numa_of(&area);
            // A container may forbid both.
            assert!(moved.is_err() || found.is_empty() || found == [node.numa]);
        }
        assert!(area.iter().all(|&value| value == 1.0));
    }

    #[test]
    fn another_machines_memory_cannot_be_used() {
        let topology = Topology::from_synthetic("numa:2 core:1 pu:1").unwrap();
        let area = [1.0];
        // SAFETY: the memory of an array.
        let moved = unsafe { topology.move_to_numa(&raw const area[..], 1) };
        assert!(moved.is_err() && topology.numa_of(&area).is_empty());
    }
}
