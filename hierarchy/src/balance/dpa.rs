//! The dynamic partitioning algorithm.
//!
//! # Deviations
//!
//! * **end of balancing**: the thesis ends when the imbalance is at most ε (4.3). Here the range that noise
//!   alone gives to the times comes on top: `√(ε² + noise²)`. It grows with the number of parts, and 90 alike
//!   parts would never be balanced. A part without units counts with the time of its first granule. Balancing
//!   also ends when a further measurement cannot win back its cost beyond the noise. It ends when iterations
//!   run out, and when the next division was measured before, since [`Strategy::MultiCpm`](super::Strategy::MultiCpm) may cycle for
//!   ever.
//! * **result of balancing**: the thesis takes the last division (4.3). Here the result is the fastest
//!   measured one, because convergence need not be monotone. An early end takes the next division unmeasured
//!   if measured times bound its time by less.
//! * **parts that paged**: the thesis measures what the models say (4.3). Here a part that is left without units after one
//!   measurement is measured once with the least, because the speed of a part that paged says nothing about few units.
//! * **models while balancing**: the thesis divides by the piecewise linear speeds (3.3.1). Here their times
//!   have the start-up cost that measurements show ([`StartUp`]). A part that should get nothing would keep
//!   a sliver that all wait for.
//! * **divisions that take too long**: the thesis kills a benchmark that is slower than 0.5 GFLOPS, and
//!   enters a speed of 0.1 GFLOPS (4.3.1). Here a part reports the time after which it was given up, a
//!   lower bound, because no speed was seen. Such a division is the result only if there is no other.
//! * **parts without units**: the thesis does not consider them (4.3). Here they are assumed to be as
//!   fast as their prior says, because they would never be tried otherwise. The prior is scaled to the
//!   measured parts. Without a prior a part is as fast as their mean.
//! * **balance with HPOPTA**: the thesis ends at equal times (4.3). Here balancing by
//!   [`Partitioner::Hpopta`] ends when the models promise nothing better, because that optimum need not
//!   be balanced.

use serde::{Deserialize, Serialize};

use super::{
    BalanceConfig, BalanceError, BalanceStep, DRIFT, EndReason, MeasuredDivision, Rule, imbalance,
};
use crate::model::{Cpm, Fit, PiecewiseFpm, Point, SpeedModel, StartUp};
use crate::partition::{
    Partition, Partitioner, SplitOptions, apportion, even, list_falling, proportional,
};
use crate::times::{Sample, shrink_alike};

