//! The dynamic partitioning algorithm.
//!
//! # Deviations
//!
//! * **end of balancing**: the thesis ends when the imbalance is at most ε (4.3). Here it also ends when
//!   a further measurement cannot win back its cost beyond the noise, because no division can win back a
//!   loss that is only noise. It also ends when iterations run out, and when the next division was
//!   measured before, since [`Strategy::MultiCpm`] may cycle for ever.
//! * **result of balancing**: the thesis takes the last division (4.3). Here the result is the best
//!   measured one, because convergence need not be monotone. The models judge it within two standard
//!   errors of the measured times, because the luckiest sample would win otherwise. An early end takes
//!   the next division unmeasured if nearby measurements back it.
//! * **measuring again**: the thesis adds every measured time to the model (4.3). Here a division is
//!   measured again if a part's time contradicts the other times of that part, because that time may be
//!   a disturbance. It is measured at most twice, and again only while measuring has taken little of the
//!   run.
//! * **divisions that take too long**: the thesis measures every division to its end (4.3). Here a part
//!   may report a lower bound, because a division can take too long to be measured. Such a division is
//!   the result only if there is no other.
//! * **parts without units**: the thesis does not consider them (4.3). Here they are assumed to be as
//!   fast as their prior says, because they would never be tried otherwise. The prior is scaled to the
//!   measured parts. Without a prior a part is as fast as their mean.
//! * **balance with HPOPTA**: the thesis ends at equal times (4.3). Here balancing by
//!   [`Partitioner::Hpopta`] ends when the models promise nothing better, because that optimum need not
//!   be balanced.

use serde::{Deserialize, Serialize};

use super::{
    BalanceConfig, BalanceError, BalanceStep, EndReason, MeasuredDivision, Observation, Strategy,
    imbalance, shrink_alike,
};
use crate::model::{Cpm, Fit, PiecewiseFpm, Point, SpeedModel};
use crate::partition::{Partition, Partitioner, apportion, even, proportional};

/// Dynamic partitioning algorithm: divides `total` units over `n` parts whose speeds it learns from
/// one measured division to the next.
///
/// Each iteration measures a division, ends if its times are balanced, adds the measured points to the
/// parts' models and computes the next division from them. [`Strategy::Fpm`] divides by the configured
/// [`Partitioner`], the CPM strategies by [`proportional()`] to the last measured speeds. The
/// [crate's example](crate#example) runs one.
///
/// # End
/// Balancing also ends when the next division was measured before, when iterations run out, and when a
/// further measurement cannot pay for itself:
/// `steps · (t_max now - noise - t_max predicted) < reps · runs · t_max predicted`.
///
/// Here `runs` is the number of kernel runs that a repetition of the last measurement cost. It is above
/// 1 for a device with updates that belong together, or with much work before the first update. The
/// noise is the standard error of the slowest part's time. Once measuring has taken a twentieth of the
/// run, it is four times that. After a first division that was only a guess it is 0.
///
/// # Result
/// The result is the measured division of least time. Within two standard errors of a measured time the
/// model decides, which has seen the other divisions too. An early end takes the next division
/// unmeasured if the models promise a gain above the standard error of the slowest part's time, and
/// know the speeds well ([`PiecewiseFpm::supports`]).
///
/// A division with a part that took too long ([`Observation::at_least`]) is the result only if there is
/// no other. The floor enters the model of the part and moves work away from it.
///
/// # Two uses
/// In *dynamic partitioning* the caller runs a kernel to answer each request, and the application
/// starts with the result. In *dynamic load balancing* the application's own iterations answer; once
/// there is a result, it runs on that. When it later finds its times apart, it starts another balancing
/// from the speeds at that time ([`with_prior`](Self::with_prior)), as the example
/// `dynamic_load_balancing` does.
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
    /// `true` if the first division was more than a guess.
    informed: bool,
    /// `true` if the division to measure next was measured before, and is in doubt.
    pub(super) again: bool,
    /// The division to measure next.
    wanted: Vec<u64>,
    /// Every division asked for so far. The measured ones may differ by rounding.
    asked: Vec<Vec<u64>>,
    history: Vec<MeasuredDivision>,
    result: Option<Balanced>,
}

/// The share of the run that measuring may take before gains must exceed the noise clearly.
const MEASURING_SHARE: f64 = 0.05;

