//! The division of a host's cores among its ranks.

use crate::host::topology::{CoreInfo, HostPlace, Topology};

/// Deals cores to `count` ranks: the cores of rank `i` are element `i`.
///
/// In the order of packages, NUMA domains and cores, each rank gets a contiguous part, so it shares caches and memory
/// with as few others as possible. Parts differ by at most one core. The larger parts are chosen so that as many
/// borders as possible lie between packages, and then between NUMA domains. If there are more ranks than cores, rank
/// `i` has only core `i mod n`, which other ranks have as well.
///
/// # Panics
/// If `count` is 0.
pub fn share_cores(cores: &[CoreInfo], count: usize) -> Vec<Vec<CoreInfo>> {
    assert!(count > 0, "cores are shared among at least one rank");
    let mut cores = cores.to_vec();
    cores.sort_by_key(|core| (core.package, core.numa, core.core));
    let n = cores.len();
    if n < count {
        return (0..count)
            .map(|i| cores.get(i.checked_rem(n).unwrap_or(0)))
            .map(|core| core.into_iter().cloned().collect())
            .collect();
    }
    let mut rest = cores.as_slice();
    choose_sizes(&cores, count)
        .into_iter()
        .map(|size| {
            let (part, others) = rest.split_at(size);
            rest = others;
            part.to_vec()
        })
        .collect()
}

/// Returns the core on which the rank at `place` runs a kernel of one thread: the first of its share. It is `None` if the host
/// has fewer cores than ranks, or a CPU quota leaves only some of the cores.
pub fn kernel_core(topology: &Topology, place: HostPlace) -> Option<CoreInfo> {
    let cores = topology.affordable_cores();
    let is_own = cores.len() >= place.count && topology.should_pin();
    let share = is_own.then(|| share_cores(&cores, place.count).swap_remove(place.index));
    share.and_then(|share| share.into_iter().next())
}

/// Returns the worth of a border before core `at`.
fn border_worth(cores: &[CoreInfo], at: usize) -> usize {
    match (cores.get(at.wrapping_sub(1)), cores.get(at)) {
        // One border between packages counts more than all borders between NUMA domains.
        (Some(left), Some(right)) if left.package != right.package => cores.len(),
        (Some(left), Some(right)) if left.numa != right.numa => 1,
        _ => 0,
    }
}

/// Returns the number of cores of each part, `n/count` rounded down or up, for the borders of the largest worth.
///
/// Dynamic programming: after `i` parts, `j` of them large, the border is at `i·small + j` in any order of the parts.
fn choose_sizes(cores: &[CoreInfo], count: usize) -> Vec<usize> {
    let (small, n_large) = (cores.len() / count, cores.len() % count);
    let worth: Vec<usize> = (0..=cores.len()).map(|at| border_worth(cores, at)).collect();
    // best[i][j]: the largest worth, and `true` if part `i - 1` is large.
    let mut best = vec![vec![None; n_large + 1]; count + 1];
    best[0][0] = Some((0, false));
    for i in 1..=count {
        for j in 0..=n_large.min(i) {
            let border = worth[(i * small + j).min(cores.len())];
            let known = [(Some(j), false), (j.checked_sub(1), true)].into_iter().filter_map(
                |(before, large)| {
                    let (worth, _): (usize, bool) = best[i - 1][before?]?;
                    Some((worth + border, large))
                },
            );
            // Among equals the small part is taken, so that the choice is the same on every rank.
            best[i][j] = known.reduce(|a, b| if b.0 > a.0 { b } else { a });
        }
    }
    let mut sizes = vec![small; count];
    let mut j = n_large;
    for i in (1..=count).rev() {
        if best[i][j].is_some_and(|(_, large)| large) {
            sizes[i - 1] += 1;
            j -= 1;
        }
    }
    sizes
}

/// Makes up the cores of a host, in the order of their numbers: packages with NUMA domains with cores of some kind.
#[cfg(test)]
pub(crate) fn arbitrary_cores() -> impl proptest::strategy::Strategy<Value = Vec<CoreInfo>> {
    use proptest::prelude::*;
    prop::collection::vec((0..3u32, 0..3u32, prop::option::of(0..2u32)), 0..40).prop_map(|places| {
        (0..)
            .zip(places)
            .map(|(core, (package, domain, kind))| CoreInfo {
                core,
                pus: vec![2 * core, 2 * core + 1],
                package,
                numa: 3 * package + domain,
                kind,
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::topology::Topology;
    use proptest::prelude::*;

    fn dealt(description: &str, count: usize) -> Vec<Vec<u32>> {
        let cores = Topology::from_synthetic(description).unwrap().cores();
        let shares = share_cores(&cores, count);
        shares.iter().map(|share| share.iter().map(|c| c.core).collect()).collect()
    }

    #[test]
    fn whole_domains_go_to_one_rank() {
        assert_eq!(dealt("pack:2 core:3 pu:1", 2), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(
            dealt("pack:2 [numa] core:5 pu:2", 4),
            [vec![0, 1, 2], vec![3, 4], vec![5, 6, 7], vec![8, 9]]
        );
    }

    #[test]
    fn a_package_that_lost_a_core_is_still_one_ranks() {
        let mut cores = Topology::from_synthetic("pack:2 [numa] core:5 pu:1").unwrap().cores();
        cores.remove(7);
        let shares = share_cores(&cores, 2);
        assert_eq!((shares[0].len(), shares[1].len()), (5, 4));
        cores.rotate_left(4);
        assert_eq!(share_cores(&cores, 2), shares, "whatever their order");
    }

    #[test]
    fn more_ranks_than_cores_share() {
        let shares = dealt("core:2 pu:1", 5);
        assert_eq!(shares, [[0], [1], [0], [1], [0]]);
        assert_eq!(share_cores(&[], 2), [vec![], vec![]]);
    }

    /// Finds the largest worth over all orders of large and small parts, by trying them all.
    fn brute_force(cores: &[CoreInfo], count: usize) -> usize {
        let (small, n_large) = (cores.len() / count, cores.len() % count);
        (0..1u32 << count)
            .filter(|mask| mask.count_ones() as usize == n_large)
            .map(|mask| {
                let mut at = 0;
                (0..count)
                    .map(|i| {
                        at += small + (mask >> i & 1) as usize;
                        border_worth(cores, at)
                    })
                    .sum()
            })
            .max()
            .unwrap()
    }

    proptest! {
        #[test]
        fn shares_are_disjoint_cover_all_and_differ_by_one(
            cores in arbitrary_cores(), count in 1usize..9,
        ) {
            prop_assume!(cores.len() >= count);
            let shares = share_cores(&cores, count);
            prop_assert_eq!(shares.len(), count);
            let mut sorted = cores.clone();
            sorted.sort_by_key(|core| (core.package, core.numa, core.core));
            prop_assert_eq!(&shares.concat(), &sorted, "contiguous, disjoint, covering");
            let least = cores.len() / count;
            prop_assert!(shares.iter().all(|s| s.len() == least || s.len() == least + 1));
            let mut at = 0;
            let worths = shares.iter().map(|s| { at += s.len(); border_worth(&sorted, at) });
            prop_assert_eq!(worths.sum::<usize>(), brute_force(&sorted, count));
        }
    }
}
