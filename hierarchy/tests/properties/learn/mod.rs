//! Learning while working, on made-up parts.

mod looks;
mod robust;
pub mod run;

use isochron_hierarchy::learn::{
    Adaptive, AdaptiveError, AdaptivePart, ChangeReason, LaidOut, Observed, Request, Tuning,
};
use isochron_hierarchy::model::Point;

use self::run::*;
use isochron_support::simulated::SplitMix;

#[test]
fn unlike_parts_are_near_ideal_with_everything_counted() {
    let (mean, worst) = bill(150, |random| draw_unlike(8, random));
    assert!(mean < 1.047 && worst < 1.10, "{mean} {worst}");
    let (mean, worst) = bill(30, |random| draw_unlike(8, random));
    assert!(mean < 1.135 && worst < 1.2, "{mean} {worst}");
}

fn draw_cliffs(random: &mut SplitMix) -> Vec<SimulatedPart> {
    let mut parts = draw_unlike(8, random);
    for part in &mut parts {
        if random.uniform(0.0, 1.0) < 0.3 {
            part.capacity = random.uniform(0.3, 1.5) * SHARE as f64;
            part.steeper = random.uniform(3.0, 28.0);
        }
    }
    parts
}

#[test]
fn cliffs_are_found_and_kept_away_from() {
    let (mean, worst) = bill(150, draw_cliffs);
    assert!(mean < 1.09 && worst < 1.25, "{mean} {worst}");
    for seed in 0..20 {
        let mut simulation = Simulation::new(draw_cliffs(&mut SplitMix::new(seed)), 150, seed);
        learn(&mut simulation);
        let ideal_s = simulation.ideal_s(0);
        let entered = simulation.steps_s[20..].iter().filter(|&&t_s| t_s > 1.2 * ideal_s).count();
        assert!(entered <= 6, "{seed}: {entered} steps behind a cliff");
    }
}

#[test]
fn work_beyond_all_memories_goes_to_the_parts_that_are_quickest_there() {
    let parts = [(0.8, 0.66, 24.0), (1.1, 1.2, 8.0), (0.8, 0.9, 20.8), (2.0, 0.63, 6.1)].map(
        |(speed, share, steeper)| SimulatedPart {
            capacity: share * SHARE as f64,
            steeper,
            ..SimulatedPart::constant(speed)
        },
    );
    let mut simulation = Simulation::new(parts.to_vec(), 150, 1);
    learn(&mut simulation);
    let ratio = simulation.over_ideal();
    assert!(ratio < 1.25, "{ratio} {:?}", simulation.divisions.last());
}

#[test]
fn a_fast_part_that_starts_for_long_gets_its_units() {
    let mut parts: Vec<_> = [0.42, 0.59, 0.8, 1.25].map(SimulatedPart::constant).to_vec();
    parts[3].fixed_s = 1.5;
    let mut simulation = Simulation::new(parts, 150, 1);
    learn(&mut simulation);
    let last = simulation.divisions.last().unwrap();
    assert!(last[3] > SHARE / 3, "{last:?}");
    let ratio = simulation.over_ideal();
    assert!(ratio < 1.1, "{ratio}");
}

#[test]
fn a_part_of_known_start_is_not_left_out_with_one_of_unknown_start() {
    let mut parts: Vec<_> = (0..16).map(|_| SimulatedPart::constant(1.0)).collect();
    parts[0].fixed_s = 0.3;
    for part in &mut parts[1..4] {
        (part.fixed_s, part.speed) = (5.0, 0.3 * SHARE as f64);
    }
    let mut simulation = Simulation::new(parts, 150, 1);
    let learner = learn(&mut simulation);
    let first = &learner.changes()[0].units;
    assert!(first[0] > SHARE / 2 && first[1..4] == [0; 3], "{first:?}");
}

#[test]
fn a_part_that_takes_longer_to_start_than_a_step_gets_nothing() {
    let mut parts = vec![SimulatedPart::constant(1.0); 4];
    parts[2].fixed_s = 3.0;
    let mut simulation = Simulation::new(parts, 150, 1);
    let learner = learn(&mut simulation);
    let last = simulation.divisions.last().unwrap();
    assert_eq!(last[2], 0);
    assert!(simulation.over_ideal() < 1.08, "{}", simulation.over_ideal());
    let model = learner.describe_models()[2].expect("it was looked at");
    assert!((model.time_s - 3.0).abs() < 0.6, "{model:?}");
}

