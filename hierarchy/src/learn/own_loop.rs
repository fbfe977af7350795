//! Learning from a loop that makes its own steps.

use super::curve::TimeCurve;
use super::division::{Place, Trial, divide, expect_step, longest_mean};
use super::part::PartState;
use super::{Adaptive, AdaptiveError, AdaptivePart, Tuning};
use crate::model::SpeedModel;
use crate::times::Noise;

/// Conditions under which a change of the division pays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stakes {
    /// Steps that a change pays in.
    pub steps_left: f64,
    /// Part of a step that the change saves at least.
    pub least_gain: f64,
    /// Steps that a change lasts before it can be taken back.
    pub trial_steps: f64,
}

impl Adaptive {
    /// Starts a loop with an unknown number of steps. The caller gives the first division.
    pub(crate) fn for_own_loop(
        config: Tuning,
        total: u64,
        parts: Vec<AdaptivePart>,
    ) -> Result<Self, AdaptiveError> {
        let mut learner = Self::new(config, total, u64::MAX, parts)?;
        learner.is_own_loop = true;
        Ok(learner)
    }

    /// Returns the units that each part does within `limit_s` by its model; `None` for a part that was never seen.
    pub(crate) fn list_units_within(&self, limit_s: f64) -> Vec<Option<u64>> {
        self.list_curves()
            .into_iter()
            .map(|curve| curve.map(|curve| curve.line.units_within(limit_s) as u64))
            .collect()
    }

    /// Changes the division if that pays. Returns `true` if it did.
    pub(crate) fn consider_change(
        &mut self,
        stakes: Stakes,
        place: Place,
    ) -> Result<bool, AdaptiveError> {
        if self.now.is_empty() {
            return Ok(false);
        }
        self.fit_models();
        self.limit_risk(stakes)?;
        // A single time beyond belief is measured again first: it may be a disturbance.
        if self.since_change > 1 || !self.parts.iter().any(PartState::is_doubtful) {
            self.change_if_it_pays(stakes.steps_left, stakes.least_gain, place)?;
            for plan_trials in [Self::plan_trials, Self::plan_idle_trials] {
                let is_open = self.since_change > 0;
                let tried = match is_open.then(|| plan_trials(self, stakes)).flatten() {
                    Some(least_gain) => {
                        self.change_if_it_pays(stakes.steps_left, least_gain, place)
                    }
                    None => Ok(()),
                };
                self.trials.clear();
                tried?;
            }
        }
        Ok(self.since_change == 0)
    }

    /// Plans to try the parts that were slow with more units as what lies between both sizes suggests, and after many steps of one
    /// division all parts. Returns the part of a step that this has to save at least; `None` without such parts.
    ///
    /// The model doubts sizes that it has not seen, and would leave a part with next to nothing because it was once given far too
    /// much.
    fn plan_trials(&mut self, stakes: Stakes) -> Option<f64> {
        let (_, slow) = self.find_fallen();
        let is_settled = self.since_change >= self.config.change.settled;
        let has_fallen = slow.iter().any(Option::is_some);
        self.trials = (slow.into_iter().zip(&self.now))
            .map(|(slow, &units)| {
                let is_tried = slow.is_some() || (is_settled && units > 0);
                is_tried.then_some(Trial { units: units as f64, fast_until: None })
            })
            .collect();
        if has_fallen {
            Some(self.config.change.trial_gain * stakes.least_gain)
        } else {
            is_settled.then_some(stakes.least_gain)
        }
    }

