//! Properties of the numerical partitioning algorithm, and of the optimum in real numbers that all
//! partitioners are measured against.

use isochron_hierarchy::model::{AkimaFpm, Cpm, PiecewiseFpm, Point, SpeedModel};
use isochron_hierarchy::partition::{
    Guess, NpaSolution, Partition, PartitionError, SharesOf, continuous, gpa, npa, npa_from,
};
use proptest::prelude::*;

/// As many cases as `PROPTEST_CASES` says, or else `cases`.
fn config(cases: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(cases),
    }
}

/// A smooth speed function: `s(d) = peak · (d + half) / (d + 2 half) / (1 + (d / memory)^steepness)`.
/// It rises from half its peak, levels out, and falls off where memory ends; its time always grows.
#[derive(Debug, Clone, Copy)]
struct Smooth {
    peak: f64,
    half: f64,
    memory: f64,
    steepness: f64,
}

impl Smooth {
    fn paging(&self, d: f64) -> f64 {
        (d / self.memory).powf(self.steepness)
    }
}

impl SpeedModel for Smooth {
    fn speed(&self, d: f64) -> f64 {
        self.peak * (d + self.half) / (d + 2.0 * self.half) / (1.0 + self.paging(d))
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        let paging = self.paging(d);
        let start = 1.0 / (d + self.half) - 1.0 / (d + 2.0 * self.half);
        let fall = if d > 0.0 { self.steepness * paging / d / (1.0 + paging) } else { 0.0 };
        self.speed(d) * (start - fall)
    }

    fn units_within(&self, t_s: f64) -> f64 {
        let (mut low, mut high) = (0.0, t_s * self.peak);
        loop {
            let middle: f64 = low + (high - low) / 2.0;
            if middle <= low || middle >= high {
                return low;
            }
            if self.time_s(middle) <= t_s {
                low = middle;
            } else {
                high = middle;
            }
        }
    }
}

type BoxedModel = Box<dyn SpeedModel>;

fn any_cpm(scale: f64) -> impl Strategy<Value = BoxedModel> {
    (0.05..20.0_f64).prop_map(move |speed| Box::new(Cpm { speed: speed * scale }) as BoxedModel)
}

fn any_points(scale: f64, sizes: u64) -> impl Strategy<Value = Vec<Point>> {
    let point = (1..=sizes, 0.05..20.0_f64).prop_map(move |(d, speed)| Point {
        d,
        t_s: d as f64 / (speed * scale),
        reps: 1,
        ci_s: 0.0,
    });
    prop::collection::vec(point, 1..10)
}

fn any_fpm(scale: f64, sizes: u64) -> impl Strategy<Value = BoxedModel> {
    any_points(scale, sizes)
        .prop_map(|points| Box::new(PiecewiseFpm::from_points(points).unwrap()) as BoxedModel)
}

fn any_akima(scale: f64, sizes: u64) -> impl Strategy<Value = BoxedModel> {
    any_points(scale, sizes)
        .prop_map(|points| Box::new(AkimaFpm::from_points(points).unwrap()) as BoxedModel)
}

fn any_smooth(scale: f64, sizes: u64) -> impl Strategy<Value = BoxedModel> {
    (0.05..20.0_f64, 0.0..1.0_f64, 0.01..2.0_f64, 1.0..12.0_f64).prop_map(
        move |(peak, half, memory, steepness)| {
            Box::new(Smooth {
                peak: peak * scale,
                half: half * sizes as f64 + 1e-3,
                memory: memory * sizes as f64,
                steepness,
            }) as BoxedModel
        },
    )
}

fn any_model() -> impl Strategy<Value = BoxedModel> {
    prop_oneof![any_cpm(1.0), any_fpm(1.0, 10_000), any_smooth(1.0, 10_000)]
}

fn as_dyn(models: &[BoxedModel]) -> Vec<&dyn SpeedModel> {
    models.iter().map(AsRef::as_ref).collect()
}

/// The largest time of one unit more near `shares`.
fn unit_time(models: &[&dyn SpeedModel], shares: &[f64]) -> f64 {
    (models.iter().zip(shares))
        .map(|(model, share)| model.time_s(share.floor() + 1.0) - model.time_s(share.floor()))
        .fold(0.0, f64::max)
}

