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
    let config =
        RebalanceConfig { sweeps: Some(20), move_unit_s: Some(1e-4), ..RebalanceConfig::default() };
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
            assert!(long <= 3, "{seed} {cap}: {long} sweeps, {:?}", simulated.list_moves());
        }
    }
}

/// Returns the seconds of a loop of 20 sweeps over those with the even division. Moving the busiest part's units takes a
/// tenth of a second for each second of computing them.
fn run_short_loop(cap: f64) -> f64 {
    let config =
        RebalanceConfig { sweeps: Some(20), move_unit_s: Some(1e-4), ..RebalanceConfig::default() };
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
    let ratios: Vec<(f64, f64)> =
        (8..30).map(|step| 100.0 * f64::from(step)).map(|cap| (cap, run_short_loop(cap))).collect();
    assert!(ratios.iter().all(|&(_, ratio)| ratio < 1.0), "{ratios:?}");
}

/// Returns the seconds of 20 sweeps with the even division over those of a loop that balances itself.
fn gain_of_paging_loop(
    patience: RebalanceConfig,
    n: u64,
    noise: f64,
    seed: u64,
) -> (f64, Vec<Vec<u64>>) {
    let config = RebalanceConfig { sweeps: Some(20), move_unit_s: Some(2e-5), ..patience };
    let (paging, mut random) = (list_two_cliffs(n), SplitMix::new(seed));
    let mut machine = Rebalance::new(config, n, vec![LoopPart::default(); 4]).unwrap();
    let mut waiting = WaitingTimes::before(&machine);
    let (mut even_s, mut loop_s, mut seen) = (0.0, 0.0, Vec::new());
    for _ in 0..20 {
        let units = machine.units().to_vec();
        even_s += paging.longest(&[n / 4; 4]);
        let exact = paging.times(&units);
        loop_s += exact.iter().copied().fold(0.0, f64::max);
        let noisy = exact.into_iter().map(|t_s| t_s * draw_factor(noise, &mut random));
        waiting.add(&mut machine, noisy.collect());
        loop_s += 2e-5 * count_moved(&units, machine.units()).1 as f64;
        seen.push(units);
    }
    seen.dedup();
    (even_s / loop_s, seen)
}

