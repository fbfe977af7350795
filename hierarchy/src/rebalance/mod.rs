//! Balancing a loop that a program runs by itself.
//!
//! A stencil, an iterative solver or a particle code does the same work sweep after sweep. [`Rebalance`] takes the
//! seconds that each part needed for its units of a sweep, and says when another division pays. It measures nothing,
//! moves nothing and knows no clock.
//!
//! * A change must save more time in the sweeps left than moving the units costs. Both are learnt: the times as in
//!   [`learn`](crate::learn), the cost from earlier moves.
//! * Noise moves nothing. A change is considered after a [window](RebalanceConfig::window) of sweeps, then after twice
//!   as many, and so on; and after a lasting change of a part's speed. One long time is a disturbance.
//! * A part grows in steps. The fewer sweeps are left, the shorter the steps: if it pages right behind the largest size that it
//!   has done, it loses no more than half of what the sweeps left can win back.
//! * A part that was once given far too much is tried again at sizes in between, as long as it works for less than its share of the
//!   sweep (Clarke's thesis, figure 2.6).
//! * A change that makes two sweeps longer beyond noise is followed by another one, back to the fastest division seen or to a
//!   better one: a part has come to the end of its memory.
//! * Where time is no smooth function of the units, each part brings its [time function](LoopPart::function), and
//!   [`hpopta`](crate::partition::hpopta()) divides.
//!
//! # Example
//! The third part is four times slower than the others:
//! ```
//! use isochron_hierarchy::rebalance::{Advice, LoopPart, Rebalance, RebalanceConfig};
//!
//! let parts = vec![LoopPart::default(); 3];
//! let mut rebalance = Rebalance::new(RebalanceConfig::default(), 900, parts)?;
//! assert_eq!(rebalance.units(), [300, 300, 300]);
//! let mut moves = 0;
//! for _ in 0..100 {
//!     let seconds = [1e-3, 1e-3, 4e-3];
//!     let times_s: Vec<f64> = (rebalance.units().iter().zip(seconds))
//!         .map(|(&units, unit_s)| units as f64 * unit_s)
//!         .collect();
//!     rebalance.observe(&times_s)?;
//!     if let Advice::Move(_) = rebalance.advise()? {
//!         moves += 1;
//!     }
//! }
//! assert_eq!(rebalance.units(), [400, 400, 100]);
//! assert_eq!(moves, 1);
//! # Ok::<(), isochron_hierarchy::learn::AdaptiveError>(())
//! ```
//!
//! # Deviations
//!
//! * **dynamic load balancing**: the thesis divides anew after each iteration until all times are within ε, and the dynamic
//!   partitioning algorithm then stops for good (4.3), while dynamic load balancing goes on (2.3.1, A.5). Here the loop is watched to
//!   its end, and a change must also win back the cost of moving, because noise alone would otherwise move units again and again.
//!
//! # References
//! Clarke's thesis, section 4.3 (dynamic load balancing).

use serde::{Deserialize, Serialize};

use crate::learn::{AdaptiveError, Drift};
use crate::model::TimeFunction;

mod learner;
mod machine;
mod moving;
mod seen;
mod start;

pub use machine::Rebalance;
pub use moving::{count_moved, list_ranges};

/// The settings of a [`Rebalance`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RebalanceConfig {
    /// Divisions are made in multiples of this number of units, except for the rest of the total.
    pub granule: u64,
    /// Sweeps of the whole loop. `None` if the program does not know them; then at least as many are expected as were
    /// done, and 100 at the beginning.
    pub sweeps: Option<u64>,
    /// Units move when the sweep time exceeds the predicted one by this factor.
    pub trigger: f64,
    /// Sweeps with a division before it is judged.
    pub window: u64,
    /// Sweeps from one change to the next, at least. A change that makes the sweeps clearly longer is not kept that long.
    pub cooldown: u64,
    /// Sweeps at the beginning and after each change of which the times are ignored: memory is touched and caches are
    /// filled.
    pub warm_up: u64,
    /// Most sweeps between two checks of the times.
    pub check_every: u64,
    /// Part of all units that may move at once.
    pub max_move: f64,
    /// Largest growth of a part in one change beyond the size that it was seen to do: behind it memory may end. It is less
    /// if the sweeps left could not win back what that would cost.
    pub growth: f64,
    /// Sweeps after which a part that got no units gets a few again. The next try comes after twice as many. 0 never
    /// tries.
    pub retry_after: u64,
    /// Seconds to move a unit, before any move. `None` takes ten times those to compute a unit. The moves themselves tell what a
    /// move takes, and what each of its units.
    pub move_unit_s: Option<f64>,
}

