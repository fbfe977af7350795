//! Standard output, notes on standard error and written files: the one place that writes them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::output::{DOCUMENT_BYTES, PartialFile, check_distinct, open_stdout};
pub use isochron_core::internal::output::{keep_stdout, remove_partial_files};
use isochron_core::internal::watch::{RankPhase, enter_within};
use isochron_hierarchy::printable::{escape, show_text};
use rustix::fs::{SeekFrom, seek};
use serde::Serialize;

use crate::failure::Failure;

/// Writes an answer in whole strings.
type WriteAnswer = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()>>;

/// The answer of a command, which the head rank prints.
///
/// Names of files, hosts, kernels, devices, libraries and models come from outside. Whatever they hold, no line of an answer
/// has a hidden character.
pub struct Answer {
    form: AnswerForm,
    write: WriteAnswer,
    /// The failure with which the command ends all the same.
    failure: Option<Failure>,
}

/// The form of an answer, which decides how its hidden characters are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerForm {
    /// Text for people, shown by [`show_text`]: long names are cut.
    Text,
    /// Text with lines that are no names, as plots have them: nothing is cut.
    Plot,
    /// The same in colours of a terminal.
    Colored,
    /// Documents, whose strings are those of JSON: hidden characters are `\uXXXX`.
    Document,
}

impl AnswerForm {
    fn escape(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Text => show_text(text),
            Self::Plot => escape_by(text, write_escaped),
            Self::Colored => escape_by(text, |c, escaped| match c {
                '\x1b' => escaped.push(c),
                c => write_escaped(c, escaped),
            }),
            Self::Document => escape_json(text),
        }
    }
}

impl Answer {
    /// Answers by a document: a line of JSON for programs, or the text that `format` makes of it for people.
    pub fn new<D: Serialize>(
        is_json: bool,
        document: &D,
        format: impl FnOnce(&D) -> String,
    ) -> Result<Self, Failure> {
        if !is_json {
            return Ok(Self::text(format(document)));
        }
        let line = serde_json::to_string(document).map_err(Failure::run)?;
        Ok(Self::document(line + "\n"))
    }

    /// Answers by a document for programs and people: JSON in lines, or the text that `format` makes of it.
    pub fn in_lines<D: Serialize>(
        is_json: bool,
        document: &D,
        format: impl FnOnce(&D) -> String,
    ) -> Result<Self, Failure> {
        if !is_json {
            return Ok(Self::text(format(document)));
        }
        let text = serde_json::to_string_pretty(document).map_err(Failure::run)?;
        Ok(Self::document(text + "\n"))
    }

    /// Answers by a text for people.
    pub fn text(text: String) -> Self {
        Self::written(AnswerForm::Text, move |out| out.write_all(text.as_bytes()))
    }

    /// Answers by a document for programs, whose strings are those of JSON.
    pub fn document(text: String) -> Self {
        Self::written(AnswerForm::Document, move |out| out.write_all(text.as_bytes()))
    }

    /// Answers by what `write` writes in whole strings as it makes them: an answer may be longer than what it is made of.
    pub fn written(
        form: AnswerForm,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()> + 'static,
    ) -> Self {
        Self { form, write: Box::new(write), failure: None }
    }

    /// Ends the command with a failure after the answer.
    pub fn with_failure(mut self, failure: Failure) -> Self {
        self.failure = Some(failure);
        self
    }

    /// Writes the answer to standard output.
    ///
    /// # Errors
    /// Returns the failure to write, or else the one that the answer ends with.
    pub fn print(self) -> Result<(), Failure> {
        // The reader of a pipe may take any time.
        let _printing = enter_within(RankPhase::Print);
        check_printed(open_stdout().and_then(|stdout| {
            // A file may have grown meanwhile, by a document for `/dev/stdout`. Pipes have no positions.
            let _ = seek(&stdout, SeekFrom::End(0));
            // Many short strings are escaped together. The buffer never cuts one.
            let mut out = BufWriter::with_capacity(
                ESCAPED_BYTES,
                EscapedOutput { out: stdout, form: self.form },
            );
            (self.write)(&mut out)?;
            out.flush()
        }))?;
        self.failure.map_or(Ok(()), Err)
    }
}

/// Bytes of an answer that are escaped and written together.
const ESCAPED_BYTES: usize = 64 << 10;

/// A stream of whole strings, whose hidden characters are escaped.
struct EscapedOutput<W> {
    out: W,
    form: AnswerForm,
}

