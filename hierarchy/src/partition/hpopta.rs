//! Load imbalancing: the optimum for time functions of any shape.

use super::choices::{Choices, SizeProblem};
use super::exact::solve_problem;
use super::limits::one_each;
use super::{Limits, Partition, PartitionError};
use crate::model::TimeFunction;

/// Divides `total` units so that the largest time is minimal, whatever the shapes of the functions:
///
/// `min max_i t_i(x_i)` subject to `Σ x_i = total`, `x_i` a size of function `i` or 0.
///
/// The optimum need not be balanced, and some devices may be idle. Of all divisions of the optimal time,
/// one with the fewest active devices is taken. The remaining choice is fixed, so that equal input has
/// equal output. Let `τ` be the optimal time and `σ_i` the largest size of device `i` within `τ`. The
/// devices are in descending order of `σ_i`, equal ones by index. If the least number of devices that
/// could suffice by `σ_i` does suffice, the first ones are active. The last device chooses first. Each
/// takes the size of least time, then of most units, with which the devices before it can complete the
/// division.
///
/// `limits` holds one entry for each function, or none at all.
///
/// # Cost
/// The least `τ` with `Σ σ_i(τ) ≥ total` bounds the optimal time from below. To decide whether a time is
/// possible, device after device is added to a set of reachable sums, one bit each. The set keeps only
/// the sums from which the `σ_i` of the remaining devices still lead to `total`. Sums of huge sizes, too
/// far apart for a bit each, are listed instead. For `p` functions of `m` points, and `n` the total in
/// units of the greatest common divisor of all sizes, the steps are
/// * `O(p·m·log(p·m))` to sort, and `O(p·m·m/64)` to add all devices near the optimum;
/// * up to `O(p·m·n/64)` for each of `O(log(p·m))` times, if divisions exist only at later times;
/// * up to `O(p·m·n)`, if the active devices are more than the least that the `σ_i` allow.
///
/// Memory is `O(p·m + n·√p)`, with the second term below a gibibyte.
///
/// # Deviations
/// * **HPOPTA, time functions**: the paper takes measured times alone (supplement, section 6). Here,
///   while a balancing measures, it reads the fitted model at multiples of a thousandth of the total, because few sizes
///   are measured then. `isochron balance` refuses it for that reason, and `isochron mxm` takes measured times alone.
/// * **HPOPTA, method**: the paper searches the tree of all divisions (supplement, section 7). Here
///   sets of reachable sums decide whether a time is possible, because the search takes longer. It can
///   grow exponentially if the sizes have many different sums. The largest time is the same.
///   [`hpopta_search`](super::hpopta_search()) follows the paper.
///
/// # Errors
/// Returns [`PartitionError::LimitsMismatch`]; [`PartitionError::NoDevices`]; [`PartitionError::BeyondModels`] and
/// [`PartitionError::BeyondLimits`] if the largest sizes sum to less than `total`; [`PartitionError::NotASum`] if no
/// sizes sum to `total`; [`PartitionError::TooLarge`] if the different sums do not fit into memory.
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
/// Khaleghzadeh, Reddy and Lastovetsky, the paper for the problem; supplement, sections 3 and 7.
pub fn hpopta(
    functions: &[TimeFunction],
    limits: &[Limits],
    total: u64,
) -> Result<Partition, PartitionError> {
    let problem = SizeProblem::new(functions, &one_each(functions.len(), limits)?, 1, total)?;
    let devices: Vec<&Choices> = problem.devices.iter().collect();
    solve_problem(&problem, &devices, total)
}
