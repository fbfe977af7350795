//! Powell's hybrid method for systems of nonlinear equations.

use super::jacobian::Jacobian;

#[cfg(test)]
mod tests;

/// A system of `n` equations in `n` unknowns, `F(x) = 0`.
pub(super) trait System {
    /// Returns `F(x)`. An entry that is not finite marks an `x` where the system is not defined.
    fn evaluate_residual(&self, x: &[f64]) -> Vec<f64>;

    /// Returns the derivatives of `F` at `x`.
    fn evaluate_jacobian(&self, x: &[f64]) -> Box<dyn Jacobian>;

    /// Returns the open interval that every unknown stays within; unbounded by default.
    fn domain(&self) -> (f64, f64) {
        (f64::NEG_INFINITY, f64::INFINITY)
    }
}

/// The root is found when a Newton step changes no unknown by more than this fraction of it, which is of
/// the order of rounding errors.
const LEAST_STEP: f64 = 1e-14;

/// Number of points that are enough for a system that can be solved.
pub(super) const ITERATIONS: u32 = 200;

/// The point at which the method ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Root {
    /// The point of least `|F|` that was found.
    pub x: Vec<f64>,
    /// Number of points tried.
    pub iterations: u32,
    /// The Euclidean length of `F` there.
    #[cfg_attr(not(test), allow(dead_code, reason = "NPA judges times instead"))]
    pub residual: f64,
    /// The reason for the end.
    #[cfg_attr(not(test), allow(dead_code, reason = "NPA judges times instead"))]
    pub why: Stop,
}

/// The reason why the method ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// `F` is zero, or the last Newton step was negligible.
    Converged,
    /// No step from `x` reduces the residual any more. `x` is a local minimum of the residual, a corner
    /// of functions that are not smooth, or a root to within rounding errors.
    Stalled,
    /// The permitted number of iterations was used up.
    IterationLimit,
    /// The system is not defined at the start.
    Undefined,
}

/// Solves `F(x) = 0` from `start` by Powell's hybrid method, trying at most `max_iterations` points.
///
/// The trust region is a scaled ball in which the linear model `F + J p` has proved good. If the ball
/// contains Newton's step, that step is taken. Otherwise the step follows the steepest descent of
/// `|F + J p|²` to its deepest point, and bends towards Newton's point there (the *dogleg*). A step
/// that reduces `|F|²` by at least half of the prediction lets the ball grow, and one by less than a
/// tenth shrinks it. A step that does not reduce `|F|` is taken back. The method thus converges like
/// Newton's near a root and still makes progress where Newton's would diverge.
///
/// # Deviations
/// * **Jacobian of NPA**: HYBRJ corrects the factors of the last Jacobian by rank-one updates until that
///   fails (MINPACK). Here the Jacobian is evaluated at every new point, because it is analytic and, with
///   its structure, as cheap as `F`. A step costs `O(p)`, not `O(p²)` as in the thesis (section 4.2.1).
/// * **step of Powell's method**: HYBRJ lets the unknowns go anywhere (MINPACK). Here a step stays
///   inside an open interval, because models are not defined outside it. It takes each unknown at most
///   nine tenths of the way to the end.
///
/// # Panics
/// If `start` is empty or a method of `system` returns a vector of another length.
///
/// # References
/// M. J. D. Powell, "A Hybrid Method for Nonlinear Equations", in *Numerical Methods for Nonlinear
/// Algebraic Equations*, 1970; J. J. Moré, B. S. Garbow, K. E. Hillstrom, *User Guide for MINPACK-1*,
/// 1980 (HYBRJ). Clarke's thesis, section 4.2.
pub(super) fn solve(system: &dyn System, start: &[f64], max_iterations: u32) -> Root {
    assert!(!start.is_empty(), "a system has at least one unknown");
    let residual = system.evaluate_residual(start);
    let mut iterate = Iterate {
        system,
        x: start.to_vec(),
        norm: norm(&residual),
        residual,
        scale: vec![0.0; start.len()],
        radius: f64::NAN,
    };
    let mut iterations = 0;
    let why = if iterate.norm.is_finite() {
        iterate.advance_to_root(max_iterations, &mut iterations)
    } else {
        Stop::Undefined
    };
    Root { x: iterate.x, iterations, residual: iterate.norm, why }
}

