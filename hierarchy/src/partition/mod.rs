//! Partitioners: the number of computational units of each device.
//!
//! The [overview](crate#when-to-use-which) compares them. [`Partitioner`] chooses by name among those that
//! divide by speed functions.

use serde::{Deserialize, Serialize};

use crate::model::ModelError;

mod apportion;
mod choices;
mod continuous;
mod exact;
mod falling;
mod gpa;
mod hipopta;
mod hpopta;
mod hpopta_search;
mod hybrid;
mod jacobian;
mod limits;
mod npa;
mod partitioner;
mod popta;
mod proportional;
mod sampled;
mod segment_cache;
mod split;
mod stages;
mod sums;

pub use apportion::apportion;
pub use continuous::{EqualTime, continuous};
pub use falling::list_falling;
pub use gpa::gpa;
pub use hipopta::{HierarchicalPartition, hipopta};
pub use hpopta::hpopta;
pub use hpopta_search::{SearchOutcome, hpopta_search};
pub use limits::{Limits, Memory};
pub use npa::{Guess, NpaSolution, SharesOf, npa, npa_from};
pub use partitioner::Partitioner;
pub use popta::popta;
pub use proportional::proportional;
pub use split::{SplitOptions, split};

/// A division of work between devices.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Partition {
    /// Units of each device.
    pub units: Vec<u64>,
    /// Seconds that the models predict for each device.
    pub times_s: Vec<f64>,
}

impl Partition {
    /// Returns the partition in which none of `n` devices gets any units.
    pub(crate) fn idle(n: usize) -> Self {
        Self { units: vec![0; n], times_s: vec![0.0; n] }
    }

    /// Returns the seconds of the device that is predicted to finish last; 0 without devices.
    pub fn max_time_s(&self) -> f64 {
        self.times_s.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the number of devices that get any units.
    pub fn active(&self) -> usize {
        self.units.iter().filter(|&&units| units > 0).count()
    }
}

/// Divides `total` units into `n` parts that differ by at most one unit, the larger ones first. Returns
/// no parts if `n` is 0.
///
/// # Example
/// ```
/// use isochron_hierarchy::partition::even;
///
/// assert_eq!(even(3, 8), [3, 3, 2]);
/// assert_eq!(even(3, 0), [0, 0, 0]);
/// assert!(even(0, 8).is_empty());
/// ```
pub fn even(n: usize, total: u64) -> Vec<u64> {
    let parts = n as u64;
    (0..parts).map(|i| total / parts + u64::from(i < total % parts)).collect()
}

/// Returns the largest relative difference between the times of any two parts that have work,
/// `max_{i,j} |t_i - t_j| / t_i = (t_max - t_min) / t_min`.
///
/// It is 0 if fewer than two parts have work. A part without units has time 0.
///
/// # References
/// Clarke et al. 2012, section 3, step 6 of INPA.
pub fn imbalance(times_s: &[f64]) -> f64 {
    let busy = times_s.iter().copied().filter(|&t| t > 0.0);
    let (min, max) =
        busy.fold((f64::INFINITY, 0.0), |(min, max), t| (f64::min(min, t), f64::max(max, t)));
    if max > min { (max - min) / min } else { 0.0 }
}

/// The reason why work cannot be divided.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The name of a partitioner that does not exist.
    #[error("unknown partitioner \"{0}\": expected one of gpa, npa, hpopta")]
    UnknownPartitioner(String),
    /// The name of a [`Guess`] that does not exist.
    #[error("unknown guess \"{0}\": expected one of even, proportional")]
    UnknownGuess(String),
    /// Points of a device that make no model.
    #[error("device {index}: {reason}")]
    Points {
        /// Index of the device.
        index: usize,
        /// The reason.
        reason: ModelError,
    },
    /// Units in multiples of nothing.
    #[error("a granule of 0 units: use at least 1")]
    ZeroGranule,
    /// Forbidden sizes for an algorithm that does not know sizes.
    #[error("device {index}: forbidden sizes are for the partitioner hpopta")]
    Forbidden {
        /// Index of the device.
        index: usize,
    },
    /// There is no device to give the work to.
    #[error("{total} units and no device to give them to")]
    NoDevices {
        /// Units to divide.
        total: u64,
    },
    /// A constant speed that is negative or not a number.
    #[error("device {index}: speed {speed} units/s is not a finite number of at least 0")]
    InvalidSpeed {
        /// Index of the device.
        index: usize,
        /// Its speed in units per second.
        speed: f64,
    },
    /// No device has a positive speed.
    #[error("{total} units and every device has speed 0")]
    NoSpeed {
        /// Units to divide.
        total: u64,
    },
    /// A model that is empty, or whose time does not grow with the problem size.
    #[error(
        "device {index}: its model gives {time_s} s for {d} units; it is empty or inadmissible"
    )]
    InvalidModel {
        /// Index of the device.
        index: usize,
        /// Size in units at which the model was evaluated.
        d: f64,
        /// Seconds that the model gives for that size.
        time_s: f64,
    },
    /// Limits for some of the devices only.
    #[error("{devices} devices and limits for {limits} of them: give them for each or for none")]
    LimitsMismatch {
        /// Number of devices.
        devices: usize,
        /// Number of limits.
        limits: usize,
    },
    /// More work than all time functions reach in sum.
    #[error(
        "{total} units, and the time functions reach {capacity} in sum: measure larger sizes, or divide fewer units"
    )]
    BeyondModels {
        /// Units to divide.
        total: u64,
        /// Sum of the largest sizes that the functions have times for, in units.
        capacity: u64,
    },
    /// More work than the limits of the devices allow.
    #[error(
        "{total} units, and the devices' limits allow {capacity} in sum; device {index} loses most, \
         {lost} units"
    )]
    BeyondLimits {
        /// Units to divide.
        total: u64,
        /// Largest number of units that the limits allow.
        capacity: u64,
        /// Index of the device that loses most units to its limits.
        index: usize,
        /// Number of units that it loses.
        lost: u64,
    },
    /// An amount that is not a sum of possible sizes.
    #[error("{total} units are no sum of possible sizes; the nearest below is {below} units")]
    NotASum {
        /// Units to divide.
        total: u64,
        /// The largest possible amount below.
        below: u64,
    },
    /// The sums of sizes are too many for memory.
    #[error(
        "{bytes} bytes would be needed to tell all sums of sizes apart: use a larger granule, or measure \
         at multiples of one size"
    )]
    TooLarge {
        /// Bytes that would be needed, at least.
        bytes: u128,
    },
    /// Identical devices or nodes are too many for memory.
    #[error(
        "{bytes} bytes would be needed to give each of {copies} identical devices or nodes its part"
    )]
    TooManyCopies {
        /// Bytes that would be needed.
        bytes: u128,
        /// Number of devices or nodes.
        copies: usize,
    },
}
