//! Measurements of one part, and parts that measured alike.
//!
//! # Deviations
//!
//! * **times of alike parts**: the papers take every time as measured (Clarke et al. 2012, section 3).
//!   Here [`shrink_alike()`] moves times of nearly the same work towards each other as far as noise explains
//!   their spread, because to follow noise would make alike parts unequal.

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::noise::DRIFT;
use super::noise::pool_errors;
use super::shrink::shrink_numbers;
use crate::model::Point;

/// The result of measuring one part.
///
/// It holds the standard error of its mean and no confidence interval, because an interval has to be read
/// with its confidence.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    /// Mean time in seconds; 0 for a part without units.
    pub t_s: f64,
    /// Repetitions that the mean was taken over; 0 if the time is not measured but predicted.
    pub reps: u32,
    /// Standard error of the mean, in seconds; 0 if it is not known.
    pub error_s: f64,
    /// `true` if measuring was given up, so that `t_s` is only a lower bound.
    pub is_floor: bool,
    /// Seconds that measuring took; 0 if the repetitions took all of them.
    pub cost_s: f64,
}

impl Observation {
    /// Makes the observation of a mean of `reps` measured times with a standard error of `error_s`, without
    /// further cost.
    pub fn measured(t_s: f64, reps: u32, error_s: f64) -> Self {
        Self {
            t_s,
            reps,
            error_s,
            ..Self::default()
        }
    }

    /// Makes the observation of a measurement that was given up after `t_s` seconds.
    pub fn at_least(t_s: f64) -> Self {
        Self {
            t_s,
            is_floor: true,
            ..Self::default()
        }
    }

    /// Sets the seconds that measuring took. They exceed the repetitions if a repetition was more than
    /// one kernel run, or if there was work before and after.
    #[must_use]
    pub fn with_cost(self, cost_s: f64) -> Self {
        Self { cost_s, ..self }
    }

    /// Adds `more_s` seconds, known without a measurement, to the time of a part with units.
    #[must_use]
    pub fn plus_known(self, more_s: f64) -> Self {
        let more_s = if self.t_s > 0.0 { more_s } else { 0.0 };
        Self {
            t_s: self.t_s + more_s,
            ..self
        }
    }

    /// Merges two measurements of the same work, as if all repetitions were one sample.
    ///
    /// A floor replaces a time that was only predicted, a larger floor replaces a smaller one, and
    /// a measured time replaces both.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        if self.reps == 0 || other.reps == 0 {
            let ranks = [self, other].map(|time| (time.reps > 0, time.is_floor));
            let is_larger = ranks[0] == ranks[1] && other.is_floor && other.t_s > self.t_s;
            let takes_other = ranks[1] > ranks[0] || is_larger;
            return if takes_other { *other } else { *self };
        }
        let [n1, n2] = [self, other].map(|observation| f64::from(observation.reps));
        let n = n1 + n2;
        let apart_s = self.t_s - other.t_s;
        let squares = self.sum_squares() + other.sum_squares() + n1 * n2 / n * apart_s * apart_s;
        Self {
            t_s: (n1 * self.t_s + n2 * other.t_s) / n,
            reps: self.reps.saturating_add(other.reps),
            error_s: (squares / (n * (n - 1.0))).sqrt(),
            is_floor: false,
            cost_s: self.measuring_s() + other.measuring_s(),
        }
    }

    /// Returns the seconds that measuring took.
    pub(super) fn measuring_s(&self) -> f64 {
        self.cost_s.max(self.repetitions_s())
    }

    /// Returns the seconds of the repetitions, if each is one kernel run.
    pub(super) fn repetitions_s(&self) -> f64 {
        f64::from(self.reps.max(1)) * self.t_s
    }

    /// Returns the same measurement for a kernel time of `t_s` seconds.
    pub(super) fn scale_to(self, t_s: f64) -> Self {
        let slower = if self.t_s > 0.0 { t_s / self.t_s } else { 1.0 };
        Self {
            t_s,
            is_floor: false,
            cost_s: self.cost_s * slower,
            ..self
        }
    }

    /// Returns the point of a model: this is the time of `d` units. Its interval is the one of 95 %.
    pub(super) fn to_point(self, d: u64) -> Point {
        Point {
            d,
            t_s: self.t_s,
            // An unknown number of repetitions counts as one, because 0 makes a floor.
            reps: if self.is_floor { 0 } else { self.reps.max(1) },
            ci_s: student_t(self.reps) * self.error_s,
        }
    }

    /// Returns the sum of the squared deviations from the mean.
    fn sum_squares(&self) -> f64 {
        let n = f64::from(self.reps);
        n * (n - 1.0) * self.error_s.powi(2)
    }

    /// Returns `true` if the standard error of the time is known.
    fn has_error(&self) -> bool {
        self.reps > 1 && !self.is_floor && self.t_s > 0.0 && self.error_s > 0.0
    }
}

/// Shrinks times of the same work by several parts towards each other, as far as noise explains their
/// spread.
///
/// The true times, in logarithms, are taken for a sample of an unknown distribution, and the measured ones
/// add normal noise to them: the mean square of the relative standard errors, and the drift between
/// measurements. Of all distributions on a grid the likeliest is found, and each time becomes its
/// expectation given the measured one. So alike parts become equal, also parts of several kinds, unlike ones stay apart, and
/// nothing in between is decided by a test. Times without a standard error stay as measured.
///
/// # References
/// Kiefer and Wolfowitz, 1956 (the likeliest distribution); Jiang and Zhang, "General maximum likelihood
/// empirical Bayes estimation of normal means", Annals of Statistics 37(4), 2009.
pub fn shrink_alike(times: &[Observation]) -> Vec<Observation> {
    let noisy = times
        .iter()
        .enumerate()
        .filter(|(_, time)| time.has_error());
    let (parts, noisy): (Vec<usize>, Vec<&Observation>) = noisy.unzip();
    let times_s: Vec<f64> = noisy.iter().map(|time| time.t_s).collect();
    let errors_s: Vec<f64> = noisy.iter().map(|time| time.error_s).collect();
    let logs: Vec<f64> = times_s.iter().map(|t_s| t_s.ln()).collect();
    let expected = shrink_numbers(&logs, CAUTION * pool_errors(&times_s, &errors_s));
    let mut shrunk = times.to_vec();
    for (part, log) in parts.into_iter().zip(expected) {
        shrunk[part] = times[part].scale_to(log.exp());
    }
    shrunk
}

