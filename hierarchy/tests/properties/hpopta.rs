//! Properties of the load imbalancing partitioners.

use std::collections::BTreeMap;

use isochron_hierarchy::model::TimeFunction;
use isochron_hierarchy::partition::{
    Limits, Memory, Partition, PartitionError, SearchOutcome, hipopta, hpopta, hpopta_search, popta,
};
use isochron_support::simulated::SplitMix;
use proptest::prelude::*;

/// A function of any shape, with gaps, and with times from a few values so that ties are common.
fn any_function(granule: u64, sizes: u64, times: u32) -> impl Strategy<Value = TimeFunction> {
    let time =
        (0.8_f64..1.0, 1..=times).prop_map(|(present, t)| (present > 0.83).then_some(f64::from(t)));
    prop::collection::vec(time, 0..=sizes as usize).prop_map(move |times| {
        let points =
            ((1..).zip(times)).filter_map(|(i, time_s): (u64, _)| Some((i * granule, time_s?)));
        TimeFunction::new(granule, points.collect()).unwrap()
    })
}

fn any_limits(max: u64) -> impl Strategy<Value = Limits> {
    let memory = (1..4_u64, 0..3_u64, 0..3 * max).prop_map(|(unit, fixed, available)| Memory {
        bytes_per_unit: unit,
        fixed_bytes: fixed,
        available_bytes: available,
    });
    (
        prop::option::of(0..=max),
        prop::collection::btree_set(0..=max, 0..3),
        prop::option::of(memory),
    )
        .prop_map(|(cap, forbidden, memory)| Limits { cap, forbidden, memory })
}

/// For every possible amount: the least largest time, and the fewest active devices for it.
fn divide_exhaustively(
    functions: &[TimeFunction],
    limits: &[Limits],
) -> BTreeMap<u64, (f64, usize)> {
    let Some((first, rest)) = functions.split_first() else {
        return [(0, (0.0, 0))].into();
    };
    // Every division of the rest counts, not only the best one. With a slow first device, a slower
    // division with fewer active devices may be better.
    let mut all = BTreeMap::new();
    visit_divisions(first, &limits[0], rest, &limits[1..], &mut |total, time_s, active| {
        let best = all.entry(total).or_insert((time_s, active));
        if (time_s, active) < *best {
            *best = (time_s, active);
        }
    });
    all
}

fn visit_divisions(
    first: &TimeFunction,
    limit: &Limits,
    rest: &[TimeFunction],
    limits: &[Limits],
    visit: &mut dyn FnMut(u64, f64, usize),
) {
    for (d, time_s) in
        first.points().iter().filter(|&&(d, _)| limit.allows(d)).copied().chain([(0, 0.0)])
    {
        let here = usize::from(d > 0);
        match rest.split_first() {
            None => visit(d, time_s, here),
            Some((next, rest)) => {
                visit_divisions(next, &limits[0], rest, &limits[1..], &mut |sum, t, n| {
                    visit(sum + d, time_s.max(t), n + here);
                })
            }
        }
    }
}

/// Returns `true` if the parts are possible, sum to the total and have the right times.
fn is_sound(
    partition: &Partition,
    functions: &[TimeFunction],
    limits: &[Limits],
    total: u64,
) -> bool {
    partition.units.len() == functions.len()
        && partition.units.iter().sum::<u64>() == total
        && (0..functions.len()).all(|i| {
            let units = partition.units[i];
            limits.get(i).is_none_or(|limits| limits.allows(units))
                && functions[i].time_s(units) == Some(partition.times_s[i])
        })
}

fn search_time(
    functions: &[TimeFunction],
    limits: &[Limits],
    total: u64,
) -> Result<f64, PartitionError> {
    match hpopta_search(functions, limits, total, u64::MAX)? {
        SearchOutcome::Optimal(partition) => {
            assert!(is_sound(&partition, functions, limits, total));
            Ok(partition.max_time_s())
        }
        SearchOutcome::Unfinished(_) => panic!("no limit"),
    }
}

