//! Properties of every fit of measured points, of flags and of surfaces. `PROPTEST_CASES` sets the number
//! of cases.

use isochron_hierarchy::model::{
    AkimaFpm, Fit, PiecewiseFpm, PiecewiseTime, Point, Reason, SpeedModel, Surface, SurfacePoint,
};
use isochron_hierarchy::partition::gpa;
use proptest::prelude::*;
use strum::VariantArray as _;

fn any_point() -> impl Strategy<Value = Point> {
    (1..500_u64, -6.0..3.0_f64, 0..9_u32, 0.0..1.0_f64).prop_map(|(d, log_t, reps, ci)| {
        let t_s = 10_f64.powf(log_t);
        Point { d, t_s, reps, ci_s: ci * t_s }
    })
}

fn points(n: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Point>> {
    prop::collection::vec(any_point(), n)
}

fn once(d: u64, t_s: f64) -> Point {
    Point { d, t_s, reps: 1, ci_s: 0.0 }
}

/// Every measured size once.
fn single_points() -> impl Strategy<Value = Vec<Point>> {
    prop::collection::btree_map(1..500_u64, -3.0..3.0_f64, 1..20).prop_map(|points| {
        (points.into_iter()).map(|(d, log_t)| once(d, 10_f64.powf(log_t))).collect()
    })
}

fn list_corners(points: &[Point]) -> Vec<f64> {
    let mut corners: Vec<f64> = points.iter().map(|point| point.d as f64).collect();
    corners.extend(
        PiecewiseFpm::from_points(points.to_vec()).unwrap().knots().iter().map(|knot| knot.d),
    );
    corners
}

/// The slope of `f` at `d` by central differences, and its tolerance: the change of the difference with
/// the step, and rounding.
fn measure_slope(f: impl Fn(f64) -> f64, d: f64) -> (f64, f64) {
    let [slope, coarse] = [1e-4, 2e-4].map(|step: f64| (f(d + step) - f(d - step)) / (2.0 * step));
    let largest = f(d).abs().max(f(d + 1e-4).abs()).max(f(d - 1e-4).abs());
    (slope, (coarse - slope).abs() + 1e-12 * largest / 1e-4)
}

/// The slope of the chord after corner `i`; 0 beyond both ends.
fn chord(corners: &[(f64, f64)], i: isize) -> f64 {
    if i < 0 || i as usize + 1 >= corners.len() {
        return 0.0;
    }
    let (a, b) = (corners[i as usize], corners[i as usize + 1]);
    (b.1 - a.1) / (b.0 - a.0)
}

/// Akima's slope at corner `i`, straight from the definition.
fn akima_slope(corners: &[(f64, f64)], i: usize) -> f64 {
    let [m0, m1, m2, m3] = [-2, -1, 0, 1].map(|offset| chord(corners, i as isize + offset));
    let (w1, w2) = ((m3 - m2).abs(), (m1 - m0).abs());
    if w1 + w2 == 0.0 { m1.midpoint(m2) } else { (w1 * m1 + w2 * m2) / (w1 + w2) }
}

/// Akima's spline of these corners at `d`.
fn evaluate_reference(corners: &[(f64, f64)], d: f64) -> f64 {
    let i = corners.partition_point(|corner| corner.0 <= d) - 1;
    let ((a, left), (b, right)) = (corners[i], corners[i + 1]);
    let (h, x) = (b - a, d - a);
    let m = (right - left) / h;
    let [k, l] = [i, i + 1].map(|i| akima_slope(corners, i));
    left + x * k + x * x * (3.0 * m - 2.0 * k - l) / h + x * x * x * (k + l - 2.0 * m) / (h * h)
}

/// The measured corners and those that the thesis adds to them, for a range of `n` units.
fn extend_corners(measured: &[(f64, f64)], n: f64) -> Vec<(f64, f64)> {
    let (first, last) = (measured[0], measured[measured.len() - 1]);
    let before: &[f64] = match measured.len() {
        1 | 2 => &[0.0, 0.5],
        3 | 4 => &[0.0],
        _ => &[0.0, 0.25, 0.5],
    };
    let mut corners: Vec<(f64, f64)> = before.iter().map(|&f| (f * first.0, first.1)).collect();
    corners.extend(measured);
    let after = before.iter().rev().map(|&f| (n - f * (n - last.0), last.1));
    corners.extend(after);
    corners
}

/// The speed `s = a d / (d + c)` up to the peak, and a fall after it.
fn admissible_speed(d: u64, a: f64, c: f64, peak: u64) -> f64 {
    let rising = d.min(peak) as f64;
    let fall = (rising / d as f64).powi(3);
    a * rising / (rising + c) * fall
}

/// Measured speeds of an admissible device, each off by less than its interval.
fn noisy_device() -> impl Strategy<Value = Vec<Point>> {
    (
        1.0..1e4_f64,
        1.0..1e4_f64,
        10..2000_u64,
        0.0..0.2_f64,
        prop::collection::btree_map(1..4000_u64, (-0.9..0.9_f64, 0.0..1.0_f64), 1..40),
    )
        .prop_map(|(a, c, peak, noise, sizes)| {
            (sizes.into_iter())
                .map(|(d, (error, scale))| {
                    let true_s = d as f64 / admissible_speed(d, a, c, peak);
                    // Half-widths are relative to the measured time: those of times too short are wider.
                    let ci_s = noise * scale * true_s;
                    Point { d, t_s: true_s + error * ci_s * (1.0 - noise), reps: 5, ci_s }
                })
                .collect()
        })
}

proptest! {
    #[test]
    fn slopes_are_those_of_finite_differences(points in points(1..20), d in 0.5..1000.0_f64) {
        prop_assume!(list_corners(&points).iter().all(|corner| (corner - d).abs() > 1e-3));
        for &fit in Fit::VARIANTS {
            let model = fit.model(&points).unwrap();
            let (speed_slope, tolerance) = measure_slope(|d| model.speed(d), d);
            let found = model.speed_derivative(d);
            prop_assert!((found - speed_slope).abs() <= tolerance, "{fit}: {found} {speed_slope}");
            let (time_slope, tolerance) = measure_slope(|d| model.time_s(d), d);
            let found = model.time_derivative(d);
            prop_assert!((found - time_slope).abs() <= tolerance, "{fit}: {found} {time_slope}");
        }
    }

    #[test]
    fn akimas_slope_has_no_jumps(points in points(1..20)) {
        let model = AkimaFpm::from_points(points).unwrap();
        for pair in model.knots().windows(2) {
            for d in [pair[0].d, pair[1].d] {
                let step = 1e-9 * (pair[1].d - pair[0].d);
                let scale = model.knots().iter().map(|knot| knot.speed).fold(0.0, f64::max);
                let jump = model.speed_derivative(d + step) - model.speed_derivative(d - step);
                prop_assert!(jump.abs() <= 1e-5 * scale, "{d}: {jump}");
                prop_assert!((model.speed(d + step) - model.speed(d - step)).abs() <= 1e-5 * scale);
            }
        }
    }

    #[test]
    fn akima_is_the_thesis_spline_of_the_extended_points(
        measured in prop::collection::btree_map(3..15_u64, 90.0..110.0_f64, 1..9),
        stretch in 1.01..5.0_f64,
        place in 0.0..1.0_f64,
    ) {
        // No chord is as steep as the limit that keeps the speed positive.
        let points = measured.into_iter().map(|(i, speed)| once(40 * i, 40.0 * i as f64 / speed));
        let model = AkimaFpm::from_points(points.collect()).unwrap();
        let knots: Vec<(f64, f64)> =
            model.knots().iter().map(|knot| (knot.d, knot.speed)).collect();
        let n = stretch * knots[knots.len() - 1].0;
        let (corners, d) = (extend_corners(&knots, n), place * n);
        let expected = evaluate_reference(&corners, d);
        prop_assert!((model.speed(d) - expected).abs() < 1e-9 * expected, "{d} {corners:?}");
    }

    #[test]
    fn units_within_is_the_last_size_of_a_time(points in points(1..20), d in 0.1..1000.0_f64) {
        for &fit in Fit::VARIANTS {
            let model = fit.model(&points).unwrap();
            let t_s = model.time_s(d);
            let last = model.units_within(t_s);
            // Near a steep fall of the speed the last digit of a size changes its time by much.
            let steepness = (model.time_derivative(last) * last / t_s).abs();
            let tolerance = 1e-9 + 16.0 * f64::EPSILON * steepness;
            prop_assert!((model.time_s(last) / t_s - 1.0).abs() < tolerance, "{fit}: {d} {last}");
            // If the time hardly grows, d is ill-defined, but its time is not.
            prop_assert!(last >= d || model.time_s(d - (d - last) * 2.0) <= t_s * (1.0 + 1e-9));
            for i in 1..=200 {
                let later = last + (1200.0 - last).max(10.0) * f64::from(i) / 200.0;
                prop_assert!(model.time_s(later) >= t_s * (1.0 - 1e-9), "{fit}: {later}");
            }
            let monotone = matches!(fit, Fit::Cpm | Fit::PiecewiseSpeed | Fit::PiecewiseTime);
            if monotone && model.time_derivative(d) * d > 1e-3 * t_s {
                prop_assert!((last / d - 1.0).abs() < 1e-6, "{fit}: {d} {last}");
            }
        }
    }

    #[test]
    fn unrestricted_models_pass_through_their_points(points in single_points()) {
        for fit in [Fit::Akima, Fit::RawPiecewise] {
            let model = fit.model(&points).unwrap();
            for point in &points {
                let t_s = model.time_s(point.d as f64);
                prop_assert!((t_s / point.t_s - 1.0).abs() < 1e-12, "{fit}");
            }
        }
    }

    #[test]
    fn restricted_times_pass_through_a_largest_increasing_part(points in single_points()) {
        let model = PiecewiseTime::from_points(&points).unwrap();
        let mut longest = vec![1; points.len()];
        for i in 0..points.len() {
            for j in 0..i {
                if points[j].t_s < points[i].t_s {
                    longest[i] = longest[i].max(longest[j] + 1);
                }
            }
        }
        prop_assert_eq!(Some(model.knots().len()), longest.into_iter().max());
        prop_assert!(model.knots().windows(2).all(|k| k[0].d < k[1].d && k[0].t_s < k[1].t_s));
        for knot in model.knots() {
            let point = points.iter().find(|point| point.d as f64 == knot.d).unwrap();
            prop_assert!((knot.t_s / point.t_s - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn the_order_of_the_points_does_not_matter_and_none_is_lost(
        (points, shuffled) in points(1..20).prop_flat_map(|points| {
            (Just(points.clone()), Just(points).prop_shuffle())
        }),
    ) {
        for &fit in Fit::VARIANTS {
            let (a, b) = (fit.model(&points).unwrap(), fit.model(&shuffled).unwrap());
            for i in 0..100 {
                let d = f64::from(i) * 6.0;
                prop_assert_eq!(a.speed(d), b.speed(d));
            }
        }
        let (mut speed, mut akima) = (PiecewiseFpm::new(), AkimaFpm::new());
        for (i, &point) in shuffled.iter().enumerate() {
            speed.add(point).unwrap();
            akima.add(point).unwrap();
            prop_assert_eq!(speed.points(), &shuffled[..=i]);
        }
        prop_assert_eq!(&speed, &PiecewiseFpm::from_points(shuffled.clone()).unwrap());
        prop_assert_eq!(&akima, &AkimaFpm::from_points(shuffled.clone()).unwrap());
        let in_order = PiecewiseFpm::from_points(points).unwrap();
        prop_assert_eq!(speed.flags(), in_order.flags());
        prop_assert_eq!(speed.knots(), in_order.knots());
    }

    #[test]
    fn models_of_few_points_can_be_partitioned_by(
        points in prop::collection::vec(points(1..7), 1..5),
        total in 1..5000_u64,
    ) {
        for &fit in Fit::VARIANTS {
            let models: Vec<_> = points.iter().map(|points| fit.model(points).unwrap()).collect();
            for model in &models {
                for i in 0..200 {
                    let d = f64::from(i) * 3.7;
                    let (speed, t_s) = (model.speed(d), model.time_s(d));
                    prop_assert!(speed.is_finite() && speed > 0.0, "{fit}: s({d}) = {speed}");
                    prop_assert!(t_s.is_finite() && t_s >= 0.0, "{fit}: t({d}) = {t_s}");
                }
            }
            let models: Vec<&dyn SpeedModel> = models.iter().map(|model| &**model).collect();
            let partition = gpa(&models, total).unwrap();
            prop_assert_eq!(partition.units.iter().sum::<u64>(), total);
            prop_assert!(partition.times_s.iter().all(|t_s| t_s.is_finite()));
        }
    }

    #[test]
    fn extreme_points_make_finite_models(
        points in prop::collection::vec(
            (1..=u64::MAX, -99.9..99.9_f64, any::<u32>(), 0.0..1e100_f64), 1..7,
        ),
        d in (0.0..64.0_f64).prop_map(f64::exp2),
    ) {
        let points: Vec<Point> = (points.into_iter())
            .map(|(d, log_t, reps, ci_s)| Point { d, t_s: 10_f64.powf(log_t), reps, ci_s })
            .collect();
        for &fit in Fit::VARIANTS {
            let model = fit.model(&points).unwrap();
            let (speed, t_s) = (model.speed(d), model.time_s(d));
            prop_assert!(speed.is_finite() && speed > 0.0, "{fit}: {speed}");
            prop_assert!(t_s.is_finite() && t_s > 0.0, "{fit}: {t_s}");
            prop_assert!(model.speed_derivative(d).is_finite(), "{fit}");
            prop_assert!(!model.units_within(t_s).is_nan(), "{fit}");
        }
        let flags = PiecewiseFpm::from_points(points).unwrap().flags();
        prop_assert!(flags.iter().all(|flag| flag.speed.is_finite()));
    }

    #[test]
    fn noise_within_the_intervals_is_not_flagged(points in noisy_device()) {
        let model = PiecewiseFpm::from_points(points).unwrap();
        prop_assert_eq!(model.flags(), []);
    }

    #[test]
    fn a_planted_outlier_is_flagged(
        n in 8..40_usize,
        place in 0.0..1.0_f64,
        factor in 3.0..20.0_f64,
        slow in any::<bool>(),
        start_up in 0.0..200.0_f64,
        errors in prop::collection::vec(-1.0..1.0_f64, 40),
    ) {
        // The fall may start at the first two sizes, and the last one may be a cliff.
        let outlier = 3 + (place * (n - 5) as f64) as usize;
        let mut points: Vec<Point> = (0..n)
            .map(|i| {
                let d = 100 * (i as u64 + 1);
                let t_s = (d as f64 + start_up) * 1e-3;
                let ci_s = 0.02 * t_s;
                Point { d, t_s: t_s + 0.9 * errors[i] * ci_s, reps: 3, ci_s }
            })
            .collect();
        points[outlier].t_s *= if slow { factor } else { 1.0 / factor };
        let model = PiecewiseFpm::from_points(points).unwrap();
        let flags = model.flags();
        prop_assert_eq!(flags.len(), 1, "{:?}", flags);
        prop_assert_eq!(flags[0].d, 100 * (outlier as u64 + 1));
        prop_assert_eq!(flags[0].reason, if slow { Reason::TooSlow } else { Reason::TooFast });
        prop_assert!((flags[0].allowed / flags[0].speed).ln().abs() > 0.5);
        prop_assert_eq!(model.points().len(), n);
    }

    #[test]
    fn flags_name_measured_sizes_once_and_leave_no_contradiction(points in points(0..40)) {
        let model = PiecewiseFpm::from_points(points.clone()).unwrap();
        let flags = model.flags();
        prop_assert!(flags.windows(2).all(|pair| pair[0].d < pair[1].d));
        for flag in &flags {
            prop_assert!(points.iter().any(|point| point.d == flag.d));
            prop_assert_eq!(flag.speed, model.raw().speed(flag.d as f64));
        }
        let mut rest = points;
        rest.retain(|point| {
            let flag = flags.iter().find(|flag| flag.d == point.d);
            flag.is_none_or(|flag| flag.reason == Reason::OutOfShape)
        });
        let left = PiecewiseFpm::from_points(rest).unwrap().flags();
        prop_assert!(left.iter().all(|flag| flag.reason == Reason::OutOfShape), "{:?}", left);
    }

    #[test]
    fn surfaces_pass_through_their_points_and_sections_lie_in_them(
        points in prop::collection::btree_map((1..40_u64, 1..40_u64), 0.1..10.0_f64, 1..20),
        (m, n) in (0.5..60.0_f64, 0.5..60.0_f64),
    ) {
        let points: Vec<SurfacePoint> = (points.into_iter())
            .map(|((m, n), t_s)| SurfacePoint { m, n, t_s, reps: 1, ci_s: 0.0 })
            .collect();
        let surface = Surface::from_points(points.clone()).unwrap();
        for p in &points {
            prop_assert!((surface.time_s(p.m as f64, p.n as f64) / p.t_s - 1.0).abs() < 1e-9);
        }
        let speeds = points.iter().map(SurfacePoint::speed);
        let (least, most) =
            (speeds.clone().fold(f64::INFINITY, f64::min), speeds.fold(0.0, f64::max));
        let speed = surface.speed(m, n);
        prop_assert!(least * (1.0 - 1e-9) <= speed && speed <= most * (1.0 + 1e-9));
        let t_s = surface.time_s(m, n);
        let column = surface.at_width(n).unwrap();
        prop_assert!((column.time_s(m) / t_s - 1.0).abs() < 1e-9);
        prop_assert!(column.units_within(t_s) >= m * (1.0 - 1e-9));
        let mut reversed = points;
        reversed.reverse();
        prop_assert_eq!(Surface::from_points(reversed).unwrap().speed(m, n), speed);
    }

    #[test]
    fn a_bilinear_function_is_recovered_from_its_grid(
        ms in prop::collection::btree_set(1..100_u64, 2..6),
        ns in prop::collection::btree_set(1..100_u64, 2..6),
        (a, b, c) in (0.0..1.0_f64, 0.0..1.0_f64, 0.0..0.1_f64),
        (u, v) in (0.0..1.0_f64, 0.0..1.0_f64),
    ) {
        let function = [1.0, a, b, c];
        let sizes = ms.iter().flat_map(|&m| ns.iter().map(move |&n| (m, n)));
        let points = sizes.map(|(m, n)| {
            let (x, y) = (m as f64, n as f64);
            SurfacePoint { m, n, t_s: x * y / bilinear(function, x, y), reps: 1, ci_s: 0.0 }
        });
        let surface = Surface::from_points(points.collect()).unwrap();
        prop_assert!(surface.is_grid());
        let [m, n] = [(&ms, u), (&ns, v)].map(|(sizes, part)| {
            let (first, last) = (*sizes.first().unwrap() as f64, *sizes.last().unwrap() as f64);
            first + part * (last - first)
        });
        prop_assert!((surface.speed(m, n) / bilinear(function, m, n) - 1.0).abs() < 1e-9);
    }
}

fn bilinear([constant, a, b, c]: [f64; 4], m: f64, n: f64) -> f64 {
    constant + a * m + b * n + c * m * n
}

#[test]
fn many_points_are_flagged_in_a_moment() {
    // Every third of 3000 sizes is an outlier. Quadratic work would be noticed.
    let points = (1..=3000_u64).map(|i| Point {
        d: 10 * i,
        t_s: i as f64 * if i.is_multiple_of(3) { 4.0 } else { 1.0 },
        reps: 3,
        ci_s: 0.0,
    });
    let flags = PiecewiseFpm::from_points(points.collect()).unwrap().flags();
    // The last one may be a cliff.
    assert_eq!(flags.len(), 999);
    assert!(flags.iter().all(|flag| flag.d % 30 == 0));
}
