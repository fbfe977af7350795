//! Loops with parts that slow down beyond a size.

use isochron_hierarchy::rebalance::{RebalanceConfig, count_moved};

use super::*;

/// Returns the seconds of parts of which the fast ones slow down with the fourth power of the size beyond `cap` units.
fn draw_cliff_times(units: &[u64], cap: f64, random: &mut SplitMix) -> Vec<f64> {
    units
        .iter()
        .enumerate()
        .map(|(part, &units)| {
            let d = units as f64;
            match part % 4 {
                0 => 1e-3 * d * (d / cap).powi(4).max(1.0),
                unlike => 1e-3 * d * (1.5 + 0.5 * unlike as f64),
            }
        })
        .map(|t_s| t_s * draw_factor(0.02, random))
        .collect()
}

/// Behind the cliff a sweep takes up to eight times as long. It was endured for a whole cool-down.
#[test]
fn a_change_that_leads_over_a_cliff_is_soon_taken_back() {
    let config = RebalanceConfig {
        sweeps: Some(20),
        move_unit_s: Some(1e-4),
        ..RebalanceConfig::default()
    };
    for seed in 0..20 {
        for cap in [600.0, 800.0, 1000.0] {
            let unit_s = [1e-3; 16];
            let mut simulated = SimulatedLoop::new(config.clone(), &unit_s, 0.0, seed);
            let even_s = draw_cliff_times(&[750; 16], cap, &mut SplitMix::new(seed))
                .into_iter()
                .fold(0.0, f64::max);
            let mut long = 0;
            for _ in 0..20 {
                let units = simulated.machine.units().to_vec();
                let times_s = draw_cliff_times(&units, cap, &mut simulated.random);
                let sweep_s = times_s.iter().copied().fold(0.0, f64::max);
                long += usize::from(sweep_s > 1.2 * even_s);
                simulated.take_times(times_s);
            }
            // One sweep is ignored, and two have to agree.
            assert!(
                long <= 3,
                "{seed} {cap}: {long} sweeps, {:?}",
                simulated.list_moves()
            );
        }
    }
}

/// Returns the seconds of a loop of 20 sweeps over those with the even division. Moving the busiest part's units takes a
/// tenth of a second for each second of computing them.
fn run_short_loop(cap: f64) -> f64 {
    let config = RebalanceConfig {
        sweeps: Some(20),
        move_unit_s: Some(1e-4),
        ..RebalanceConfig::default()
    };
    let mut ratios = 0.0;
    for seed in 0..10 {
        let mut simulated = SimulatedLoop::new(config.clone(), &[1e-3; 16], 0.0, seed);
        let mut even_s = 0.0;
        let mut moving_s = 0.0;
        for _ in 0..20 {
            let even = draw_cliff_times(&[750; 16], cap, &mut simulated.random);
            even_s += even.into_iter().fold(0.0, f64::max);
            let units = simulated.machine.units().to_vec();
            let times_s = draw_cliff_times(&units, cap, &mut simulated.random);
            if let Some(next) = simulated.take_times(times_s) {
                moving_s += 1e-4 * count_moved(&units, &next).1 as f64;
            }
        }
        ratios += (simulated.seconds + moving_s) / even_s;
    }
    ratios / 10.0
}

/// A fast part of a short loop grew by a factor of 2, over the end of its memory, and the sweeps left did not win it back.
#[test]
fn a_short_loop_loses_nothing_beyond_a_cliff() {
    let ratios: Vec<(f64, f64)> = (8..30)
        .map(|step| 100.0 * f64::from(step))
        .map(|cap| (cap, run_short_loop(cap)))
        .collect();
    assert!(ratios.iter().all(|&(_, ratio)| ratio < 1.0), "{ratios:?}");
}

