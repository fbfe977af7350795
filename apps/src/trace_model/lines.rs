//! A trace as bytes and lines, read once from its beginning to its end.

use isochron_hierarchy::printable::show_path;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::progress::TraceProgress;

/// Most bytes of a line. A line of a million ranks has fewer.
const MOST_BYTES: u64 = 1 << 26;

/// A trace that is being read.
pub struct TraceFile {
    reader: BufReader<File>,
    progress: Rc<TraceProgress>,
    name: String,
    /// The number of the line that was read last, from 1.
    pub line: u64,
    /// Bytes before the one that is read next.
    pub offset: u64,
    /// The offset from which on the reading is due to pause.
    pause: u64,
}

/// A position in a trace.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct TracePosition {
    line: u64,
    offset: u64,
}

/// The format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceFormat {
    /// Paraver's `.prv`.
    Paraver,
    /// Chrome's JSON.
    Chrome,
}

impl TraceFile {
    /// Opens a trace, whose bytes count in the progress.
    ///
    /// # Errors
    /// The reason of the system, or that it is a folder.
    pub fn open(path: &Path, progress: Rc<TraceProgress>) -> Result<Self, String> {
        // A pipe is as good as a file: traces may be unpacked on the way.
        let file = File::open(path).map_err(|error| error.to_string())?;
        let metadata = file.metadata().map_err(|error| error.to_string())?;
        if metadata.is_dir() {
            return Err("is a folder: name the traces in it, as FOLDER/*.prv".to_owned());
        }
        Ok(Self {
            reader: BufReader::with_capacity(1 << 18, file),
            progress,
            name: show_path(path),
            line: 0,
            offset: 0,
            pause: u64::MAX,
        })
    }

    /// Goes on where an earlier reading was.
    ///
    /// # Errors
    /// The reason of the system.
    pub fn go_to(&mut self, position: TracePosition) -> Result<(), String> {
        let TracePosition { line, offset } = position;
        self.reader.seek(SeekFrom::Start(offset)).map_err(|error| error.to_string())?;
        (self.line, self.offset) = (line, offset);
        Ok(())
    }

    /// Returns the position up to which the trace is read.
    pub fn position(&self) -> TracePosition {
        TracePosition { line: self.line, offset: self.offset }
    }

    /// Lets the reading pause after about these bytes.
    pub fn pause_after(&mut self, bytes: u64) {
        self.pause = self.offset.saturating_add(bytes);
    }

    /// Returns `true` if the reading is due to pause.
    pub fn is_due(&self) -> bool {
        self.offset >= self.pause
    }

    /// Tells the format by the first character.
    ///
    /// # Errors
    /// If it is of no known format.
    pub fn find_format(&mut self) -> Result<TraceFormat, String> {
        let start = self.reader.fill_buf().map_err(|error| error.to_string())?;
        if start.starts_with(&[0x1f, 0x8b]) {
            return Err("is compressed: unpack it with gunzip".to_owned());
        }
        match start
            .strip_prefix("\u{feff}".as_bytes())
            .unwrap_or(start)
            .iter()
            .find(|byte| !byte.is_ascii_whitespace())
        {
            None => Err("is empty".to_owned()),
            Some(b'#') => Ok(TraceFormat::Paraver),
            Some(b'[' | b'{') => Ok(TraceFormat::Chrome),
            Some(_) => {
                Err("line 1: neither Paraver's `#Paraver (` nor JSON begins here".to_owned())
            }
        }
    }

    /// Reads a line into `line`, without its end. Returns `false` at the end of the file.
    ///
    /// # Errors
    /// If it cannot be read, or has no end.
    pub fn read_line(&mut self, line: &mut Vec<u8>) -> Result<bool, String> {
        line.clear();
        let mut limited = self.reader.by_ref().take(MOST_BYTES);
        let read = limited.read_until(b'\n', line);
        let read = read.map_err(|error| self.blame_line(error))? as u64;
        if read == 0 {
            return Ok(false);
        }
        self.line += 1;
        if line.pop() != Some(b'\n') {
            return Err(self.blame_line("has no end: the trace is truncated"));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        self.count_bytes(read);
        Ok(true)
    }

    /// Reads a byte; `None` at the end of the file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read_byte(&mut self) -> Result<Option<u8>, String> {
        let byte = self.peek_byte()?;
        if byte.is_some() {
            self.reader.consume(1);
            self.count_bytes(1);
        }
        if byte == Some(b'\n') {
            self.line += 1;
        }
        Ok(byte)
    }

    /// Returns the byte that is read next; `None` at the end of the file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn peek_byte(&mut self) -> Result<Option<u8>, String> {
        Ok(self.reader.fill_buf().map_err(|error| error.to_string())?.first().copied())
    }

    /// Makes an error about the line that was read last.
    pub fn blame_line(&self, reason: impl std::fmt::Display) -> String {
        format!("line {}: {reason}", self.line)
    }

    /// Tells the progress the number of iterations that were found so far.
    pub fn note_iterations(&self, iterations: u64) {
        self.progress.note_iterations(iterations);
    }

    fn count_bytes(&mut self, read: u64) {
        self.offset += read;
        self.progress.count_bytes(read, &self.name);
    }
}
