//! The numerical partitioning algorithm.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::continuous::continuous;
use super::devices::Devices;
use super::gpa::{gpa, round};
use super::hybrid::{Limits, System, solve};
use super::jacobian::{Arrowhead, Jacobian};
use super::{Partition, PartitionError};
use crate::model::SpeedModel;

/// Where the numerical partitioning algorithm starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guess {
    /// The even division, as in the thesis (equation 4.7).
    Even,
    /// In proportion to the speeds that the models show at an even share: what is best if they are
    /// nearly constant.
    #[default]
    Proportional,
}

/// Which shares the numerical partitioning algorithm rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharesOf {
    /// The root that Powell's method found.
    Numerical,
    /// The line of equal time ([`continuous()`]), because Powell's method found no root, or none as
    /// good.
    Geometrical,
}

impl fmt::Display for SharesOf {
    /// The name that it has in JSON too: `numerical` or `geometrical`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Numerical => "numerical",
            Self::Geometrical => "geometrical",
        })
    }
}

/// What the numerical partitioning algorithm found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NpaSolution {
    /// The whole division.
    pub partition: Partition,
    /// The real-valued shares that it was rounded from.
    pub shares: Vec<f64>,
    /// Where these come from.
    pub shares_of: SharesOf,
    /// Whether Powell's method found a root: a [`residual`](Self::residual) of at most 1e-12.
    pub converged: bool,
    /// Points that Powell's method tried.
    pub iterations: u32,
    /// What Powell's method left: the larger of `|D - Σ x_i| / D` and `(t_max - t_min) / t_max`.
    pub residual: f64,
}

/// Divides `total` units so that all devices finish at the same time, by solving the equations of
/// that balance numerically, [`Guess::Proportional`] being the start; see [`npa_from`].
///
/// # Errors
/// As [`npa_from`].
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{Cpm, SpeedModel};
/// use isochron_hierarchy::partition::npa;
///
/// let (slow, fast) = (Cpm { speed: 10.0 }, Cpm { speed: 30.0 });
/// let models: [&dyn SpeedModel; 2] = [&slow, &fast];
/// let solution = npa(&models, 100)?;
/// assert_eq!(solution.partition.units, [25, 75]);
/// assert!(solution.converged);
/// # Ok::<(), isochron_hierarchy::partition::PartitionError>(())
/// ```
///
/// # References
/// Clarke's thesis, section 4.2.
pub fn npa(models: &[&dyn SpeedModel], total: u64) -> Result<NpaSolution, PartitionError> {
    npa_from(models, total, Guess::default())
}

/// Divides `total` units so that all devices finish at the same time: solves
/// `D - Σ x_i = 0`, `t_i(x_i) - t_1(x_1) = 0` by [Powell's hybrid method](solve) from `guess`, and rounds
/// the root.
///
/// The speed functions need no shape, but derivatives: the more often the slope of a model jumps, the
/// more likely the method is to stall at a corner. The Jacobian is an [`Arrowhead`], so that a step
/// takes `O(p)`.
///
/// Beyond the thesis:
/// * shares are counted in `D` and times in the time that constant speeds would give, so that neither
///   kind of equation outweighs the other;
/// * a share stays between 0 and `D`, where the models are defined;
/// * each unit that rounding leaves goes to the device whose time with one unit more is smallest, as
///   in [`gpa()`], and for the same reason;
/// * where Powell's method does not converge, the geometric algorithm is asked as well, and the better
///   of the two divisions is taken. That one is exact if times grow with the problem size, however
///   many corners they have; if they do not, no division is known to be the best.
///
/// # Errors
/// [`PartitionError::NoDevices`] if there are units and no models;
/// [`PartitionError::InvalidModel`] for a model that gives no finite positive time for an even share.
///
/// # References
/// Clarke's thesis, section 4.2, equations 4.5 to 4.8.
pub fn npa_from(
    models: &[&dyn SpeedModel],
    total: u64,
    guess: Guess,
) -> Result<NpaSolution, PartitionError> {
    if total == 0 {
        return Ok(exact(Partition {
            units: vec![0; models.len()],
            times_s: vec![0.0; models.len()],
        }));
    }
    if models.is_empty() {
        return Err(PartitionError::NoDevices { total });
    }
    let even_s = even_times(models, total)?;
    if models.len() == 1 {
        return Ok(exact(round(&Devices::new(models), total, &[total as f64])));
    }
    let balance = Balance {
        models,
        total: total as f64,
        time_s: proportional_time(&even_s),
    };
    let root = solve(&balance, &balance.start(&even_s, guess), &Limits::default());
    let shares: Vec<f64> = root.x.iter().map(|y| y * balance.total).collect();
    let residual = balance.imbalance(&shares);
    let solution = |partition, shares, shares_of| NpaSolution {
        partition,
        shares,
        shares_of,
        converged: residual <= CONVERGED,
        iterations: root.iterations,
        residual,
    };
    if residual <= CONVERGED {
        let partition = round_root(models, total, &shares);
        return Ok(solution(partition, shares, SharesOf::Numerical));
    }
    let geometrical = gpa(models, total)?;
    if residual.is_finite() {
        let numerical = round_root(models, total, &shares);
        if numerical.max_time_s() < geometrical.max_time_s() {
            return Ok(solution(numerical, shares, SharesOf::Numerical));
        }
    }
    let line = continuous(models, total)?;
    Ok(solution(geometrical, line.shares, SharesOf::Geometrical))
}

