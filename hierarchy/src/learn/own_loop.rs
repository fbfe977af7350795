//! Learning from a loop that makes its own steps.

use super::division::Place;
use super::division::{divide, expect_step};
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
    ///
    /// # Errors
    /// As [`Adaptive::new`].
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
    ///
    /// # Errors
    /// As [`Adaptive::request_next`].
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
        }
        Ok(self.since_change == 0)
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
        self.endurable_s =
            Some(now_s + self.config.change.at_risk * winnable_s / stakes.trial_steps.max(1.0));
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
