//! Powell's hybrid method for systems of nonlinear equations.

use super::jacobian::Jacobian;

/// A system of `n` equations in `n` unknowns, `F(x) = 0`.
pub trait System {
    /// `F(x)`. What is not finite marks an `x` where the system is not defined.
    fn residual(&self, x: &[f64]) -> Vec<f64>;

    /// The derivatives of `F` at `x`.
    fn jacobian(&self, x: &[f64]) -> Box<dyn Jacobian>;

    /// The open interval that every unknown stays within; everything by default.
    fn domain(&self) -> (f64, f64) {
        (f64::NEG_INFINITY, f64::INFINITY)
    }
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The root is found as soon as no `|F_i|` is larger...
    pub residual: f64,
    /// ... or a Newton step changes no unknown by more than this part of itself.
    pub step: f64,
    /// Points tried at most.
    pub iterations: u32,
}

impl Default for Limits {
    /// No residual at all, or steps of the order of rounding errors; 200 iterations.
    fn default() -> Self {
        Self {
            residual: 0.0,
            step: 1e-14,
            iterations: 200,
        }
    }
}

/// Where the method ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Root {
    /// The point of least `|F|` that was found.
    pub x: Vec<f64>,
    /// The Euclidean length of `F` there.
    pub residual: f64,
    /// Points tried.
    pub iterations: u32,
    /// Why it ended.
    pub why: Stop,
}

/// Why the method ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The limits on residual or step were met.
    Converged,
    /// No step from `x` reduces the residual any more: a local minimum of it, a corner of functions
    /// that are not smooth, or a root as exactly as rounding errors allow.
    Stalled,
    /// The permitted number of iterations was used up.
    IterationLimit,
    /// The system is not defined at the start.
    Undefined,
}

/// Solves `F(x) = 0` from `start` by Powell's hybrid method.
///
/// Within a trust region, a scaled ball in which the linear model `F + J p` has proved good, the step
/// is Newton's if the ball contains it; else it goes along the steepest descent of `|F + J p|²` and
/// bends towards Newton's point where the descent is deepest (the *dogleg*). A step that reduces `|F|`
/// as the model said lets the ball grow, one that does not is taken back and lets it shrink. Thus it
/// converges as Newton's method near a root, and still makes progress where that would run away.
///
/// Two deviations from MINPACK's HYBRJ:
/// * the Jacobian is evaluated at every new point, where HYBRJ corrects the old factors by rank-one
///   updates until that fails. It is analytic and, with structure, as cheap as `F`.
/// * unknowns stay in an open domain: a step takes each at most nine tenths of the way to its end.
///
/// # Panics
/// If `start` is empty or a method of `system` returns a vector of another length.
///
/// # Example
/// The unit circle meets the diagonal:
/// ```
/// use isochron_hierarchy::partition::hybrid::{Limits, Stop, System, solve};
/// use isochron_hierarchy::partition::jacobian::{Dense, Jacobian};
///
/// struct Meeting;
///
/// impl System for Meeting {
///     fn residual(&self, x: &[f64]) -> Vec<f64> {
///         vec![x[0] * x[0] + x[1] * x[1] - 1.0, x[0] - x[1]]
///     }
///
///     fn jacobian(&self, x: &[f64]) -> Box<dyn Jacobian> {
///         let rows = [[2.0 * x[0], 2.0 * x[1]], [1.0, -1.0]];
///         Box::new(Dense::from_fn(2, |row, col| rows[row][col]))
///     }
/// }
///
/// let root = solve(&Meeting, &[3.0, 0.5], &Limits::default());
/// assert!((root.x[0] - 0.5_f64.sqrt()).abs() < 1e-12 && root.residual < 1e-12);
/// ```
///
/// # References
/// M. J. D. Powell, "A Hybrid Method for Nonlinear Equations", in *Numerical Methods for Nonlinear
/// Algebraic Equations*, 1970; J. J. Moré, B. S. Garbow, K. E. Hillstrom, *User Guide for MINPACK-1*,
/// 1980 (HYBRJ). Clarke's thesis, section 4.2.
#[must_use]
pub fn solve(system: &dyn System, start: &[f64], limits: &Limits) -> Root {
    assert!(!start.is_empty(), "a system has at least one unknown");
    let residual = system.residual(start);
    let mut state = State {
        system,
        x: start.to_vec(),
        norm: norm(&residual),
        residual,
        scale: vec![0.0; start.len()],
        radius: f64::NAN,
    };
    let mut iterations = 0;
    let why = if state.norm.is_finite() {
        state.run(limits, &mut iterations)
    } else {
        Stop::Undefined
    };
    Root {
        x: state.x,
        residual: state.norm,
        iterations,
        why,
    }
}

