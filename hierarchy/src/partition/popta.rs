//! Load imbalancing between identical processors.

use super::choices::{Choices, Problem};
use super::exact::partition;
use super::{Limits, Partition, PartitionError};
use crate::model::TimeFunction;

/// Divides `total` units between `n_devices` identical devices so that the largest time is minimal:
/// [`hpopta`](super::hpopta()) for equal functions.
///
/// Among divisions of that time, one with the fewest active devices is taken, those of the lowest
/// indices. Whoever is active among identical devices may as well come first; so the first stage at
/// which the sum of the devices' sizes can be `total` is that number, and nothing has to be counted.
/// Time O(m·log m + p·m·m/64) as long as the thresholds are met, and O(m) memory for the function
/// besides that of the sums.
///
/// The published algorithm fills a table of the best time for each number of processors and each load;
/// here the time is bisected as in [`hpopta`](super::hpopta()). The results take equally long.
///
/// # Errors
/// As [`hpopta`](super::hpopta()), without [`PartitionError::LimitsMismatch`].
///
/// # Example
/// ```
/// use isochron_hierarchy::model::TimeFunction;
/// use isochron_hierarchy::partition::{Limits, popta};
///
/// let function = TimeFunction::new(1, vec![(1, 1.0), (2, 5.0), (3, 2.0)])?;
/// let partition = popta(&function, &Limits::default(), 3, 6)?;
/// assert_eq!(partition.units, [3, 3, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Lastovetsky and Reddy 2017; Khaleghzadeh, Reddy and Lastovetsky, supplement, section 5.4.
pub fn popta(
    function: &TimeFunction,
    limits: &Limits,
    n_devices: usize,
    total: u64,
) -> Result<Partition, PartitionError> {
    let (function, limits) = (std::slice::from_ref(function), std::slice::from_ref(limits));
    let problem = Problem::new(function, limits, n_devices, total)?;
    let devices: Vec<&Choices> = vec![&problem.devices[0]; n_devices];
    partition(&problem, &devices, total)
}
