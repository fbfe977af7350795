//! The two variances of measured times: within a burst of measurements, and between bursts.

use serde::{Deserialize, Serialize};

/// The first guess of the noise, and the numbers by which it is learnt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NoiseRule {
    /// Variance within a burst, before anything is measured.
    pub within: f64,
    /// Variance between bursts, before anything is measured.
    pub between: f64,
    /// Measurements that the first guess counts for.
    pub guessed: f64,
    /// Largest square that is added, in averages.
    pub cut: f64,
    /// Least variance.
    pub least: f64,
}

/// Variances of the logarithm of a time, which are those of relative errors. Both are learnt from a first
/// guess, which counts as a few measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Noise {
    within: Pool,
    between: Pool,
    #[serde(skip)]
    rule: NoiseRule,
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
    fn add(&mut self, square: f64, rule: &NoiseRule) {
        self.sum += square.min(rule.cut * self.mean().max(rule.least));
        self.count += 1.0;
    }
}

impl Noise {
    /// Makes the first guess.
    pub fn new(rule: NoiseRule) -> Self {
        let guess = |variance| Pool { sum: rule.guessed * variance, count: rule.guessed };
        Self { within: guess(rule.within), between: guess(rule.between), rule }
    }

    /// Returns the variance of one measurement in a known burst.
    pub fn within(&self) -> f64 {
        self.within.mean().max(self.rule.least)
    }

    /// Returns the variance of the mean of a burst with very many measurements.
    pub fn between(&self) -> f64 {
        self.between.mean().max(self.rule.least)
    }

    /// Returns the variance of the mean of `count` measurements in this number of `bursts`.
    pub fn of_mean(&self, count: f64, bursts: f64) -> f64 {
        self.within() / count + self.between() / bursts
    }

    /// Learns from the distance of a measurement to the mean of `count` others in its burst.
    pub fn learn_within(&mut self, distance: f64, count: f64) {
        let square = distance * distance * count / (count + 1.0);
        self.within.add(square, &self.rule);
    }

    /// Learns from the distance of two means. Their variances add up to `within` and `bursts` times the
    /// variance between bursts.
    pub fn learn_between(&mut self, distance: f64, within: f64, bursts: f64) {
        let square = (distance * distance - within) / bursts;
        self.between.add(square, &self.rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variances_are_learnt_and_outliers_cut() {
        let mut noise = Noise::new(NoiseRule::default());
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
