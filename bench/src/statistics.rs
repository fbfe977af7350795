//! Medians and spreads.

/// Median, smallest and largest of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// Of a sample; NaN when it is empty.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let half = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            (at(half.wrapping_sub(1)) + at(half)) / 2.0
        } else {
            at(half)
        };
        Self {
            median,
            min: at(0),
            max: at(sorted.len().wrapping_sub(1)),
        }
    }

    /// Of the ratios of two series, round by round.
    pub fn of_ratios(above: &[f64], below: &[f64]) -> Self {
        Self::of(above.iter().zip(below).map(|(above, below)| above / below))
    }

    /// In a unit of which there are so many in the old one.
    pub fn scaled(self, by: f64) -> Self {
        let Self { median, min, max } = self;
        let [median, min, max] = [median, min, max].map(|value| by * value);
        Self { median, min, max }
    }

    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({ "median": self.median, "min": self.min, "max": self.max })
    }

    /// `median (min to max)` with the given number of decimals.
    pub fn text(&self, decimals: usize) -> String {
        format!(
            "{:.decimals$} ({:.decimals$} to {:.decimals$})",
            self.median, self.min, self.max
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn medians_of_odd_and_even_samples() {
        assert_eq!(
            Spread::of([3.0, 1.0, 2.0]),
            Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            }
        );
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert!(Spread::of([]).median.is_nan());
    }
}
