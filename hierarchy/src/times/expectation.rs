//! The mean of the longest of several uncertain times.

use super::Sample;

impl Sample {
    /// Returns the seconds by which the time, taken as normally distributed, is expected to exceed `limit_s`; 0 where it is
    /// shorter.
    pub(crate) fn expect_beyond(self, limit_s: f64) -> f64 {
        let error_s = self.error_s.max(f64::MIN_POSITIVE);
        let z = (self.seconds - limit_s) / error_s;
        error_s * density(z) + (self.seconds - limit_s) * probability_within(z)
    }
}

/// Standard deviations beyond which a time is certain to be longer or shorter.
const REACH: f64 = 4.5;

/// Standard deviations above which the probability of a longer time, 3e-7, does not count.
const CERTAIN: f64 = 5.0;

/// Points of the integral.
const POINTS: u32 = 32;

/// Returns `E[max_i t_i] = low + ∫ (1 - Π_i P(t_i ≤ t)) dt` from `low` on, a time that the longest one
/// exceeds almost surely. Without times it is 0.
pub(crate) fn expect_longest(times: &[Sample]) -> f64 {
    let low_s = times.iter().map(|t| t.seconds - REACH * t.error_s).fold(0.0, f64::max);
    let late: Vec<&Sample> =
        times.iter().filter(|t| t.seconds + REACH * t.error_s > low_s).collect();
    let high_s = late.iter().map(|t| t.seconds + REACH * t.error_s).fold(low_s, f64::max);
    let width_s = (high_s - low_s) / f64::from(POINTS);
    if width_s <= 0.0 {
        return low_s;
    }
    let above: f64 = (0..POINTS)
        .map(|i| 1.0 - probability_all_within(&late, low_s + (f64::from(i) + 0.5) * width_s))
        .sum();
    low_s + above * width_s
}

fn probability_all_within(times: &[&Sample], t_s: f64) -> f64 {
    let mut product = 1.0;
    for time in times {
        let z = (t_s - time.seconds) / time.error_s.max(f64::MIN_POSITIVE);
        if z > CERTAIN {
            continue;
        }
        product *= probability_within(z);
        if product < 1e-9 {
            return 0.0;
        }
    }
    product
}

/// Returns the standard normal distribution function, to 1e-7 (Abramowitz and Stegun, 26.2.17).
fn probability_within(z: f64) -> f64 {
    const FACTORS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let x = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let sum = FACTORS.iter().rev().fold(0.0, |sum, factor| (sum + factor) * x);
    let tail = sum * density(z);
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// Returns the standard normal density.
fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() * 0.398_942_280_4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_expectations_are_met() {
        let one = Sample::predicted(7, 5.0, 1.0);
        let sure = Sample::predicted(7, 5.0, 0.0);
        // Means of the longest of several standard normal times.
        for (times, above_s) in [
            (vec![one], 0.0),
            (vec![one; 2], 0.5642),
            (vec![one; 10], 1.5388),
            (vec![one, sure], 0.3989),
        ] {
            assert!((expect_longest(&times) - 5.0 - above_s).abs() < 0.01, "{times:?}");
        }
        assert_eq!(expect_longest(&[sure, sure]), 5.0);
        assert_eq!(expect_longest(&[]), 0.0);
    }

    #[test]
    fn a_time_is_expected_beyond_a_limit_by_its_mean_and_its_spread() {
        let time = Sample::predicted(7, 5.0, 1.0);
        for (limit_s, beyond_s) in [(5.0, 0.3989), (4.0, 1.0833), (6.0, 0.0833), (0.0, 5.0)] {
            assert!((time.expect_beyond(limit_s) - beyond_s).abs() < 1e-3);
        }
    }

    #[test]
    fn a_time_far_below_the_longest_does_not_count() {
        let times = [Sample::predicted(7, 5.0, 0.1), Sample::predicted(7, 1.0, 0.1)];
        assert!((expect_longest(&times) - 5.0).abs() < 1e-3);
    }
}
