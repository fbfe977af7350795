//! `isochron trace-model`: points of models from traces of an instrumented application.
//!
//! A trace of a run has iterations of known sizes, and each run with another division adds points to the models. Time
//! in MPI's calls does not count: a model must not depend on other processes.
//!
//! # References
//! Clarke's thesis, section 3.1.5.

mod chrome;
mod labels;
mod options;
mod paraver;
pub(crate) mod report;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use isochron_core::internal::output::{DOCUMENT_BYTES, PartialFile};
use isochron_hierarchy::model::{ModelFile, Point};
use isochron_hierarchy::printable::show_path;
use isochron_hierarchy::times::RunningMean;

use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::lines::{count, output_width};
use crate::output::{self, Answer};
use crate::points::today;
pub use options::TraceArguments;
use report::{TraceDocument, TracedDocument};

/// Confidence level of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Most events that a message lists.
const MOST_LISTED: usize = 10;

/// The iterations of a thread: the mean time of each size.
type SizeTimes = BTreeMap<u64, RunningMean>;

/// The content of a trace.
struct Trace {
    /// The iterations by process, such as `rank0`, and thread.
    threads: BTreeMap<(String, String), SizeTimes>,
    /// Number of iterations whose beginning or end is missing.
    cut: u64,
    notices: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &TraceArguments) -> Result<Answer, Failure> {
    if let Some(folder) = &arguments.out {
        output::make_folder(folder)?;
    }
    let mut models = BTreeMap::<String, SizeTimes>::new();
    let mut notices = Vec::new();
    for path in &arguments.files {
        let trace = arguments.read_trace(path).map_err(|reason| Failure::of_file(path, reason))?;
        let name = show_path(path);
        notices.extend(trace.notices.iter().map(|notice| format!("{name}: {notice}")));
        if trace.cut > 0 {
            let cut = count(trace.cut, "iteration");
            notices.push(format!("{name}: {cut} without a beginning or an end left no time"));
        }
        for (name, times) in name_threads(trace.threads) {
            let model = models.entry(name).or_default();
            for (units, mean) in times {
                model.entry(units).or_default().merge(&mean);
            }
        }
    }
    if models.is_empty() {
        let reason = format!("no iteration of event {} ended", arguments.event);
        return Err(Failure::of_file(&arguments.files[0], reason));
    }
    let models = models.into_iter().map(|(name, times)| (name, list_points(&times))).collect();
    let document = TraceDocument {
        schema: FormatVersion,
        event: arguments.event.clone(),
        measured_with: arguments.describe(),
        models: arguments.write_files(models)?,
        notices,
    };
    Answer::new(arguments.json, &document, |document| document.format(output_width()))
}

/// Names the models: a process with iterations on one thread gives its name, and else each thread has a model.
fn name_threads(
    threads: BTreeMap<(String, String), SizeTimes>,
) -> impl Iterator<Item = (String, SizeTimes)> {
    let mut counts = BTreeMap::<String, usize>::new();
    for (process, _) in threads.keys() {
        *counts.entry(process.clone()).or_default() += 1;
    }
    threads.into_iter().map(move |((process, thread), times)| {
        let is_alone = counts[&process] == 1;
        (if is_alone { process } else { format!("{process}-thread{thread}") }, times)
    })
}

/// Makes a point of the iterations of each size. The half-width of a single one is 0.
fn list_points(times: &SizeTimes) -> Vec<Point> {
    let points = times.iter().map(|(&d, mean)| {
        let ci_s = mean.half_width(CONFIDENCE);
        Point {
            d,
            t_s: mean.mean,
            reps: u32::try_from(mean.count()).unwrap_or(u32::MAX),
            ci_s: if ci_s.is_finite() { ci_s } else { 0.0 },
        }
    });
    points.collect()
}

/// Says that the trace has no event of this name. The message lists the most frequent ones.
fn miss_event(wanted: &str, seen: impl Iterator<Item = (u64, String)>) -> String {
    let mut seen: Vec<(u64, String)> = seen.collect();
    seen.sort_unstable_by(|a, b| b.cmp(a));
    let listed: Vec<String> = seen.into_iter().take(MOST_LISTED).map(|(_, name)| name).collect();
    if listed.is_empty() {
        return format!("no event {wanted}, and no other events");
    }
    format!("no event {wanted}; its most frequent events are {}", listed.join(", "))
}

impl TraceArguments {
    /// Reads a trace, whose first character tells its format.
    fn read_trace(&self, path: &Path) -> Result<Trace, String> {
        // A pipe is as good as a file: traces may be unpacked on the way.
        let file = File::open(path).map_err(|error| error.to_string())?;
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let start = reader.fill_buf().map_err(|error| error.to_string())?;
        if start.starts_with(&[0x1f, 0x8b]) {
            return Err("is compressed: unpack it with gunzip".to_owned());
        }
        let start = start.strip_prefix("\u{feff}".as_bytes()).unwrap_or(start);
        match start.trim_ascii_start().first() {
            None => Err("is empty".to_owned()),
            Some(b'#') => paraver::read(path, reader, self),
            Some(b'[' | b'{') => chrome::read(reader, self),
            Some(_) => {
                Err("line 1: neither Paraver's `#Paraver (` nor JSON begins here".to_owned())
            }
        }
    }

    /// Writes the points files, if wanted.
    fn write_files(
        &self,
        models: Vec<(String, Vec<Point>)>,
    ) -> Result<Vec<TracedDocument>, Failure> {
        let mut paths = Vec::<PathBuf>::new();
        let mut documents = Vec::new();
        for (name, points) in models {
            let Some(folder) = &self.out else {
                documents.push(TracedDocument::new(name, None, points));
                continue;
            };
            let path = folder.join(name_file(&format!("{name}-{}", self.event)));
            if paths.contains(&path) {
                return Err(Failure::of_file(&path, "two models would have this file"));
            }
            let file = self.make_file(&name, points.clone()).to_string();
            PartialFile::create(&path, DOCUMENT_BYTES)?.fill(&file)?;
            documents.push(TracedDocument::new(name, Some(&path), points));
            paths.push(path);
        }
        Ok(documents)
    }

    fn make_file(&self, name: &str, points: Vec<Point>) -> ModelFile {
        let traces: Vec<String> =
            self.files.iter().map(|path| path.display().to_string()).collect();
        let headers = [
            ("kernel", self.event.clone()),
            ("traced", name.to_owned()),
            ("traces", traces.join(", ")),
            ("measured-with", self.describe()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("date", today()),
        ];
        let headers =
            headers.map(|(key, value)| (key.to_owned(), value.replace(['\n', '\r'], " ")));
        ModelFile { headers: headers.into(), points }
    }
}

/// Returns the name of a points file, without characters that have a meaning in a path.
fn name_file(name: &str) -> String {
    let name = name.replace(|c: char| !c.is_alphanumeric() && !"._-".contains(c), "_");
    format!("{name}.points")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_a_model_of_its_own_beside_others_of_its_process() {
        let places = [("rank0", "1"), ("rank1", "1"), ("rank1", "2")];
        let threads = places.map(|(process, thread)| {
            ((process.to_owned(), thread.to_owned()), SizeTimes::default())
        });
        let names: Vec<String> = name_threads(threads.into()).map(|(name, _)| name).collect();
        assert_eq!(names, ["rank0", "rank1-thread1", "rank1-thread2"]);
    }
}
