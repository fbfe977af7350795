//! The two ways to learn from a loop.

use serde::{Deserialize, Serialize};

use super::{LoopPart, RebalanceConfig};
use crate::learn::{
    Adaptive, AdaptiveError, AdaptivePart, DivisionChange, Drift, Observed, Place, RuggedLearner,
    Stakes, Tuning,
};

/// Sweeps that share disturbances.
const BURST: u64 = 16;

/// The knowledge of the parts' times.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Learner {
    /// Times that grow with the units.
    Smooth(Box<Adaptive>),
    /// Time functions of any shape.
    Rugged(Box<RuggedLearner>),
}

impl Learner {
    pub fn new(
        config: &RebalanceConfig,
        total: u64,
        parts: &[LoopPart],
    ) -> Result<Self, AdaptiveError> {
        let functions: Vec<Vec<(u64, f64)>> =
            parts.iter().filter_map(|part| part.function.clone()).collect();
        let tuning = Tuning {
            granule: config.granule,
            growth: config.growth,
            growth_in_step: config.growth,
            ..Tuning::default()
        };
        if functions.is_empty() {
            return Self::start_smooth(tuning, total, parts);
        }
        if let Some(index) = parts.iter().position(|part| part.function.is_none()) {
            return Err(AdaptiveError::MissingFunction { index });
        }
        let capacities: Vec<Option<u64>> = parts.iter().map(|part| part.max_local).collect();
        let learner = RuggedLearner::new(total, tuning, functions, &capacities)?;
        Ok(Self::Rugged(Box::new(learner)))
    }

    fn start_smooth(tuning: Tuning, total: u64, parts: &[LoopPart]) -> Result<Self, AdaptiveError> {
        let parts = (parts.iter().enumerate()).map(|(node, part)| AdaptivePart {
            node,
            capacity: part.max_local,
            ..AdaptivePart::default()
        });
        let learner = Adaptive::for_own_loop(tuning, total, parts.collect())?;
        Ok(Self::Smooth(Box::new(learner)))
    }

    /// Learns from a sweep.
    pub fn observe(
        &mut self,
        sweep: u64,
        units: &[u64],
        times_s: &[f64],
    ) -> Result<(), AdaptiveError> {
        let burst = sweep / BURST;
        match self {
            Self::Smooth(learner) => {
                learner.observe(&Observed::undisturbed(false, burst, units, times_s))
            }
            Self::Rugged(learner) => {
                learner.observe(burst, times_s);
                Ok(())
            }
        }
    }

    /// Changes the division if that pays, and returns the change.
    pub fn consider_change(
        &mut self,
        stakes: Stakes,
        place: Place,
    ) -> Result<Option<DivisionChange>, AdaptiveError> {
        let (is_changed, changes) = match self {
            Self::Smooth(learner) => (learner.consider_change(stakes, place)?, learner.changes()),
            Self::Rugged(learner) => (learner.consider_change(stakes, place)?, learner.changes()),
        };
        Ok(changes.last().filter(|_| is_changed).cloned())
    }

    /// Returns a division in which parts without units have some, which take half of `step_s` at most, as far as is
    /// known; `None` if there are none with room. The parts with the most units give them, each half of its own at
    /// most. If these are too few for all, parts that were never seen get some first.
    pub fn propose_retry(
        &self,
        units: &[u64],
        granule: u64,
        step_s: f64,
        parts: &[LoopPart],
    ) -> Option<Vec<u64>> {
        let sizes = match self {
            Self::Rugged(learner) => return learner.propose_retry(),
            Self::Smooth(learner) => learner.list_units_within(0.5 * step_s),
        };
        let most = units.iter().sum::<u64>() / (2 * units.len() as u64);
        let mut next = units.to_vec();
        let mut wanted = 0;
        let givable: u64 = units.iter().map(|units| count_givable(*units, granule)).sum();
        let mut idle: Vec<usize> =
            (0..units.len()).filter(|&part| units[part] <= granule).collect();
        idle.sort_by_key(|&part| sizes[part].is_some());
        for part in idle {
            let size = sizes[part].unwrap_or(0).min(most);
            let size = (size / granule * granule).max(granule);
            let room = parts[part].max_local.unwrap_or(u64::MAX) / granule * granule;
            let more = size.min(room).saturating_sub(units[part]) / granule * granule;
            let more = more.min(givable - wanted);
            next[part] += more;
            wanted += more;
        }
        take_from_largest(&mut next, wanted, granule);
        (wanted > 0).then_some(next)
    }

    pub fn take_division(&mut self, units: Vec<u64>) {
        match self {
            Self::Smooth(learner) => learner.take_division(units),
            Self::Rugged(learner) => learner.take_division(units),
        }
    }

    /// Takes a division whose times are known.
    pub fn return_to(&mut self, units: Vec<u64>) {
        match self {
            Self::Smooth(learner) => learner.return_to(units),
            Self::Rugged(learner) => learner.return_to(units),
        }
    }

    pub fn count_since_change(&self) -> u64 {
        match self {
            Self::Smooth(learner) => learner.count_since_change(),
            Self::Rugged(learner) => learner.count_since_change(),
        }
    }

    pub fn has_drifted(&self) -> bool {
        match self {
            Self::Smooth(learner) => learner.has_drifted(),
            Self::Rugged(learner) => learner.has_drifted(),
        }
    }

    pub fn skip_sweep(&mut self) {
        match self {
            Self::Smooth(learner) => learner.skip_steps(1),
            Self::Rugged(learner) => learner.skip_step(),
        }
    }

    pub fn drifts(&self) -> &[Drift] {
        match self {
            Self::Smooth(learner) => learner.drifts(),
            Self::Rugged(learner) => learner.drifts(),
        }
    }
}

/// Returns the units that a part gives to others at most: half of its own.
fn count_givable(units: u64, granule: u64) -> u64 {
    units / 2 / granule * granule
}

/// Takes `wanted` units from the largest parts, from each what it can give.
fn take_from_largest(units: &mut [u64], mut wanted: u64, granule: u64) {
    let mut donors: Vec<usize> = (0..units.len()).collect();
    donors.sort_by_key(|&part| std::cmp::Reverse(units[part]));
    for part in donors {
        let given = count_givable(units[part], granule).min(wanted);
        units[part] -= given;
        wanted -= given;
    }
}
