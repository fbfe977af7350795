//! The reading of the traces, kept in a file beside the points files until these are written. After a kill the next command
//! goes on from there.

use isochron_hierarchy::printable::show_path;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{self, Path, PathBuf};
use std::rc::Rc;

use isochron_core::Error;
use isochron_core::internal::output::PartialFile;
use serde::{Deserialize, Serialize};

use super::lines::TraceFile;
use super::options::TraceOptions;
use super::progress::TraceProgress;
use super::reading::TraceReading;
use crate::failure::Failure;
use crate::output;

/// Bytes of traces between two writings of the file: a few seconds of reading.
const KEPT_BYTES: u64 = 256 << 20;

/// The version of the reading: a file of another one is not taken up. It changes when iterations are found or counted
/// otherwise.
const READING_VERSION: u32 = 2;

/// Bytes of traces between two writings, for each byte that is written. Where sizes differ in every iteration the file is
/// as long as the models.
const BYTES_PER_BYTE: u64 = 8;

/// The readings of all traces so far.
pub struct KeptReadings<'a> {
    /// The file; `None` without a folder for it.
    path: Option<PathBuf>,
    options: &'a TraceOptions,
    /// Readings of this command, in the order of its traces. The last one may not have ended.
    readings: Vec<KeptTrace>,
    /// Readings of an earlier command which this one has not come to, also of traces that it is not given.
    earlier: Vec<KeptTrace>,
    /// Bytes to read before the file is written again.
    bytes_left: u64,
}

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct KeptDocument<O, T> {
    /// [`READING_VERSION`].
    version: u32,
    options: O,
    traces: Vec<T>,
}

/// A trace that has been read, or a part of it.
#[derive(Serialize, Deserialize)]
struct KeptTrace {
    /// `None` for a pipe, which is not kept.
    identity: Option<TraceIdentity>,
    reading: TraceReading,
}

/// The identity of a trace: where it lies, and the state of the file and of those next to it, `.pcf` and `.row`.
#[derive(PartialEq, Serialize, Deserialize)]
struct TraceIdentity {
    path: String,
    files: [Option<FileState>; 3],
}

/// The state of a file. A file that changes has another one.
#[derive(PartialEq, Serialize, Deserialize)]
struct FileState {
    bytes: u64,
    modified_s: i64,
    modified_ns: i64,
}

impl<'a> KeptReadings<'a> {
    /// Takes up the reading that a command with these options has left at `path`. Notes on standard error name the traces
    /// that begin again, and the reason.
    pub fn open(path: Option<PathBuf>, options: &'a TraceOptions, traces: &[PathBuf]) -> Self {
        let earlier = path.as_deref().map(|path| read_earlier(path, options));
        let mut kept = Self {
            bytes_left: if path.is_some() { KEPT_BYTES } else { u64::MAX },
            path,
            options,
            readings: Vec::new(),
            earlier: earlier.unwrap_or_default(),
        };
        let given = traces.iter().filter_map(|path| TraceIdentity::of(path));
        for now in given {
            let changed = kept.earlier.extract_if(.., |kept| {
                let before = kept.identity.as_ref();
                before.is_some_and(|before| before.path == now.path && *before != now)
            });
            if changed.count() > 0 {
                output::note(&format!(
                    "{}: has changed since an earlier command read it: begins again",
                    now.path
                ));
            }
        }
        kept
    }

