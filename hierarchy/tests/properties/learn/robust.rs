//! Learning from steps that are disturbed, laid out in whole blocks, or not seen.

use isochron_hierarchy::learn::{Adaptive, LaidOut, Request, Tuning};

use super::run::*;
use isochron_support::simulated::SplitMix;

/// Units of a block.
const BLOCK: u64 = 20;

#[test]
fn a_step_of_a_thousand_times_its_time_leaves_no_wrong_division() {
    for step in [0, 1, 2, 5, 17, 100] {
        for part in [0, 3, 7] {
            let parts = draw_unlike(8, &mut SplitMix::new(step));
            let mut simulation = Simulation::new(parts, 400, step);
            simulation.outlier = Some((part, Some(step)));
            learn(&mut simulation);
            assert!(simulation.outlier.is_none());
            let last_s = *simulation.steps_s.last().unwrap();
            let ideal_s = simulation.ideal_s(0);
            assert!(last_s < 1.03 * ideal_s, "{step} {part}: {last_s} {ideal_s}");
            let ratio = simulation.over_ideal();
            assert!(ratio < 1.06, "{step} {part}: {ratio}");
        }
    }
}

/// Rounds to whole blocks. The last part takes the rest.
fn round_to_blocks(units: &[u64]) -> Vec<u64> {
    let total: u64 = units.iter().sum();
    let mut left = total;
    let mut rounded = Vec::new();
    for &d in &units[1..] {
        let blocks = ((d + BLOCK / 2) / BLOCK * BLOCK).min(left);
        left -= blocks;
        rounded.push(blocks);
    }
    rounded.insert(0, left);
    rounded
}

/// Moves a few units between neighbours that have some, other ones in each step.
fn move_few(units: &[u64], step: u64) -> Vec<u64> {
    let mut moved = units.to_vec();
    let from = step as usize % units.len();
    let to = (from + 1) % units.len();
    if moved[from] > 18 && moved[to] > 0 {
        moved[from] -= step % 7 * 3;
        moved[to] += step % 7 * 3;
    }
    moved
}

fn start(simulation: &Simulation) -> Adaptive {
    let parts = describe_parts(simulation.parts.len());
    let config = Tuning::default();
    Adaptive::new(config, simulation.total(), simulation.steps, parts).unwrap()
}

#[test]
fn steps_of_slightly_other_units_than_asked_for_are_learnt_from() {
    let parts = draw_unlike(8, &mut SplitMix::new(4));
    let mut simulation = Simulation::new(parts, 300, 4);
    let mut learner = start(&simulation);
    loop {
        match learner
            .request_next(|units| LaidOut {
                units: round_to_blocks(units),
                ..simulation.place(&round_to_blocks(units))
            })
            .unwrap()
        {
            Request::Done => break,
            Request::Measure(units) => {
                simulation.measure_once(&mut learner, move_few(&units, 2)).unwrap()
            }
            Request::Steps { units, count } => {
                let rounded = round_to_blocks(&units);
                for step in 0..count {
                    let moved = move_few(&rounded, step);
                    simulation.step(&mut learner, moved, 1).unwrap();
                }
            }
        }
    }
    let last = simulation.steps_s.last().unwrap() / simulation.ideal_s(0);
    assert!(last < 1.03, "{last} {:?}", learner.changes());
    assert!(simulation.over_ideal() < 1.06, "{}", simulation.over_ideal());
    assert!(learner.drifts().is_empty(), "{:?}", learner.drifts());
}

#[test]
fn steps_that_are_not_seen_count_and_harm_nothing() {
    let parts = draw_unlike(8, &mut SplitMix::new(5));
    let mut simulation = Simulation::new(parts, 300, 5);
    let mut learner = start(&simulation);
    let mut skipped = 0;
    loop {
        match learner.request_next(|units| simulation.place(units)).unwrap() {
            Request::Done => break,
            Request::Measure(units) => simulation.measure_once(&mut learner, units).unwrap(),
            Request::Steps { units, count } => {
                // The first half of the steps were divided before the request.
                let unseen = count / 2;
                learner.skip_steps(unseen);
                skipped += unseen;
                simulation.step(&mut learner, units, count - unseen).unwrap();
            }
        }
    }
    assert_eq!(simulation.steps_s.len() as u64 + skipped, 300);
    assert!(skipped > 100, "{skipped}");
    let last_s = *simulation.steps_s.last().unwrap();
    assert!(last_s < 1.03 * simulation.ideal_s(0), "{last_s}");
}

