//! The measurements before the first step.

use isochron_hierarchy::learn::{Adaptive, AdaptivePart, Request, Tuning};

use super::run::*;
use super::{observe_once, place_free};

#[test]
fn alike_parts_are_looked_at_once() {
    let mut simulation = Simulation::new(vec![SimulatedPart::constant(1.0); 8], 30, 1);
    let mut learner =
        Adaptive::new(Tuning::default(), simulation.total(), 30, describe_parts(8)).unwrap();
    let Request::Measure(units) = learner.request_next(place_free).unwrap() else {
        panic!("a look")
    };
    simulation.measure_once(&mut learner, units).unwrap();
    let Request::Steps { units, .. } = learner.request_next(place_free).unwrap() else {
        panic!("steps")
    };
    assert!(units.iter().all(|d| d.abs_diff(SHARE) < SHARE / 50), "{units:?}");
}

/// Looks at two parts without a fall ahead, of which the second is a fourth as fast, and which took `late_s` longer in
/// the first look. They are expected to have the `likely` speeds. Returns the times of the looks and the first
/// division.
fn look_at_safe_parts(late_s: [f64; 2], likely: [Option<f64>; 2]) -> (Vec<[f64; 2]>, Vec<u64>) {
    let parts = likely.map(|likely_speed| AdaptivePart {
        safe: 2 * SHARE,
        likely_speed,
        ..AdaptivePart::default()
    });
    let parts = parts.to_vec();
    let mut learner = Adaptive::new(Tuning::default(), 2 * SHARE, 30, parts).unwrap();
    let mut looks = Vec::new();
    loop {
        match learner.request_next(place_free).unwrap() {
            Request::Measure(units) => {
                let late_s = if looks.is_empty() { late_s } else { [0.0; 2] };
                let times_s = [units[0] as f64 + late_s[0], 4.0 * units[1] as f64 + late_s[1]];
                learner.observe(&observe_once(true, &units, &times_s)).unwrap();
                looks.push(times_s);
            }
            Request::Steps { units, .. } => return (looks, units),
            Request::Done => unreachable!("30 steps are to be done"),
        }
    }
}

#[test]
fn parts_without_a_fall_ahead_are_looked_at_twice_and_trusted() {
    let (looks, first) = look_at_safe_parts([0.0; 2], [None; 2]);
    assert_eq!(looks.len(), 2, "{looks:?}");
    assert!((looks[1][0] / looks[1][1] - 1.0).abs() < 0.1, "{looks:?}");
    assert!((first[0] as f64 / first[1] as f64 - 4.0).abs() < 0.2, "{first:?}");
}

#[test]
fn parts_of_likely_speeds_share_what_a_look_tells_of_their_kind() {
    // The first is late by 7.5 %, by which its share would be too small alone.
    let (looks, units) = look_at_safe_parts([60.0, 0.0], [Some(4.0), Some(1.0)]);
    let alone = 4.0 * looks[0][1] / looks[0][0];
    let ratio = units[0] as f64 / units[1] as f64;
    assert!(alone < 3.75 && ratio > 3.82, "{looks:?} {units:?}");
}

#[test]
fn a_look_at_likely_parts_is_the_only_one_if_it_is_balanced() {
    let cases = [
        ([Some(4.1), Some(1.0)], 1),
        ([Some(1.0), Some(1.0)], 2),
        ([Some(1.0), Some(4.0)], 2),
        ([Some(4.0), None], 2),
    ];
    for (likely, count) in cases {
        let (looks, first) = look_at_safe_parts([0.0; 2], likely);
        assert_eq!(looks.len(), count, "{likely:?}: {looks:?}");
        let ratio = first[0] as f64 / first[1] as f64;
        assert!((ratio - 4.0).abs() < 0.2, "{likely:?}: {first:?}");
    }
}

#[test]
fn a_first_look_at_likely_parts_is_a_small_part_of_a_short_run() {
    for (steps, most) in [(2, 0.011), (100, 0.063)] {
        let part =
            AdaptivePart { safe: 2 * SHARE, likely_speed: Some(1.0), ..AdaptivePart::default() };
        let parts = vec![part; 2];
        let mut learner = Adaptive::new(Tuning::default(), 2 * SHARE, steps, parts).unwrap();
        let looked_at = learner.request_measurement().unwrap().expect("a look").iter().sum::<u64>()
            as f64
            / (2 * SHARE) as f64;
        assert!((0.9 * most..most).contains(&looked_at), "{looked_at}");
    }
}

