//! The devices of a node without a platform file.

use crate::host::topology::{BusId, CoreInfo, Distances, HostPlace, Topology};
use crate::node::grouping::Grouping;
use crate::node::host_cores::{HostCores, deal_gpus, reserve_hosts};
use crate::node::share::share_cores;

/// Cores that form one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreGroup {
    /// Name of the device: `cpu0`, `cpu1`, …
    pub name: String,
    /// The kind of all its cores; `None` if kinds are unknown, or it has several.
    pub kind: Option<u32>,
    /// The cores, by logical index.
    pub cores: Vec<CoreInfo>,
    /// `true` if each thread is to be pinned to its core: not if several ranks share a core, or a CPU quota leaves only some.
    pub pin: bool,
}

/// A GPU and the core that feeds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuHost {
    /// Index of the GPU in the list that was given.
    pub gpu: usize,
    /// Its host core, which belongs to no group.
    pub core: CoreInfo,
    /// `true` if the thread that drives it is to be pinned.
    pub pin: bool,
}

/// The devices of one rank of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankDevices {
    /// Its groups of cores.
    pub groups: Vec<CoreGroup>,
    /// Its GPUs.
    pub gpus: Vec<GpuHost>,
}

/// Finds the devices of a host, by rank.
///
/// The host's cores are shared among `ranks` ranks in shares of whole groups of cores. `gpus` (by address) are dealt to the ranks next
/// to their buses. Each GPU takes a host core from its rank's cores, and `grouping` groups the rest.
///
/// The ranks must be allowed the *same* cores: their [`Topology::allowed_pus`] are equal. A rank that the launcher
/// bound to its own cores is alone. If there are more ranks than cores, ranks share cores and no thread is pinned to one.
/// Nothing is pinned either if [`Topology::should_pin`] returns `false`.
///
/// # Panics
/// If `ranks` is 0.
pub fn host_devices(
    topology: &Topology,
    ranks: usize,
    grouping: Grouping,
    gpus: &[BusId],
) -> Vec<RankDevices> {
    let cores = topology.affordable_cores();
    let pin = cores.len() >= ranks && topology.should_pin();
    let shares = share_cores(&cores, ranks);
    let distances: Vec<Distances> = gpus.iter().map(|id| topology.pci_distances(id)).collect();
    let drivers = deal_gpus(&shares, &distances);
    shares
        .iter()
        .enumerate()
        .map(|(rank, share)| {
            let own = (0..gpus.len()).filter(|&gpu| drivers[gpu] == rank);
            let own = own.map(|gpu| (gpu, distances[gpu].clone()));
            make_devices(share, grouping, pin, own)
        })
        .collect()
}

/// Makes the devices of a rank with these cores and these GPUs (by index, with their distances from cores).
fn make_devices(
    share: &[CoreInfo],
    grouping: Grouping,
    pin: bool,
    gpus: impl Iterator<Item = (usize, Distances)>,
) -> RankDevices {
    let (gpus, near): (Vec<usize>, Vec<Distances>) = gpus.unzip();
    let HostCores { hosts, rest } = reserve_hosts(share, &near);
    let gpus = gpus.into_iter().zip(hosts);
    let groups = grouping.group_cores(&rest).into_iter().enumerate();
    RankDevices {
        groups: groups
            .map(|(i, cores)| CoreGroup {
                name: format!("cpu{i}"),
                kind: common_kind(&cores),
                cores,
                pin,
            })
            .collect(),
        gpus: gpus.map(|(gpu, core)| GpuHost { gpu, core, pin }).collect(),
    }
}

/// Returns the kind that all cores have, if there is one.
fn common_kind(cores: &[CoreInfo]) -> Option<u32> {
    let kind = cores.first()?.kind;
    kind.filter(|_| cores.iter().all(|core| core.kind == kind))
}

/// Finds the devices of one rank with known GPUs. `place` is its place among the ranks that share its cores.
///
/// It has its share of the cores. Each of `gpus` (by address) takes a host core from them, and `grouping` groups the
/// rest, as in [`host_devices`].
///
/// # Panics
/// If `place.index >= place.count`.
pub fn rank_devices(
    topology: &Topology,
    place: HostPlace,
    grouping: Grouping,
    gpus: &[BusId],
) -> RankDevices {
    let HostPlace { index, count } = place;
    assert!(index < count, "place {index} of {count}");
    let cores = topology.affordable_cores();
    let pin = cores.len() >= count && topology.should_pin();
    let own = share_cores(&cores, count).swap_remove(index);
    let distances = gpus.iter().map(|id| topology.pci_distances(id));
    make_devices(&own, grouping, pin, distances.enumerate())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups of one rank without GPUs.
    fn rank_groups(topology: &Topology, place: HostPlace, grouping: Grouping) -> Vec<CoreGroup> {
        rank_devices(topology, place, grouping, &[]).groups
    }

    fn place(index: usize, count: usize) -> HostPlace {
        HostPlace { index, count }
    }

    fn logical(groups: &[CoreGroup]) -> Vec<u32> {
        groups.iter().flat_map(|g| g.cores.iter().map(|c| c.core)).collect()
    }

    #[test]
    fn shares_are_contiguous_and_cover_the_host() {
        let topology = Topology::from_synthetic("pack:2 core:5 pu:2").unwrap();
        let dealt: Vec<Vec<u32>> =
            (0..4).map(|i| logical(&rank_groups(&topology, place(i, 4), Grouping::Auto))).collect();
        assert_eq!(dealt.concat(), (0..10).collect::<Vec<u32>>());
        assert!(dealt.iter().all(|cores| (2..=3).contains(&cores.len())));
    }

    #[test]
    fn a_rank_gives_each_of_its_gpus_its_own_core() {
        let topology = Topology::from_synthetic("pack:2 core:4 pu:1").unwrap();
        let gpus = ["0000:17:00.0", "0000:18:00.0"].map(|text| text.parse::<BusId>().unwrap());
        let found = rank_devices(&topology, place(1, 2), Grouping::Node, &gpus);
        let hosts: Vec<u32> = found.gpus.iter().map(|host| host.core.core).collect();
        let mut all = [logical(&found.groups), hosts].concat();
        all.sort_unstable();
        assert_eq!(all, [4, 5, 6, 7]);
        assert_eq!((found.gpus.len(), found.gpus[1].gpu), (2, 1));
        let without = rank_devices(&topology, place(1, 2), Grouping::Node, &[]);
        assert_eq!(without, host_devices(&topology, 2, Grouping::Node, &[]).swap_remove(1));
    }

    #[test]
    fn more_ranks_than_cores_share_without_pinning() {
        let topology = Topology::from_synthetic("core:2 pu:1").unwrap();
        let dealt: Vec<u32> = (0..5)
            .flat_map(|i| logical(&rank_groups(&topology, place(i, 5), Grouping::Auto)))
            .collect();
        assert_eq!(dealt, [0, 1, 0, 1, 0]);
        assert!(!rank_groups(&topology, place(4, 5), Grouping::Auto)[0].pin);
    }

    #[test]
    fn this_machine_is_one_pinned_group_for_each_kind() {
        let topology = Topology::discover().unwrap();
        let groups = rank_groups(&topology, HostPlace::ALONE, Grouping::Auto);
        assert_eq!(logical(&groups).len(), topology.affordable_cores().len());
        assert!(groups.iter().all(|g| g.pin == topology.should_pin()));
        assert_eq!(groups[0].name, "cpu0");
    }
}