/// Runs three parts. The second becomes 1.4 times slower at the step `at`, and 4.5 times in all some steps later. Two
/// steps after each change of the division are not seen. Returns the last step over the ideal.
fn run_slowed_twice(at: u64, gap: u64, seed: u64) -> f64 {
    let parts = [1.0, 0.5, 0.5].map(SimulatedPart::constant);
    let mut simulation = Simulation::new(parts.to_vec(), 128, seed);
    (simulation.noise, simulation.parts[1].slow_from) = (0.05, 0);
    let mut learner = start(&simulation);
    loop {
        match learner.request_next(|units| simulation.place(units)).unwrap() {
            Request::Done => break,
            Request::Measure(units) => simulation.measure_once(&mut learner, units).unwrap(),
            Request::Steps { units, count } => {
                if learner.is_changed() && count < simulation.steps {
                    learner.skip_steps(2);
                    simulation.steps -= 2;
                }
                for _ in 0..count.min(2) {
                    let done = simulation.steps_s.len() as u64;
                    simulation.parts[1].slower = match done {
                        _ if done < at => 1.0,
                        _ if done < at + gap => 1.4,
                        _ => 4.5,
                    };
                    if done < simulation.steps {
                        simulation.step(&mut learner, units.clone(), 1).unwrap();
                    }
                }
            }
        }
    }
    simulation.steps_s.last().unwrap() / simulation.ideal_s(0)
}

#[test]
fn a_part_that_becomes_slower_twice_is_divided_anew_twice() {
    for at in 20..40 {
        for gap in 1..8 {
            let ratio = run_slowed_twice(at, gap, 10 * at + gap);
            assert!(ratio < 1.15, "{at} {gap}: {ratio}");
        }
    }
}

/// Runs eight unlike parts of which this share of steps is disturbed. Returns the time over the ideal of undisturbed steps, and
/// the number of changes.
fn run_disturbed(disturbed: f64, seed: u64) -> (f64, usize) {
    let parts = draw_unlike(8, &mut SplitMix::new(seed));
    let mut simulation = Simulation::new(parts, 300, seed);
    simulation.disturbed = disturbed;
    let learner = learn(&mut simulation);
    assert!(learner.drifts().is_empty(), "{disturbed} {seed}: {:?}", learner.drifts());
    (simulation.over_ideal(), learner.changes().len())
}

#[test]
fn disturbed_times_do_not_change_what_is_learnt() {
    let (mut quiet, mut disturbed) = ((0.0, 0), (0.0, 0));
    for seed in 0..40 {
        for (sum, share) in [(&mut quiet, 0.0), (&mut disturbed, 0.1)] {
            let (over_ideal, changes) = run_disturbed(share, seed);
            *sum = (sum.0 + over_ideal / 40.0, sum.1 + changes);
        }
    }
    assert!(disturbed.0 < quiet.0 + 0.005, "{quiet:?} {disturbed:?}");
    assert!(disturbed.1 < quiet.1 + 40, "{quiet:?} {disturbed:?}");
}

#[test]
fn a_disturbance_that_lasts_is_a_condition_of_the_run() {
    for seed in 0..20 {
        let parts = draw_unlike(4, &mut SplitMix::new(seed));
        let mut simulation = Simulation::new(parts, 200, seed);
        // From the middle on another program has half of the cores of the second part.
        (simulation.parts[1].slow_from, simulation.parts[1].slower) = (100, 2.0);
        simulation.is_slow_disturbed = true;
        let learner = learn(&mut simulation);
        let last = simulation.steps_s.last().unwrap() / simulation.ideal_s(199);
        assert!(last < 1.03, "{seed}: {last} {:?}", learner.changes());
    }
}
