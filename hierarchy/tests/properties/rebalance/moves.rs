//! Loops in which moving takes its time.

use super::*;

/// Seconds of a move: some for any, and some for each unit of the busiest part.
#[derive(Clone, Copy)]
struct TrueCost {
    fixed_s: f64,
    unit_s: f64,
}

/// A loop of three parts with 1024 units each in the beginning, which knows its number of sweeps.
struct CostlyLoop {
    machine: Rebalance,
    waiting: WaitingTimes,
    random: SplitMix,
    cost: TrueCost,
    /// Seconds of all sweeps and moves, and those of sweeps with the even division.
    seconds: f64,
    even_s: f64,
}

const SWEEPS: u64 = 120;

impl CostlyLoop {
    fn start(move_unit_s: Option<f64>, cost: TrueCost, seed: u64) -> Self {
        let config =
            RebalanceConfig { sweeps: Some(SWEEPS), move_unit_s, ..RebalanceConfig::default() };
        let machine = Rebalance::new(config, 3 * 1024, vec![LoopPart::default(); 3]).unwrap();
        Self {
            waiting: WaitingTimes::before(&machine),
            machine,
            random: SplitMix::new(seed),
            cost,
            seconds: 0.0,
            even_s: 0.0,
        }
    }

    /// Does sweeps in which the parts need these seconds for a unit. Returns the units of the busiest part in each move.
    fn run_sweeps(&mut self, sweeps: u64, unit_s: [f64; 3]) -> Vec<u64> {
        let mut moved = Vec::new();
        for _ in 0..sweeps {
            let before = self.machine.units().to_vec();
            let times_s: Vec<f64> = (before.iter().zip(unit_s))
                .map(|(&units, unit_s)| units as f64 * unit_s)
                .map(|t_s| t_s * draw_factor(0.01, &mut self.random))
                .collect();
            self.seconds += times_s.iter().copied().fold(0.0, f64::max);
            self.even_s += 1024.0 * unit_s.into_iter().fold(0.0, f64::max);
            if let Some(Advice::Move(units)) = self.waiting.add(&mut self.machine, times_s) {
                let busiest = count_moved(&before, &units).1;
                let cost_s = self.cost.fixed_s + self.cost.unit_s * busiest as f64;
                self.seconds += cost_s;
                self.machine.note_move(cost_s).unwrap();
                moved.push(busiest);
            }
        }
        moved
    }
}

/// A small move took 0.4 s, 20 times as long as expected. A large one, which would have saved 1 s, was then expected to take
/// 20 times as long too, and was refused: the loop took longer than without any move.
#[test]
fn an_early_small_move_leaves_a_later_large_one_its_worth() {
    for (fixed_s, seed) in [0.0, 0.1, 0.38].into_iter().flat_map(|s| [(s, 1), (s, 2), (s, 3)]) {
        let cost = TrueCost { fixed_s, unit_s: 1e-4 };
        let mut costly = CostlyLoop::start(Some(3.5e-4), cost, seed);
        let case = format!("{fixed_s} s, {seed}");
        // The last part is slower by so much that few units move.
        let early = costly.run_sweeps(20, [1.6e-5, 1.6e-5, 1.9e-5]);
        assert!(early.len() == 1 && early[0] < 250, "{case}: {early:?}");
        let late = costly.run_sweeps(SWEEPS - 20, [1.6e-5, 1.6e-5, 4e-5]);
        assert!(late.iter().any(|&units| units > 300), "{case}: {late:?}");
        let gain = costly.even_s / costly.seconds;
        assert!(gain > 1.2, "{case}: {gain} x even");
    }
}

/// The price that the program gives is the first guess only.
#[test]
fn a_given_price_is_corrected_by_the_moves() {
    let cheap = TrueCost { fixed_s: 1e-3, unit_s: 1e-5 };
    let dear = TrueCost { fixed_s: 0.1, unit_s: 2e-3 };
    for seed in 0..5 {
        // The second change saves less than the given price of its units, and more than they cost.
        let mut costly = CostlyLoop::start(Some(2e-3), cheap, seed);
        let first = costly.run_sweeps(30, [1.6e-5, 1.6e-5, 1.6e-4]);
        assert!(!first.is_empty(), "{seed}");
        let second = costly.run_sweeps(SWEEPS - 30, [1.6e-5, 2.4e-5, 1.6e-4]);
        assert!(!second.is_empty(), "{seed}: {:?}", costly.machine.to_report());
        // The second change saves more than the given price, and less than it costs.
        let mut costly = CostlyLoop::start(Some(1e-6), dear, seed);
        let first = costly.run_sweeps(30, [1.6e-5, 1.6e-5, 1.6e-4]);
        assert!(!first.is_empty(), "{seed}");
        let second = costly.run_sweeps(SWEEPS - 30, [1.6e-5, 2.4e-5, 1.6e-4]);
        assert!(second.is_empty(), "{seed}: {:?}", costly.machine.to_report());
    }
}

/// Parts for which there are no units have none. A part that is slower than others gives its unit up.
#[test]
fn fewer_units_than_parts_leave_parts_without_work() {
    for (units, slow) in (0..6).flat_map(|units| (0..6).map(move |slow| (units, slow))) {
        let config = RebalanceConfig::default();
        let mut machine = Rebalance::new(config, units, vec![LoopPart::default(); 6]).unwrap();
        let mut waiting = WaitingTimes::before(&machine);
        for _ in 0..1000 {
            let held = machine.units().to_vec();
            assert_eq!(held.iter().sum::<u64>(), units);
            let unit_s = |part| if part == slow { 4e-3 } else { 1e-3 };
            let times_s = (held.iter().enumerate())
                .map(|(part, &units)| units as f64 * unit_s(part))
                .collect();
            waiting.add(&mut machine, times_s);
        }
        let held = machine.units();
        let changes = &machine.to_report().changes;
        assert!(held.iter().all(|&units| units <= 1), "{units} {slow}: {held:?} {changes:?}");
        assert!(changes.len() <= 4, "{units} {slow}: {changes:?}");
        // That a single busy part is slow is known of no part.
        assert!(units == 1 || held[slow] == 0, "{units} {slow}: {held:?} {changes:?}");
    }
}
