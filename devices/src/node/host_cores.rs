//! The ranks and the host cores of GPUs.
//!
//! A GPU needs a host core that copies panels to it, starts its kernels and waits for them. The core belongs to no CPU
//! group, because its share of the group's work would wait for the GPU. It lies near the GPU's bus, because each panel
//! crosses the way between the two.
//!
//! # References
//! Clarke's thesis, sections 5.2.3 (one core of a node is devoted to the GPU) and A.2.

use crate::host::topology::{CoreInfo, Distances};

/// The cores of one rank once its GPUs have theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCores {
    /// The core of each GPU.
    pub hosts: Vec<CoreInfo>,
    /// The remaining cores, which compute.
    pub rest: Vec<CoreInfo>,
}

fn core_distance(distances: &Distances, core: &CoreInfo) -> u32 {
    distances.get(&core.core).copied().unwrap_or(u32::MAX)
}

/// Returns the GPUs in the order in which they choose. The GPU with the fewest nearest choices goes first, or the
/// others would take them. `costs` holds a GPU's distance from each choice.
fn order_by_freedom(costs: &[Vec<u32>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|&gpu| {
        let costs = costs[gpu].iter();
        let least = costs.clone().min();
        costs.filter(|&cost| Some(cost) == least).count()
    });
    order
}

/// Deals GPUs to the ranks of a host by [`deal_by_distance`], and returns the rank of each GPU. `shares` are the ranks'
/// cores and `gpus` the GPUs' distances from cores.
///
/// # Panics
/// If there are GPUs but no ranks.
pub(crate) fn deal_gpus(shares: &[Vec<CoreInfo>], gpus: &[Distances]) -> Vec<usize> {
    assert!(gpus.is_empty() || !shares.is_empty(), "GPUs without ranks");
    let costs = gpus.iter().map(|gpu| shares.iter().map(|share| Some(share_distance(gpu, share))));
    let costs: Vec<Vec<Option<u32>>> = costs.map(Iterator::collect).collect();
    deal_by_distance(&costs).into_iter().map(|rank| rank.unwrap_or(0)).collect()
}

/// Returns the distance of the nearest of these cores.
fn share_distance(gpu: &Distances, share: &[CoreInfo]) -> u32 {
    share.iter().map(|core| core_distance(gpu, core)).min().unwrap_or(u32::MAX)
}

/// Deals GPUs to ranks that do not all see every GPU. `distances[gpu][rank]` is the distance of the rank's nearest core
/// from the GPU's bus, if the rank sees the GPU.
///
/// No rank gets more than an even share, rounded up. Within that a GPU goes to the nearest rank, and among equals to
/// the rank with the fewest GPUs so far. If all ranks that see a GPU have their share already, the one with the fewest
/// takes it. A GPU that no rank sees goes to none.
pub fn deal_by_distance(distances: &[Vec<Option<u32>>]) -> Vec<Option<usize>> {
    let n_ranks = distances.first().map_or(0, Vec::len);
    let most = distances.len().div_ceil(n_ranks.max(1));
    let mut dealt = vec![0; n_ranks];
    let mut ranks = vec![None; distances.len()];
    let seen: Vec<Vec<u32>> =
        distances.iter().map(|ranks| ranks.iter().copied().flatten().collect()).collect();
    let mut order = order_by_freedom(&seen);
    order.sort_by_key(|&gpu| seen[gpu].len());
    for gpu in order {
        let best = (0..n_ranks).filter_map(|rank| Some((rank, distances[gpu][rank]?))).min_by_key(
            |&(rank, distance)| {
                let beyond = (dealt[rank] + 1_usize).saturating_sub(most);
                (beyond, distance, dealt[rank], rank)
            },
        );
        ranks[gpu] = best.map(|(rank, _)| rank);
        if let Some((rank, _)) = best {
            dealt[rank] += 1;
        }
    }
    ranks
}

/// Reserves a core for each GPU of a rank; `gpus` are the GPUs' distances from cores.
///
/// A GPU gets one of the nearest cores, and shares it with others before it takes one farther away. Among equally near cores
/// with as few GPUs the NUMA domain and kind with the most free cores decides, so that groups stay even. Then the most
/// frugal kind does, which computes least.
///
/// # Panics
/// If there are GPUs but no cores.
pub fn reserve_hosts(cores: &[CoreInfo], gpus: &[Distances]) -> HostCores {
    assert!(gpus.is_empty() || !cores.is_empty(), "GPUs without cores");
    let costs = gpus.iter().map(|gpu| cores.iter().map(|core| core_distance(gpu, core)));
    let costs: Vec<Vec<u32>> = costs.map(Iterator::collect).collect();
    let mut uses = vec![0u32; cores.len()];
    let mut chosen = vec![0; gpus.len()];
    for gpu in order_by_freedom(&costs) {
        let core = (0..cores.len())
            .min_by_key(|&i| {
                let core = &cores[i];
                let most_left = usize::MAX - count_alike(cores, &uses, core);
                (costs[gpu][i], uses[i], most_left, core.kind, core.core)
            })
            .unwrap_or(0);
        uses[core] += 1;
        chosen[gpu] = core;
    }
    let free = cores.iter().zip(&uses).filter(|(_, used)| **used == 0);
    HostCores {
        rest: free.map(|(core, _)| core.clone()).collect(),
        hosts: chosen.into_iter().map(|i| cores[i].clone()).collect(),
    }
}

