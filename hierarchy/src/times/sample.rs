//! The time of some units.

use serde::{Deserialize, Serialize};

use super::QUANTILE;
use crate::model::Point;

/// The origin of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Quality {
    /// It was measured.
    Measured,
    /// It was measured, and something else had the device's cores for a good part of it.
    Disturbed,
    /// It follows from other times.
    #[default]
    Predicted,
    /// It is a lower bound: measuring was given up.
    AtLeast,
}

/// The time of a part for some units.
///
/// It holds the standard error of its mean and no confidence interval, because an interval has to be read
/// with its confidence.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Units of the part; 0 if it had nothing to do.
    pub units: u64,
    /// Mean time in seconds; 0 for a part without units.
    pub seconds: f64,
    /// Repetitions that the mean was taken over, also of the times that a prediction follows from; 0 for a bound.
    pub reps: u32,
    /// Standard error of the mean, in seconds; 0 if it is not known.
    pub error_s: f64,
    /// Seconds that measuring took; 0 if the repetitions took all of them.
    pub cost_s: f64,
    /// The origin of the time.
    pub quality: Quality,
}

impl Sample {
    /// Makes the sample of a mean of `reps` measured times with a standard error of `error_s`, without
    /// further cost.
    pub fn measured(units: u64, seconds: f64, reps: u32, error_s: f64) -> Self {
        Self { units, seconds, reps, error_s, cost_s: 0.0, quality: Quality::Measured }
    }

    /// Makes the sample of a prediction with a standard error of `error_s`.
    pub fn predicted(units: u64, seconds: f64, error_s: f64) -> Self {
        Self { units, seconds, error_s, ..Self::default() }
    }

    /// Makes the sample of a measurement that was given up after these seconds.
    pub fn at_least(units: u64, seconds: f64) -> Self {
        Self { units, seconds, quality: Quality::AtLeast, ..Self::default() }
    }

    /// Marks the time as disturbed if something else had the device's cores for a good part of it.
    #[must_use]
    pub fn disturbed_if(self, is_disturbed: bool) -> Self {
        let quality = if is_disturbed { Quality::Disturbed } else { self.quality };
        Self { quality, ..self }
    }

    /// Sets the seconds that measuring took. They exceed the repetitions if a repetition was more than
    /// one kernel run, or if there was work before and after.
    #[must_use]
    pub fn with_cost(self, cost_s: f64) -> Self {
        Self { cost_s, ..self }
    }

    /// Returns the same time for another count of the same work: a machine counts blocks where a device counts elements.
    #[must_use]
    pub fn counted_as(self, units: u64) -> Self {
        Self { units, ..self }
    }

    /// Adds `more_s` seconds, known without a measurement, to the time of a part with units.
    #[must_use]
    pub fn plus_known(self, more_s: f64) -> Self {
        let more_s = if self.seconds > 0.0 { more_s } else { 0.0 };
        Self { seconds: self.seconds + more_s, ..self }
    }

    /// Returns `true` if the time is a lower bound.
    pub fn is_bound(&self) -> bool {
        self.quality == Quality::AtLeast
    }

    /// Returns `true` if the time was measured, however disturbed it was.
    pub fn is_measured(&self) -> bool {
        matches!(self.quality, Quality::Measured | Quality::Disturbed)
    }

    /// Returns `true` if something else had the device's cores for a good part of the time.
    pub fn is_disturbed(&self) -> bool {
        self.quality == Quality::Disturbed
    }

    /// Returns the sample of one repetition as numbers of a message: units, seconds, and 1 if it was disturbed.
    pub fn to_numbers(&self) -> [f64; 3] {
        [self.units as f64, self.seconds, f64::from(u8::from(self.is_disturbed()))]
    }

    /// Reads the numbers of [`to_numbers`](Self::to_numbers).
    pub fn from_numbers([units, seconds, disturbed]: [f64; 3]) -> Self {
        Self::measured(units as u64, seconds, 1, 0.0).disturbed_if(disturbed > 0.0)
    }

