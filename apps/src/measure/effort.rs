//! The repetitions of each size.

use std::time::Instant;

use isochron_devices::MeasureConfig;

use super::part::Size;

/// Part of the budget that the measurements left can divide even if earlier ones have overrun theirs.
const LEAST_PART: f64 = 0.1;

/// The repetitions of each size, beside the settings of all.
#[derive(Debug, Clone, Copy)]
pub enum Effort {
    /// The same at every size.
    Same,
    /// The measurements that are left may each take an equal part of the seconds that are left.
    Budget {
        seconds: f64,
        begun: Instant,
        /// Measurements of a size, one after the other.
        turns: usize,
    },
    /// The repetitions that the literature gives, by the size of a square of as many blocks of C.
    Thorough { block: usize },
}

impl Effort {
    /// Returns the settings for a size; it and `left - 1` others are not measured yet.
    pub fn choose(&self, config: MeasureConfig, (m, n): Size, left: usize) -> MeasureConfig {
        match *self {
            Self::Same => config,
            Self::Budget { seconds, begun, turns } => {
                let spent_s = begun.elapsed().as_secs_f64();
                let part_s = divide_rest(seconds, spent_s, left * turns);
                MeasureConfig { max_seconds: config.max_seconds.min(part_s), ..config }
            }
            Self::Thorough { block } => {
                let side = (m.saturating_mul(n) as f64).sqrt() * block as f64;
                MeasureConfig {
                    confidence: config.confidence,
                    precision: config.precision,
                    ..MeasureConfig::thorough(side as usize)
                }
            }
        }
    }

    /// Returns the seconds that are left of a budget.
    pub fn left_s(&self) -> Option<f64> {
        match self {
            Self::Budget { seconds, begun, .. } => {
                Some((seconds - begun.elapsed().as_secs_f64()).max(0.0))
            }
            Self::Same | Self::Thorough { .. } => None,
        }
    }
}

/// Divides what `spent_s` seconds leave of a budget over the measurements that are left.
fn divide_rest(budget_s: f64, spent_s: f64, left: usize) -> f64 {
    (budget_s - spent_s).max(LEAST_PART * budget_s) / left.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_divided_over_the_measurements_that_are_left() {
        assert_eq!(divide_rest(40.0, 0.0, 16), 2.5);
        // Time that small sizes leave goes to larger ones, and time that one takes too much comes from the others.
        assert_eq!(divide_rest(40.0, 8.0, 8), 4.0);
        assert_eq!(divide_rest(40.0, 36.0, 2), 2.0);
        assert_eq!(divide_rest(40.0, 100.0, 2), 2.0);
        // Whatever each takes of its part, all together take the budget.
        let spent_s = (1..=17).rev().fold(0.0, |spent_s, left| {
            spent_s + divide_rest(40.0, spent_s, left) * [1.0, 0.25][left % 2]
        });
        assert!(spent_s <= 40.0, "{spent_s}");
    }

    #[test]
    fn thorough_measurements_are_those_of_the_literature() {
        let config = MeasureConfig::default();
        assert_eq!(Effort::Same.choose(config, (4, 1), 1), config);
        let thorough = Effort::Thorough { block: 64 };
        for (d, side) in [(256, 1024), (257, 1026), (6400, 5120), (6561, 5184)] {
            assert_eq!(thorough.choose(config, (d, 1), 1), MeasureConfig::thorough(side));
        }
    }
}
