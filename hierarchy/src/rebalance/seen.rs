//! The sweeps of a division, and whether they are slower than those of another.

use serde::{Deserialize, Serialize};

/// Sweeps from which a division may be called slower. A single long one is a disturbance.
pub(super) const JUDGED_AFTER: u64 = 2;

/// Standard deviations beyond which a sweep is clearly slower. Holder: `two_sweeps_beyond_the_noise_are_slower`.
const CLEARLY: f64 = 3.0;

/// Relative deviation of a sweep's time that is expected. Holder: `two_sweeps_beyond_the_noise_are_slower`.
const EXPECTED: f64 = 0.02;

/// Number of sweeps that the expected deviation counts for. Holder: `few_sweeps_that_agree_do_not_prove_their_precision`.
const GUESSED: f64 = 4.0;

/// The seconds of the sweeps with one division.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SeenDivision {
    pub units: Vec<u64>,
    count: u64,
    pub mean_s: f64,
    least_s: f64,
    /// Sum of the squares of the distances to the mean.
    squares: f64,
}

impl SeenDivision {
    pub fn new(units: Vec<u64>) -> Self {
        Self { units, ..Self::default() }
    }

    /// Takes the seconds of a sweep.
    pub fn observe(&mut self, sweep_s: f64) {
        self.least_s = match self.count {
            0 => sweep_s,
            _ => self.least_s.min(sweep_s),
        };
        self.count += 1;
        let distance = sweep_s - self.mean_s;
        self.mean_s += distance / self.count as f64;
        self.squares += distance * (sweep_s - self.mean_s);
    }

    /// Forgets the times, which are those of other speeds.
    pub fn forget_times(&mut self) {
        *self = Self::new(std::mem::take(&mut self.units));
    }

    /// Returns `true` if the division is faster than the other, as far as both are known.
    pub fn is_faster_than(&self, other: Option<&Self>) -> bool {
        self.count > 0 && other.is_none_or(|other| self.mean_s < other.mean_s)
    }

    /// Returns `true` if all sweeps, two at least, were slower than those of another division beyond their noise.
    pub fn is_slower_than(&self, other: &Self) -> bool {
        self.count >= JUDGED_AFTER
            && self.units != other.units
            && self.least_s > other.mean_s * (1.0 + CLEARLY * other.find_deviation())
    }

    /// Returns the relative standard deviation of a sweep's time.
    fn find_deviation(&self) -> f64 {
        let squares = GUESSED * EXPECTED.powi(2) + self.squares / self.mean_s.powi(2);
        (squares / (GUESSED + self.count as f64)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(units: u64, times_s: &[f64]) -> SeenDivision {
        let mut seen = SeenDivision::new(vec![units]);
        times_s.iter().for_each(|&t_s| seen.observe(t_s));
        seen
    }

    #[test]
    fn few_sweeps_that_agree_do_not_prove_their_precision() {
        // The deviation is 0.02·√(4/8) after four sweeps that agree.
        let exact = see(1, &[1.0; 4]);
        assert!(!see(2, &[1.040; 2]).is_slower_than(&exact));
        assert!(see(2, &[1.045; 2]).is_slower_than(&exact));
    }

    #[test]
    fn two_sweeps_beyond_the_noise_are_slower() {
        let exact = see(1, &[1.0; 3]);
        assert!(see(2, &[1.1, 1.06]).is_slower_than(&exact));
        assert!(!see(2, &[1.1]).is_slower_than(&exact));
        assert!(!see(2, &[1.1, 1.02, 1.1]).is_slower_than(&exact));
        assert!(!see(1, &[1.1, 1.1]).is_slower_than(&exact));
        let noisy = see(1, &[0.9, 1.1, 1.0, 0.9, 1.1]);
        assert!(!see(2, &[1.1, 1.1]).is_slower_than(&noisy));
        assert!(see(2, &[1.3, 1.3]).is_slower_than(&noisy));
    }
}
