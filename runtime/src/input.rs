//! Input files. Anything else is refused at once: opening a named pipe would wait for its writer.

use std::fs::{self, File, FileType};
use std::io::{self, BufReader};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use crate::output::{follow_links, stands_for_open_file};

/// Opens a file to be read.
///
/// # Errors
/// Those of the system, and one that names what `path` is if it is no file.
pub fn open_file(path: &Path) -> io::Result<File> {
    match describe_kind(fs::metadata(path)?.file_type()) {
        None => File::open(path),
        Some(kind) => Err(io::Error::other(format!("is {kind}, not a file"))),
    }
}

/// Reads a text: a file, or an open stream such as `/dev/stdin`.
///
/// # Errors
/// As [`open_file`], and for bytes that are no UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    io::read_to_string(open_text(path)?)
}

/// Opens a text: a file, or an open stream such as `/dev/stdin`.
///
/// # Errors
/// As [`open_file`].
pub fn open_text(path: &Path) -> io::Result<BufReader<File>> {
    let file = match stands_for_open_file(&follow_links(path)?) {
        true => File::open(path),
        false => open_file(path),
    };
    Ok(BufReader::new(file?))
}

fn describe_kind(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a folder")
    } else if kind.is_fifo() {
        Some("a named pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_named_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let made = std::process::Command::new("mkfifo")
            .arg(folder.join("pipe"))
            .status();
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
