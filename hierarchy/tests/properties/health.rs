//! The check of devices, on simulated times.

use isochron_hierarchy::balance::BalanceStep;
use isochron_hierarchy::health::{
    CheckedDevice, ComparedWith, DeviceHealth, DeviceRound, Health, HealthCheck, ROUNDS,
    RoundRequest, SlowCause,
};
use isochron_hierarchy::times::Sample;
use isochron_support::simulated::SplitMix;

const SIZES: usize = 7;

/// A way to measure, as simulated devices see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Together,
    Alone,
    Transfers,
}

/// A device whose times are `slower` than those of its class at a size, counted from the smallest.
type Slower = fn(Pass, usize) -> f64;

const USUAL: Slower = |_, _| 1.0;

/// Simulated devices, with the noise of their times.
struct Machine {
    devices: Vec<CheckedDevice>,
    slower: Vec<Slower>,
    /// Deviation of the noise of each time, and of a device's drift from one round to the next.
    noise: f64,
    drift: f64,
    random: SplitMix,
    failed: Option<(usize, usize)>,
}

impl Machine {
    /// Makes a machine of alike devices. `last` says how much slower the last device is.
    fn of_class(devices: usize, last: Slower) -> Self {
        let mut slower = vec![USUAL; devices];
        slower[devices - 1] = last;
        Self {
            devices: vec![CheckedDevice::default(); devices],
            slower,
            noise: 0.01,
            drift: 0.003,
            random: SplitMix::new(7),
            failed: None,
        }
    }

    fn seeded(self, seed: u64) -> Self {
        Self { random: SplitMix::new(seed), ..self }
    }

    fn noisy(self, noise: f64) -> Self {
        Self { noise, ..self }
    }

    /// Returns the noise of the fastest of three repetitions. Its tails are heavy: one repetition of five is much longer, as
    /// beside another program.
    fn draw_noise(&mut self) -> f64 {
        let repetitions = (0..3).map(|_| {
            let sum: f64 = (0..12).map(|_| self.random.uniform(-0.5, 0.5)).sum();
            let burst = if self.random.uniform(0.0, 1.0) < 0.2 {
                self.random.log_uniform(1.0, 8.0).ln()
            } else {
                0.0
            };
            self.noise * sum + burst
        });
        repetitions.fold(f64::INFINITY, f64::min)
    }

    /// Checks the devices to the end. Returns their health and the number of rounds.
    fn check(&mut self) -> (Vec<DeviceHealth>, usize) {
        self.check_in(usize::MAX)
    }

    /// Checks the devices, and cuts the check off after this many rounds.
    fn check_in(&mut self, most: usize) -> (Vec<DeviceHealth>, usize) {
        let mut check = HealthCheck::new(self.devices.clone());
        let mut of_device = vec![0.0; self.devices.len()];
        let mut of_machine = 0.0;
        let mut rounds = 0;
        loop {
            let request = match check.step() {
                BalanceStep::Done(found) => return (found, rounds),
                BalanceStep::Measure(_) if rounds == most => return (check.judge(), rounds),
                BalanceStep::Measure(request) => request,
            };
            // The whole machine becomes hotter, and every device wanders on its own.
            of_machine += self.random.uniform(-0.02, 0.05);
            for drift in &mut of_device {
                *drift += self.random.uniform(-self.drift, self.drift);
            }
            let round = (0..self.devices.len()).map(|device| {
                if self.failed.is_some_and(|(failed, at)| failed == device && rounds >= at) {
                    return None;
                }
                let shift: f64 = of_machine + of_device[device];
                let mut measure = |pass, is_measured: bool| -> Vec<Option<f64>> {
                    (0..SIZES)
                        .map(|size| {
                            let slower = self.slower[device](pass, size);
                            let time_s = 1e-3 * 3.0_f64.powi(size as i32) * slower;
                            let time_s = time_s * (shift + self.draw_noise()).exp();
                            (is_measured && size % 2 == 0 || pass == Pass::Together)
                                .then_some(time_s)
                        })
                        .collect()
                };
                Some(DeviceRound {
                    together_s: measure(Pass::Together, true),
                    alone_s: measure(Pass::Alone, request.is_alone),
                    transfers_s: measure(Pass::Transfers, true),
                })
            });
            let round = round.collect();
            check.observe(round);
            rounds += 1;
        }
    }

