//! Partitioners: how many computational units each device gets.
//!
//! [`proportional()`] divides by constant speeds, [`gpa()`] by speed functions, [`even`] not at all;
//! [`npa()`] by speed functions too, numerically, which suits smooth ones of any shape.
//! [`apportion()`] turns real-valued shares into whole ones, [`continuous()`] is the real-valued
//! optimum, [`hybrid`] the solver that `npa` rests on.
//!
//! Those make all devices finish together. For time functions of any shape that need not be best:
//! [`hpopta()`] minimises the largest time, [`popta()`] does so for identical devices, [`hipopta()`] for
//! identical nodes of unlike devices, under the [`Limits`] of each; [`hpopta_search()`] is the algorithm
//! as published, to compare with.
//!
//! [`Partitioner`] chooses between those that divide by speed functions.

use serde::{Deserialize, Serialize};

pub mod apportion;
mod choices;
pub mod continuous;
mod devices;
mod exact;
pub mod gpa;
pub mod hipopta;
pub mod hpopta;
pub mod hpopta_search;
pub mod hybrid;
pub mod jacobian;
pub mod limits;
pub mod npa;
pub mod partitioner;
pub mod popta;
pub mod proportional;
mod stages;
mod sums;

pub use apportion::apportion;
pub use continuous::{EqualTime, continuous};
pub use gpa::gpa;
pub use hipopta::{HierarchicalPartition, hipopta};
pub use hpopta::hpopta;
pub use hpopta_search::{Search, hpopta_search};
pub use limits::{Limits, Memory};
pub use npa::{Guess, NpaSolution, SharesOf, npa, npa_from};
pub use partitioner::Partitioner;
pub use popta::popta;
pub use proportional::proportional;

/// A division of work between devices.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Partition {
    /// Units of each device.
    pub units: Vec<u64>,
    /// Seconds that the models predict for each device.
    pub times_s: Vec<f64>,
}

impl Partition {
    /// Seconds of the device that is predicted to finish last; 0 without devices.
    #[must_use]
    pub fn max_time_s(&self) -> f64 {
        self.times_s.iter().copied().fold(0.0, f64::max)
    }

    /// Number of devices that get something.
    #[must_use]
    pub fn active(&self) -> usize {
        self.units.iter().filter(|&&units| units > 0).count()
    }
}

/// `total` units in `n` parts that differ by at most one unit, the larger ones first. Empty if `n` is
/// 0.
///
/// # Example
/// ```
/// assert_eq!(isochron_hierarchy::partition::even(3, 8), [3, 3, 2]);
/// ```
#[must_use]
pub fn even(n: usize, total: u64) -> Vec<u64> {
    let parts = n as u64;
    (0..parts)
        .map(|i| total / parts + u64::from(i < total % parts))
        .collect()
}

/// Why work cannot be divided.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The name of a partitioner that does not exist.
    #[error("partitioner \"{name}\" is none of gpa, npa, hpopta")]
    UnknownPartitioner {
        /// The name given.
        name: String,
    },
    /// There is nobody to give the work to.
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
        /// Units that the model was asked about.
        d: f64,
        /// Seconds that it answered.
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
    /// More work than all time functions together reach.
    #[error("{total} units, and the time functions reach {capacity} in sum")]
    BeyondModels {
        /// Units to divide.
        total: u64,
        /// The most units that the functions have times for.
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
        /// The most units that are allowed.
        capacity: u64,
        /// Index of the device whose limits cost most.
        index: usize,
        /// Units that its limits cost.
        lost: u64,
    },
    /// No possible sizes have that sum.
    #[error("{total} units are no sum of possible sizes; the nearest below is {below} units")]
    NotASum {
        /// Units to divide.
        total: u64,
        /// The largest possible amount below.
        below: u64,
    },
    /// An exact solution would need too much memory.
    #[error("{bytes} bytes would be needed to tell all sums of sizes apart: use a larger granule")]
    TooLarge {
        /// Bytes that would be needed, at least.
        bytes: u128,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_parts_differ_by_at_most_one() {
        assert_eq!(even(3, 8), [3, 3, 2]);
        assert_eq!(even(3, 0), [0, 0, 0]);
        assert!(even(0, 8).is_empty());
    }
}
