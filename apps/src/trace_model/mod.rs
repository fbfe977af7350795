//! `isochron trace-model`: points of models from traces of an instrumented application.
//!
//! A trace of a run has iterations of known sizes, and each run with another division adds points to the models. Time
//! in MPI's calls does not count: a model must not depend on other processes.
//!
//! # References
//! Clarke's thesis, section 3.1.5.

mod choice;
mod chrome;
mod course;
mod header;
mod iterations;
mod json;
mod kept;
mod labels;
mod lines;
mod oddities;
mod options;
mod pairs;
mod paraver;
mod progress;
mod reading;
pub(crate) mod report;
mod spans;

use isochron_hierarchy::printable::show_path;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use isochron_core::internal::output::{DOCUMENT_BYTES, PartialFile};
use isochron_hierarchy::model::ModelFile;

use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::lines::{count, output_width};
use crate::output::{self, Answer};
use crate::points::today;
use iterations::{Iterations, TracedModel};
use kept::KeptReadings;
pub use options::TraceArguments;
use options::TraceOptions;
use progress::TraceProgress;
use report::{TraceDocument, TracedDocument};

/// Runs the command.
pub fn run(arguments: &TraceArguments) -> Result<Answer, Failure> {
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
        schema: FormatVersion,
        event: options.event.clone(),
        measured_with: options.describe(arguments.confidence),
        models: models.map(|(model, file)| TracedDocument::new(model, file)).collect(),
        notices,
    };
    Answer::new(arguments.json, &document, |document| document.format(output_width()))
}

impl TraceArguments {
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
            let name = show_path(path);
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

/// Returns the name of a file, without characters that have a meaning in a path.
fn name_file(name: &str, ending: &str) -> String {
    let name = name.replace(|c: char| !c.is_alphanumeric() && !"._-".contains(c), "_");
    format!("{name}.{ending}")
}
