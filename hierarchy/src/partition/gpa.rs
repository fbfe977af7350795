//! The geometric partitioning algorithm.

use super::apportion::{give_rest, round_down};
use super::continuous::EqualTimeLine;
use super::segment_cache::SegmentCache;
use super::{Partition, PartitionError};
use crate::model::SpeedModel;

/// Divides `total` units so that all devices finish at the same time by their speed functions.
///
/// A line through the origin of the speed plot meets the functions at points of equal time, the inverse
/// of its slope. The algorithm finds a line that gives out between `D - p` and `D = total` units, and rounds
/// the shares down. Each unit left goes to the device whose time with one unit more is smallest.
/// The result is the exact minimum of the largest time over all divisions into whole units. The cost is
/// a few evaluations of every model, and `O(p log p)`. A model made of straight segments is searched
/// about once; its [`SpeedSegment`](crate::model::SpeedSegment) answers the other evaluations.
///
/// With constant models the result is that of [`proportional`](super::proportional()).
///
/// # Deviations
/// * **GPA, integer solution**: the thesis gives the units left to the largest shares (section 4.1).
///   Here each goes to the device that finishes it first, because that is optimal. A large share says
///   nothing about the cost of one unit more: the device may stand at the edge of its memory.
/// * **end of GPA**: the thesis bisects to less than one unit between lines (section 4.1). Here `p`
///   units below `D` suffice, because the integer solution reaches the same optimum from any line
///   below `D`. The search also ends when the times of two lines are neighbouring numbers.
/// * **variable of GPA**: the thesis searches for a slope (section 4.1). Here for its inverse, the
///   time, because the closed-form inverse of the models takes a time.
/// * **steps of GPA**: the thesis bisects the region between two lines (section 4.1). Here a secant
///   cuts it, because with 100 000 devices every evaluation counts. The region is halved only if the
///   secants make slow progress. The search begins at the line of constant speeds, or of a sample of
///   very many devices.
///
/// # Errors
/// Returns [`PartitionError::NoDevices`] if there are units and no models; [`PartitionError::InvalidModel`] for a model
/// that is empty or whose time does not grow with the problem size.
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
        return Ok(Partition::idle(models.len()));
    }
    let slack = (models.len() as u64).min(total) as f64;
    let goal = total as f64 - slack..=total as f64;
    let mut line = EqualTimeLine::find(models, total, goal)?;
    raise_line(&mut line, total);
    Ok(round_shares(&line.devices, total, &line.shares))
}

/// Raises the line, if there are many devices, until its shares rounded down sum to nearly `total`.
///
/// Rounded down, the shares of the first line lack half a unit each on average. One more evaluation of
/// every model is cheaper than giving out these units one by one. A line that oversteps `total`, as when
/// equal devices all gain a unit at the same time, must not be taken: some share could exceed the
/// optimum's.
fn raise_line(line: &mut EqualTimeLine, total: u64) {
    let margin = line.shares.len() as u64 / 64;
    let lacking = total.saturating_sub(sum_whole_units(&line.shares)).saturating_sub(margin);
    if lacking <= margin {
        return;
    }
    let growth = lacking as f64 / (total as f64 * line.elasticity);
    let mut raised = vec![0.0; line.shares.len()];
    let time_s = line.time_s * (1.0 + growth);
    line.devices.give_out(total as f64, time_s, &mut raised);
    if sum_whole_units(&raised) <= total {
        line.shares = raised;
    }
}

/// Returns the sum of the shares rounded down. Without the guard of [`round_down`] it may be too large
/// if a share is whole, and never too small.
fn sum_whole_units(shares: &[f64]) -> u64 {
    (shares.iter()).fold(0, |sum, share| sum.saturating_add(share.floor() as u64))
}

/// Rounds `shares` down, and gives each unit left to the device whose time with one unit more is
/// smallest.
///
/// The result has the minimal largest time over all divisions into whole units if none of the rounded
/// shares takes longer than that.
pub(super) fn round_shares(devices: &SegmentCache, total: u64, shares: &[f64]) -> Partition {
    let (units, times_s) = give_rest(round_down(total, shares), total, |i, units| {
        let time_s = devices.time_s(i, units as f64);
        if time_s.is_nan() { f64::INFINITY } else { time_s }
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
        let points = [(1, 0.6329918588520183), (25, 1.4135917862959295)].map(|(d, t_s)| Point {
            d,
            t_s,
            reps: 1,
            ci_s: 0.0,
        });
        let slow = PiecewiseFpm::from_points(points.to_vec()).expect("valid");
        let fast = Cpm { speed: 17.479899123534775 };
        assert_eq!(gpa(&[&slow, &fast], 11).expect("valid").units, [0, 11]);
    }

    #[test]
    fn speeds_far_apart_terminate() {
        let (slow, fast) = (Cpm { speed: 1e-9 }, Cpm { speed: 1e12 });
        assert_eq!(gpa(&[&slow, &fast], 1 << 50).expect("valid").units, [0, 1 << 50]);
    }
}
