//! The options of measurements.

use clap::{Arg, Args};
use isochron_devices::MeasureConfig;

use crate::choices::{GivenOption, give};
use crate::numbers::{parse_part, parse_positive, parse_whole};

/// Options that replace a command's defaults for measurements.
#[derive(Args)]
#[command(next_help_heading = "Measuring")]
pub struct MeasuringArguments {
    /// Fewest repetitions of a measurement
    #[arg(long, value_name = "N", value_parser = parse_whole::<u32, 2>)]
    min_reps: Option<u32>,
    /// Most repetitions of a measurement; half as many more are allowed when times are disturbed
    #[arg(long, value_name = "N", value_parser = parse_whole::<u32, 2>)]
    max_reps: Option<u32>,
    /// Confidence level of the interval
    #[arg(long, value_name = "PART", value_parser = parse_part)]
    confidence: Option<f64>,
    /// Stop repeating when the half-width of the interval falls below this fraction of the mean
    #[arg(long, value_name = "PART", value_parser = parse_positive)]
    precision: Option<f64>,
    /// Stop repeating after this many seconds. A run that takes twice as long is given up and recorded as a
    /// lower bound
    #[arg(long, value_name = "S", value_parser = parse_positive)]
    max_seconds: Option<f64>,
}

/// Adds a command's default to the help of an option of measuring.
pub fn show_default(argument: Arg, defaults: &MeasureConfig) -> Arg {
    let default = match argument.get_id().as_str() {
        "min_reps" => defaults.min_reps.to_string(),
        "max_reps" => defaults.max_reps.to_string(),
        "confidence" => defaults.confidence.to_string(),
        "precision" => defaults.precision.to_string(),
        "max_seconds" => defaults.max_seconds.to_string(),
        _ => return argument,
    };
    let help = argument.get_help().map(ToString::to_string);
    argument.help(format!("{} [default: {default}]", help.unwrap_or_default()))
}

impl MeasuringArguments {
    /// Lists the options with the values that they were given.
    pub fn list_given(&self) -> Vec<GivenOption> {
        vec![
            give("min-reps", self.min_reps),
            give("max-reps", self.max_reps),
            give("confidence", self.confidence),
            give("precision", self.precision),
            give("max-seconds", self.max_seconds),
        ]
    }

    /// Returns `defaults` with the given options in their place.
    ///
    /// If only one of the two numbers of repetitions was given, the default of the other one is moved to fit it.
    pub fn apply_to(&self, defaults: MeasureConfig) -> MeasureConfig {
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

    fn repetitions(min_reps: Option<u32>, max_reps: Option<u32>) -> (u32, u32) {
        let given = MeasuringArguments {
            min_reps,
            max_reps,
            confidence: None,
            precision: Some(0.01),
            max_seconds: None,
        };
        let config = given.apply_to(MeasureConfig::default());
        assert_eq!((config.precision, config.confidence), (0.01, 0.95));
        (config.min_reps, config.max_reps)
    }

    /// Returns the help in one line.
    fn render_help(defaults: MeasureConfig) -> String {
        MeasuringArguments::augment_args(clap::Command::new("measure"))
            .mut_args(|argument| show_default(argument, &defaults))
            .render_help()
            .to_string()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn help_shows_the_defaults_of_the_command() {
        let shown = render_help(MeasureConfig::default());
        for default in ["3", "20", "0.95", "0.025", "10"] {
            assert!(shown.contains(&format!("[default: {default}]")), "{shown}");
        }
    }

    #[test]
    fn the_repetitions_that_were_not_given_give_way() {
        assert_eq!(repetitions(None, None), (3, 20));
        assert_eq!(repetitions(Some(30), None), (30, 30));
        assert_eq!(repetitions(None, Some(2)), (2, 2));
        let refused_later = (9, 8);
        assert_eq!(repetitions(Some(9), Some(8)), refused_later);
    }
}
