//! Counts over a number of measurements.

use isochron_hierarchy::times::{MeasureOutcome, Measurement};
use serde::{Deserialize, Serialize};

/// Counts over a number of measurements, by which a report says how reliable they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MeasureTally {
    /// Measurements of devices with work.
    pub measurements: u64,
    /// Repetitions that were averaged.
    pub repetitions: u64,
    /// Disturbed repetitions, which were measured again.
    pub outliers: u64,
    /// Measurements that ended before they reached their precision.
    pub imprecise: u64,
    /// Sizes that take too long, with a lower bound in place of a time.
    pub bounds: u64,
    /// Measurements whose times do not look normally distributed, among those with enough times to tell.
    pub not_normal: u64,
}

impl MeasureTally {
    /// Adds one more measurement.
    pub fn count(&mut self, measurement: &Measurement) {
        let outcome = measurement.outcome;
        let imprecise =
            matches!(outcome, MeasureOutcome::OutOfRepetitions | MeasureOutcome::OutOfTime);
        self.measurements += u64::from(outcome != MeasureOutcome::Idle);
        self.repetitions += u64::from(measurement.sample.reps);
        self.outliers += u64::from(measurement.outliers);
        self.imprecise += u64::from(imprecise);
        self.bounds += u64::from(measurement.sample.is_bound());
        self.not_normal += u64::from(measurement.is_normal() == Some(false));
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn combined_with(&self, other: &Self) -> Self {
        Self {
            measurements: self.measurements + other.measurements,
            repetitions: self.repetitions + other.repetitions,
            outliers: self.outliers + other.outliers,
            imprecise: self.imprecise + other.imprecise,
            bounds: self.bounds + other.bounds,
            not_normal: self.not_normal + other.not_normal,
        }
    }
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::times::Sample;

    use super::*;

    #[test]
    fn every_kind_is_counted_once() {
        let two_speeds: Vec<f64> = [0.1, 1.9].repeat(10);
        let noisy = Measurement {
            sample: Sample::measured(7, 1.0, 20, 0.1),
            repetitions_s: two_speeds,
            ci_s: 0.5,
            outliers: 3,
            outcome: MeasureOutcome::OutOfRepetitions,
        };
        let precise = Measurement {
            repetitions_s: Vec::new(),
            outliers: 0,
            outcome: MeasureOutcome::Precise,
            ..noisy.clone()
        };
        let mut tally = MeasureTally::default();
        for found in [noisy, precise, Measurement::at_least(7, 9.0), Measurement::default()] {
            tally.count(&found);
        }
        let expected = MeasureTally {
            measurements: 3,
            repetitions: 40,
            outliers: 3,
            imprecise: 1,
            bounds: 1,
            not_normal: 1,
        };
        assert_eq!(tally, expected);
        assert_eq!(tally.combined_with(&tally).repetitions, 80);
    }
}
