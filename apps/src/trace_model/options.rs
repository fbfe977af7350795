//! The options of `isochron trace-model`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use serde::{Deserialize, Serialize};

use super::iterations::ModelLevel;
use crate::numbers::{parse_part, parse_positive, parse_whole};

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
    /// Make one model per thread, process or host
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = ModelLevel::Process)]
    pub(super) per: ModelLevel,
    /// Comma-separated calls to exclude from the time, or `none` [default: those of MPI, and flushes of the trace]
    #[arg(long, value_name = "EVENT", value_delimiter = ',')]
    pub(super) exclude: Vec<String>,
    /// Count the time in the state running instead of all time outside the excluded calls. Paraver only
    #[arg(long, conflicts_with = "exclude")]
    pub(super) running: bool,
    /// Values of --event are calls that may contain others, each ended by its own 0. Paraver only
    #[arg(long)]
    pub(super) nested: bool,
    /// Confidence level of the interval
    #[arg(long, value_name = "PART", default_value_t = 0.95, value_parser = parse_part)]
    pub(super) confidence: f64,
    /// Folder for points files: NAME-EVENT.points of each process, thread or host. Existing files are replaced.
    /// After a kill the same command continues where the reading stopped, from EVENT.reading in the folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(super) out: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
}

/// The options that decide on iterations and their time.
#[derive(PartialEq, Serialize, Deserialize)]
pub(super) struct TraceOptions {
    pub(super) event: String,
    pub(super) units: UnitsSource,
    pub(super) per_unit: f64,
    pub(super) per: ModelLevel,
    pub(super) exclude: Vec<String>,
    pub(super) running: bool,
    pub(super) nested: bool,
}

/// The source of the units of an iteration.
#[derive(PartialEq, Serialize, Deserialize)]
pub(super) enum UnitsSource {
    Fixed(u64),
    Latest(String),
    Counter(String),
}

impl TraceArguments {
    /// Returns the options that decide on iterations and their time.
    pub(super) fn make_options(&self) -> TraceOptions {
        let units = match (&self.size, &self.counter, self.units) {
            (Some(name), ..) => UnitsSource::Latest(name.clone()),
            (_, Some(name), _) => UnitsSource::Counter(name.clone()),
            (_, _, units) => UnitsSource::Fixed(units.unwrap_or(1)),
        };
        TraceOptions {
            event: self.event.clone(),
            units,
            per_unit: self.per_unit,
            per: self.per,
            exclude: self.exclude.clone(),
            running: self.running,
            nested: self.nested,
        }
    }
}

impl TraceOptions {
    /// Returns the units of an iteration with this size.
    pub(super) fn count_units(&self, amount: f64) -> Result<u64, String> {
        if let UnitsSource::Fixed(units) = self.units {
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
    pub(super) fn describe(&self, confidence: f64) -> String {
        let size = match &self.units {
            UnitsSource::Fixed(units) => format!("{units} units"),
            UnitsSource::Latest(name) => format!("size {name}"),
            UnitsSource::Counter(name) => format!("counter {name}"),
        };
        let per_unit = match self.per_unit {
            1.0 => String::new(),
            size => format!(" by {size}"),
        };
        let counted = match (&self.exclude[..], self.running) {
            (_, true) => "time in the state running".to_owned(),
            ([], _) => "time without calls of MPI".to_owned(),
            ([none], _) if none == "none" => "all time".to_owned(),
            (names, _) => format!("time without {}", names.join(", ")),
        };
        let nested = if self.nested { ", nested" } else { "" };
        let event = &self.event;
        format!(
            "iterations of {event}{nested}, {size}{per_unit}, {counted}, confidence {confidence}"
        )
    }
}
