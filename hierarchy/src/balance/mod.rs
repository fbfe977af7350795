//! Balancing: step machines that ask for measurements and end in a balanced division.
//!
//! [`Dpa`] balances units over parts, [`Inpa`] a matrix over nodes, [`Idpa`] a node's sub-matrix over
//! its devices. None of them measures anything: the caller takes a request from `step()`, measures,
//! hands the times to `observe()`, and repeats until `step()` says [`BalanceStep::Done`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::layout::Method;
use crate::model::{Fit, ModelError};
use crate::partition::{PartitionError, Partitioner};

pub mod dpa;
pub mod idpa;
pub mod inpa;

pub use dpa::{Balanced, Dpa};
pub use idpa::{DeviceBalance, Idpa};
pub use inpa::{Extent, Inpa, NodeBalance};

/// How the balance is sought.
///
/// # References
/// Clarke et al. 2012, section 4, compares these four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// The same amount to everybody; nothing is measured.
    Homogeneous,
    /// One measurement of an even division, then in proportion to the speeds it showed.
    SingleCpm,
    /// In proportion to the speeds that the last division showed, again and again.
    MultiCpm,
    /// By functional performance models that every measurement adds a point to.
    #[default]
    Fpm,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 4] = [
        Self::Homogeneous,
        Self::SingleCpm,
        Self::MultiCpm,
        Self::Fpm,
    ];

    /// The name in text: `homogeneous`, `single-cpm`, `multi-cpm` or `fpm`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Homogeneous => "homogeneous",
            Self::SingleCpm => "single-cpm",
            Self::MultiCpm => "multi-cpm",
            Self::Fpm => "fpm",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = BalanceError;

    fn from_str(text: &str) -> Result<Self, BalanceError> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.name() == text)
            .ok_or_else(|| BalanceError::UnknownStrategy {
                name: text.to_owned(),
            })
    }
}

/// Which division [`Strategy::Fpm`] measures first, once each part's first small point is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalanceStart {
    /// The even one, as in the papers.
    Even,
    /// What the first points suggest. Between unlike parts the even division is the most expensive
    /// measurement there is: the slowest part works on as much as the fastest.
    #[default]
    FirstPoints,
}

/// How to balance and when to stop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BalanceConfig {
    /// How the balance is sought.
    pub strategy: Strategy,
    /// The [`imbalance`] that counts as balanced.
    pub epsilon: f64,
    /// Divisions measured at most, not counting the first small points; at least one is.
    pub max_iterations: u32,
    /// How often the measured kernel will run afterwards; 0 if unknown. If known, balancing ends as
    /// soon as a further measurement would cost more than it can save.
    pub steps: u64,
    /// Repetitions that one measurement costs at least: kernel runs, or several each where the measurements before
    /// [cost](Observation::cost_s) more.
    pub reps: u32,
    /// What [`Strategy::Fpm`] measures first.
    pub start: BalanceStart,
    /// What [`Strategy::Fpm`] makes of each part's points.
    pub fit: Fit,
    /// What [`Strategy::Fpm`] divides by those models with.
    pub partitioner: Partitioner,
    /// How [`Inpa`] lays areas out.
    pub layout: Method,
}

impl Default for BalanceConfig {
    /// FPM to 5 % in at most 10 iterations, 3 repetitions a measurement, the number of steps unknown;
    /// piecewise linear speeds, GPA and BR, as in the papers.
    fn default() -> Self {
        Self {
            strategy: Strategy::Fpm,
            epsilon: 0.05,
            max_iterations: 10,
            steps: 0,
            reps: 3,
            start: BalanceStart::FirstPoints,
            fit: Fit::default(),
            partitioner: Partitioner::default(),
            layout: Method::default(),
        }
    }
}

/// What measuring one part gave.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Observation {
    /// Mean time in seconds; 0 for a part without units.
    pub t_s: f64,
    /// Repetitions that the mean was taken over; 0 if the time is not measured but predicted.
    pub reps: u32,
    /// Half-width of the confidence interval of the mean, in seconds.
    pub ci_s: f64,
    /// Whether measuring was given up, so that `t_s` is only the least that the part takes.
    #[serde(default)]
    pub is_floor: bool,
    /// Seconds that measuring took; 0 if that was all repetitions and no more.
    #[serde(default)]
    pub cost_s: f64,
}

impl Observation {
    /// A mean of `reps` measured times, which took no more than these repetitions.
    #[must_use]
    pub fn measured(t_s: f64, reps: u32, ci_s: f64) -> Self {
        Self {
            t_s,
            reps,
            ci_s,
            is_floor: false,
            cost_s: 0.0,
        }
    }