fn assert_whole(partition: &Partition, models: &[&dyn SpeedModel], total: u64) {
    assert_eq!(partition.units.iter().sum::<u64>(), total);
    for ((model, &units), &time_s) in models.iter().zip(&partition.units).zip(&partition.times_s) {
        assert_eq!(model.time_s(units as f64), time_s);
    }
}

fn assert_root(solution: &NpaSolution, models: &[&dyn SpeedModel], total: u64) {
    let sum: f64 = solution.shares.iter().sum();
    assert!((sum / total as f64 - 1.0).abs() <= 1e-12, "{solution:?}");
    let times = (solution.shares.iter().zip(models)).map(|(&x, model)| model.time_s(x));
    let (min, max) = (times.clone().fold(f64::INFINITY, f64::min), times.fold(0.0, f64::max));
    assert!((max - min) / max <= 1e-12, "{min} {max}");
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn all_partitioners_agree_to_one_units_time(
        devices in prop::collection::vec(any_model(), 1..30),
        total in prop_oneof![1..200_u64, 1..1_000_000_u64, 1..1_000_000_000_u64],
        guess in prop_oneof![Just(Guess::Even), Just(Guess::Proportional)],
    ) {
        let models = as_dyn(&devices);
        let optimum = continuous(&models, total).unwrap();
        let sum: f64 = optimum.shares.iter().sum();
        prop_assert!((sum / total as f64 - 1.0).abs() < 1e-14);
        let geometrical = gpa(&models, total).unwrap();
        let numerical = npa_from(&models, total, guess).unwrap();
        let unit_s = unit_time(&models, &optimum.shares);
        for partition in [&geometrical, &numerical.partition] {
            assert_whole(partition, &models, total);
            let max_s = partition.max_time_s();
            prop_assert!(max_s >= optimum.time_s * (1.0 - 1e-12), "{max_s} {optimum:?}");
            prop_assert!(max_s <= (optimum.time_s + unit_s) * (1.0 + 1e-12), "{max_s} {optimum:?}");
        }
        let (g, n) = (geometrical.max_time_s(), numerical.partition.max_time_s());
        prop_assert!((g / n - 1.0).abs() < 1e-11, "{g} {n}");
        if numerical.converged {
            prop_assert_eq!(numerical.shares_of, SharesOf::Numerical);
            assert_root(&numerical, &models, total);
        }
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn smooth_models_need_no_fallback(
        devices in prop::collection::vec(any_smooth(1.0, 10_000), 2..30),
        units_each in 1..3000_u64,
    ) {
        let total = units_each * devices.len() as u64;
        let models = as_dyn(&devices);
        let solution = npa(&models, total).unwrap();
        prop_assert!(solution.converged, "{solution:?}");
        assert_root(&solution, &models, total);
        let optimum = continuous(&models, total).unwrap();
        for (x, y) in solution.shares.iter().zip(&optimum.shares) {
            prop_assert!((x - y).abs() <= 1e-9 * total as f64, "{x} {y}");
        }
    }

    /// Times of splines through arbitrary points need not grow, and then there may be several roots.
    #[test]
    fn every_converged_solution_of_splines_is_a_root(
        devices in prop::collection::vec(any_akima(1.0, 10_000), 1..10),
        total in 1..100_000_u64,
    ) {
        let models = as_dyn(&devices);
        let solution = npa(&models, total).unwrap();
        assert_whole(&solution.partition, &models, total);
        if solution.converged {
            assert_root(&solution, &models, total);
        } else {
            let geometrical = gpa(&models, total).unwrap();
            prop_assert!(solution.partition.max_time_s() <= geometrical.max_time_s());
        }
    }

    /// Splines through measurements of a device that is fast while its memory lasts.
    #[test]
    fn splines_through_measurements_are_solved(
        memories in prop::collection::vec((1.0..20.0_f64, 2_000..8_000_u64), 2..10),
        units_each in 1..6_000_u64,
    ) {
        let splines: Vec<BoxedModel> =
            memories.iter().map(|&(peak, memory)| spline(peak, memory)).collect();
        let models = as_dyn(&splines);
        let total = units_each * models.len() as u64;
        let (line, solution) = (continuous(&models, total).unwrap(), npa(&models, total).unwrap());
        prop_assert!(solution.converged, "{solution:?}");
        let unit_s = unit_time(&models, &line.shares);
        let max_s = solution.partition.max_time_s();
        prop_assert!(max_s <= (line.time_s + unit_s) * (1.0 + 1e-12), "{max_s} {line:?}");
    }

    #[test]
    fn nasty_models_and_totals_are_divided_or_refused(
        devices in prop::collection::vec(nasty_model(), 0..12),
        total in prop_oneof![Just(0), 1..50_u64, 0..=1_u64 << 53, Just(u64::MAX)],
        guess in prop_oneof![Just(Guess::Even), Just(Guess::Proportional)],
    ) {
        let models = as_dyn(&devices);
        let (line, geometrical, numerical) = (
            continuous(&models, total),
            gpa(&models, total),
            npa_from(&models, total, guess),
        );
        for partition in [geometrical, numerical.map(|solution| solution.partition)] {
            match partition {
                Ok(partition) => {
                    prop_assert_eq!(partition.units.len(), models.len());
                    let sum = partition.units.iter().try_fold(0, |sum: u64, &d| sum.checked_add(d));
                    prop_assert_eq!(sum, Some(total));
                }
                Err(PartitionError::NoDevices { .. }) => prop_assert!(models.is_empty()),
                Err(PartitionError::InvalidModel { index, .. }) => {
                    prop_assert!(index < models.len());
                }
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
        if let Ok(line) = line {
            prop_assert!(line.shares.iter().all(|x| (0.0..=total as f64).contains(x)));
        }
    }
}

/// A spline through 20 measurements of a device that is fast while its memory lasts.
fn spline(peak: f64, memory: u64) -> BoxedModel {
    let device = Smooth { peak, half: 50.0, memory: memory as f64, steepness: 3.0 };
    let points = (1..=20).map(|i| Point {
        d: i * i * 30,
        t_s: device.time_s((i * i * 30) as f64),
        reps: 3,
        ci_s: 0.0,
    });
    Box::new(AkimaFpm::from_points(points.collect()).unwrap())
}

fn any_scale() -> impl Strategy<Value = f64> {
    (-12.0..12.0_f64).prop_map(|log| 10_f64.powf(log))
}

fn any_size() -> impl Strategy<Value = u64> {
    (0..=53_u32).prop_map(|log| 1_u64 << log)
}

/// Speeds and times of any magnitude, and models that break every promise.
fn nasty_model() -> impl Strategy<Value = BoxedModel> {
    let any_f64 = prop_oneof![
        9 => any::<f64>(),
        1 => Just(f64::MIN_POSITIVE),
        1 => Just(f64::MAX),
        1 => Just(0.0),
    ];
    let broken = (any_f64, any::<f64>(), any::<f64>())
        .prop_map(|(speed, slope, units)| Box::new(Broken { speed, slope, units }) as BoxedModel);
    let wave = (any_scale(), 0.0..1.2_f64, any_scale())
        .prop_map(|(speed, depth, length)| Box::new(Wave { speed, depth, length }) as BoxedModel);
    prop_oneof![
        3 => any_scale().prop_flat_map(any_cpm),
        6 => (any_scale(), any_size()).prop_flat_map(|(scale, size)| any_fpm(scale, size)),
        3 => (any_scale(), any_size()).prop_flat_map(|(scale, size)| any_smooth(scale, size)),
        3 => (any_scale(), any_size()).prop_flat_map(|(scale, size)| any_akima(scale, size)),
        2 => wave,
        1 => broken,
        1 => Just(()).prop_map(|()| Box::new(PiecewiseFpm::new()) as BoxedModel),
    ]
}

/// A model of arbitrary answers.
#[derive(Debug)]
struct Broken {
    speed: f64,
    slope: f64,
    units: f64,
}

impl SpeedModel for Broken {
    fn speed(&self, _d: f64) -> f64 {
        self.speed
    }

    fn speed_derivative(&self, _d: f64) -> f64 {
        self.slope
    }

    fn units_within(&self, _t_s: f64) -> f64 {
        self.units
    }
}

/// A smooth speed that goes up and down for ever, and so does its time: no admissible model.
#[derive(Debug)]
struct Wave {
    speed: f64,
    depth: f64,
    length: f64,
}

impl SpeedModel for Wave {
    fn speed(&self, d: f64) -> f64 {
        self.speed * (1.0 + self.depth * (d / self.length).sin())
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        self.speed * self.depth / self.length * (d / self.length).cos()
    }

    fn units_within(&self, t_s: f64) -> f64 {
        t_s * self.speed
    }
}

/// The divisions of GPA, and of NPA from both guesses.
fn divide_by_all(models: &[&dyn SpeedModel], total: u64) -> [Result<Vec<u64>, PartitionError>; 3] {
    [
        gpa(models, total).map(|partition| partition.units),
        npa(models, total).map(|solution| solution.partition.units),
        npa_from(models, total, Guess::Even).map(|solution| solution.partition.units),
    ]
}

#[test]
fn impossible_requests_name_the_device() {
    let (good, empty) = (Cpm { speed: 1.0 }, PiecewiseFpm::new());
    for result in divide_by_all(&[], 4) {
        assert_eq!(result, Err(PartitionError::NoDevices { total: 4 }));
    }
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let models: [&dyn SpeedModel; 2] = [&good, &Cpm { speed }];
        assert!(divide_by_all(&models, 4).into_iter().all(names_second), "{speed}");
        assert!(names_second(continuous(&models, 4)), "{speed}");
    }
    assert!(divide_by_all(&[&good, &empty], 4).into_iter().all(names_second));
    assert!(divide_by_all(&[&empty], 4).into_iter().all(|result| result.is_err()));
}

fn names_second<T>(result: Result<T, PartitionError>) -> bool {
    matches!(result, Err(PartitionError::InvalidModel { index: 1, .. }))
}

#[test]
fn small_and_large_requests_have_a_result() {
    let (slow, fast, empty) = (Cpm { speed: 1.0 }, Cpm { speed: 5.0 }, PiecewiseFpm::new());
    let models: [&dyn SpeedModel; 3] = [&slow, &slow, &fast];
    assert_units(&[], 0, &[]);
    assert_units(&[&empty, &slow], 0, &[0, 0]);
    assert_units(&models, 2, &[0, 0, 2]);
    assert_units(&models, 7, &[1, 1, 5]);
    assert_units(&[&fast], 9, &[9]);
    assert_units(&[&fast], u64::MAX, &[u64::MAX]);
    // Far beyond the last point its speed continues.
    let points = [(10, 1.0), (20, 4.0)].map(|(d, t_s)| Point { d, t_s, reps: 1, ci_s: 0.0 });
    let fpm = PiecewiseFpm::from_points(points.to_vec()).unwrap();
    assert_units(&[&fpm, &fast], 10_000_000, &[5_000_000, 5_000_000]);
}

fn assert_units(models: &[&dyn SpeedModel], total: u64, units: &[u64]) {
    for result in divide_by_all(models, total) {
        assert_eq!(result.unwrap(), units, "{total} units");
    }
}

#[test]
fn a_model_of_many_corners_falls_back_to_the_geometric_algorithm() {
    // Its slope is always wrong, so that no step of Newton's method helps.
    #[derive(Debug)]
    struct Misleading(Cpm);
    impl SpeedModel for Misleading {
        fn speed(&self, d: f64) -> f64 {
            self.0.speed(d) / (1.0 + d)
        }
        fn speed_derivative(&self, d: f64) -> f64 {
            10.0 * self.speed(d)
        }
        fn units_within(&self, t_s: f64) -> f64 {
            let product = t_s * self.0.speed;
            0.5 * ((1.0 + 4.0 * product).sqrt() - 1.0)
        }
    }
    let models = [1.0, 2.0, 7.0].map(|speed| Misleading(Cpm { speed }));
    let models: Vec<&dyn SpeedModel> =
        models.iter().map(|model| model as &dyn SpeedModel).collect();
    let solution = npa(&models, 10_000).unwrap();
    assert!(!solution.converged && solution.residual > 1e-12);
    assert_eq!(solution.shares_of, SharesOf::Geometrical);
    assert_eq!(solution.partition, gpa(&models, 10_000).unwrap());
}

#[test]
fn ten_thousand_devices_are_solved_in_few_steps() {
    let devices: Vec<Smooth> = (0..10_000_u32)
        .map(|i| Smooth {
            peak: f64::from(1 + i % 17),
            half: f64::from(1 + i % 5),
            memory: f64::from(500 + i % 1000),
            steepness: 3.0,
        })
        .collect();
    let models: Vec<&dyn SpeedModel> = devices.iter().map(|device| device as _).collect();
    let solution = npa(&models, 7_000_000).unwrap();
    assert!(solution.converged && solution.iterations <= 30, "{}", solution.iterations);
    let geometrical = gpa(&models, 7_000_000).unwrap();
    let ratio = solution.partition.max_time_s() / geometrical.max_time_s();
    assert!((ratio - 1.0).abs() < 1e-11);
}
