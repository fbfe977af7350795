//! Medians and ranges.

use serde::{Deserialize, Deserializer, Serialize};

/// Median, smallest and largest of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MedianRange {
    /// The median.
    #[serde(deserialize_with = "nan_if_null")]
    pub median: f64,
    /// The smallest value.
    #[serde(deserialize_with = "nan_if_null")]
    pub min: f64,
    /// The largest value.
    #[serde(deserialize_with = "nan_if_null")]
    pub max: f64,
}

/// Reads a number that JSON writes as `null` if it is none.
pub fn nan_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

impl MedianRange {
    /// The range of an empty sample.
    pub const NONE: Self = Self {
        median: f64::NAN,
        min: f64::NAN,
        max: f64::NAN,
    };

    /// Summarizes a sample; every value is NaN if it is empty.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Self::NONE;
        };
        let half = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            (sorted[half - 1] + sorted[half]) / 2.0
        } else {
            sorted[half]
        };
        Self { median, min, max }
    }

    /// Summarizes the ratios of two series, round by round.
    pub fn of_ratios(above: &[f64], below: &[f64]) -> Self {
        Self::of(above.iter().zip(below).map(|(above, below)| above / below))
    }

    /// Multiplies all three by a factor.
    pub fn scale(self, factor: f64) -> Self {
        Self {
            median: factor * self.median,
            min: factor * self.min,
            max: factor * self.max,
        }
    }

    /// Formats it as `median (min to max)` with this number of decimals.
    pub fn text(&self, decimals: usize) -> String {
        format!(
            "{:.decimals$} ({:.decimals$} to {:.decimals$})",
            self.median, self.min, self.max
        )
    }
}

/// Returns the median of a sample, NaN if it is empty.
pub fn median(values: &[f64]) -> f64 {
    MedianRange::of(values.iter().copied()).median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_samples() {
        let odd = MedianRange::of([3.0, 1.0, 2.0]);
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        assert_eq!(MedianRange::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert!(MedianRange::of([]).median.is_nan());
    }

    #[test]
    fn no_number_is_written_as_null_and_read_back() {
        let text = serde_json::to_string(&MedianRange::NONE).unwrap_or_default();
        assert_eq!(text, r#"{"median":null,"min":null,"max":null}"#);
        let read: Result<MedianRange, _> = serde_json::from_str(&text);
        assert!(read.is_ok_and(|range| range.median.is_nan()));
    }
}
