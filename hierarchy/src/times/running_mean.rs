//! The mean of measured times with its precision, the test for normality, and the median.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::stats_tests::anderson_darling::anderson_darling;

/// The mean of measured times in seconds, and their standard deviation, without the times themselves.
#[derive(Debug, Clone, Default)]
pub struct RunningMean {
    count: usize,
    /// The mean; 0 without times.
    pub mean: f64,
    /// The sum of the squares of the distances from the mean.
    squares: f64,
}

impl RunningMean {
    /// Summarizes times.
    pub fn of(times: &[f64]) -> Self {
        let mut mean = Self::default();
        times.iter().for_each(|&t_s| mean.add(t_s));
        mean
    }

    /// Adds a time, by Welford's update, which loses no digits if times are nearly equal.
    pub fn add(&mut self, t_s: f64) {
        self.count += 1;
        let before = t_s - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (t_s - self.mean);
    }

    /// Adds the times of another mean, by the formula of Chan, Golub and LeVeque.
    pub fn merge(&mut self, other: &Self) {
        let count = self.count + other.count;
        if count == 0 {
            return;
        }
        let [own, added] = [self.count, other.count].map(|n| n as f64 / count as f64);
        let apart = other.mean - self.mean;
        self.mean += apart * added;
        self.squares += other.squares + apart * apart * own * added * count as f64;
        self.count = count;
    }

    /// Returns the number of times.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the standard deviation `s`, with `n - 1` in the denominator; 0 for fewer than two times.
    fn deviation(&self) -> f64 {
        (self.squares / (self.count.max(2) - 1) as f64).sqrt()
    }

    /// Returns the standard error of the mean, `s/√n`; 0 for fewer than two times.
    pub fn standard_error(&self) -> f64 {
        self.deviation() / (self.count.max(1) as f64).sqrt()
    }

    /// Returns half the width of the confidence interval of the mean, `t·s/√n`, where `t` is the quantile
    /// `(1 + confidence)/2` of Student's distribution with `n - 1` degrees of freedom. Infinite for fewer than two
    /// times.
    ///
    /// # Deviations
    /// * **Quantile of Student's t**: the paper takes the quantile `cl` of the distribution (supplement of the HPOPTA
    ///   paper, section 1, algorithm 2), so its interval of 95 % holds the mean in 90 % of all cases. Here it is `(1 +
    ///   cl)/2`, because an interval has two sides.
    /// * **Precision of a mean**: the paper prints `clOut·eps/sum < eps` (supplement of the HPOPTA paper, section 1,
    ///   algorithm 2). Here the half-width is compared with `eps` times the mean, `clOut·reps/sum < eps`, because the
    ///   printed condition does not depend on `eps`.
    ///
    /// # References
    /// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1, algorithm 2.
    pub fn half_width(&self, confidence: f64) -> f64 {
        if self.count < 2 {
            return f64::INFINITY;
        }
        let n = self.count as f64;
        // The parameters are valid for every n >= 2, so this never fails.
        StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::INFINITY, |student| {
            student.inverse_cdf(f64::midpoint(1.0, confidence)) * self.standard_error()
        })
    }
}

/// Number of times below which a test for normality says nothing.
const TELLING: usize = 8;

/// Value of the statistic of Anderson and Darling that one normal sample in a hundred exceeds, with estimated mean and
/// deviation. At the usual 5 % a model of dozens of points would complain about steady devices too.
const ONE_IN_A_HUNDRED: f64 = 1.035;

/// Tests whether times look normally distributed, as Student's t assumes. `None` for fewer than 8 times, for equal
/// times and for times that are not finite.
///
/// The test is that of Anderson and Darling with estimated mean and deviation, at 1 %.
///
/// # Deviations
/// * **Normality**: the paper looks at plots of the times (supplement of the HPOPTA paper, section 1). Here they are
///   tested from 8 times on, and a failure is only reported, because the mean is normal long before the times are.
///
/// # References
/// Stephens, "EDF statistics for goodness of fit and some comparisons", 1974; D'Agostino and Stephens,
/// "Goodness-of-fit techniques", 1986, table 4.7 (`A²·(1 + 0.75/n + 2.25/n²)` and its quantiles).
pub fn looks_normal(times: &[f64]) -> Option<bool> {
    let sample = RunningMean::of(times);
    if sample.count < TELLING || !times.iter().all(|t| t.is_finite()) {
        return None;
    }
    // A deviation of 0 has no such distribution.
    let normal = Normal::new(sample.mean, sample.deviation()).ok()?;
    let (squared, _) = anderson_darling(times, &normal).ok()?;
    let n = sample.count as f64;
    // A time so far out that its probability is 0 makes the statistic infinite: not normal.
    Some(squared * (1.0 + 0.75 / n + 2.25 / (n * n)) <= ONE_IN_A_HUNDRED)
}

/// Returns the median; 0 for no values.
pub fn find_median(values: &[f64]) -> f64 {
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

    fn assert_close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6 * b, "{a} and {b}");
    }

    #[test]
    fn known_half_widths() {
        // Quantiles of Student's t from the tables: t(0.975, 2) = 4.302653, t(0.975, 4) = 2.776445,
        // t(0.995, 9) = 3.249836.
        let three = RunningMean::of(&[1.0, 2.0, 3.0]);
        assert_close(three.half_width(0.95), 4.302_653 / 3.0_f64.sqrt());
        let five = RunningMean::of(&[2.0, 4.0, 4.0, 4.0, 6.0]);
        assert_eq!((five.mean, five.count), (4.0, 5));
        assert_close(five.deviation(), 2.0_f64.sqrt());
        assert_close(five.half_width(0.95), 2.776_445 * 2.0_f64.sqrt() / 5.0_f64.sqrt());
        let ten = RunningMean::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        assert_close(ten.half_width(0.99), 3.249_836 * (82.5_f64 / 9.0).sqrt() / 10.0_f64.sqrt());
    }

    #[test]
    fn nearly_equal_times_keep_their_spread() {
        let base = 1e6;
        let sample = RunningMean::of(&[base, base + 1e-3, base + 2e-3]);
        assert!((sample.deviation() - 1e-3).abs() < 1e-6);
    }

    #[test]
    fn merged_samples_are_one_sample_of_all_times() {
        let times = [1.0, 3.0, 4.0, 8.0, 0.5, 2.5];
        let whole = RunningMean::of(&times);
        for split in 0..=times.len() {
            let mut merged = RunningMean::of(&times[..split]);
            merged.merge(&RunningMean::of(&times[split..]));
            assert_eq!(merged.count(), times.len());
            assert_close(merged.mean, whole.mean);
            assert_close(merged.deviation(), whole.deviation());
        }
        let mut none = RunningMean::default();
        none.merge(&RunningMean::default());
        assert_eq!((none.count(), none.mean), (0, 0.0));
    }

    #[test]
    fn one_time_says_nothing_of_the_spread() {
        let sample = RunningMean::of(&[3.0]);
        assert_eq!(sample.mean, 3.0);
        assert_eq!(sample.half_width(0.95), f64::INFINITY);
    }

    /// Quantiles of the normal distribution, which no sample follows better.
    fn quantiles(n: u32) -> Vec<f64> {
        let normal = Normal::new(2.0, 0.1).unwrap();
        (0..n).map(|i| normal.inverse_cdf((f64::from(i) + 0.5) / f64::from(n))).collect()
    }

    #[test]
    fn normal_times_are_told_from_others() {
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
        assert_eq!(find_median(&[]), 0.0);
        assert_eq!(find_median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(find_median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