fn no_limits(n: usize) -> Vec<Limits> {
    vec![Limits::default(); n]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_optimum_is_that_of_exhaustive_search(
        (functions, limits) in (1..=4_usize, 1..=2_u64).prop_flat_map(|(n, granule)| (
            prop::collection::vec(any_function(granule, 7, 9), n),
            prop_oneof![
                Just(no_limits(n)),
                prop::collection::vec(any_limits(8 * granule), n),
            ],
        )),
    ) {
        let best = divide_exhaustively(&functions, &limits);
        let reach = functions.iter().map(TimeFunction::max_units).sum::<u64>();
        for total in 0..=reach + 1 {
            let found = hpopta(&functions, &limits, total);
            match (best.get(&total), found) {
                (Some(&best), Ok(found)) => {
                    prop_assert!(is_sound(&found, &functions, &limits, total));
                    prop_assert_eq!((found.max_time_s(), found.active()), best);
                    prop_assert_eq!(search_time(&functions, &limits, total), Ok(best.0));
                }
                (None, Err(error)) => {
                    prop_assert_eq!(hpopta_search(&functions, &limits, total, u64::MAX), Err(error.clone()));
                    let largest = *best.last_key_value().unwrap().0;
                    match error {
                        PartitionError::NotASum { below, .. } => {
                            prop_assert_eq!(Some(below), best.range(..total).next_back().map(|(&d, _)| d));
                        }
                        PartitionError::BeyondModels { capacity, .. } => prop_assert_eq!(capacity, reach),
                        PartitionError::BeyondLimits { capacity, lost, index, .. } => {
                            prop_assert_eq!(capacity, largest);
                            prop_assert!(lost > 0 && index < functions.len());
                        }
                        error => prop_assert!(false, "{}", error),
                    }
                }
                (best, found) => prop_assert!(false, "{total} units: {best:?} but {found:?}"),
            }
        }
    }
}

