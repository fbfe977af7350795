//! Shrinkage: times of the same work by several parts, moved towards each other as far as noise explains their spread.
//!
//! # Deviations
//!
//! * **times of alike parts**: the papers take every time as measured (Clarke et al. 2012, section 3).
//!   Here [`shrink_alike()`] moves times of nearly the same work towards each other as far as noise explains
//!   their spread, because to follow noise would make alike parts unequal.

use super::{Sample, pool_errors};

/// Shrinks times of the same work by several parts towards each other, as far as noise explains their
/// spread.
///
/// The true times, in logarithms, are taken for a sample of an unknown distribution, and the measured ones
/// add normal noise to them: the mean square of the relative standard errors, and the drift between
/// measurements. Of all distributions on a grid the likeliest is found, and each time becomes its
/// expectation given the measured one. So alike parts become equal, also parts of several kinds, unlike ones stay apart, and
/// nothing in between is decided by a test. Times without a standard error stay as measured.
///
/// # References
/// Kiefer and Wolfowitz, 1956 (the likeliest distribution); Jiang and Zhang, "General maximum likelihood
/// empirical Bayes estimation of normal means", Annals of Statistics 37(4), 2009.
pub fn shrink_alike(samples: &[Sample], drift: f64) -> Vec<Sample> {
    let (parts, noisy): (Vec<usize>, Vec<&Sample>) =
        samples.iter().enumerate().filter(|(_, sample)| sample.has_error()).unzip();
    let times_s: Vec<f64> = noisy.iter().map(|sample| sample.seconds).collect();
    let errors_s: Vec<f64> = noisy.iter().map(|sample| sample.error_s).collect();
    let logs: Vec<f64> = times_s.iter().map(|t_s| t_s.ln()).collect();
    let expected = shrink_numbers(&logs, CAUTION * pool_errors(&times_s, &errors_s, drift));
    let mut shrunk = samples.to_vec();
    for (part, log) in parts.into_iter().zip(expected) {
        shrunk[part] = samples[part].scale_to(log.exp());
    }
    shrunk
}

/// Factor of the noise. The likeliest distribution of a few times follows their noise a little. Holder:
/// `learning::unlike_devices_were_made_equal_to_save_alike_ones_from_noise`.
const CAUTION: f64 = 1.3;

/// Returns the expectation of each of `measured` numbers, which have normal noise of deviation `error`.
///
/// Of all distributions of the true numbers on a grid, the one under which the measured numbers are
/// likeliest is approached by expectation and maximisation.
fn shrink_numbers(measured: &[f64], error: f64) -> Vec<f64> {
    let low = measured.iter().copied().fold(f64::INFINITY, f64::min);
    let high = measured.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !(high - low).is_finite() || error <= 0.0 {
        return measured.to_vec();
    }
    let points = ((high - low) / error * POINTS).ceil() as usize + 1;
    let mut prior = Prior { low, error, weights: vec![1.0; points] };
    for _ in 0..ROUNDS {
        let mut weights = vec![0.0; points];
        for &number in measured {
            for (point, chance) in prior.chances(number) {
                weights[point] += chance;
            }
        }
        prior.weights = weights;
    }
    measured.iter().map(|&number| prior.expect(number)).collect()
}

/// Points of the grid in one standard error.
const POINTS: f64 = 4.0;

/// Standard errors beyond which a point is out of reach.
const REACH: f64 = 5.0;

/// Rounds in which the likeliest distribution is approached.
const ROUNDS: usize = 100;

/// A distribution on a grid.
struct Prior {
    /// The first point.
    low: f64,
    error: f64,
    weights: Vec<f64>,
}

impl Prior {
    fn value(&self, point: usize) -> f64 {
        self.low + point as f64 * self.error / POINTS
    }

    /// Returns the points that a number may have been measured at, with their chances.
    fn chances(&self, number: f64) -> Vec<(usize, f64)> {
        let centre = (number - self.low) / self.error * POINTS;
        let first = (centre - POINTS * REACH).max(0.0) as usize;
        let end = ((centre + POINTS * REACH) as usize + 1).min(self.weights.len());
        let mut chances: Vec<(usize, f64)> = (first..end)
            .map(|point| {
                let apart = (self.value(point) - number) / self.error;
                (point, self.weights[point] * (-0.5 * apart * apart).exp())
            })
            .collect();
        let sum: f64 = chances.iter().map(|(_, chance)| chance).sum();
        chances.iter_mut().for_each(|(_, chance)| *chance /= sum);
        chances
    }

    fn expect(&self, number: f64) -> f64 {
        self.chances(number).into_iter().map(|(point, chance)| chance * self.value(point)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::Quality;

    const DRIFT: f64 = 0.01;

    fn thrice(t_s: f64, error_s: f64) -> Sample {
        Sample::measured(7, t_s, 3, error_s)
    }

    fn shrunk_times(found: &[Sample]) -> Vec<f64> {
        shrink_alike(found, DRIFT).iter().map(|time| time.seconds).collect()
    }

    #[test]
    fn times_that_noise_explains_become_their_mean() {
        let found = [1.0, 1.02, 0.99].map(|t_s| thrice(t_s, 0.03));
        let mean = (1.0_f64 * 1.02 * 0.99).cbrt();
        for t_s in shrunk_times(&found) {
            assert!((t_s - mean).abs() < 5e-3, "{t_s}");
        }
    }

    #[test]
    fn unlike_times_keep_their_distance() {
        let found = [1.0, 2.0, 4.0, 8.0].map(|t_s| thrice(t_s, 0.05 * t_s));
        for (t_s, time) in shrunk_times(&found).iter().zip(&found) {
            assert!((t_s / time.seconds - 1.0).abs() < 0.005, "{t_s}");
        }
    }

    #[test]
    fn times_of_unknown_error_stay_as_measured() {
        let found = [thrice(1.0, 0.1), Sample::at_least(7, 1.01), thrice(1.02, 0.0)];
        assert_eq!(shrink_alike(&found, DRIFT), found);
        let once = [1.0, 1.1].map(|t_s| Sample::measured(7, t_s, 1, t_s));
        assert_eq!(shrink_alike(&once, DRIFT), once);
        assert!(shrink_alike(&[], DRIFT).is_empty());
        let many = [1.0, 1.01, 1.02].map(|t_s| thrice(t_s, 0.05));
        // Repetitions of its beginning do not make a time of a floor.
        let floor = Sample { quality: Quality::AtLeast, ..thrice(1.015, 0.05) };
        let found = shrink_alike(&[many[0], floor, many[1], many[2]], DRIFT);
        let alone = shrink_alike(&many, DRIFT);
        assert_eq!(found, [alone[0], floor, alone[1], alone[2]]);
        assert!((found[0].seconds - found[2].seconds).abs() < 0.001);
    }

    #[test]
    fn numbers_of_two_kinds_gather_at_two_places() {
        let found = shrink_numbers(&[0.0, 0.01, -0.01, 1.0, 1.01, 0.99], 0.03);
        for (number, place) in found.iter().zip([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]) {
            assert!((number - place).abs() < 0.003, "{found:?}");
        }
    }

    #[test]
    fn numbers_without_noise_or_company_stay() {
        assert_eq!(shrink_numbers(&[1.0, 2.0], 0.0), [1.0, 2.0]);
        assert_eq!(shrink_numbers(&[1.0], 0.5), [1.0]);
        assert!(shrink_numbers(&[], 0.5).is_empty());
    }
}
