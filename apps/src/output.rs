//! Standard output, and files beside it: the one place that writes them.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use isochron::output::PartialFile;
use serde::Serialize;

use crate::failure::Failure;

/// An answer for a program: one line of JSON.
pub fn json(answer: &impl Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(answer).map_err(Failure::run)?;
    Ok(line + "\n")
}

/// Writes a whole file; what was there stays until all of the new text is.
pub fn file(path: &Path, text: &str) -> Result<(), Failure> {
    fill(PartialFile::create(path)?, path, text)
}

/// Writes the whole text of a file that was opened before there was any.
pub fn fill(mut partial: PartialFile, path: &Path, text: &str) -> Result<(), Failure> {
    partial
        .file()
        .write_all(text.as_bytes())
        .map_err(|error| Failure::run(format!("cannot write {}: {error}", path.display())))?;
    Ok(partial.publish()?)
}

/// Writes a whole answer.
pub fn write(answer: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(answer.as_bytes());
    told(written.and_then(|()| stdout.flush()))
}

/// Whether writing failed. A reader that has seen enough and closed its pipe is no failure.
pub fn told(written: io::Result<()>) -> Result<(), Failure> {
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
        assert!(told(Ok(())).is_ok());
        assert!(told(Err(ErrorKind::BrokenPipe.into())).is_ok());
        let Err(failure) = told(Err(ErrorKind::StorageFull.into())) else {
            panic!("a full disk is a failure");
        };
        assert_eq!(failure.status, 1);
        assert!(
            failure
                .message
                .starts_with("cannot write to standard output")
        );
    }
}