    fn list_health(&mut self) -> Vec<Health> {
        self.check().0.iter().map(|device| device.health).collect()
    }
}

#[test]
fn a_check_that_is_cut_off_finds_a_very_slow_device_and_calls_none_healthy_too_early() {
    let slow: Slower = |_, _| 30.0;
    for (most, is_slow) in (0..10).flat_map(|most| [(most, false), (most, true)]) {
        let last = if is_slow { slow } else { USUAL };
        let (found, _) = Machine::of_class(5, last).check_in(most);
        let others = if most < 5 { Health::Unknown } else { Health::Healthy };
        assert!(found[..4].iter().all(|device| device.health == others), "{most}");
        // Two halves of rounds have to show it.
        let of_last = match most {
            2.. if is_slow => Health::Slow,
            _ => others,
        };
        assert_eq!(found[4].health, of_last, "{most}");
    }
}

#[test]
fn every_cause_is_named_in_every_try() {
    let causes: [(Slower, SlowCause); 7] = [
        (|pass, _| if pass == Pass::Transfers { 1.0 } else { 1.3 }, SlowCause::Clock),
        (|pass, _| if pass == Pass::Transfers { 1.0 } else { 1.12 }, SlowCause::Clock),
        (
            |pass, size| {
                if pass != Pass::Transfers && size > 4 { 1.5 } else { 1.0 }
            },
            SlowCause::Memory,
        ),
        (
            |pass, size| {
                if pass != Pass::Transfers && size < 4 { 1.5 } else { 1.0 }
            },
            SlowCause::Start,
        ),
        (|pass, _| if pass == Pass::Transfers { 2.0 } else { 1.0 }, SlowCause::Link),
        (|pass, _| if pass == Pass::Together { 1.3 } else { 1.0 }, SlowCause::Neighbours),
        (
            // A quota that two ranks share, with a period as long as the update of size 3. The one that waits takes a part of it.
            |pass, size| match pass {
                Pass::Together => [1.0, 1.0, 1.4, 1.3, 1.5, 1.9, 2.0][size],
                Pass::Alone => [1.0, 1.0, 1.6, 1.0, 1.3, 1.0, 1.2][size],
                Pass::Transfers => 1.0,
            },
            SlowCause::Neighbours,
        ),
    ];
    for devices in [4, 5, 32] {
        for (slower, cause) in causes {
            for seed in 0..20 {
                let (found, rounds) = Machine::of_class(devices, slower).seeded(seed).check();
                let (last, others) = found.split_last().expect("devices");
                assert_eq!(
                    (last.health, last.cause, rounds),
                    (Health::Slow, Some(cause), 10),
                    "{devices} devices, try {seed}: {last:?}"
                );
                assert!(others.iter().all(|device| device.health == Health::Healthy));
            }
        }
    }
}

#[test]
fn a_clean_machine_accuses_no_one() {
    for devices in [4, 6, 32] {
        for noise in [0.001, 0.01, 0.05, 0.2] {
            for seed in 0..200 {
                let mut machine = Machine::of_class(devices, USUAL).seeded(seed).noisy(noise);
                let health = machine.list_health();
                let healthy = vec![Health::Healthy; devices];
                assert_eq!(health, healthy, "noise {noise}, try {seed}");
            }
        }
    }
}

#[test]
fn a_quiet_and_healthy_machine_is_looked_at_once() {
    let mut machine = Machine::of_class(8, USUAL).noisy(0.001);
    machine.drift = 0.0;
    let (found, rounds) = machine.check();
    assert_eq!(rounds, ROUNDS);
    let found_from = found[0].found_from.expect("a comparison");
    assert!((found_from - 0.05).abs() < 1e-12, "{found_from}");
}

/// Checks six alike devices with noise of 1 %. In each round the first device takes `course` times as long as the others.
fn check_course(course: [f64; 10], seed: u64) -> Vec<DeviceHealth> {
    let mut random = SplitMix::new(seed);
    run_check(6, |request| {
        let round = (0..6).map(|device| {
            let slower = if device == 0 { course[request.done] } else { 1.0 };
            let together_s = (0..SIZES).map(|size| {
                let noise = 1.0 + random.uniform(-0.01, 0.01);
                Some(1e-3 * 3.0_f64.powi(size as i32) * slower * noise)
            });
            together_s.collect()
        });
        round.collect()
    })
}

