//! Balancing with its measuring counted, on made-up devices: what goes wrong shows in what a run takes.
//!
//! Each measured time has noise of 2 % a repetition, and of 1 % between measurements. The seeds are fixed.

use isochron_hierarchy::balance::{
    BalanceConfig, BalanceStart, BalanceStep, DeviceBalance, Dpa, Idpa,
};
use isochron_hierarchy::model::{Fit, Point};
use isochron_hierarchy::partition::Partitioner;
use isochron_hierarchy::times::Sample;

use crate::endings::run_dpa;
use crate::rebalance::draw_factor;
use isochron_support::simulated::SplitMix;

/// A device that starts up in `fixed_s`. Each unit beyond its memory takes `steep` times as long.
#[derive(Debug, Clone, Copy)]
struct NoisyDevice {
    speed: f64,
    fixed_s: f64,
    memory: f64,
    steep: f64,
}

impl NoisyDevice {
    fn time_s(&self, d: f64) -> f64 {
        let beyond = (self.steep - 1.0) * (d - self.memory).max(0.0);
        if d > 0.0 { self.fixed_s + (d + beyond) / self.speed } else { 0.0 }
    }

    fn units_within(&self, t_s: f64) -> f64 {
        let d = ((t_s - self.fixed_s) * self.speed).max(0.0);
        d.min(self.memory + (d - self.memory).max(0.0) / self.steep)
    }
}

/// A share of each device, in units.
const SHARE: f64 = 1000.0;

/// Makes devices of the same speed, or of speeds that differ by up to 10. `change` alters one of them, given
/// the seconds of an even division.
fn make_devices(
    n: usize,
    unlike: bool,
    random: &mut SplitMix,
    change: fn(&mut NoisyDevice, f64, &mut SplitMix),
) -> Vec<NoisyDevice> {
    let fastest = if unlike { 10.0 } else { 1.0 };
    let speeds: Vec<f64> = (0..n).map(|_| 1000.0 * random.log_uniform(1.0, fastest)).collect();
    let even_s = SHARE * n as f64 / speeds.iter().sum::<f64>();
    speeds
        .into_iter()
        .map(|speed| {
            let (fixed_s, memory, steep) = (0.0, f64::INFINITY, 1.0);
            let mut device = NoisyDevice { speed, fixed_s, memory, steep };
            change(&mut device, even_s, random);
            device
        })
        .collect()
}

fn leave(_: &mut NoisyDevice, _: f64, _: &mut SplitMix) {}

/// Gives three devices of ten a memory of 0.3 to 1.5 shares, and times 4 to 29 times as steep behind it.
fn limit_memory(device: &mut NoisyDevice, _: f64, random: &mut SplitMix) {
    if random.uniform(0.0, 1.0) < 0.3 {
        device.memory = random.uniform(0.3, 1.5) * SHARE;
        device.steep = random.uniform(4.0, 29.0);
    }
}

/// Lets three devices of ten start up for up to twice the time of an even division.
fn start_late(device: &mut NoisyDevice, even_s: f64, random: &mut SplitMix) {
    if random.uniform(0.0, 1.0) < 0.3 {
        device.fixed_s = random.uniform(0.0, 2.0) * even_s;
    }
}

/// Lets every device start up for up to half the time of an even division.
fn saturate(device: &mut NoisyDevice, even_s: f64, random: &mut SplitMix) {
    device.fixed_s = random.uniform(0.0, 0.5) * even_s;
}

/// Returns the seconds in which all devices finish together. Some of them may do nothing.
fn find_ideal_s(devices: &[NoisyDevice]) -> f64 {
    let total = SHARE * devices.len() as f64;
    let (mut low, mut high) = (0.0, 1e3);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let done: f64 = devices.iter().map(|device| device.units_within(middle)).sum();
        if done < total { low = middle } else { high = middle }
    }
    high
}

