//! What the papers claim of their algorithms, in the shape of their figures. The series themselves are
//! printed by the examples of the same names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on panics"
)]

use isochron_hierarchy::balance::{Balanced, Outcome, Strategy};

#[path = "../examples/memory_cliff.rs"]
mod memory_cliff;

use memory_cliff::{MACHINES, balance};

fn rows_of(balanced: &Balanced, machine: usize) -> Vec<u64> {
    let rows = |iteration: &isochron_hierarchy::balance::Iteration| iteration.units[machine];
    balanced.history.iter().map(rows).collect()
}

/// Clarke's thesis, figure 2.4 (a, c).
#[test]
fn in_memory_constant_and_functional_models_settle_alike() {
    for strategy in [Strategy::MultiCpm, Strategy::Fpm] {
        let balanced = balance(strategy, 8_000).unwrap();
        assert!(
            balanced.converged && balanced.iterations == 2,
            "{balanced:?}"
        );
    }
}

/// Clarke's thesis, figures 2.4 (b, d) and 2.5.
#[test]
fn across_the_edge_of_memory_constant_models_oscillate() {
    let balanced = balance(Strategy::MultiCpm, 11_000).unwrap();
    assert!(!balanced.converged);
    assert_eq!(balanced.why, Outcome::NothingNew);
    // It does not get better with time...
    let imbalances: Vec<f64> = balanced.history.iter().map(|i| i.imbalance).collect();
    assert!(
        imbalances.len() >= 4 && imbalances.iter().all(|&i| i > 1.0),
        "{imbalances:?}"
    );
    assert!(imbalances.last() > imbalances.first(), "{imbalances:?}");
    // ... for the two small machines get few rows, then too many, and again.
    for machine in [0, 1] {
        let rows = rows_of(&balanced, machine);
        for three in rows.windows(3) {
            assert_ne!(three[0] < three[1], three[1] < three[2], "{rows:?}");
        }
        let swing = rows.windows(2).map(|two| two[1].abs_diff(two[0])).max();
        assert!(swing > Some(11_000 / 4 / 2), "{rows:?}");
    }
}

/// Clarke's thesis, figures 2.6 and 2.7: within nine iterations, the memories nearly full.
#[test]
fn across_the_edge_of_memory_functional_models_settle() {
    let balanced = balance(Strategy::Fpm, 11_000).unwrap();
    assert!(
        balanced.converged && balanced.iterations <= 9,
        "{balanced:?}"
    );
    for (&rows, (memory_mb, _)) in balanced.units.iter().zip(MACHINES).take(2) {
        let needed_mb = (rows * 11_000) as f64 * 8e-6 + 20.0;
        assert!(
            (0.95..1.1).contains(&(needed_mb / memory_mb)),
            "{needed_mb} MB"
        );
    }
    // Even the best division that constant models happened upon is a quarter slower.
    let constant = balance(Strategy::MultiCpm, 11_000).unwrap();
    let slowest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    assert!(slowest(&balanced.times_s) < 0.8 * slowest(&constant.times_s));
}