/// The current point and its trust region.
struct Iterate<'a> {
    system: &'a dyn System,
    x: Vec<f64>,
    /// `F(x)`.
    residual: Vec<f64>,
    /// Length of `F(x)`.
    norm: f64,
    /// Weight of each unknown in the trust region: the largest length that its column of the Jacobian
    /// has had.
    scale: Vec<f64>,
    /// Radius of the trust region.
    radius: f64,
}

/// The result of trying one step.
enum TriedStep {
    Accepted,
    /// Newton's step, and a negligible one.
    Final,
    Rejected,
}

impl Iterate<'_> {
    fn advance_to_root(&mut self, max_iterations: u32, iterations: &mut u32) -> Stop {
        loop {
            if self.residual.iter().all(|&f| f == 0.0) {
                return Stop::Converged;
            }
            let jacobian = self.system.evaluate_jacobian(&self.x);
            self.update_scale(jacobian.as_ref());
            let directions = Directions::from_point(self, jacobian.as_ref());
            loop {
                if *iterations == max_iterations {
                    return Stop::IterationLimit;
                }
                *iterations += 1;
                match self.try_step(jacobian.as_ref(), &directions) {
                    TriedStep::Final => return Stop::Converged,
                    TriedStep::Accepted => break,
                    TriedStep::Rejected if self.is_stuck() => return Stop::Stalled,
                    TriedStep::Rejected => {}
                }
            }
        }
    }

    fn update_scale(&mut self, jacobian: &dyn Jacobian) {
        for (scale, norm) in self.scale.iter_mut().zip(jacobian.column_norms()) {
            // A zero weight would let an unknown without influence go anywhere.
            let usable = norm > 0.0 && norm.is_finite();
            *scale = scale.max(if usable { norm } else { 1.0 });
        }
        if self.radius.is_nan() {
            let length = scaled_norm(&self.scale, &self.x);
            self.radius = 100.0 * if length > 0.0 { length } else { 1.0 };
        }
    }

    /// Returns `true` if the trust region is too small to change `x`, or its radius is not a number.
    fn is_stuck(&self) -> bool {
        let length = scaled_norm(&self.scale, &self.x);
        !(self.radius > f64::EPSILON * length && self.radius > f64::MIN_POSITIVE)
    }

    /// Tries the step that the trust region allows, and adapts the region to the step's success.
    fn try_step(&mut self, jacobian: &dyn Jacobian, to: &Directions) -> TriedStep {
        let dogleg = to.step_within(self.radius);
        let (x, step) = self.step_inside_domain(&dogleg);
        let residual = self.system.evaluate_residual(&x);
        let (length, norm) = (scaled_norm(&self.scale, &step), norm(&residual));
        let gain = self.gain_ratio(jacobian, &step, norm);
        self.adapt_radius(gain, length);
        let is_last = to.newton.as_ref() == Some(&dogleg)
            && (step.iter().zip(&self.x)).all(|(step, x)| step.abs() <= LEAST_STEP * x.abs());
        if norm < self.norm && gain >= 1e-4 {
            (self.x, self.residual, self.norm) = (x, residual, norm);
        } else if !is_last {
            return TriedStep::Rejected;
        }
        if is_last { TriedStep::Final } else { TriedStep::Accepted }
    }

    /// Returns `x` after a step, and the step as far as the domain allows it.
    fn step_inside_domain(&self, step: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (low, high) = self.system.domain();
        (self.x.iter().zip(step))
            .map(|(&x, &step)| {
                let to = x + step.clamp(0.9 * (low - x), 0.9 * (high - x));
                (to, to - x)
            })
            .unzip()
    }

    /// Returns the reduction of `|F|²` relative to the one that the linear model predicted; negative if
    /// the model predicted none.
    fn gain_ratio(&self, jacobian: &dyn Jacobian, step: &[f64], norm: f64) -> f64 {
        let mut model = jacobian.times(step);
        for (entry, f) in model.iter_mut().zip(&self.residual) {
            *entry += f;
        }
        let predicted = self.reduction_to(self::norm(&model));
        if predicted > 0.0 && norm.is_finite() { self.reduction_to(norm) / predicted } else { -1.0 }
    }

    /// Returns the reduction of `|F|²` if its length becomes `norm`.
    fn reduction_to(&self, norm: f64) -> f64 {
        (self.norm - norm) * (self.norm + norm)
    }

    fn adapt_radius(&mut self, gain: f64, length: f64) {
        if gain < 0.1 {
            // The new radius is below the step just tried, however large the region was.
            self.radius = 0.5 * self.radius.min(length);
        } else if gain >= 0.5 {
            self.radius = self.radius.max(2.0 * length);
        }
    }
}