#[test]
fn alike_parts_stay_even_despite_noise() {
    for n in [2, 16, 90] {
        // Until three times the expected noise is learnt, some of it is followed.
        for (noise, most_ratio, most_changes) in [(0.02, 1.01, 6), (0.06, 1.05, 25)] {
            let mut simulation = Simulation::new(vec![SimulatedPart::constant(1.0); n], 300, 5);
            simulation.noise = noise;
            let learner = learn(&mut simulation);
            let ratio = simulation.over_ideal();
            let (changes, parts) = (learner.changes().len(), simulation.divisions.last().unwrap());
            let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
            let spread = *most as f64 / *least as f64;
            assert!(
                ratio < most_ratio && spread < 1.02 && changes <= most_changes,
                "{n} {noise}: {ratio} {spread} {changes}"
            );
        }
    }
}

#[test]
fn noise_does_not_move_work_back_and_forth() {
    for noise in [0.01, 0.03, 0.06] {
        let mut changes = 0;
        for seed in 0..10 {
            let parts = draw_unlike(8, &mut SplitMix::new(seed));
            let mut simulation = Simulation::new(parts, 1000, seed);
            simulation.noise = noise;
            let learner = learn(&mut simulation);
            let ratio = simulation.over_ideal();
            assert!(ratio < 1.03, "{noise} {seed}: {ratio}");
            // One in ten runs with the most noise calls some of it drift.
            assert!(noise > 0.05 || learner.drifts().is_empty(), "{:?}", learner.drifts());
            changes += learner.changes().len();
        }
        assert!(changes <= 60, "{noise}: {changes}");
    }
}

/// The first step with a division finds cold caches and new pages.
#[test]
fn a_first_step_of_cold_caches_changes_nothing() {
    for seed in 0..100 {
        let mut random = SplitMix::new(seed);
        let speeds: [f64; 4] = std::array::from_fn(|_| random.uniform(0.5, 4.0));
        let parts = vec![AdaptivePart { safe: 4000, ..AdaptivePart::default() }; 4];
        let mut learner = start(Tuning::default(), 4000, parts).unwrap();
        let mut is_first = true;
        while learner.changes().len() < 2 {
            let (is_measurement, units) = match learner.request_next(place_free).unwrap() {
                Request::Measure(units) => (true, units),
                Request::Steps { units, .. } => (false, units),
                Request::Done => break,
            };
            let is_cold = !is_measurement && is_first;
            let most = if is_cold { 1.25 } else { 1.0 };
            let times_s: Vec<f64> = (units.iter().zip(speeds))
                .map(|(&units, speed)| units as f64 / speed * random.uniform(1.0, most))
                .collect();
            is_first = is_first && is_measurement;
            learner.observe(&observe_once(is_measurement, &units, &times_s)).unwrap();
        }
        assert_eq!(learner.changes().len(), 1, "{seed}: {:?}", learner.changes());
    }
}

#[test]
fn a_part_that_becomes_slow_gets_less_within_few_steps_and_is_named() {
    for (slower, at) in [(4.0, 100), (2.0, 37), (1.3, 250), (0.5, 100)] {
        let mut parts = vec![SimulatedPart::constant(1.0); 8];
        (parts[5].slow_from, parts[5].slower) = (at, slower);
        let mut simulation = Simulation::new(parts, 400, 9);
        let learner = learn(&mut simulation);
        let drift = learner.drifts().first().expect("noticed");
        assert_eq!((drift.part, learner.drifts().len()), (5, 1), "{:?}", learner.drifts());
        assert!(drift.step.abs_diff(at) <= 1, "{drift:?} {at}");
        assert!((drift.factor / slower - 1.0).abs() < 0.2, "{drift:?} {slower}");
        let change = learner
            .changes()
            .iter()
            .find(|change| change.why == ChangeReason::Drift)
            .expect("a change");
        assert!(change.step <= at + 12, "{slower}: {}", change.step);
        assert!(simulation.over_ideal() < 1.25, "{slower}: {}", simulation.over_ideal());
    }
}

#[test]
fn one_disturbed_time_changes_nothing_and_a_lasting_one_does() {
    for step in [None, Some(0), Some(1), Some(3), Some(40)] {
        let mut parts = vec![SimulatedPart::constant(1.0); 8];
        let mut simulation = Simulation::new(parts.clone(), 400, 2);
        simulation.outlier = Some((3, step));
        learn(&mut simulation);
        assert!(simulation.over_ideal() < 1.06, "{step:?}: {}", simulation.over_ideal());
        if let Some(step) = step {
            (parts[3].slow_from, parts[3].slower) = (step, 1000.0);
            let mut lasting = Simulation::new(parts, 400, 2);
            let learner = learn(&mut lasting);
            let units = lasting.divisions.last().unwrap()[3];
            assert!(units < SHARE / 100, "{step}: {units} {:?}", learner.drifts());
        }
    }
}