/// The result of a [`Dpa`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Balanced {
    /// Units of each part.
    pub units: Vec<u64>,
    /// Seconds of each part: measured, or predicted if the division was not measured, or 0 if nothing
    /// is known.
    pub times_s: Vec<f64>,
    /// The [`imbalance`] of these times.
    pub imbalance: f64,
    /// Number of measured divisions.
    pub iterations: u32,
    /// `true` if the returned division was measured and found balanced, or if there was no work. With
    /// [`Partitioner::Hpopta`] it is `true` if the division was as fast as the models promise.
    pub converged: bool,
    /// The reason why balancing ended.
    pub why: EndReason,
    /// Index in `history` of the returned division; `None` if it was not measured.
    pub measured: Option<usize>,
    /// Every measured division, in order.
    pub history: Vec<MeasuredDivision>,
    /// Relative speeds that a later balancing of the same parts may start from: each part's speed at
    /// its units if that is known, and the assumed speed otherwise.
    pub prior: Vec<f64>,
}

impl Dpa {
    /// Starts a balancing of `total` units over `n` parts with the even division.
    ///
    /// # Panics
    /// If `n` is 0.
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

    /// Starts in proportion to `prior`, relative speeds of the parts, instead of evenly.
    ///
    /// A speed that is not positive and finite is unknown, and replaced by the mean of the others.
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
        let known: Vec<f64> = prior.iter().copied().filter(|&s| is_speed(s)).collect();
        self.informed = known.len() == prior.len();
        let mean = match known.len() {
            0 => 1.0,
            n => known.iter().sum::<f64>() / n as f64,
        };
        self.prior = (prior.iter())
            .map(|&s| if is_speed(s) { s } else { mean })
            .collect();
        self.wanted = apportion(self.total, &self.prior);
        if let Some(balanced) = &mut self.result {
            balanced.prior.clone_from(&self.prior);
        }
        self
    }

    /// Adds a point that was measured outside this balancing to the model of a part.
    ///
    /// # Errors
    /// [`BalanceError::InvalidTime`] for a point without a finite positive speed.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn seed(&mut self, index: usize, point: Point) -> Result<(), BalanceError> {
        let added = self.models[index].add(point);
        added.map_err(|source| BalanceError::InvalidTime { index, source })?;
        self.speeds[index] = Some(point.speed());
        Ok(())
    }

    /// Seeds every part with a point of `d` units, or none if one is invalid. Parts with times that
    /// differ by no more than their errors count as equally fast.
    pub(super) fn seed_all(&mut self, d: u64, times: &[Observation]) -> Result<(), BalanceError> {
        let units = vec![d; self.models.len()];
        self.check_times(&units, times)?;
        self.add_points(&units, &shrink_alike(times))
    }

    /// Starts with the division that the seeded points suggest. Without points nothing changes.
    ///
    /// # Errors
    /// [`BalanceError::Partition`] if the models do not admit a division.
    pub fn start_from_points(&mut self) -> Result<(), BalanceError> {
        if self.speeds.iter().any(Option::is_some) {
            self.wanted = self.compute_next()?.units;
            self.informed = true;
        }
        Ok(())
    }

    /// Returns the units of each part to measure next, or the result. Asking twice changes nothing.
    pub fn step(&self) -> BalanceStep<Vec<u64>, Balanced> {
        match &self.result {
            Some(balanced) => BalanceStep::Done(balanced.clone()),
            None => BalanceStep::Measure(self.wanted.clone()),
        }
    }

    /// Takes the times measured for `units`.
    ///
    /// The units may differ from those requested (whole blocks), but not in their sum. The time of a
    /// part without units is ignored.
    ///
    /// # Errors
    /// [`BalanceError::NotMeasuring`], [`BalanceError::WrongLength`], [`BalanceError::WrongTotal`] or
    /// [`BalanceError::InvalidTime`]; then nothing has changed, and the request stands.
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
        let times_s = map_busy(units, times, |time| time.t_s);
        let imbalance = imbalance(&times_s);
        self.history.push(MeasuredDivision {
            units: units.to_vec(),
            times_s,
            errors_s: map_busy(units, times, |time| time.error_s),
            measuring_s: longest_measuring_s(times),
            runs: count_runs(times),
            cut_off: (units.iter().zip(times)).any(|(&d, time)| d > 0 && time.is_floor),
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
        list_points(units, times).try_for_each(|(index, point)| {
            let checked = point.check();
            checked.map_err(|source| BalanceError::InvalidTime { index, source })
        })
    }

    fn add_points(&mut self, units: &[u64], times: &[Observation]) -> Result<(), BalanceError> {
        list_points(units, times).try_for_each(|(part, point)| self.seed(part, point))
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
        let next = self.compute_next()?;
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
        self.end_early(why, next);
        Ok(())
    }

    /// Ends with the next division if that is promising enough unmeasured, else with the best measured
    /// one.
    fn end_early(&mut self, why: EndReason, next: Partition) {
        let early = matches!(why, EndReason::NotWorthIt | EndReason::IterationLimit);
        let best_s = self.best_s(1.0);
        let trusted = best_s.is_infinite() || self.is_supported(&next.units);
        if early && next.max_time_s() < best_s && trusted {
            self.end_unmeasured(why, next.units, next.times_s);
        } else {
            self.end(why);
        }
    }

    /// Returns `true` if a measured division is a solution, given that the models promise `next_s` for
    /// the next one. Equal times are one, unless an idle part might have helped. If the optimum need not
    /// be balanced, a division is a solution when the models promise nothing better.
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

    /// Returns `true` if a division of equal times is sought, `false` if one that may be faster.
    fn seeks_balance(&self) -> bool {
        self.config.strategy != Strategy::Fpm || self.config.partitioner != Partitioner::Hpopta
    }

    /// Returns `true` if a division is worth measuring a second time: it was measured once, and one of
    /// its times contradicts the part's other times.
    fn is_doubtful(&self, now: &MeasuredDivision) -> bool {
        let same = self.history.iter().filter(|it| it.units == now.units);
        let once = same.count() == 1;
        let affordable = self.history.len() < self.config.max_iterations as usize
            && (self.config.steps == 0 || self.is_cheap_so_far());
        let mut parts = self.models.iter().zip(&now.units).filter(|(_, d)| **d > 0);
        let fpm = self.config.strategy == Strategy::Fpm;
        fpm && once
            && affordable
            && parts.any(|(model, &d)| model.flags().iter().any(|flag| flag.d == d))
    }

    /// Returns `true` if measuring has taken at most its share of the run.
    fn is_cheap_so_far(&self) -> bool {
        let spent_s: f64 = self.history.iter().map(|it| it.measuring_s).sum();
        spent_s <= MEASURING_SHARE * self.config.steps as f64 * self.best_s(0.0)
    }

    /// Returns the seconds of the best measured division, less `noise` standard errors of its slowest
    /// part.
    fn best_s(&self, noise: f64) -> f64 {
        self.history
            .iter()
            .map(|iteration| self.estimate_s(iteration) - noise * iteration.noise_s())
            .fold(f64::INFINITY, f64::min)
    }

    /// Estimates the seconds that a measured division really takes, infinite if measuring was given up.
    /// A part's time is that of its model, clamped to two standard errors around the measured one.
    fn estimate_s(&self, iteration: &MeasuredDivision) -> f64 {
        if iteration.cut_off {
            return f64::INFINITY;
        }
        let measured = iteration.times_s.iter().zip(&iteration.errors_s);
        self.predict_times_s(&iteration.units)
            .iter()
            .zip(measured)
            .map(|(&model_s, (&t_s, &error_s))| match self.config.strategy {
                Strategy::Fpm => model_s.clamp(t_s - 2.0 * error_s, t_s + 2.0 * error_s),
                _ => t_s,
            })
            .fold(0.0, f64::max)
    }

    /// Returns `true` if the models know the speeds of this division well enough to trust it
    /// unmeasured.
    fn is_supported(&self, units: &[u64]) -> bool {
        let mut parts = self.models.iter().zip(units);
        self.config.strategy == Strategy::Fpm
            && parts.all(|(model, &d)| d == 0 || model.supports(d as f64))
    }

    /// Returns the number of standard errors of a loss that count as noise. Four make about
    /// a confidence interval.
    fn noise_factor(&self) -> f64 {
        match self.history.len() {
            0 | 1 if !self.informed => 0.0,
            _ if self.is_cheap_so_far() => 1.0,
            _ => 4.0,
        }
    }

    /// Returns `true` if measuring a division predicted to take `next_s` can save more than it costs.
    fn pays_off(&self, next_s: f64) -> bool {
        let best_s = self.best_s(self.noise_factor());
        let saving_s = self.config.steps as f64 * (best_s - next_s);
        let runs = self.history.last().map_or(1.0, |it| it.runs);
        self.config.steps == 0 || saving_s >= f64::from(self.config.reps) * runs * next_s
    }

    fn compute_next(&self) -> Result<Partition, BalanceError> {
        if self.config.strategy != Strategy::Fpm {
            return Ok(proportional(&self.assume_speeds(), self.total)?);
        }
        let owned = self.make_functions();
        let functions: Vec<&dyn SpeedModel> = owned.iter().map(AsRef::as_ref).collect();
        Ok(self.config.partitioner.divide(&functions, self.total)?)
    }

    /// Makes each part's speed a function: the fit of its points, or the assumed speed without points.
    fn make_functions(&self) -> Vec<Box<dyn SpeedModel + '_>> {
        let parts = self.models.iter().zip(self.assume_speeds());
        (parts.map(|(fpm, speed)| self.make_function(fpm, speed))).collect()
    }

    fn make_function<'a>(&'a self, fpm: &'a PiecewiseFpm, speed: f64) -> Box<dyn SpeedModel + 'a> {
        match self.config.fit {
            _ if self.config.strategy != Strategy::Fpm || fpm.is_empty() => Box::new(Cpm { speed }),
            Fit::PiecewiseSpeed => Box::new(fpm),
            // The points were checked when they were added, and there are some.
            fit => (fit.model(fpm.points()))
                .unwrap_or_else(|error| unreachable!("valid points have a model: {error}")),
        }
    }

    /// Returns each part's last measured speed, or its prior in the same unit if it has none.
    fn assume_speeds(&self) -> Vec<f64> {
        let (mut speed, mut prior) = (0.0, 0.0);
        for (measured, p) in self.speeds.iter().zip(&self.prior) {
            if let Some(s) = measured {
                speed += s;
                prior += p;
            }
        }
        let scale = if prior > 0.0 { speed / prior } else { 1.0 };
        (self.speeds.iter().zip(&self.prior))
            .map(|(s, p)| s.unwrap_or(p * scale))
            .collect()
    }

    /// Predicts the seconds that `units` take by the parts' functions.
    pub(super) fn predict_times_s(&self, units: &[u64]) -> Vec<f64> {
        self.make_functions()
            .iter()
            .zip(units)
            .map(|(function, &d)| function.time_s(d as f64))
            .collect()
    }

    /// Returns `true` if these units were asked for or measured before.
    pub(super) fn is_known(&self, units: &[u64]) -> bool {
        let measured = self.history.iter().map(|iteration| &iteration.units);
        self.asked
            .iter()
            .chain(measured)
            .any(|known| known == units)
    }

    /// Ends with the measured division whose slowest part finishes first, or with a balanced last one, if
    /// that loses no more than the tolerance.
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
        let division = self.history[best].clone();
        let sought = division.imbalance <= epsilon || (keep_last && !self.seeks_balance());
        self.end_unmeasured(why, division.units, division.times_s);
        if let Some(result) = &mut self.result {
            result.measured = Some(best);
            result.converged = sought && !division.cut_off;
        }
    }

    /// Ends with a division that was not measured.
    fn end_unmeasured(&mut self, why: EndReason, units: Vec<u64>, times_s: Vec<f64>) {
        let functions = self.make_functions();
        let parts = functions.iter().zip(&units);
        let prior = parts
            .map(|(function, &d)| function.speed(d as f64))
            .collect();
        drop(functions);
        self.result = Some(Balanced {
            prior,
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
}

/// Lists the parts that have units, each with the point it measured.
fn list_points(units: &[u64], times: &[Observation]) -> impl Iterator<Item = (usize, Point)> {
    let parts = units.iter().zip(times).enumerate();
    parts
        .filter(|(_, (d, _))| **d > 0)
        .map(|(part, (&d, time))| (part, time.to_point(d)))
}

/// Maps the observation of each part that has units to a number, and the others to 0.
fn map_busy(units: &[u64], times: &[Observation], of: impl Fn(&Observation) -> f64) -> Vec<f64> {
    let parts = units.iter().zip(times);
    parts
        .map(|(&d, time)| if d == 0 { 0.0 } else { of(time) })
        .collect()
}

/// Returns the seconds that measuring together took: those of the part that took longest.
fn longest_measuring_s(times: &[Observation]) -> f64 {
    let seconds = times.iter().map(Observation::measuring_s);
    seconds.fold(0.0, f64::max)
}

/// Returns the kernel runs that a repetition cost on the part that took longest.
fn count_runs(times: &[Observation]) -> f64 {
    let repetitions_s = times.iter().map(Observation::repetitions_s);
    match repetitions_s.fold(0.0, f64::max) {
        t_s if t_s > 0.0 => longest_measuring_s(times) / t_s,
        _ => 1.0,
    }
}

fn is_speed(speed: f64) -> bool {
    speed.is_finite() && speed > 0.0
}
