//! The numerical partitioning algorithm.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

use super::continuous::continuous;
use super::gpa::{gpa, round_shares};
use super::hybrid::{ITERATIONS, System, solve};
use super::jacobian::{Arrowhead, Jacobian};
use super::segment_cache::SegmentCache;
use super::{Partition, PartitionError};
use crate::model::SpeedModel;

/// The start of the numerical partitioning algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, VariantArray, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = PartitionError, parse_err_fn = unknown_guess)]
pub enum Guess {
    /// The even division, as in the thesis (equation 4.7).
    Even,
    /// The division in proportion to the speeds that the models show at an even share.
    #[default]
    Proportional,
}

fn unknown_guess(name: &str) -> PartitionError {
    PartitionError::UnknownGuess(name.to_owned())
}

/// The origin of the shares that the numerical partitioning algorithm rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display)]
#[strum(serialize_all = "kebab-case")]
pub enum SharesOf {
    /// The point at which Powell's method ended: a root, or a better division than the geometric one.
    Numerical,
    /// The line of equal time ([`continuous()`]), because Powell's method found no root and no better
    /// division.
    Geometrical,
}

/// The result of the numerical partitioning algorithm.
#[derive(Debug, Clone, PartialEq)]
pub struct NpaSolution {
    /// The division into whole units.
    pub partition: Partition,
    /// The real-valued shares that it was rounded from.
    pub shares: Vec<f64>,
    /// The origin of the shares.
    pub shares_of: SharesOf,
    /// `true` if Powell's method found a root: a [`residual`](Self::residual) of at most 1e-12.
    pub converged: bool,
    /// Number of points that Powell's method tried.
    pub iterations: u32,
    /// Residual of Powell's method: the larger of `|D - Σ x_i| / D` and `(t_max - t_min) / t_max`.
    pub residual: f64,
}

/// Divides `total` units numerically so that all devices finish at the same time, from
/// [`Guess::Proportional`]; see [`npa_from`].
///
/// # Errors
/// Returns [`PartitionError::NoDevices`] if there are units and no models; [`PartitionError::InvalidModel`] for a model
/// that gives no finite positive time for an even share.
///
/// # References
/// Clarke's thesis, section 4.2.
pub fn npa(models: &[&dyn SpeedModel], total: u64) -> Result<NpaSolution, PartitionError> {
    npa_from(models, total, Guess::default())
}

/// Divides `total` units so that all devices finish at the same time: solves
/// `D - Σ x_i = 0`, `t_i(x_i) - t_1(x_1) = 0` by Powell's hybrid method from `guess`, and rounds the
/// root.
///
/// The speed functions need no particular shape, but derivatives. The more often the slope of a model
/// jumps, the more likely the method is to stall at a corner. The Jacobian is zero outside its first
/// row, first column and diagonal, so that a step costs `O(p)`.
///
/// # Deviations
/// * **start of NPA**: the thesis starts evenly (section 4.2, equation 4.7). Here [`npa`] starts in
///   proportion to the speeds at an even share, because that is the root if speeds are constant.
///   [`Guess::Even`] is the start of the thesis.
/// * **NPA without convergence**: the thesis proves convergence for smooth models (section 4.2.1).
///   Here the better of this division and GPA's is taken, because models may have corners. GPA is
///   exact if times grow with the problem size, however many corners there are. If times do not grow,
///   neither division is known to be the best.
/// * **units of NPA**: the thesis counts units and seconds (section 4.2, equation 4.5). Here both are
///   relative, because neither kind of equation may outweigh the other. Shares are relative to `D`,
///   times to the time that constant speeds would give.
/// * **domain of NPA**: the solver of the thesis does not bound the unknowns (section 4.2). Here a
///   share stays between 0 and `D`, because the models are defined only there.
/// * **NPA, integer solution**: the thesis rounds and increments the largest shares (section 4.2).
///   Here each unit left goes to the device that finishes it first, as in [`gpa()`], because that is optimal
///   if times increase. If times fall, the best choice of the whole numbers next to the shares may be
///   faster. It is then taken.
///
/// # Errors
/// Returns [`PartitionError::NoDevices`] if there are units and no models; [`PartitionError::InvalidModel`] for a model
/// that gives no finite positive time for an even share.
///
/// # References
/// Clarke's thesis, section 4.2, equations 4.5 to 4.8.
pub fn npa_from(
    models: &[&dyn SpeedModel],
    total: u64,
    guess: Guess,
) -> Result<NpaSolution, PartitionError> {
    if total == 0 {
        return Ok(NpaSolution::without_search(Partition::idle(models.len())));
    }
    if models.is_empty() {
        return Err(PartitionError::NoDevices { total });
    }
    let even_s = time_even_shares(models, total)?;
    if models.len() == 1 {
        let everything = round_shares(&SegmentCache::new(models), total, &[total as f64]);
        return Ok(NpaSolution::without_search(everything));
    }
    let balance = Balance { models, total: total as f64, time_s: proportional_time(&even_s) };
    let start = balance.first_shares(&even_s, guess);
    let root = solve(&balance, &start, ITERATIONS);
    let shares: Vec<f64> = root.x.iter().map(|y| y * balance.total).collect();
    let residual = balance.imbalance(&shares);
    let (partition, shares, shares_of) = if residual <= CONVERGED {
        let partition = round_root(models, total, &shares);
        (partition, shares, SharesOf::Numerical)
    } else {
        better_division(models, total, shares, residual.is_finite())?
    };
    Ok(NpaSolution {
        partition,
        shares,
        shares_of,
        converged: residual <= CONVERGED,
        iterations: root.iterations,
        residual,
    })
}