#[test]
fn the_second_look_takes_slow_parts_at_most_twice_as_long_as_the_fastest() {
    let speeds = [6.0, 3.0, 1.0];
    let parts = describe_parts(3);
    let mut learner = Adaptive::new(Tuning::default(), 3 * SHARE, 100, parts).unwrap();
    let mut looks = Vec::new();
    for _ in 0..2 {
        let units = learner.request_measurement().unwrap().expect("a look");
        let times_s: Vec<f64> =
            units.iter().zip(speeds).map(|(&d, speed)| d as f64 / speed).collect();
        learner.observe(&observe_once(true, &units, &times_s)).unwrap();
        looks.push((units, times_s));
    }
    let (units, times_s) = &looks[1];
    assert!(times_s[2] < 2.1 * times_s[0], "{times_s:?}");
    assert!(units[2] as f64 > 1.2 * looks[0].0[2] as f64, "{looks:?}");
    assert_eq!(units[..2], [SHARE / 4; 2]);
}

/// Looks at a fast part whose speed may fall, and at two slow ones. Returns the learner before the first measurement of
/// more than an even share, and the units of that.
fn look_until_growth(safe: u64) -> (Adaptive, Vec<u64>) {
    let speeds = [6.5, 1.0, 1.0];
    let part = AdaptivePart { safe, ..AdaptivePart::default() };
    let parts = vec![part; speeds.len()];
    let mut learner = Adaptive::new(Tuning::default(), 3 * SHARE, 100, parts).unwrap();
    loop {
        let units = learner.request_measurement().unwrap().expect("a look");
        if units[0] > SHARE {
            return (learner, units);
        }
        let times_s: Vec<f64> =
            (units.iter().zip(speeds)).map(|(&d, speed)| d as f64 / speed).collect();
        learner.observe(&observe_once(true, &units, &times_s)).unwrap();
    }
}

#[test]
fn a_measurement_of_more_than_was_done_has_a_limit_unless_no_fall_is_expected() {
    let (learner, units) = look_until_growth(0);
    let limits_s = learner.limit_measurement(&units);
    let limit_s = limits_s[0].expect("more than was done");
    let expected_s = units[0] as f64 / 6.5;
    assert!((2.0..4.0).contains(&(limit_s / expected_s)), "{limit_s}");
    assert_eq!(learner.limit_measurement(&[1; 3]), [None; 3]);
    let (learner, safe) = look_until_growth(SHARE);
    assert!(learner.limit_measurement(&safe)[0].is_some());
    assert_eq!(learner.limit_measurement(&[SHARE; 3]), [None; 3]);
}

#[test]
fn while_a_part_is_measured_with_more_the_others_do_what_they_would_get_instead() {
    let (learner, units) = look_until_growth(0);
    let times_s = learner.predict_times(&units);
    for part in 1..3 {
        assert!(units[part] > SHARE / 4, "{units:?}");
        assert!(times_s[part] <= 1.05 * times_s[0], "{times_s:?}");
    }
}

#[test]
fn a_part_that_was_disturbed_in_the_first_look_is_looked_at_with_more() {
    for late_s in [[50.0, 0.0], [0.0, 50.0]] {
        let late_s = late_s.map(|share| share * SHARE as f64);
        let (looks, first) = look_at_safe_parts(late_s, [None; 2]);
        assert_eq!(looks.len(), 3, "{looks:?}");
        let ratio = first[0] as f64 / first[1] as f64;
        assert!((ratio - 4.0).abs() < 0.5, "{first:?}");
    }
}

/// Looks at safe parts of speeds 8 : 4 : 2 : 1, one of which seems `factor` times as slow in the first look, and returns
/// the number of looks.
fn count_looks(disturbed: usize, factor: f64) -> usize {
    let speeds = [8.0, 4.0, 2.0, 1.0];
    let parts = speeds.map(|speed| AdaptivePart {
        safe: 4 * SHARE,
        likely_speed: Some(speed),
        ..AdaptivePart::default()
    });
    let config = Tuning::default();
    let mut learner = Adaptive::new(config, 4 * SHARE, 30, parts.to_vec()).unwrap();
    let mut looks = 0;
    while let Some(units) = learner.request_measurement().unwrap() {
        let mut times_s: Vec<f64> =
            units.iter().zip(speeds).map(|(&d, speed)| d as f64 / speed).collect();
        if looks == 0 {
            times_s[disturbed] *= factor;
        }
        learner.observe(&observe_once(true, &units, &times_s)).unwrap();
        looks += 1;
    }
    looks
}

#[test]
fn a_part_that_seems_slow_is_looked_at_again_if_that_may_save_more_than_it_costs() {
    for (disturbed, factor, looks) in [(0, 1.2, 1), (0, 1.35, 2), (3, 1.35, 1), (3, 4.0, 1)] {
        assert_eq!(count_looks(disturbed, factor), looks, "{disturbed} {factor}");
    }
}
