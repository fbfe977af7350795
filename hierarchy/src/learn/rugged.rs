//! Learning for time functions of any shape.

use serde::{Deserialize, Serialize};

use super::division::Place;
use super::own_loop::Stakes;
use super::{AdaptiveError, ChangeReason, DivisionChange, Drift, LaidOut, Tuning};
use crate::model::TimeFunction;
use crate::partition::{Limits, hpopta};
use crate::times::{Noise, QUANTILE, Shift, SizeLevel, Watch};

/// Learns by how much measured time functions are off, and divides by HPOPTA.
///
/// A function keeps its shape. Its first measured size scales all of it, a lasting change of speed scales it again,
/// and the time of a size that was measured replaces that of the function.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RuggedLearner {
    total: u64,
    granule: u64,
    parts: Vec<RuggedPart>,
    noise: Noise,
    now: Vec<u64>,
    step: u64,
    since_change: u64,
    has_drifted: bool,
    changes: Vec<DivisionChange>,
    drifts: Vec<Drift>,
    #[serde(skip)]
    tuning: Tuning,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct RuggedPart {
    /// Units and seconds, ascending in units.
    points: Vec<(u64, f64)>,
    capacity: Option<u64>,
    is_scaled: bool,
    level: Option<SizeLevel>,
    watch: Watch,
}

impl RuggedPart {
    fn find_time(&self, d: u64) -> Option<f64> {
        if d == 0 {
            return Some(0.0);
        }
        let at = self.points.binary_search_by_key(&d, |&(d, _)| d).ok()?;
        Some(self.points[at].1)
    }

    fn set_time(&mut self, d: u64, t_s: f64) {
        match self.points.binary_search_by_key(&d, |&(d, _)| d) {
            Ok(at) => self.points[at].1 = t_s,
            Err(at) => self.points.insert(at, (d, t_s)),
        }
    }

    fn scale_times(&mut self, factor: f64) {
        for (_, t_s) in &mut self.points {
            *t_s *= factor;
        }
    }

    fn observe(
        &mut self,
        d: u64,
        t_s: f64,
        burst: u64,
        noise: &mut Noise,
        tuning: &Tuning,
    ) -> Option<Shift> {
        let cut = tuning.drift.rule.cut;
        if self.level.as_ref().is_none_or(|level| level.d != d) {
            self.take_mean();
            self.level = Some(match self.find_time(d).filter(|_| self.is_scaled) {
                Some(t_s) => SizeLevel::new(d, t_s.ln(), tuning.doubt.prior, burst),
                None => SizeLevel::unknown(d, burst),
            });
        }
        let level = self.level.as_mut()?;
        let shift = self.watch.observe(level.observe(t_s.ln(), burst, noise, cut))?;
        self.scale_times(shift.log_factor.exp());
        let mut level = SizeLevel::unknown(d, burst);
        for deviation in shift.deviations.iter().filter(|x| x.d == d) {
            level.observe(deviation.log_s, burst, noise, cut);
        }
        self.level = Some(level);
        Some(shift)
    }

    /// Takes the mean of the current size into the function.
    fn take_mean(&mut self) {
        let Some(level) = self.level.filter(|level| level.count > 0.0) else {
            return;
        };
        let (d, t_s) = (level.d, level.mean.exp());
        if !self.is_scaled {
            self.is_scaled = true;
            if let Some(known_s) = self.find_time(d) {
                self.scale_times(t_s / known_s);
            }
        }
        self.set_time(d, t_s);
    }

    /// Returns the function of the sizes that are at most `reach` units from `d`; 0 units are always allowed.
    fn cut_function(
        &self,
        granule: u64,
        d: u64,
        reach: u64,
    ) -> Result<TimeFunction, AdaptiveError> {
        let near = self
            .points
            .iter()
            .copied()
            .filter(|&(size, t_s)| size.abs_diff(d) <= reach && t_s.is_finite());
        Ok(TimeFunction::new(granule, near.collect())?)
    }
}

impl RuggedLearner {
    /// Takes the function of each part and the most units that it may get. The first division is the optimum.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::InvalidFunction`], and the errors of [`hpopta()`].
    pub fn new(
        total: u64,
        tuning: Tuning,
        functions: Vec<Vec<(u64, f64)>>,
        capacities: &[Option<u64>],
    ) -> Result<Self, AdaptiveError> {
        let granule = tuning.granule;
        let mut parts = Vec::with_capacity(functions.len());
        for (points, &capacity) in functions.into_iter().zip(capacities) {
            let function = TimeFunction::new(granule, points)?;
            parts.push(RuggedPart {
                points: function.points().to_vec(),
                capacity,
                is_scaled: false,
                level: None,
                watch: Watch::new(tuning.drift.rule),
            });
        }
        let mut learner = Self {
            total,
            granule,
            parts,
            noise: Noise::new(tuning.noise),
            now: Vec::new(),
            step: 0,
            since_change: 0,
            has_drifted: false,
            changes: Vec::new(),
            drifts: Vec::new(),
            tuning,
        };
        learner.now = learner.divide(u64::MAX)?;
        Ok(learner)
    }

    /// Returns the current division.
    pub fn units(&self) -> &[u64] {
        &self.now
    }

