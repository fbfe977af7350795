//! `isochron trace-model`: points of models from traces of an instrumented application.
//!
//! A trace of a run has iterations of known sizes, and each run with another division adds points to the models. Time
//! in MPI's calls does not count: a model must not depend on other processes.
//!
//! # References
//! Clarke's thesis, section 3.1.5.

mod chrome;
mod course;
mod header;
mod iterations;
mod json;
mod kept;
mod labels;
mod lines;
mod oddities;
mod pairs;
mod paraver;
mod progress;
mod reading;
mod report;
mod spans;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use clap::{ArgGroup, Args};
use isochron_core::internal::output::{DOCUMENT_BYTES, PartialFile};
use isochron_hierarchy::model::ModelFile;
use serde::{Deserialize, Serialize};

use crate::devices::points::today;
use crate::failure::Failure;
use crate::lines::{count, output_width};
use crate::numbers::{parse_part, parse_positive, parse_whole};
use crate::output;
use iterations::{Iterations, ModelLevel, TracedModel};
use kept::KeptReadings;
use progress::TraceProgress;
use report::{TraceDocument, TracedDocument};

/// Largest number of units of an iteration: the largest with a neighbour below and above in floating point.
const MOST_UNITS: f64 = 9_007_199_254_740_992.0;

/// The traces, and the events in them that matter.
#[derive(Args)]
#[command(group(ArgGroup::new("source").args(["size", "counter", "units"]).required(true)))]
pub struct TraceArguments {
    /// Traces of runs with different divisions: Paraver's, with the names of events in the .pcf file next to
    /// each, or Chrome's JSON
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Event that marks iterations, by number or name: each value but 0 begins one, and the next value or 0
    /// ends it. TYPE:VALUE takes this value alone. For Chrome, the name of the event, with or without a number
    /// behind it (`step` is also `step#12`)
    #[arg(long, value_name = "EVENT")]
    event: String,
    /// Event whose last value until the end of an iteration is its size. For Chrome, the key in its args
    #[arg(long, value_name = "EVENT")]
    size: Option<String>,
    /// Hardware counter whose sum over the iteration is its size. Paraver only
    #[arg(long, value_name = "EVENT")]
    counter: Option<String>,
    /// Units of every iteration
    #[arg(long, value_name = "N", value_parser = parse_whole::<u64, 1>)]
    units: Option<u64>,
    /// Size of a unit, by which sizes and counters are divided
    #[arg(long, value_name = "SIZE", default_value_t = 1.0, value_parser = parse_positive)]
    per_unit: f64,
    /// Make one model per thread, process or host
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = ModelLevel::Process)]
    per: ModelLevel,
    /// Comma-separated calls to exclude from the time, or `none` [default: those of MPI, and flushes of the trace]
    #[arg(long, value_name = "EVENT", value_delimiter = ',')]
    exclude: Vec<String>,
    /// Count the time in the state running instead of all time outside the excluded calls. Paraver only
    #[arg(long, conflicts_with = "exclude")]
    running: bool,
    /// Values of --event are calls that may contain others, each ended by its own 0. Paraver only
    #[arg(long)]
    nested: bool,
    /// Confidence level of the interval
    #[arg(long, value_name = "PART", default_value_t = 0.95, value_parser = parse_part)]
    confidence: f64,
    /// Folder for points files: NAME-EVENT.points of each process, thread or host. Existing files are replaced.
    /// After a kill the same command continues where the reading stopped, from EVENT.reading in the folder
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The options that decide on iterations and their time.
#[derive(PartialEq, Serialize, Deserialize)]
struct TraceOptions {
    event: String,
    units: UnitsSource,
    per_unit: f64,
    per: ModelLevel,
    exclude: Vec<String>,
    running: bool,
    nested: bool,
}

/// The source of the units of an iteration.
#[derive(PartialEq, Serialize, Deserialize)]
enum UnitsSource {
    Fixed(u64),
    Latest(String),
    Counter(String),
}

