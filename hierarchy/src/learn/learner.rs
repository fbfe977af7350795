//! The learner: a state machine fed with times.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::curve::TimeCurve;
use super::division::{
    Place, Proposal, Trial, divide, expect_step, longest_mean, predict_times, sum_units,
};
use super::kinds::shrink_to_kind;
use super::part::{PartState, TimeOrigin};
use super::{
    AdaptiveError, AdaptivePart, ChangeReason, DivisionChange, Drift, LaidOut, Observed, PartModel,
    Request, Tuning,
};
use crate::model::{Point, SpeedModel};
use crate::partition::even;
use crate::times::{Noise, QUANTILE, Sample};

/// Learns the times of parts while they work, and divides the units of each step over them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Adaptive {
    pub(super) config: Tuning,
    pub(super) total: u64,
    pub(super) steps: u64,
    pub(super) parts: Vec<PartState>,
    /// Noise of each kind.
    pub(super) noise: BTreeMap<usize, Noise>,
    /// Measurements done.
    pub(super) looks: u32,
    /// Steps done.
    step: u64,
    /// Steps done with the current division.
    pub(super) since_change: u64,
    /// The division asked for; empty before the first.
    asked: Vec<u64>,
    /// The division of the steps, as laid out; empty before the first.
    pub(super) now: Vec<u64>,
    pub(super) has_drifted: bool,
    changes: Vec<DivisionChange>,
    drifts: Vec<Drift>,
    /// The steps are those of a program's own loop, in which an idle part is tried again.
    pub(super) is_own_loop: bool,
    /// Most seconds of a step with sizes that parts have never done, if memory ends right behind those that they have. `None`
    /// for any.
    #[serde(default)]
    pub(super) endurable_s: Option<f64>,
    /// The parts that are tried in the division under consideration; empty in an ordinary one.
    #[serde(skip)]
    pub(super) trials: Vec<Option<Trial>>,
}

impl Adaptive {
    /// Starts a run of `steps` steps of `total` units each.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::InvalidConfig`], [`AdaptiveError::NoParts`], [`AdaptiveError::BeyondCapacity`] or, for
    /// an earlier point, [`AdaptiveError::InvalidTime`].
    pub fn new(
        config: Tuning,
        total: u64,
        steps: u64,
        parts: Vec<AdaptivePart>,
    ) -> Result<Self, AdaptiveError> {
        config.check()?;
        check_parts(&parts, total, config.granule)?;
        Ok(Self {
            config,
            total,
            steps,
            noise: parts.iter().map(|part| (part.kind, Noise::new(config.noise))).collect(),
            parts: parts.into_iter().map(|part| PartState::new(part, config)).collect(),
            looks: 0,
            step: 0,
            since_change: 0,
            asked: Vec::new(),
            now: Vec::new(),
            has_drifted: false,
            changes: Vec::new(),
            drifts: Vec::new(),
            is_own_loop: false,
            endurable_s: None,
            trials: Vec::new(),
        })
    }

    /// Takes the times of a measurement or of a step.
    ///
    /// The units may differ from those requested (whole blocks), but for a step not in their sum.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::WrongLength`], [`AdaptiveError::WrongTotal`], [`AdaptiveError::Over`] or
    /// [`AdaptiveError::InvalidTime`]; then nothing has changed.
    pub fn observe(&mut self, observed: &Observed) -> Result<(), AdaptiveError> {
        self.check_observed(observed)?;
        for (index, &sample) in observed.samples.iter().enumerate() {
            if sample.units > 0 {
                self.observe_part(index, sample, observed);
            }
        }
        if observed.is_measurement {
            self.looks += 1;
        } else {
            self.step += 1;
            self.since_change += 1;
            self.now = observed.list_units();
        }
        Ok(())
    }

