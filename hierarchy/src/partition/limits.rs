//! What a device must not be given.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The most units, if there is such a number.
    pub cap: Option<u64>,
    /// Sizes in units that must not be given out.
    pub forbidden: BTreeSet<u64>,
    /// Memory that the units must fit into.
    pub memory: Option<Memory>,
}

/// The memory of a device and what the work needs of it:
/// `fixed_bytes + bytes_per_unit · d ≤ available_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes that each unit needs.
    pub bytes_per_unit: u64,
    /// Bytes that are needed however many units there are.
    pub fixed_bytes: u64,
    /// Bytes that the device has for both.
    pub available_bytes: u64,
}

impl Memory {
    /// The most units that fit.
    #[must_use]
    pub fn max_units(&self) -> u64 {
        match self.available_bytes.checked_sub(self.fixed_bytes) {
            None => 0,
            Some(free) => free.checked_div(self.bytes_per_unit).unwrap_or(u64::MAX),
        }
    }
}

impl Limits {
    /// The most units that cap and memory allow; [`u64::MAX`] without either.
    #[must_use]
    pub fn max_units(&self) -> u64 {
        let cap = self.cap.unwrap_or(u64::MAX);
        cap.min(self.memory.map_or(u64::MAX, |memory| memory.max_units()))
    }

    /// Whether the device may be given so many units.
    #[must_use]
    pub fn allows(&self, units: u64) -> bool {
        units == 0 || (units <= self.max_units() && !self.forbidden.contains(&units))
    }

    /// The largest size of `function` that is allowed; 0 if none is.
    fn capacity(&self, function: &TimeFunction) -> u64 {
        let max = self.max_units();
        let mut sizes = function.points().iter().rev().map(|&(units, _)| units);
        sizes
            .find(|units| *units <= max && !self.forbidden.contains(units))
            .unwrap_or(0)
    }
}

/// Limits for each function: those given, or no limits for any if none are given.
///
/// # Errors
/// [`PartitionError::LimitsMismatch`] unless there are as many limits as functions.
pub(super) fn one_each<'a>(
    functions: &[TimeFunction],
    limits: &'a [Limits],
) -> Result<Cow<'a, [Limits]>, PartitionError> {
    if limits.is_empty() {
        Ok(vec![Limits::default(); functions.len()].into())
    } else if limits.len() == functions.len() {
        Ok(limits.into())
    } else {
        Err(PartitionError::LimitsMismatch {
            devices: functions.len(),
            limits: limits.len(),
        })
    }
}

/// Refuses `total` units if `copies` of these devices cannot take as many in sum.
///
/// # Errors
/// [`PartitionError::NoDevices`], [`PartitionError::BeyondModels`] or
/// [`PartitionError::BeyondLimits`].
pub(super) fn check_capacity(
    functions: &[TimeFunction],
    limits: &[Limits],
    copies: usize,
    total: u64,
) -> Result<(), PartitionError> {
    if total > 0 && (functions.is_empty() || copies == 0) {
        return Err(PartitionError::NoDevices { total });
    }
    let sum = |units: &mut dyn Iterator<Item = u64>| {
        let one = units.map(u128::from).sum::<u128>();
        u64::try_from(one.saturating_mul(copies as u128)).unwrap_or(u64::MAX)
    };
    let both = || functions.iter().zip(limits);
    let modelled = sum(&mut functions.iter().map(TimeFunction::max_units));
    if modelled < total {
        return Err(PartitionError::BeyondModels {
            total,
            capacity: modelled,
        });
    }
    let capacity = sum(&mut both().map(|(function, limits)| limits.capacity(function)));
    if capacity >= total {
        return Ok(());
    }
    let lost = both().map(|(function, limits)| function.max_units() - limits.capacity(function));
    let (lost, index) = lost
        .zip(0..)
        .max_by_key(|&(lost, index)| (lost, Reverse(index)))
        .unwrap_or_default();
    Err(PartitionError::BeyondLimits {
        total,
        capacity,
        index,
        lost,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_becomes_a_cap() {
        let memory = |bytes_per_unit, fixed_bytes, available_bytes| {
            Memory {
                bytes_per_unit,
                fixed_bytes,
                available_bytes,
            }
            .max_units()
        };
        assert_eq!(memory(8, 4, 20), 2);
        assert_eq!(memory(8, 21, 20), 0);
        assert_eq!(memory(0, 20, 20), u64::MAX);
        assert_eq!(Limits::default().max_units(), u64::MAX);
    }

    #[test]
    fn the_limit_that_costs_most_is_named() {
        let function = || TimeFunction::new(10, vec![(10, 1.0), (20, 2.0)]).expect("valid");
        let functions = [function(), function(), function()];
        let cap = |units| Limits {
            cap: Some(units),
            ..Limits::default()
        };
        let limits = [cap(15), cap(5), Limits::default()];
        let check = |total| check_capacity(&functions, &limits, 2, total);
        assert_eq!(check(60), Ok(()));
        assert_eq!(
            check(61),
            Err(PartitionError::BeyondLimits {
                total: 61,
                capacity: 60,
                index: 1,
                lost: 20
            })
        );
        assert_eq!(
            check(121),
            Err(PartitionError::BeyondModels {
                total: 121,
                capacity: 120
            })
        );
        assert_eq!(
            one_each(&functions, &limits[1..]),
            Err(PartitionError::LimitsMismatch {
                devices: 3,
                limits: 2
            })
        );
    }
}
