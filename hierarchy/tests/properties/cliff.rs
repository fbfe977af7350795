//! Speed functions that fall off a cliff in mid-range, where a device runs out of memory: constant
//! models never settle there (Clarke's thesis, section 2.3.1), functional ones do.

use isochron_hierarchy::balance::{
    BalanceConfig, BalanceStart, BalanceStep, Balanced, Dpa, EndReason, Strategy,
};
use isochron_hierarchy::times::Sample;

const TOTAL: u64 = 100_000;

/// Seconds that device `part` takes; the first one is fast up to 60 000 units and pages beyond, over
/// a transition of 4000 units.
fn time_s(part: usize, units: u64) -> f64 {
    let d = units as f64;
    let speed = match part {
        0 => {
            let paging = ((d - 60_000.0) / 4000.0).clamp(0.0, 1.0);
            4000.0 + (200.0 - 4000.0) * paging
        }
        // Less than half as fast, without a limit.
        1 => 1500.0,
        _ => 400.0,
    };
    d / speed
}

fn balance(strategy: Strategy, start: BalanceStart, n: usize) -> Balanced {
    let config = BalanceConfig { strategy, start, epsilon: 0.1, ..BalanceConfig::default() };
    let mut dpa = Dpa::new(config, n, TOTAL);
    if start == BalanceStart::FirstPoints {
        for part in 0..n {
            let point = isochron_hierarchy::model::Point {
                d: 100,
                t_s: time_s(part, 100),
                reps: 3,
                ci_s: 0.0,
            };
            dpa.seed(part, point).unwrap();
        }
        dpa.start_from_points().unwrap();
    }
    loop {
        match dpa.step() {
            BalanceStep::Done(balanced) => return balanced,
            BalanceStep::Measure(units) => {
                let times: Vec<Sample> = units
                    .iter()
                    .enumerate()
                    .map(|(part, &d)| Sample::measured(d, time_s(part, d), 3, 0.0))
                    .collect();
                dpa.observe(&times).unwrap();
            }
        }
    }
}

#[test]
fn on_a_cliff_multiple_constant_models_oscillate_and_functional_models_converge() {
    for n in [2, 4] {
        let cpm = balance(Strategy::MultiCpm, BalanceStart::Even, n);
        assert!(!cpm.converged && cpm.imbalance > 0.1, "{cpm:?}");
        assert!(cpm.iterations <= 10);
        let fast: Vec<u64> = cpm.history.iter().map(|iteration| iteration.units[0]).collect();
        let swings = fast.windows(2).map(|pair| pair[1].abs_diff(pair[0]));
        // Back and forth across the cliff, in one step or in several.
        assert!(swings.max() > Some(TOTAL / 4), "{fast:?}");
        assert!(fast.windows(3).any(|f| (f[0] < f[1]) != (f[1] < f[2])), "{fast:?}");

        for start in [BalanceStart::Even, BalanceStart::FirstPoints] {
            let fpm = balance(Strategy::Fpm, start, n);
            assert!(fpm.converged && fpm.imbalance <= 0.1, "{fpm:?}");
            assert_eq!(fpm.why, EndReason::Balanced);
            assert!(fpm.iterations <= 10);
            let slowest_s = fpm.times_s.iter().copied().fold(0.0, f64::max);
            let cpm_s = cpm.times_s.iter().copied().fold(0.0, f64::max);
            assert!(slowest_s < cpm_s);
        }
    }
}

#[test]
fn a_single_constant_model_runs_over_the_cliff() {
    let single = balance(Strategy::SingleCpm, BalanceStart::Even, 2);
    assert_eq!((single.why, single.iterations), (EndReason::Predicted, 1));
    let real: Vec<f64> = single.units.iter().enumerate().map(|(i, &d)| time_s(i, d)).collect();
    assert!(real[0] > 5.0 * single.times_s[0], "predicted {:?}, real {real:?}", single.times_s);
}