/// Runs the command; returns the text that it prints.
pub fn run(arguments: &TraceArguments) -> Result<String, Failure> {
    let options = arguments.make_options();
    if let Some(folder) = &arguments.out {
        output::make_folder(folder)?;
    }
    let mut kept = arguments.read_traces(&options)?;
    let (iterations, notices) = arguments.gather_iterations(&kept);
    let models = iterations.make_models(arguments.confidence);
    if models.is_empty() {
        let reason = format!("no iteration of event {} ended", arguments.event);
        return Err(Failure::of_file(&arguments.files[0], reason));
    }
    let files = arguments.write_files(&models, &options)?;
    kept.remove()?;
    let models = models.into_iter().zip(files);
    let document = TraceDocument {
        schema: 1,
        event: options.event.clone(),
        measured_with: options.describe(arguments.confidence),
        models: models.map(TracedDocument::new).collect(),
        notices,
    };
    if arguments.json {
        output::json_line(&document)
    } else {
        Ok(document.format(output_width()))
    }
}

impl TraceArguments {
    fn make_options(&self) -> TraceOptions {
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

    /// Reads all traces, from where an earlier command came to.
    fn read_traces<'a>(&self, options: &'a TraceOptions) -> Result<KeptReadings<'a>, Failure> {
        let kept = (self.out.as_ref()).map(|folder| folder.join(name_file(&self.event, "reading")));
        let mut kept = KeptReadings::open(kept, options, &self.files);
        let progress = Rc::new(TraceProgress::start(&self.files));
        for path in &self.files {
            kept.read_trace(path, &progress)?;
        }
        Ok(kept)
    }

    /// Returns the iterations of all traces, with remarks about those that were left out.
    fn gather_iterations(&self, kept: &KeptReadings<'_>) -> (Iterations, Vec<String>) {
        let mut iterations = Iterations::new(self.per);
        let mut notices = Vec::new();
        for (path, reading) in self.files.iter().zip(kept.list_readings()) {
            iterations.merge(reading.iterations());
            let name = path.display();
            if let Some(end) = reading.end() {
                notices.extend(end.notices.iter().map(|notice| format!("{name}: {notice}")));
                if end.unfinished > 0 {
                    let begun = count(end.unfinished, "iteration");
                    notices.push(format!("{name}: {begun} did not end and left no time"));
                }
            }
        }
        if iterations.incomplete > 0 {
            let begun = count(iterations.incomplete, "iteration");
            let reason = "not all threads of the model ended them";
            notices.push(format!("{begun} left out: {reason}"));
        }
        (iterations, notices)
    }

    /// Writes the points files; returns their paths.
    fn write_files(
        &self,
        models: &[TracedModel],
        options: &TraceOptions,
    ) -> Result<Vec<Option<PathBuf>>, Failure> {
        let Some(folder) = &self.out else {
            return Ok(vec![None; models.len()]);
        };
        let paths: Vec<PathBuf> = models
            .iter()
            .map(|model| name_file(&format!("{}-{}", model.name, self.event), "points"))
            .map(|name| folder.join(name))
            .collect();
        let mut taken = BTreeSet::new();
        if let Some(twice) = paths.iter().find(|path| !taken.insert(*path)) {
            return Err(Failure::of_file(twice, "two models would have this file"));
        }
        for (model, path) in models.iter().zip(&paths) {
            let text = self.make_file(model, options).to_string();
            PartialFile::create(path, DOCUMENT_BYTES)?.fill(&text)?;
        }
        Ok(paths.into_iter().map(Some).collect())
    }

    fn make_file(&self, model: &TracedModel, options: &TraceOptions) -> ModelFile {
        let traces = self.files.iter().map(|path| path.display().to_string());
        let mut headers = vec![
            ("kernel", self.event.clone()),
            ("traced", model.name.clone()),
            ("traces", traces.collect::<Vec<_>>().join(", ")),
            ("measured-with", options.describe(self.confidence)),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("date", today()),
        ];
        headers.extend(model.host.clone().map(|host| ("host", host)));
        let headers = headers.into_iter();
        ModelFile {
            headers: headers
                .map(|(key, value)| (key.to_owned(), value.replace(['\n', '\r'], " ")))
                .collect(),
            points: model.points.clone(),
        }
    }
}

impl TraceOptions {
    /// Returns the units of an iteration with this size.
    fn count_units(&self, amount: f64) -> Result<u64, String> {
        if let UnitsSource::Fixed(units) = self.units {
            return Ok(units);
        }
        if !(amount.is_finite() && amount > 0.0) {
            return Err(format!(
                "the iteration has the size {amount}, which must be above 0"
            ));
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
    fn describe(&self, confidence: f64) -> String {
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

/// Returns the name of a file, without characters that have a meaning in a path.
fn name_file(name: &str, ending: &str) -> String {
    let name = name.replace(|c: char| !c.is_alphanumeric() && !"._-".contains(c), "_");
    format!("{name}.{ending}")
}
