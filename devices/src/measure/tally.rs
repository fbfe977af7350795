//! Counts over a number of measurements.

use super::{MeasureOutcome, Measurement};
use serde::{Deserialize, Serialize};

/// Counts over a number of measurements, by which a report says how reliable they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MeasureTally {
    /// Measurements, without those of idle devices.
    pub measurements: u64,
    /// Repetitions that were averaged.
    pub repetitions: u64,
    /// Disturbed repetitions, which were measured again.
    pub outliers: u64,
    /// Measurements that ended before they had the precision asked for.
    pub imprecise: u64,
    /// Hopeless sizes, which only have a bound.
    pub bounds: u64,
    /// Measurements with times that do not look normally distributed; those with too few times do not count.
    pub not_normal: u64,
}

impl MeasureTally {
    /// Adds one more measurement.
    pub fn count(&mut self, measurement: &Measurement) {
        let outcome = measurement.outcome;
        let imprecise = matches!(
            outcome,
            MeasureOutcome::OutOfRepetitions | MeasureOutcome::OutOfTime
        );
        self.measurements += u64::from(outcome != MeasureOutcome::Idle);
        self.repetitions += u64::from(measurement.reps);
        self.outliers += u64::from(measurement.outliers);
        self.imprecise += u64::from(imprecise);
        self.bounds += u64::from(measurement.is_bound());
        self.not_normal += u64::from(measurement.normal == Some(false));
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
    use super::*;

    #[test]
    fn every_kind_is_counted_once() {
        let noisy = Measurement {
            t_s: 1.0,
            ci_s: 0.5,
            error_s: 0.1,
            fastest_s: 0.1,
            reps: 20,
            outliers: 3,
            cost_s: 23.0,
            normal: Some(false),
            outcome: MeasureOutcome::OutOfRepetitions,
        };
        let precise = Measurement {
            outcome: MeasureOutcome::Precise,
            normal: Some(true),
            outliers: 0,
            ..noisy
        };
        let mut tally = MeasureTally::default();
        for found in [
            noisy,
            precise,
            Measurement::lower_bound(9.0),
            Measurement::default(),
        ] {
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
