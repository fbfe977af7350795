//! Standard output and written files: the one place that writes them.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::output::PartialFile;
use serde::Serialize;

use crate::failure::Failure;

/// Formats an answer for a program: one line of JSON.
pub fn json_line(answer: &impl Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(answer).map_err(Failure::run)?;
    Ok(line + "\n")
}

/// Formats a document for programs and people: JSON in lines.
pub fn json_lines(document: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(document).map_err(Failure::run)?;
    Ok(text + "\n")
}

/// Writes a whole file. Its old content stays until all of the new text is written.
pub fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    fill_file(PartialFile::create(path)?, path, text)
}

/// Writes the text of a file that was opened earlier.
pub fn fill_file(mut partial: PartialFile, path: &Path, text: &str) -> Result<(), Error> {
    let written = partial.file().write_all(text.as_bytes());
    written.map_err(|error| Error::output(path, error))?;
    partial.publish()
}

/// Writes a JSON document on the head rank, if there is a file for it.
///
/// # Collective
/// All ranks.
pub fn write_json(
    comm: &dyn Comm,
    path: Option<&Path>,
    document: &impl Serialize,
) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    let written = match comm.rank() {
        0 => serde_json::to_string_pretty(document)
            .map_err(|error| Error::output(path, error))
            .and_then(|text| write_file(path, &(text + "\n"))),
        _ => Ok(()),
    };
    agree(comm, written)
}

/// Writes an answer to standard output.
pub fn print(answer: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(answer.as_bytes());
    check_printed(written.and_then(|()| stdout.flush()))
}

/// Turns an error of standard output into a failure. A reader that has closed its pipe is none.
pub fn check_printed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::run(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_left_is_no_failure() {
        assert!(check_printed(Ok(())).is_ok());
        assert!(check_printed(Err(ErrorKind::BrokenPipe.into())).is_ok());
        let failure = check_printed(Err(ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(failure.status, 1);
        assert!(
            failure
                .message
                .starts_with("cannot write to standard output")
        );
    }
}