    fn observe_part(&mut self, index: usize, sample: Sample, observed: &Observed) {
        let part = &mut self.parts[index];
        let noise =
            (self.noise.entry(part.part.kind)).or_insert_with(|| Noise::new(self.config.noise));
        // A loop ignores the first sweeps with a division where they differ.
        let origin = if observed.is_measurement {
            TimeOrigin::Measurement
        } else if self.since_change == 0 && !self.is_own_loop {
            TimeOrigin::FirstStep
        } else {
            TimeOrigin::Step
        };
        let Some(shift) = part.observe(sample, observed.burst, origin, noise) else {
            return;
        };
        self.has_drifted = true;
        if shift.log_factor.abs() > self.config.drift.reported.ln() {
            self.drifts.push(Drift {
                part: index,
                step: (self.step + 1).saturating_sub(shift.deviations.len() as u64),
                factor: shift.log_factor.exp(),
            });
        }
    }

    fn check_observed(&self, observed: &Observed) -> Result<(), AdaptiveError> {
        let (wanted, got) = (self.parts.len(), observed.samples.len());
        if got != wanted {
            return Err(AdaptiveError::WrongLength { wanted, got });
        }
        let got = sum_units(&observed.list_units());
        if !observed.is_measurement && got != self.total {
            return Err(AdaptiveError::WrongTotal { wanted: self.total, got });
        }
        if !observed.is_measurement && self.step == self.steps {
            return Err(AdaptiveError::Over { steps: self.steps });
        }
        check_times(&observed.samples)
    }

    /// Returns the next thing to do.
    ///
    /// `place` lays a division out, and returns it with the cost of the change from the current one. It
    /// is asked for every division that is considered, the first ones included. It must return the same
    /// for the same division as long as no step is done.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::WrongLength`], [`AdaptiveError::WrongTotal`] or [`AdaptiveError::InvalidCost`] for a
    /// placement that the division does not have, and [`AdaptiveError::Partition`] if the models do not admit a
    /// division.
    pub fn request_next(
        &mut self,
        mut place: impl FnMut(&[u64]) -> LaidOut,
    ) -> Result<Request, AdaptiveError> {
        self.decide(&mut place)
    }

    /// Returns the units of the next measurement before the first step; `None` if enough is known to begin.
    ///
    /// A caller that has divided the first step by other means than [`request_next`](Self::request_next) asks
    /// here before, and then hands over the times of the steps.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::Partition`] if the models do not admit a division.
    pub fn request_measurement(&mut self) -> Result<Option<Vec<u64>>, AdaptiveError> {
        if self.step == self.steps || !self.now.is_empty() {
            return Ok(None);
        }
        self.fit_models();
        self.plan_look()
    }

    /// Counts steps that nothing is learnt from, as those that were divided before the last request.
    pub fn skip_steps(&mut self, count: u64) {
        self.step = self.step.saturating_add(count).min(self.steps);
    }

    /// Divides units among some of the parts alone by their models, however little was seen of them, and
    /// returns the seconds of the slowest. The division is even, and takes no time, if nothing is known of any.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::Partition`] if the models do not admit a division.
    ///
    /// # Panics
    /// If there are no such parts.
    pub fn divide_among(
        &self,
        parts: Range<usize>,
        units: u64,
    ) -> Result<(Vec<u64>, f64), AdaptiveError> {
        let mut candidates = self.list_candidates()[parts.clone()].to_vec();
        for candidate in candidates.iter_mut().flatten() {
            candidate.bounds.reach = f64::INFINITY;
        }
        if candidates.iter().all(Option::is_none) {
            return Ok((even(parts.len(), units), 0.0));
        }
        let divided = divide(&candidates, units, self.config.granule.min(units.max(1)))?;
        let longest_s = longest_mean(&self.list_curves()[parts], &divided);
        Ok((divided, longest_s))
    }

    /// Returns the seconds that each part takes for these units by its model; 0 if nothing is known.
    pub fn predict_times(&self, units: &[u64]) -> Vec<f64> {
        let parts = self.list_curves().into_iter().zip(units);
        let times_s =
            parts.map(|(curve, &d)| curve.map_or(0.0, |curve| curve.line.time_s(d as f64)));
        times_s.collect()
    }