/// Relative residual that counts as none. Adding the shares and evaluating the models loses some
/// thousand rounding errors.
const CONVERGED: f64 = 1e-12;

impl NpaSolution {
    /// Returns the solution of the only possible division, with whole shares.
    fn without_search(partition: Partition) -> Self {
        Self {
            shares: partition.units.iter().map(|&units| units as f64).collect(),
            partition,
            shares_of: SharesOf::Numerical,
            converged: true,
            iterations: 0,
            residual: 0.0,
        }
    }
}

/// Returns the faster of the geometric division and the rounded `shares`, which are compared only if
/// they are `usable`; with its shares and their origin.
fn better_division(
    models: &[&dyn SpeedModel],
    total: u64,
    shares: Vec<f64>,
    usable: bool,
) -> Result<(Partition, Vec<f64>, SharesOf), PartitionError> {
    let geometrical = gpa(models, total)?;
    if usable {
        let numerical = round_root(models, total, &shares);
        if numerical.max_time_s() < geometrical.max_time_s() {
            return Ok((numerical, shares, SharesOf::Numerical));
        }
    }
    let line = continuous(models, total)?;
    Ok((geometrical, line.shares, SharesOf::Geometrical))
}

/// Returns the seconds of each device for an even share.
fn time_even_shares(models: &[&dyn SpeedModel], total: u64) -> Result<Vec<f64>, PartitionError> {
    let d = total as f64 / models.len() as f64;
    (models.iter().enumerate())
        .map(|(index, model)| {
            let time_s = model.time_s(d);
            if time_s.is_finite() && time_s > 0.0 {
                Ok(time_s)
            } else {
                Err(PartitionError::InvalidModel { index, d, time_s })
            }
        })
        .collect()
}

/// Returns the seconds of a division in proportion to the speeds of an even one: the harmonic mean of
/// the even division's times.
fn proportional_time(even_s: &[f64]) -> f64 {
    // Relative to the largest speed, the sum of the speeds cannot overflow.
    let shortest_s = even_s.iter().copied().fold(f64::INFINITY, f64::min);
    let speeds: f64 = even_s.iter().map(|time_s| shortest_s / time_s).sum();
    shortest_s * (even_s.len() as f64 / speeds)
}

/// Rounds a root, which may be off by rounding errors, or by far if Powell's method did not converge.
///
/// Times that increase with the size are best rounded as GPA does. Shares are lowered by half a unit first:
/// one that is too large would bring its device a unit too many, and a unit that is lost comes back when
/// the rest is given out. Where times fall, the best of the neighbouring whole numbers may be faster.
fn round_root(models: &[&dyn SpeedModel], total: u64, shares: &[f64]) -> Partition {
    // The rest is given out one by one, so it must be small.
    let scale = total as f64 / shares.iter().sum::<f64>();
    let scaled: Vec<f64> = shares.iter().map(|share| share * scale).collect();
    let lowered: Vec<f64> = scaled.iter().map(|share| (share - 0.5).max(0.0)).collect();
    let greedy = round_shares(&SegmentCache::new(models), total, &lowered);
    match round_to_neighbours(models, total, &scaled) {
        Some(near) if near.max_time_s() < greedy.max_time_s() => near,
        _ => greedy,
    }
}

/// Rounds each share down or up so that they sum to `total` and the longest time is least. Returns `None`
/// if rounding errors of the sum leave no such choice.
fn round_to_neighbours(
    models: &[&dyn SpeedModel],
    total: u64,
    shares: &[f64],
) -> Option<Partition> {
    let low: Vec<u64> = shares.iter().map(|share| share.floor() as u64).collect();
    let given = low.iter().try_fold(0_u64, |sum, &units| sum.checked_add(units))?;
    let mut raised = usize::try_from(total.checked_sub(given)?).ok()?;
    let times_s: Vec<[f64; 2]> = (models.iter().zip(&low))
        .map(|(model, &units)| [units, units.saturating_add(1)].map(|d| model.time_s(d as f64)))
        .collect();
    let mut limits: Vec<f64> = times_s.iter().flatten().copied().collect();
    limits.sort_by(f64::total_cmp);
    let first = limits.partition_point(|&limit_s| !is_feasible(&times_s, raised, limit_s));
    let limit_s = *limits.get(first)?;
    // First the devices that must be rounded up, then those that may be.
    let mut order: Vec<usize> = (0..low.len()).collect();
    order.sort_by_key(|&device| {
        let [below_s, above_s] = times_s[device];
        (below_s <= limit_s, above_s > limit_s)
    });
    let mut partition =
        Partition { units: low, times_s: times_s.iter().map(|times_s| times_s[0]).collect() };
    for device in order {
        if raised > 0 {
            partition.units[device] += 1;
            partition.times_s[device] = times_s[device][1];
            raised -= 1;
        }
    }
    Some(partition)
}

