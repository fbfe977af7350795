//! The dynamic partitioning algorithm.

use serde::{Deserialize, Serialize};

use super::{
    BalanceConfig, BalanceError, BalanceStep, EndReason, MeasuredDivision, Observation, Strategy,
    imbalance, merge_alike,
};
use crate::model::{Cpm, Fit, PiecewiseFpm, Point, SpeedModel};
use crate::partition::{Partition, Partitioner, apportion, even, proportional};

/// Dynamic partitioning algorithm: divides `total` units over `n` parts whose speeds it learns from
/// one measured division to the next.
///
/// Each iteration measures a division, ends if its times are balanced, adds the measured points to
/// the parts' models and computes the next division from them: by the configured [`Partitioner`] with
/// [`Strategy::Fpm`], by [`proportional()`] to the last measured speeds with the CPM strategies.
///
/// Beyond the thesis:
/// * it also ends when the next division was measured before (with [`Strategy::MultiCpm`] that is
///   a cycle, which would go on for ever), when iterations run out, or when another one cannot pay
///   for itself: `steps · (t_max now - noise - t_max predicted) < reps · runs · t_max predicted`, where
///   `runs` is how many kernel runs a repetition of the last measurement cost (more than 1 for a
///   device whose updates belong together, or that has much to do before the first), and the noise is the standard error of the slowest part's time, four times that once measuring has
///   taken a twentieth of the run, and nothing after a first division that was no more than a guess:
///   what a division only seems to lose, another one cannot win back;
/// * with [`Partitioner::Hpopta`], whose optimum need not be balanced, it ends when the models promise
///   nothing better than what was measured, whatever the times' balance;
/// * a division that took too long to be measured ([`Observation::at_least`]) is never the result as long
///   as there is another; its floor enters the model of the part and moves work away from it;
/// * a division is measured a second time before it is believed if a part's time contradicts the others of
///   that part ([`PiecewiseFpm::flags`]), as long as measuring has taken little of the run;
/// * it returns the best measured division, since convergence need not be monotone; or, when it
///   ends early, the next one unmeasured, where the models promise that it is faster, by more than the
///   standard error of the slowest part's time, and know its speeds well ([`PiecewiseFpm::supports`]). A measured time is one sample: within two standard
///   errors of it the model, which has seen the other divisions too, has the last word. Otherwise the
///   division with the luckiest sample would win;
/// * a part that was never measured (because its share was rounded to nothing) is assumed to be as
///   fast as its prior says relative to the measured parts, or else as fast as their mean, so that
///   it is tried. While a part is idle, equal times of the others count as balanced only if
///   the models promise nothing better.
///
/// # Two uses
/// In *dynamic partitioning* the caller runs a kernel to answer each request, and the application starts
/// with the result. In *dynamic load balancing* the application's own iterations answer: it runs the next
/// one on the units requested and hands over its times, or runs it on the result once there is one. A
/// balancing ends for good; when the application later finds its times apart, another one starts from
/// what the devices show then ([`with_prior`](Self::with_prior)), as the example
/// `dynamic_load_balancing` does.
///
/// # Example
/// ```
/// use isochron_hierarchy::balance::{BalanceConfig, Dpa, Observation, BalanceStep};
///
/// let mut dpa = Dpa::new(BalanceConfig::default(), 2, 1000);
/// let balanced = loop {
///     match dpa.step() {
///         BalanceStep::Done(balanced) => break balanced,
///         BalanceStep::Measure(units) => {
///             // The second device is four times as fast.
///             let time =
///                 |(&d, speed): (&u64, f64)| Observation::measured(d as f64 / speed, 3, 0.0);
///             let times: Vec<_> = units.iter().zip([100.0, 400.0]).map(time).collect();
///             dpa.observe(&units, &times)?;
///         }
///     }
/// };
/// assert_eq!(balanced.units, [200, 800]);
/// assert!(balanced.converged);
/// # Ok::<(), isochron_hierarchy::balance::BalanceError>(())
/// ```
///
/// # References
/// Clarke's thesis, sections 2.3.1 (the CPM strategies) and 4.3.
#[derive(Debug, Clone)]
pub struct Dpa {
    config: BalanceConfig,
    total: u64,
    models: Vec<PiecewiseFpm>,
    /// Last measured speed of each part.
    speeds: Vec<Option<f64>>,
    /// Relative speeds assumed of parts that were never measured; all positive.
    prior: Vec<f64>,
    /// Whether the first division was more than a guess.
    informed: bool,
    /// Whether the division to measure next was measured before, and is in doubt.
    again: bool,
    /// The division to measure next.
    wanted: Vec<u64>,
    /// Every division asked for so far, which the measured ones may differ from by rounding.
    asked: Vec<Vec<u64>>,
    history: Vec<MeasuredDivision>,
    result: Option<Balanced>,
}

