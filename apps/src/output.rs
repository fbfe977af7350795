//! Standard output: the one place that writes there.

use std::io::{self, ErrorKind, Write as _};

use serde::Serialize;

use crate::failure::Failure;

/// An answer for a program: one line of JSON.
pub fn json(answer: &impl Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(answer).map_err(Failure::run)?;
    Ok(line + "\n")
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
