//! Which rank drives which GPU, and on which core.
//!
//! A GPU needs a core that feeds it: copies panels to it, starts its kernels, waits for them. The core is taken from
//! the CPU groups, since its share of their work would wait for the GPU, and it lies near the GPU's bus, since each
//! panel crosses the way between the two.
//!
//! # References
//! Clarke's thesis, sections 5.2.3 (one core of a node is devoted to the GPU) and A.2.

use crate::topology::CoreInfo;
use std::collections::BTreeMap;

/// How far cores, by logical index, are from a GPU: 0 the nearest. A core that is not listed is farther than all others.
pub type Distances = BTreeMap<u32, u32>;

/// The cores of one rank once its GPUs have theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCores {
    /// The core of each GPU.
    pub hosts: Vec<CoreInfo>,
    /// The cores that are left to compute on.
    pub rest: Vec<CoreInfo>,
}

fn core_distance(distances: &Distances, core: &CoreInfo) -> u32 {
    distances.get(&core.core).copied().unwrap_or(u32::MAX)
}

/// The GPUs in the order in which they choose: who has the fewest nearest choices goes first, or the others would take
/// them. `costs` holds a GPU's distance from each choice.
fn by_freedom(costs: &[Vec<u32>]) -> Vec<usize> {
    let freedom = |costs: &Vec<u32>| {
        let least = costs.iter().min();
        costs.iter().filter(|&cost| Some(cost) == least).count()
    };
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|&gpu| freedom(&costs[gpu]));
    order
}

/// Deals GPUs to the ranks of a host: the rank of each GPU. `shares` are the ranks' cores and `gpus` the GPUs' distances
/// from cores.
///
/// No rank gets two more than another could have; within that a GPU goes to the rank with the nearest core, of equals to
/// the one with the fewest GPUs so far.
///
/// # Panics
/// When there are GPUs but no ranks.
pub fn deal_gpus(shares: &[Vec<CoreInfo>], gpus: &[Distances]) -> Vec<usize> {
    assert!(gpus.is_empty() || !shares.is_empty(), "GPUs without ranks");
    let cost = |gpu: &Distances, share: &Vec<CoreInfo>| {
        let distances = share.iter().map(|core| core_distance(gpu, core));
        Some(distances.min().unwrap_or(u32::MAX))
    };
    let costs = gpus
        .iter()
        .map(|gpu| shares.iter().map(|share| cost(gpu, share)));
    let costs: Vec<Vec<Option<u32>>> = costs.map(Iterator::collect).collect();
    let ranks = deal_by_distance(&costs);
    ranks.into_iter().map(|rank| rank.unwrap_or(0)).collect()
}

/// As [`deal_gpus`], where not every rank can drive every GPU: `distances[gpu][rank]` is how far the rank's nearest core
/// is from the GPU's bus, if the rank sees the GPU. A GPU that nobody sees goes to nobody; where all who see one have
/// their part already, whoever has the fewest takes it.
pub fn deal_by_distance(distances: &[Vec<Option<u32>>]) -> Vec<Option<usize>> {
    let n_ranks = distances.first().map_or(0, Vec::len);
    let most = distances.len().div_ceil(n_ranks.max(1));
    let mut dealt = vec![0; n_ranks];
    let mut ranks = vec![None; distances.len()];
    let seen: Vec<Vec<u32>> = distances
        .iter()
        .map(|ranks| ranks.iter().copied().flatten().collect())
        .collect();
    let mut order = by_freedom(&seen);
    order.sort_by_key(|&gpu| seen[gpu].len());
    for gpu in order {
        let able = (0..n_ranks).filter_map(|rank| Some((rank, distances[gpu][rank]?)));
        let best = able.min_by_key(|&(rank, distance)| {
            let beyond = (dealt[rank] + 1_usize).saturating_sub(most);
            (beyond, distance, dealt[rank], rank)
        });
        ranks[gpu] = best.map(|(rank, _)| rank);
        if let Some((rank, _)) = best {
            dealt[rank] += 1;
        }
    }
    ranks
}

