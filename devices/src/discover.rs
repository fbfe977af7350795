//! The devices that a node has when nobody says otherwise.

use crate::grouping::Grouping;
use crate::host_cores::{Distances, HostCores, deal_gpus, reserve_hosts};
use crate::share::share_cores;
use crate::topology::{BusId, CoreInfo, Topology};

/// Cores that form one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreGroup {
    /// Name of the device: `cpu0`, `cpu1`, …
    pub name: String,
    /// The kind that all its cores have; `None` where kinds are not known, or it has several.
    pub kind: Option<u32>,
    /// The cores, by logical index.
    pub cores: Vec<CoreInfo>,
    /// Whether to pin the threads: not where several ranks share a core, or a CPU quota leaves only some.
    pub pin: bool,
}

/// A GPU and the core that feeds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuHost {
    /// Index of the GPU in the list that was given.
    pub gpu: usize,
    /// Its host core, which belongs to no group.
    pub core: CoreInfo,
    /// Whether to pin the thread that drives it.
    pub pin: bool,
}

/// What one rank of a host drives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankDevices {
    /// Its groups of cores.
    pub groups: Vec<CoreGroup>,
    /// Its GPUs.
    pub gpus: Vec<GpuHost>,
}

/// The devices of a host, by rank: its cores shared among `ranks` ranks as [`share_cores`] does, `gpus` (by address) dealt
/// to the ranks beside their buses, a host core for each taken from its rank's cores, and the rest of these grouped by
/// `grouping`.
///
/// The ranks must be allowed the *same* cores (those whose [`Topology::allowed_pus`] are equal; a rank that the launcher
/// bound to its own cores is alone). With more ranks than cores they share them, and nothing is pinned; nor is it where
/// [`Topology::should_pin`] says no.
///
/// # Panics
/// When `ranks` is 0.
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
    let drivers = &drivers;
    let mine = |rank: usize| (0..gpus.len()).filter(move |&gpu| drivers[gpu] == rank);
    let rank_devices = |(rank, share): (usize, &Vec<CoreInfo>)| {
        let near = mine(rank).map(|gpu| (gpu, distances[gpu].clone()));
        devices_of(share, grouping, pin, near)
    };
    shares.iter().enumerate().map(rank_devices).collect()
}

/// The devices of a rank that has these cores and these GPUs (by index, with their distances from cores).
fn devices_of(
    share: &[CoreInfo],
    grouping: Grouping,
    pin: bool,
    gpus: impl Iterator<Item = (usize, Distances)>,
) -> RankDevices {
    let (gpus, near): (Vec<usize>, Vec<Distances>) = gpus.unzip();
    let HostCores { hosts, rest } = reserve_hosts(share, &near);
    let gpus = gpus.into_iter().zip(hosts);
    RankDevices {
        groups: make_groups(&rest, grouping, pin),
        gpus: gpus.map(|(gpu, core)| GpuHost { gpu, core, pin }).collect(),
    }
}

fn make_groups(cores: &[CoreInfo], grouping: Grouping, pin: bool) -> Vec<CoreGroup> {
    let groups = grouping.apply(cores).into_iter().enumerate();
    groups
        .map(|(i, cores)| CoreGroup {
            name: format!("cpu{i}"),
            kind: common_kind(&cores),
            cores,
            pin,
        })
        .collect()
}

/// The kind that all cores have.
fn common_kind(cores: &[CoreInfo]) -> Option<u32> {
    let kind = cores.first()?.kind;
    kind.filter(|_| cores.iter().all(|core| core.kind == kind))
}

/// The devices of rank `index` among `count` ranks that share their cores, in `share = (index, count)`, when it is known
/// which GPUs are its own: its share of the cores, a host core taken from it for each of `gpus` (by address), and the rest
/// grouped by `grouping`, as in [`host_devices`].
///
/// # Panics
/// When `index >= count`.
pub fn rank_devices(
    topology: &Topology,
    share: (usize, usize),
    grouping: Grouping,
    gpus: &[BusId],
) -> RankDevices {
    let (index, count) = share;
    assert!(index < count, "share {index} of {count}");
    let cores = topology.affordable_cores();
    let pin = cores.len() >= count && topology.should_pin();
    let mine = share_cores(&cores, count).swap_remove(index);
    let distances = gpus.iter().map(|id| topology.pci_distances(id));
    devices_of(&mine, grouping, pin, distances.enumerate())
}

/// The default devices of a rank without GPUs: [`host_devices`] of rank `index` among `count` in `share = (index, count)`.
///
/// # Panics
/// When `index >= count`.
pub fn default_groups(
    topology: &Topology,
    share: (usize, usize),
    grouping: Grouping,
) -> Vec<CoreGroup> {
    let (index, count) = share;
    assert!(index < count, "share {index} of {count}");
    host_devices(topology, count, grouping, &[])
        .swap_remove(index)
        .groups
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
            .map(|i| logical(&default_groups(&topology, (i, 4), Grouping::Auto)))
            .collect();
        assert_eq!(dealt.concat(), (0..10).collect::<Vec<u32>>());
        assert!(dealt.iter().all(|cores| (2..=3).contains(&cores.len())));
    }

    #[test]
    fn a_rank_gives_each_of_its_gpus_a_core_of_its_own() {
        let topology = Topology::from_synthetic("pack:2 core:4 pu:1").unwrap();
        let bus = |text: &str| text.parse::<BusId>().unwrap();
        let gpus = [bus("0000:17:00.0"), bus("0000:18:00.0")];
        let found = rank_devices(&topology, (1, 2), Grouping::Node, &gpus);
        let hosts: Vec<u32> = found.gpus.iter().map(|host| host.core.core).collect();
        let mut all = [logical(&found.groups), hosts].concat();
        all.sort_unstable();
        assert_eq!(all, [4, 5, 6, 7]);
        assert_eq!((found.gpus.len(), found.gpus[1].gpu), (2, 1));
        let without = rank_devices(&topology, (1, 2), Grouping::Node, &[]);
        assert_eq!(
            without.groups,
            default_groups(&topology, (1, 2), Grouping::Node)
        );
    }

    #[test]
    fn more_ranks_than_cores_share_without_pinning() {
        let topology = Topology::from_synthetic("core:2 pu:1").unwrap();
        let dealt: Vec<u32> = (0..5)
            .flat_map(|i| logical(&default_groups(&topology, (i, 5), Grouping::Auto)))
            .collect();
        assert_eq!(dealt, [0, 1, 0, 1, 0]);
        assert!(!default_groups(&topology, (4, 5), Grouping::Auto)[0].pin);
    }

    #[test]
    fn this_machine_is_one_pinned_group_for_each_kind() {
        let topology = Topology::discover().unwrap();
        let groups = default_groups(&topology, (0, 1), Grouping::Auto);
        assert_eq!(logical(&groups).len(), topology.affordable_cores().len());
        assert!(groups.iter().all(|g| g.pin == topology.should_pin()));
        assert_eq!(groups[0].name, "cpu0");
    }
}