#[test]
fn totals_granules_and_capacities_are_kept() {
    for seed in 0..30 {
        let mut random = SplitMix::new(seed);
        let n = 2 + seed as usize % 7;
        let granule = [1, 7, 64][seed as usize % 3];
        let total = 3000 + seed * 17;
        let mut parts = describe_parts(n);
        for part in &mut parts[1..] {
            part.capacity =
                (random.uniform(0.0, 1.0) < 0.5).then(|| random.uniform(0.0, 900.0) as u64);
        }
        let config = Tuning { granule, force_every: seed % 4, ..Tuning::default() };
        let mut learner = Adaptive::new(config, total, 40, parts.clone()).unwrap();
        let speeds = draw_unlike(n, &mut random);
        loop {
            let (is_measurement, units) = match learner.request_next(place_free).unwrap() {
                Request::Done => break,
                Request::Measure(units) => (true, units),
                Request::Steps { units, .. } => (false, units),
            };
            for (part, &d) in parts.iter().zip(&units) {
                assert!(d <= part.capacity.unwrap_or(u64::MAX), "{seed}: {units:?}");
            }
            assert!(is_measurement || units.iter().sum::<u64>() == total);
            let odd = units.iter().filter(|&&d| d % granule > 0 && Some(d) != parts[0].capacity);
            assert!(is_measurement || odd.count() <= 1, "{seed}: {units:?}");
            let times_s: Vec<f64> =
                speeds.iter().zip(&units).map(|(part, &d)| part.time_s(d, 0)).collect();
            let seen = observe_once(is_measurement, &units, &times_s);
            learner.observe(&seen).unwrap();
        }
    }
}

#[test]
fn devices_of_a_node_change_freely_where_nodes_are_dear_to_change() {
    // Two nodes of two devices; the second device of each becomes slow.
    let mut parts = vec![SimulatedPart::constant(1.0); 4];
    for device in [1, 3] {
        (parts[device].slow_from, parts[device].slower) = (20, 3.0);
    }
    let mut simulation = Simulation::new(parts, 60, 4);
    let described = (0..4).map(|index| AdaptivePart { node: index / 2, ..AdaptivePart::default() });
    let mut learner = Adaptive::new(Tuning::default(), 4 * SHARE, 60, described.collect()).unwrap();
    loop {
        let now = simulation.divisions.last().cloned();
        match learner
            .request_next(|units| LaidOut {
                units: units.to_vec(),
                cost_s: now.as_ref().map_or(0.0, |now| {
                    1e3 * (now[0] + now[1]).abs_diff(units[0] + units[1]) as f64
                }),
            })
            .unwrap()
        {
            Request::Done => break,
            Request::Measure(units) => simulation.measure_once(&mut learner, units).unwrap(),
            Request::Steps { units, count } => simulation.step(&mut learner, units, count).unwrap(),
        }
    }
    let (first, last) = (&simulation.divisions[0], simulation.divisions.last().unwrap());
    assert_eq!(first[0] + first[1], last[0] + last[1]);
    assert!(last[0] > 2 * last[1] && last[2] > 2 * last[3], "{last:?}");
}

#[test]
fn earlier_points_replace_the_look() {
    let mut ratios = 0.0;
    for seed in 0..20 {
        let random = &mut SplitMix::new(seed);
        let mut simulation = Simulation::new(draw_unlike(8, random), 30, seed);
        let mut parts = describe_parts(8);
        for (part, simulated) in parts.iter_mut().zip(&simulation.parts) {
            for d in [SHARE / 4, SHARE * 4] {
                let t_s = 0.9 * simulated.time_s(d, 0);
                part.prior.push(Point { d, t_s, reps: 3, ci_s: 0.0 });
            }
        }
        let mut learner = Adaptive::new(Tuning::default(), simulation.total(), 30, parts).unwrap();
        let first = learner.request_next(|units| simulation.place(units)).unwrap();
        assert!(matches!(first, Request::Steps { .. }), "{first:?}");
        simulation.run(&mut learner).unwrap();
        ratios += simulation.over_ideal() / 20.0;
    }
    assert!(ratios < 1.03, "{ratios}");
}

fn start(config: Tuning, total: u64, parts: Vec<AdaptivePart>) -> Result<Adaptive, AdaptiveError> {
    Adaptive::new(config, total, 10, parts)
}

fn observe_once(is_measurement: bool, units: &[u64], times_s: &[f64]) -> Observed {
    Observed::undisturbed(is_measurement, 0, units, times_s)
}

