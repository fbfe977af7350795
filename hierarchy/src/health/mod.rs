//! The health of devices, by the shape in which their speeds deviate from those of devices like them.
//!
//! [`HealthCheck`] asks for rounds of times, all devices at once, and ends with the [`DeviceHealth`] of each. Let `t_i(x)` be
//! a device's seconds for size `x` in a round and `t(x)` the median of its class. Then `t(x) / t_i(x)` is its speed in that
//! round, so that a disturbance of the whole machine cancels out. Its level is the median over rounds of the median over
//! sizes, all or the largest third. A device is slow if its level is below that of its class by more than 5 % and by more
//! than 3.5 deviations.
//! The shape tells the [cause](SlowCause).

mod apart;
mod check;
mod history;
mod levels;

pub use apart::find_apart;
pub use check::HealthCheck;
pub use history::{DatedChange, find_changes};

use serde::{Deserialize, Serialize};
use strum::Display;

use crate::times::Sample;

/// Rounds of the first look, and of the second one that a suspicion or much noise causes.
pub const ROUNDS: usize = 5;

/// A device to be checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckedDevice {
    /// Its model: devices of equal models and limits are expected to be equally fast.
    pub model: String,
    /// Its limits, such as a CPU quota; empty without any.
    pub limits: String,
    /// The times that it took earlier with all devices at work, by size, in place of a class; empty if they are not known.
    pub history: Vec<Sample>,
}

/// The times of a device in one round, by size in ascending order. `None` stands for a size that was not measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceRound {
    /// Seconds of an update while all devices compute.
    pub together_s: Vec<Option<f64>>,
    /// Seconds of an update while the other devices of the host are idle.
    pub alone_s: Vec<Option<f64>>,
    /// Seconds of the copies of C to the device's own memory and back.
    pub transfers_s: Vec<Option<f64>>,
}

/// A request for a round of measurements of all devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundRequest {
    /// Rounds measured so far.
    pub done: usize,
    /// `true` if each device is to be measured alone too.
    pub is_alone: bool,
}

/// The condition of a device, or of a job as that of its worst device: the last one is the worst.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Health {
    /// As fast as the devices like it, or as earlier.
    Healthy,
    /// Nothing to compare with.
    Unknown,
    /// Slower than the devices like it, or than earlier.
    Slow,
    /// A product that it computed was wrong.
    Wrong,
    /// Not able to compute.
    Failed,
}

/// The likely cause of a slow device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum SlowCause {
    /// Clock, quota or power cap: slower at every size.
    Clock,
    /// The device's memory: slower at large sizes.
    Memory,
    /// The start of an update: slower at small sizes.
    Start,
    /// The link of the device to the host: copies are slower.
    Link,
    /// Memory or a quota that devices of the host share: slower beside its neighbours.
    Neighbours,
    /// Heat: slower in the later half of the check than in the earlier one.
    Heat,
}

/// The times that a device was compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ComparedWith {
    /// Devices of its model with its limits.
    Class,
    /// Devices of its model with other limits: few share its own.
    OtherLimits,
    /// Its own times in earlier runs.
    History,
    /// Nothing.
    Nothing,
}

/// The result of a check for one device.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceHealth {
    /// Its condition.
    pub health: Health,
    /// The likely cause, if it is slow.
    pub cause: Option<SlowCause>,
    /// The times that it was compared with.
    pub compared_with: ComparedWith,
    /// Its speed over that of its class: where it is slow, or else over all sizes. `None` without a comparison.
    pub speed: Option<f64>,
    /// The part by which a device has to be slower to be found beyond the noise; `None` without a comparison.
    pub found_from: Option<f64>,
    /// Speed over that of the class at each size, with all devices at work.
    pub speeds: Vec<Option<f64>>,
    /// Speed over that of the class at each size, with idle neighbours.
    pub alone: Vec<Option<f64>>,
    /// Speed of copies over that of the class at each size.
    pub transfers: Vec<Option<f64>>,
}
