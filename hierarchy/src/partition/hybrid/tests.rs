//! Powell's method on classic systems of two equations.

use super::super::jacobian::Dense;
use super::*;

/// Two equations and their derivatives.
struct TwoEquations {
    residual: fn(f64, f64) -> [f64; 2],
    jacobian: fn(f64, f64) -> [[f64; 2]; 2],
    domain: (f64, f64),
}

impl System for TwoEquations {
    fn evaluate_residual(&self, x: &[f64]) -> Vec<f64> {
        (self.residual)(x[0], x[1]).to_vec()
    }

    fn evaluate_jacobian(&self, x: &[f64]) -> Box<dyn Jacobian> {
        let rows = (self.jacobian)(x[0], x[1]);
        Box::new(Dense::from_fn(2, |row, col| rows[row][col]))
    }

    fn domain(&self) -> (f64, f64) {
        self.domain
    }
}

const EVERYWHERE: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

#[test]
fn a_circle_meets_its_diagonal() {
    let meeting = TwoEquations {
        residual: |x, y| [x * x + y * y - 1.0, x - y],
        jacobian: |x, y| [[2.0 * x, 2.0 * y], [1.0, -1.0]],
        domain: EVERYWHERE,
    };
    let root = solve(&meeting, &[3.0, 0.5], ITERATIONS);
    assert!((root.x[0] - 0.5_f64.sqrt()).abs() < 1e-12 && root.residual < 1e-12);
}

/// The classic tests of MINPACK that have two unknowns.
#[test]
fn powells_method_solves_the_classic_problems() {
    let rosenbrock = TwoEquations {
        residual: |x, y| [1.0 - x, 10.0 * (y - x * x)],
        jacobian: |x, _| [[-1.0, 0.0], [-20.0 * x, 10.0]],
        domain: EVERYWHERE,
    };
    for start in [[-1.2, 1.0], [-12.0, 10.0], [-120.0, 100.0]] {
        let root = solve(&rosenbrock, &start, ITERATIONS);
        assert_eq!(root.why, Stop::Converged, "{root:?}");
        assert!(root.x.iter().all(|x| (x - 1.0).abs() < 1e-12), "{root:?}");
    }
    // Newton's method alone diverges here. The roots are (1.098e-5, 9.106) and its mirror image.
    let badly_scaled = TwoEquations {
        residual: |x, y| [1e4 * x * y - 1.0, (-x).exp() + (-y).exp() - 1.0001],
        jacobian: |x, y| [[1e4 * y, 1e4 * x], [-(-x).exp(), -(-y).exp()]],
        domain: EVERYWHERE,
    };
    let root = solve(&badly_scaled, &[0.0, 1.0], ITERATIONS);
    let (small, large) = (root.x[0].min(root.x[1]), root.x[0].max(root.x[1]));
    assert!((small - 1.098_159e-5).abs() < 1e-10, "{root:?}");
    assert!((large - 9.106_146_7).abs() < 1e-6, "{root:?}");
}

#[test]
fn powells_method_says_when_there_is_no_root() {
    let none = TwoEquations {
        residual: |x, y| [x * x + 1.0, y - 3.0],
        jacobian: |x, _| [[2.0 * x, 0.0], [0.0, 1.0]],
        domain: EVERYWHERE,
    };
    let root = solve(&none, &[2.0, 0.0], ITERATIONS);
    assert_ne!(root.why, Stop::Converged);
    assert!((root.residual - 1.0).abs() < 1e-6 && (root.x[1] - 3.0).abs() < 1e-3, "{root:?}");
    assert_eq!(solve(&none, &[2.0, 0.0], 1).why, Stop::IterationLimit);
}

#[test]
fn powells_method_stays_in_the_domain() {
    // Newton's step from 1 leads to a negative number, where the logarithm is not defined.
    let logarithm = TwoEquations {
        residual: |x, y| [(1000.0 * x).ln(), y - x],
        jacobian: |x, _| [[1.0 / x, 0.0], [-1.0, 1.0]],
        domain: (0.0, 10.0),
    };
    let root = solve(&logarithm, &[1.0, 1.0], ITERATIONS);
    assert_eq!(root.why, Stop::Converged);
    assert!((root.x[0] - 1e-3).abs() < 1e-15, "{root:?}");
    let outside = solve(&logarithm, &[-1.0, 1.0], ITERATIONS);
    assert_eq!(outside.why, Stop::Undefined);
}
