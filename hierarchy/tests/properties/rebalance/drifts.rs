//! Loops in which one part changes its speed, and changes it back.

use super::*;

/// A loop in which part `part` takes `factor` times as long from sweep `at` on.
#[derive(Debug)]
struct DriftCase {
    unit_s: Vec<f64>,
    part: usize,
    at: u64,
    factor: f64,
    noise: f64,
}

/// Outcome of a case.
#[derive(Debug)]
struct DriftOutcome {
    case: DriftCase,
    /// Sweeps in which a part had nothing.
    idle: usize,
    /// Seconds of later sweeps over the ideal ones, after the change and after the way back.
    ratios: [f64; 2],
    changes: Vec<(u64, LoopChangeReason, Vec<u64>)>,
}

const UNITS: u64 = 1200;

impl DriftCase {
    fn draw(seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let parts = 2 + (seed % 3) as usize;
        Self {
            unit_s: (0..parts).map(|_| 1e-3 * random.log_uniform(1.0, 2.0)).collect(),
            part: seed as usize % parts,
            at: random.uniform(2.0, 130.0) as u64,
            factor: random.log_uniform(1.3, 12.0),
            noise: [0.0, 0.0, 0.01, 0.03][seed as usize / 2 % 4],
        }
    }

    fn run(mut self) -> DriftOutcome {
        let config = RebalanceConfig { move_unit_s: Some(1e-4), ..RebalanceConfig::default() };
        let parts = vec![LoopPart::default(); self.unit_s.len()];
        let mut machine = Rebalance::new(config, UNITS, parts).unwrap();
        let mut random = SplitMix::new(self.at);
        let mut waiting = WaitingTimes::before(&machine);
        let (mut idle, mut ratios) = (0, Vec::new());
        for steps in [(self.at, 1.0), (60, self.factor), (60, 1.0 / self.factor)] {
            self.unit_s[self.part] *= steps.1;
            let speed: f64 = self.unit_s.iter().map(|unit_s| 1.0 / unit_s).sum();
            let mut late_s = 0.0;
            for sweep in 0..steps.0 {
                idle += usize::from(machine.units().contains(&0));
                let exact: Vec<f64> = machine
                    .units()
                    .iter()
                    .zip(&self.unit_s)
                    .map(|(&d, unit_s)| d as f64 * unit_s)
                    .collect();
                if sweep >= 40 {
                    late_s += exact.iter().copied().fold(0.0, f64::max);
                }
                let noisy = exact.iter().map(|t_s| t_s * draw_factor(self.noise, &mut random));
                waiting.add(&mut machine, noisy.collect());
            }
            ratios.push(late_s * speed / (20 * UNITS) as f64);
        }
        let changes = machine.to_report().changes.into_iter();
        DriftOutcome {
            case: self,
            idle,
            ratios: [ratios[1], ratios[2]],
            changes: changes.map(|it| (it.sweep, it.why, it.units)).collect(),
        }
    }
}

/// Two alike parts: one becomes four times slower, and the answer was 1200 : 0 instead of 960 : 240.
#[test]
fn a_part_that_becomes_slower_keeps_its_share() {
    for at in 20..120 {
        let case =
            DriftCase { unit_s: vec![1e-3, 1.15e-3], part: 1, at, factor: 4.0 / 1.15, noise: 0.0 };
        let outcome = case.run();
        let has_answer = outcome.changes.iter().any(|(.., units)| units[0].abs_diff(960) <= 2);
        assert!(outcome.idle == 0 && has_answer, "{outcome:?}");
        assert!(outcome.ratios.iter().all(|&ratio| ratio < 1.03), "{outcome:?}");
    }
}

#[test]
fn a_part_that_works_is_never_left_without_units() {
    let outcomes: Vec<DriftOutcome> = (0..1000).map(|seed| DriftCase::draw(seed).run()).collect();
    let idle: Vec<_> = outcomes.iter().filter(|outcome| outcome.idle > 0).collect();
    assert!(idle.is_empty(), "{} of 1000: {:?}", idle.len(), idle.first());
    let late: Vec<_> = (outcomes.iter())
        // A change of speed right after one of the units looks like the end of memory at first.
        .filter(|outcome| {
            !outcome
                .changes
                .iter()
                .any(|change| (change.0..change.0 + 9).contains(&outcome.case.at))
        })
        .filter(|outcome| outcome.case.at > 12 && outcome.ratios.iter().any(|&ratio| ratio > 1.1))
        .collect();
    assert!(late.is_empty(), "{} of 1000: {late:#?}", late.len());
}
