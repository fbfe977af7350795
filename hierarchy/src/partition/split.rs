//! From measured points to a partition, in one call.

use super::limits::one_each;
use super::sampled::{add_rest, divide_sampled};
use super::{Limits, Partition, PartitionError, Partitioner};
use crate::model::{Fit, Point, SpeedModel, SpeedSegment};

/// The way from points to a partition. The default suits times that grow with the size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitOptions {
    /// The model that is made of the points of each device. The default leaves points out that contradict it; for times of
    /// any shape and [`Partitioner::Hpopta`] take [`Fit::RawPiecewise`], which goes through all of them.
    pub fit: Fit,
    /// The algorithm that divides by these models.
    pub partitioner: Partitioner,
    /// Units come in multiples of this number, at least 1. The rest of the total goes to one device.
    pub granule: u64,
    /// Limits of each device; none at all if this is empty. Forbidden sizes are for [`Partitioner::Hpopta`].
    pub limits: Vec<Limits>,
}

impl Default for SplitOptions {
    fn default() -> Self {
        Self {
            fit: Fit::default(),
            partitioner: Partitioner::default(),
            granule: 1,
            limits: Vec::new(),
        }
    }
}

/// Splits `total` units over devices by their measured points: units and seconds, in any order.
///
/// A limit that binds does not stop the others from finishing together: the device gets its limit, and
/// they divide the rest.
///
/// # Errors
/// Returns [`PartitionError::Points`] for points that make no model; [`PartitionError::ZeroGranule`];
/// [`PartitionError::LimitsMismatch`] and [`PartitionError::BeyondLimits`]; [`PartitionError::Forbidden`] for forbidden
/// sizes without [`Partitioner::Hpopta`]; and the errors of the [partitioner](Partitioner::divide).
///
/// # Example
/// ```
/// use isochron_hierarchy::{SplitOptions, split};
///
/// // The second device is three times as fast, until its memory is full at 600 units.
/// let slow: &[(u64, f64)] = &[(100, 1.0), (1000, 10.0)];
/// let fast: &[(u64, f64)] = &[(300, 1.0), (600, 2.0), (900, 9.0)];
/// let parts = split(400, &[slow, fast], &SplitOptions::default())?;
/// assert_eq!(parts.units, [100, 300]);
/// let parts = split(1000, &[slow, fast], &SplitOptions::default())?;
/// assert_eq!(parts.units, [300, 700]);
/// # Ok::<(), isochron_hierarchy::partition::PartitionError>(())
/// ```
pub fn split(
    total: u64,
    points: &[&[(u64, f64)]],
    how: &SplitOptions,
) -> Result<Partition, PartitionError> {
    let models = points.iter().enumerate();
    let models = models.map(|(index, points)| fit_points(index, points, how.fit));
    let models: Vec<Box<dyn SpeedModel>> = models.collect::<Result<_, _>>()?;
    let models: Vec<&dyn SpeedModel> = models.iter().map(AsRef::as_ref).collect();
    how.divide(&models, total)
}

impl SplitOptions {
    /// Divides `total` units over devices of these models as [`split`] does; `fit` is not used.
    ///
    /// # Errors
    /// Fails as [`split`] does.
    pub fn divide(
        &self,
        models: &[&dyn SpeedModel],
        total: u64,
    ) -> Result<Partition, PartitionError> {
        if self.granule == 0 {
            return Err(PartitionError::ZeroGranule);
        }
        let limits = one_each(models.len(), &self.limits)?;
        if self.partitioner == Partitioner::Hpopta {
            return divide_sampled(models, total, self.granule, &limits);
        }
        let forbidden = limits.iter().position(|limits| !limits.forbidden.is_empty());
        match forbidden {
            Some(index) => Err(PartitionError::Forbidden { index }),
            None => divide_within(models, total, self, &limits),
        }
    }
}

fn fit_points(
    index: usize,
    points: &[(u64, f64)],
    fit: Fit,
) -> Result<Box<dyn SpeedModel>, PartitionError> {
    let points = points.iter().map(|&(d, t_s)| Point { d, t_s, reps: 1, ci_s: 0.0 });
    fit.model(&points.collect::<Vec<_>>())
        .map_err(|reason| PartitionError::Points { index, reason })
}

/// Divides whole granules by an algorithm for times that grow. Devices that reach their limits get them,
/// and the others divide the rest: that is the division of least time if times grow.
fn divide_within(
    models: &[&dyn SpeedModel],
    total: u64,
    how: &SplitOptions,
    limits: &[Limits],
) -> Result<Partition, PartitionError> {
    let (granule, rest) = (how.granule, total % how.granule);
    let scaled: Vec<InGranules<'_>> =
        models.iter().map(|&model| InGranules { model, granule }).collect();
    let caps: Vec<u64> = limits.iter().map(|limits| limits.max_units() / granule).collect();
    let mut left = total / granule;
    check_caps(&caps, left, total, granule)?;
    let mut granules = vec![0; models.len()];
    let mut open: Vec<usize> = (0..models.len()).collect();
    loop {
        let among: Vec<&dyn SpeedModel> = open.iter().map(|&i| &scaled[i] as _).collect();
        let parts = how.partitioner.divide(&among, left)?.units;
        for (&index, part) in open.iter().zip(parts) {
            granules[index] = part.min(caps[index]);
        }
        let (full, others): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&index| granules[index] == caps[index]);
        let given: u64 = open.iter().map(|&index| granules[index]).sum();
        if given == left {
            break;
        }
        left -= full.iter().map(|&index| caps[index]).sum::<u64>();
        open = others;
    }
    let mut units: Vec<u64> = granules.iter().map(|granules| granules * granule).collect();
    add_rest(models, total, rest, limits, &mut units)?;
    let times_s = models.iter().zip(&units);
    let times_s = times_s.map(|(model, &units)| model.time_s(units as f64));
    Ok(Partition { times_s: times_s.collect(), units })
}

