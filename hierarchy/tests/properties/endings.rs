//! Balancing if a division cannot be measured to the end, and if the best one is not balanced.

use isochron_hierarchy::balance::{
    BalanceConfig, BalanceStep, Balanced, DeviceBalance, DeviceModels, Dpa, EndReason, Idpa,
};
use isochron_hierarchy::model::{Fit, Point};
use isochron_hierarchy::partition::{Partition, Partitioner};
use isochron_hierarchy::times::Sample;

/// Measures what is asked for until the balancing ends.
pub fn run_dpa(dpa: &mut Dpa, mut observe: impl FnMut(usize, u64) -> Sample) -> Balanced {
    loop {
        match dpa.step() {
            BalanceStep::Done(balanced) => return balanced,
            BalanceStep::Measure(units) => {
                let times: Vec<_> = (0..).zip(&units).map(|(i, &d)| observe(i, d)).collect();
                dpa.observe(&times).unwrap();
            }
        }
    }
}

/// Longest time of one measurement.
const DEADLINE_S: f64 = 2.0;

/// Returns the time of a device that takes `t_s` seconds.
fn within_deadline(d: u64, t_s: f64) -> Sample {
    if t_s > DEADLINE_S {
        Sample::at_least(d, DEADLINE_S)
    } else {
        Sample::measured(d, t_s, 3, 0.0)
    }
}

/// Seconds of a fast device, and of one that pages beyond 300 units.
fn paging_s(device: usize, d: u64) -> f64 {
    let d = d as f64;
    match device {
        0 => d / 1000.0,
        _ => d / 500.0 + (d - 300.0).max(0.0) / 5.0,
    }
}

#[test]
fn a_division_that_takes_too_long_is_left_behind() {
    // An even share of 1000 units takes the second device 41 s.
    let mut dpa = Dpa::new(BalanceConfig::default(), 2, 1000);
    let balanced = run_dpa(&mut dpa, |i, d| within_deadline(d, paging_s(i, d)));
    assert!(balanced.history[0].cut_off);
    // The best there is: one unit more takes the second device another 0.2 s.
    assert_eq!(balanced.units, [700, 300]);
    assert_eq!(balanced.times_s, [0.7, 0.6]);
}

#[test]
fn granules_stay_together_in_every_division() {
    for (total, granule) in [(1000, 16), (1000, 1), (15, 16), (0, 4)] {
        let mut dpa = Dpa::new(BalanceConfig::default(), 2, total).in_granules(granule);
        let balanced = run_dpa(&mut dpa, |i, d| within_deadline(d, paging_s(i, d)));
        let measured = balanced.history.iter().map(|division| &division.units);
        for units in measured.chain([&balanced.units]) {
            assert_eq!(units.iter().sum::<u64>(), total);
            assert!(units.iter().filter(|&&d| d % granule > 0).count() <= 1, "{balanced:?}");
        }
        // 304 units would take the second device 1.4 s.
        assert!(total < 1000 || balanced.units[1] <= 300, "{balanced:?}");
    }
}

#[test]
fn a_part_that_paged_with_many_units_is_tried_with_a_granule() {
    // An even share takes the second device 201 s, so that 7 units seem to take longer than all of them on the first.
    let paging_s = |i: usize, d: u64| {
        (i + 1) as f64 * d as f64 * 1e-3 + if i == 1 { d.saturating_sub(300) as f64 } else { 0.0 }
    };
    for granule in [1, 7, 100] {
        let mut dpa = Dpa::new(BalanceConfig::default(), 2, 1000).in_granules(granule);
        let balanced = run_dpa(&mut dpa, |i, d| within_deadline(d, paging_s(i, d)));
        let slowest_s = balanced.times_s.iter().copied().fold(0.0, f64::max);
        assert!(slowest_s <= 0.7 * 1.1 + granule as f64 * 1e-3, "{balanced:?}");
    }
}

#[test]
fn a_division_by_other_models_is_measured_next_and_ends_where_it_is_repeated() {
    let mut dpa = Dpa::new(BalanceConfig::default(), 2, 1000);
    let other = Partition { units: vec![750, 250], times_s: vec![0.7, 0.7] };
    for units in [[500, 500], [750, 250]] {
        assert_eq!(dpa.step(), BalanceStep::Measure(units.to_vec()));
        let times = [0, 1].map(|i| within_deadline(units[i], paging_s(i, units[i])));
        dpa.observe_divided(&times, other.clone()).unwrap();
    }
    let BalanceStep::Done(balanced) = dpa.step() else {
        panic!("it goes on");
    };
    assert_eq!((&balanced.units, balanced.why), (&other.units, EndReason::NothingNew));
}

