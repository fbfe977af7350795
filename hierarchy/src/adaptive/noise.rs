//! The two variances of measured times: within a burst of measurements, and between bursts.

use serde::{Deserialize, Serialize};

/// Variances of the logarithm of a time, which are those of relative errors. Both are learnt from a first
/// guess, which counts as a few measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Noise {
    within: Pool,
    between: Pool,
}

/// An average of squares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Pool {
    sum: f64,
    count: f64,
}

impl Pool {
    fn mean(self) -> f64 {
        self.sum / self.count
    }

    /// Adds a square. One that is far above the average counts as a disturbance and is cut.
    fn add(&mut self, square: f64) {
        self.sum += square.min(CUT * self.mean().max(LEAST));
        self.count += 1.0;
    }
}

/// Largest square that is added, in averages.
const CUT: f64 = 16.0;

/// Least variance, of an error of a thousandth.
const LEAST: f64 = 1e-6;

/// Measurements that a first guess counts for.
const GUESSED: f64 = 4.0;

impl Default for Noise {
    /// 2 % within a burst and 1 % between bursts.
    fn default() -> Self {
        Self {
            within: Pool {
                sum: GUESSED * 4e-4,
                count: GUESSED,
            },
            between: Pool {
                sum: GUESSED * 1e-4,
                count: GUESSED,
            },
        }
    }
}

impl Noise {
    /// Returns the variance of one measurement in a known burst.
    pub fn within(&self) -> f64 {
        self.within.mean().max(LEAST)
    }

    /// Returns the variance of the mean of a burst with very many measurements.
    pub fn between(&self) -> f64 {
        self.between.mean().max(LEAST)
    }

    /// Returns the variance of the mean of `count` measurements in so many `bursts`.
    pub fn of_mean(&self, count: f64, bursts: f64) -> f64 {
        self.within() / count + self.between() / bursts
    }

    /// Learns from the distance of a measurement to the mean of `count` others in its burst.
    pub fn learn_within(&mut self, distance: f64, count: f64) {
        self.within.add(distance * distance * count / (count + 1.0));
    }

    /// Learns from the distance of two means. Their variances add up to `within` and `bursts` times the
    /// variance between bursts.
    pub fn learn_between(&mut self, distance: f64, within: f64, bursts: f64) {
        self.between.add((distance * distance - within) / bursts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variances_are_learnt_and_outliers_cut() {
        let mut noise = Noise::default();
        for _ in 0..200 {
            noise.learn_within(0.06, 1e9);
            noise.learn_between(0.03, 0.0, 1.0);
        }
        assert!((noise.within().sqrt() - 0.06).abs() < 0.001);
        assert!((noise.between().sqrt() - 0.03).abs() < 0.001);
        noise.learn_within(7.0, 1e9);
        assert!(noise.within().sqrt() < 0.063);
        let mean = noise.of_mean(4.0, 2.0);
        assert_eq!(mean, noise.within() / 4.0 + noise.between() / 2.0);
    }
}
