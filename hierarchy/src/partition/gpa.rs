//! The geometric partitioning algorithm.

use super::apportion::{Priority, complete, floors};
use super::{Partition, PartitionError};
use crate::model::SpeedModel;

/// Divides `total` units so that all devices finish at the same time by their speed functions.
///
/// A line through the origin of the speed plot meets the functions at points of equal time, and that
/// time is the inverse of its slope. The line through `(D/p, max s_i(D/p))` gives out at most
/// `D = total` units, the line through `(D/p, min s_i(D/p))` at least `D`; the region between them is
/// bisected until they are less than one unit apart. The upper line's shares are then rounded down.
///
/// Two deviations from the thesis:
/// * each unit that rounding leaves goes to the device whose time with one unit more is smallest,
///   where the thesis serves the largest shares first. A large share says nothing about the price of
///   one unit more (the device may stand at the edge of its memory); by smallest time the result is
///   the exact minimum of the largest time over all whole divisions.
/// * the bisection halves the time, the inverse of the slope, because that is what the models'
///   closed-form inverse takes. It ends in any case once the two times are neighbouring numbers.
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
    if models.is_empty() {
        return Err(PartitionError::NoDevices { total });
    }
    let shares = bisect(models, total as f64)?;
    let units = complete(floors(total, &shares), total, |i, units| {
        let d = units as f64;
        Some(Priority {
            time: models[i].time_s(d),
            speed: models[i].speed(d),
        })
    });
    let times_s = models
        .iter()
        .zip(&units)
        .map(|(model, &u)| model.time_s(u as f64))
        .collect();
    Ok(Partition { units, times_s })
}

/// A line through the origin, and where it meets the speed functions.
struct Line {
    time_s: f64,
    shares: Vec<f64>,
    total: f64,
}

impl Line {
    fn at(models: &[&dyn SpeedModel], time_s: f64) -> Self {
        let shares: Vec<f64> = models
            .iter()
            .map(|model| model.units_within(time_s))
            .collect();
        let total = shares.iter().sum();
        Self {
            time_s,
            shares,
            total,
        }
    }
}

/// The shares, less than one unit below `total` in sum.
fn bisect(models: &[&dyn SpeedModel], total: f64) -> Result<Vec<f64>, PartitionError> {
    let (mut upper, mut lower) = outer_lines(models, total)?;
    while lower.total - upper.total >= 1.0 {
        let time_s = upper.time_s.midpoint(lower.time_s);
        if time_s <= upper.time_s || time_s >= lower.time_s {
            return Ok(between(&upper, &lower, total));
        }
        let middle = Line::at(models, time_s);
        if middle.total > total {
            lower = middle;
        } else {
            upper = middle;
        }
    }
    Ok(upper.shares)
}

/// The shares that sum to `total` between two lines whose times are neighbouring numbers. Some
/// function is so steep that whole units lie between them, and all of those take equally long.
fn between(upper: &Line, lower: &Line, total: f64) -> Vec<f64> {
    let part = (total - upper.total) / (lower.total - upper.total);
    upper
        .shares
        .iter()
        .zip(&lower.shares)
        .map(|(u, l)| u + (l - u) * part)
        .collect()
}

/// The lines through the highest and the lowest speed at an even division.
fn outer_lines(models: &[&dyn SpeedModel], total: f64) -> Result<(Line, Line), PartitionError> {
    let even = total / models.len() as f64;
    let invalid = |index| PartitionError::InvalidModel {
        index,
        d: even,
        time_s: models[index].time_s(even),
    };
    let (mut shortest, mut longest) = (f64::INFINITY, 0.0_f64);
    for (index, model) in models.iter().enumerate() {
        let time_s = model.time_s(even);
        if !(time_s.is_finite() && time_s > 0.0) {
            return Err(invalid(index));
        }
        shortest = shortest.min(time_s);
        longest = longest.max(time_s);
    }
    let (mut upper, mut lower) = (Line::at(models, shortest), Line::at(models, longest));
    // Where a time hardly grows, its inverse is inexact and the lines may miss `total`.
    if upper.total > total {
        upper = Line::at(models, 0.0);
    }
    while lower.total < total {
        if lower.time_s.is_infinite() {
            let stuck = (0..models.len()).find(|&i| lower.shares[i].is_finite());
            return Err(invalid(stuck.unwrap_or(0)));
        }
        lower = Line::at(models, 2.0 * lower.time_s);
    }
    Ok((upper, lower))
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