/// Reserves a core for each GPU of a rank; `gpus` are the GPUs' distances from cores.
///
/// A GPU gets the nearest free core; of equally near ones, from the NUMA domain and kind with the most cores left, so
/// that groups stay even, then of the most frugal kind, which computes least. Where GPUs outnumber cores they share.
///
/// # Panics
/// When there are GPUs but no cores.
pub fn reserve_hosts(cores: &[CoreInfo], gpus: &[Distances]) -> HostCores {
    assert!(gpus.is_empty() || !cores.is_empty(), "GPUs without cores");
    let costs = gpus
        .iter()
        .map(|gpu| cores.iter().map(|core| core_distance(gpu, core)));
    let costs: Vec<Vec<u32>> = costs.map(Iterator::collect).collect();
    let mut uses = vec![0u32; cores.len()];
    let mut chosen = vec![0; gpus.len()];
    for gpu in by_freedom(&costs) {
        let left = |core: &CoreInfo| {
            let alike = |c: &CoreInfo| (c.numa, c.kind) == (core.numa, core.kind);
            let free = |(c, used): &(&CoreInfo, &u32)| alike(c) && **used == 0;
            cores.iter().zip(&uses).filter(free).count()
        };
        let key = |&i: &usize| {
            let core = &cores[i];
            let most_left = usize::MAX - left(core);
            (uses[i], costs[gpu][i], most_left, core.kind, core.core)
        };
        let core = (0..cores.len()).min_by_key(key).unwrap_or(0);
        uses[core] += 1;
        chosen[gpu] = core;
    }
    let free = cores.iter().zip(&uses).filter(|(_, used)| **used == 0);
    HostCores {
        rest: free.map(|(core, _)| core.clone()).collect(),
        hosts: chosen.into_iter().map(|i| cores[i].clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;
    use crate::share::{arbitrary_cores, share_cores};
    use proptest::prelude::*;

    /// Near all cores of a package, far from the others.
    fn beside(cores: &[CoreInfo], package: u32) -> Distances {
        let distance = |core: &CoreInfo| (core.core, u32::from(core.package != package));
        cores.iter().map(distance).collect()
    }

    fn two_sockets() -> Vec<CoreInfo> {
        let topology = Topology::from_synthetic("pack:2 [numa] core:3 pu:1").unwrap();
        topology.cores()
    }

    #[test]
    fn gpus_are_hosted_beside_their_bus() {
        let cores = two_sockets();
        let found = reserve_hosts(&cores, &[beside(&cores, 1), beside(&cores, 0)]);
        assert_eq!((found.hosts[0].core, found.hosts[1].core), (3, 0));
        let rest: Vec<u32> = found.rest.iter().map(|c| c.core).collect();
        assert_eq!(rest, [1, 2, 4, 5]);
    }

    #[test]
    fn more_gpus_than_near_cores_go_farther_and_then_share() {
        let cores = two_sockets();
        let gpus = vec![beside(&cores, 1); 8];
        let found = reserve_hosts(&cores, &gpus);
        let hosts: Vec<u32> = found.hosts.iter().map(|c| c.core).collect();
        assert_eq!(hosts, [3, 4, 5, 0, 1, 2, 3, 4]);
        assert!(found.rest.is_empty());
    }

    #[test]
    fn groups_stay_even_where_gpus_are_equally_near() {
        let cores = two_sockets();
        let found = reserve_hosts(&cores, &[Distances::new(), Distances::new()]);
        let packages: Vec<u32> = found.hosts.iter().map(|c| c.package).collect();
        assert_eq!(packages, [0, 1]);
    }

    #[test]
    fn a_rank_drives_the_gpu_beside_its_cores() {
        let cores = two_sockets();
        let shares = share_cores(&cores, 2);
        assert_eq!(deal_gpus(&shares, &[beside(&cores, 1)]), [1]);
        // The first is near both: the second, which has no choice, goes first.
        let gpus = [Distances::new(), beside(&cores, 0)];
        assert_eq!(deal_gpus(&shares, &gpus), [1, 0]);
        // Two each, though all are on one socket.
        assert_eq!(
            deal_gpus(&shares, &vec![beside(&cores, 0); 4]),
            [0, 0, 1, 1]
        );
        assert!(deal_gpus(&[], &[]).is_empty());
    }

    proptest! {
        #[test]
        fn hosts_and_rest_are_the_cores(
            cores in arbitrary_cores(), packages in prop::collection::vec(0..3u32, 0..6),
        ) {
            prop_assume!(!cores.is_empty());
            let gpus: Vec<Distances> = packages.iter().map(|&p| beside(&cores, p)).collect();
            let found = reserve_hosts(&cores, &gpus);
            prop_assert_eq!(found.hosts.len(), gpus.len());
            let mut all: Vec<u32> = found.hosts.iter().chain(&found.rest).map(|c| c.core).collect();
            all.sort_unstable();
            if gpus.len() <= cores.len() {
                prop_assert_eq!(all, (0..cores.len() as u32).collect::<Vec<_>>());
            } else {
                prop_assert!(found.rest.is_empty());
            }
        }

        #[test]
        fn ranks_get_even_numbers_of_gpus(
            cores in arbitrary_cores(),
            count in 1usize..5,
            packages in prop::collection::vec(0..3u32, 0..9),
        ) {
            let shares = share_cores(&cores, count);
            let gpus: Vec<Distances> = packages.iter().map(|&p| beside(&cores, p)).collect();
            let ranks = deal_gpus(&shares, &gpus);
            let most = gpus.len().div_ceil(count);
            for rank in 0..count {
                prop_assert!(ranks.iter().filter(|&&r| r == rank).count() <= most);
            }
        }
    }
}