impl<W: Write> Write for EscapedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.out.write_all(self.form.escape(text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns standard error for the lines of the log, which may have colours.
pub fn log_output(has_colors: bool) -> impl Write {
    EscapedOutput {
        out: io::stderr(),
        form: if has_colors { AnswerForm::Colored } else { AnswerForm::Plot },
    }
}

/// Writes a hidden character as [`escape`] does.
fn write_escaped(c: char, escaped: &mut String) {
    let mut room = [0; 4];
    *escaped += &escape(c.encode_utf8(&mut room));
}

/// Returns JSON with the hidden characters of its strings as `\uXXXX`.
fn escape_json(text: &str) -> Cow<'_, str> {
    escape_by(text, |c, escaped| {
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            // Writing to a String cannot fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    })
}

/// Returns TOML with the hidden characters of its strings as `\uXXXX` and `\UXXXXXXXX`.
pub fn escape_toml(text: &str) -> Cow<'_, str> {
    escape_by(text, |c, escaped| {
        let code = u32::from(c);
        // Writing to a String cannot fail.
        let _ = match u16::try_from(code) {
            Ok(code) => write!(escaped, "\\u{code:04x}"),
            Err(_) => write!(escaped, "\\U{code:08x}"),
        };
    })
}

/// Returns a text with its hidden characters but the ends of lines as `write` writes them.
fn escape_by(text: &str, write: fn(char, &mut String)) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte == b'\n' || byte == b' ' || byte.is_ascii_graphic();
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    let mut room = [0; 4];
    for c in text.chars() {
        match escape(c.encode_utf8(&mut room)) {
            Cow::Owned(_) if c != '\n' => write(c, &mut escaped),
            _ => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Returns the path that an option gives, with the option's name.
pub fn name_path<'a>(option: &'a str, path: &'a Option<PathBuf>) -> Option<(&'a str, &'a Path)> {
    path.as_deref().map(|path| (option, path))
}

/// Checks before the work that no file is written that is another output or is read. Each path comes with its option.
///
/// # Errors
/// Returns [`Error::File`] on every rank, with both options.
///
/// # Collective
/// All ranks.
pub fn check_paths<'a>(
    comm: &dyn Comm,
    inputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
    outputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
) -> Result<(), Error> {
    let outcome = if comm.rank() == 0 { check_distinct(inputs, outputs) } else { Ok(()) };
    agree(comm, outcome)
}

/// Creates the file for a document before the work, if one is wanted: what cannot be written is known then.
pub fn create_file(path: Option<&Path>) -> Result<Option<PartialFile>, Error> {
    path.map(|path| PartialFile::create(path, DOCUMENT_BYTES)).transpose()
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
    let text = text.map_err(|error| Error::output(file.path(), error))? + "\n";
    // The file may be standard output.
    file.fill(&escape_json(&text))
}

/// Prints the message of a failure in one line, whatever names in it hold; returns the exit status, which says it all if standard
/// error is closed.
pub fn print_failure(failure: &Failure) -> u8 {
    if !failure.message.is_empty() {
        note(&failure.message);
    }
    failure.status
}

/// Writes a note or a failure to standard error, in one line: an end of a line in a name begins none.
pub fn note(text: &str) {
    // If standard error is closed, there is no place for it.
    let text = escape(text);
    let _ = writeln!(io::stderr(), "isochron: {}", show_text(&text));
}

/// Makes the folder that `--out` names.
///
/// # Errors
/// Returns [`Error::File`].
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
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_keep_their_strings_without_hidden_characters() {
        let name = "a\u{200b}b\u{202e}\u{7f}\u{e0001}é×\n\"節";
        let line = serde_json::to_string(&[name]).unwrap();
        let escaped = escape_json(&line);
        assert_eq!(escaped, r#"["a\u200bb\u202e\u007f\udb40\udc01é×\n\"節"]"#);
        let read: [String; 1] = serde_json::from_str(&escaped).unwrap();
        assert_eq!(read[0], name);
        assert_eq!(escape_toml("a\u{200b}\u{e0001}\n"), "a\\u200b\\U000e0001\n");
    }

    #[test]
    fn only_a_reader_that_left_is_no_failure() {
        assert!(check_printed(Ok(())).is_ok());
        assert!(check_printed(Err(ErrorKind::BrokenPipe.into())).is_ok());
        let failure = check_printed(Err(ErrorKind::StorageFull.into())).unwrap_err();
        assert_eq!(failure.status, 1);
        assert!(failure.message.starts_with("cannot write to standard output"));
    }
}
