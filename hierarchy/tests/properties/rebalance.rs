//! Loops of made-up parts that balance themselves. The seeds are fixed.

mod cliffs;
mod drifts;
mod moves;
mod refusals;
mod rugged;

use isochron_hierarchy::rebalance::{
    Advice, LoopChangeReason, LoopPart, Rebalance, RebalanceConfig, count_moved,
};
use proptest::prelude::*;

use isochron_support::simulated::SplitMix;
use rugged::make_rugged;

/// A loop whose parts need a time for each unit.
pub struct SimulatedLoop {
    pub machine: Rebalance,
    pub unit_s: Vec<f64>,
    noise: f64,
    random: SplitMix,
    waiting: WaitingTimes,
    sweeps: u64,
    /// Seconds of all sweeps, and those of the ideal division, since [`SimulatedLoop::forget_seconds`].
    seconds: f64,
    ideal_s: f64,
}

/// The times of sweeps that the machine has not looked at.
struct WaitingTimes {
    times_s: Vec<Vec<f64>>,
    /// Sweeps until it looks at them.
    due_in: u64,
}

impl WaitingTimes {
    fn before(machine: &Rebalance) -> Self {
        Self { times_s: Vec::new(), due_in: machine.count_sweeps() }
    }

    /// Adds the times of a sweep. Returns the machine's advice if it looks at them now.
    fn add(&mut self, machine: &mut Rebalance, times_s: Vec<f64>) -> Option<Advice> {
        self.times_s.push(times_s);
        self.due_in -= 1;
        if self.due_in > 0 {
            return None;
        }
        for times_s in self.times_s.drain(..) {
            machine.observe(&times_s).unwrap();
        }
        let advice = machine.advise().unwrap();
        self.due_in = machine.count_sweeps();
        Some(advice)
    }
}

const TOTAL: u64 = 12_000;

impl SimulatedLoop {
    fn new(config: RebalanceConfig, unit_s: &[f64], noise: f64, seed: u64) -> Self {
        Self::with_parts(config, vec![LoopPart::default(); unit_s.len()], unit_s, noise, seed)
    }

    pub fn with_parts(
        config: RebalanceConfig,
        parts: Vec<LoopPart>,
        unit_s: &[f64],
        noise: f64,
        seed: u64,
    ) -> Self {
        let machine = Rebalance::new(config, TOTAL, parts).unwrap();
        Self {
            waiting: WaitingTimes::before(&machine),
            machine,
            unit_s: unit_s.to_vec(),
            noise,
            random: SplitMix::new(seed),
            sweeps: 0,
            seconds: 0.0,
            ideal_s: 0.0,
        }
    }

    fn draw_times(&mut self) -> Vec<f64> {
        let exact: Vec<f64> = self
            .machine
            .units()
            .iter()
            .zip(&self.unit_s)
            .map(|(&units, unit_s)| units as f64 * unit_s)
            .collect();
        exact.into_iter().map(|t_s| t_s * draw_factor(self.noise, &mut self.random)).collect()
    }

    /// Does a sweep. Returns the new units if the division changes.
    pub fn run_sweep(&mut self) -> Option<Vec<u64>> {
        let times_s = self.draw_times();
        self.take_times(times_s)
    }

    fn take_times(&mut self, times_s: Vec<f64>) -> Option<Vec<u64>> {
        self.sweeps += 1;
        self.seconds += times_s.iter().copied().fold(0.0, f64::max);
        self.ideal_s += TOTAL as f64 / self.unit_s.iter().map(|unit_s| 1.0 / unit_s).sum::<f64>();
        match self.waiting.add(&mut self.machine, times_s) {
            Some(Advice::Move(units)) => Some(units),
            Some(Advice::Keep) | None => None,
        }
    }

    fn run_sweeps(&mut self, sweeps: u64) {
        for _ in 0..sweeps {
            self.run_sweep();
        }
    }

    fn forget_seconds(&mut self) {
        (self.seconds, self.ideal_s) = (0.0, 0.0);
    }

    fn list_moves(&self) -> Vec<u64> {
        self.machine.to_report().changes.iter().map(|change| change.sweep).collect()
    }
}

/// Returns a normally distributed factor around 1.
pub fn draw_factor(deviation: f64, random: &mut SplitMix) -> f64 {
    let radius = (-2.0 * random.uniform(1e-12, 1.0).ln()).sqrt();
    1.0 + deviation * radius * (std::f64::consts::TAU * random.uniform(0.0, 1.0)).cos()
}

const ONE_SLOW: [f64; 3] = [1e-3, 1e-3, 4e-3];

fn make_loop(noise: f64, seed: u64) -> SimulatedLoop {
    SimulatedLoop::new(RebalanceConfig::default(), &ONE_SLOW, noise, seed)
}

