//! The devices that a node has when nobody says otherwise.

use crate::topology::{CoreInfo, Topology};
use std::collections::BTreeMap;

/// Cores that form one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreGroup {
    /// Name of the device: `cpu0`, `cpu1`, …
    pub name: String,
    /// The kind that all its cores have.
    pub kind: Option<u32>,
    /// The cores, by logical index.
    pub cores: Vec<CoreInfo>,
    /// Whether to pin the threads: not where several ranks share a core.
    pub pin: bool,
}

/// The default devices of a node: one group of cores for each core kind, so that fast and slow cores are balanced
/// against each other, and identical ones are not.
///
/// `share = (index, count)` deals the cores among `count` ranks that may use the *same* cores of one host
/// (ranks whose [`Topology::allowed_pus`] are equal; a rank that the launcher bound to its own cores has the share
/// `(0, 1)`). Rank `index` gets a contiguous part, so neighbours in the hierarchy of caches stay together; parts differ
/// by at most one core. With more ranks than cores, core `index mod n` is shared, and nothing is pinned.
///
/// Pinning is off as well where the topology is not this machine's.
///
/// # Panics
/// When `index >= count`.
pub fn default_groups(topology: &Topology, share: (usize, usize)) -> Vec<CoreGroup> {
    let (index, count) = share;
    assert!(index < count, "share {index} of {count}");
    let cores = topology.cores();
    let n = cores.len();
    let (mine, pin) = if n >= count {
        let (first, last) = (n * index / count, n * (index + 1) / count);
        (cores[first..last].to_vec(), topology.is_this_system())
    } else {
        let shared = cores.into_iter().skip(index.checked_rem(n).unwrap_or(0));
        (shared.take(1).collect(), false)
    };
    let mut kinds: BTreeMap<Option<u32>, Vec<CoreInfo>> = BTreeMap::new();
    for core in mine {
        kinds.entry(core.kind).or_default().push(core);
    }
    // The fastest kind first.
    let groups = kinds.into_iter().rev().enumerate();
    groups
        .map(|(i, (kind, cores))| CoreGroup {
            name: format!("cpu{i}"),
            kind,
            cores,
            pin,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logical(groups: &[CoreGroup]) -> Vec<u32> {
        groups
            .iter()
            .flat_map(|g| g.cores.iter().map(|c| c.core))
            .collect()
    }

    #[test]
    fn shares_are_contiguous_and_cover_the_host() {
        let topology = Topology::from_synthetic("pack:2 core:5 pu:2").unwrap();
        let dealt: Vec<Vec<u32>> = (0..4)
            .map(|i| logical(&default_groups(&topology, (i, 4))))
            .collect();
        assert_eq!(dealt.concat(), (0..10).collect::<Vec<u32>>());
        assert!(dealt.iter().all(|cores| (2..=3).contains(&cores.len())));
    }

    #[test]
    fn more_ranks_than_cores_share_without_pinning() {
        let topology = Topology::from_synthetic("core:2 pu:1").unwrap();
        let dealt: Vec<u32> = (0..5)
            .flat_map(|i| logical(&default_groups(&topology, (i, 5))))
            .collect();
        assert_eq!(dealt, [0, 1, 0, 1, 0]);
        assert!(!default_groups(&topology, (4, 5))[0].pin);
    }

    #[test]
    fn this_machine_is_one_pinned_group_for_each_kind() {
        let topology = Topology::discover().unwrap();
        let groups = default_groups(&topology, (0, 1));
        assert_eq!(logical(&groups).len(), topology.cores().len());
        assert!(groups.iter().all(|g| g.pin == topology.is_this_system()));
        assert_eq!(groups[0].name, "cpu0");
    }
}