/// Checks alike devices with these times of all sizes in each round.
fn run_check(
    devices: usize,
    mut measure: impl FnMut(RoundRequest) -> Vec<Vec<Option<f64>>>,
) -> Vec<DeviceHealth> {
    let alike = vec![CheckedDevice::default(); devices];
    let mut check = HealthCheck::new(alike);
    loop {
        match check.step() {
            BalanceStep::Done(found) => return found,
            BalanceStep::Measure(request) => {
                let round = measure(request)
                    .into_iter()
                    .map(|together_s| Some(DeviceRound { together_s, ..DeviceRound::default() }));
                let round = round.collect();
                check.observe(round);
            }
        }
    }
}

#[test]
fn a_device_that_becomes_slower_during_the_check_is_hot() {
    // Its clock falls until its temperature stays the same.
    let throttled = [1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.3, 1.3, 1.3, 1.3];
    // Its clock falls all the time.
    let heating = [1.0, 1.035, 1.07, 1.105, 1.14, 1.175, 1.21, 1.245, 1.28, 1.315];
    // The throttled times in another order, and a fixed factor.
    let shuffled = [1.3, 1.1, 1.3, 1.2, 1.3, 1.3, 1.15, 1.3, 1.05, 1.25];
    for (course, cause) in [
        (throttled, SlowCause::Heat),
        (heating, SlowCause::Heat),
        (shuffled, SlowCause::Clock),
        ([1.3; 10], SlowCause::Clock),
    ] {
        for seed in 0..20 {
            let found = check_course(course, seed);
            assert_eq!(
                (found[0].health, found[0].cause),
                (Health::Slow, Some(cause)),
                "{course:?}, try {seed}"
            );
            assert!(found[1..].iter().all(|device| device.health == Health::Healthy));
        }
    }
    // Less than the least part is nothing that a device is accused of.
    let warm = [1.0, 1.004, 1.008, 1.012, 1.016, 1.02, 1.024, 1.028, 1.032, 1.036];
    for seed in 0..20 {
        assert_eq!(check_course(warm, seed)[0].health, Health::Healthy);
    }
}

#[test]
fn a_disturbance_of_one_look_is_confirmed_by_no_other() {
    let mut requests = Vec::new();
    let found = run_check(4, |request| {
        requests.push(request.is_alone);
        let slower = if request.done < 6 { 2.0 } else { 1.0 };
        [slower, 1.0, 1.01, 0.99]
            .map(|slower| [1.0, 4.0, 16.0].map(|time_s| Some(slower * time_s)).into())
            .into()
    });
    assert_eq!(found[0].health, Health::Healthy);
    assert_eq!(requests, [[false; 5], [true; 5]].concat());
}

#[test]
fn a_sign_of_one_look_hides_no_other() {
    let found = run_check(4, |request| {
        // Small sizes are slower in most rounds, but not in most of the first look.
        let small = if (2..5).contains(&request.done) { 1.0 } else { 1.2 };
        [(small, 1.5), (1.0, 1.0), (1.01, 1.01), (0.99, 0.99)]
            .map(|(small, large)| {
                (0..SIZES).map(|size| Some(if size < 4 { small } else { large })).collect()
            })
            .into()
    });
    let told = (found[0].health, found[0].cause);
    assert_eq!(told, (Health::Slow, Some(SlowCause::Memory)));
}

#[test]
fn slow_is_what_exceeds_the_spread_of_the_class() {
    // Half of the class is 10 % slower: such is the class.
    let half: Slower = |_, _| 1.1;
    let mut machine = Machine::of_class(8, half);
    machine.slower[4..].fill(half);
    assert_eq!(machine.list_health(), [Health::Healthy; 8]);
    // 4 % are too little, whatever the spread.
    let mut machine = Machine::of_class(8, |_, _| 1.04).noisy(0.001);
    assert_eq!(machine.list_health(), [Health::Healthy; 8]);
}