/// Returns the seconds of four nodes for `rows` rows of a system of `n` unknowns. The first two page beyond 2000 blocks of
/// 32×32 elements.
fn list_paging_times(n: u64, rows: &[u64]) -> Vec<f64> {
    let nodes = [
        (110e3, 2000.0),
        (90e3, 2000.0),
        (60e3, f64::INFINITY),
        (45e3, f64::INFINITY),
    ];
    (rows.iter().zip(nodes))
        .map(|(&rows, (speed, cap))| {
            let d = (rows * n) as f64 / 1024.0;
            d / speed * f64::max(d / cap, 1.0).powi(4)
        })
        .collect()
}

/// Returns the seconds of 20 sweeps with the even division over those of a loop that balances itself.
fn gain_of_paging_loop(
    patience: RebalanceConfig,
    n: u64,
    noise: f64,
    seed: u64,
) -> (f64, Vec<Vec<u64>>) {
    let config = RebalanceConfig {
        sweeps: Some(20),
        move_unit_s: Some(2e-5),
        ..patience
    };
    let mut random = SplitMix::new(seed);
    let mut machine = Rebalance::new(config, n, vec![LoopPart::default(); 4]).unwrap();
    let mut waiting = WaitingTimes::before(&machine);
    let (mut even_s, mut loop_s, mut seen) = (0.0, 0.0, Vec::new());
    for _ in 0..20 {
        let units = machine.units().to_vec();
        even_s += list_paging_times(n, &[n / 4; 4])
            .into_iter()
            .fold(0.0, f64::max);
        let exact = list_paging_times(n, &units);
        loop_s += exact.iter().copied().fold(0.0, f64::max);
        let noisy = exact
            .into_iter()
            .map(|t_s| t_s * draw_factor(noise, &mut random));
        waiting.add(&mut machine, noisy.collect());
        loop_s += 2e-5 * count_moved(&units, machine.units()).1 as f64;
        seen.push(units);
    }
    seen.dedup();
    (even_s / loop_s, seen)
}

/// A division slower than the one before was kept: 0.84 times the speed of the even division.
#[test]
fn a_slower_division_is_left_again() {
    let mut failures = Vec::new();
    for n in (2048..=3840).step_by(128) {
        for (noise, seed) in [(0.0, 1), (0.003, 2), (0.003, 3)] {
            let usual = RebalanceConfig::default();
            let (gain, divisions) = gain_of_paging_loop(usual, n, noise, seed);
            if gain < 1.0 {
                failures.push((n, noise, gain, divisions));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

/// A short loop that waits for a single sweep comes near to one that knows its division after the first sweep.
#[test]
fn a_short_loop_without_patience_wins_most_of_what_there_is() {
    let impatient = RebalanceConfig {
        warm_up: 0,
        window: 1,
        cooldown: 1,
        ..RebalanceConfig::default()
    };
    let mut failures = Vec::new();
    for n in (2048..=3840).step_by(128) {
        let optimum_s = (1..2000)
            .map(|step| 1e-4 * f64::from(step))
            .map(|limit_s| (limit_s, count_within(n, limit_s)))
            .find(|&(_, rows)| rows >= n)
            .map_or(f64::INFINITY, |(limit_s, _)| limit_s);
        let even_s = (list_paging_times(n, &[n / 4; 4]).into_iter()).fold(0.0, f64::max);
        let most = 20.0 * even_s / (even_s + 19.0 * optimum_s);
        for (noise, seed) in [(0.0, 1), (0.003, 2), (0.003, 3), (0.01, 4)] {
            let (gain, divisions) = gain_of_paging_loop(impatient.clone(), n, noise, seed);
            if gain < f64::max(1.0, 0.85 * most) {
                failures.push((n, noise, gain, most, divisions));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

/// Counts the rows that the nodes do within a time.
fn count_within(n: u64, limit_s: f64) -> u64 {
    let rows = (0..4).map(|node| {
        let (mut fits, mut beyond) = (0, n + 1);
        while beyond - fits > 1 {
            let rows = u64::midpoint(fits, beyond);
            if list_paging_times(n, &[rows; 4])[node] <= limit_s {
                fits = rows;
            } else {
                beyond = rows;
            }
        }
        fits
    });
    rows.sum()
}
