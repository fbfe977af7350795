//! How often to repeat measurements, on the command line.

use clap::Args;
use isochron_devices::MeasureConfig;

/// What replaces the defaults of a command.
#[derive(Args)]
#[command(next_help_heading = "Measuring")]
pub struct Measuring {
    /// Repetitions of a measurement at least
    #[arg(long, value_name = "N")]
    min_reps: Option<u32>,
    /// Repetitions of a measurement at most, and half as many more where times are disturbed
    #[arg(long, value_name = "N")]
    max_reps: Option<u32>,
    /// Confidence that a mean lies in its interval, such as 0.95
    #[arg(long, value_name = "PART")]
    confidence: Option<f64>,
    /// Half-width of that interval at which to stop, as a part of the mean, such as 0.025
    #[arg(long, value_name = "PART")]
    precision: Option<f64>,
    /// Seconds after which a measurement is not repeated; a size that needs twice as long for one
    /// update is not measured, and gets a bound
    #[arg(long, value_name = "S")]
    max_seconds: Option<f64>,
}

impl Measuring {
    /// `defaults` with what was given in their place. Of the repetitions at least and at most, the one that was
    /// not given gives way to the one that was.
    pub fn or(&self, defaults: MeasureConfig) -> MeasureConfig {
        let min_reps = match (self.min_reps, self.max_reps) {
            (Some(min), _) => min,
            (None, Some(max)) => defaults.min_reps.min(max),
            (None, None) => defaults.min_reps,
        };
        MeasureConfig {
            min_reps,
            max_reps: self.max_reps.unwrap_or(defaults.max_reps.max(min_reps)),
            confidence: self.confidence.unwrap_or(defaults.confidence),
            precision: self.precision.unwrap_or(defaults.precision),
            max_seconds: self.max_seconds.unwrap_or(defaults.max_seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repetitions_that_were_not_given_give_way() {
        let given = |min_reps, max_reps| Measuring {
            min_reps,
            max_reps,
            confidence: None,
            precision: Some(0.01),
            max_seconds: None,
        };
        let defaults = MeasureConfig::default();
        let reps = |min, max| {
            let config = given(min, max).or(defaults);
            assert_eq!((config.precision, config.confidence), (0.01, 0.95));
            (config.min_reps, config.max_reps)
        };
        assert_eq!(reps(None, None), (3, 20));
        assert_eq!(reps(Some(30), None), (30, 30));
        assert_eq!(reps(None, Some(2)), (2, 2));
        assert_eq!(reps(Some(9), Some(8)), (9, 8), "which validating refuses");
    }
}
