//! Claims of the papers about their algorithms, in the shape of their figures. The examples `memory_cliff`
//! and `dynamic_load_balancing` print their series.

use isochron_hierarchy::balance::{Balanced, EndReason, Strategy, imbalance};

#[path = "akima_npa.rs"]
mod akima_npa;
#[path = "../../examples/dynamic_load_balancing.rs"]
mod dynamic_load_balancing;
#[path = "layout_bounds.rs"]
mod layout_bounds;
#[path = "../../examples/memory_cliff.rs"]
mod memory_cliff;

use memory_cliff::{MACHINES, balance};

fn largest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

fn rows_of(balanced: &Balanced, machine: usize) -> Vec<u64> {
    balanced.history.iter().map(|measured| measured.units[machine]).collect()
}

/// Clarke's thesis, figure 2.4 (a, c).
#[test]
fn in_memory_constant_and_functional_models_settle_alike() {
    for strategy in [Strategy::MultiCpm, Strategy::Fpm] {
        let balanced = balance(strategy, 8_000).unwrap();
        assert!(balanced.converged && balanced.iterations == 2, "{balanced:?}");
    }
}

/// Clarke's thesis, figures 2.4 (b, d) and 2.5.
#[test]
fn across_the_edge_of_memory_constant_models_oscillate() {
    let balanced = balance(Strategy::MultiCpm, 11_000).unwrap();
    assert!(!balanced.converged);
    assert_eq!(balanced.why, EndReason::NothingNew);
    // It does not get better with time...
    let imbalances: Vec<f64> = balanced.history.iter().map(|i| i.imbalance).collect();
    assert!(imbalances.len() >= 4 && imbalances.iter().all(|&i| i > 1.0), "{imbalances:?}");
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
    assert!(balanced.converged && balanced.iterations <= 9, "{balanced:?}");
    for (&rows, (memory_mb, _)) in balanced.units.iter().zip(MACHINES).take(2) {
        let needed_mb = (rows * 11_000) as f64 * 8e-6 + 20.0;
        assert!((0.95..1.1).contains(&(needed_mb / memory_mb)), "{needed_mb} MB");
    }
    // Even the best division of the constant models is a quarter slower.
    let constant = balance(Strategy::MultiCpm, 11_000).unwrap();
    assert!(largest(&balanced.times_s) < 0.8 * largest(&constant.times_s));
}

/// Clarke's thesis, figure 4.3: the optimum by the seventh iteration, each solved in few steps.
#[test]
fn splines_and_the_numerical_algorithm_settle_within_seven_iterations() {
    let history = akima_npa::balance_by_npa(0.1).unwrap();
    let (last, before) = history.split_last().unwrap();
    assert!(last.imbalance <= 0.1 && last.next.is_none());
    assert!((5..=7).contains(&history.len()), "{} iterations", history.len());
    for iteration in before {
        assert_eq!(iteration.units.iter().sum::<u64>(), akima_npa::ROWS);
        let next = iteration.next.as_ref().unwrap();
        assert!(next.converged && next.iterations <= 40, "{next:?}");
    }
    // Only the division that the first splines promised may be slower than the even one.
    assert!(largest(&last.times_s) < 0.2 * largest(&history[0].times_s));
}

/// Clarke's thesis, section 4.3: the application's iterations balance it, at first and again.
#[test]
fn an_application_balances_itself_as_it_runs() {
    use dynamic_load_balancing::{DISTURBED, ROWS, run_sweeps};
    let sweeps = run_sweeps(DISTURBED + 8).unwrap();
    let apart: Vec<f64> = sweeps.iter().map(|sweep| imbalance(&sweep.times_s)).collect();
    assert!(sweeps.iter().all(|sweep| sweep.rows.iter().sum::<u64>() == ROWS));
    assert!(apart[0] > 3.0, "{}", apart[0]);
    assert!(apart[DISTURBED - 1] <= 0.05, "{}", apart[DISTURBED - 1]);
    assert!(apart[DISTURBED] > 1.0, "{}", apart[DISTURBED]);
    assert!(apart[DISTURBED + 7] <= 0.05, "{}", apart[DISTURBED + 7]);
}

/// Recursive cuts beat columns on average, and are never worse in the worst case.
#[test]
fn cuts_beat_columns() {
    let [columns, cuts] = layout_bounds::measure_ratios(40_000).unwrap();
    assert!(cuts.mean <= columns.mean, "{} > {}", cuts.mean, columns.mean);
    assert!(cuts.mean <= 1.031, "{}", cuts.mean);
    assert!(cuts.worst <= columns.worst, "{}", cuts.worst);
}
