//! Loops of parts with rugged times, which HPOPTA divides.

use isochron_hierarchy::model::TimeFunction;
use isochron_hierarchy::partition::hpopta;
use isochron_hierarchy::rebalance::{LoopPart, RebalanceConfig, count_moved};

use super::*;

/// Seconds of a part whose times have steps of sizes that are a bad fit: every third size takes twice as long.
fn list_rugged(unit_s: f64) -> Vec<(u64, f64)> {
    (1..=120)
        .map(|size| size * 100)
        .map(|d| (d, d as f64 * unit_s * if d % 300 == 0 { 2.0 } else { 1.0 }))
        .collect()
}

pub fn make_rugged(unit_s: &[f64]) -> Vec<LoopPart> {
    (unit_s.iter())
        .map(|&unit_s| LoopPart { function: Some(list_rugged(unit_s)), ..LoopPart::default() })
        .collect()
}

fn find_optimum(unit_s: &[f64]) -> f64 {
    let functions: Vec<TimeFunction> = (unit_s.iter())
        .map(|&unit_s| TimeFunction::new(100, list_rugged(unit_s)).unwrap())
        .collect();
    hpopta(&functions, &[], TOTAL).unwrap().max_time_s()
}

fn look_up(unit_s: &[f64], units: &[u64]) -> Vec<f64> {
    unit_s
        .iter()
        .zip(units)
        .map(|(&unit_s, &d)| {
            list_rugged(unit_s).into_iter().find(|&(size, _)| size == d).map_or(0.0, |(_, t_s)| t_s)
        })
        .collect()
}

#[test]
fn rugged_times_are_divided_at_the_optimum_and_again_after_a_drift() {
    for seed in 0..10 {
        let config = RebalanceConfig { granule: 100, ..RebalanceConfig::default() };
        let mut unit_s = vec![1e-3, 2e-3, 1e-3];
        let mut machine = Rebalance::new(config, TOTAL, make_rugged(&unit_s)).unwrap();
        let mut random = SplitMix::new(seed);
        let longest = |times_s: Vec<f64>| times_s.into_iter().fold(0.0, f64::max);
        assert_eq!(longest(look_up(&unit_s, machine.units())), find_optimum(&unit_s));
        let mut moves = Vec::new();
        for sweep in 0..400 {
            if sweep == 200 {
                unit_s[0] *= 4.0;
            }
            // The loop takes three times as long as the measurement of the functions.
            let times_s: Vec<f64> = look_up(&unit_s, machine.units())
                .into_iter()
                .map(|t_s| 3.0 * t_s * draw_factor(0.06, &mut random))
                .collect();
            machine.observe(&times_s).unwrap();
            if let Advice::Move(units) = machine.advise().unwrap() {
                assert_eq!(units.iter().sum::<u64>(), TOTAL);
                moves.push(sweep);
            }
        }
        assert!(
            moves.len() <= 3 && moves.iter().any(|sweep| (200..220).contains(sweep)),
            "{seed}: {moves:?}"
        );
        let end_s = longest(look_up(&unit_s, machine.units()));
        assert!(end_s < 1.06 * find_optimum(&unit_s), "{seed}: {end_s}");
    }
}

#[test]
fn a_limited_move_of_rugged_times_has_sizes_of_the_functions() {
    let config = RebalanceConfig { granule: 100, max_move: 0.1, ..RebalanceConfig::default() };
    let mut unit_s = vec![1e-3; 3];
    let mut machine = Rebalance::new(config, TOTAL, make_rugged(&unit_s)).unwrap();
    unit_s[0] *= 4.0;
    let (mut before, mut moves) = (machine.units().to_vec(), 0);
    for _ in 0..200 {
        machine.observe(&look_up(&unit_s, machine.units())).unwrap();
        if let Advice::Move(units) = machine.advise().unwrap() {
            let (moved, _) = count_moved(&before, &units);
            assert!(moved <= TOTAL / 10 && units.iter().all(|d| d % 100 == 0), "{units:?}");
            (before, moves) = (units, moves + 1);
        }
    }
    assert!(moves > 1, "{before:?}");
}
