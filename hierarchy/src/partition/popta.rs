//! Load imbalancing between identical processors.

use super::choices::{Choices, SizeProblem, check_copies};
use super::exact::solve_problem;
use super::stages::Stages;
use super::{Limits, Partition, PartitionError};
use crate::model::TimeFunction;

/// Divides `total` units between `n_devices` identical devices so that the largest time is minimal:
/// [`hpopta`](super::hpopta()) for equal functions.
///
/// Among divisions of that time, one with the fewest active devices is taken, those of the lowest
/// indices. Devices are added until their sizes can sum to `total`. For `m` points and
/// `p = n_devices`, the cost is `O(m·log m + p·m·m/64)` time if the first time that the thresholds allow
/// is possible. The function takes `O(m)` memory, besides that of the sums.
///
/// # Deviations
/// * **POPTA, method**: the paper fills a table of the best time for each number of processors and each
///   load (Lastovetsky and Reddy 2017). Here the time is bisected as in [`hpopta`](super::hpopta()),
///   because that needs no such table. The largest time is the same.
///
/// # Errors
/// Returns [`PartitionError::NoDevices`]; [`PartitionError::BeyondModels`] and [`PartitionError::BeyondLimits`] if the
/// largest sizes sum to less than `total`; [`PartitionError::NotASum`] if no sizes sum to `total`;
/// [`PartitionError::TooLarge`] if the different sums do not fit into memory; [`PartitionError::TooManyCopies`] if the
/// parts of the devices do not fit into memory.
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
    let problem = SizeProblem::new(function, limits, n_devices, total)?;
    // Each device has its units and seconds, besides the memory of the search.
    check_copies(n_devices, Stages::BYTES + size_of::<(u64, f64)>() as u128)?;
    let devices: Vec<&Choices> = vec![&problem.devices[0]; n_devices];
    solve_problem(&problem, &devices, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_no_memory_holds_are_counted_and_refused() {
        let function = TimeFunction::new(1, vec![(1, 1.0)]).expect("valid");
        let limits = Limits::default();
        for n_devices in [1 << 32, usize::MAX] {
            let refused = popta(&function, &limits, n_devices, 60);
            assert!(
                matches!(
                    refused,
                    Err(PartitionError::TooManyCopies { copies: n, .. }) if n == n_devices
                ),
                "{refused:?}"
            );
        }
        let many = popta(&function, &limits, 100_000, 60).expect("possible");
        assert_eq!((many.active(), many.units.len()), (60, 100_000));
    }

    #[test]
    fn the_first_devices_are_active() {
        let function = TimeFunction::new(1, vec![(1, 1.0), (2, 5.0), (3, 2.0)]).expect("valid");
        let partition = popta(&function, &Limits::default(), 3, 6).expect("possible");
        assert_eq!(partition.units, [3, 3, 0]);
    }
}