    /// Merges two measurements of the same work, as if all repetitions were one sample.
    ///
    /// A bound replaces a time that was only predicted, a larger bound replaces a smaller one, and
    /// a measured time replaces both.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        if !(self.is_measured() && other.is_measured()) {
            let ranks = [self, other].map(|sample| (sample.is_measured(), sample.is_bound()));
            let is_larger =
                ranks[0] == ranks[1] && other.is_bound() && other.seconds > self.seconds;
            let takes_other = ranks[1] > ranks[0] || is_larger;
            return if takes_other { *other } else { *self };
        }
        let [n1, n2] = [self, other].map(|sample| f64::from(sample.reps));
        let n = n1 + n2;
        let apart_s = self.seconds - other.seconds;
        let squares = self.sum_squares() + other.sum_squares() + n1 * n2 / n * apart_s * apart_s;
        Self {
            seconds: (n1 * self.seconds + n2 * other.seconds) / n,
            reps: self.reps.saturating_add(other.reps),
            error_s: (squares / (n * (n - 1.0))).sqrt(),
            cost_s: self.measuring_s() + other.measuring_s(),
            ..*self
        }
    }

    /// Returns the seconds that measuring took.
    pub(crate) fn measuring_s(&self) -> f64 {
        self.cost_s.max(self.repetitions_s())
    }

    /// Returns the seconds of the repetitions, if each is one kernel run.
    pub(crate) fn repetitions_s(&self) -> f64 {
        f64::from(self.reps.max(1)) * self.seconds
    }

    /// Returns the prediction that this sample leads to if a kernel run takes `seconds`.
    pub(crate) fn predict(self, seconds: f64) -> Self {
        Self { quality: Quality::Predicted, ..self.scale_to(seconds) }
    }

    /// Returns the same measurement for a kernel time of `seconds`.
    pub(crate) fn scale_to(self, seconds: f64) -> Self {
        let slower = if self.seconds > 0.0 { seconds / self.seconds } else { 1.0 };
        Self { seconds, cost_s: self.cost_s * slower, ..self }
    }

    /// Returns the point of a model. Its interval is the one of 95 %.
    pub(crate) fn to_point(self) -> Point {
        Point {
            d: self.units,
            t_s: self.seconds,
            // An unknown number of repetitions counts as one, because 0 makes a bound.
            reps: if self.is_bound() { 0 } else { self.reps.max(1) },
            ci_s: quantile_of(self.reps) * self.error_s,
        }
    }

    /// Returns the sum of the squared deviations from the mean.
    fn sum_squares(&self) -> f64 {
        let n = f64::from(self.reps);
        n * (n - 1.0) * self.error_s.powi(2)
    }

    /// Returns `true` if the standard error of the time is known.
    pub(super) fn has_error(&self) -> bool {
        self.reps > 1 && !self.is_bound() && self.seconds > 0.0 && self.error_s > 0.0
    }
}

/// Returns the half-width of an interval of 95 % in standard errors of a mean of `reps` repetitions: Student's t, or the
/// normal quantile for a single time, whose error is known otherwise.
pub(super) fn quantile_of(reps: u32) -> f64 {
    const BY_FREEDOM: [f64; 9] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
    match reps.saturating_sub(1) as usize {
        0 => QUANTILE,
        freedom if freedom <= BY_FREEDOM.len() => BY_FREEDOM[freedom - 1],
        // Within a hundredth of the quantile.
        freedom => QUANTILE + 2.6 / freedom as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_seconds_are_added_to_parts_with_units() {
        let measured = Sample::measured(7, 2.0, 3, 0.1);
        assert_eq!(measured.plus_known(0.5), Sample::measured(7, 2.5, 3, 0.1));
        assert!(Sample::at_least(7, 2.0).plus_known(0.5).is_bound());
        assert_eq!(Sample::default().plus_known(0.5).seconds, 0.0);
    }

    #[test]
    fn an_interval_of_a_point_is_that_of_95_percent() {
        let point = Sample::measured(7, 2.0, 3, 0.1).to_point();
        assert_eq!((point.d, point.t_s, point.reps), (7, 2.0, 3));
        assert!((point.ci_s - 0.43).abs() < 1e-12);
        assert_eq!(Sample::at_least(7, 2.0).to_point().reps, 0);
    }

    /// Two times that lie `apart_s` apart around `t_s`.
    fn pair_of(t_s: f64, apart_s: f64) -> Sample {
        Sample::measured(7, t_s, 2, apart_s / 2.0)
    }

    #[test]
    fn measurements_of_the_same_work_merge_as_one_sample() {
        // Times 1, 2, 3 and 6 s: in halves, and as a whole.
        let merged = pair_of(1.5, 1.0).merge(&pair_of(4.5, 3.0));
        assert_eq!((merged.seconds, merged.reps), (3.0, 4));
        // The first of them took twice its repetitions.
        let dear = pair_of(1.5, 1.0).with_cost(6.0).merge(&pair_of(4.5, 3.0));
        assert_eq!((merged.cost_s, dear.cost_s), (12.0, 15.0));
        let error_s = (14.0_f64 / 3.0 / 4.0).sqrt();
        assert!((merged.error_s - error_s).abs() < 1e-12);
        let predicted = pair_of(9.0, 1.0).predict(9.0);
        assert_eq!(predicted.merge(&merged), merged);
        assert_eq!(merged.merge(&predicted), merged);
        assert_eq!(predicted.merge(&predicted), predicted);
        let [low, high] = [2.0, 4.0].map(|t_s| Sample::at_least(7, t_s));
        for (a, b, merged) in [(low, high, high), (predicted, low, low), (high, merged, merged)] {
            assert_eq!((a.merge(&b), b.merge(&a)), (merged, merged));
        }
    }
}