/// Dynamic partitioning algorithm: divides `total` units over `n` parts whose speeds it learns from
/// one measured division to the next.
///
/// Each iteration measures a division, ends if its times are balanced, adds the measured points to the
/// parts' models and computes the next division from them. [`Strategy::Fpm`](super::Strategy::Fpm) divides by the configured
/// [`Partitioner`], the CPM strategies by [`proportional()`] to the last measured speeds. The
/// [crate's example](crate#example) runs one.
///
/// # End
/// Times are balanced if their imbalance is at most `√(ε² + noise²)`. The noise is the range that as many
/// equal times have by their standard errors, 2.1 of these for 4 parts and 5 for 90.
///
/// Balancing also ends when the next division was measured before, when iterations run out, and when a
/// further measurement cannot pay for itself:
/// `steps · (t_max best - noise - t_max predicted) < reps · runs · t_max predicted`.
///
/// Here `runs` is the number of kernel runs that a repetition of the last measurement cost. It is above
/// 1 for a device with updates that belong together, or with much work before the first update. The noise
/// is what lifts the longest of so many times on average.
///
/// # Result
/// The result is the measured division of least time. An early end takes the next division unmeasured if
/// the models promise a gain, and the measured times bound it ([`PiecewiseFpm::time_at_most`]).
///
/// A division with a part that took too long ([`Sample::at_least`]) is the result only if there is
/// no other. The bound enters the model of the part and moves work away from it.
///
/// # Two uses
/// In *dynamic partitioning* the caller runs a kernel to answer each request, and the application
/// starts with the result. In *dynamic load balancing* the application's own iterations answer; once
/// there is a result, it runs on that. When it later finds its times apart, it starts another balancing
/// from the speeds at that time ([`with_prior`](Self::with_prior)).
///
/// Noise alone sets times apart again and again. A loop of many iterations therefore takes
/// [`Rebalance`](crate::rebalance::Rebalance), which weighs the cost of moving, as the example
/// `dynamic_load_balancing` does.
///
/// # References
/// Clarke's thesis, sections 2.3.1 (the CPM strategies) and 4.3.
#[derive(Debug, Clone)]
pub struct Dpa {
    config: BalanceConfig,
    /// The division after the first measured one is the result.
    is_single: bool,
    total: u64,
    /// Units of functional models come in multiples of this.
    granule: u64,
    /// The models of the parts; `None` if constant speeds divide.
    models: Option<Vec<PiecewiseFpm>>,
    /// Last measured speed of each part.
    speeds: Vec<Option<f64>>,
    /// Relative speeds assumed of parts that were never measured; all positive.
    prior: Vec<f64>,
    /// The division to measure next.
    wanted: Vec<u64>,
    /// Every division asked for so far. The measured ones may differ by rounding.
    asked: Vec<Vec<u64>>,
    history: Vec<MeasuredDivision>,
    result: Option<Balanced>,
}

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
    /// Seconds that each part takes however few units it gets, as its measurements show; 0 if they show
    /// none.
    pub fixed_s: Vec<f64>,
    /// Parts whose time falls with their size by the configured [`Fit`], if the [`Partitioner`] is made for
    /// times that increase. The division may then be far from the best.
    pub falling: Vec<usize>,
}

