//! Lines of a text file.

use std::io::{BufRead, BufReader};
use std::rc::Rc;

use crate::input::{FileReader, WatchedFile};

/// Bytes from which on a line is refused: a text file with such lines is something else.
const MAX_LINE: u64 = 4096;

/// Lines with their numbers, comments and empty ones left out.
pub(super) struct NumberedLines {
    file: BufReader<FileReader>,
    bytes: Vec<u8>,
    line: String,
    pub number: usize,
}

impl NumberedLines {
    /// Begins before the first line of a file.
    pub fn new(file: Rc<WatchedFile>) -> Self {
        Self {
            file: BufReader::with_capacity(1 << 20, file.into()),
            bytes: Vec::new(),
            line: String::new(),
            number: 0,
        }
    }

    /// Reads a line, which is empty at the end of the file alone. Of a comment that is too long the rest is left out.
    ///
    /// # Errors
    /// Returns the line and the reason.
    pub fn next_raw(&mut self) -> Result<&str, String> {
        self.bytes.clear();
        self.line.clear();
        self.number += 1;
        let number = self.number;
        let mut limited = std::io::Read::take(&mut self.file, MAX_LINE);
        let len = limited
            .read_until(b'\n', &mut self.bytes)
            .map_err(|error| format!("line {number}: {error}"))?;
        // Names in comments may be in any encoding.
        self.line += &String::from_utf8_lossy(&self.bytes);
        if len as u64 == MAX_LINE && !self.line.ends_with('\n') {
            if !self.is_comment() {
                return Err(format!("line {number}: longer than {MAX_LINE} bytes"));
            }
            (self.file.skip_until(b'\n')).map_err(|error| format!("line {number}: {error}"))?;
        }
        Ok(&self.line)
    }

    fn is_comment(&self) -> bool {
        self.line.trim_start().starts_with('%')
    }

    /// Returns the next line that is neither empty nor a comment.
    ///
    /// # Errors
    /// Returns the line and the reason.
    pub fn next_data(&mut self) -> Result<Option<&str>, String> {
        while !self.next_raw()?.is_empty() {
            if !self.line.trim().is_empty() && !self.is_comment() {
                return Ok(Some(self.line.trim()));
            }
        }
        Ok(None)
    }
}