    /// The same, where measuring took `cost_s` seconds: a repetition was more than one kernel run, or there was something to
    /// do before and after.
    #[must_use]
    pub fn costing(self, cost_s: f64) -> Self {
        Self { cost_s, ..self }
    }

    /// The same part with something that takes so many seconds more, which are known; nothing where it has no units.
    #[must_use]
    pub fn with_known(self, more_s: f64) -> Self {
        let more_s = if self.t_s > 0.0 { more_s } else { 0.0 };
        Self {
            t_s: self.t_s + more_s,
            ..self
        }
    }

    /// A measurement that was given up after `t_s` seconds.
    #[must_use]
    pub fn at_least(t_s: f64) -> Self {
        Self {
            t_s,
            reps: 0,
            ci_s: 0.0,
            is_floor: true,
            cost_s: 0.0,
        }
    }

    /// Both measurements of the same work as one, as if all repetitions were of one sample. A time that
    /// was only predicted gives way to a floor, the floor to a larger one, and either to a measured time.
    #[must_use]
    pub fn merge(&self, other: &Self) -> Self {
        if self.reps == 0 || other.reps == 0 {
            let rank = |time: &Self| (time.reps > 0, time.is_floor);
            let larger = rank(self) == rank(other) && other.is_floor && other.t_s > self.t_s;
            let second = rank(other) > rank(self) || larger;
            return if second { *other } else { *self };
        }
        let [n1, n2] = [self, other].map(|observation| f64::from(observation.reps));
        let n = n1 + n2;
        let apart_s = self.t_s - other.t_s;
        let squares = self.squares() + other.squares() + n1 * n2 / n * apart_s * apart_s;
        let reps = self.reps.saturating_add(other.reps);
        Self {
            t_s: (n1 * self.t_s + n2 * other.t_s) / n,
            reps,
            ci_s: student_t(reps) * (squares / (n * (n - 1.0))).sqrt(),
            is_floor: false,
            cost_s: self.measuring_s() + other.measuring_s(),
        }
    }

    /// Seconds that measuring took.
    fn measuring_s(&self) -> f64 {
        self.cost_s.max(self.repetitions_s())
    }

    /// Seconds of the repetitions, if each is one kernel run.
    fn repetitions_s(&self) -> f64 {
        f64::from(self.reps.max(1)) * self.t_s
    }

    /// The same measurement, if the kernel took `t_s` seconds.
    fn taking(self, t_s: f64) -> Self {
        let slower = if self.t_s > 0.0 { t_s / self.t_s } else { 1.0 };
        Self {
            t_s,
            is_floor: false,
            cost_s: self.cost_s * slower,
            ..self
        }
    }

    /// Whether another measurement of the same work differs by no more than the confidence interval of the difference, and
    /// by no more than alike parts may: measurements that say nothing make no parts alike.
    fn is_alike(&self, other: &Self) -> bool {
        let measured = self.reps > 1 && other.reps > 1;
        let apart_s = (self.t_s - other.t_s).abs();
        let most_s = NEARLY_ALIKE * self.t_s.max(other.t_s);
        measured && apart_s <= self.ci_s.hypot(other.ci_s).min(most_s)
    }

    /// The sum of the squared deviations from the mean.
    fn squares(&self) -> f64 {
        let n = f64::from(self.reps);
        n * (n - 1.0) * self.standard_error_s().powi(2)
    }

    /// The standard error of the mean that a confidence interval of 95 % comes from.
    fn standard_error_s(&self) -> f64 {
        self.ci_s / student_t(self.reps)
    }
}

/// How far apart, of the longer time, times may be that are taken for equal.
const NEARLY_ALIKE: f64 = 0.25;

/// Times of the same work by several parts, where those that differ by no more than their errors are replaced by their mean:
/// what looks like a difference between alike parts is noise, and to follow it would make them unequal.
///
/// # Example
/// ```
/// use isochron_hierarchy::balance::{Observation, merge_alike};
///
/// let time = |t_s| Observation::measured(t_s, 3, 0.1);
/// let found: Vec<f64> = merge_alike(&[time(1.0), time(3.0), time(1.1)]).iter().map(|time| time.t_s).collect();
/// assert_eq!(found, [1.05, 3.0, 1.05]);
/// ```
#[must_use]
pub fn merge_alike(times: &[Observation]) -> Vec<Observation> {
    let mut by_time: Vec<usize> = (0..times.len()).collect();
    by_time.sort_by(|&a, &b| times[a].t_s.total_cmp(&times[b].t_s));
    let mut equal = times.to_vec();
    let mut first = 0;
    while first < by_time.len() {
        let fastest = &times[by_time[first]];
        let others = by_time[first..].iter();
        let count = others
            .take_while(|&&part| fastest.is_alike(&times[part]))
            .count();
        let group = &by_time[first..first + count.max(1)];
        let sum_s: f64 = group.iter().map(|&part| times[part].t_s).sum();
        // Who is like nobody stays as measured, a floor among them.
        for &part in group.iter().filter(|_| group.len() > 1) {
            equal[part] = times[part].taking(sum_s / group.len() as f64);
        }
        first += group.len();
    }
    equal
}

