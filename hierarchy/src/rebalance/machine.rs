//! The machine that balances a loop.

use serde::{Deserialize, Serialize};

use super::learner::Learner;
use super::moving::{Mover, MovingCost, count_moved};
use super::start::divide_within;
use super::{Advice, LoopChange, LoopChangeReason, LoopPart, RebalanceConfig, RebalanceReport};
use crate::adaptive::{AdaptiveError, ChangeReason, Stakes};
use crate::model::Point;

/// Sweeps that are expected to be left at least if the program does not know.
const LIKELY_LEFT: u64 = 100;

/// Most doublings of the pause before a part is tried again.
const DOUBLINGS: u32 = 20;

/// Time of a sweep over that before the last change from which the change has failed.
const FAILED: f64 = 1.3;

/// Sweeps that are learnt from before a change may have failed. A single long one is a disturbance.
const FAILED_AFTER: u64 = 2;

/// Divides the units of a loop over parts, and changes the division when that pays. The [module](super) has an example.
///
/// It can be serialised between two sweeps. What is read back decides as the original would.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rebalance {
    config: RebalanceConfig,
    total: u64,
    parts: Vec<LoopPart>,
    units: Vec<u64>,
    learner: Learner,
    /// Sweeps with the current division.
    in_division: u64,
    /// Sweeps learnt from with the current division after which it is judged next.
    due_at: u64,
    /// Seconds of the slowest part in the last sweep.
    last_s: f64,
    /// The same at the last change, and the least since then; 0 before.
    #[serde(default)]
    since_change_s: [f64; 2],
    /// Tries of parts without units so far.
    retries: u32,
    cost: MovingCost,
    report: RebalanceReport,
}

impl Rebalance {
    /// Divides `total` units over the parts in proportion to their weights, or as is best by their time functions.
    ///
    /// # Errors
    /// [`AdaptiveError::InvalidConfig`], [`AdaptiveError::NoParts`], [`AdaptiveError::BeyondCapacity`]; for time
    /// functions [`AdaptiveError::InvalidFunction`], [`AdaptiveError::MissingFunction`] and [`AdaptiveError::Partition`].
    pub fn new(
        config: RebalanceConfig,
        total: u64,
        parts: Vec<LoopPart>,
    ) -> Result<Self, AdaptiveError> {
        config.check()?;
        if parts.is_empty() {
            return Err(AdaptiveError::NoParts { total });
        }
        parts.iter().try_for_each(LoopPart::check)?;
        let learner = Learner::new(&config, total, &parts)?;
        let units = match &learner {
            Learner::Rugged(learner) => learner.units().to_vec(),
            Learner::Smooth(_) => {
                let weights: Vec<f64> = parts.iter().map(|part| part.weight).collect();
                let capacities: Vec<Option<u64>> =
                    parts.iter().map(|part| part.max_local).collect();
                divide_within((total, config.granule), &weights, &capacities)
            }
        };
        Ok(Self {
            due_at: config.window,
            config,
            total,
            parts,
            units,
            learner,
            in_division: 0,
            last_s: 0.0,
            since_change_s: [0.0; 2],
            retries: 0,
            cost: MovingCost::default(),
            report: RebalanceReport::default(),
        })
    }

    /// Returns the units of each part.
    pub fn units(&self) -> &[u64] {
        &self.units
    }

    /// Takes the seconds that each part needed for its units in a sweep. Those of a part without units are ignored.
    ///
    /// Nothing is learnt from a sweep in which a busy part has a time that is not positive: its clock may be too
    /// coarse.
    ///
    /// # Errors
    /// [`AdaptiveError::WrongLength`]; then nothing has changed.
    pub fn observe(&mut self, times_s: &[f64]) -> Result<(), AdaptiveError> {
        let (wanted, got) = (self.parts.len(), times_s.len());
        if got != wanted {
            return Err(AdaptiveError::WrongLength { wanted, got });
        }
        self.report.sweeps += 1;
        self.in_division += 1;
        if self.in_division <= self.config.warm_up {
            self.learner.skip_sweep();
            return Ok(());
        }
        if let Some(part) = (0..wanted).find(|&part| !is_usable(self.units[part], times_s[part])) {
            self.report.unusable += 1;
            // JSON cannot hold NaN or infinity.
            let seconds = times_s[part];
            self.report.last_unusable =
                Some((part, if seconds.is_finite() { seconds } else { 0.0 }));
            self.learner.skip_sweep();
            return Ok(());
        }
        let busy = self
            .units
            .iter()
            .zip(times_s)
            .filter(|&(&units, _)| units > 0);
        self.last_s = busy.map(|(_, &t_s)| t_s).fold(0.0, f64::max);
        let least_s = &mut self.since_change_s[1];
        *least_s = match *least_s {
            0.0 => self.last_s,
            least_s => least_s.min(self.last_s),
        };
        self.learner
            .observe(self.report.sweeps, &self.units, times_s)
    }

    /// Counts a sweep that the program wants to be ignored.
    pub fn skip_sweep(&mut self) {
        self.report.sweeps += 1;
        self.learner.skip_sweep();
    }