/// The loop that had moved rows in 1, 279 and 779 of 1000 sweeps.
#[test]
fn a_noisy_loop_moves_at_most_five_times_in_1000_sweeps() {
    for noise in [0.01, 0.03, 0.06] {
        for seed in 0..40 {
            let mut simulated = make_loop(noise, seed);
            simulated.run_sweeps(20);
            simulated.forget_seconds();
            simulated.run_sweeps(980);
            let moves = simulated.list_moves();
            assert!((1..=5).contains(&moves.len()), "{noise} {seed}: {moves:?}");
            // The longest of three noisy times is 0.85 standard deviations above their mean.
            let ratio = simulated.seconds / simulated.ideal_s;
            assert!(ratio < 1.15, "{noise} {seed}: {ratio} x ideal");
        }
    }
}

#[test]
fn alike_parts_stay_as_they_are() {
    for seed in 0..20 {
        let mut simulated = SimulatedLoop::new(RebalanceConfig::default(), &[1e-3; 16], 0.06, seed);
        simulated.run_sweeps(1000);
        let moves = simulated.list_moves();
        assert!(moves.len() <= 1, "{seed}: {moves:?}");
    }
}

#[test]
fn unlike_parts_are_balanced_in_a_few_moves() {
    for seed in 0..20 {
        let mut random = SplitMix::new(seed);
        let unit_s: Vec<f64> = (0..8).map(|_| 1e-3 * random.log_uniform(1.0, 10.0)).collect();
        let mut simulated = SimulatedLoop::new(RebalanceConfig::default(), &unit_s, 0.06, seed);
        simulated.run_sweeps(60);
        simulated.forget_seconds();
        simulated.run_sweeps(940);
        let moves = simulated.list_moves();
        assert!(moves.len() <= 5, "{seed}: {moves:?}");
        // The longest of eight noisy times is 1.42 standard deviations above their mean.
        let ratio = simulated.seconds / simulated.ideal_s;
        assert!(ratio < 1.15, "{seed}: {ratio} x ideal");
    }
}

#[test]
fn a_part_that_becomes_four_times_slower_is_answered_within_20_sweeps() {
    for seed in 0..40 {
        let mut simulated = SimulatedLoop::new(RebalanceConfig::default(), &[1e-3; 3], 0.06, seed);
        simulated.run_sweeps(300 + seed);
        simulated.unit_s[1] *= 4.0;
        let answered = (1..=20).find(|_| simulated.run_sweep().is_some());
        assert!(answered.is_some(), "{seed}");
        simulated.run_sweeps(20);
        simulated.forget_seconds();
        simulated.run_sweeps(200);
        assert!(simulated.seconds < 1.15 * simulated.ideal_s, "{seed}");
        let report = simulated.machine.to_report();
        let factor: f64 = report
            .drifts
            .iter()
            .filter(|drift| drift.part == 1)
            .map(|drift| drift.factor)
            .product();
        assert!((factor / 4.0 - 1.0).abs() < 0.2, "{seed}: {:?}", report.drifts);
        assert!(report.changes.iter().any(|change| change.why == LoopChangeReason::Drift));
    }
}

#[test]
fn a_part_that_recovers_gets_its_units_back_within_20_sweeps() {
    for seed in 0..20 {
        let mut simulated = make_loop(0.06, seed);
        simulated.run_sweeps(200 + seed);
        simulated.unit_s[2] = 1e-3;
        let answered = (1..=20).find(|_| simulated.run_sweep().is_some());
        assert!(answered.is_some(), "{seed}");
        simulated.run_sweeps(40);
        simulated.forget_seconds();
        simulated.run_sweeps(200);
        assert!(
            simulated.seconds < 1.15 * simulated.ideal_s,
            "{seed}: {:?}",
            simulated.machine.units()
        );
    }
}

#[test]
fn one_sweep_a_thousand_times_longer_moves_nothing() {
    for at in 0..30 {
        let mut simulated = SimulatedLoop::new(RebalanceConfig::default(), &[1e-3; 3], 0.02, at);
        simulated.run_sweeps(at);
        let mut times_s = simulated.draw_times();
        times_s[1] *= 1000.0;
        simulated.take_times(times_s);
        simulated.run_sweeps(100);
        assert!(simulated.list_moves().is_empty(), "{at}: {:?}", simulated.list_moves());
    }
}

