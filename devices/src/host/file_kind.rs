//! What a path stands for. Only files are opened: a named pipe would wait for its writer, and a device may never end.

use std::fs::{self, FileType};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Names what is no file.
pub fn describe_kind(kind: FileType) -> Option<&'static str> {
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

/// Refuses anything but a file, before it is loaded as a library. What is not there is left to the loader.
///
/// # Errors
/// Returns the kind of anything but a file.
pub(crate) fn check_kind(path: &Path) -> Result<(), String> {
    let kind = fs::metadata(path).ok().map(|found| found.file_type());
    match kind.and_then(describe_kind) {
        Some(kind) => Err(format!("it is {kind}, not a file")),
        None => Ok(()),
    }
}
