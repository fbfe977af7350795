//! Measured sizes that contradict their neighbours.

mod bounds;
mod flag;
mod neighbours;

use bounds::least_between;
pub use flag::{Flag, Reason};
use neighbours::flag_neighbours;

use std::collections::BTreeMap;

use super::means::{Mean, average_measured};
use super::shape::restrict_shape;
use super::{Knot, ModelError, Point};

impl Flag {
    /// Returns the flags of measured points in any order, ascending in `d`. Floors are not considered. The cost is
    /// `O(n log n)` for `n` points.
    ///
    /// # Errors
    /// Returns [`ModelError::InvalidPoint`] or [`ModelError::InvalidInterval`] for a bad point.
    pub fn find(points: &[Point]) -> Result<Vec<Self>, ModelError> {
        points.iter().try_for_each(Point::check)?;
        Ok(find_contradictions(&average_measured(points)))
    }
}

/// Returns the flags of `means`, both ascending in `d`.
pub(super) fn find_contradictions(means: &[Mean]) -> Vec<Flag> {
    let mut flags: BTreeMap<usize, Flag> = flag_neighbours(means).into_iter().collect();
    let found = flag_out_of_shape(means, &flags);
    flags.extend(found);
    // A bound below 0 helps to find the outlier, but is of no use to a reader.
    (flags.into_values()).map(|flag| Flag { allowed: flag.allowed.max(0.0), ..flag }).collect()
}

/// Returns the indices of the sizes without `flags` that are off their shape-restricted fit, with their flags.
fn flag_out_of_shape(means: &[Mean], flags: &BTreeMap<usize, Flag>) -> Vec<(usize, Flag)> {
    let rest = || (0..means.len()).filter(|i| !flags.contains_key(i));
    let knots: Vec<Knot> = rest().map(|i| means[i].knot).collect();
    let mut fit = restrict_shape(&knots).into_iter().peekable();
    drop(knots);
    let mut left: Option<&Mean> = None;
    let mut found = Vec::new();
    let mut rising = Vec::new();
    for i in rest() {
        let mean = &means[i];
        if fit.next_if(|knot| knot.d == mean.knot.d).is_some() {
            found.extend(rising.drain(..).filter_map(|i: usize| {
                let bound = least_between(means[i].knot.d, left, mean);
                Some((i, means[i].check_bound(bound, Reason::OutOfShape)?))
            }));
            left = Some(mean);
        } else {
            // The size lies below the line to a later corner: the peak and all sizes after it stay in the fit.
            rising.push(i);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flagged(speeds: &[f64], ci: f64) -> Vec<(u64, Reason)> {
        let means: Vec<Mean> = speeds
            .iter()
            .enumerate()
            .map(|(i, &speed)| Mean {
                knot: Knot { d: 100.0 * (i + 1) as f64, speed },
                ci: ci * speed,
            })
            .collect();
        find_contradictions(&means).iter().map(|flag| (flag.d, flag.reason)).collect()
    }

    #[test]
    fn admissible_speeds_are_not_flagged() {
        assert!(flagged(&[], 0.0).is_empty());
        assert!(flagged(&[7.0], 0.0).is_empty());
        assert!(flagged(&[50.0, 80.0, 100.0, 99.0, 20.0, 15.0, 1.0], 0.0).is_empty());
        assert!(flagged(&[1000.0, 100.0, 99.0], 0.0).is_empty());
    }

    #[test]
    fn one_outlier_is_flagged_and_not_its_neighbours() {
        let flat = [100.0; 9];
        for place in 0..9 {
            let d = 100 * (place as u64 + 1);
            let (mut dip, mut spike) = (flat, flat);
            (dip[place], spike[place]) = (30.0, 300.0);
            // The function may fall at the end, fall from the start, or begin too slow.
            let too_slow = [(d, Reason::TooSlow)];
            let too_fast = [(d, Reason::TooFast)];
            assert_eq!(flagged(&dip, 0.01), &too_slow[usize::from(place == 8)..]);
            match place {
                0 => assert!(flagged(&spike, 0.01).is_empty()),
                1 => assert_eq!(flagged(&spike, 0.01), [(100, Reason::TooSlow)]),
                _ => assert_eq!(flagged(&spike, 0.01), too_fast),
            }
        }
    }

    #[test]
    fn wide_intervals_explain_what_narrow_ones_do_not() {
        let speeds = [100.0, 100.0, 60.0, 100.0, 100.0];
        assert_eq!(flagged(&speeds, 0.02), [(300, Reason::TooSlow)]);
        assert!(flagged(&speeds, 0.3).is_empty());
    }

    #[test]
    fn several_outliers_are_all_found() {
        let mut speeds = [100.0; 12];
        (speeds[2], speeds[3], speeds[8]) = (40.0, 35.0, 250.0);
        let flags = flagged(&speeds, 0.0);
        assert_eq!(flags, [(300, Reason::TooSlow), (400, Reason::TooSlow), (900, Reason::TooFast)]);
    }

    #[test]
    fn a_time_that_falls_with_the_size_blames_the_slower_measurement() {
        // 100 units in 10 s, 200 units in 5 s.
        assert_eq!(flagged(&[10.0, 40.0], 0.0), [(100, Reason::TooSlow)]);
    }

    #[test]
    fn a_wide_valley_is_out_of_shape() {
        let speeds = [100.0, 97.0, 94.0, 91.0, 88.0, 85.0, 88.0, 91.0, 94.0, 97.0, 100.0, 103.0];
        let flags = flagged(&speeds, 0.0);
        assert!(!flags.is_empty());
        assert!(flags.iter().all(|&(_, reason)| reason == Reason::OutOfShape));
        assert!(flags.iter().any(|&(d, _)| d == 600));
    }
}