/// Lays a division out as it is, at no cost.
fn place_free(units: &[u64]) -> LaidOut {
    LaidOut { units: units.to_vec(), cost_s: 0.0 }
}

#[test]
fn runs_that_cannot_be_are_refused() {
    let config = Tuning::default();
    assert_eq!(start(config, 10, vec![]).err(), Some(AdaptiveError::NoParts { total: 10 }));
    let zero = Tuning { granule: 0, ..config };
    assert!(matches!(
        start(zero, 10, describe_parts(1)).err(),
        Some(AdaptiveError::InvalidConfig { name: "granule", .. })
    ));
    let mut small = describe_parts(2);
    small.iter_mut().for_each(|part| part.capacity = Some(4));
    assert_eq!(
        start(config, 10, small).err(),
        Some(AdaptiveError::BeyondCapacity { total: 10, capacity: 8 })
    );
    let mut odd = describe_parts(2);
    odd[1].prior.push(Point { d: 3, t_s: -1.0, reps: 1, ci_s: 0.0 });
    assert!(matches!(
        start(config, 10, odd).err(),
        Some(AdaptiveError::InvalidTime { index: 1, .. })
    ));
}

#[test]
fn bad_times_are_refused_and_change_nothing() {
    let mut learner = start(Tuning::default(), 1000, describe_parts(2)).unwrap();
    let wanted = learner.request_next(|_| LaidOut::default());
    for t_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = learner.observe(&observe_once(true, &[31, 31], &[1.0, t_s])).unwrap_err();
        assert!(matches!(error, AdaptiveError::InvalidTime { index: 1, .. }), "{error}");
    }
    assert_eq!(
        learner.observe(&observe_once(true, &[31], &[1.0])).unwrap_err(),
        AdaptiveError::WrongLength { wanted: 2, got: 1 }
    );
    assert_eq!(
        learner.observe(&observe_once(false, &[500, 501], &[1.0; 2])).unwrap_err(),
        AdaptiveError::WrongTotal { wanted: 1000, got: 1001 }
    );
    assert_eq!(learner.request_next(|_| LaidOut::default()), wanted);
}

#[test]
fn bad_placements_are_refused() {
    let mut learner = start(Tuning::default(), 1000, describe_parts(2)).unwrap();
    while let Request::Measure(units) = learner.request_next(place_free).unwrap() {
        learner.observe(&observe_once(true, &units, &[1.0, 1.0])).unwrap();
    }
    learner.observe(&observe_once(false, &[500, 500], &[1.0, 3.0])).unwrap();
    for cost_s in [-1.0, f64::NAN, f64::INFINITY] {
        let error =
            learner.request_next(|units| LaidOut { units: units.to_vec(), cost_s }).unwrap_err();
        assert!(matches!(error, AdaptiveError::InvalidCost { .. }), "{error}");
    }
    let error = learner.request_next(|_| LaidOut { units: vec![1, 2], cost_s: 0.0 }).unwrap_err();
    assert_eq!(error, AdaptiveError::WrongTotal { wanted: 1000, got: 3 });
}

#[test]
fn trivial_runs_end() {
    for (n, total, steps) in [(1, 1000, 5), (3, 0, 5), (3, 1000, 0), (5, 3, 20)] {
        let mut learner =
            Adaptive::new(Tuning::default(), total, steps, describe_parts(n)).unwrap();
        let mut done = 0;
        loop {
            let (is_measurement, units) = match learner.request_next(place_free).unwrap() {
                Request::Done => break,
                Request::Measure(units) => (true, units),
                Request::Steps { units, .. } => (false, units),
            };
            assert!(is_measurement || units.iter().sum::<u64>() == total);
            done += u64::from(!is_measurement);
            let times_s: Vec<f64> = units.iter().map(|&d| d as f64).collect();
            let seen = observe_once(is_measurement, &units, &times_s);
            learner.observe(&seen).unwrap();
        }
        assert_eq!(done, steps);
        let over = learner.observe(&observe_once(false, &vec![0; n], &vec![0.0; n]));
        assert!(over.is_err());
    }
}

#[test]
fn forced_changes_change_the_division_every_time() {
    let mut simulation = Simulation::new(vec![SimulatedPart::constant(1.0); 3], 20, 1);
    let config = Tuning { force_every: 2, ..Tuning::default() };
    let mut learner = Adaptive::new(config, simulation.total(), 20, describe_parts(3)).unwrap();
    simulation.run(&mut learner).unwrap();
    assert!(learner.changes().len() >= 10, "{}", learner.changes().len());
}