/// Student's t: the quantile 0.975 for the mean of so many repetitions.
fn student_t(reps: u32) -> f64 {
    const BY_FREEDOM: [f64; 9] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26];
    let freedom = reps.saturating_sub(1) as usize;
    // Beyond the table this is within a hundredth of it.
    let beyond = || 1.96 + 2.6 / freedom as f64;
    freedom.checked_sub(1).map_or(BY_FREEDOM[0], |i| {
        BY_FREEDOM.get(i).copied().unwrap_or_else(beyond)
    })
}

/// What a step machine wants next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalanceStep<R, D> {
    /// Measure this, and hand over the times with `observe`.
    Measure(R),
    /// Balancing is over, with this result.
    Done(D),
}

/// One measured division.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredDivision {
    /// Units of each part.
    pub units: Vec<u64>,
    /// Measured seconds of each part; 0 for a part without units.
    pub times_s: Vec<f64>,
    /// Standard errors of these times in seconds.
    pub errors_s: Vec<f64>,
    /// Seconds that measuring took: of the part that took longest.
    pub measuring_s: f64,
    /// Kernel runs that a repetition cost; 1 where each is one and nothing else was to be done.
    pub runs: f64,
    /// Whether measuring a part was given up: its time is the least that it takes.
    #[serde(default)]
    pub cut_off: bool,
    /// The [`imbalance`] of these times.
    pub imbalance: f64,
}

impl MeasuredDivision {
    /// Standard error of the time of the part that finished last, in seconds: what of it is likely
    /// noise.
    pub(crate) fn noise_s(&self) -> f64 {
        let parts = 0..self.times_s.len();
        let last = parts.max_by(|&a, &b| self.times_s[a].total_cmp(&self.times_s[b]));
        last.map_or(0.0, |part| self.errors_s[part])
    }

    /// Seconds of the part that finished last.
    #[must_use]
    pub fn max_time_s(&self) -> f64 {
        self.times_s.iter().copied().fold(0.0, f64::max)
    }
}

/// Why balancing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The last measured division was balanced; or, where the best division need not be
    /// ([`Partitioner::Hpopta`]), as fast as the models promise of any.
    Balanced,
    /// The next division would be one that was measured already: nothing more can be learnt.
    NothingNew,
    /// Measuring on would have cost more than it could save.
    NotWorthIt,
    /// The permitted number of iterations was used up.
    IterationLimit,
    /// The result follows from a measurement, and was not itself measured ([`Strategy::SingleCpm`]).
    Predicted,
    /// Nothing was measured ([`Strategy::Homogeneous`]).
    NotMeasured,
    /// There was no work to divide.
    NoWork,
}

impl fmt::Display for EndReason {
    /// The name that it has in JSON too, such as `nothing-new`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Balanced => "balanced",
            Self::NothingNew => "nothing-new",
            Self::NotWorthIt => "not-worth-it",
            Self::IterationLimit => "iteration-limit",
            Self::Predicted => "predicted",
            Self::NotMeasured => "not-measured",
            Self::NoWork => "no-work",
        })
    }
}

/// The largest relative difference between the times of any two parts that have work,
/// `max_{i,j} |t_i - t_j| / t_i = (t_max - t_min) / t_min`; 0 if fewer than two have. A part without
/// units has time 0.
///
/// # References
/// Clarke et al. 2012, section 3, step 6 of INPA.
#[must_use]
pub fn imbalance(times_s: &[f64]) -> f64 {
    let busy = || times_s.iter().copied().filter(|&t| t > 0.0);
    let (min, max) = (
        busy().fold(f64::INFINITY, f64::min),
        busy().fold(0.0, f64::max),
    );
    if max > min { (max - min) / min } else { 0.0 }
}

