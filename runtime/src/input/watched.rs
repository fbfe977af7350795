//! Files that must not change while they are read: length and time of the last change are looked at again afterwards.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::rc::Rc;

use super::open_file;
use crate::watch::note_progress;

/// Length and time of the last change of the content: seconds since 1970, and nanoseconds.
type FileVersion = (u64, i64, i64);

/// A file that is open, with its version before the first byte was read.
#[derive(Debug)]
pub struct WatchedFile {
    file: File,
    version: FileVersion,
}

impl WatchedFile {
    /// Opens a file to be read.
    ///
    /// # Errors
    /// Fails as [`open_file`].
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(open_file(path)?)
    }

    /// Takes a file that is open.
    ///
    /// # Errors
    /// Fails if the system does not tell the state of the file.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let version = find_version(&file.metadata()?);
        Ok(Self { file, version })
    }

    /// Returns the number of bytes.
    #[allow(clippy::len_without_is_empty, reason = "files are rarely asked whether they are empty")]
    pub fn len(&self) -> u64 {
        self.version.0
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Reads some of the bytes from byte `at` on, and returns their number.
    ///
    /// # Errors
    /// Fails if the system cannot read the file.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let read = self.file.read_at(bytes, at)?;
        note_read();
        Ok(read)
    }

    /// Reads all of the bytes from byte `at` on.
    ///
    /// # Errors
    /// Fails if the system cannot read the file, or the file ends before.
    pub fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)?;
        note_read();
        Ok(())
    }

    /// Checks that the content of the file is still the one that was read, as far as its length and time tell.
    ///
    /// # Errors
    /// Fails if the content has changed, or the system does not tell.
    pub fn check(&self) -> io::Result<()> {
        // Opening it again asks the server of a network file system, whose last answer may be some seconds old.
        let again = File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let metadata = again.as_ref().unwrap_or(&self.file).metadata()?;
        if find_version(&metadata) == self.version {
            return Ok(());
        }
        Err(io::Error::other(
            "changed while it was read: write a new version under another name, and rename it between runs",
        ))
    }
}

fn find_version(metadata: &Metadata) -> FileVersion {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

fn note_read() {
    #[cfg(test)]
    crate::fault::injected::pass_read();
    note_progress();
}

/// Reads a watched file from front to back.
#[derive(Debug)]
pub struct FileReader {
    file: Rc<WatchedFile>,
    at: u64,
}

impl From<Rc<WatchedFile>> for FileReader {
    fn from(file: Rc<WatchedFile>) -> Self {
        Self { file, at: 0 }
    }
}

impl Read for FileReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_was_cut_or_written_again_has_changed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for after in ["con", "another"] {
            fs::write(file.path(), "content").unwrap();
            let watched = WatchedFile::open(file.path()).unwrap();
            fs::write(file.path(), after).unwrap();
            // The clock of the file system may not have gone on.
            let later = watched.file.metadata().unwrap().modified().unwrap();
            file.as_file().set_modified(later + std::time::Duration::from_secs(1)).unwrap();
            let told = watched.check().unwrap_err().to_string();
            assert!(told.contains("changed while it was read"), "{after}: {told}");
        }
    }

    #[test]
    fn a_file_with_another_name_or_mode_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link, other] = ["file", "link", "other"].map(|name| folder.path().join(name));
        fs::write(&path, "content").unwrap();
        fs::write(&other, "another").unwrap();
        let watched = WatchedFile::open(&path).unwrap();
        fs::hard_link(&path, &link).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        watched.check().unwrap();
        // The file that is open is the old one, whole.
        fs::rename(&other, &path).unwrap();
        fs::remove_file(&link).unwrap();
        watched.check().unwrap();
        watched.read_exact_at(&mut [0; 7], 0).unwrap();
    }
}
