//! The geometric partitioning algorithm.

use super::apportion::{complete, floors};
use super::continuous::equal_time;
use super::{Partition, PartitionError};
use crate::model::SpeedModel;

/// Divides `total` units so that all devices finish at the same time by their speed functions.
///
/// A line through the origin of the speed plot meets the functions at points of equal time, and that
/// time is the inverse of its slope. The line through `(D/p, max s_i(D/p))` gives out at most
/// `D = total` units, the line through `(D/p, min s_i(D/p))` at least `D`; between them lies a line
/// that gives out less than `D` by at most `p` units. Its shares are rounded down, and what is then
/// left is given out unit by unit. Takes `O(p log p)` besides a few evaluations of every model.
///
/// Three deviations from the thesis:
/// * each unit that rounding leaves goes to the device whose time with one unit more is smallest,
///   where the thesis serves the largest shares first. A large share says nothing about the price of
///   one unit more (the device may stand at the edge of its memory); by smallest time the result is
///   the exact minimum of the largest time over all whole divisions, from whichever line below `D`
///   it starts. That is also why `p` units below are near enough, where the thesis wants one unit.
/// * the search is for the time, the inverse of the slope, because that is what the models'
///   closed-form inverse takes.
/// * the region between the lines is cut where the secant meets `D`, and bisected only if that makes
///   slow progress: with 100 000 devices every evaluation counts. It ends in any case once the two
///   times are neighbouring numbers.
///
/// With constant models the result is that of [`proportional`](super::proportional()).
///
/// # Errors
/// [`PartitionError::NoDevices`] if there are units and no models;
/// [`PartitionError::InvalidModel`] for a model that is empty or whose time does not grow with the
/// problem size.
///
/// # Example
/// ```
/// use isochron_hierarchy::model::{Cpm, SpeedModel};
/// use isochron_hierarchy::partition::gpa;
///
/// let (slow, fast) = (Cpm { speed: 10.0 }, Cpm { speed: 30.0 });
/// let models: [&dyn SpeedModel; 2] = [&slow, &fast];
/// let partition = gpa(&models, 100)?;
/// assert_eq!(partition.units, [25, 75]);
/// assert_eq!(partition.times_s, [2.5, 2.5]);
/// # Ok::<(), isochron_hierarchy::partition::PartitionError>(())
/// ```
///
/// # References
/// Clarke's thesis, section 4.1; Lastovetsky and Reddy 2007.
pub fn gpa(models: &[&dyn SpeedModel], total: u64) -> Result<Partition, PartitionError> {
    if total == 0 {
        return Ok(Partition {
            units: vec![0; models.len()],
            times_s: vec![0.0; models.len()],
        });
    }
    let slack = total.min(models.len() as u64) as f64;
    let goal = total as f64 - slack..=total as f64;
    let line = equal_time(models, total, goal)?;
    Ok(round(models, total, &line.shares))
}

/// The whole division nearest above `shares`, the minimum of the largest time if none of them lies
/// above the line of equal time by a whole unit.
pub(super) fn round(models: &[&dyn SpeedModel], total: u64, shares: &[f64]) -> Partition {
    let units = complete(floors(total, shares), total, |i, units| {
        Some(models[i].time_s(units as f64))
    });
    let time = |(model, &units): (&&dyn SpeedModel, &u64)| model.time_s(units as f64);
    let times_s = models.iter().zip(&units).map(time).collect();
    Partition { units, times_s }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpm, PiecewiseFpm};

    #[test]
    fn impossible_requests_are_refused() {
        assert_eq!(gpa(&[], 0), Ok(Partition::default()));
        assert_eq!(gpa(&[], 4), Err(PartitionError::NoDevices { total: 4 }));
        let (good, empty) = (Cpm { speed: 1.0 }, PiecewiseFpm::new());
        assert!(matches!(
            gpa(&[&good, &empty], 4),
            Err(PartitionError::InvalidModel { index: 1, .. })
        ));
        for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let bad = Cpm { speed };
            assert!(matches!(
                gpa(&[&bad, &good], 4),
                Err(PartitionError::InvalidModel { index: 0, .. })
            ));
        }
    }

    #[test]
    fn speeds_far_apart_terminate() {
        let (slow, fast) = (Cpm { speed: 1e-9 }, Cpm { speed: 1e12 });
        assert_eq!(
            gpa(&[&slow, &fast], 1 << 50).expect("valid").units,
            [0, 1 << 50]
        );
    }
}
