//! Limits on the units of a device.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::PartitionError;
use crate::model::TimeFunction;

/// Limits of one device; the default has none. A size of 0 is always allowed.
///
/// # Example
/// ```
/// use isochron_hierarchy::partition::{Limits, Memory};
///
/// let limits = Limits {
///     cap: Some(700),
///     forbidden: [512].into(),
///     memory: Some(Memory { bytes_per_unit: 8, fixed_bytes: 1000, available_bytes: 6000 }),
/// };
/// assert_eq!(limits.max_units(), 625);
/// assert!(limits.allows(625) && !limits.allows(626) && !limits.allows(512));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Largest number of units, if there is one.
    pub cap: Option<u64>,
    /// Sizes in units that must not be given out.
    pub forbidden: BTreeSet<u64>,
    /// Memory that the units must fit into.
    pub memory: Option<Memory>,
}

/// The memory of a device and the need of the work:
/// `fixed_bytes + bytes_per_unit · d ≤ available_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that each unit needs.
    pub bytes_per_unit: u64,
    /// Bytes that any number of units needs.
    pub fixed_bytes: u64,
    /// Bytes that the device has for both.
    pub available_bytes: u64,
}

impl Memory {
    /// Returns the largest number of units that fits.
    pub fn max_units(&self) -> u64 {
        match self.available_bytes.checked_sub(self.fixed_bytes) {
            None => 0,
            Some(free) => free.checked_div(self.bytes_per_unit).unwrap_or(u64::MAX),
        }
    }
}

impl Limits {
    /// Returns the largest number of units that cap and memory allow; [`u64::MAX`] without either.
    pub fn max_units(&self) -> u64 {
        self.cap.unwrap_or(u64::MAX).min(self.memory.map_or(u64::MAX, |memory| memory.max_units()))
    }

    /// Returns `true` if the device may be given this number of units.
    pub fn allows(&self, units: u64) -> bool {
        units == 0 || (units <= self.max_units() && !self.forbidden.contains(&units))
    }

    /// Returns the largest allowed size of `function`; 0 if none is allowed.
    fn largest_allowed(&self, function: &TimeFunction) -> u64 {
        let mut sizes = function.points().iter().rev().map(|&(units, _)| units);
        sizes.find(|&units| self.allows(units)).unwrap_or(0)
    }
}

/// Returns limits for each device: those given, or the default for all if none are given.
///
/// # Errors
/// Returns [`PartitionError::LimitsMismatch`] unless there are as many limits as devices.
pub(super) fn one_each(
    devices: usize,
    limits: &[Limits],
) -> Result<Cow<'_, [Limits]>, PartitionError> {
    if limits.is_empty() {
        Ok(vec![Limits::default(); devices].into())
    } else if limits.len() == devices {
        Ok(limits.into())
    } else {
        Err(PartitionError::LimitsMismatch { devices, limits: limits.len() })
    }
}

/// Refuses `total` units if `copies` of these devices cannot take them in sum.
///
/// # Errors
/// Returns [`PartitionError::NoDevices`], [`PartitionError::BeyondModels`] or [`PartitionError::BeyondLimits`].
pub(super) fn check_capacity(
    functions: &[TimeFunction],
    limits: &[Limits],
    copies: usize,
    total: u64,
) -> Result<(), PartitionError> {
    if total > 0 && (functions.is_empty() || copies == 0) {
        return Err(PartitionError::NoDevices { total });
    }
    let modelled: Vec<u64> = functions.iter().map(TimeFunction::max_units).collect();
    let reach = sum_copies(&modelled, copies);
    if reach < total {
        return Err(PartitionError::BeyondModels { total, capacity: reach });
    }
    let allowed: Vec<u64> = (functions.iter().zip(limits))
        .map(|(function, limits)| limits.largest_allowed(function))
        .collect();
    let capacity = sum_copies(&allowed, copies);
    if capacity >= total {
        return Ok(());
    }
    let (lost, index) = (modelled.iter().zip(&allowed).zip(0..))
        .map(|((modelled, allowed), index)| (modelled - allowed, index))
        .max_by_key(|&(lost, index)| (lost, Reverse(index)))
        .unwrap_or_default();
    Err(PartitionError::BeyondLimits { total, capacity, index, lost })
}

/// Returns the sum of the units of `copies` nodes with these devices, at most [`u64::MAX`].
fn sum_copies(units: &[u64], copies: usize) -> u64 {
    let node: u128 = units.iter().copied().map(u128::from).sum();
    u64::try_from(node.saturating_mul(copies as u128)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_becomes_a_cap() {
        for (bytes_per_unit, fixed_bytes, max_units) in [(8, 4, 2), (8, 21, 0), (0, 20, u64::MAX)] {
            let memory = Memory { bytes_per_unit, fixed_bytes, available_bytes: 20 };
            assert_eq!(memory.max_units(), max_units);
        }
        assert_eq!(Limits::default().max_units(), u64::MAX);
    }

    #[test]
    fn the_limit_that_costs_most_is_named() {
        let function = TimeFunction::new(10, vec![(10, 1.0), (20, 2.0)]).expect("valid");
        let functions = [function.clone(), function.clone(), function];
        let limits = [Some(15), Some(5), None].map(|cap| Limits { cap, ..Limits::default() });
        assert_eq!(check_capacity(&functions, &limits, 2, 60), Ok(()));
        assert_eq!(
            check_capacity(&functions, &limits, 2, 61),
            Err(PartitionError::BeyondLimits { total: 61, capacity: 60, index: 1, lost: 20 })
        );
        assert_eq!(
            check_capacity(&functions, &limits, 2, 121),
            Err(PartitionError::BeyondModels { total: 121, capacity: 120 })
        );
        assert_eq!(
            one_each(functions.len(), &limits[1..]),
            Err(PartitionError::LimitsMismatch { devices: 3, limits: 2 })
        );
    }
}
