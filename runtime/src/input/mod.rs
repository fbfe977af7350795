//! Input files. Anything else is refused at once: opening a named pipe would wait for its writer.
//!
//! A small file that several ranks need is read by the head rank, which passes its content on. A file that several ranks read
//! themselves [has one content](agree_on_content). No file may change [while it is
//! read](WatchedFile).

mod content;
pub(crate) mod platform;
pub(crate) mod points;
mod seen;
mod watched;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::rc::Rc;

pub use content::agree_on_content;
pub(crate) use content::{describe_other_contents, find_other_contents};
use isochron_devices::internal::describe_kind;
pub use seen::read_kernel_id;
pub use watched::{FileReader, WatchedFile};

use crate::output::{follow_links, stands_for_open_file};

/// Opens a file to be read.
///
/// # Errors
/// Fails if the system cannot open the file, or `path` is no file, and names what it is.
pub fn open_file(path: &Path) -> io::Result<File> {
    match describe_kind(fs::metadata(path)?.file_type()) {
        None => File::open(path),
        Some(kind) => Err(io::Error::other(format!("is {kind}, not a file"))),
    }
}

/// Number of attempts to read a text that changes meanwhile.
const READS: usize = 3;
/// Bytes of a text that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// Reads a text: a file, or an open stream such as `/dev/stdin`. A file that changes while it is read is read again.
///
/// # Errors
/// Fails as [`read_unchanged`], and fails for bytes that are no UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    read_unchanged(path, |text| io::read_to_string(text))?.map_err(name_encoding)
}

/// Says of an error of reading a text that it is no text, if that is the reason.
pub(crate) fn name_encoding(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::InvalidData => io::Error::new(
            io::ErrorKind::InvalidData,
            "is no text: it has bytes that are not UTF-8",
        ),
        _ => error,
    }
}

/// Reads a file, or an open stream, by `read`; a file that changes meanwhile again from its beginning.
///
/// # Errors
/// Fails as [`open_file`], and fails for a file that changes during each of three readings.
pub fn read_unchanged<R>(path: &Path, read: impl Fn(&mut dyn BufRead) -> R) -> io::Result<R> {
    if stands_for_open_file(&follow_links(path)?) {
        return Ok(read(&mut BufReader::new(File::open(path)?)));
    }
    let mut again = 1..READS;
    loop {
        let file = Rc::new(WatchedFile::open(path)?);
        let reader = FileReader::from(Rc::clone(&file));
        let found = read(&mut BufReader::with_capacity(READ_BYTES, reader));
        match file.check() {
            Ok(()) => return Ok(found),
            Err(_) if again.next().is_some() => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::injected::run_after_reads;

    #[test]
    fn a_text_that_changes_while_it_is_read_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let written = path.clone();
        run_after_reads(1, move || fs::write(written, "newer").unwrap());
        assert_eq!(read_text(&path).unwrap(), "newer");
    }

    #[test]
    fn anything_but_a_file_is_named_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status();
        assert!(made.unwrap().success());
        let _listener = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        std::os::unix::fs::symlink("pipe", folder.join("link")).unwrap();
        for (path, kind) in [
            (folder.join("pipe"), "a named pipe"),
            (folder.join("link"), "a named pipe"),
            (folder.join("socket"), "a socket"),
            (folder.join(""), "a folder"),
            ("/dev/null".into(), "a device"),
        ] {
            let expected = format!("is {kind}, not a file");
            assert_eq!(open_file(&path).unwrap_err().to_string(), expected);
            assert_eq!(read_text(&path).unwrap_err().to_string(), expected);
        }
        fs::write(folder.join("file"), "text").unwrap();
        assert_eq!(read_text(&folder.join("file")).unwrap(), "text");
        let (reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"text").unwrap();
        drop(writer);
        let open = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(read_text(Path::new(&open)).unwrap(), "text");
    }
}