/// The least `(time, active)` by a table over devices, amounts and numbers of active devices.
fn divide_by_table(functions: &[TimeFunction], total: u64) -> Option<(f64, usize)> {
    let mut best = vec![vec![f64::INFINITY; functions.len() + 1]; total as usize + 1];
    best[0][0] = 0.0;
    for function in functions {
        let before = best.clone();
        for &(d, time_s) in function.points() {
            for sum in d as usize..=total as usize {
                for active in 1..=functions.len() {
                    let time_s = time_s.max(before[sum - d as usize][active - 1]);
                    best[sum][active] = best[sum][active].min(time_s);
                }
            }
        }
    }
    let least = best[total as usize]
        .iter()
        .copied()
        .zip(0..)
        .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    least.0.is_finite().then_some(least)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn larger_optima_are_those_of_the_published_search_and_of_a_table(
        functions in prop_oneof![
            prop::collection::vec(any_function(1, 50, 1000), 5..=12),
            prop::collection::vec(any_function(1, 40, 6), 5..=12),
            prop::collection::vec(any_function(3, 30, 40), 5..=12),
        ],
        part in 0.0..1.0_f64,
    ) {
        let reach = functions.iter().map(TimeFunction::max_units).sum::<u64>();
        let total = (part * reach as f64) as u64;
        match hpopta(&functions, &[], total) {
            Ok(found) => {
                prop_assert!(is_sound(&found, &functions, &[], total));
                let best = (found.max_time_s(), found.active());
                prop_assert_eq!(Some(best), divide_by_table(&functions, total));
                prop_assert_eq!(search_time(&functions, &[], total), Ok(best.0));
            }
            Err(error) => {
                prop_assert!(matches!(error, PartitionError::NotASum { .. }), "{}", error);
                prop_assert_eq!(divide_by_table(&functions, total), None);
            }
        }
    }

    #[test]
    fn popta_is_hpopta_of_identical_devices(
        function in any_function(2, 30, 20),
        n in 1..=9_usize,
        cap in prop::option::of(1..60_u64),
        part in 0.0..1.1_f64,
    ) {
        let limits = Limits { cap, ..Limits::default() };
        let total = (part * (function.max_units() * n as u64) as f64) as u64;
        let functions = vec![function.clone(); n];
        let all_limits = vec![limits.clone(); n];
        match (popta(&function, &limits, n, total), hpopta(&functions, &all_limits, total)) {
            (Ok(one), Ok(all)) => {
                prop_assert!(is_sound(&one, &functions, &all_limits, total));
                prop_assert_eq!(one.max_time_s(), all.max_time_s());
                prop_assert_eq!(one.active(), all.active());
                prop_assert!(one.units.iter().skip(one.active()).all(|&units| units == 0));
            }
            (Err(PartitionError::BeyondLimits { lost, .. }), Err(PartitionError::BeyondLimits { lost: other, .. })) => {
                prop_assert_eq!(lost, other);
            }
            (one, all) => prop_assert_eq!(one, all),
        }
    }

    #[test]
    fn hipopta_takes_as_long_as_hpopta_of_all_devices(
        devices in prop::collection::vec(any_function(2, 20, 30), 1..=4),
        n_nodes in 1..=4_usize,
        capped in any::<bool>(),
        part in 0.0..1.1_f64,
    ) {
        let mut limits = no_limits(devices.len());
        limits[0].cap = capped.then_some(20);
        let functions: Vec<_> = (0..n_nodes).flat_map(|_| devices.clone()).collect();
        let all_limits: Vec<_> = (0..n_nodes).flat_map(|_| limits.clone()).collect();
        let reach = functions.iter().map(TimeFunction::max_units).sum::<u64>();
        let total = (part * reach as f64) as u64;
        match (hipopta(&devices, &limits, n_nodes, total), hpopta(&functions, &all_limits, total)) {
            (Ok(levels), Ok(flat)) => {
                prop_assert_eq!(levels.max_time_s(), flat.max_time_s());
                prop_assert_eq!(levels.nodes.units.iter().sum::<u64>(), total);
                prop_assert!(levels.active() >= flat.active());
                for (i, inside) in levels.devices.iter().enumerate() {
                    prop_assert!(is_sound(inside, &devices, &limits, levels.nodes.units[i]));
                    prop_assert_eq!(inside.max_time_s(), levels.nodes.times_s[i]);
                }
            }
            (Err(PartitionError::BeyondLimits { capacity, .. }), Err(PartitionError::BeyondLimits { capacity: flat, .. })) => {
                prop_assert_eq!(capacity, flat);
            }
            (levels, flat) => prop_assert_eq!(levels.map(|levels| levels.nodes), flat),
        }
    }
}

