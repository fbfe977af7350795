//! A measurement: repetitions of some work, until their mean is known well enough.

use serde::{Deserialize, Serialize};
use strum::Display;

use super::{Sample, Series, looks_normal};
use crate::model::Point;

/// The end of a measurement, displayed as in JSON: `out-of-time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum MeasureOutcome {
    /// The device had no work.
    #[default]
    Idle,
    /// The mean has the precision asked for.
    Precise,
    /// The repetitions were used up before the mean was precise.
    OutOfRepetitions,
    /// The time was used up before the mean was precise.
    OutOfTime,
    /// The size is hopeless: only a lower bound of its time is known.
    Bounded,
}

/// The measured time of a device for some units, with the repetitions behind it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// The mean, or the least time of a size that was given up.
    pub sample: Sample,
    /// Seconds of each repetition that was averaged. They stay on the rank that measured them.
    #[serde(skip)]
    pub repetitions_s: Vec<f64>,
    /// Half-width of the mean's confidence interval in seconds; the mean itself after a single repetition, 0 for a bound.
    pub ci_s: f64,
    /// Number of disturbed repetitions, which were measured again and not averaged in.
    pub outliers: u32,
    /// The end of the measurement.
    pub outcome: MeasureOutcome,
}

impl Measurement {
    /// Makes the measurement of units that take at least these seconds, and were not repeated.
    #[must_use]
    pub fn at_least(units: u64, seconds: f64) -> Self {
        Self {
            sample: Sample::at_least(units, seconds),
            outcome: MeasureOutcome::Bounded,
            ..Self::default()
        }
    }

    /// Makes the point of a model at this size: with 0 repetitions if it is a bound.
    #[must_use]
    pub fn to_point(&self, d: u64) -> Point {
        Point { d, t_s: self.sample.seconds, reps: self.sample.reps, ci_s: self.ci_s }
    }

    /// Returns `true` if the precision was reached.
    #[must_use]
    pub fn is_precise(&self) -> bool {
        self.outcome == MeasureOutcome::Precise
    }

    /// Returns the seconds of the fastest repetition; the time of the sample if there is none here.
    #[must_use]
    pub fn fastest_s(&self) -> f64 {
        let fastest_s = self.repetitions_s.iter().copied().reduce(f64::min);
        fastest_s.unwrap_or(self.sample.seconds)
    }

    /// Returns `true` if the repetitions look normally distributed, as Student's t assumes; `None` if they are too few or all
    /// equal.
    #[must_use]
    pub fn is_normal(&self) -> Option<bool> {
        looks_normal(&self.repetitions_s)
    }

    /// Returns the repetitions as the model store keeps them, which has no time of 0: `None` if there are no others.
    #[must_use]
    pub fn to_series(&self) -> Option<Series> {
        let at_least = self.sample.is_bound();
        let mut seconds =
            if at_least { vec![self.sample.seconds] } else { self.repetitions_s.clone() };
        seconds.retain(|&time_s| time_s > 0.0);
        (self.sample.units > 0 && !seconds.is_empty()).then_some(Series {
            units: self.sample.units,
            seconds,
            at_least,
        })
    }
}