#[test]
fn fewer_than_four_alike_are_compared_with_their_history_or_not_at_all() {
    let slow: Slower = |_, _| 1.5;
    let mut machine = Machine::of_class(3, slow);
    let (found, rounds) = machine.check();
    assert_eq!(rounds, 5);
    for device in found {
        assert_eq!(device.health, Health::Unknown);
        assert_eq!((device.speed, device.found_from), (None, None));
        assert_eq!(device.compared_with, ComparedWith::Nothing);
    }
    // The drift of the whole machine since then is no longer cancelled out, so the error of a history counts.
    let history = (0..SIZES as i32).map(|size| {
        let time_s = 1e-3 * 3.0_f64.powi(size);
        Sample::predicted(1, time_s, 0.05 * time_s)
    });
    for device in &mut machine.devices[1..] {
        device.history = history.clone().collect();
    }
    let (found, _) = machine.check();
    let told = found.iter().map(|device| (device.health, device.cause, device.compared_with));
    let expected = [
        (Health::Unknown, None, ComparedWith::Nothing),
        (Health::Healthy, None, ComparedWith::History),
        (Health::Slow, Some(SlowCause::Clock), ComparedWith::History),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn unlike_devices_are_not_compared() {
    let mut machine = Machine::of_class(9, USUAL);
    for device in 4..8 {
        machine.slower[device] = |_, _| 3.0;
        machine.devices[device].model = "older".to_owned();
    }
    machine.devices[8].model = "other".to_owned();
    let mut healthy = vec![Health::Healthy; 8];
    healthy.push(Health::Unknown);
    assert_eq!(machine.list_health(), healthy);
}

#[test]
fn a_limit_of_few_is_compared_with_the_limits_of_most_and_one_of_many_is_a_class() {
    let limited: Slower = |_, _| 2.0;
    for (few, health, compared_with) in [
        (1, Health::Slow, ComparedWith::OtherLimits),
        (3, Health::Slow, ComparedWith::OtherLimits),
        (4, Health::Healthy, ComparedWith::Class),
    ] {
        let mut machine = Machine::of_class(5 + few, USUAL);
        for device in 5..5 + few {
            machine.slower[device] = limited;
            machine.devices[device].limits = "quota 0.50".to_owned();
        }
        let (found, _) = machine.check();
        for device in &found[5..] {
            assert_eq!((device.health, device.compared_with), (health, compared_with));
        }
        assert!(found[..5].iter().all(|device| device.health == Health::Healthy));
    }
}

#[test]
fn a_device_that_fails_is_no_peer_of_the_others() {
    for at in [0, 3, 7] {
        let mut machine = Machine::of_class(5, |_, _| 1.5);
        machine.failed = Some((0, at));
        let mut expected = vec![Health::Healthy; 5];
        (expected[0], expected[4]) = (Health::Failed, Health::Slow);
        assert_eq!(machine.list_health(), expected);
        // Three are left, and no class.
        let mut machine = Machine::of_class(4, |_, _| 1.5);
        machine.failed = Some((0, at));
        let mut expected = vec![Health::Unknown; 4];
        expected[0] = Health::Failed;
        if at < 5 {
            assert_eq!(machine.list_health(), expected);
        }
    }
}

#[test]
fn the_speeds_of_a_device_are_told_by_size_and_of_each_pass() {
    let machine = Machine::of_class(4, |pass, size| match pass {
        Pass::Together if size > 4 => 4.0,
        _ => 1.0,
    });
    let (found, _) = machine.noisy(0.001).check();
    let last = &found[3];
    let speeds: Vec<f64> = last.speeds.iter().map(|speed| speed.expect("a time")).collect();
    assert_eq!(speeds.len(), SIZES);
    assert!(speeds[..5].iter().all(|speed| (speed - 1.0).abs() < 0.05), "{speeds:?}");
    assert!(speeds[5..].iter().all(|speed| (speed - 0.25).abs() < 0.02), "{speeds:?}");
    let known = last.alone.iter().map(Option::is_some);
    assert_eq!(known.collect::<Vec<bool>>(), [true, false, true, false, true, false, true]);
    assert_eq!(last.cause, Some(SlowCause::Neighbours));
    // The median of the three largest sizes.
    assert!((last.speed.expect("a speed") - 0.25).abs() < 0.02);
}

#[test]
fn thousands_of_devices_are_judged_at_once() {
    let mut machine = Machine::of_class(3000, |_, _| 1.5);
    let health = machine.list_health();
    let slow = health.iter().filter(|&&health| health == Health::Slow);
    assert_eq!((slow.count(), health[2999]), (1, Health::Slow));
}
