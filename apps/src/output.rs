//! Standard output, notes on standard error and written files: the one place that writes them.

use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::output::{DOCUMENT_BYTES, PartialFile, open_stdout};
pub use isochron_core::internal::output::{keep_stdout, remove_partial_files};
use isochron_core::internal::watch::{RankPhase, enter_within};
use isochron_hierarchy::printable::escape;
use rustix::fs::{SeekFrom, seek};
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

/// Returns the path that an option gives, with the option's name.
pub fn name_path<'a>(
    (option, path): (&'a str, &'a Option<PathBuf>),
) -> Option<(&'a str, &'a Path)> {
    path.as_deref().map(|path| (option, path))
}

/// Creates the file for a document before the work, if one is wanted: what cannot be written is known then.
pub fn create_file(path: Option<&Path>) -> Result<Option<PartialFile>, Error> {
    path.map(|path| PartialFile::create(path, DOCUMENT_BYTES))
        .transpose()
}

/// Writes a JSON document on the head rank, if that has a file for it.
///
/// # Collective
/// All ranks.
pub fn write_json(
    comm: &dyn Comm,
    file: Option<PartialFile>,
    document: &impl Serialize,
) -> Result<(), Error> {
    agree(comm, file.map_or(Ok(()), |file| fill_json(file, document)))
}

/// Writes a JSON document.
pub fn fill_json(file: PartialFile, document: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(document);
    let text = text.map_err(|error| Error::output(file.path(), error))?;
    file.fill(&(text + "\n"))
}

/// Writes an answer to standard output.
pub fn print(answer: &str) -> Result<(), Failure> {
    print_parts(|stdout| stdout.write_all(answer.as_bytes()))
}

/// Writes an answer to standard output as it is made, for one that is longer than what it is made of.
pub fn print_parts(
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), Failure> {
    // The reader of a pipe may take any time.
    let _printing = enter_within(RankPhase::Print);
    check_printed(open_stdout().and_then(|stdout| {
        // A file may have grown meanwhile, by a document for `/dev/stdout`. Pipes have no positions.
        let _ = seek(&stdout, SeekFrom::End(0));
        let mut stdout = BufWriter::new(stdout);
        write(&mut stdout)?;
        stdout.flush()
    }))
}

/// Writes a note to standard error, in one line.
pub fn note(text: &str) {
    // If standard error is closed, there is no place for it.
    let _ = writeln!(io::stderr(), "isochron: {}", escape(text));
}

/// Makes the folder that `--out` names.
///
/// # Errors
/// [`Error::File`].
pub fn make_folder(folder: &Path) -> Result<(), Error> {
    match std::fs::create_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(Error::file(folder, "is not a folder: choose another --out"))
        }
        made => made.map_err(|error| Error::file(folder, error)),
    }
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