struct State<'a> {
    system: &'a dyn System,
    x: Vec<f64>,
    /// `F(x)` and its length.
    residual: Vec<f64>,
    norm: f64,
    /// What one unit of each unknown counts for in the trust region: the largest length that its
    /// column of the Jacobian has had.
    scale: Vec<f64>,
    /// Of the trust region.
    radius: f64,
}

/// How a trial of one step ended.
enum Trial {
    Accepted,
    /// Newton's step, and no larger than the limit.
    Final,
    Rejected,
}

impl State<'_> {
    fn run(&mut self, limits: &Limits, iterations: &mut u32) -> Stop {
        loop {
            if self.residual.iter().all(|f| f.abs() <= limits.residual) {
                return Stop::Converged;
            }
            let jacobian = self.system.jacobian(&self.x);
            self.rescale(jacobian.as_ref());
            let directions = Directions::at(self, jacobian.as_ref());
            loop {
                if *iterations == limits.iterations {
                    return Stop::IterationLimit;
                }
                *iterations += 1;
                match self.attempt(jacobian.as_ref(), &directions, limits.step) {
                    Trial::Final => return Stop::Converged,
                    Trial::Accepted => break,
                    Trial::Rejected if self.is_stuck() => return Stop::Stalled,
                    Trial::Rejected => {}
                }
            }
        }
    }

    fn rescale(&mut self, jacobian: &dyn Jacobian) {
        for (scale, norm) in self.scale.iter_mut().zip(jacobian.column_norms()) {
            // A column without influence must not make its unknown free to go anywhere.
            let norm = if norm > 0.0 && norm.is_finite() {
                norm
            } else {
                1.0
            };
            *scale = scale.max(norm);
        }
        if self.radius.is_nan() {
            let length = scaled_norm(&self.scale, &self.x);
            self.radius = 100.0 * if length > 0.0 { length } else { 1.0 };
        }
    }

    /// Whether the trust region has become too small to change `x`, or lost its size.
    fn is_stuck(&self) -> bool {
        let length = scaled_norm(&self.scale, &self.x);
        !(self.radius > f64::EPSILON * length && self.radius > f64::MIN_POSITIVE)
    }

    /// Tries the step that the trust region allows, and adapts the region to what it is good for.
    fn attempt(&mut self, jacobian: &dyn Jacobian, to: &Directions, limit: f64) -> Trial {
        let dogleg = to.step(self.radius);
        let (x, step) = self.inside(&dogleg);
        let residual = self.system.residual(&x);
        let (length, norm) = (scaled_norm(&self.scale, &step), norm(&residual));
        let gain = self.gain(jacobian, &step, norm);
        self.adapt_radius(gain, length);
        let newton = to.newton.as_ref() == Some(&dogleg);
        let tiny = |(step, x): (&f64, &f64)| step.abs() <= limit * x.abs();
        let last = newton && step.iter().zip(&self.x).all(tiny);
        if norm < self.norm && gain >= 1e-4 {
            (self.x, self.residual, self.norm) = (x, residual, norm);
        } else if !last {
            return Trial::Rejected;
        }
        if last { Trial::Final } else { Trial::Accepted }
    }

    /// `x` after a step, and the step as far as the domain allows it.
    fn inside(&self, step: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (low, high) = self.system.domain();
        let go = |(&x, &step): (&f64, &f64)| {
            let to = x + step.clamp(0.9 * (low - x), 0.9 * (high - x));
            (to, to - x)
        };
        self.x.iter().zip(step).map(go).unzip()
    }

    /// The reduction of `|F|²` in proportion to the one that the linear model promised; negative if
    /// there was none to be had.
    fn gain(&self, jacobian: &dyn Jacobian, step: &[f64], norm: f64) -> f64 {
        let mut model = jacobian.times(step);
        for (entry, f) in model.iter_mut().zip(&self.residual) {
            *entry += f;
        }
        let reduction = |to: f64| (self.norm - to) * (self.norm + to);
        let promised = reduction(self::norm(&model));
        if promised > 0.0 && norm.is_finite() {
            reduction(norm) / promised
        } else {
            -1.0
        }
    }

    fn adapt_radius(&mut self, gain: f64, length: f64) {
        if gain < 0.1 {
            // Below the step just tried, however large the region was.
            self.radius = 0.5 * self.radius.min(length);
        } else if gain >= 0.5 {
            self.radius = self.radius.max(2.0 * length);
        }
    }
}