    /// Plans to try such parts with clearly more units if they work for a small part of the step only, and could save enough if they
    /// stayed as fast. If they page, the steps of the trial lose a part of that at most. Returns the part of a step that this has to
    /// save at least.
    fn plan_idle_trials(&mut self, stakes: Stakes) -> Option<f64> {
        self.plan_trials(stakes)?;
        let (now_s, slow) = self.find_fallen();
        let curves = self.list_curves().into_iter().zip(slow);
        let idle: Vec<Option<(&TimeCurve, f64)>> = (curves.zip(&self.now))
            .map(|((curve, slow), &units)| {
                curve.zip(slow).filter(|(curve, _)| {
                    curve.line.time_s(units as f64) < self.config.change.idle * now_s
                })
            })
            .collect();
        let more = idle.iter().zip(&self.now).filter_map(|(idle, &units)| {
            let (curve, slow) = (*idle)?;
            let units = units as f64;
            Some(slow.min(now_s * curve.line.speed(units)) - units)
        });
        let gain = more.sum::<f64>() / self.total as f64;
        let winnable_s = stakes.steps_left * gain.min(1.0) * now_s;
        let limit_s = self.limit_trial(now_s, winnable_s, stakes);
        let ends = idle.into_iter().zip(&self.now).map(|(idle, &units)| {
            let (curve, slow) = idle?;
            let units = units as f64;
            let endurable = curve.line.with_powers(units).units_within(limit_s);
            Some(endurable.min((units * slow).sqrt()))
        });
        let ends: Vec<Option<f64>> = ends.collect();
        for (trial, end) in self.trials.iter_mut().zip(ends) {
            if let Some(trial) = trial {
                trial.fast_until = end;
            }
        }
        (gain > stakes.least_gain).then_some(0.0)
    }

    /// Returns the seconds of a step, and for each part that works the next size at which it was seen to take longer, if its speed
    /// falls before that.
    fn find_fallen(&self) -> (f64, Vec<Option<f64>>) {
        let curves = self.list_curves();
        let now_s = longest_mean(&curves, &self.now);
        let slow = curves.into_iter().zip(&self.now).map(|(curve, &units)| {
            let curve = curve.filter(|_| units > 0)?;
            curve.find_fallen(units as f64, now_s)
        });
        (now_s, slow.collect())
    }

    /// Returns the longest step of a trial that loses no more than a part of what the steps after it can win.
    fn limit_trial(&self, now_s: f64, winnable_s: f64, stakes: Stakes) -> f64 {
        now_s + self.config.change.at_risk * winnable_s / stakes.trial_steps.max(1.0)
    }

    /// Limits the sizes that parts have never done: if parts page right behind those that they have, the steps of a trial lose
    /// at most half of what the steps after it can win by the best division.
    fn limit_risk(&mut self, stakes: Stakes) -> Result<(), AdaptiveError> {
        self.endurable_s = None;
        let candidates = self.list_candidates();
        if candidates.iter().all(Option::is_none) {
            return Ok(());
        }
        let best = divide(&candidates, self.total, self.config.granule)?;
        let [now_s, best_s] = [&self.now, &best].map(|units| expect_step(&candidates, units));
        let steps_after = (stakes.steps_left - stakes.trial_steps).max(0.0);
        let winnable_s = steps_after * (now_s - best_s).max(0.0);
        self.endurable_s = Some(self.limit_trial(now_s, winnable_s, stakes));
        Ok(())
    }

    /// Takes a division in which some parts have more units than the models suggest, to see how fast they are now.
    pub(crate) fn take_division(&mut self, units: Vec<u64>) {
        for (index, part) in self.parts.iter_mut().enumerate() {
            if units[index] > self.now[index] {
                let noise = (self.noise.entry(part.part.kind))
                    .or_insert_with(|| Noise::new(self.config.noise));
                part.try_again(noise);
            }
        }
        self.return_to(units);
    }

    /// Takes a division whose times are known.
    pub(crate) fn return_to(&mut self, units: Vec<u64>) {
        self.now = units;
        self.since_change = 0;
    }

    /// Returns the steps learnt from since the division changed.
    pub(crate) fn count_since_change(&self) -> u64 {
        self.since_change
    }

    /// Returns `true` if a part's speed has changed since the last decision.
    pub(crate) fn has_drifted(&self) -> bool {
        self.has_drifted
    }
}