    /// Returns the number of sweeps after which [`advise`](Self::advise) may have something to say; at least 1.
    pub fn count_sweeps(&self) -> u64 {
        let learnt = self.learner.count_since_change();
        let patience = self.count_patience();
        let is_new = !self.report.changes.is_empty() && learnt < FAILED_AFTER;
        let wanted = if is_new {
            FAILED_AFTER.min(patience)
        } else if learnt < patience {
            patience
        } else {
            self.due_at
        };
        let ignored = self.config.warm_up.saturating_sub(self.in_division);
        (ignored + wanted.saturating_sub(learnt)).clamp(1, self.config.check_every)
    }

    /// Says whether to change the division, after any number of sweeps. After [`Advice::Move`] the next sweep has the
    /// new units.
    ///
    /// # Errors
    /// [`AdaptiveError::Partition`] if the times do not admit a division.
    pub fn advise(&mut self) -> Result<Advice, AdaptiveError> {
        let learnt = self.learner.count_since_change();
        if learnt < self.count_patience() {
            return Ok(Advice::Keep);
        }
        if let Some(units) = self.propose_retry() {
            self.retries += 1;
            self.learner.take_division(units.clone());
            return Ok(self.change_to(LoopChange {
                sweep: self.report.sweeps,
                why: LoopChangeReason::Retry,
                units,
                saving_s: 0.0,
                cost_s: 0.0,
            }));
        }
        if learnt < self.due_at && !self.learner.has_drifted() && !self.has_failed() {
            return Ok(Advice::Keep);
        }
        self.due_at = 2 * learnt;
        self.consider_change()
    }

    fn consider_change(&mut self) -> Result<Advice, AdaptiveError> {
        let compute_unit_s = self.last_s * self.parts.len() as f64 / self.total.max(1) as f64;
        let mover = Mover {
            now: &self.units,
            granule: self.config.granule,
            most: self.config.max_move * self.total as f64,
            unit_s: (self.config.move_unit_s)
                .unwrap_or_else(|| self.cost.estimate_unit_s(compute_unit_s)),
        };
        let stakes = Stakes {
            steps_left: self.count_left() as f64,
            least_gain: 1.0 - 1.0 / self.config.trigger,
            trial_steps: (self.config.warm_up + FAILED_AFTER) as f64,
        };
        let change = self
            .learner
            .consider_change(stakes, &mut |asked| mover.place(asked))?;
        let Some(change) = change else {
            if self.find_retry().is_none() {
                self.retries = 0;
            }
            return Ok(Advice::Keep);
        };
        Ok(self.change_to(LoopChange {
            sweep: self.report.sweeps,
            why: match change.why {
                ChangeReason::Drift => LoopChangeReason::Drift,
                _ => LoopChangeReason::Saving,
            },
            units: change.units,
            saving_s: change.saving_s,
            cost_s: change.cost_s,
        }))
    }

    fn change_to(&mut self, change: LoopChange) -> Advice {
        self.cost.last = count_moved(&self.units, &change.units).1;
        self.units.clone_from(&change.units);
        self.in_division = 0;
        self.since_change_s = [self.last_s, 0.0];
        let advice = Advice::Move(change.units.clone());
        self.report.changes.push(change);
        self.due_at = self.count_patience();
        advice
    }

    /// Returns a division in which idle parts get units again, if it is time.
    fn propose_retry(&self) -> Option<Vec<u64>> {
        let config = &self.config;
        let after = config
            .retry_after
            .saturating_mul(1 << self.retries.min(DOUBLINGS));
        let is_due = after > 0 && self.in_division >= after && self.count_left() > after;
        is_due.then(|| self.find_retry()).flatten()
    }

    fn find_retry(&self) -> Option<Vec<u64>> {
        let at = (self.config.granule, self.last_s);
        self.learner.propose_retry(&self.units, at, &self.parts)
    }

    /// Takes the seconds that the last move took, on the rank that needed longest.
    ///
    /// # Errors
    /// [`AdaptiveError::InvalidCost`]; then nothing has changed.
    pub fn note_move(&mut self, cost_s: f64) -> Result<(), AdaptiveError> {
        if !(cost_s >= 0.0 && cost_s.is_finite()) {
            return Err(AdaptiveError::InvalidCost { cost_s });
        }
        self.cost.note_seconds(cost_s);
        Ok(())
    }

    /// Returns what was done and learnt so far.
    pub fn to_report(&self) -> RebalanceReport {
        RebalanceReport {
            drifts: self.learner.drifts().to_vec(),
            moved: (self.cost.units, self.cost.seconds),
            ..self.report.clone()
        }
    }

    /// Returns the sweeps that are learnt from before a division may change.
    fn count_patience(&self) -> u64 {
        let usual = self.config.window.max(self.config.cooldown);
        match self.report.changes.is_empty() {
            true => self.config.window,
            false if self.has_failed() => FAILED_AFTER.min(usual),
            false => usual,
        }
    }

    /// Returns `true` if the last change has made the sweeps longer: a part may have come to the end of its memory.
    fn has_failed(&self) -> bool {
        let [before_s, least_s] = self.since_change_s;
        before_s > 0.0 && least_s > FAILED * before_s
    }

    fn count_left(&self) -> u64 {
        let done = self.report.sweeps;
        (self.config.sweeps).map_or(done.max(LIKELY_LEFT), |all| all.saturating_sub(done))
    }
}

/// Returns `true` for a part without units, and for a time that can be learnt from.
fn is_usable(units: u64, t_s: f64) -> bool {
    let point = Point {
        d: units,
        t_s,
        reps: 1,
        ci_s: 0.0,
    };
    units == 0 || point.check().is_ok()
}
