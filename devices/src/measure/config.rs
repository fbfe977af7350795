//! The precision that a measurement should reach, and its limits.

use crate::contract::DeviceError;
use serde::{Deserialize, Deserializer, Serialize};

/// The precision that a measurement should reach, and its limits.
///
/// The supplement's repetitions and seconds suit models that are made once and kept ([`thorough`](Self::thorough)). The
/// defaults are lower, because balancing has to win back its cost within one run.
///
/// # References
/// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1, algorithm 1 (`cl`, `eps`, `minReps`, `maxReps`, `maxT`):
/// its confidence and precision are the defaults. Clarke's thesis, section 3.1.4: the 3 repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MeasureConfig {
    /// Confidence level of the interval: the probability that the mean lies in it, above 0 and below 1.
    pub confidence: f64,
    /// Half-width of the interval at which repeating stops, as a fraction of the mean, above 0.
    pub precision: f64,
    /// Fewest repetitions, 2 or more.
    pub min_reps: u32,
    /// Most repetitions; up to half as many more if times are disturbed, or few of them contradict each other.
    pub max_reps: u32,
    /// Seconds after which the node needs no further repetition, above 0; in JSON `null` without a limit. It is the busiest
    /// device's time or the wall time, whichever is longer; waiting for nodes in step counts.
    ///
    /// It is also the deadline of a single update. A size at which a device would need more than twice as long is not
    /// measured and gets a bound instead.
    #[serde(deserialize_with = "read_seconds")]
    #[cfg_attr(feature = "schemars", schemars(with = "Option<f64>"))]
    pub max_seconds: f64,
}

/// Reads seconds; JSON has no number for those without end, and writes `null`.
fn read_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

impl Default for MeasureConfig {
    fn default() -> Self {
        Self { confidence: 0.95, precision: 0.025, min_reps: 3, max_reps: 20, max_seconds: 10.0 }
    }
}

impl MeasureConfig {
    /// Returns the supplement's values for matrices of `size × size`, with an hour for a measurement. Up to 1024 they are
    /// 10 000 to 100 000 repetitions, up to 5120 100 to 1000, beyond 5 to 50.
    #[must_use]
    pub fn thorough(size: usize) -> Self {
        let (min_reps, max_reps) = match size {
            0..=1024 => (10_000, 100_000),
            1025..=5120 => (100, 1000),
            _ => (5, 50),
        };
        Self { min_reps, max_reps, max_seconds: 3600.0, ..Self::default() }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// Returns [`DeviceError::Measure`] with the first field that is out of range.
    pub fn validate(&self) -> Result<(), DeviceError> {
        let confidence = self.confidence;
        let inside = confidence > 0.0 && confidence < 1.0;
        check_field("confidence", confidence, inside, "between 0 and 1")?;
        let (precision, seconds) = (self.precision, self.max_seconds);
        check_field("precision", precision, precision > 0.0, "above 0")?;
        check_field("max_seconds", seconds, seconds > 0.0, "above 0")?;
        let (min, max) = (self.min_reps, self.max_reps);
        check_field("min_reps", min.into(), min >= 2, "at least 2")?;
        check_field("max_reps", max.into(), max >= min, "at least min_reps")
    }
}

fn check_field(
    field: &'static str,
    value: f64,
    valid: bool,
    must_be: &'static str,
) -> Result<(), DeviceError> {
    if valid {
        return Ok(());
    }
    Err(DeviceError::Measure { field, value, must_be })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_matrices_are_repeated_less() {
        let sizes = [32, 1024, 1025, 5120, 5121, 80_000];
        let reps = sizes.map(|size| MeasureConfig::thorough(size).min_reps);
        assert_eq!(reps, [10_000, 10_000, 100, 100, 5, 5]);
        assert!(sizes.iter().all(|&size| MeasureConfig::thorough(size).validate().is_ok()));
    }

    #[test]
    fn configurations_out_of_range_name_the_field() {
        let default = MeasureConfig::default();
        assert!(default.validate().is_ok());
        let broken = [
            ("confidence", MeasureConfig { confidence: 1.0, ..default }),
            ("precision", MeasureConfig { precision: f64::NAN, ..default }),
            ("min_reps", MeasureConfig { min_reps: 1, ..default }),
            ("max_reps", MeasureConfig { max_reps: 2, ..default }),
            ("max_seconds", MeasureConfig { max_seconds: 0.0, ..default }),
        ];
        for (field, config) in broken {
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
