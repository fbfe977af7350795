//! Files that carry their final name only once they are complete.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A file being written under a temporary name in the folder of its final one (`.NAME.partial-PID-TOKEN`, the token a random
/// number). It is removed unless it is published; only a process that is killed leaves it behind.
///
/// Symbolic links stay: the file that they lead to is replaced. A pipe or a terminal cannot be replaced; its bytes are
/// written directly.
#[derive(Debug)]
pub struct PartialFile {
    /// Name that the user gave.
    path: PathBuf,
    /// `None` for a pipe or a file that is open already.
    names: Option<FileNames>,
    file: File,
}

/// Names of a file before and after it is published.
#[derive(Debug)]
struct FileNames {
    partial: PathBuf,
    end: PathBuf,
}

impl PartialFile {
    /// Creates the file under its temporary name. A named pipe is opened, which waits for its reader.
    ///
    /// # Errors
    /// [`Error::File`] when `path` cannot be a file or its folder cannot be written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let names = FileNames::choose(path)?;
        let file = match &names {
            Some(names) => File::create(&names.partial),
            // The content of a file that is open already, such as standard output, is not overwritten.
            None => OpenOptions::new().append(true).open(path),
        };
        Ok(Self {
            path: path.to_path_buf(),
            names,
            file: file.map_err(|error| Error::file(path, error))?,
        })
    }

    /// Checks that the file can be created, and leaves nothing behind. A pipe is not opened: its reader would take that for
    /// the whole content.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn check(path: &Path) -> Result<(), Error> {
        match FileNames::choose(path)? {
            None => Ok(()),
            Some(_) => Self::create(path).map(drop),
        }
    }

    /// Returns the temporary name, which no other file has; `None` if bytes go directly to the destination.
    pub fn partial_path(&self) -> Option<&Path> {
        self.names.as_ref().map(|names| names.partial.as_path())
    }

    /// Returns the file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Writes everything to the disk and gives the file its name; an older file of that name is replaced.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn publish(self) -> Result<(), Error> {
        // Pipes and terminals have nothing to write to a disk.
        let Some(FileNames { partial, end }) = &self.names else {
            return Ok(());
        };
        let synced = self.file.sync_all();
        let renamed = synced.and_then(|()| std::fs::rename(partial, end));
        renamed.map_err(|error| Error::output(&self.path, error))
    }
}

impl FileNames {
    /// Chooses the names for a file at `path`; `None` if the bytes go there directly.
    fn choose(path: &Path) -> Result<Option<Self>, Error> {
        if let Ok(there) = std::fs::metadata(path).map(|metadata| metadata.file_type()) {
            if there.is_dir() {
                return Err(Error::file(path, "is a folder, and no name for a file"));
            }
            if there.is_block_device() || there.is_socket() {
                let reason = "is a device or a socket, which no file is written into";
                return Err(Error::file(path, reason));
            }
            if !there.is_file() {
                return Ok(None);
            }
        }
        let end = follow_links(path).map_err(|error| Error::file(path, error))?;
        if end.starts_with("/proc") {
            return Ok(None);
        }
        let Some(name) = end.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::file(path, "is no name for a file"));
        };
        // Processes of other hosts may have the same number and write in the same folder.
        // The token comes from the random keys of the standard library's hash tables.
        let (pid, token) = (std::process::id(), RandomState::new().hash_one(()));
        let partial = end.with_file_name(format!(".{name}.partial-{pid}-{token:016x}"));
        Ok(Some(Self { partial, end }))
    }
}

/// Follows the symbolic links at `path` to their end, where there need not be a file. A link in `/proc`, which stands for an
/// open file, is not followed.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    // The number that the system follows.
    const LINKS: u32 = 40;
    let mut end = path.to_path_buf();
    for _ in 0..LINKS {
        if end.starts_with("/proc") {
            return Ok(end);
        }
        match std::fs::read_link(&end) {
            // A relative link starts from its folder; an absolute one replaces the whole path.
            Ok(link) => end = end.parent().unwrap_or(Path::new("")).join(link),
            Err(_) => return Ok(end),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Some(names) = &self.names {
            // After `publish` there is no file of this name; before it, the file is incomplete.
            let _ = std::fs::remove_file(&names.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_has_its_name_only_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let mut abandoned = PartialFile::create(&path).unwrap();
        abandoned.file().write_all(b"half").unwrap();
        drop(abandoned);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut complete = PartialFile::create(&path).unwrap();
        complete.file().write_all(b"whole").unwrap();
        assert!(!path.exists());
        complete.publish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(PartialFile::create(folder.path()).is_err());
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("inner")).unwrap();
        std::fs::write(at("inner/old"), b"old").unwrap();
        std::os::unix::fs::symlink("inner/old", at("one")).unwrap();
        std::os::unix::fs::symlink(at("one"), at("two")).unwrap();
        std::os::unix::fs::symlink("inner/new", at("dangling")).unwrap();
        for (link, end) in [("two", "inner/old"), ("dangling", "inner/new")] {
            let mut file = PartialFile::create(&at(link)).unwrap();
            file.file().write_all(b"whole").unwrap();
            file.publish().unwrap();
            assert_eq!(std::fs::read(at(end)).unwrap(), b"whole");
            assert!(at(link).is_symlink() && !at(end).is_symlink(), "{link}");
        }
        assert_eq!(std::fs::read_dir(at("inner")).unwrap().count(), 2);
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        assert!(PartialFile::create(&at("loop")).is_err());
    }

    #[test]
    fn a_pipe_is_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe.npy");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        // Checking opens nothing: without a reader that would never end.
        PartialFile::check(&path).unwrap();
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| std::fs::read(&path));
            let mut file = PartialFile::create(&path).unwrap();
            file.file().write_all(b"whole").unwrap();
            file.publish().unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), b"whole");
        });
        let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
        assert!(kind.is_fifo());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_socket_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        for outcome in [
            PartialFile::create(&path).map(drop),
            PartialFile::check(&path),
        ] {
            assert!(matches!(outcome, Err(Error::File { .. })), "{outcome:?}");
        }
    }
}