/// The share of the run that measuring may take before it has to be sure of what it improves.
const MEASURING_SHARE: f64 = 0.05;

/// Where a [`Dpa`] ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Balanced {
    /// Units of each part.
    pub units: Vec<u64>,
    /// Seconds of each part: measured, or predicted where the division was not measured, or 0 where
    /// nothing is known.
    pub times_s: Vec<f64>,
    /// The [`imbalance`] of these times.
    pub imbalance: f64,
    /// Number of measured divisions.
    pub iterations: u32,
    /// Whether the returned division was measured to be what was sought, a balanced one or, with
    /// [`Partitioner::Hpopta`], as fast a one as the models promise (or there was no work).
    pub converged: bool,
    /// Why balancing ended.
    pub why: EndReason,
    /// Index in `history` of the returned division; `None` if it was not measured.
    pub measured: Option<usize>,
    /// Every measured division, in order.
    pub history: Vec<MeasuredDivision>,
    /// Relative speeds that a later balancing of the same parts may start from: each part's speed at
    /// its units where it is known, and what was assumed elsewhere.
    pub prior: Vec<f64>,
}

impl Dpa {
    /// A balancing of `total` units over `n` parts that starts with the even division.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    pub fn new(config: BalanceConfig, n: usize, total: u64) -> Self {
        assert!(n > 0, "work can only be balanced over at least one part");
        let mut dpa = Self {
            config,
            total,
            models: vec![PiecewiseFpm::new(); n],
            speeds: vec![None; n],
            prior: vec![1.0; n],
            informed: false,
            again: false,
            wanted: even(n, total),
            asked: Vec::new(),
            history: Vec::new(),
            result: None,
        };
        if total == 0 {
            dpa.end_unmeasured(EndReason::NoWork, dpa.wanted.clone(), vec![0.0; n]);
        } else if config.strategy == Strategy::Homogeneous {
            dpa.end_unmeasured(EndReason::NotMeasured, dpa.wanted.clone(), vec![0.0; n]);
        }
        dpa
    }

    /// Starts in proportion to `prior`, relative speeds of the parts, instead of evenly. A speed that
    /// is not positive and finite is unknown, and replaced by the mean of the others.
    ///
    /// # Panics
    /// If there is not one speed for each part.
    #[must_use]
    pub fn with_prior(mut self, prior: &[f64]) -> Self {
        assert_eq!(
            prior.len(),
            self.models.len(),
            "one prior speed for each part"
        );
        let known = |speed: f64| speed.is_finite() && speed > 0.0;
        let mean = mean(prior.iter().copied().filter(|&speed| known(speed))).unwrap_or(1.0);
        self.prior = prior
            .iter()
            .map(|&s| if known(s) { s } else { mean })
            .collect();
        self.informed = prior.iter().all(|&speed| known(speed));
        self.wanted = apportion(self.total, &self.prior);
        if let Some(balanced) = &mut self.result {
            balanced.prior.clone_from(&self.prior);
        }
        self
    }

    /// Adds a point that was measured before, outside this balancing, to the model of `part`.
    ///
    /// # Errors
    /// [`BalanceError::InvalidTime`] for a point without a finite positive speed.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn seed(&mut self, part: usize, point: Point) -> Result<(), BalanceError> {
        self.models[part]
            .add(point)
            .map_err(|source| BalanceError::InvalidTime {
                index: part,
                source,
            })?;
        self.speeds[part] = Some(point.speed());
        Ok(())
    }

    /// Seeds every part with a point of `d` units, or none if one is invalid. Parts whose times differ by no more than their
    /// errors count as equally fast.
    pub(super) fn seed_all(&mut self, d: u64, times: &[Observation]) -> Result<(), BalanceError> {
        let units = vec![d; self.models.len()];
        self.check_times(&units, times)?;
        self.add_points(&units, &merge_alike(times))
    }

    /// Starts with the division that the seeded points suggest; without any, nothing changes.
    ///
    /// # Errors
    /// [`BalanceError::Partition`] if the models do not admit a division.
    pub fn start_from_points(&mut self) -> Result<(), BalanceError> {
        if self.speeds.iter().any(Option::is_some) {
            self.wanted = self.next_partition()?.units;
            self.informed = true;
        }
        Ok(())
    }

    /// What to measure next, units of each part, or the result. Asking twice changes nothing.
    #[must_use]
    pub fn step(&self) -> BalanceStep<Vec<u64>, Balanced> {
        match &self.result {
            Some(balanced) => BalanceStep::Done(balanced.clone()),
            None => BalanceStep::Measure(self.wanted.clone()),
        }
    }

    /// Takes the times measured for `units`, which may differ from the units wanted (whole blocks)
    /// but not in their sum. The time of a part without units is ignored.
    ///
    /// # Errors
    /// [`BalanceError::NotMeasuring`], [`BalanceError::WrongLength`], [`BalanceError::WrongTotal`] or
    /// [`BalanceError::InvalidTime`]: nothing has changed, and the request stands.
    /// [`BalanceError::Partition`] if the models do not admit a division.
    pub fn observe(&mut self, units: &[u64], times: &[Observation]) -> Result<(), BalanceError> {
        if self.result.is_some() {
            return Err(BalanceError::NotMeasuring);
        }
        self.check_times(units, times)?;
        let got = units.iter().fold(0, |sum: u64, &d| sum.saturating_add(d));
        if got != self.total {
            return Err(BalanceError::WrongTotal {
                wanted: self.total,
                got,
            });
        }
        self.add_points(units, times)?;
        let times_s = busy(units, times, |time| time.t_s);
        let imbalance = imbalance(&times_s);
        self.history.push(MeasuredDivision {
            units: units.to_vec(),
            times_s,
            errors_s: busy(units, times, Observation::standard_error_s),
            measuring_s: measuring_s(times),
            runs: runs_per_repetition(times),
            cut_off: units
                .iter()
                .zip(times)
                .any(|(&d, time)| d > 0 && time.is_floor),
            imbalance,
        });
        self.asked.push(self.wanted.clone());
        self.decide()
    }

    fn check_times(&self, units: &[u64], times: &[Observation]) -> Result<(), BalanceError> {
        let wanted = self.models.len();
        for got in [units.len(), times.len()] {
            if got != wanted {
                return Err(BalanceError::WrongLength { wanted, got });
            }
        }
        busy_points(units, times).try_for_each(|(index, point)| {
            point
                .check()
                .map_err(|source| BalanceError::InvalidTime { index, source })
        })
    }

    fn add_points(&mut self, units: &[u64], times: &[Observation]) -> Result<(), BalanceError> {
        busy_points(units, times).try_for_each(|(part, point)| self.seed(part, point))
    }

    /// Ends, or sets the division to measure next.
    fn decide(&mut self) -> Result<(), BalanceError> {
        let Some(now) = self.history.last() else {
            return Ok(());
        };
        self.again = self.is_doubtful(now);
        if self.again {
            self.wanted.clone_from(&now.units);
            return Ok(());
        }
        let next = self.next_partition()?;
        let next_s = next.max_time_s();
        let why = if self.is_solution(now, next_s) {
            EndReason::Balanced
        } else if self.config.strategy == Strategy::SingleCpm {
            self.end_unmeasured(EndReason::Predicted, next.units, next.times_s);
            return Ok(());
        } else if self.is_known(&next.units) {
            EndReason::NothingNew
        } else if self.history.len() >= self.config.max_iterations as usize {
            EndReason::IterationLimit
        } else if !self.pays_off(next_s) {
            EndReason::NotWorthIt
        } else {
            self.wanted = next.units;
            return Ok(());
        };
        let early = matches!(why, EndReason::NotWorthIt | EndReason::IterationLimit);
        let best_s = self.best_s(1.0);
        let trusted = best_s.is_infinite() || self.is_supported(&next.units);
        if early && next_s < best_s && trusted {
            self.end_unmeasured(why, next.units, next.times_s);
        } else {
            self.end(why);
        }
        Ok(())
    }

    /// Whether a measured division is what is sought, if the models promise `next_s` of the next one.
    ///
    /// Equal times are, unless a part is idle that might have helped. Where the optimum need not be
    /// balanced, nothing better promised is what counts, and the times may differ.
    fn is_solution(&self, now: &MeasuredDivision, next_s: f64) -> bool {
        let epsilon = self.config.epsilon;
        let balanced = now.imbalance <= epsilon;
        let promised = now.max_time_s() * (1.0 - epsilon) <= next_s;
        !now.cut_off
            && match self.seeks_balance() {
                true => balanced && (promised || !now.units.contains(&0)),
                false => promised,
            }
    }

    /// Whether the division sought is the one of equal times, and not one that may be faster.
    fn seeks_balance(&self) -> bool {
        self.config.strategy != Strategy::Fpm || self.config.partitioner != Partitioner::Hpopta
    }

    /// Whether a division is worth measuring once more: a time contradicts what its part's other times
    /// allow, and was measured once.
    fn is_doubtful(&self, now: &MeasuredDivision) -> bool {
        let once = self
            .history
            .iter()
            .filter(|it| it.units == now.units)
            .count()
            == 1;
        let affordable = self.history.len() < self.config.max_iterations as usize
            && (self.config.steps == 0 || self.is_cheap_so_far());
        let flagged = |(model, &d): (&PiecewiseFpm, &u64)| {
            d > 0 && model.flags().iter().any(|flag| flag.d == d)
        };
        let fpm = self.config.strategy == Strategy::Fpm;
        fpm && once && affordable && self.models.iter().zip(&now.units).any(flagged)
    }

    /// Whether measuring has taken less than its share of the run.
    fn is_cheap_so_far(&self) -> bool {
        let spent_s: f64 = self.history.iter().map(|it| it.measuring_s).sum();
        spent_s <= MEASURING_SHARE * self.config.steps as f64 * self.best_s(0.0)
    }

    /// Whether the division wanted is one to be measured again.
    pub(super) fn is_again(&self) -> bool {
        self.again
    }

    /// Seconds of the best measured division, less `noise` standard errors of its slowest part.
    fn best_s(&self, noise: f64) -> f64 {
        self.history
            .iter()
            .map(|iteration| self.estimate_s(iteration) - noise * iteration.noise_s())
            .fold(f64::INFINITY, f64::min)
    }

    /// Seconds that a measured division really takes, as far as is known: of each part what its model
    /// says, as long as that is within two standard errors of what was measured; infinity where
    /// measuring was given up.
    fn estimate_s(&self, iteration: &MeasuredDivision) -> f64 {
        if iteration.cut_off {
            return f64::INFINITY;
        }
        let measured = iteration.times_s.iter().zip(&iteration.errors_s);
        self.predicted_times(&iteration.units)
            .iter()
            .zip(measured)
            .map(|(&model_s, (&t_s, &error_s))| match self.config.strategy {
                Strategy::Fpm => model_s.clamp(t_s - 2.0 * error_s, t_s + 2.0 * error_s),
                _ => t_s,
            })
            .fold(0.0, f64::max)
    }

    /// Whether the models know the speeds of this division well enough to trust it unmeasured.
    fn is_supported(&self, units: &[u64]) -> bool {
        let known = |(model, &d): (&PiecewiseFpm, &u64)| d == 0 || model.supports(d as f64);
        self.config.strategy == Strategy::Fpm && self.models.iter().zip(units).all(known)
    }

    /// How many standard errors of a loss count as noise: none after a first division that was no
    /// more than a guess; about a confidence interval once measuring has had its share of the run.
    fn noise_factor(&self) -> f64 {
        match self.history.len() {
            0 | 1 if !self.informed => 0.0,
            _ if self.is_cheap_so_far() => 1.0,
            _ => 4.0,
        }
    }

    /// Whether measuring a division predicted to take `next_s` can save more than it costs.
    fn pays_off(&self, next_s: f64) -> bool {
        let best_s = self.best_s(self.noise_factor());
        let saving_s = self.config.steps as f64 * (best_s - next_s);
        let runs = self.history.last().map_or(1.0, |it| it.runs);
        self.config.steps == 0 || saving_s >= f64::from(self.config.reps) * runs * next_s
    }

    fn next_partition(&self) -> Result<Partition, BalanceError> {
        if self.config.strategy != Strategy::Fpm {
            return Ok(proportional(&self.speeds_or_assumed(), self.total)?);
        }
        let functions = self.functions();
        let functions: Vec<&dyn SpeedModel> = functions.iter().map(AsRef::as_ref).collect();
        Ok(self.config.partitioner.divide(&functions, self.total)?)
    }

    /// Each part's speed as a function: the fit of its points, or without any the speed that is assumed.
    #[allow(
        clippy::expect_used,
        reason = "the invariant is explained where it is used"
    )]
    fn functions(&self) -> Vec<Box<dyn SpeedModel + '_>> {
        let function = |(fpm, speed): (_, f64)| -> Box<dyn SpeedModel + '_> {
            let fpm: &PiecewiseFpm = fpm;
            match self.config.fit {
                _ if self.config.strategy != Strategy::Fpm || fpm.is_empty() => {
                    Box::new(Cpm { speed })
                }
                Fit::PiecewiseSpeed => Box::new(fpm),
                // The points were checked when they were added, and there are some.
                fit => fit.model(fpm.points()).expect("valid points have a model"),
            }
        };
        let speeds = self.speeds_or_assumed();
        self.models.iter().zip(speeds).map(function).collect()
    }

    /// Each part's last measured speed; of a part without one, its prior in the same measure.
    fn speeds_or_assumed(&self) -> Vec<f64> {
        let (mut speed, mut prior) = (0.0, 0.0);
        for (measured, p) in self.speeds.iter().zip(&self.prior) {
            if let Some(s) = measured {
                speed += s;
                prior += p;
            }
        }
        let scale = if prior > 0.0 { speed / prior } else { 1.0 };
        self.speeds
            .iter()
            .zip(&self.prior)
            .map(|(s, p)| s.unwrap_or(p * scale))
            .collect()
    }

    /// Seconds that `units` take by what is known of the parts.
    pub(super) fn predicted_times(&self, units: &[u64]) -> Vec<f64> {
        self.functions()
            .iter()
            .zip(units)
            .map(|(function, &d)| function.time_s(d as f64))
            .collect()
    }

    /// Whether these units were asked for or measured before.
    pub(super) fn is_known(&self, units: &[u64]) -> bool {
        self.asked.iter().any(|asked| asked == units)
            || self
                .history
                .iter()
                .any(|iteration| iteration.units == units)
    }

    /// Ends with the best measured division.
    ///
    /// That is the one whose last part finishes first; but a balanced one is not given up for one
    /// that is faster by no more than the tolerance.
    pub(super) fn end(&mut self, why: EndReason) {
        let epsilon = self.config.epsilon;
        let last = self.history.len() - 1;
        let max_s: Vec<f64> = self.history.iter().map(|it| self.estimate_s(it)).collect();
        let fastest = (0..=last)
            .min_by(|&a, &b| max_s[a].total_cmp(&max_s[b]))
            .filter(|&fastest| max_s[fastest].is_finite())
            .unwrap_or(last);
        let keep_last =
            why == EndReason::Balanced && max_s[last] <= max_s[fastest] * (1.0 + epsilon);
        let best = if keep_last { last } else { fastest };
        let MeasuredDivision {
            units,
            times_s,
            imbalance,
            cut_off,
            ..
        } = self.history[best].clone();
        let sought = imbalance <= epsilon || (keep_last && !self.seeks_balance());
        self.result = Some(Balanced {
            prior: self.prior_at(&units),
            units,
            times_s,
            imbalance,
            iterations: self.history.len() as u32,
            converged: sought && !cut_off,
            why,
            measured: Some(best),
            history: self.history.clone(),
        });
    }

    /// Ends with a division that was not measured.
    fn end_unmeasured(&mut self, why: EndReason, units: Vec<u64>, times_s: Vec<f64>) {
        self.result = Some(Balanced {
            prior: self.prior_at(&units),
            units,
            imbalance: imbalance(&times_s),
            times_s,
            iterations: self.history.len() as u32,
            converged: why == EndReason::NoWork,
            why,
            measured: None,
            history: self.history.clone(),
        });
    }

    fn prior_at(&self, units: &[u64]) -> Vec<f64> {
        self.functions()
            .iter()
            .zip(units)
            .map(|(function, &d)| function.speed(d as f64))
            .collect()
    }
}