/// Balances two devices whose measurements cost `runs` kernel runs a repetition, and `ends_s` in addition.
/// 500 units take 5 s and 1.25 s; balanced, each device takes 2 s.
fn end_with_costs(runs: f64, ends_s: f64) -> (EndReason, u32) {
    let config = BalanceConfig { steps: 10, ..BalanceConfig::default() };
    let mut dpa = Dpa::new(config, 2, 1000);
    let balanced = run_dpa(&mut dpa, |i, d| {
        let t_s = d as f64 / [100.0, 400.0][i];
        Sample::measured(d, t_s, 3, 0.0).with_cost(runs * 3.0 * t_s + ends_s)
    });
    (balanced.why, balanced.iterations)
}

#[test]
fn the_cost_of_measuring_decides_if_another_measurement_pays() {
    // Ten steps save 30 s, and three repetitions take 6 s.
    assert_eq!(end_with_costs(1.0, 0.0), (EndReason::Balanced, 2));
    // Repetitions of eight runs each take 48 s. Work before and after costs too.
    assert_eq!(end_with_costs(8.0, 0.0), (EndReason::NotWorthIt, 1));
    assert_eq!(end_with_costs(2.0, 60.0), (EndReason::NotWorthIt, 1));
}

#[test]
fn equal_bounds_are_no_balance() {
    // Both devices exceed the deadline with any share, so no division is known to be balanced.
    let mut dpa = Dpa::new(BalanceConfig::default(), 2, 1000);
    let balanced = run_dpa(&mut dpa, |_, d| within_deadline(d, d as f64));
    assert!(!balanced.converged);
    assert_ne!(balanced.why, EndReason::Balanced);
    assert_eq!(balanced.units.iter().sum::<u64>(), 1000);
}

fn balance_devices(observe: fn(usize, u64) -> Sample) -> DeviceBalance {
    let known = DeviceModels::from_speeds(&[1.0, 1.0]);
    let mut idpa = Idpa::new(BalanceConfig::default(), 2, 1, 100, Some(&known));
    loop {
        match idpa.step() {
            BalanceStep::Done(balance) => return balance,
            BalanceStep::Measure(columns) => {
                let times: Vec<_> = (0..).zip(columns).map(|(i, d)| observe(i, d)).collect();
                idpa.observe(&times).unwrap();
            }
        }
    }
}

#[test]
fn a_node_has_a_bound_if_one_of_its_devices_has() {
    let hopeless = balance_devices(|device, d| match device {
        0 => Sample::at_least(d, 0.5 * d as f64),
        _ => Sample::measured(d, d as f64, 3, 0.0),
    });
    assert!(hopeless.cut_off && hopeless.to_sample().is_bound());
    let fine = balance_devices(|_, d| Sample::measured(d, d as f64, 3, 0.0));
    assert!(!fine.cut_off && fine.converged);
    // A device that was given up in balancing may be measured afterwards.
    let times = [Sample::measured(50, 60.0, 3, 0.1); 2];
    assert!(!hopeless.refine_times(&times).cut_off);
}

/// Seconds of a device whose speed halves from 25 to 49 units, and of one of constant speed.
fn dip_s(device: usize, d: u64) -> f64 {
    match (device, d) {
        (0, 25..50) => d as f64 / 5.0,
        (0, _) => d as f64 / 10.0,
        _ => d as f64 / 5.0,
    }
}

#[test]
fn if_the_optimum_need_not_be_balanced_a_balanced_division_is_no_end() {
    // Even shares take 6 s each; 50 and 10 units take 5 and 2 s.
    let config = BalanceConfig {
        fit: Fit::RawPiecewise,
        partitioner: Partitioner::Hpopta,
        ..BalanceConfig::default()
    };
    let mut dpa = Dpa::new(config, 2, 60);
    for d in 1..=60 {
        for device in 0..2 {
            let t_s = dip_s(device, d);
            let (reps, ci_s) = (3, 0.0);
            dpa.seed(device, Point { d, t_s, reps, ci_s }).unwrap();
        }
    }
    let balanced = run_dpa(&mut dpa, |i, d| {
        if d == 0 { Sample::default() } else { Sample::measured(d, dip_s(i, d), 3, 0.0) }
    });
    assert_eq!(balanced.history[0].imbalance, 0.0);
    assert_eq!(balanced.units, [50, 10]);
    assert_eq!(balanced.times_s, [5.0, 2.0]);
    assert!(balanced.converged);
    assert_eq!(balanced.why, EndReason::Balanced);
}
