//! The geometric partitioning algorithm.

use super::apportion::{complete, floors};
use super::continuous::Line;
use super::devices::Devices;
use super::{Partition, PartitionError};
use crate::model::SpeedModel;

/// Divides `total` units so that all devices finish at the same time by their speed functions.
///
/// A line through the origin of the speed plot meets the functions at points of equal time, and that
/// time is the inverse of its slope. A line is sought that gives out less than `D = total` by at most
/// `p` units; its shares are rounded down, and each unit that is left goes to the device whose time
/// with one unit more is smallest. The result is the exact minimum of the largest time over all whole
/// divisions. Takes a few evaluations of every model, and `O(p log p)`; a model made of straight
/// pieces is searched about once, and its [`Piece`](crate::model::Piece) answers the rest.
///
/// Three deviations from the thesis:
/// * the thesis gives what rounding leaves to the devices with the largest shares. A large share says
///   nothing about the price of one unit more: the device may stand at the edge of its memory. By
///   smallest time the same optimum comes out whichever line below `D` it starts from, which is why
///   `p` units below are near enough, where the thesis wants one.
/// * the search is for the time, the inverse of the slope, because that is what the models'
///   closed-form inverse takes.
/// * the region between the lines is cut where the secant meets `D`, and halved only if that makes
///   slow progress: with 100 000 devices every evaluation counts. The search begins at the line that
///   constant speeds would give, or that a sample of very many devices gives, and ends in any case once
///   the times of the two lines are neighbouring numbers.
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
    let slack = (models.len() as u64).min(total) as f64;
    let goal = total as f64 - slack..=total as f64;
    let mut line = Line::find(models, total, goal)?;
    raise(&mut line, total);
    Ok(round(&line.devices, total, &line.shares))
}

/// Among many devices, raises the line until its shares, rounded down, sum to nearly `total` instead
/// of half a unit less each: looking at every model once more is cheaper than giving out so many
/// units one by one. Where that oversteps `total` (equal devices all gain a unit at the same time) the
/// shares stay as they are.
fn raise(line: &mut Line, total: u64) {
    // Without the guard of `floors`: too much where a share is whole, never too little. Were a line
    // taken that gives out more than `total`, some share could be above the optimum's.
    let given = |shares: &[f64]| {
        let add = |sum: u64, &share: &f64| sum.saturating_add(share.floor() as u64);
        shares.iter().fold(0, add)
    };
    let margin = line.shares.len() as u64 / 64;
    let lacking = total
        .saturating_sub(given(&line.shares))
        .saturating_sub(margin);
    if lacking <= margin {
        return;
    }
    let growth = lacking as f64 / (total as f64 * line.elasticity);
    let mut raised = vec![0.0; line.shares.len()];
    let time_s = line.time_s * (1.0 + growth);
    line.devices.give_out(total as f64, time_s, &mut raised);
    if given(&raised) <= total {
        line.shares = raised;
    }
}

/// Rounds `shares` down, and gives each unit that is left to the device whose time with one unit more
/// is smallest: the minimum of the largest time over all whole divisions, provided that none of the
/// rounded shares takes longer than that.
pub(super) fn round(devices: &Devices, total: u64, shares: &[f64]) -> Partition {
    let (units, times_s) = complete(floors(total, shares), total, |i, units| {
        let time_s = devices.time_s(i, units as f64);
        if time_s.is_nan() {
            f64::INFINITY
        } else {
            time_s
        }
    });
    Partition { units, times_s }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpm, PiecewiseFpm, Point};

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
    fn a_line_that_gives_one_device_everything_is_not_taken() {
        // The slow device would get a unit that takes longer than all units take the fast one.
        let points = [(1, 0.6329918588520183), (25, 1.4135917862959295)];
        let point = |(d, t_s)| Point {
            d,
            t_s,
            reps: 1,
            ci_s: 0.0,
        };
        let slow = PiecewiseFpm::from_points(points.map(point).to_vec()).expect("valid");
        let fast = Cpm {
            speed: 17.479899123534775,
        };
        assert_eq!(gpa(&[&slow, &fast], 11).expect("valid").units, [0, 11]);
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
