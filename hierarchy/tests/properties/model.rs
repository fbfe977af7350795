//! Properties of the piecewise model and of the points file.

use std::collections::BTreeMap;

use isochron_hierarchy::model::{Knot, ModelFile, PiecewiseFpm, Point};
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
}