    fn decide(&mut self, place: Place) -> Result<Request, AdaptiveError> {
        if self.step == self.steps {
            return Ok(Request::Done);
        }
        if self.now.is_empty() {
            self.fit_models();
            if let Some(units) = self.plan_look()? {
                return Ok(Request::Measure(units));
            }
            self.start(place)?;
        } else if self.is_due() {
            self.fit_models();
            // A single time beyond belief is measured again first: it may be a disturbance.
            if self.since_change > 1 || !self.parts.iter().any(PartState::is_doubtful) {
                let steps_left = (self.steps - self.step) as f64;
                let change = &self.config.change;
                let least_gain = if self.since_change == 1 && !self.has_drifted {
                    change.first_gain
                } else {
                    change.least_gain
                };
                self.change_if_it_pays(steps_left, least_gain, place)?;
            }
        }
        Ok(Request::Steps { units: self.asked.clone(), count: self.count_steps() })
    }

    /// Takes the first division.
    fn start(&mut self, place: Place) -> Result<(), AdaptiveError> {
        let mut best: Option<Proposal> = None;
        for units in self.propose_divisions()? {
            let limit_s = best.as_ref().map_or(f64::INFINITY, |best| best.step_s);
            let Some(proposal) = self.rate_below(limit_s, units, place)? else {
                continue;
            };
            if best.is_none() || proposal.step_s < limit_s {
                best = Some(Proposal { cost_s: 0.0, ..proposal });
            }
        }
        if let Some(best) = best {
            self.change_to(best, ChangeReason::First, 0.0);
        }
        Ok(())
    }

    /// Returns `true` after 1, 2, 4, … steps with one division, and after a drift.
    fn is_due(&self) -> bool {
        self.has_drifted || self.is_forced() || self.since_change.is_power_of_two()
    }

    fn is_forced(&self) -> bool {
        self.config.force_every > 0 && self.since_change >= self.config.force_every
    }

    /// Returns the steps until the times are looked at again.
    fn count_steps(&self) -> u64 {
        let due = (self.since_change + 1).next_power_of_two() - self.since_change;
        let forced = match self.config.force_every {
            0 => u64::MAX,
            every => every.saturating_sub(self.since_change).max(1),
        };
        due.min(forced).min(self.config.check_every).min(self.steps - self.step)
    }

    /// Changes the division if the steps left save more than the change costs, and each a part `least_gain` of its
    /// time at least. What is saved is counted from the least time that a step is likely to take without the change.
    pub(super) fn change_if_it_pays(
        &mut self,
        steps_left: f64,
        least_gain: f64,
        place: Place,
    ) -> Result<(), AdaptiveError> {
        let now_s = self.expect_least_step();
        let limit_s = (1.0 - least_gain) * now_s;
        let mut best: Option<(f64, Proposal)> = None;
        for units in self.propose_divisions()? {
            let Some(proposal) = self.rate_below(limit_s, units, place)? else {
                continue;
            };
            let saving_s = steps_left * (now_s - proposal.step_s);
            let net_s = saving_s - proposal.cost_s;
            let most_s = best.as_ref().map_or(0.0, |(most_s, best)| most_s - best.cost_s);
            if proposal.step_s < limit_s && net_s > most_s && proposal.units != self.now {
                best = Some((saving_s, proposal));
            }
        }
        let why = if self.has_drifted { ChangeReason::Drift } else { ChangeReason::Saving };
        self.has_drifted = false;
        match best {
            Some((saving_s, best)) => self.change_to(best, why, saving_s),
            None if self.is_forced() => self.force_change(place)?,
            None => {}
        }
        Ok(())
    }

    /// Returns the seconds that a step takes with the current division, at the least that its slowest part is likely to take. A
    /// program's own loop has time to try divisions and to take them back.
    fn expect_least_step(&self) -> f64 {
        let candidates = self.list_candidates();
        let step_s = expect_step(&candidates, &self.now);
        let times = predict_times(&candidates, &self.now).into_iter();
        let slowest = times.map(|(_, time)| time).max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        match slowest {
            Some(slowest) if !self.is_own_loop => {
                step_s - self.config.change.doubt * slowest.error_s
            }
            _ => step_s,
        }
    }