impl Dpa {
    /// Starts a balancing of `total` units over `n` parts with the even division.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn new(config: BalanceConfig, n: usize, total: u64) -> Self {
        assert!(n > 0, "work can only be balanced over at least one part");
        let (is_measured, is_single, models) = match config.rule() {
            Rule::Even => (false, false, None),
            Rule::Constant { is_single } => (true, is_single, None),
            Rule::Functional { .. } => (true, false, Some(vec![PiecewiseFpm::new(); n])),
        };
        let mut dpa = Self {
            config,
            is_single,
            total,
            granule: 1,
            models,
            speeds: vec![None; n],
            prior: vec![1.0; n],
            wanted: even(n, total),
            asked: Vec::new(),
            history: Vec::new(),
            result: None,
        };
        if total == 0 {
            dpa.end_unmeasured(EndReason::NoWork, dpa.wanted.clone(), vec![0.0; n]);
        } else if !is_measured {
            dpa.end_unmeasured(EndReason::NotMeasured, dpa.wanted.clone(), vec![0.0; n]);
        }
        dpa
    }

    /// Divides by functional models in multiples of `granule` units, the first time evenly. The rest of the total goes to one
    /// part.
    ///
    /// # Panics
    /// If `granule` is 0.
    #[must_use]
    pub fn in_granules(mut self, granule: u64) -> Self {
        self.granule = granule;
        self.wanted = even(self.speeds.len(), self.total / granule);
        self.wanted.iter_mut().for_each(|units| *units *= granule);
        self.wanted[0] += self.total % granule;
        self
    }

    /// Starts in proportion to `prior`, relative speeds of the parts, instead of evenly.
    ///
    /// A speed that is not positive and finite is unknown, and replaced by the mean of the others.
    ///
    /// # Panics
    /// If there is not one speed for each part.
    #[must_use]
    pub fn with_prior(mut self, prior: &[f64]) -> Self {
        assert_eq!(prior.len(), self.speeds.len(), "one prior speed for each part");
        let known: Vec<f64> = prior.iter().copied().filter(|&s| is_speed(s)).collect();
        let mean = match known.len() {
            0 => 1.0,
            n => known.iter().sum::<f64>() / n as f64,
        };
        self.prior = (prior.iter()).map(|&s| if is_speed(s) { s } else { mean }).collect();
        self.wanted = apportion(self.total, &self.prior);
        if let Some(balanced) = &mut self.result {
            balanced.prior.clone_from(&self.prior);
        }
        self
    }

    /// Returns `true` if functional performance models divide.
    pub(super) fn is_functional(&self) -> bool {
        self.models.is_some()
    }

    /// Adds a point that was measured outside this balancing to the model of a part.
    ///
    /// # Errors
    /// Returns [`BalanceError::InvalidTime`] for a point without a finite positive speed.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn seed(&mut self, index: usize, point: Point) -> Result<(), BalanceError> {
        let added = match &mut self.models {
            Some(models) => models[index].add(point),
            None => point.check(),
        };
        added.map_err(|source| BalanceError::InvalidTime { index, source })?;
        self.speeds[index] = Some(point.speed());
        Ok(())
    }

    /// Seeds every part with a point of `d` units, or none if one is invalid.
    pub(super) fn seed_all(&mut self, d: u64, samples: &[Sample]) -> Result<(), BalanceError> {
        let samples: Vec<Sample> = samples.iter().map(|sample| sample.counted_as(d)).collect();
        self.check_samples(&samples)?;
        self.add_points(&samples)
    }

    /// Starts with the division that the seeded points suggest. Without points nothing changes.
    ///
    /// # Errors
    /// Returns [`BalanceError::Partition`] if the models do not admit a division.
    pub fn start_from_points(&mut self) -> Result<(), BalanceError> {
        if self.speeds.iter().any(Option::is_some) {
            self.wanted = self.compute_next()?.units;
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

    /// Takes the time of each part, with the units that it was measured for.
    ///
    /// The units may differ from those requested (whole blocks), but not in their sum. The time of a
    /// part without units is ignored.
    ///
    /// # Errors
    /// Returns [`BalanceError::NotMeasuring`], [`BalanceError::WrongLength`], [`BalanceError::WrongTotal`] or
    /// [`BalanceError::InvalidTime`]; then nothing has changed, and the request stands. [`BalanceError::Partition`] if
    /// the models do not admit a division.
    pub fn observe(&mut self, samples: &[Sample]) -> Result<(), BalanceError> {
        self.observe_by(samples, Self::compute_next)
    }

    /// Takes the time of each part as [`observe`](Self::observe) does. `divide` makes the next division.
    pub(super) fn observe_by(
        &mut self,
        samples: &[Sample],
        divide: impl FnOnce(&Self) -> Result<Partition, BalanceError>,
    ) -> Result<(), BalanceError> {
        self.record(samples)?;
        let next = divide(self).inspect_err(|_| {
            self.history.pop();
            self.asked.pop();
        });
        let next = next?;
        let trial = self.try_small(&next.units);
        self.decide(next, trial);
        Ok(())
    }

    /// Takes the time of each part as [`observe`](Self::observe) does. The next division is `next`, by models of the caller's
    /// own.
    ///
    /// # Errors
    /// Returns [`BalanceError::NotMeasuring`], [`BalanceError::WrongLength`], [`BalanceError::WrongTotal`] or
    /// [`BalanceError::InvalidTime`]; then nothing has changed, and the request stands.
    ///
    /// # Panics
    /// If `next` does not divide the total over all parts.
    pub fn observe_divided(
        &mut self,
        samples: &[Sample],
        next: Partition,
    ) -> Result<(), BalanceError> {
        assert_eq!(next.units.len(), self.speeds.len(), "units of each part");
        assert_eq!(next.units.iter().sum::<u64>(), self.total, "all units");
        self.record(samples)?;
        self.decide(next, None);
        Ok(())
    }

    /// Adds a measured division to the history, and its points to the models.
    fn record(&mut self, samples: &[Sample]) -> Result<(), BalanceError> {
        if self.result.is_some() {
            return Err(BalanceError::NotMeasuring);
        }
        self.check_samples(samples)?;
        let units: Vec<u64> = samples.iter().map(|sample| sample.units).collect();
        let got = units.iter().fold(0, |sum: u64, &d| sum.saturating_add(d));
        if got != self.total {
            return Err(BalanceError::WrongTotal { wanted: self.total, got });
        }
        self.add_points(samples)?;
        let times_s = map_busy(samples, |sample| sample.seconds);
        let imbalance = imbalance(&times_s);
        self.history.push(MeasuredDivision {
            units,
            times_s,
            errors_s: map_busy(samples, |sample| sample.error_s),
            measuring_s: longest_measuring_s(samples),
            runs: count_runs(samples),
            cut_off: samples.iter().any(|sample| sample.units > 0 && sample.is_bound()),
            imbalance,
        });
        self.asked.push(self.wanted.clone());
        Ok(())
    }

    fn check_samples(&self, samples: &[Sample]) -> Result<(), BalanceError> {
        let (wanted, got) = (self.speeds.len(), samples.len());
        if got != wanted {
            return Err(BalanceError::WrongLength { wanted, got });
        }
        list_points(samples).try_for_each(|(index, point)| {
            point.check().map_err(|source| BalanceError::InvalidTime { index, source })
        })
    }

    /// Adds the points of these times to the models. Parts of nearly the same size are shrunk towards each
    /// other first, so that alike parts get alike shares.
    fn add_points(&mut self, samples: &[Sample]) -> Result<(), BalanceError> {
        let points: Vec<(usize, Point)> = if self.is_functional() && are_near(samples) {
            list_points(&shrink_per_unit(samples)).collect()
        } else {
            list_points(samples).collect()
        };
        points.into_iter().try_for_each(|(part, point)| self.seed(part, point))
    }

    /// Ends, or has `next` measured, or a trial in its place.
    fn decide(&mut self, next: Partition, trial: Option<Vec<u64>>) {
        let Some(now) = self.history.last() else {
            return;
        };
        let next_s = next.max_time_s();
        let why = if self.is_solution(now, next_s) {
            EndReason::Balanced
        } else if self.is_single {
            self.end_unmeasured(EndReason::Predicted, next.units, next.times_s);
            return;
        } else if trial.is_none() && self.is_known(&next.units) {
            EndReason::NothingNew
        } else if self.history.len() >= self.config.max_iterations as usize {
            EndReason::IterationLimit
        } else if !self.pays_off(now, next_s) {
            EndReason::NotWorthIt
        } else {
            self.wanted = trial.unwrap_or(next.units);
            return;
        };
        self.end_early(why, next);
    }

    /// Ends with the next division if that is promising enough unmeasured, else with the best measured
    /// one.
    fn end_early(&mut self, why: EndReason, next: Partition) {
        let early = matches!(why, EndReason::NotWorthIt | EndReason::IterationLimit);
        let best_s = self.best_s();
        let trusted = best_s.is_infinite() || self.time_at_most(&next.units) < best_s;
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
        if self.seeks_balance() {
            self.is_balanced(now)
        } else {
            !now.cut_off && now.max_time_s() * (1.0 - self.config.epsilon) <= next_s
        }
    }

    /// Returns `true` if the times of a measured division differ by no more than the tolerance, apart from
    /// the noise in them. A part without units counts with the time of its first granule, unless that alone
    /// takes longer than the division.
    fn is_balanced(&self, now: &MeasuredDivision) -> bool {
        let max_s = now.max_time_s();
        let functions = self.make_functions();
        let times_s: Vec<f64> = (functions.iter().zip(&now.units).zip(&now.times_s))
            .map(
                |((function, &d), &t_s)| {
                    if d == 0 { function.time_s(self.granule as f64).min(max_s) } else { t_s }
                },
            )
            .collect();
        let apart = imbalance(&times_s).powi(2) - now.noise_range().powi(2);
        !now.cut_off && apart <= self.config.epsilon.powi(2)
    }

    /// Returns `true` if a division of equal times is sought, `false` if one that may be faster.
    fn seeks_balance(&self) -> bool {
        !self.is_functional() || self.config.partitioner != Partitioner::Hpopta
    }

    /// Returns the seconds of the best measured division; infinite if measuring was given up in all.
    fn best_s(&self) -> f64 {
        self.history
            .iter()
            .filter(|iteration| !iteration.cut_off)
            .map(MeasuredDivision::max_time_s)
            .fold(f64::INFINITY, f64::min)
    }

    /// Returns the most seconds that a division can take by what was measured.
    fn time_at_most(&self, units: &[u64]) -> f64 {
        let Some(models) = &self.models else {
            return f64::INFINITY;
        };
        let busy = models.iter().zip(units).filter(|(_, d)| **d > 0);
        busy.map(|(model, &d)| model.time_at_most(d as f64)).fold(0.0, f64::max)
    }

    /// Returns `true` if measuring a division predicted to take `next_s` can save more than it costs.
    fn pays_off(&self, now: &MeasuredDivision, next_s: f64) -> bool {
        let gain_s = self.best_s() - now.noise_s() - next_s;
        let costs_s = f64::from(self.config.reps) * now.runs * next_s;
        self.config.steps == 0 || self.config.steps as f64 * gain_s >= costs_s
    }

    pub(super) fn compute_next(&self) -> Result<Partition, BalanceError> {
        if !self.is_functional() {
            return Ok(proportional(&self.assume_speeds(), self.total)?);
        }
        let owned = self.make_functions();
        let functions: Vec<&dyn SpeedModel> = owned.iter().map(AsRef::as_ref).collect();
        let partitioner = self.config.partitioner;
        Ok(match self.granule {
            1 => partitioner.divide(&functions, self.total)?,
            granule => SplitOptions { partitioner, granule, ..SplitOptions::default() }
                .divide(&functions, self.total)?,
        })
    }

    /// Gives one granule to each part that `units` leave idle and whose only point has more units: it may have paged there, and be
    /// fast with few. `None` if there is no such part, or that was measured before.
    fn try_small(&self, units: &[u64]) -> Option<Vec<u64>> {
        let models = self.models.as_ref().filter(|_| self.seeks_balance())?;
        let mut trial = units.to_vec();
        for (part, model) in models.iter().enumerate() {
            let is_unknown = matches!(model.points(), [only] if only.d > self.granule);
            let most = (0..trial.len()).max_by_key(|&other| trial[other]).unwrap_or(part);
            if trial[part] == 0 && is_unknown && trial[most] > self.granule {
                trial[most] -= self.granule;
                trial[part] = self.granule;
            }
        }
        (trial != units && !self.is_known(&trial)).then_some(trial)
    }

    /// Makes each part's speed a function: the fit of its points, or the assumed speed without points.
    pub(super) fn make_functions(&self) -> Vec<Box<dyn SpeedModel + '_>> {
        let speeds = self.assume_speeds().into_iter().enumerate();
        speeds.map(|(part, speed)| self.make_function(part, speed)).collect()
    }

    fn make_function(&self, part: usize, speed: f64) -> Box<dyn SpeedModel + '_> {
        let fpm = self.models.as_ref().map(|models| &models[part]);
        let Some(fpm) = fpm.filter(|fpm| !fpm.is_empty()) else {
            return Box::new(Cpm { speed });
        };
        match self.config.fit {
            Fit::PiecewiseSpeed => Box::new(StartUp::new(fpm)),
            // The points were checked when they were added, and there are some.
            fit => (fit.model(fpm.points()))
                .unwrap_or_else(|error| unreachable!("valid points have a model: {error}")),
        }
    }

    fn estimate_fixed_s(&self) -> Vec<f64> {
        match &self.models {
            Some(models) => models.iter().map(|fpm| StartUp::new(fpm).fixed_s()).collect(),
            None => vec![0.0; self.speeds.len()],
        }
    }

    fn list_falling(&self) -> Vec<usize> {
        let follows = matches!(self.config.fit, Fit::Akima | Fit::RawPiecewise);
        if !follows || !self.is_functional() || !self.seeks_balance() {
            return Vec::new();
        }
        let owned = self.make_functions();
        let functions: Vec<&dyn SpeedModel> = owned.iter().map(AsRef::as_ref).collect();
        list_falling(&functions, self.total)
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
        (self.speeds.iter().zip(&self.prior)).map(|(s, p)| s.unwrap_or(p * scale)).collect()
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
        self.asked.iter().chain(measured).any(|known| known == units)
    }

    /// Ends with the measured division whose slowest part finishes first, or with a balanced last one, if
    /// that loses no more than the tolerance.
    pub(super) fn end(&mut self, why: EndReason) {
        let epsilon = self.config.epsilon;
        let last = self.history.len() - 1;
        let max_s: Vec<f64> = (self.history.iter())
            .map(|it| if it.cut_off { f64::INFINITY } else { it.max_time_s() })
            .collect();
        let fastest = (0..=last)
            .min_by(|&a, &b| max_s[a].total_cmp(&max_s[b]))
            .filter(|&fastest| max_s[fastest].is_finite())
            .unwrap_or(last);
        let keep_last =
            why == EndReason::Balanced && max_s[last] <= max_s[fastest] * (1.0 + epsilon);
        let best = if keep_last { last } else { fastest };
        let division = self.history[best].clone();
        let sought = self.is_balanced(&division) || (keep_last && !self.seeks_balance());
        self.end_unmeasured(why, division.units, division.times_s);
        if let Some(result) = &mut self.result {
            result.measured = Some(best);
            result.converged = sought && !division.cut_off;
        }
    }

    /// Ends with a division that was not measured.
    fn end_unmeasured(&mut self, why: EndReason, units: Vec<u64>, times_s: Vec<f64>) {
        let functions = self.make_functions();
        let prior = functions
            .iter()
            .zip(&units)
            .map(|(function, &d)| function.speed((d as f64).max(1.0)))
            .collect();
        drop(functions);
        self.result = Some(Balanced {
            prior,
            fixed_s: self.estimate_fixed_s(),
            falling: self.list_falling(),
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
fn list_points(samples: &[Sample]) -> impl Iterator<Item = (usize, Point)> {
    samples
        .iter()
        .enumerate()
        .filter(|(_, sample)| sample.units > 0)
        .map(|(part, sample)| (part, sample.to_point()))
}

/// Largest ratio of sizes at which speeds can be compared. Holder: `learning::ninety_alike_devices_were_never_balanced`.
const NEAR: f64 = 1.1;

/// Returns `true` if all parts that have units have nearly the same number of them.
fn are_near(samples: &[Sample]) -> bool {
    let busy = samples.iter().map(|sample| sample.units).filter(|&d| d > 0);
    let (least, most) = (busy.clone().min(), busy.max());
    least.zip(most).is_some_and(|(least, most)| most as f64 <= NEAR * least as f64)
}

/// Shrinks the times per unit of alike parts, and returns times of the units again.
fn shrink_per_unit(samples: &[Sample]) -> Vec<Sample> {
    let sizes = samples.iter().map(|sample| sample.units.max(1) as f64);
    let per_unit: Vec<Sample> = samples
        .iter()
        .zip(sizes.clone())
        .map(|(sample, d)| Sample {
            seconds: sample.seconds / d,
            error_s: sample.error_s / d,
            ..*sample
        })
        .collect();
    shrink_alike(&per_unit, DRIFT)
        .into_iter()
        .zip(samples)
        .zip(sizes)
        .map(|((each, sample), d)| Sample { seconds: each.seconds * d, ..*sample })
        .collect()
}

/// Maps the time of each part that has units to a number, and the others to 0.
fn map_busy(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Vec<f64> {
    samples.iter().map(|sample| if sample.units == 0 { 0.0 } else { of(sample) }).collect()
}

/// Returns the seconds that measuring together took: those of the part that took longest.
fn longest_measuring_s(samples: &[Sample]) -> f64 {
    samples.iter().map(Sample::measuring_s).fold(0.0, f64::max)
}

/// Returns the kernel runs that a repetition cost on the part that took longest.
fn count_runs(samples: &[Sample]) -> f64 {
    match samples.iter().map(Sample::repetitions_s).fold(0.0, f64::max) {
        t_s if t_s > 0.0 => longest_measuring_s(samples) / t_s,
        _ => 1.0,
    }
}

fn is_speed(speed: f64) -> bool {
    speed.is_finite() && speed > 0.0
}
