//! Properties of the partitioners.

use isochron_hierarchy::model::{Cpm, PiecewiseFpm, Point, SpeedModel};
use isochron_hierarchy::partition::{apportion, even, gpa, proportional};
use proptest::prelude::*;

/// A functional model of a few arbitrary measurements; its shape restrictions make it admissible.
fn any_fpm() -> impl Strategy<Value = PiecewiseFpm> {
    let point = (1..60_u64, 0.05..20.0_f64).prop_map(|(d, speed)| Point {
        d,
        t_s: d as f64 / speed,
        reps: 1,
        ci_s: 0.0,
    });
    prop::collection::vec(point, 1..8).prop_map(|points| PiecewiseFpm::from_points(points).unwrap())
}

fn as_dyn<M: SpeedModel>(models: &[M]) -> Vec<&dyn SpeedModel> {
    models.iter().map(|model| model as &dyn SpeedModel).collect()
}

/// The least largest time over every division of `total` units.
fn brute_force(models: &[PiecewiseFpm], total: u64) -> f64 {
    match models {
        [] => unreachable!("at least one model"),
        [last] => last.time_s(total as f64),
        [first, rest @ ..] => (0..=total)
            .map(|d| first.time_s(d as f64).max(brute_force(rest, total - d)))
            .fold(f64::INFINITY, f64::min),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn gpa_is_the_optimum_of_brute_force(
        models in prop::collection::vec(any_fpm(), 1..=4),
        total in 0..=40_u64,
    ) {
        let partition = gpa(&as_dyn(&models), total).unwrap();
        prop_assert_eq!(partition.units.iter().sum::<u64>(), total);
        let optimum = brute_force(&models, total);
        prop_assert!(partition.max_time_s() <= optimum * (1.0 + 1e-12));
    }

    #[test]
    fn gpa_parts_sum_up_and_differ_by_one_unit_at_most(
        models in prop::collection::vec(any_fpm(), 1..50),
        total in 0..=1_000_000_000_u64,
    ) {
        let partition = gpa(&as_dyn(&models), total).unwrap();
        prop_assert_eq!(partition.units.iter().sum::<u64>(), total);
        // No device could take one more unit and still finish before the last does now.
        let max_s = partition.max_time_s() * (1.0 - 1e-12);
        for (model, &units) in models.iter().zip(&partition.units) {
            prop_assert!(total == 0 || model.time_s(units as f64 + 1.0) >= max_s);
        }
    }

    #[test]
    fn gpa_of_constant_models_is_proportional(
        speeds in prop::collection::vec(1..1000_u32, 1..20),
        total in 0..=1_000_000_u64,
    ) {
        let speeds: Vec<f64> = speeds.into_iter().map(f64::from).collect();
        let models: Vec<Cpm> = speeds.iter().map(|&speed| Cpm { speed }).collect();
        let geometric = gpa(&as_dyn(&models), total).unwrap();
        prop_assert_eq!(geometric, proportional(&speeds, total).unwrap());
    }

    #[test]
    fn apportion_minimises_the_largest_ratio(
        weights in prop::collection::vec(prop_oneof![Just(0.0), 1e-6..1e6_f64], 1..40),
        total in 0..=100_000_u64,
    ) {
        let units = apportion(total, &weights);
        prop_assert_eq!(units.iter().sum::<u64>(), total);
        if weights.iter().all(|&w| w == 0.0) {
            prop_assert_eq!(units, even(weights.len(), total));
            return Ok(());
        }
        let parts = units.iter().zip(&weights).map(|(&u, &w)| (u, w));
        prop_assert!(parts.clone().all(|(u, w)| w > 0.0 || u == 0));
        let weighted: Vec<(u64, f64)> = parts.filter(|&(_, w)| w > 0.0).collect();
        let largest = weighted.iter().map(|&(u, w)| u as f64 / w).fold(0.0, f64::max);
        // Lowering the largest ratio would need room below it for one more unit elsewhere.
        for (u, w) in weighted {
            prop_assert!(total == 0 || (u + 1) as f64 / w >= largest * (1.0 - 1e-12));
        }
    }
}

#[test]
fn models_a_clock_tick_apart_do_not_stall_gpa() {
    // Times that hardly grow over a billion units: their inverse is at the limit of precision.
    let points = [(1, 1.0), (1_000_000_000, 1.0 + 1e-15)].map(|(d, t_s)| Point {
        d,
        t_s,
        reps: 1,
        ci_s: 0.0,
    });
    let flat = PiecewiseFpm::from_points(points.to_vec()).unwrap();
    let partition = gpa(&as_dyn(&[flat.clone(), flat.clone(), flat]), 1_000_000_000).unwrap();
    assert_eq!(partition.units.iter().sum::<u64>(), 1_000_000_000);
    assert!(partition.max_time_s() <= 1.0 + 1e-12);
}