/// Measures units that take `t_s` three times.
fn measure(d: u64, t_s: f64, noise: f64, random: &mut SplitMix) -> Sample {
    let burst_s = t_s * draw_factor(0.5 * noise, random);
    let reps = [(); 3].map(|()| burst_s * draw_factor(noise, random));
    let mean = reps.iter().sum::<f64>() / 3.0;
    let squares: f64 = reps.iter().map(|rep_s| (rep_s - mean).powi(2)).sum();
    Sample::measured(d, mean, 3, (squares / 6.0).sqrt())
}

/// The outcome of a balancing.
struct Outcome {
    balance: DeviceBalance,
    /// Seconds of a step with the result, relative to the ideal.
    step: f64,
    /// Seconds of measuring and all steps, relative to the ideal.
    total: f64,
}

fn run(
    devices: &[NoisyDevice],
    config: BalanceConfig,
    noise: f64,
    random: &mut SplitMix,
) -> Outcome {
    let total = SHARE as u64 * devices.len() as u64;
    let mut idpa = Idpa::new(config, devices.len(), 1, total, None);
    let mut measuring_s = 0.0;
    let balance = loop {
        match idpa.step() {
            BalanceStep::Done(balance) => break balance,
            BalanceStep::Measure(units) => {
                let times: Vec<Sample> = devices
                    .iter()
                    .zip(units)
                    .map(|(device, d)| match d {
                        0 => Sample::default(),
                        d => measure(d, device.time_s(d as f64), noise, random),
                    })
                    .collect();
                measuring_s += times.iter().map(|time| 3.0 * time.seconds).fold(0.0, f64::max);
                idpa.observe(&times).unwrap();
            }
        }
    };
    let step_s = devices
        .iter()
        .zip(&balance.slices)
        .map(|(device, &d)| device.time_s(d as f64))
        .fold(0.0, f64::max);
    let ideal_s = find_ideal_s(devices);
    let steps = config.steps as f64;
    Outcome {
        step: step_s / ideal_s,
        total: (measuring_s + steps * step_s) / (steps * ideal_s),
        balance,
    }
}

fn of_steps(steps: u64, start: BalanceStart) -> BalanceConfig {
    BalanceConfig { steps, start, ..BalanceConfig::default() }
}

/// Runs a hundred instances of eight unlike devices.
fn run_hundred(
    config: BalanceConfig,
    change: fn(&mut NoisyDevice, f64, &mut SplitMix),
) -> Vec<Outcome> {
    let seeds = 0..100;
    seeds
        .map(|seed| {
            let mut random = SplitMix::new(seed);
            let devices = make_devices(8, true, &mut random, change);
            run(&devices, config, 0.02, &mut random)
        })
        .collect()
}

fn mean_total(outcomes: &[Outcome]) -> f64 {
    outcomes.iter().map(|outcome| outcome.total).sum::<f64>() / outcomes.len() as f64
}

fn worst_step(outcomes: &[Outcome]) -> f64 {
    outcomes.iter().map(|outcome| outcome.step).fold(0.0, f64::max)
}

#[test]
fn a_size_just_below_a_slow_one_was_trusted_behind_a_cliff() {
    for (steps, most) in [(150, 1.28), (1000, 1.07)] {
        let outcomes = run_hundred(of_steps(steps, BalanceStart::FirstPoints), limit_memory);
        let (mean, worst) = (mean_total(&outcomes), worst_step(&outcomes));
        assert!(mean < most && worst < 1.15, "{steps} steps: {mean} {worst}");
    }
}

#[test]
fn a_device_that_starts_too_late_kept_a_sliver_that_all_waited_for() {
    for (steps, most) in [(150, 1.13), (1000, 1.05)] {
        let outcomes = run_hundred(of_steps(steps, BalanceStart::FirstPoints), start_late);
        let (mean, worst) = (mean_total(&outcomes), worst_step(&outcomes));
        assert!(mean < most && worst < 1.15, "{steps} steps: {mean} {worst}");
        assert!(outcomes.iter().any(|outcome| outcome.balance.slices.contains(&0)));
    }
}

