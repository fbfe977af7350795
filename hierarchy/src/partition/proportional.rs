//! The traditional partitioner for constant performance models.

use super::{Partition, PartitionError, apportion};

/// Divides `total` units in proportion to constant `speeds` (units per second): `d_i ∝ s_i`, in whole
/// units such that the largest time `d_i / s_i` is minimal.
///
/// # Deviations
/// * **CPM, integer solution**: the thesis leaves the rounding open (section 2.3). Here [`apportion()`]
///   rounds by Jefferson's method, because it minimises the largest time.
///
/// # Errors
/// Returns [`PartitionError::InvalidSpeed`] for a negative or non-finite speed; [`PartitionError::NoDevices`] or
/// [`PartitionError::NoSpeed`] if there are units and no device can take them.
///
/// # References
/// Clarke's thesis, section 2.3; Clarke et al. 2012, section 4 (the two CPM strategies).
pub fn proportional(speeds: &[f64], total: u64) -> Result<Partition, PartitionError> {
    let mut all = speeds.iter().copied().enumerate();
    if let Some((index, speed)) = all.find(|(_, s)| !(s.is_finite() && *s >= 0.0)) {
        return Err(PartitionError::InvalidSpeed { index, speed });
    }
    if total == 0 {
        return Ok(Partition::idle(speeds.len()));
    }
    if speeds.is_empty() {
        return Err(PartitionError::NoDevices { total });
    }
    if speeds.iter().all(|&speed| speed == 0.0) {
        return Err(PartitionError::NoSpeed { total });
    }
    let units = apportion(total, speeds);
    let times_s = (units.iter().zip(speeds))
        .map(|(&units, speed)| if units == 0 { 0.0 } else { units as f64 / speed })
        .collect();
    Ok(Partition { units, times_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_speeds() {
        let partition = proportional(&[10.0, 0.0, 30.0], 40).expect("valid");
        assert_eq!(partition, Partition { units: vec![10, 0, 30], times_s: vec![1.0, 0.0, 1.0] });
        assert_eq!(partition.max_time_s(), 1.0);
    }

    #[test]
    fn impossible_requests_are_refused() {
        assert_eq!(proportional(&[], 0), Ok(Partition::default()));
        assert_eq!(proportional(&[], 4), Err(PartitionError::NoDevices { total: 4 }));
        assert_eq!(proportional(&[0.0], 4), Err(PartitionError::NoSpeed { total: 4 }));
        assert_eq!(
            proportional(&[1.0, -1.0], 4),
            Err(PartitionError::InvalidSpeed { index: 1, speed: -1.0 })
        );
    }

    #[test]
    fn units_are_in_proportion_to_the_speeds() {
        let partition = proportional(&[10.0, 30.0], 100).expect("valid");
        assert_eq!(partition.units, [25, 75]);
        assert_eq!(partition.max_time_s(), 2.5);
    }
}
