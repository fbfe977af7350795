//! The machine that balances a loop.

use serde::{Deserialize, Serialize};

use super::learner::Learner;
use super::moving::{Mover, MovingCost, count_moved};
use super::seen::{JUDGED_AFTER, SeenDivision};
use super::start::divide_within;
use super::{Advice, LoopChange, LoopChangeReason, LoopPart, RebalanceConfig, RebalanceReport};
use crate::learn::{AdaptiveError, ChangeReason, LaidOut, Stakes};
use crate::model::Point;

/// Sweeps that are expected to be left at least if the program does not know.
const LIKELY_LEFT: u64 = 100;

/// Most doublings of the pause before a part is tried again.
const DOUBLINGS: u32 = 20;

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
    /// The sweeps with the current division.
    #[serde(default)]
    now: SeenDivision,
    /// The fastest other division since speeds last changed.
    #[serde(default)]
    best: Option<SeenDivision>,
    /// Changes that were taken back.
    #[serde(default)]
    taken_back: u32,
    /// Tries of parts without units so far.
    retries: u32,
    cost: MovingCost,
    report: RebalanceReport,
}

impl Rebalance {
    /// Divides `total` units over the parts in proportion to their weights, or as is best by their time functions.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::InvalidConfig`], [`AdaptiveError::NoParts`], [`AdaptiveError::BeyondCapacity`]; for
    /// time functions [`AdaptiveError::InvalidFunction`], [`AdaptiveError::MissingFunction`] and
    /// [`AdaptiveError::Partition`].
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
                divide_within(total, config.granule, &weights, &capacities)
            }
        };
        Ok(Self {
            due_at: config.window,
            config,
            total,
            parts,
            now: SeenDivision::new(units.clone()),
            units,
            learner,
            in_division: 0,
            last_s: 0.0,
            best: None,
            taken_back: 0,
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
    /// Returns [`AdaptiveError::WrongLength`]; then nothing has changed.
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
        let busy = self.units.iter().zip(times_s).filter(|&(&units, _)| units > 0);
        self.last_s = busy.map(|(_, &t_s)| t_s).fold(0.0, f64::max);
        let drifts = self.learner.drifts().len();
        self.learner.observe(self.report.sweeps, &self.units, times_s)?;
        if self.learner.drifts().len() > drifts {
            // The times of all divisions are those of other speeds.
            self.best = None;
            self.now.forget_times();
        }
        self.now.observe(self.last_s);
        Ok(())
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
        let is_new = !self.report.changes.is_empty() && learnt < JUDGED_AFTER;
        let wanted = if is_new {
            JUDGED_AFTER.min(patience)
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
    /// Returns [`AdaptiveError::Partition`] if the times do not admit a division.
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
        if learnt < self.due_at && !self.learner.has_drifted() && self.find_better().is_none() {
            return Ok(Advice::Keep);
        }
        self.due_at = 2 * learnt;
        self.consider_change()
    }

    fn consider_change(&mut self) -> Result<Advice, AdaptiveError> {
        let mover = self.make_mover();
        let stakes = Stakes {
            steps_left: self.count_left() as f64,
            least_gain: 1.0 - 1.0 / self.config.trigger,
            trial_steps: (self.config.warm_up + JUDGED_AFTER) as f64,
        };
        let way_back = self.propose_way_back(&mover);
        let change = self.learner.consider_change(stakes, &mut |asked| mover.place(asked))?;
        let net_s = |change: &LoopChange| change.saving_s - change.cost_s;
        let most_s = way_back.as_ref().map_or(0.0, net_s);
        let better = change.filter(|change| change.saving_s - change.cost_s > most_s);
        if let Some(change) = better {
            return Ok(self.change_to(LoopChange {
                sweep: self.report.sweeps,
                why: match change.why {
                    ChangeReason::Drift => LoopChangeReason::Drift,
                    _ => LoopChangeReason::Saving,
                },
                units: change.units,
                saving_s: change.saving_s,
                cost_s: change.cost_s,
            }));
        }
        if let Some(way_back) = way_back {
            self.learner.return_to(way_back.units.clone());
            return Ok(self.change_to(way_back));
        }
        if self.find_retry().is_none() {
            self.retries = 0;
        }
        Ok(Advice::Keep)
    }

    fn make_mover(&self) -> Mover {
        let compute_unit_s = self.last_s * self.parts.len() as f64 / self.total.max(1) as f64;
        Mover {
            now: self.units.clone(),
            granule: self.config.granule,
            most: self.config.max_move * self.total as f64,
            price: self.cost.estimate(self.config.move_unit_s, compute_unit_s),
        }
    }

    /// Returns the way back to the fastest division seen if the current one is clearly slower, and the sweeps left win
    /// back what it costs.
    fn propose_way_back(&self, mover: &Mover) -> Option<LoopChange> {
        let best = self.find_better()?;
        let LaidOut { units, cost_s } = mover.place(&best.units);
        let saving_s = self.count_left() as f64 * (self.now.mean_s - best.mean_s);
        let pays = units == best.units && saving_s > cost_s;
        pays.then_some(LoopChange {
            sweep: self.report.sweeps,
            why: LoopChangeReason::Return,
            units,
            saving_s,
            cost_s,
        })
    }

    fn change_to(&mut self, change: LoopChange) -> Advice {
        self.cost.last = count_moved(&self.units, &change.units).1;
        self.units.clone_from(&change.units);
        self.in_division = 0;
        let left = std::mem::replace(&mut self.now, SeenDivision::new(change.units.clone()));
        if left.is_faster_than(self.best.as_ref()) {
            self.best = Some(left);
        }
        let is_return = change.why == LoopChangeReason::Return;
        let advice = Advice::Move(change.units.clone());
        self.report.changes.push(change);
        self.due_at = self.count_patience();
        if is_return {
            self.taken_back += 1;
            let longer = 1 << self.taken_back.min(DOUBLINGS);
            self.due_at = self.due_at.saturating_mul(longer);
        }
        advice
    }

    /// Returns a division in which idle parts get units again, if it is time.
    fn propose_retry(&self) -> Option<Vec<u64>> {
        let config = &self.config;
        let after = config.retry_after.saturating_mul(1 << self.retries.min(DOUBLINGS));
        let is_due = after > 0 && self.in_division >= after && self.count_left() > after;
        is_due.then(|| self.find_retry()).flatten()
    }

    fn find_retry(&self) -> Option<Vec<u64>> {
        let granule = self.config.granule;
        self.learner.propose_retry(&self.units, granule, self.last_s, &self.parts)
    }

    /// Takes the seconds that the last move took, on the rank that needed longest.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::InvalidCost`]; then nothing has changed.
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
        if self.report.changes.is_empty() {
            return self.config.window;
        }
        let usual = self.config.window.max(self.config.cooldown);
        if self.find_better().is_some() { JUDGED_AFTER.min(usual) } else { usual }
    }

    /// Returns the fastest division seen if the current one is clearly slower: a part may have come to the end of its memory.
    fn find_better(&self) -> Option<&SeenDivision> {
        let best = self.best.as_ref();
        best.filter(|best| self.now.is_slower_than(best))
    }

    fn count_left(&self) -> u64 {
        let done = self.report.sweeps;
        (self.config.sweeps).map_or(done.max(LIKELY_LEFT), |all| all.saturating_sub(done))
    }
}

/// Returns `true` for a part without units, and for a time that can be learnt from.
fn is_usable(units: u64, t_s: f64) -> bool {
    let point = Point { d: units, t_s, reps: 1, ci_s: 0.0 };
    units == 0 || point.check().is_ok()
}