#[test]
fn ninety_alike_devices_were_never_balanced() {
    for start in [BalanceStart::Even, BalanceStart::FirstPoints] {
        let seeds = 0..20;
        let outcomes = seeds.map(|seed| {
            let mut random = SplitMix::new(seed);
            let devices = make_devices(90, false, &mut random, leave);
            run(&devices, of_steps(1000, start), 0.02, &mut random)
        });
        let outcomes: Vec<Outcome> = outcomes.collect();
        let balanced = outcomes.iter().filter(|outcome| outcome.balance.converged);
        assert!(balanced.count() >= 18, "{start:?}");
        let (mean, worst) = (mean_total(&outcomes), worst_step(&outcomes));
        assert!(mean < 1.005 && worst < 1.005, "{start:?}: {mean} {worst}");
    }
}

#[test]
fn a_division_with_idle_devices_counted_as_balanced() {
    for (steps, most) in [(150, 1.13), (1000, 1.05)] {
        let outcomes = run_hundred(of_steps(steps, BalanceStart::Even), saturate);
        let (mean, worst) = (mean_total(&outcomes), worst_step(&outcomes));
        assert!(mean < most && worst < 1.1, "{steps} steps: {mean} {worst}");
        let mut done = outcomes.iter().filter(|outcome| outcome.balance.converged);
        assert!(done.all(|outcome| !outcome.balance.slices.contains(&0)));
    }
}

#[test]
fn an_idle_part_that_could_help_is_no_balance() {
    let mut dpa = Dpa::new(BalanceConfig::default(), 3, 91);
    // The third part gets nothing, although its first unit would take a fortieth of the time.
    let times = [(45, 4.5), (46, 4.4), (0, 0.0)];
    dpa.observe(&times.map(|(d, t_s)| Sample::measured(d, t_s, 3, 0.0))).unwrap();
    let BalanceStep::Measure(next) = dpa.step() else {
        panic!("two equal times of three parts are no balance")
    };
    assert!(next[2] > 0);
}

#[test]
fn unlike_devices_were_made_equal_to_save_alike_ones_from_noise() {
    for (unlike, most) in [(false, 1.13), (true, 1.24)] {
        let outcomes: Vec<Outcome> = (0..100)
            .map(|seed| {
                let mut random = SplitMix::new(seed);
                let devices = make_devices(16, unlike, &mut random, leave);
                run(&devices, of_steps(30, BalanceStart::FirstPoints), 0.05, &mut random)
            })
            .collect();
        let mean = mean_total(&outcomes);
        assert!(mean < most, "unlike {unlike}: {mean}");
    }
}

/// Balances 25 units over two parts whose time falls from 10 to 20 units.
fn balance_falling(fit: Fit, partitioner: Partitioner) -> Vec<usize> {
    let config = BalanceConfig { fit, partitioner, ..BalanceConfig::default() };
    let mut dpa = Dpa::new(config, 2, 25);
    for (d, t_s) in [(1, 2.0), (10, 20.0), (20, 3.0)] {
        for part in 0..2 {
            let (reps, ci_s) = (3, 0.0);
            dpa.seed(part, Point { d, t_s, reps, ci_s }).unwrap();
        }
    }
    let times_s = [10.5, 9.0];
    run_dpa(&mut dpa, |part, d| Sample::measured(d, times_s[part], 3, 0.0)).falling
}

#[test]
fn times_that_fall_were_divided_without_a_word() {
    for (fit, follows) in [
        (Fit::Cpm, false),
        (Fit::PiecewiseSpeed, false),
        (Fit::PiecewiseTime, false),
        (Fit::Akima, true),
        (Fit::RawPiecewise, true),
    ] {
        for partitioner in [Partitioner::Gpa, Partitioner::Npa, Partitioner::Hpopta] {
            let warned = follows && partitioner != Partitioner::Hpopta;
            let falling = balance_falling(fit, partitioner);
            assert_eq!(falling.len(), if warned { 2 } else { 0 }, "{fit} {partitioner}");
        }
    }
}
