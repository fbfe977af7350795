//! The options of `isochron trace-model`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::numbers::{parse_positive, parse_whole};

/// Largest number of units of an iteration: the largest with a neighbour below and above in floating point.
const MOST_UNITS: f64 = 9_007_199_254_740_992.0;

/// The traces, and the events in them that matter.
#[derive(Args)]
#[command(group(ArgGroup::new("source").args(["size", "counter", "units"]).required(true)))]
pub struct TraceArguments {
    /// Traces of runs with different divisions: Paraver's, with the names of events in the .pcf file next to
    /// each, or Chrome's JSON
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Event that marks iterations, by number or name: each value but 0 begins one, and the next value or 0
    /// ends it. TYPE:VALUE takes this value alone. For Chrome, the name of the event, with or without a number
    /// behind it (`step` is also `step#12`)
    #[arg(long, value_name = "EVENT")]
    pub(super) event: String,
    /// Event whose last value until the end of an iteration is its size. For Chrome, the key in its args
    #[arg(long, value_name = "EVENT")]
    pub(super) size: Option<String>,
    /// Hardware counter whose sum over the iteration is its size. Paraver only
    #[arg(long, value_name = "EVENT")]
    pub(super) counter: Option<String>,
    /// Units of every iteration
    #[arg(long, value_name = "N", value_parser = parse_whole::<u64, 1>)]
    pub(super) units: Option<u64>,
    /// Size of a unit, by which sizes and counters are divided
    #[arg(long, value_name = "SIZE", default_value_t = 1.0, value_parser = parse_positive)]
    pub(super) per_unit: f64,
    /// Comma-separated calls to exclude from the time, or `none` [default: those of MPI, and flushes of the trace]
    #[arg(long, value_name = "EVENT", value_delimiter = ',')]
    pub(super) exclude: Vec<String>,
    /// Folder for points files: NAME-EVENT.points of each process. Existing files are replaced
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

impl TraceArguments {
    /// Returns the units of an iteration with this size, which is ignored if all have the same units.
    pub(super) fn count_units(&self, amount: f64) -> Result<u64, String> {
        if let Some(units) = self.units {
            return Ok(units);
        }
        if !(amount.is_finite() && amount > 0.0) {
            return Err(format!("the iteration has the size {amount}, which must be above 0"));
        }
        let units = (amount / self.per_unit).round();
        if !(1.0..=MOST_UNITS).contains(&units) {
            let unit = self.per_unit;
            return Err(format!(
                "the iteration has the size {amount}, which is {units} units of {unit}"
            ));
        }
        Ok(units as u64)
    }

    /// Describes the options that decide on times and sizes.
    pub(super) fn describe(&self) -> String {
        let size = match (&self.size, &self.counter) {
            (Some(name), _) => format!("size {name}"),
            (_, Some(name)) => format!("counter {name}"),
            _ => format!("{} units", self.units.unwrap_or(1)),
        };
        let per_unit = match self.per_unit {
            1.0 => String::new(),
            size => format!(" by {size}"),
        };
        let counted = match &self.exclude[..] {
            [] => "time without calls of MPI".to_owned(),
            [none] if none == "none" => "all time".to_owned(),
            names => format!("time without {}", names.join(", ")),
        };
        format!("iterations of {}, {size}{per_unit}, {counted}", self.event)
    }
}
