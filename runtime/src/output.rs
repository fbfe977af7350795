//! Files that carry their final name only once they are complete.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A file being written under a temporary name beside its final one (`.NAME.partial-PID`). It is removed unless it
/// is published; only a process that is killed leaves it behind.
#[derive(Debug)]
pub struct PartialFile {
    path: PathBuf,
    partial: PathBuf,
    file: File,
}

impl PartialFile {
    /// Creates the file under its temporary name.
    ///
    /// # Errors
    /// [`Error::File`] when `path` cannot be a file or its folder cannot be written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name
            .filter(|_| !path.is_dir())
            .ok_or_else(|| Error::file(path, "is no name for a file"))?;
        let partial = path.with_file_name(format!(".{name}.partial-{}", std::process::id()));
        let file = File::create(&partial).map_err(|error| Error::file(path, error))?;
        Ok(Self {
            path: path.to_path_buf(),
            partial,
            file,
        })
    }

    /// The file, to be written.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Brings everything to the disk and gives the file its name, replacing what had it before.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub fn publish(self) -> Result<(), Error> {
        let renamed = self
            .file
            .sync_all()
            .and_then(|()| std::fs::rename(&self.partial, &self.path));
        renamed.map_err(|error| Error::output(&self.path, error))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After `publish` there is nothing under this name; before it, nothing that anyone wants.
        let _ = std::fs::remove_file(&self.partial);
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
}