/// A relative residual that counts as none. Adding the shares up and evaluating the models loses some
/// thousand rounding errors.
const CONVERGED: f64 = 1e-12;

/// The only possible division.
fn exact(partition: Partition) -> NpaSolution {
    NpaSolution {
        shares: partition.units.iter().map(|&units| units as f64).collect(),
        partition,
        shares_of: SharesOf::Numerical,
        converged: true,
        iterations: 0,
        residual: 0.0,
    }
}

/// Seconds of each device for an even share.
fn even_times(models: &[&dyn SpeedModel], total: u64) -> Result<Vec<f64>, PartitionError> {
    let d = total as f64 / models.len() as f64;
    let time = |(index, model): (usize, &&dyn SpeedModel)| {
        let time_s = model.time_s(d);
        if time_s.is_finite() && time_s > 0.0 {
            Ok(time_s)
        } else {
            Err(PartitionError::InvalidModel { index, d, time_s })
        }
    };
    models.iter().enumerate().map(time).collect()
}

/// Seconds of a division in proportion to the speeds of an even one: the harmonic mean of its times.
fn proportional_time(even_s: &[f64]) -> f64 {
    // Relative to the largest of them, the sum of the speeds cannot overflow.
    let shortest_s = even_s.iter().copied().fold(f64::INFINITY, f64::min);
    let speeds: f64 = even_s.iter().map(|time_s| shortest_s / time_s).sum();
    shortest_s * (even_s.len() as f64 / speeds)
}

/// Rounds a root, which may be off by rounding errors, or by far if Powell's method did not converge.
///
/// Shares are lowered by half a unit first: one that came out too large would else bring its device
/// a unit that it should not have, while what is rounded down too far comes back when the rest is given
/// out.
fn round_root(models: &[&dyn SpeedModel], total: u64, shares: &[f64]) -> Partition {
    // The rest is given out one by one, so there must not be much of it.
    let scale = total as f64 / shares.iter().sum::<f64>();
    let lower = |share: &f64| (share * scale - 0.5).max(0.0);
    let lowered: Vec<f64> = shares.iter().map(lower).collect();
    round(&Devices::new(models), total, &lowered)
}

/// The equations of balance for shares `y_i = x_i / D`, with times in units of `time_s`:
/// `F_1 = 1 - Σ y_i`, `F_i = t_i(D y_i) - t_1(D y_1)`.
struct Balance<'a> {
    models: &'a [&'a dyn SpeedModel],
    total: f64,
    time_s: f64,
}

impl Balance<'_> {
    fn start(&self, even_s: &[f64], guess: Guess) -> Vec<f64> {
        let share = 1.0 / even_s.len() as f64;
        match guess {
            Guess::Even => vec![share; even_s.len()],
            Guess::Proportional => even_s
                .iter()
                .map(|even_s| share * (self.time_s / even_s))
                .collect(),
        }
    }

    /// The larger of `|D - Σ x_i| / D` and `(t_max - t_min) / t_max`; infinite if a time is not finite.
    fn imbalance(&self, shares: &[f64]) -> f64 {
        let (mut min, mut max) = (f64::INFINITY, 0.0_f64);
        for (model, &share) in self.models.iter().zip(shares) {
            let time_s = model.time_s(share);
            if !time_s.is_finite() {
                return f64::INFINITY;
            }
            min = min.min(time_s);
            max = max.max(time_s);
        }
        let missing = (self.total - shares.iter().sum::<f64>()) / self.total;
        let spread = (max - min) / max;
        if missing.is_nan() || spread.is_nan() {
            return f64::INFINITY;
        }
        missing.abs().max(spread)
    }
}

impl System for Balance<'_> {
    fn residual(&self, y: &[f64]) -> Vec<f64> {
        let time =
            |(model, y): (&&dyn SpeedModel, &f64)| model.time_s(self.total * y) / self.time_s;
        let mut residual: Vec<f64> = self.models.iter().zip(y).map(time).collect();
        let reference = residual[0];
        for entry in &mut residual {
            *entry -= reference;
        }
        residual[0] = 1.0 - y.iter().sum::<f64>();
        residual
    }

    fn jacobian(&self, y: &[f64]) -> Box<dyn Jacobian> {
        let unit = self.total / self.time_s;
        let slope =
            |(model, y): (&&dyn SpeedModel, &f64)| unit * model.time_derivative(self.total * y);
        Box::new(Arrowhead {
            slopes: self.models.iter().zip(y).map(slope).collect(),
        })
    }

    fn domain(&self) -> (f64, f64) {
        (0.0, 1.0)
    }
}
