//! Properties of the piecewise model and of the points file.

use std::collections::BTreeMap;

use isochron_hierarchy::model::{Knot, ModelError, ModelFile, PiecewiseFpm, Point, SpeedModel};
use proptest::prelude::*;

fn any_point() -> impl Strategy<Value = Point> {
    (1..500_u64, -6.0..3.0_f64, 0..9_u32, 0.0..1.0_f64).prop_map(|(d, log_t, reps, ci_s)| Point {
        d,
        t_s: 10_f64.powf(log_t),
        reps,
        ci_s,
    })
}

/// Rising and concave up to the peak, falling after it, time strictly increasing throughout.
fn assert_admissible(knots: &[Knot]) {
    let Some(peak) = (0..knots.len()).max_by(|&a, &b| knots[a].speed.total_cmp(&knots[b].speed))
    else {
        return;
    };
    for (i, pair) in knots.windows(2).enumerate() {
        let [a, b] = [pair[0], pair[1]];
        assert!(a.d < b.d && a.time_s() < b.time_s(), "{a:?} {b:?}");
        assert!(if i < peak { a.speed <= b.speed } else { a.speed >= b.speed }, "{knots:?}");
        if i > 0 && i < peak {
            let before = slope_between(knots[i - 1], a);
            assert!(slope_between(a, b) <= before * (1.0 + 1e-9), "{knots:?}");
        }
    }
}

fn slope_between(a: Knot, b: Knot) -> f64 {
    (b.speed - a.speed) / (b.d - a.d)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_shape_holds_after_every_addition_and_no_point_is_lost(
        points in prop::collection::vec(any_point(), 1..30),
    ) {
        let mut model = PiecewiseFpm::new();
        for (i, &point) in points.iter().enumerate() {
            model.add(point).unwrap();
            prop_assert_eq!(model.points(), &points[..=i]);
            assert_admissible(model.knots());
            prop_assert!(!model.knots().is_empty());
        }
        prop_assert_eq!(PiecewiseFpm::from_points(points).unwrap(), model);
    }

    #[test]
    fn units_within_inverts_the_time(
        points in prop::collection::vec(any_point(), 1..20),
        d in 0.1..1000.0_f64,
    ) {
        let model = PiecewiseFpm::from_points(points).unwrap();
        let t_s = model.time_s(d);
        let back = model.units_within(t_s);
        // If the time hardly grows, d is ill-defined, but its time is not.
        prop_assert!((model.time_s(back) / t_s - 1.0).abs() < 1e-9, "{} {}", d, back);
    }

    #[test]
    fn raw_interpolation_passes_through_single_measurements(
        points in prop::collection::btree_map(1..500_u64, 1e-3..1e3_f64, 1..20),
    ) {
        let points: Vec<Point> =
            points.into_iter().map(|(d, t_s)| Point { d, t_s, reps: 1, ci_s: 0.0 }).collect();
        let model = PiecewiseFpm::from_points(points.clone()).unwrap();
        for point in points {
            let raw_s = model.raw().time_s(point.d as f64);
            prop_assert!((raw_s / point.t_s - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn a_points_file_reads_back_as_written(
        headers in prop::collection::btree_map("[a-z ]{0,3}[a-eg-z]", "[!-~]([ -~]{0,10}[!-~])?", 0..5),
        points in prop::collection::vec(any_point(), 0..20),
    ) {
        let headers: BTreeMap<String, String> =
            headers.into_iter().map(|(key, value)| (key.trim().to_owned(), value)).collect();
        let mut file = ModelFile { headers, points };
        file.points.sort_by_key(|point| point.d);
        let text = file.to_string();
        prop_assert!(text.starts_with("# format: isochron-points 1\n"));
        prop_assert_eq!(ModelFile::parse(&text).unwrap(), file);
    }

    #[test]
    fn any_text_is_read_or_refused_by_line(text in "([0-9.# a-z:]{0,12}\n){0,8}") {
        if let Err(error) = ModelFile::parse(&text) {
            let ModelError::Syntax { line, .. } = error else { panic!("{error}") };
            prop_assert!((1..=text.lines().count()).contains(&line));
        }
    }
}
