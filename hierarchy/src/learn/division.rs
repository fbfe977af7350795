//! Divisions of the units by the models, within limits.

use std::borrow::Cow;

use super::LaidOut;
use super::curve::TimeCurve;
use super::time_line::TimeLine;
use crate::model::SpeedModel;
use crate::partition::{PartitionError, gpa};
use crate::times::{Sample, expect_longest};

/// Slope beyond a size that should not be exceeded, in the longest even times a size.
const WALL: f64 = 1e4;

/// Slope beyond a size that must not be exceeded.
const END: f64 = 1e12;

/// The sizes that a part should not, and must not, exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bounds {
    pub reach: f64,
    pub capacity: f64,
}

/// A part that takes part in a division.
#[derive(Debug, Clone, Copy)]
pub(super) struct BoundedPart<'a> {
    pub curve: &'a TimeCurve,
    pub bounds: Bounds,
    /// Smallest size with a valid time of a part that gets one granule at least: smaller sizes are taken to need time in
    /// proportion. `None` for a part that may get nothing.
    pub kept_from: Option<f64>,
    /// `None` in an ordinary division.
    pub trial: Option<Trial>,
}

/// A way to try a part at sizes between its current one and a larger one that was seen to be slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trial {
    /// The current size.
    pub units: f64,
    /// Size up to which the part is taken to be as fast as now. `None` if its time grows with a power of the size.
    pub fast_until: Option<f64>,
}

/// A division that the run could change to.
pub(super) struct Proposal {
    /// Units asked for.
    pub asked: Vec<u64>,
    /// Units as they can be laid out.
    pub units: Vec<u64>,
    pub step_s: f64,
    pub cost_s: f64,
}

/// Lays a division out.
pub(crate) type Place<'a> = &'a mut dyn FnMut(&[u64]) -> LaidOut;

/// Divides `total` units in multiples of `granule` so that all parts finish together by their models. The
/// rest of a granule goes to the part with the most units.
///
/// Beyond its reach a part is so slow that units get there only if they fit nowhere else; then all parts
/// exceed their reach in proportion.
///
/// # Errors
/// Fails as [`gpa()`].
pub(super) fn divide(
    parts: &[Option<BoundedPart>],
    total: u64,
    granule: u64,
) -> Result<Vec<u64>, PartitionError> {
    let busy: Vec<usize> = (0..parts.len()).filter(|&i| parts[i].is_some()).collect();
    let candidates: Vec<BoundedPart> = parts.iter().copied().flatten().collect();
    let even = total as f64 / candidates.len().max(1) as f64;
    let longest_s = candidates.iter().map(|part| part.curve.line.time_s(even)).fold(0.0, f64::max);
    let lines: Vec<TimeLine> = candidates
        .iter()
        .map(|part| limit_line(part, longest_s).count_in(granule as f64))
        .collect();
    let models: Vec<&dyn SpeedModel> = lines.iter().map(|line| line as &dyn SpeedModel).collect();
    let mut granules = gpa(&models, total / granule)?.units;
    keep_parts(&candidates, granule, &mut granules);
    let mut units = vec![0; parts.len()];
    for (&part, &count) in busy.iter().zip(&granules) {
        units[part] = count * granule;
    }
    let rest = total % granule;
    let roomy =
        busy.iter().copied().zip(&candidates).filter(|&(part, candidate)| {
            units[part] as f64 + rest as f64 <= candidate.bounds.capacity
        });
    let roomy = roomy.map(|(part, _)| part).max_by_key(|&part| (units[part], part));
    // Without room the division is beyond the capacities, and its rating says so.
    if let Some(largest) = roomy.or(busy.first().copied()) {
        units[largest] += rest;
    }
    Ok(units)
}

/// Gives a granule to each part that is kept and got none, from the part with the most.
fn keep_parts(parts: &[BoundedPart], granule: u64, granules: &mut [u64]) {
    for (index, part) in parts.iter().enumerate() {
        let is_kept = part.kept_from.is_some() && part.bounds.capacity >= granule as f64;
        if !is_kept || granules[index] > 0 {
            continue;
        }
        let largest = (0..granules.len()).max_by_key(|&other| granules[other]);
        if let Some(largest) = largest.filter(|&other| granules[other] > 1) {
            granules[largest] -= 1;
            granules[index] = 1;
        }
    }
}

fn limit_line(part: &BoundedPart, longest_s: f64) -> TimeLine {
    let Bounds { reach, capacity } = part.bounds;
    let mut line = part.line().into_owned();
    if reach.is_finite() {
        line = line.with_wall(reach, WALL * longest_s / reach);
    }
    if capacity.is_finite() {
        line = line.with_wall(capacity, END * longest_s / capacity.max(1.0));
    }
    line
}

/// Returns the expected seconds of a step with these units.
pub(super) fn expect_step(parts: &[Option<BoundedPart>], units: &[u64]) -> f64 {
    let times = predict_times(parts, units);
    let times: Vec<Sample> = times.into_iter().map(|(_, time)| time).collect();
    expect_longest(&times)
}

/// Returns the time of each part that has units, with its index.
pub(super) fn predict_times(parts: &[Option<BoundedPart>], units: &[u64]) -> Vec<(usize, Sample)> {
    (parts.iter().zip(units).enumerate())
        .filter(|&(_, (_, &d))| d > 0)
        .filter_map(|(index, (part, &d))| part.as_ref().map(|part| (index, part.predict_time(d))))
        .collect()
}

impl BoundedPart<'_> {
    /// Returns the times by which the part gets its units.
    fn line(&self) -> Cow<'_, TimeLine> {
        let line = match self.trial {
            None => Cow::Borrowed(&self.curve.line),
            Some(Trial { units, fast_until }) => Cow::Owned(match fast_until {
                Some(end) => self.curve.line.as_fast_until(units, end),
                None => self.curve.line.with_powers(units),
            }),
        };
        match self.kept_from {
            Some(least) => Cow::Owned(line.in_proportion_below(least)),
            None => line,
        }
    }

    fn predict_time(&self, units: u64) -> Sample {
        let size = units as f64;
        let mean_s = self.line().time_s(size);
        let error = match self.trial {
            Some(_) => 0.0,
            None => self.curve.variance(size).sqrt(),
        };
        Sample::predicted(units, mean_s, mean_s * error)
    }
}

/// Returns the longest expected time of a part with these units.
pub(super) fn longest_mean(curves: &[Option<&TimeCurve>], units: &[u64]) -> f64 {
    (curves.iter().zip(units))
        .filter_map(|(curve, &d)| curve.map(|curve| curve.line.time_s(d as f64)))
        .fold(0.0, f64::max)
}
/// Returns the sum, at most [`u64::MAX`].
pub(super) fn sum_units(units: &[u64]) -> u64 {
    units.iter().fold(0, |sum, &d| sum.saturating_add(d))
}