    /// Takes the times of a step with the current division.
    pub fn observe(&mut self, burst: u64, times_s: &[f64]) {
        self.step += 1;
        self.since_change += 1;
        for (index, (part, &t_s)) in self.parts.iter_mut().zip(times_s).enumerate() {
            let d = self.now[index];
            if d == 0 {
                continue;
            }
            let Some(shift) = part.observe(d, t_s, burst, &mut self.noise, &self.tuning) else {
                continue;
            };
            self.has_drifted = true;
            if shift.log_factor.abs() > self.tuning.drift.reported.ln() {
                self.drifts.push(Drift {
                    part: index,
                    step: self.step.saturating_sub(shift.deviations.len() as u64),
                    factor: shift.log_factor.exp(),
                });
            }
        }
    }

    /// Counts a step that nothing is learnt from.
    pub fn skip_step(&mut self) {
        self.step += 1;
    }

    /// Changes the division if that pays. Returns `true` if it did.
    ///
    /// # Errors
    /// Fails as [`hpopta()`].
    pub fn consider_change(&mut self, stakes: Stakes, place: Place) -> Result<bool, AdaptiveError> {
        self.parts.iter_mut().for_each(RuggedPart::take_mean);
        let now_s = self.find_longest(&self.now);
        let limit_s = (1.0 - stakes.least_gain) * self.find_least_longest(now_s);
        let why = if std::mem::take(&mut self.has_drifted) {
            ChangeReason::Drift
        } else {
            ChangeReason::Saving
        };
        for halvings in 0..self.tuning.change.halvings {
            let reach = if halvings == 0 { u64::MAX } else { self.total >> halvings };
            let units = self.divide(reach)?;
            let LaidOut { units: placed, cost_s } = place(&units);
            let step_s = self.find_longest(&units);
            let saving_s = stakes.steps_left * (now_s - step_s);
            if units == self.now || step_s >= limit_s {
                return Ok(false);
            }
            if placed == units && saving_s > cost_s {
                self.change_to(DivisionChange {
                    step: self.step,
                    why,
                    units,
                    saving_s,
                    cost_s,
                    step_s,
                });
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a division in which the first idle part with room has its smallest size; `None` if no part is idle or
    /// none is possible.
    pub fn propose_retry(&self) -> Option<Vec<u64>> {
        let (idle, least) = self.find_idle()?;
        let mut others = self.clone();
        others.total = self.total.checked_sub(least)?;
        others.parts[idle].capacity = Some(0);
        let mut units = others.divide(u64::MAX).ok()?;
        units[idle] = least;
        Some(units)
    }

    /// Returns the first idle part with room for its smallest size, and that size.
    fn find_idle(&self) -> Option<(usize, u64)> {
        let mut sizes = (0..self.parts.len())
            .filter(|&part| self.now[part] == 0)
            .filter_map(|part| Some((part, self.parts[part].points.first()?.0)));
        sizes.find(|&(part, least)| self.parts[part].capacity.is_none_or(|most| least <= most))
    }

    /// Takes a division that the caller has chosen, in which idle parts have units again. Their functions are scaled
    /// afresh.
    pub fn take_division(&mut self, units: Vec<u64>) {
        for (part, (&now, &next)) in self.parts.iter_mut().zip(self.now.iter().zip(&units)) {
            if now == 0 && next > 0 {
                part.take_mean();
                part.level = None;
                part.is_scaled = false;
                part.watch = Watch::new(self.tuning.drift.rule);
            }
        }
        self.return_to(units);
    }

    /// Takes a division whose times are known.
    pub fn return_to(&mut self, units: Vec<u64>) {
        self.now = units;
        self.since_change = 0;
    }

    fn change_to(&mut self, change: DivisionChange) {
        self.now.clone_from(&change.units);
        self.since_change = 0;
        self.changes.push(change);
    }

    /// Divides the units with sizes that are at most `reach` units from the current ones.
    fn divide(&self, reach: u64) -> Result<Vec<u64>, AdaptiveError> {
        let mut functions = Vec::with_capacity(self.parts.len());
        for (index, part) in self.parts.iter().enumerate() {
            let now = self.now.get(index).copied().unwrap_or(0);
            functions.push(part.cut_function(self.granule, now, reach)?);
        }
        let limits: Vec<Limits> = (self.parts.iter())
            .map(|part| Limits { cap: part.capacity, ..Limits::default() })
            .collect();
        Ok(hpopta(&functions, &limits, self.total)?.units)
    }

    fn find_longest(&self, units: &[u64]) -> f64 {
        self.parts
            .iter()
            .zip(units)
            .map(|(part, &d)| part.find_time(d).unwrap_or(f64::INFINITY))
            .fold(0.0, f64::max)
    }

    /// Returns a lower bound of the longest time, whose estimate is `now_s`.
    fn find_least_longest(&self, now_s: f64) -> f64 {
        let errors = self
            .parts
            .iter()
            .filter_map(|part| part.level.filter(|level| level.count > 0.0))
            .map(|level| self.noise.of_mean(level.count, level.bursts).sqrt());
        now_s * (-QUANTILE * errors.fold(0.0, f64::max)).exp()
    }

    /// Returns the steps learnt from since the division changed.
    pub fn count_since_change(&self) -> u64 {
        self.since_change
    }

    /// Returns `true` if a part's speed has changed since the last decision.
    pub fn has_drifted(&self) -> bool {
        self.has_drifted
    }

    /// Returns every change of the division.
    pub fn changes(&self) -> &[DivisionChange] {
        &self.changes
    }

    /// Returns every drift that was noticed.
    pub fn drifts(&self) -> &[Drift] {
        &self.drifts
    }
}