/// A function of extreme sizes and times.
fn nasty_function() -> impl Strategy<Value = TimeFunction> {
    let granule = prop_oneof![Just(1), Just(7), Just(1 << 40), Just(u64::MAX), Just(u64::MAX / 3)];
    let time = prop_oneof![Just(1e-90), Just(1.0), Just(1e90), 0.5..2.0_f64];
    let size = prop_oneof![1..4_u64, 1..2000_u64, 1..u64::MAX];
    (granule, prop::collection::vec((size, time), 0..6)).prop_map(|(granule, multiples)| {
        let points: BTreeMap<u64, f64> = (multiples.into_iter())
            .filter_map(|(size, time): (u64, f64)| Some((granule.checked_mul(size)?, time)))
            .collect();
        TimeFunction::new(granule, points.into_iter().collect()).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_panics_and_every_division_is_sound(
        functions in prop::collection::vec(nasty_function(), 0..7),
        limits in any_limits(u64::MAX / 3),
        limited in any::<bool>(),
        pick in prop::collection::vec(any::<prop::sample::Index>(), 7),
        any_total in any::<u64>(),
        reachable in any::<bool>(),
        n in 0..12_usize,
    ) {
        // A sum of possible sizes, or just any number.
        let sum = functions.iter().zip(&pick).filter(|(f, _)| !f.points().is_empty()).map(|(f, at)| at.get(f.points()).0).try_fold(0_u64, u64::checked_add);
        let total = sum.filter(|_| reachable).unwrap_or(any_total);
        let limits = if limited { vec![limits; functions.len()] } else { Vec::new() };
        if let Ok(found) = hpopta(&functions, &limits, total) {
            prop_assert!(is_sound(&found, &functions, &limits, total));
        } else {
            // The sizes are few enough for every sum to be listed.
            prop_assert!(!reachable || limited || sum.is_none() || functions.is_empty());
        }
        if let Ok(SearchOutcome::Optimal(found)) = hpopta_search(&functions, &limits, total, 2000) {
            prop_assert!(is_sound(&found, &functions, &limits, total));
            prop_assert_eq!(Ok(found.max_time_s()), hpopta(&functions, &limits, total).map(|p| p.max_time_s()));
        }
        if let Some(function) = functions.first()
            && let Ok(found) = popta(function, &Limits::default(), n, total)
        {
            prop_assert!(is_sound(&found, &vec![function.clone(); n], &[], total));
        }
        if let Ok(found) = hipopta(&functions, &limits, n, total) {
            prop_assert_eq!(found.nodes.units.iter().sum::<u64>(), total);
        }
    }
}

fn function(points: &[(u64, f64)]) -> TimeFunction {
    TimeFunction::new(1, points.to_vec()).unwrap()
}

#[test]
fn the_edges_are_defined() {
    let four = TimeFunction::new(4, vec![(4, 1.0), (8, 3.0)]).unwrap();
    let both = [four.clone(), four.clone()];
    let nothing = Partition { units: vec![0; 2], times_s: vec![0.0; 2] };
    assert_eq!(hpopta(&both, &[], 0), Ok(nothing.clone()));
    assert_eq!(hpopta_search(&both, &[], 0, 0), Ok(SearchOutcome::Optimal(nothing.clone())));
    assert_eq!(popta(&four, &Limits::default(), 2, 0), Ok(nothing));
    assert_eq!(hpopta(&[], &[], 0), Ok(Partition::default()));
    assert_eq!(hpopta_search(&[], &[], 0, 9), Ok(SearchOutcome::Optimal(Partition::default())));
    assert_eq!(hpopta(&[], &[], 4), Err(PartitionError::NoDevices { total: 4 }));
    assert_eq!(popta(&four, &Limits::default(), 0, 4), Err(PartitionError::NoDevices { total: 4 }));
    assert_eq!(hipopta(&both, &[], 0, 4), Err(PartitionError::NoDevices { total: 4 }));
    assert_eq!(hipopta(&[], &[], 3, 0).unwrap().devices, vec![Partition::default(); 3]);
    assert_eq!(hpopta(&both, &[], 3), Err(PartitionError::NotASum { total: 3, below: 0 }));
    assert_eq!(hpopta(&both, &[], 7), Err(PartitionError::NotASum { total: 7, below: 4 }));
    assert_eq!(
        hpopta(&both, &[], 17),
        Err(PartitionError::BeyondModels { total: 17, capacity: 16 })
    );
    assert_eq!(hpopta(&both[..1], &[], 8).unwrap().units, [8]);
    assert_eq!(
        hpopta(&both, &no_limits(1), 8),
        Err(PartitionError::LimitsMismatch { devices: 2, limits: 1 })
    );
    let capped = Limits { cap: Some(7), ..Limits::default() };
    assert_eq!(
        hpopta(&both, &[Limits::default(), capped], 16),
        Err(PartitionError::BeyondLimits { total: 16, capacity: 12, index: 1, lost: 4 })
    );
    let forbidden = Limits { forbidden: [4].into(), ..Limits::default() };
    assert_eq!(
        hpopta(&both, &[forbidden.clone(), forbidden], 12),
        Err(PartitionError::NotASum { total: 12, below: 8 })
    );
}

#[test]
fn a_search_cut_short_says_so_and_keeps_its_best() {
    let points: Vec<_> =
        (1..=30).map(|d| (d, 100.0 / d as f64 + f64::from(d as u32 % 7))).collect();
    let functions = vec![function(&points); 6];
    let Ok(SearchOutcome::Unfinished(Some(best))) = hpopta_search(&functions, &[], 100, 3) else {
        panic!("three steps do not suffice");
    };
    assert!(is_sound(&best, &functions, &[], 100));
    assert!(best.max_time_s() > hpopta(&functions, &[], 100).unwrap().max_time_s());
}

#[test]
fn functions_of_different_granules_are_divided_exactly() {
    let six = TimeFunction::new(6, vec![(6, 1.0), (12, 2.0)]).unwrap();
    let ten = TimeFunction::new(10, vec![(10, 1.0), (20, 4.0)]).unwrap();
    assert_eq!(hpopta(&[six.clone(), ten.clone()], &[], 22).unwrap().units, [12, 10]);
    assert_eq!(hpopta(&[six, ten], &[], 25), Err(PartitionError::NotASum { total: 25, below: 22 }));
}

#[test]
fn fewest_devices_may_not_be_those_that_can_take_most() {
    // Within 1 s they can take 10, 9, 9 and 1. Two of them are enough for 13, but not the first two.
    let functions = [
        function(&[(10, 1.0)]),
        function(&[(9, 1.0), (4, 1.0)]),
        function(&[(9, 1.0)]),
        function(&[(1, 1.0), (2, 2.0)]),
    ];
    assert_eq!(hpopta(&functions, &[], 13).unwrap().units, [0, 4, 9, 0]);
}

#[test]
fn sums_too_far_apart_for_a_table_are_listed() {
    let a = function(&[(1 << 50, 1.0), ((1 << 50) + 1, 2.0), (1 << 51, 3.0)]);
    let b = function(&[(1 << 49, 1.0), (1 << 52, 2.0)]);
    let total = (1 << 49) + (1 << 50) + 1;
    let found = hpopta(&[a.clone(), b.clone()], &[], total).unwrap();
    assert_eq!(found.units, [(1 << 50) + 1, 1 << 49]);
    assert_eq!(
        hpopta(&[a, b], &[], total + 1),
        Err(PartitionError::NotASum { total: total + 1, below: total })
    );
}

/// A rising time with dips and spikes.
fn draw_function(random: &mut SplitMix) -> TimeFunction {
    let speed = random.uniform(1.0, 10.0);
    let points: Vec<_> =
        (1..=300).map(|d: u64| (d, d as f64 / speed * random.uniform(1.0, 3.0))).collect();
    function(&points)
}

#[test]
fn hundreds_of_unlike_devices_with_hundreds_of_sizes_are_divided() {
    let mut random = SplitMix::new(1);
    let functions: Vec<_> = (0..200).map(|_| draw_function(&mut random)).collect();
    let found = hpopta(&functions, &[], 9000).unwrap();
    assert!(is_sound(&found, &functions, &[], 9000));
    // No time below the optimum lets the sizes sum to the total, or only gaps miss it. Then the bound is
    // near.
    let faster_s = found.max_time_s() * 0.99;
    let reach: u64 = (functions.iter())
        .filter_map(|function| {
            function.points().iter().filter(|p| p.1 < faster_s).map(|p| p.0).max()
        })
        .sum();
    assert!(reach < 9000);
}

/// The smallest case of the paper: with `[2, 11, 9, 9]` all four devices finish after 13 s.
#[test]
fn unbalanced_beats_balanced() {
    let functions = [
        [11, 13, 13, 14, 14, 13, 12, 9, 3, 14, 15, 16],
        [4, 6, 7, 9, 10, 12, 12, 9, 3, 11, 13, 16],
        [4, 6, 8, 9, 9, 7, 1, 10, 13, 14, 15, 16],
        [4, 5, 7, 8, 8, 2, 9, 11, 13, 14, 15, 16],
    ]
    .map(|times_s| function(&(1..).zip(times_s.map(f64::from)).collect::<Vec<_>>()));
    let optimum = hpopta(&functions, &[], 31).unwrap();
    assert_eq!(optimum.units, [9, 9, 7, 6]);
    assert_eq!(optimum.times_s, [3.0, 3.0, 1.0, 2.0]);
}