    /// Moves half of its units from the part with the most to the next one that has room.
    fn force_change(&mut self, place: Place) -> Result<(), AdaptiveError> {
        let mut units = self.now.clone();
        let parts = units.len();
        let Some(from) = (0..parts).max_by_key(|&part| units[part]) else {
            return Ok(());
        };
        let granule = self.config.granule;
        let moved = (units[from] / 2).next_multiple_of(granule).min(units[from]);
        let to = (1..parts)
            .map(|ahead| (from + ahead) % parts)
            .find(|&to| units[to] + moved <= self.parts[to].capacity());
        if let Some(to) = to {
            units[from] -= moved;
            units[to] += moved;
            let proposal = self.rate(units, place)?;
            self.change_to(proposal, ChangeReason::Forced, 0.0);
        }
        Ok(())
    }

    fn change_to(&mut self, proposal: Proposal, why: ChangeReason, saving_s: f64) {
        self.now.clone_from(&proposal.units);
        self.asked = proposal.asked;
        self.since_change = 0;
        self.changes.push(DivisionChange {
            step: self.step,
            why,
            units: proposal.units,
            saving_s,
            cost_s: proposal.cost_s,
            step_s: proposal.step_s,
        });
    }

    pub(super) fn fit_models(&mut self) {
        let mut kinds: BTreeMap<usize, Vec<&mut PartState>> = BTreeMap::new();
        for part in &mut self.parts {
            part.fit_curve(&self.noise[&part.part.kind]);
            kinds.entry(part.part.kind).or_default().push(part);
        }
        for alike in kinds.values_mut() {
            shrink_to_kind(alike, self.is_own_loop);
        }
    }

    /// Returns `true` if the division of the last request was not run yet.
    pub fn is_changed(&self) -> bool {
        self.since_change == 0
    }

    /// Returns every change of the division, the first division included.
    pub fn changes(&self) -> &[DivisionChange] {
        &self.changes
    }

    /// Returns every drift that was noticed.
    pub fn drifts(&self) -> &[Drift] {
        &self.drifts
    }

    /// Returns the model of each part; `None` for a part that was never measured.
    pub fn describe_models(&self) -> Vec<Option<PartModel>> {
        let mut learner = self.clone();
        learner.fit_models();
        learner.list_curves().into_iter().map(|curve| curve.map(describe_curve)).collect()
    }
}

fn describe_curve(curve: &TimeCurve) -> PartModel {
    let time_s = curve.line.time_s(curve.center);
    PartModel {
        fixed_s: curve.fixed_s,
        units_per_s: 1.0 / curve.slope,
        capacity: curve.fall.map(|fall| [fall.from, fall.to]),
        units: curve.center,
        time_s,
        ci_s: QUANTILE * time_s * curve.variance(curve.center).sqrt(),
    }
}

fn check_parts(parts: &[AdaptivePart], total: u64, granule: u64) -> Result<(), AdaptiveError> {
    if parts.is_empty() {
        return Err(AdaptiveError::NoParts { total });
    }
    let rooms: Vec<u64> = (parts.iter())
        .map(|part| part.capacity.map_or(u64::MAX, |units| units / granule * granule))
        .collect();
    let capacity = sum_units(&rooms);
    if capacity < total.div_ceil(granule) * granule {
        return Err(AdaptiveError::BeyondCapacity { total, capacity });
    }
    for (index, part) in parts.iter().enumerate() {
        part.prior
            .iter()
            .try_for_each(Point::check)
            .map_err(|source| AdaptiveError::InvalidTime { index, source })?;
    }
    Ok(())
}

fn check_times(samples: &[Sample]) -> Result<(), AdaptiveError> {
    for (index, sample) in samples.iter().enumerate().filter(|(_, sample)| sample.units > 0) {
        let checked = sample.to_point().check();
        checked.map_err(|source| AdaptiveError::InvalidTime { index, source })?;
    }
    Ok(())
}