#[test]
fn a_part_that_stands_still_gets_nothing_and_is_tried_again() {
    let mut simulated = SimulatedLoop::new(RebalanceConfig::default(), &[1e-3; 3], 0.02, 1);
    simulated.run_sweeps(100);
    simulated.unit_s[2] *= 1e5;
    simulated.run_sweeps(40);
    assert_eq!(simulated.machine.units()[2], 0);
    simulated.unit_s[2] = 1e-3;
    simulated.run_sweeps(200);
    let units = simulated.machine.units();
    assert!(units.iter().all(|&d| d.abs_diff(TOTAL / 3) < TOTAL / 30), "{units:?}");
    let report = simulated.machine.to_report();
    assert!(report.changes.iter().any(|change| change.why == LoopChangeReason::Retry));
}

#[test]
fn a_part_that_stays_still_is_tried_ever_more_rarely() {
    let mut simulated = SimulatedLoop::new(RebalanceConfig::default(), &[1e-3, 1e-3, 1e3], 0.0, 1);
    simulated.run_sweeps(3200);
    let report = simulated.machine.to_report();
    let tries = report.changes.iter().filter(|change| change.why == LoopChangeReason::Retry);
    assert!((2..=5).contains(&tries.count()), "{:?}", simulated.list_moves());
    assert_eq!(simulated.machine.units()[2], 0);
}

#[test]
fn nothing_moves_when_the_sweeps_left_cannot_win_it_back() {
    for (sweeps, moves) in [(Some(12), 0), (Some(1000), 1), (None, 1)] {
        let config =
            RebalanceConfig { sweeps, move_unit_s: Some(0.03), ..RebalanceConfig::default() };
        let mut simulated = SimulatedLoop::new(config, &ONE_SLOW, 0.0, 1);
        simulated.run_sweeps(12);
        assert_eq!(simulated.list_moves().len(), moves, "{sweeps:?}");
    }
}

#[test]
fn the_cost_of_earlier_moves_counts() {
    for (cost_s, moves) in [(1e-3, 2), (1e6, 1)] {
        let mut simulated = make_loop(0.0, 1);
        simulated.run_sweeps(20);
        simulated.machine.note_move(cost_s).unwrap();
        simulated.unit_s[0] *= 1.5;
        simulated.run_sweeps(40);
        assert_eq!(simulated.list_moves().len(), moves, "{cost_s}");
    }
}

#[test]
fn a_change_waits_for_the_window_and_the_next_for_the_cooldown() {
    for (window, cooldown) in [(3, 8), (5, 40), (30, 2)] {
        let config = RebalanceConfig { window, cooldown, ..RebalanceConfig::default() };
        let mut simulated = SimulatedLoop::new(config, &[1e-3, 1e-3, 1e-2, 5e-2], 0.02, 3);
        for sweep in 0..300 {
            // Not so much slower that a change seems to have failed.
            let is_slow = sweep / 20 % 2 == 1;
            simulated.unit_s[0] = if is_slow { 1.25e-3 } else { 1e-3 };
            simulated.run_sweep();
        }
        let moves = simulated.list_moves();
        assert!(moves.len() > 2 && moves[0] > window, "{moves:?}");
        assert!(moves.windows(2).all(|pair| pair[1] - pair[0] > cooldown.max(window)), "{moves:?}");
    }
}

#[test]
fn a_trigger_that_is_not_reached_keeps_the_division() {
    for (trigger, moves) in [(3.1, 0), (1.5, 1)] {
        let config = RebalanceConfig { trigger, ..RebalanceConfig::default() };
        // A sweep of the even division takes three times as long as the ideal one.
        let mut simulated = SimulatedLoop::new(config, &ONE_SLOW, 0.0, 1);
        simulated.run_sweeps(100);
        assert_eq!(simulated.list_moves().len(), moves, "{trigger}");
    }
}

#[test]
fn each_change_moves_at_most_what_may_move() {
    let config = RebalanceConfig { max_move: 0.05, granule: 10, ..RebalanceConfig::default() };
    let mut simulated = SimulatedLoop::new(config, &ONE_SLOW, 0.01, 1);
    let mut before = simulated.machine.units().to_vec();
    for _ in 0..300 {
        if let Some(units) = simulated.run_sweep() {
            let (moved, _) = count_moved(&before, &units);
            assert!((1..=TOTAL / 20).contains(&moved), "{before:?} {units:?}");
            assert!(units.iter().all(|d| d % 10 == 0), "{units:?}");
            before = units;
        }
    }
    let units = simulated.machine.units();
    assert!(units[2].abs_diff(TOTAL / 9) < TOTAL / 60, "{units:?}");
}

#[test]
fn weights_are_the_first_division() {
    let parts: Vec<LoopPart> =
        [1.0, 1.0, 0.25].map(|weight| LoopPart { weight, ..LoopPart::default() }).to_vec();
    let config = RebalanceConfig::default();
    let mut simulated = SimulatedLoop::with_parts(config, parts, &ONE_SLOW, 0.06, 1);
    assert_eq!(simulated.machine.units()[2], TOTAL / 9);
    simulated.run_sweeps(1000);
    assert!(simulated.list_moves().len() <= 1, "{:?}", simulated.list_moves());
}

