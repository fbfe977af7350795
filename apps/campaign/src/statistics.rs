//! Medians, their intervals, and resampling.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, DiscreteCDF as _};

/// A median with the interval that holds the true one with some confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MedianInterval {
    /// The median of the sample.
    pub median: f64,
    /// Lower end of the interval; `None` if the sample is too small for one.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Size of the sample.
    pub n: usize,
}

impl MedianInterval {
    /// Returns the median of a sample and its interval; `None` without a sample.
    ///
    /// The interval lies between two values of the sample: it assumes nothing about the distribution. Between the k-th
    /// smallest and the k-th largest of n values lies the median with probability 1 - 2·P(B < k), B binomial with n trials
    /// at 1/2. At 95 % that takes six values. Exact values have a confidence of 1, and their interval is the median.
    ///
    /// # References
    /// T. Hoefler, R. Belli, *Scientific Benchmarking of Parallel Computing Systems*, SC15, section 3.1.3.
    pub fn of(values: impl IntoIterator<Item = f64>, confidence: f64) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n == 0 {
            return None;
        }
        let median = find_median(sorted.clone());
        let [low, high] = if confidence >= 1.0 {
            [Some(median); 2]
        } else {
            let rank = find_rank(n, confidence);
            [rank.map(|rank| sorted[rank]), rank.map(|rank| sorted[n - 1 - rank])]
        };
        Some(Self { median, low, high, n })
    }

    /// Returns the half-width of the interval over the median; `None` without an interval.
    pub fn precision(&self) -> Option<f64> {
        Some((self.high? - self.low?) / 2.0 / self.median.abs())
    }
}

/// Returns the largest rank k, from 0, such that the interval between the k-th smallest and the k-th largest of n values has
/// this confidence.
fn find_rank(n: usize, confidence: f64) -> Option<usize> {
    let counts = Binomial::new(0.5, n as u64).ok()?;
    let misses = |rank: usize| 2.0 * counts.cdf(rank as u64);
    (0..n.div_ceil(2)).take_while(|&rank| 1.0 - misses(rank) >= confidence).last()
}

/// Returns the fewest values whose median has an interval of this confidence.
pub(crate) fn least_values(confidence: f64) -> usize {
    // 1 - 2^(1-n) >= confidence
    (1.0 - (1.0 - confidence).log2()).ceil() as usize
}

/// Returns the median of a sample, NaN if it is empty.
pub(crate) fn find_median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Returns the values that a Holm correction leaves of the p-values of several tests, in their order.
///
/// # References
/// S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6(2), 1979.
pub(crate) fn correct_by_holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, &test) in order.iter().enumerate() {
        largest = largest.max((p_values.len() - rank) as f64 * p_values[test]);
        corrected[test] = largest.min(1.0);
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_values_have_an_interval_at_95_percent_and_five_have_none() {
        let six = MedianInterval::of([3.0, 1.0, 2.0, 6.0, 5.0, 4.0], 0.95).unwrap();
        assert_eq!((six.median, six.low, six.high), (3.5, Some(1.0), Some(6.0)));
        assert_eq!(six.precision(), Some(2.5 / 3.5));
        let five = MedianInterval::of([3.0, 1.0, 2.0, 5.0, 4.0], 0.95).unwrap();
        assert_eq!((five.median, five.low, five.precision()), (3.0, None, None));
        assert_eq!(MedianInterval::of([], 0.95), None);
        let exact = MedianInterval::of([3.0], 1.0).unwrap();
        assert_eq!((exact.low, exact.high), (Some(3.0), Some(3.0)));
        assert_eq!([0.75, 0.9, 0.95, 0.99].map(least_values), [3, 5, 6, 8]);
    }

    #[test]
    fn the_ranks_are_those_of_published_tables() {
        // W. J. Conover, Practical Nonparametric Statistics: ranks (from 1) of the lower end at 95 %.
        for (n, rank) in [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8)] {
            assert_eq!(find_rank(n, 0.95), Some(rank - 1), "{n}");
        }
    }

    #[test]
    fn holm_weighs_the_smallest_by_all_tests() {
        assert_eq!(correct_by_holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(correct_by_holm(&[0.5, 0.9]), [1.0, 1.0]);
    }
}
