//! Times as logarithms with variances, and their merging.

use serde::{Deserialize, Serialize};

use super::sample::quantile_of;
use super::{QUANTILE, Quality, find_median};
use crate::model::Point;

/// The logarithm of the time of some units, with its variance, which is that of the relative error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LogTime {
    /// Units.
    pub d: f64,
    /// Logarithm of the seconds.
    pub log_s: f64,
    /// Variance of the logarithm.
    pub variance: f64,
    /// The origin of the time.
    #[serde(default)]
    pub quality: Quality,
}

impl LogTime {
    /// Makes the logarithm of a measured time.
    pub fn measured(d: f64, log_s: f64, variance: f64) -> Self {
        Self { d, log_s, variance, quality: Quality::Measured }
    }

    /// Makes the logarithm of a point's time. The interval of a few repetitions is wider than their error by Student's t. A
    /// point without an interval has the relative variance `doubt`.
    pub fn of_point(point: &Point, doubt: f64) -> Self {
        Self {
            d: point.d as f64,
            log_s: point.t_s.ln(),
            variance: if point.ci_s > 0.0 {
                (point.ci_s / (quantile_of(point.reps) * point.t_s)).powi(2)
            } else {
                doubt
            },
            quality: if point.reps > 0 { Quality::Measured } else { Quality::AtLeast },
        }
    }

    /// Returns the seconds.
    pub fn time_s(&self) -> f64 {
        self.log_s.exp()
    }

    /// Returns the logarithm of the seconds a unit.
    pub fn unit_log(&self) -> f64 {
        self.log_s - self.d.ln()
    }

    /// Returns `true` if the time is a lower bound.
    pub fn is_bound(&self) -> bool {
        self.quality == Quality::AtLeast
    }

    /// Returns the point of a model. Its interval is the one of 95 %.
    pub fn to_point(self) -> Point {
        let t_s = self.time_s();
        Point {
            d: self.d as u64,
            t_s,
            reps: u32::from(!self.is_bound()),
            ci_s: QUANTILE * t_s * self.variance.sqrt(),
        }
    }
}

/// Averages times of one size, weighted by their variances. Sizes must ascend.
pub(crate) fn merge_sizes(times: &mut Vec<LogTime>) {
    times.dedup_by(|next, kept| {
        let is_same = next.d <= kept.d;
        if is_same {
            let (a, b) = (1.0 / kept.variance, 1.0 / next.variance);
            kept.log_s = (a * kept.log_s + b * next.log_s) / (a + b);
            kept.variance = 1.0 / (a + b);
        }
        is_same
    });
}

/// Drops times that exceed the time of a larger size by more than `clearly` standard deviations: a disturbance only makes
/// times longer. Sizes must ascend.
pub(crate) fn drop_outrun(times: &mut Vec<LogTime>, clearly: f64) {
    let mut least: Option<LogTime> = None;
    let mut kept = Vec::with_capacity(times.len());
    for &time in times.iter().rev() {
        let limit = least.map_or(f64::INFINITY, |least| {
            least.log_s + clearly * (least.variance + time.variance).sqrt()
        });
        if time.log_s <= limit {
            kept.push(time);
        }
        if least.is_none_or(|least| time.log_s < least.log_s) {
            least = Some(time);
        }
    }
    kept.reverse();
    *times = kept;
}

/// Returns the common mean of the times of parts, at the size `d`, with the variance of a part around it.
///
/// The logarithms are taken as normally distributed around the mean. Their variance is what their spread exceeds their
/// errors by, and a further standard error less, so that parts count as alike as long as they may be.
///
/// # References
/// DerSimonian and Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7(3), 1986.
pub(crate) fn find_common(d: f64, times: &[LogTime]) -> LogTime {
    let weights: f64 = times.iter().map(|x| 1.0 / x.variance).sum();
    let squares: f64 = times.iter().map(|x| x.variance.powi(-2)).sum();
    let mean = times.iter().map(|x| x.log_s / x.variance).sum::<f64>() / weights;
    let excess: f64 = times.iter().map(|x| (x.log_s - mean).powi(2) / x.variance).sum();
    let freedom = times.len() as f64 - 1.0;
    let expected = freedom + (2.0 * freedom).sqrt();
    let spread = ((excess - expected) / (weights - squares / weights)).max(0.0);
    LogTime { d, log_s: mean, variance: spread + 1.0 / weights, quality: Quality::Predicted }
}

/// Returns the relative standard error of a device's times; 0 without intervals.
pub fn find_noise(points: &[Point]) -> f64 {
    let errors = points.iter().map(|point| LogTime::of_point(point, 0.0).variance.sqrt());
    find_median(&errors.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::Sample;

    fn average(logs: &[f64]) -> LogTime {
        let times: Vec<LogTime> =
            logs.iter().map(|&log_s| LogTime::measured(1.0, log_s, 1e-4)).collect();
        find_common(1.0, &times)
    }

    #[test]
    fn times_that_differ_by_their_errors_have_no_spread() {
        let alike = average(&[0.01, -0.01, 0.0, 0.012]);
        assert!((alike.log_s - 0.003).abs() < 1e-9 && alike.variance < 3e-5);
        let unlike = average(&[0.0, 1.0, 2.0]);
        assert!((unlike.variance.sqrt() - 1.0).abs() < 0.1, "{}", unlike.variance);
    }

    #[test]
    fn a_point_returns_with_the_error_of_its_sample() {
        for reps in [1, 2, 3, 5, 11, 200] {
            let point = Sample::measured(7, 2.0, reps, 0.06).to_point();
            let error = LogTime::of_point(&point, 1.0).variance.sqrt();
            assert!((error - 0.03).abs() < 1e-12, "{reps}: {error}");
        }
        let time = LogTime::measured(7.0, 0.5, 1e-3);
        let again = LogTime::of_point(&time.to_point(), 1.0);
        assert!((again.log_s - 0.5).abs() < 1e-12 && (again.variance - 1e-3).abs() < 1e-12);
    }

    #[test]
    fn a_time_that_a_larger_size_outruns_is_dropped() {
        let mut times = [(1.0, 0.5), (2.0, 0.1), (3.0, 0.11)]
            .map(|(d, log_s)| LogTime::measured(d, log_s, 1e-4))
            .to_vec();
        drop_outrun(&mut times, 4.0);
        assert_eq!(times.iter().map(|time| time.d).collect::<Vec<_>>(), [2.0, 3.0]);
    }
}