/// Refuses more granules than the caps allow in sum.
fn check_caps(caps: &[u64], left: u64, total: u64, granule: u64) -> Result<(), PartitionError> {
    let capacity = caps.iter().copied().fold(0, u64::saturating_add);
    if left == 0 || caps.is_empty() || capacity >= left {
        return Ok(());
    }
    let tightest = caps.iter().copied().enumerate().min_by_key(|&(_, cap)| cap);
    let (index, cap) = tightest.unwrap_or_default();
    Err(PartitionError::BeyondLimits {
        total,
        capacity: capacity * granule,
        index,
        lost: (left - cap) * granule,
    })
}

/// A model that counts granules.
#[derive(Debug)]
struct InGranules<'m> {
    model: &'m dyn SpeedModel,
    granule: u64,
}

impl SpeedModel for InGranules<'_> {
    fn speed(&self, d: f64) -> f64 {
        let granule = self.granule as f64;
        self.model.speed(d * granule) / granule
    }

    fn time_s(&self, d: f64) -> f64 {
        self.model.time_s(d * self.granule as f64)
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        self.model.speed_derivative(d * self.granule as f64)
    }

    fn units_within(&self, t_s: f64) -> f64 {
        self.model.units_within(t_s) / self.granule as f64
    }

    fn segment_within(&self, t_s: f64) -> Option<SpeedSegment> {
        // A segment holds units; those of one unit are the model's own.
        self.model.segment_within(t_s).filter(|_| self.granule == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: &[(u64, f64)] = &[(10, 1.0), (100, 10.0)];
    const FAST: &[(u64, f64)] = &[(30, 1.0), (300, 10.0)];

    fn with_caps<const N: usize>(caps: [Option<u64>; N]) -> SplitOptions {
        let limits = caps.map(|cap| Limits { cap, ..Limits::default() });
        SplitOptions { limits: limits.to_vec(), ..SplitOptions::default() }
    }

    #[test]
    fn every_partitioner_splits_by_points() {
        for partitioner in [Partitioner::Gpa, Partitioner::Npa, Partitioner::Hpopta] {
            let how = SplitOptions { partitioner, ..SplitOptions::default() };
            let parts = split(400, &[SLOW, FAST], &how).unwrap();
            assert_eq!(parts.units, [100, 300], "{partitioner}");
            assert_eq!(parts.times_s, [10.0, 10.0]);
        }
    }

    #[test]
    fn limits_that_bind_leave_the_rest_to_the_others() {
        for partitioner in [Partitioner::Gpa, Partitioner::Npa, Partitioner::Hpopta] {
            let how = SplitOptions { partitioner, ..with_caps([None, Some(100), Some(150)]) };
            let parts = split(400, &[SLOW, FAST, FAST], &how).unwrap();
            assert_eq!(parts.units, [150, 100, 150], "{partitioner}");
        }
        let none = split(400, &[SLOW, FAST], &with_caps([Some(99), Some(300)]));
        assert_eq!(
            none,
            Err(PartitionError::BeyondLimits { total: 400, capacity: 399, index: 0, lost: 301 })
        );
        let three = split(400, &[SLOW, FAST], &with_caps([None; 3]));
        assert!(matches!(three, Err(PartitionError::LimitsMismatch { .. })));
    }

    #[test]
    fn units_come_in_granules_and_one_device_gets_the_rest() {
        for partitioner in [Partitioner::Gpa, Partitioner::Npa, Partitioner::Hpopta] {
            let how = SplitOptions { partitioner, granule: 16, ..SplitOptions::default() };
            for total in [0, 7, 16, 400, 405, 1000] {
                let parts = split(total, &[SLOW, FAST], &how).unwrap();
                assert_eq!(parts.units.iter().sum::<u64>(), total);
                let rests: Vec<u64> = parts.units.iter().map(|units| units % 16).collect();
                assert!(rests.contains(&0) && rests.contains(&(total % 16)), "{parts:?}");
                for (points, (&units, &time_s)) in
                    [SLOW, FAST].iter().zip(parts.units.iter().zip(&parts.times_s))
                {
                    let speed = points[0].0 as f64;
                    assert!((time_s - units as f64 / speed).abs() < 1e-9 * (1.0 + time_s));
                }
            }
        }
        let zero = SplitOptions { granule: 0, ..SplitOptions::default() };
        assert_eq!(split(9, &[SLOW], &zero), Err(PartitionError::ZeroGranule));
    }

    #[test]
    fn forbidden_sizes_are_for_hpopta() {
        let mut how = with_caps([None, None]);
        how.limits[1].forbidden = [300].into();
        let refused = split(400, &[SLOW, FAST], &how);
        assert_eq!(refused, Err(PartitionError::Forbidden { index: 1 }));
        how.partitioner = Partitioner::Hpopta;
        let parts = split(400, &[SLOW, FAST], &how).unwrap();
        assert!(parts.units[1] != 300 && parts.max_time_s() < 10.2, "{parts:?}");
    }

    #[test]
    fn bad_points_name_their_device() {
        let bad: &[(u64, f64)] = &[(10, -1.0)];
        let text = split(9, &[SLOW, bad], &SplitOptions::default());
        let text = text.unwrap_err().to_string();
        assert!(text.starts_with("device 1: "), "{text}");
        let none = split(9, &[SLOW, &[]], &SplitOptions::default());
        assert!(matches!(none, Err(PartitionError::Points { index: 1, .. })));
        let nobody = split(9, &[], &SplitOptions::default());
        assert_eq!(nobody, Err(PartitionError::NoDevices { total: 9 }));
    }
}
