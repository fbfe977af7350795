//! The mean of a few measured times, and how well it is known.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::stats_tests::anderson_darling::anderson_darling;

/// Measured times in seconds, with their mean and its confidence interval.
///
/// ```
/// use isochron_devices::measure::Sample;
/// let sample: Sample = [1.0, 2.0, 3.0].into_iter().collect();
/// assert_eq!(sample.mean(), 2.0);
/// assert!((sample.half_width(0.95) - 2.484).abs() < 1e-3);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Sample {
    count: usize,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Sample {
    /// Adds one time, by Welford's update, which loses no digits where times are nearly equal.
    pub fn push(&mut self, t_s: f64) {
        self.count += 1;
        let before = t_s - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (t_s - self.mean);
    }

    /// How many times were added.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The mean; 0 for an empty sample.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation `s` with `n - 1` in the denominator; 0 for fewer than two times.
    pub fn deviation(&self) -> f64 {
        match self.count {
            0 | 1 => 0.0,
            n => (self.squares / (n - 1) as f64).sqrt(),
        }
    }

    /// Half the width of the confidence interval of the mean: `t·s/√n`, where `t` is the quantile `(1 + confidence)/2`
    /// of Student's distribution with `n - 1` degrees of freedom. Infinite for fewer than two times, of which nothing
    /// is known.
    ///
    /// # References
    /// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1, algorithm 2.
    pub fn half_width(&self, confidence: f64) -> f64 {
        if self.count < 2 {
            return f64::INFINITY;
        }
        let n = self.count as f64;
        // The parameters are valid for every n >= 2; an infinite width is what "not known" means.
        StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::INFINITY, |student| {
            student.inverse_cdf(f64::midpoint(1.0, confidence)) * self.deviation() / n.sqrt()
        })
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(times: I) -> Self {
        let mut sample = Self::default();
        times.into_iter().for_each(|t_s| sample.push(t_s));
        sample
    }
}

/// Fewer times than these do not tell whether they are normally distributed.
const TELLING: usize = 8;

/// The statistic of Anderson and Darling that one normally distributed sample in a hundred exceeds, where its mean and
/// deviation are estimated. In a model of dozens of points a test at the usual 5 % would complain about steady devices
/// too.
const ONE_IN_A_HUNDRED: f64 = 1.035;

/// Whether times look normally distributed, as Student's t assumes: the test of Anderson and Darling with estimated mean
/// and deviation, at 1 %. `None` for fewer than 8 times, for times that are all equal, and for times that are not
/// finite.
///
/// A mean of many times is all but normal even where the times are not; so a failed check is reported, and the
/// measurement still stands.
///
/// # References
/// Stephens, "EDF statistics for goodness of fit and some comparisons", 1974; D'Agostino and Stephens,
/// "Goodness-of-fit techniques", 1986, table 4.7 (`A²·(1 + 0.75/n + 2.25/n²)` and its quantiles).
pub fn looks_normal(times: &[f64]) -> Option<bool> {
    let sample: Sample = times.iter().copied().collect();
    if sample.count() < TELLING || !times.iter().all(|t| t.is_finite()) {
        return None;
    }
    // There is no such distribution where the deviation is 0.
    let normal = Normal::new(sample.mean(), sample.deviation()).ok()?;
    let (squared, _) = anderson_darling(times, &normal).ok()?;
    let n = sample.count() as f64;
    // A time so far out that its probability is 0 makes the statistic infinite: not normal.
    Some(squared * (1.0 + 0.75 / n + 2.25 / (n * n)) <= ONE_IN_A_HUNDRED)
}

/// The median; 0 for no values.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_half_widths() {
        // Quantiles of Student's t from the tables: t(0.975, 2) = 4.302653, t(0.975, 4) = 2.776445,
        // t(0.995, 9) = 3.249836.
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * b, "{a} and {b}");
        let three: Sample = [1.0, 2.0, 3.0].into_iter().collect();
        close(three.half_width(0.95), 4.302_653 / 3.0_f64.sqrt());
        let five: Sample = [2.0, 4.0, 4.0, 4.0, 6.0].into_iter().collect();
        assert_eq!((five.mean(), five.count()), (4.0, 5));
        close(five.deviation(), 2.0_f64.sqrt());
        close(
            five.half_width(0.95),
            2.776_445 * 2.0_f64.sqrt() / 5.0_f64.sqrt(),
        );
        let ten: Sample = (1..=10).map(f64::from).collect();
        close(
            ten.half_width(0.99),
            3.249_836 * (82.5_f64 / 9.0).sqrt() / 10.0_f64.sqrt(),
        );
    }

    #[test]
    fn nearly_equal_times_keep_their_spread() {
        let base = 1e6;
        let sample: Sample = [base, base + 1e-3, base + 2e-3].into_iter().collect();
        assert!((sample.deviation() - 1e-3).abs() < 1e-6);
    }

    #[test]
    fn one_time_says_nothing_of_the_spread() {
        let sample: Sample = [3.0].into_iter().collect();
        assert_eq!(sample.mean(), 3.0);
        assert_eq!(sample.half_width(0.95), f64::INFINITY);
    }

    #[test]
    fn normal_times_are_told_from_others() {
        // Quantiles of the normal distribution, which no sample follows better.
        let normal = Normal::new(2.0, 0.1).unwrap();
        let quantiles = |n: u32| -> Vec<f64> {
            let part = |i| (f64::from(i) + 0.5) / f64::from(n);
            (0..n).map(|i| normal.inverse_cdf(part(i))).collect()
        };
        assert_eq!(looks_normal(&quantiles(8)), Some(true));
        assert_eq!(looks_normal(&quantiles(1000)), Some(true));
        let skewed: Vec<f64> = quantiles(30).iter().map(|t| (20.0 * t).exp()).collect();
        assert_eq!(looks_normal(&skewed), Some(false));
        let mut spiked = quantiles(1000);
        spiked[7] = 1e6;
        assert_eq!(looks_normal(&spiked), Some(false));
    }

    #[test]
    fn too_few_or_equal_times_are_not_tested() {
        assert_eq!(looks_normal(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), None);
        assert_eq!(looks_normal(&[1.0; 20]), None);
        assert_eq!(looks_normal(&[f64::INFINITY; 20]), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
