//! Standard output and written files: the one place that writes them.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use isochron::output::PartialFile;
use serde::Serialize;

use crate::failure::Failure;

/// Formats an answer for a program: one line of JSON.
pub fn json_line(answer: &impl Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(answer).map_err(Failure::run)?;
    Ok(line + "\n")
}

/// Writes a whole file. Its old content stays until all of the new text is written.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    fill_file(PartialFile::create(path)?, path, text)
}

/// Writes the text of a file that was opened earlier.
pub fn fill_file(mut partial: PartialFile, path: &Path, text: &str) -> Result<(), Failure> {
    partial
        .file()
        .write_all(text.as_bytes())
        .map_err(|error| Failure::run(format!("cannot write {}: {error}", path.display())))?;
    Ok(partial.publish()?)
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