/// The two directions that a step combines.
struct Directions {
    /// Newton's step, unless the Jacobian is singular.
    newton: Option<Vec<f64>>,
    newton_length: f64,
    /// The step to the minimum of the linear model in the direction of its steepest descent.
    cauchy: Vec<f64>,
    cauchy_length: f64,
    /// Weights of the scalar product in which lengths are measured.
    scale: Vec<f64>,
}

impl Directions {
    fn from_point(iterate: &Iterate<'_>, jacobian: &dyn Jacobian) -> Self {
        let scale = iterate.scale.clone();
        let negative: Vec<f64> = iterate.residual.iter().map(|f| -f).collect();
        let newton = jacobian.solve(&negative);
        let mut cauchy = jacobian.transposed_times(&negative);
        for (entry, scale) in cauchy.iter_mut().zip(&scale) {
            *entry /= scale * scale;
        }
        let slope = scaled_norm(&scale, &cauchy);
        let curvature = norm(&jacobian.times(&cauchy));
        let factor = (slope / curvature).powi(2);
        for entry in &mut cauchy {
            *entry *= if factor.is_finite() { factor } else { 0.0 };
        }
        Self {
            newton_length: newton.as_ref().map_or(f64::NAN, |newton| scaled_norm(&scale, newton)),
            newton,
            cauchy_length: scaled_norm(&scale, &cauchy),
            cauchy,
            scale,
        }
    }

    /// Returns the dogleg step of at most `radius`.
    fn step_within(&self, radius: f64) -> Vec<f64> {
        match &self.newton {
            Some(newton) if self.newton_length <= radius => newton.clone(),
            Some(newton) if self.cauchy_length < radius => self.bend_towards(newton, radius),
            _ => {
                let part = (radius / self.cauchy_length).min(1.0);
                self.cauchy.iter().map(|entry| entry * part).collect()
            }
        }
    }

    /// Returns the point at distance `radius` on the way from Cauchy's point to Newton's.
    fn bend_towards(&self, newton: &[f64], radius: f64) -> Vec<f64> {
        let leg: Vec<f64> = (newton.iter().zip(&self.cauchy)).map(|(n, c)| n - c).collect();
        // |cauchy + part · leg|² = radius², a quadratic equation with one root in (0, 1).
        let a = scaled_norm(&self.scale, &leg).powi(2);
        let half_b: f64 =
            (0..leg.len()).map(|i| self.scale[i] * self.scale[i] * leg[i] * self.cauchy[i]).sum();
        let c = (self.cauchy_length - radius) * (self.cauchy_length + radius);
        let root = (half_b * half_b - a * c).max(0.0).sqrt();
        let part = if half_b > 0.0 { -c / (half_b + root) } else { (root - half_b) / a };
        (self.cauchy.iter().zip(&leg)).map(|(c, leg)| c + part.clamp(0.0, 1.0) * leg).collect()
    }
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|entry| entry * entry).sum::<f64>().sqrt()
}

fn scaled_norm(scale: &[f64], v: &[f64]) -> f64 {
    (scale.iter().zip(v)).map(|(scale, entry)| (scale * entry).powi(2)).sum::<f64>().sqrt()
}
