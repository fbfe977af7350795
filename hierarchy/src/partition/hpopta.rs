//! Load imbalancing: the optimum for time functions of any shape.

use super::choices::{Choices, Problem};
use super::exact::partition;
use super::limits::one_each;
use super::{Limits, Partition, PartitionError};
use crate::model::TimeFunction;

/// Divides `total` units so that the largest time is minimal, whatever the shapes of the functions:
///
/// `min max_i t_i(x_i)` subject to `Σ x_i = total`, `x_i` a size of function `i` or 0.
///
/// A balanced division is the optimum only where more units never take less time. Here it need not
/// be balanced, and some devices may be idle.
///
/// * Of all divisions of that time, one with the fewest active devices is taken.
/// * What is left of choice is fixed, so that equal input has equal output. With `τ` the optimal time
///   and `σ_i` the largest size of device `i` within `τ`, the devices stand in descending order of
///   `σ_i`, equal ones by index. If the first `k` of them do, where `k` is the least number that could,
///   then they are active. Beginning with the last, each takes the size of least time, then of most
///   units, with which those before it can complete the division.
///
/// `limits` holds one entry for each function, or none at all if there are none.
///
/// # How
/// This solves the problem of the published algorithm, which
/// [`hpopta_search`](super::hpopta_search()) follows, in another way. The least `τ` with
/// `Σ σ_i(τ) ≥ total` bounds the optimal time from below. Whether a time is possible is decided by
/// adding device after device to a set of reachable sums, one bit each; of these only the few are kept
/// from which the thresholds of the devices to come still lead to `total`. Near the optimum the
/// thresholds exceed `total` by about one size, so that this takes O(p·m·m/64) steps for `p` functions
/// of `m` points, besides O(p·m·log(p·m)) to sort them. Divisions that exist only at later times cost
/// up to O(p·m·n/64) steps for each of O(log(p·m)) times, where `n` is `total` in units of the greatest
/// common divisor of all sizes; the number of active devices, where it is not the least that the
/// thresholds allow, up to O(p·m·n). Memory: O(p·m + n·√p), where the second term stays below
/// a gibibyte. Sums of huge sizes, too far apart for a bit each, are listed instead.
///
/// # Errors
/// [`PartitionError::LimitsMismatch`]; [`PartitionError::NoDevices`];
/// [`PartitionError::BeyondModels`] and [`PartitionError::BeyondLimits`] if the largest sizes sum up to
/// less than `total`; [`PartitionError::NotASum`] if no sizes sum up to `total`;
/// [`PartitionError::TooLarge`] if that many different sums do not fit into memory.
///
/// # Example
/// Two units on one device take longer than four:
/// ```
/// use isochron_hierarchy::model::TimeFunction;
/// use isochron_hierarchy::partition::hpopta;
///
/// let first = TimeFunction::new(1, vec![(1, 2.0), (2, 5.0), (3, 6.0), (4, 3.0)])?;
/// let second = TimeFunction::new(1, vec![(1, 1.0), (2, 4.0), (3, 9.0)])?;
/// let partition = hpopta(&[first, second], &[], 5)?;
/// assert_eq!(partition.units, [4, 1]);
/// assert_eq!(partition.times_s, [3.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Khaleghzadeh, Reddy and Lastovetsky, the problem and supplement, sections 3 and 7.
pub fn hpopta(
    functions: &[TimeFunction],
    limits: &[Limits],
    total: u64,
) -> Result<Partition, PartitionError> {
    let problem = Problem::new(functions, &one_each(functions, limits)?, 1, total)?;
    let devices: Vec<&Choices> = problem.devices.iter().collect();
    partition(&problem, &devices, total)
}