/// The two directions that a step is made of.
struct Directions {
    /// Newton's step, unless the Jacobian is singular.
    newton: Option<Vec<f64>>,
    newton_length: f64,
    /// To the minimum of the linear model in the direction of its steepest descent.
    cauchy: Vec<f64>,
    cauchy_length: f64,
    /// For the scalar product in which lengths are measured.
    scale: Vec<f64>,
}

impl Directions {
    fn at(state: &State<'_>, jacobian: &dyn Jacobian) -> Self {
        let scale = state.scale.clone();
        let negative: Vec<f64> = state.residual.iter().map(|f| -f).collect();
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
            newton_length: newton
                .as_ref()
                .map_or(f64::NAN, |newton| scaled_norm(&scale, newton)),
            newton,
            cauchy_length: scaled_norm(&scale, &cauchy),
            cauchy,
            scale,
        }
    }

    /// The dogleg step of at most `radius`.
    fn step(&self, radius: f64) -> Vec<f64> {
        match &self.newton {
            Some(newton) if self.newton_length <= radius => newton.clone(),
            Some(newton) if self.cauchy_length < radius => self.bend(newton, radius),
            _ => {
                let part = (radius / self.cauchy_length).min(1.0);
                self.cauchy.iter().map(|entry| entry * part).collect()
            }
        }
    }

    /// The point at distance `radius` on the way from Cauchy's point to Newton's.
    fn bend(&self, newton: &[f64], radius: f64) -> Vec<f64> {
        let leg: Vec<f64> = newton
            .iter()
            .zip(&self.cauchy)
            .map(|(n, c)| n - c)
            .collect();
        // |cauchy + part · leg|² = radius², a quadratic equation with one root in (0, 1).
        let a = scaled_norm(&self.scale, &leg).powi(2);
        let half_b: f64 = (0..leg.len())
            .map(|i| self.scale[i] * self.scale[i] * leg[i] * self.cauchy[i])
            .sum();
        let c = (self.cauchy_length - radius) * (self.cauchy_length + radius);
        let root = (half_b * half_b - a * c).max(0.0).sqrt();
        let part = if half_b > 0.0 {
            -c / (half_b + root)
        } else {
            (root - half_b) / a
        };
        let part = part.clamp(0.0, 1.0);
        self.cauchy
            .iter()
            .zip(&leg)
            .map(|(c, leg)| c + part * leg)
            .collect()
    }
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|entry| entry * entry).sum::<f64>().sqrt()
}

fn scaled_norm(scale: &[f64], v: &[f64]) -> f64 {
    let product = |(scale, entry): (&f64, &f64)| (scale * entry).powi(2);
    scale.iter().zip(v).map(product).sum::<f64>().sqrt()
}