/// What makes an observation unusable.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BalanceError {
    /// The name of a strategy that does not exist.
    #[error("unknown strategy \"{name}\": expected one of {}", Strategy::ALL.map(Strategy::name).join(", "))]
    UnknownStrategy {
        /// The name given.
        name: String,
    },
    /// Times were handed over that nobody asked for.
    #[error("balancing has ended: no measurement is wanted")]
    NotMeasuring,
    /// Not one value for each part.
    #[error("{got} values for {wanted} parts")]
    WrongLength {
        /// Number of parts.
        wanted: usize,
        /// Number of values.
        got: usize,
    },
    /// The measured division is not one of the work to divide.
    #[error("{got} units measured of a total of {wanted}")]
    WrongTotal {
        /// Units to divide.
        wanted: u64,
        /// Sum of the measured units.
        got: u64,
    },
    /// A part that has no finite positive time although it had work.
    #[error("part {index}: {source}")]
    InvalidTime {
        /// Index of the part.
        index: usize,
        /// The refused point.
        source: ModelError,
    },
    /// The models do not admit a division.
    #[error(transparent)]
    Partition(#[from] PartitionError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_added_to_what_has_units() {
        let measured = Observation::measured(2.0, 3, 0.1).with_known(0.5);
        assert_eq!((measured.t_s, measured.reps, measured.ci_s), (2.5, 3, 0.1));
        assert!(Observation::at_least(2.0).with_known(0.5).is_floor);
        assert_eq!(Observation::measured(0.0, 0, 0.0).with_known(0.5).t_s, 0.0);
    }

    #[test]
    fn imbalance_is_relative_to_the_faster_part_and_ignores_idle_ones() {
        assert_eq!(imbalance(&[2.0, 3.0, 0.0]), 0.5);
        assert_eq!(imbalance(&[2.0, 0.0]), 0.0);
        assert_eq!(imbalance(&[]), 0.0);
    }

    #[test]
    fn only_times_that_differ_by_more_than_their_errors_stay_apart() {
        let time = |t_s, ci_s| Observation::measured(t_s, 3, ci_s);
        let mut found = [
            time(4.0, 0.1),
            time(1.0, 0.1),
            Observation::at_least(1.05),
            time(1.3, 0.1),
            time(1.1, 0.1),
        ];
        let times = |found: &[Observation]| -> Vec<f64> {
            let even = merge_alike(found).into_iter();
            even.map(|time| time.t_s).collect()
        };
        // What is only a floor is like nobody, and keeps those beside it apart.
        assert_eq!(times(&found), [4.0, 1.0, 1.05, 1.3, 1.1]);
        found[2] = time(1.05, 0.1);
        assert_eq!(times(&found), [4.0, 1.05, 1.05, 1.3, 1.05]);
        assert_eq!(
            times(&found.map(|time| Observation { ci_s: 0.0, ..time })),
            [4.0, 1.0, 1.05, 1.3, 1.1]
        );
        assert!(merge_alike(&[]).is_empty());
        assert!(merge_alike(&[time(1.0, 0.1), Observation::at_least(9.0)])[1].is_floor);
        // Intervals so wide that they say nothing, and one that is none.
        let unlike = [time(1.0, 0.9), time(1.5, 0.9)];
        assert_eq!(times(&unlike), [1.0, 1.5]);
        let once = [1.0, 1.1].map(|t_s| Observation::measured(t_s, 1, t_s));
        assert_eq!(times(&once), [1.0, 1.1]);
    }

    #[test]
    fn measurements_of_the_same_work_merge_as_one_sample() {
        // Times 1, 2, 3 and 6 s: in halves, and as a whole.
        let half =
            |t_s: f64, apart_s: f64| Observation::measured(t_s, 2, student_t(2) * apart_s / 2.0);
        let merged = half(1.5, 1.0).merge(&half(4.5, 3.0));
        assert_eq!((merged.t_s, merged.reps), (3.0, 4));
        // The first of them took twice its repetitions.
        let dear = half(1.5, 1.0).costing(6.0).merge(&half(4.5, 3.0));
        assert_eq!((merged.cost_s, dear.cost_s), (12.0, 15.0));
        let error_s = (14.0_f64 / 3.0 / 4.0).sqrt();
        assert!((merged.standard_error_s() - error_s).abs() < 1e-12);
        let predicted = Observation {
            reps: 0,
            ..half(9.0, 1.0)
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
    fn strategies_have_one_name_in_text_and_in_json() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
            let json = serde_json::to_string(&strategy).expect("serialises");
            assert_eq!(json, format!("\"{strategy}\""));
        }
        assert!("cpm".parse::<Strategy>().is_err());
    }

    #[test]
    fn outcomes_have_one_name_in_text_and_in_json() {
        use EndReason::{
            Balanced, IterationLimit, NoWork, NotMeasured, NotWorthIt, NothingNew, Predicted,
        };
        for outcome in [
            Balanced,
            NothingNew,
            NotWorthIt,
            IterationLimit,
            Predicted,
            NotMeasured,
            NoWork,
        ] {
            let json = serde_json::to_string(&outcome).expect("serialises");
            assert_eq!(json, format!("\"{outcome}\""));
        }
    }
}
