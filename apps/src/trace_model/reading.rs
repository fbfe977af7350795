//! The reading of one trace up to a position, from which another command can go on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chrome::ChromeTrace;
use super::iterations::{Iterations, TraceEnd};
use super::lines::{TraceFile, TraceFormat, TracePosition};
use super::options::TraceOptions;
use super::paraver::ParaverTrace;

/// A trace up to a position, with the iterations before it.
#[derive(Serialize, Deserialize)]
pub struct TraceReading {
    position: TracePosition,
    iterations: Iterations,
    course: TraceCourse,
}

/// The part of the trace behind the position, by its format.
#[derive(Serialize, Deserialize)]
enum TraceCourse {
    Paraver(Box<ParaverTrace>),
    Chrome(ChromeTrace),
    Ended(TraceEnd),
}

impl TraceReading {
    /// Begins to read a trace.
    ///
    /// # Errors
    /// The line and the reason; or the option that does not fit.
    pub fn begin(
        path: &Path,
        file: &mut TraceFile,
        options: &TraceOptions,
    ) -> Result<Self, String> {
        let course = match file.find_format()? {
            TraceFormat::Paraver => {
                let trace = ParaverTrace::open(path, file, options)?;
                TraceCourse::Paraver(Box::new(trace))
            }
            TraceFormat::Chrome => TraceCourse::Chrome(ChromeTrace::open(file, options)?),
        };
        Ok(Self { position: file.position(), iterations: Iterations::new(options.per), course })
    }

    /// Reads on until the file is due to pause.
    ///
    /// # Errors
    /// The line and the reason; or the event that the trace lacks.
    pub fn read_on(&mut self, file: &mut TraceFile, options: &TraceOptions) -> Result<(), String> {
        let iterations = &mut self.iterations;
        let end = match &mut self.course {
            TraceCourse::Paraver(trace) => trace.read_on(file, options, iterations)?,
            TraceCourse::Chrome(trace) => trace.read_on(file, options, iterations)?,
            TraceCourse::Ended(_) => None,
        };
        if let Some(end) = end {
            iterations.end_trace();
            self.course = TraceCourse::Ended(end);
        }
        self.position = file.position();
        Ok(())
    }

    /// Returns the position up to which the trace is read.
    pub fn position(&self) -> TracePosition {
        self.position
    }

    /// Returns the iterations up to the position.
    pub fn iterations(&self) -> &Iterations {
        &self.iterations
    }

    /// Returns the remarks at the end of the trace; `None` before it.
    pub fn end(&self) -> Option<&TraceEnd> {
        match &self.course {
            TraceCourse::Ended(end) => Some(end),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::rc::Rc;

    use super::super::iterations::ModelLevel;
    use super::super::options::UnitsSource;
    use super::super::progress::TraceProgress;
    use super::*;

    fn make_options(event: &str, size: &str, per: ModelLevel) -> TraceOptions {
        TraceOptions {
            event: event.to_owned(),
            units: UnitsSource::Latest(size.to_owned()),
            per_unit: 1.0,
            per,
            exclude: Vec::new(),
            running: false,
            nested: false,
        }
    }

    /// Reads a trace by a new command after every pause; returns the end of the reading, and the number of pauses.
    fn read_in_pieces(path: &Path, options: &TraceOptions, bytes: u64) -> (String, u32) {
        let progress = Rc::new(TraceProgress::start(&[path]));
        let open = || TraceFile::open(path, Rc::clone(&progress)).expect("a trace");
        let reading = TraceReading::begin(path, &mut open(), options).expect("a header");
        let mut kept = serde_json::to_string(&reading).expect("text");
        for pauses in 0.. {
            let mut reading: TraceReading = serde_json::from_str(&kept).expect("a reading");
            if reading.end().is_some() {
                return (kept, pauses);
            }
            let mut file = open();
            file.go_to(reading.position()).expect("a position");
            file.pause_after(bytes);
            reading.read_on(&mut file, options).expect("records");
            kept = serde_json::to_string(&reading).expect("text");
        }
        unreachable!("the trace has an end")
    }

    #[test]
    fn a_reading_that_goes_on_after_any_record_finds_the_same() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
        for (name, event, size, records) in
            [("nbody.prv", "Iteration", "Bodies", 30), ("nbody.json", "iteration", "bodies", 10)]
        {
            for per in [ModelLevel::Thread, ModelLevel::Process] {
                let (path, options) = (folder.join(name), make_options(event, size, per));
                let (whole, _) = read_in_pieces(&path, &options, u64::MAX);
                let (pieces, pauses) = read_in_pieces(&path, &options, 1);
                assert_eq!(whole, pieces);
                assert!(pauses > records, "{name}: {pauses}");
            }
        }
    }
}
