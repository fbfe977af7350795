//! The expectation of numbers that were measured with noise, by the distribution that all of them suggest.

/// Returns the expectation of each of `measured` numbers, which have normal noise of deviation `error`.
///
/// Of all distributions of the true numbers on a grid, the one under which the measured numbers are
/// likeliest is approached by expectation and maximisation.
pub(super) fn shrink_numbers(measured: &[f64], error: f64) -> Vec<f64> {
    let low = measured.iter().copied().fold(f64::INFINITY, f64::min);
    let high = measured.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !(high - low).is_finite() || error <= 0.0 {
        return measured.to_vec();
    }
    let points = ((high - low) / error * POINTS).ceil() as usize + 1;
    let mut prior = Prior {
        low,
        error,
        weights: vec![1.0; points],
    };
    for _ in 0..ROUNDS {
        let mut weights = vec![0.0; points];
        for &number in measured {
            for (point, chance) in prior.chances(number) {
                weights[point] += chance;
            }
        }
        prior.weights = weights;
    }
    measured
        .iter()
        .map(|&number| prior.expect(number))
        .collect()
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
        self.chances(number)
            .into_iter()
            .map(|(point, chance)| chance * self.value(point))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
