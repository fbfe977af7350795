//! When a measurement is good enough, and when to give up.

use crate::DeviceError;
use serde::{Deserialize, Serialize};

/// When a measurement is good enough, and when to give up.
///
/// # References
/// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1, algorithm 1 (`cl`, `eps`, `minReps`, `maxReps`,
/// `maxT`), whose confidence and precision are the defaults; Clarke's thesis, section 3.1.4, for the 3 repetitions.
/// The repetitions and seconds of the supplement are for models that are made once and kept
/// ([`thorough`](Self::thorough)); balancing has to win back what it spends within one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeasureConfig {
    /// Confidence that the mean lies in its interval, in (0, 1).
    pub confidence: f64,
    /// Half-width of the interval at which to stop, as a fraction of the mean, above 0.
    pub precision: f64,
    /// Repetitions at least, 2 or more.
    pub min_reps: u32,
    /// Repetitions that are needed, at most; where times have to be measured again, up to half as many more.
    pub max_reps: u32,
    /// Time after which no further repetition is needed, above 0: seconds of the busiest device or, if that is more,
    /// by the clock on the wall, waiting for nodes in step included. Also the deadline of a single update: a size at
    /// which a device would need more than twice as long is not measured at all, and gets a bound instead.
    pub max_seconds: f64,
}

impl Default for MeasureConfig {
    fn default() -> Self {
        Self {
            confidence: 0.95,
            precision: 0.025,
            min_reps: 3,
            max_reps: 20,
            max_seconds: 10.0,
        }
    }
}

impl MeasureConfig {
    /// What the supplement uses for matrices of `size × size`: 10 000 to 100 000 repetitions up to 1024, 100 to 1000
    /// up to 5120, 5 to 50 beyond, and an hour in all.
    ///
    /// # References
    /// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1.
    #[must_use]
    pub fn thorough(size: usize) -> Self {
        let (min_reps, max_reps) = match size {
            0..=1024 => (10_000, 100_000),
            1025..=5120 => (100, 1000),
            _ => (5, 50),
        };
        Self {
            min_reps,
            max_reps,
            max_seconds: 3600.0,
            ..Self::default()
        }
    }

    /// Checks every field.
    ///
    /// # Errors
    /// [`DeviceError::Measure`] with the first field that is out of range.
    pub fn validate(&self) -> Result<(), DeviceError> {
        let check = |field, value: f64, valid: bool, must_be| {
            if valid {
                return Ok(());
            }
            Err(DeviceError::Measure {
                field,
                value,
                must_be,
            })
        };
        let confidence = self.confidence;
        let inside = confidence > 0.0 && confidence < 1.0;
        check("confidence", confidence, inside, "between 0 and 1")?;
        let (precision, seconds) = (self.precision, self.max_seconds);
        check("precision", precision, precision > 0.0, "above 0")?;
        check("max_seconds", seconds, seconds > 0.0, "above 0")?;
        let (min, max) = (self.min_reps, self.max_reps);
        check("min_reps", min.into(), min >= 2, "at least 2")?;
        check("max_reps", max.into(), max >= min, "at least min_reps")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_matrices_are_repeated_less() {
        let sizes = [32, 1024, 1025, 5120, 5121, 80_000];
        let reps = sizes.map(|size| MeasureConfig::thorough(size).min_reps);
        assert_eq!(reps, [10_000, 10_000, 100, 100, 5, 5]);
        assert!(
            sizes
                .iter()
                .all(|&size| MeasureConfig::thorough(size).validate().is_ok())
        );
    }

    #[test]
    fn configurations_out_of_range_name_the_field() {
        let default = MeasureConfig::default();
        assert!(default.validate().is_ok());
        let broken = [
            (
                "confidence",
                MeasureConfig {
                    confidence: 1.0,
                    ..default
                },
            ),
            (
                "precision",
                MeasureConfig {
                    precision: f64::NAN,
                    ..default
                },
            ),
            (
                "min_reps",
                MeasureConfig {
                    min_reps: 1,
                    ..default
                },
            ),
            (
                "max_reps",
                MeasureConfig {
                    max_reps: 2,
                    ..default
                },
            ),
            (
                "max_seconds",
                MeasureConfig {
                    max_seconds: 0.0,
                    ..default
                },
            ),
        ];
        for (field, config) in broken {
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
    }
}