/// A loop that is saved between two sweeps goes on as the original does.
#[test]
fn a_saved_loop_decides_as_the_original() {
    for (parts, granule) in [(vec![LoopPart::default(); 3], 1), (make_rugged(&[1e-3; 3]), 100)] {
        for saved_after in [0, 1, 4, 7, 100, 152] {
            let config = RebalanceConfig { granule, ..RebalanceConfig::default() };
            let mut machine = Rebalance::new(config, TOTAL, parts.clone()).unwrap();
            let mut random = SplitMix::new(saved_after);
            let mut copy = None;
            for sweep in 0..400 {
                if sweep == saved_after {
                    let text = serde_json::to_string(&machine).unwrap();
                    copy = Some(serde_json::from_str::<Rebalance>(&text).unwrap());
                }
                let slower = if sweep < 150 { 1.0 } else { 4.0 };
                let times_s: Vec<f64> = (machine.units().iter().zip([1.0, slower, 2.0]))
                    .map(|(&d, factor)| d as f64 * 1e-3 * factor * draw_factor(0.06, &mut random))
                    .collect();
                machine.observe(&times_s).unwrap();
                let advice = machine.advise().unwrap();
                if let Some(copy) = &mut copy {
                    copy.observe(&times_s).unwrap();
                    assert_eq!(copy.advise().unwrap(), advice, "{saved_after} {sweep}");
                    assert_eq!(copy.to_report(), machine.to_report());
                }
            }
            assert!(!machine.to_report().changes.is_empty());
        }
    }
}

#[test]
fn sweeps_without_a_time_are_counted_and_not_learnt_from() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut machine =
            Rebalance::new(RebalanceConfig::default(), 30, vec![LoopPart::default(); 3]).unwrap();
        for _ in 0..50 {
            machine.observe(&[1.0, bad, 9.0]).unwrap();
            assert_eq!(machine.advise().unwrap(), Advice::Keep);
        }
        let report = machine.to_report();
        assert_eq!((report.sweeps, report.unusable), (50, 49));
        assert_eq!(report.last_unusable.unwrap().0, 1);
        assert!(
            serde_json::from_str::<Rebalance>(&serde_json::to_string(&machine).unwrap()).is_ok()
        );
    }
}

/// A time as a program may give it: mostly one near the true one.
fn any_time() -> impl Strategy<Value = f64> {
    prop_oneof![
        16 => 0.8..1.25,
        1 => Just(0.0),
        1 => Just(-1.0),
        1 => Just(f64::NAN),
        1 => Just(1e3),
        1 => Just(1e-3),
    ]
}

proptest! {
    #[test]
    fn every_division_has_all_units_within_the_limits(
        total in 0_u64..5000,
        granule in 1_u64..20,
        parts in proptest::collection::vec((0.0..4.0, proptest::option::of(0_u64..3000), 1e-4..1e-2), 1..7),
        factors in proptest::collection::vec(proptest::collection::vec(any_time(), 7), 20..80),
        max_move in 0.01..1.0,
        retry_after in 0_u64..20,
    ) {
        let config = RebalanceConfig { granule, max_move, retry_after, ..RebalanceConfig::default() };
        let described: Vec<LoopPart> = (parts.iter())
            .map(|&(weight, max_local, _)| LoopPart { weight, max_local, ..LoopPart::default() })
            .collect();
        let Ok(mut machine) = Rebalance::new(config, total, described) else {
            let room = parts.iter().map(|(_, most, _)| most.map_or(u64::MAX, |most| most / granule * granule)).fold(0_u64, u64::saturating_add);
            prop_assert!(room < total.next_multiple_of(granule));
            return Ok(());
        };
        for factors in factors {
            let units = machine.units().to_vec();
            prop_assert_eq!(units.iter().sum::<u64>(), total);
            for (&d, (_, most, _)) in units.iter().zip(&parts) {
                prop_assert!(most.is_none_or(|most| d <= most), "{:?}", units);
            }
            let uneven = units.iter().filter(|d| *d % granule > 0).count();
            prop_assert!(uneven <= 1, "{:?}", units);
            let times_s: Vec<f64> = (units.iter().zip(&parts).zip(factors))
                .map(|((&d, (_, _, unit_s)), factor)| d as f64 * unit_s * factor)
                .collect();
            machine.observe(&times_s).unwrap();
            machine.advise().unwrap();
            prop_assert!(machine.count_sweeps() >= 1);
        }
    }
}
