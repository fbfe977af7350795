//! Measurements of one part, and parts that measured alike.
//!
//! # Deviations
//!
//! * **times of alike parts**: the papers take every time as measured (Clarke et al. 2012, section 3);
//!   here [`merge_alike()`] averages first times that differ by no more than their errors, because to
//!   follow noise would make alike parts unequal.

use serde::{Deserialize, Serialize};

/// The result of measuring one part.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    /// Mean time in seconds; 0 for a part without units.
    pub t_s: f64,
    /// Repetitions that the mean was taken over; 0 if the time is not measured but predicted.
    pub reps: u32,
    /// Half-width of the confidence interval of the mean, in seconds.
    pub ci_s: f64,
    /// `true` if measuring was given up, so that `t_s` is only a lower bound.
    pub is_floor: bool,
    /// Seconds that measuring took; 0 if the repetitions took all of them.
    pub cost_s: f64,
}

impl Observation {
    /// Makes the observation of a mean of `reps` measured times, without further cost.
    pub fn measured(t_s: f64, reps: u32, ci_s: f64) -> Self {
        Self {
            t_s,
            reps,
            ci_s,
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
        let reps = self.reps.saturating_add(other.reps);
        Self {
            t_s: (n1 * self.t_s + n2 * other.t_s) / n,
            reps,
            ci_s: student_t(reps) * (squares / (n * (n - 1.0))).sqrt(),
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

    /// Returns `true` if another measurement of the same work differs by no more than the confidence
    /// interval of the difference, and by no more than alike parts may. The second limit keeps
    /// intervals that are too wide from making parts alike.
    fn is_alike(&self, other: &Self) -> bool {
        let measured = self.reps > 1 && other.reps > 1;
        let apart_s = (self.t_s - other.t_s).abs();
        let most_s = NEARLY_ALIKE * self.t_s.max(other.t_s);
        measured && apart_s <= self.ci_s.hypot(other.ci_s).min(most_s)
    }

    /// Returns the sum of the squared deviations from the mean.
    fn sum_squares(&self) -> f64 {
        let n = f64::from(self.reps);
        n * (n - 1.0) * self.standard_error_s().powi(2)
    }

    /// Returns the standard error of the mean, from its confidence interval of 95 %.
    pub(super) fn standard_error_s(&self) -> f64 {
        self.ci_s / student_t(self.reps)
    }
}

/// Largest relative difference, of the longer time, between times that are taken for equal.
const NEARLY_ALIKE: f64 = 0.25;

/// Averages times of the same work by several parts if they differ by no more than their errors.
pub fn merge_alike(times: &[Observation]) -> Vec<Observation> {
    let mut by_time: Vec<usize> = (0..times.len()).collect();
    by_time.sort_by(|&a, &b| times[a].t_s.total_cmp(&times[b].t_s));
    let mut equal = times.to_vec();
    let mut first = 0;
    while first < by_time.len() {
        let fastest = &times[by_time[first]];
        let alike = by_time[first..]
            .iter()
            .take_while(|&&part| fastest.is_alike(&times[part]));
        let count = alike.count();
        let group = &by_time[first..first + count.max(1)];
        let sum_s: f64 = group.iter().map(|&part| times[part].t_s).sum();
        // A part that is alike to no other stays as measured, a floor among them.
        for &part in group.iter().filter(|_| group.len() > 1) {
            equal[part] = times[part].scale_to(sum_s / group.len() as f64);
        }
        first += group.len();
    }
    equal
}

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
        assert_eq!((measured.t_s, measured.reps, measured.ci_s), (2.5, 3, 0.1));
        assert!(Observation::at_least(2.0).plus_known(0.5).is_floor);
        assert_eq!(Observation::measured(0.0, 0, 0.0).plus_known(0.5).t_s, 0.0);
    }

    fn thrice(t_s: f64, ci_s: f64) -> Observation {
        Observation::measured(t_s, 3, ci_s)
    }

    fn merged_times(found: &[Observation]) -> Vec<f64> {
        merge_alike(found).iter().map(|time| time.t_s).collect()
    }

    #[test]
    fn only_times_that_differ_by_more_than_their_errors_stay_apart() {
        let mut found = [
            thrice(4.0, 0.1),
            thrice(1.0, 0.1),
            Observation::at_least(1.05),
            thrice(1.3, 0.1),
            thrice(1.1, 0.1),
        ];
        // A floor is alike to no time, and keeps its neighbours apart.
        assert_eq!(merged_times(&found), [4.0, 1.0, 1.05, 1.3, 1.1]);
        found[2] = thrice(1.05, 0.1);
        assert_eq!(merged_times(&found), [4.0, 1.05, 1.05, 1.3, 1.05]);
        let exact = found.map(|time| Observation { ci_s: 0.0, ..time });
        assert_eq!(merged_times(&exact), [4.0, 1.0, 1.05, 1.3, 1.1]);
        assert!(merge_alike(&[]).is_empty());
        assert!(merge_alike(&[thrice(1.0, 0.1), Observation::at_least(9.0)])[1].is_floor);
        // Intervals so wide that they say nothing, and times without an interval.
        let unlike = [thrice(1.0, 0.9), thrice(1.5, 0.9)];
        assert_eq!(merged_times(&unlike), [1.0, 1.5]);
        let once = [1.0, 1.1].map(|t_s| Observation::measured(t_s, 1, t_s));
        assert_eq!(merged_times(&once), [1.0, 1.1]);
    }

    /// Two times that lie `apart_s` apart around `t_s`.
    fn pair_of(t_s: f64, apart_s: f64) -> Observation {
        Observation::measured(t_s, 2, student_t(2) * apart_s / 2.0)
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
        assert!((merged.standard_error_s() - error_s).abs() < 1e-12);
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

    #[test]
    fn alike_times_become_their_mean() {
        let times = [1.0, 3.0, 1.1].map(|t_s| Observation::measured(t_s, 3, 0.1));
        let found: Vec<f64> = merge_alike(&times).iter().map(|time| time.t_s).collect();
        assert_eq!(found, [1.05, 3.0, 1.05]);
    }
}