/// A division slower than the one before was kept: 0.84 times the speed of the even division. A short loop that waits for a
/// single sweep comes near to one that knows its division after the first sweep.
#[test]
fn a_slower_division_is_left_again_and_impatience_wins_most_of_what_there_is() {
    let usual = RebalanceConfig::default();
    let impatient = RebalanceConfig { warm_up: 0, window: 1, cooldown: 1, ..usual.clone() };
    let mut failures = Vec::new();
    for n in (2048..=3840).step_by(128) {
        let paging = list_two_cliffs(n);
        let (optimum_s, even_s) = (paging.best_s(), paging.longest(&[n / 4; 4]));
        let most = 20.0 * even_s / (even_s + 19.0 * optimum_s);
        for (config, part) in [(&usual, 0.0), (&impatient, 0.85)] {
            for (noise, seed) in [(0.0, 1), (0.003, 2), (0.003, 3), (0.01, 4)] {
                if part == 0.0 && seed == 4 {
                    continue;
                }
                let (gain, divisions) = gain_of_paging_loop(config.clone(), n, noise, seed);
                if gain < f64::max(1.0, part * most) {
                    failures.push((n, noise, gain, most, divisions));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

/// A loop on parts of which some page beyond a size, as in figures 2.6 and 4.4 of Clarke's thesis.
#[derive(Debug)]
struct CliffLoop {
    n: u64,
    /// Speed, and the size from which it falls with the fourth power.
    parts: Vec<[f64; 2]>,
}

impl CliffLoop {
    fn times(&self, units: &[u64]) -> Vec<f64> {
        let times = units.iter().zip(&self.parts);
        times
            .map(|(&d, &[speed, cap])| {
                let d = d as f64;
                d / speed * f64::max(d / cap, 1.0).powi(4)
            })
            .collect()
    }

    fn longest(&self, units: &[u64]) -> f64 {
        self.times(units).into_iter().fold(0.0, f64::max)
    }

    /// Returns the seconds of the best division.
    fn best_s(&self) -> f64 {
        let count = |limit_s: f64| -> u64 {
            let parts = (0..self.parts.len()).map(|part| {
                let (mut fits, mut beyond) = (0, self.n + 1);
                while beyond - fits > 1 {
                    let d = u64::midpoint(fits, beyond);
                    if self.times(&vec![d; self.parts.len()])[part] <= limit_s {
                        fits = d;
                    } else {
                        beyond = d;
                    }
                }
                fits
            });
            parts.sum()
        };
        let (mut low, mut high) = (0.0, self.longest(&vec![self.n; self.parts.len()]));
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if count(middle) >= self.n {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// Runs 1000 sweeps. Returns the last over the best division, and the number of changes.
    fn settle(&self, noise: f64, seed: u64) -> (f64, usize) {
        let best_s = self.best_s();
        let config = RebalanceConfig {
            move_unit_s: Some(0.02 * best_s * self.parts.len() as f64 / self.n as f64),
            ..RebalanceConfig::default()
        };
        let mut random = SplitMix::new(seed);
        let parts = vec![LoopPart::default(); self.parts.len()];
        let mut machine = Rebalance::new(config, self.n, parts).unwrap();
        let mut waiting = WaitingTimes::before(&machine);
        for _ in 0..1000 {
            let exact = self.times(machine.units()).into_iter();
            let noisy = exact.map(|t_s| t_s * draw_factor(noise, &mut random));
            waiting.add(&mut machine, noisy.collect());
        }
        (self.longest(machine.units()) / best_s, machine.to_report().changes.len())
    }
}

/// Returns the four nodes of `cluster-configs/emulated-two-memory-cliffs.toml`, which share rows of `n` elements.
fn list_two_cliffs(n: u64) -> CliffLoop {
    let blocks = n as f64 / 1024.0;
    let parts = [(110e3, 2000.0), (90e3, 2000.0), (60e3, f64::INFINITY), (45e3, f64::INFINITY)];
    CliffLoop { n, parts: parts.map(|(speed, cap)| [speed / blocks, cap / blocks]).to_vec() }
}

/// Draws four nodes, of which two fast ones have memory for 0.3 to 1.5 even shares.
fn draw_two_cliffs(random: &mut SplitMix) -> CliffLoop {
    let n = random.log_uniform(1000.0, 20_000.0) as u64;
    let even = n as f64 / 4.0;
    let mut draw_part = |part| match part {
        0 | 1 => {
            let cap = even * random.log_uniform(0.3, 1.5);
            [20.0 * random.log_uniform(0.7, 2.8) * even, cap]
        }
        _ => [10.0 * random.log_uniform(0.7, 2.8) * even, f64::INFINITY],
    };
    CliffLoop { n, parts: (0..4).map(&mut draw_part).collect() }
}

/// After one sweep far behind a cliff the fast nodes were left with a tenth of the sweep for ever.
#[test]
fn loops_on_parts_that_page_settle_near_the_best_division() {
    let mut random = SplitMix::new(7);
    let known = (3776..=4096).step_by(10).map(list_two_cliffs);
    let drawn: Vec<CliffLoop> = (0..1000).map(|_| draw_two_cliffs(&mut random)).collect();
    let mut beyond = 0;
    for (seed, run) in known.chain(drawn).enumerate() {
        for noise in [0.0, 0.01] {
            let (ratio, changes) = run.settle(noise, seed as u64);
            assert!(
                ratio < 1.06 + noise && changes <= 12,
                "{seed} {noise}: {ratio} after {changes} of {run:?}"
            );
            // The next step may promise less than the trigger.
            beyond += usize::from(ratio > 1.05 + noise);
        }
    }
    assert!(beyond <= 4, "{beyond}");
}