/// Counts the free cores of the NUMA domain and the kind of `core`.
fn count_alike(cores: &[CoreInfo], uses: &[u32], core: &CoreInfo) -> usize {
    cores
        .iter()
        .zip(uses)
        .filter(|(_, used)| **used == 0)
        .filter(|(other, _)| (other.numa, other.kind) == (core.numa, core.kind))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::topology::Topology;
    use crate::node::share::{arbitrary_cores, share_cores};
    use proptest::prelude::*;

    /// Distances of a GPU near all cores of a package and far from the others.
    fn near_package(cores: &[CoreInfo], package: u32) -> Distances {
        cores.iter().map(|core| (core.core, u32::from(core.package != package))).collect()
    }

    fn two_sockets() -> Vec<CoreInfo> {
        Topology::from_synthetic("pack:2 [numa] core:3 pu:1").unwrap().cores()
    }

    #[test]
    fn gpus_are_hosted_next_to_their_bus() {
        let cores = two_sockets();
        let found = reserve_hosts(&cores, &[near_package(&cores, 1), near_package(&cores, 0)]);
        assert_eq!((found.hosts[0].core, found.hosts[1].core), (3, 0));
        let rest: Vec<u32> = found.rest.iter().map(|c| c.core).collect();
        assert_eq!(rest, [1, 2, 4, 5]);
    }

    #[test]
    fn more_gpus_than_near_cores_share_these() {
        let cores = two_sockets();
        let gpus = vec![near_package(&cores, 1); 8];
        let found = reserve_hosts(&cores, &gpus);
        let hosts: Vec<u32> = found.hosts.iter().map(|c| c.core).collect();
        assert_eq!(hosts, [3, 4, 5, 3, 4, 5, 3, 4]);
        assert_eq!(found.rest, cores[..3]);
    }

    #[test]
    fn groups_stay_even_where_gpus_are_equally_near() {
        let cores = two_sockets();
        let packages: Vec<u32> = reserve_hosts(&cores, &[Distances::new(), Distances::new()])
            .hosts
            .iter()
            .map(|c| c.package)
            .collect();
        assert_eq!(packages, [0, 1]);
    }

    #[test]
    fn a_rank_drives_the_gpu_next_to_its_cores() {
        let cores = two_sockets();
        let shares = share_cores(&cores, 2);
        assert_eq!(deal_gpus(&shares, &[near_package(&cores, 1)]), [1]);
        // The first is near both, so the second, which has no choice, goes first.
        let gpus = [Distances::new(), near_package(&cores, 0)];
        assert_eq!(deal_gpus(&shares, &gpus), [1, 0]);
        // Two each, though all are on one socket.
        assert_eq!(deal_gpus(&shares, &vec![near_package(&cores, 0); 4]), [0, 0, 1, 1]);
        assert!(deal_gpus(&[], &[]).is_empty());
    }

    proptest! {
        #[test]
        fn hosts_and_rest_are_the_cores(
            cores in arbitrary_cores(), packages in prop::collection::vec(0..3u32, 0..6),
        ) {
            prop_assume!(!cores.is_empty());
            let gpus: Vec<Distances> = packages.iter().map(|&p| near_package(&cores, p)).collect();
            let found = reserve_hosts(&cores, &gpus);
            prop_assert_eq!(found.hosts.len(), gpus.len());
            let mut all: Vec<u32> = found.hosts.iter().chain(&found.rest).map(|c| c.core).collect();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all, (0..cores.len() as u32).collect::<Vec<_>>());
            // None is farther away than need be, and as near cores have as many GPUs, but for one.
            for (host, gpu) in found.hosts.iter().zip(&gpus) {
                let uses = |core: u32| found.hosts.iter().filter(|host| host.core == core).count();
                let nearest = cores.iter().map(|core| core_distance(gpu, core)).min();
                prop_assert_eq!(Some(core_distance(gpu, host)), nearest);
                let mut others = cores.iter().filter(|core| Some(core_distance(gpu, core)) == nearest);
                prop_assert!(others.all(|other| uses(host.core) <= uses(other.core) + 1));
            }
        }

        #[test]
        fn ranks_get_even_numbers_of_gpus(
            cores in arbitrary_cores(),
            count in 1usize..5,
            packages in prop::collection::vec(0..3u32, 0..9),
        ) {
            let shares = share_cores(&cores, count);
            let gpus: Vec<Distances> = packages.iter().map(|&p| near_package(&cores, p)).collect();
            let ranks = deal_gpus(&shares, &gpus);
            let most = gpus.len().div_ceil(count);
            for rank in 0..count {
                prop_assert!(ranks.iter().filter(|&&r| r == rank).count() <= most);
            }
        }
    }
}