    /// Reads a trace to its end, from where an earlier command came to.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn read_trace(&mut self, path: &Path, progress: &Rc<TraceProgress>) -> Result<(), Failure> {
        let blame = |reason: String| Failure::of_file(path, reason);
        let mut file = TraceFile::open(path, Rc::clone(progress)).map_err(blame)?;
        let identity = TraceIdentity::of(path);
        let known = (self.earlier.iter()).position(|kept| kept.identity == identity);
        let kept = match known.map(|index| self.earlier.remove(index)) {
            Some(kept) => {
                let position = kept.reading.position();
                file.go_to(position).map_err(blame)?;
                progress.skip_bytes(file.offset);
                let (name, megabytes) = (show_path(path), file.offset / 1_000_000);
                output::note(&format!("{name}: an earlier command has read {megabytes} MB of it"));
                kept
            }
            None => KeptTrace {
                identity,
                reading: TraceReading::begin(path, &mut file, self.options).map_err(blame)?,
            },
        };
        self.readings.push(kept);
        while let Some(kept) = self.readings.last_mut()
            && kept.reading.end().is_none()
        {
            let before = file.offset;
            file.pause_after(self.bytes_left);
            kept.reading.read_on(&mut file, self.options).map_err(blame)?;
            self.bytes_left = self.bytes_left.saturating_sub(file.offset - before);
            if self.bytes_left == 0
                && let Err(error) = self.write()
            {
                output::note(&format!("{error}: a killed command will begin again"));
                (self.path, self.bytes_left) = (None, u64::MAX);
            }
        }
        let ended = self.readings.last().map(|kept| kept.reading.iterations());
        progress.end_trace(ended.map_or(0, |iterations| iterations.added));
        Ok(())
    }

    /// Returns the readings of the traces.
    pub fn list_readings(&self) -> impl Iterator<Item = &TraceReading> {
        self.readings.iter().map(|kept| &kept.reading)
    }

    /// Removes the readings of these traces from the file, and an empty file.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn remove(&mut self) -> Result<(), Error> {
        self.readings.clear();
        if !self.earlier.is_empty() {
            return self.write();
        }
        let Some(path) = &self.path else {
            return Ok(());
        };
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::output(path, error)),
            _ => Ok(()),
        }
    }

    fn write(&mut self) -> Result<(), Error> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let traces = self.readings.iter().chain(&self.earlier);
        let document = KeptDocument {
            version: READING_VERSION,
            options: self.options,
            traces: traces.filter(|kept| kept.identity.is_some()).collect(),
        };
        let mut file = BufWriter::new(PartialFile::create(path, 0)?);
        serde_json::to_writer(&mut file, &document).map_err(|error| Error::output(path, error))?;
        file.flush().map_err(|error| Error::output(path, error))?;
        let file = file.into_inner().map_err(|error| Error::output(path, error.into_error()))?;
        self.bytes_left = KEPT_BYTES.max(BYTES_PER_BYTE * file.written());
        file.publish()
    }
}

/// Reads the traces in the file of an earlier command, which must have had the same options and version; none without a
/// file.
fn read_earlier(path: &Path, options: &TraceOptions) -> Vec<KeptTrace> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        file => file,
    };
    type Document = KeptDocument<TraceOptions, KeptTrace>;
    let document = file.map_err(|error| error.to_string()).and_then(|file| {
        serde_json::from_reader::<_, Document>(BufReader::new(file))
            .map_err(|error| error.to_string())
    });
    let reason = match document {
        Ok(KeptDocument { version, options: earlier, traces })
            if version == READING_VERSION && earlier == *options =>
        {
            return traces;
        }
        Ok(_) => "is of a command with other options or of another version".to_owned(),
        Err(reason) => reason,
    };
    output::note(&format!(
        "{}: {reason}: all traces are read from their beginning",
        show_path(path)
    ));
    Vec::new()
}

impl TraceIdentity {
    /// Returns `None` for a pipe, or if there is no such file.
    fn of(path: &Path) -> Option<Self> {
        // A link is not followed: the files next to it count.
        let path = path::absolute(path).ok()?;
        let files = [&path, &path.with_extension("pcf"), &path.with_extension("row")];
        let files = files.map(|path| FileState::of(path));
        Some(Self { path: path.display().to_string(), files })
            .filter(|identity| identity.files[0].is_some())
    }
}

impl FileState {
    /// Returns `None` if there is no such file.
    fn of(path: &Path) -> Option<Self> {
        let there = path.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(Self {
            bytes: there.len(),
            modified_s: there.mtime(),
            modified_ns: there.mtime_nsec(),
        })
    }
}