/// Returns `true` if rounding up exactly `raised` devices keeps all within `limit_s`. `times_s` are the times
/// of each device rounded down and up.
fn is_feasible(times_s: &[[f64; 2]], raised: usize, limit_s: f64) -> bool {
    let stuck = times_s.iter().any(|&[below_s, above_s]| below_s.min(above_s) > limit_s);
    let must = times_s.iter().filter(|times| times[0] > limit_s).count();
    let may = times_s.iter().filter(|times| times[1] <= limit_s).count();
    !stuck && (must..=may).contains(&raised)
}

/// The equations of balance for shares `y_i = x_i / D`, with times in units of `time_s`:
/// `F_1 = 1 - Σ y_i`, `F_i = t_i(D y_i) - t_1(D y_1)`.
struct Balance<'a> {
    models: &'a [&'a dyn SpeedModel],
    total: f64,
    time_s: f64,
}

impl Balance<'_> {
    fn first_shares(&self, even_s: &[f64], guess: Guess) -> Vec<f64> {
        let share = 1.0 / even_s.len() as f64;
        match guess {
            Guess::Even => vec![share; even_s.len()],
            Guess::Proportional => {
                even_s.iter().map(|even_s| share * (self.time_s / even_s)).collect()
            }
        }
    }

    /// Returns the larger of `|D - Σ x_i| / D` and `(t_max - t_min) / t_max`; infinity if a time is not
    /// finite.
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
    fn evaluate_residual(&self, y: &[f64]) -> Vec<f64> {
        let mut residual: Vec<f64> = (self.models.iter().zip(y))
            .map(|(model, y)| model.time_s(self.total * y) / self.time_s)
            .collect();
        let reference = residual[0];
        for entry in &mut residual {
            *entry -= reference;
        }
        residual[0] = 1.0 - y.iter().sum::<f64>();
        residual
    }

    fn evaluate_jacobian(&self, y: &[f64]) -> Box<dyn Jacobian> {
        let unit = self.total / self.time_s;
        let slopes = (self.models.iter().zip(y))
            .map(|(model, y)| unit * model.time_derivative(self.total * y))
            .collect();
        Box::new(Arrowhead { slopes })
    }

    fn domain(&self) -> (f64, f64) {
        (0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_have_one_name_in_text_and_in_json() {
        for &guess in Guess::VARIANTS {
            assert_eq!(guess.to_string().parse(), Ok(guess));
            let json = serde_json::to_string(&guess).expect("serialises");
            assert_eq!(json, format!("\"{guess}\""));
        }
        let error = "best".parse::<Guess>().expect_err("unknown");
        assert_eq!(error.to_string(), "unknown guess \"best\": expected one of even, proportional");
    }

    #[test]
    fn falling_times_are_not_rounded_to_one_device() {
        // From 10 to 20 units the time falls: 14 + 11 units take 16.4 s, 13 + 12 take 10.5 s.
        let points = [(1, 2.0), (10, 20.0), (20, 3.0)].map(|(d, t_s)| crate::model::Point {
            d,
            t_s,
            reps: 1,
            ci_s: 0.0,
        });
        let model = crate::model::AkimaFpm::from_points(points.to_vec()).expect("valid");
        let solution = npa(&[&model, &model], 25).expect("valid");
        let mut units = solution.partition.units.clone();
        units.sort_unstable();
        assert_eq!(units, [12, 13]);
        assert!((solution.partition.max_time_s() - 10.5).abs() < 0.05);
    }

    #[test]
    fn neighbours_of_the_shares_are_chosen_by_the_longest_time() {
        let models: [&dyn SpeedModel; 3] = [&crate::model::Cpm { speed: 1.0 }; 3];
        // The second and third may be rounded up; only one unit is left.
        let near = round_to_neighbours(&models, 10, &[3.0, 3.5, 3.5]).expect("possible");
        assert_eq!(near.units.iter().sum::<u64>(), 10);
        assert_eq!(near.max_time_s(), 4.0);
        assert_eq!(round_to_neighbours(&models, 9, &[4.0, 3.0, 3.0]), None);
        assert_eq!(round_to_neighbours(&models, 14, &[3.0, 3.0, 3.0]), None);
    }

    #[test]
    fn constant_speeds_are_solved_exactly() {
        let (slow, fast) = (crate::model::Cpm { speed: 10.0 }, crate::model::Cpm { speed: 30.0 });
        let models: [&dyn SpeedModel; 2] = [&slow, &fast];
        let solution = npa(&models, 100).expect("valid");
        assert_eq!(solution.partition.units, [25, 75]);
        assert!(solution.converged);
    }
}