/// Factor of the noise. The likeliest distribution of a few times follows their noise a little.
const CAUTION: f64 = 1.3;

/// Returns Student's t: the quantile 0.975 for a mean of `reps` repetitions.
fn student_t(reps: u32) -> f64 {
    const BY_FREEDOM: [f64; 9] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
    match reps.saturating_sub(1) as usize {
        0 => BY_FREEDOM[0],
        freedom if freedom <= BY_FREEDOM.len() => BY_FREEDOM[freedom - 1],
        // Within a hundredth of the quantile.
        freedom => 1.96 + 2.6 / freedom as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_seconds_are_added_to_parts_with_units() {
        let measured = Observation::measured(2.0, 3, 0.1).plus_known(0.5);
        assert_eq!(
            (measured.t_s, measured.reps, measured.error_s),
            (2.5, 3, 0.1)
        );
        assert!(Observation::at_least(2.0).plus_known(0.5).is_floor);
        assert_eq!(Observation::measured(0.0, 0, 0.0).plus_known(0.5).t_s, 0.0);
    }

    fn thrice(t_s: f64, error_s: f64) -> Observation {
        Observation::measured(t_s, 3, error_s)
    }

    fn shrunk_times(found: &[Observation]) -> Vec<f64> {
        shrink_alike(found).iter().map(|time| time.t_s).collect()
    }

    #[test]
    fn times_that_noise_explains_become_their_mean() {
        let found = [1.0, 1.02, 0.99].map(|t_s| thrice(t_s, 0.03));
        let mean = (1.0_f64 * 1.02 * 0.99).cbrt();
        for t_s in shrunk_times(&found) {
            assert!((t_s - mean).abs() < 5e-3, "{t_s}");
        }
    }

    #[test]
    fn unlike_times_keep_their_distance() {
        let found = [1.0, 2.0, 4.0, 8.0].map(|t_s| thrice(t_s, 0.05 * t_s));
        for (t_s, time) in shrunk_times(&found).iter().zip(&found) {
            assert!((t_s / time.t_s - 1.0).abs() < 0.005, "{t_s}");
        }
    }

    #[test]
    fn times_of_unknown_error_stay_as_measured() {
        let found = [
            thrice(1.0, 0.1),
            Observation::at_least(1.01),
            thrice(1.02, 0.0),
        ];
        assert_eq!(shrink_alike(&found), found);
        let once = [1.0, 1.1].map(|t_s| Observation::measured(t_s, 1, t_s));
        assert_eq!(shrink_alike(&once), once);
        assert!(shrink_alike(&[]).is_empty());
        let many = [1.0, 1.01, 1.02].map(|t_s| thrice(t_s, 0.05));
        // Repetitions of its beginning do not make a time of a floor.
        let floor = Observation {
            is_floor: true,
            ..thrice(1.015, 0.05)
        };
        let found = shrink_alike(&[many[0], floor, many[1], many[2]]);
        let alone = shrink_alike(&many);
        assert_eq!(found, [alone[0], floor, alone[1], alone[2]]);
        assert!((found[0].t_s - found[2].t_s).abs() < 0.001);
    }

    #[test]
    fn an_interval_of_a_point_is_that_of_95_percent() {
        let point = thrice(2.0, 0.1).to_point(7);
        assert_eq!((point.d, point.t_s, point.reps), (7, 2.0, 3));
        assert!((point.ci_s - 0.43).abs() < 1e-12);
        assert_eq!(Observation::at_least(2.0).to_point(7).reps, 0);
    }

    /// Two times that lie `apart_s` apart around `t_s`.
    fn pair_of(t_s: f64, apart_s: f64) -> Observation {
        Observation::measured(t_s, 2, apart_s / 2.0)
    }

    #[test]
    fn measurements_of_the_same_work_merge_as_one_sample() {
        // Times 1, 2, 3 and 6 s: in halves, and as a whole.
        let merged = pair_of(1.5, 1.0).merge(&pair_of(4.5, 3.0));
        assert_eq!((merged.t_s, merged.reps), (3.0, 4));
        // The first of them took twice its repetitions.
        let dear = pair_of(1.5, 1.0).with_cost(6.0).merge(&pair_of(4.5, 3.0));
        assert_eq!((merged.cost_s, dear.cost_s), (12.0, 15.0));
        let error_s = (14.0_f64 / 3.0 / 4.0).sqrt();
        assert!((merged.error_s - error_s).abs() < 1e-12);
        let predicted = Observation {
            reps: 0,
            ..pair_of(9.0, 1.0)
        };
        assert_eq!(predicted.merge(&merged), merged);
        assert_eq!(merged.merge(&predicted), merged);
        assert_eq!(predicted.merge(&predicted), predicted);
        let [low, high] = [2.0, 4.0].map(Observation::at_least);
        for (a, b, merged) in [
            (low, high, high),
            (predicted, low, low),
            (high, merged, merged),
        ] {
            assert_eq!((a.merge(&b), b.merge(&a)), (merged, merged));
        }
    }
}