/// The parts that have units, each with the point it measured.
fn busy_points(units: &[u64], times: &[Observation]) -> impl Iterator<Item = (usize, Point)> {
    let point = |(part, (&d, time)): (usize, (&u64, &Observation))| {
        (
            part,
            Point {
                d,
                t_s: time.t_s,
                // A time of unknown repetitions is one; none is what makes a floor.
                reps: if time.is_floor { 0 } else { time.reps.max(1) },
                ci_s: time.ci_s,
            },
        )
    };
    units
        .iter()
        .zip(times)
        .enumerate()
        .filter(|(_, (d, _))| **d > 0)
        .map(point)
}

/// A number of each part that has units, 0 of the others.
fn busy(units: &[u64], times: &[Observation], of: impl Fn(&Observation) -> f64) -> Vec<f64> {
    let number = |(&d, time): (&u64, &Observation)| if d == 0 { 0.0 } else { of(time) };
    units.iter().zip(times).map(number).collect()
}

/// Seconds that measuring together took: of the part that took longest.
fn measuring_s(times: &[Observation]) -> f64 {
    let times = times.iter().map(Observation::measuring_s);
    times.fold(0.0, f64::max)
}

/// Kernel runs, of the part that took longest, that a repetition cost.
fn runs_per_repetition(times: &[Observation]) -> f64 {
    let repetitions_s = times.iter().map(Observation::repetitions_s);
    match repetitions_s.fold(0.0, f64::max) {
        t_s if t_s > 0.0 => measuring_s(times) / t_s,
        _ => 1.0,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    (n > 0.0).then_some(sum / n)
}