impl Default for RebalanceConfig {
    /// Whole units; 5 % to gain; a window of 3 sweeps; 8 sweeps between two changes and between two checks; one sweep
    /// ignored; no limit to what moves, growth by a factor of 2, and a new try after 100 sweeps.
    fn default() -> Self {
        Self {
            granule: 1,
            sweeps: None,
            trigger: 1.05,
            window: 3,
            cooldown: 8,
            warm_up: 1,
            check_every: 8,
            max_move: 1.0,
            growth: 2.0,
            retry_after: 100,
            move_unit_s: None,
        }
    }
}

impl RebalanceConfig {
    fn check(&self) -> Result<(), AdaptiveError> {
        for (name, value, least) in [
            ("granule", self.granule as f64, 1.0),
            ("trigger", self.trigger, 1.0),
            ("window", self.window as f64, 1.0),
            ("check_every", self.check_every as f64, 1.0),
            ("max_move", self.max_move, 0.0),
            ("growth", self.growth, 1.0),
            ("move_unit_s", self.move_unit_s.unwrap_or(0.0), 0.0),
        ] {
            if !(value >= least && value.is_finite()) {
                return Err(AdaptiveError::InvalidConfig { name, value, least });
            }
        }
        Ok(())
    }
}

/// A part of a loop: a rank, or a device of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoopPart {
    /// Most units that the part may get, if there is a limit.
    pub max_local: Option<u64>,
    /// Expected speed, relative to the other parts. The first division is in proportion to it.
    pub weight: f64,
    /// Seconds for some numbers of units, where time is no smooth function of them. The part then gets one of these
    /// sizes, or nothing. Either all parts have a function or none. It may be of other conditions: the first sweeps
    /// scale it.
    pub function: Option<Vec<(u64, f64)>>,
}

impl Default for LoopPart {
    /// No limit, no function, and the same weight as other parts.
    fn default() -> Self {
        Self { max_local: None, weight: 1.0, function: None }
    }
}

impl LoopPart {
    /// Checks the weight and the time function.
    ///
    /// # Errors
    /// Returns [`AdaptiveError::InvalidConfig`] and [`AdaptiveError::InvalidFunction`].
    pub fn check(&self) -> Result<(), AdaptiveError> {
        if !(self.weight >= 0.0 && self.weight.is_finite()) {
            let (name, value, least) = ("weight", self.weight, 0.0);
            return Err(AdaptiveError::InvalidConfig { name, value, least });
        }
        if let Some(points) = &self.function {
            TimeFunction::new(1, points.clone())?;
        }
        Ok(())
    }
}

/// Advice on the division.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// It stays.
    Keep,
    /// From now on the parts have these units.
    Move(Vec<u64>),
}

/// The reason for a [`LoopChange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoopChangeReason {
    /// It saves more time than moving costs.
    Saving,
    /// A part became slower or faster, and the change saves more than moving costs.
    Drift,
    /// A part without units gets some, to see how fast it is now.
    Retry,
    /// A division from before was faster.
    Return,
}

/// A change of the division.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopChange {
    /// Sweeps done before it.
    pub sweep: u64,
    /// The reason.
    pub why: LoopChangeReason,
    /// Units of each part.
    pub units: Vec<u64>,
    /// Seconds that the sweeps left are expected to take less with it.
    pub saving_s: f64,
    /// Seconds that moving is expected to take.
    pub cost_s: f64,
}

/// Changes and knowledge of a [`Rebalance`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RebalanceReport {
    /// Sweeps done.
    pub sweeps: u64,
    /// Sweeps without a usable time of each busy part, from which nothing was learnt.
    pub unusable: u64,
    /// The last unusable time: the part and its seconds.
    pub last_unusable: Option<(usize, f64)>,
    /// Every change of the division, in order.
    pub changes: Vec<LoopChange>,
    /// Every lasting change of a part's speed that was noticed.
    pub drifts: Vec<Drift>,
    /// Units that the busiest part sent and received, and the seconds of all moves.
    pub moved: (u64, f64),
}
