//! The folder of a store: segments that are written once and never changed.

use isochron_hierarchy::printable::show_path;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::segment::{
    SegmentError, SegmentFile, StoredRun, VERSION, format_segment, parse_segment,
};
use crate::error::Error;
use crate::fault::pass_stage;
use crate::input::open_file;
use crate::output::{PartialFile, choose_token};

/// Ends of the names of segments, and of those that were set aside because they are broken.
const SEGMENT: &str = "segment";
const SET_ASIDE: &str = "broken";

/// Larger segments are not read: no job writes them.
const LARGEST_BYTES: u64 = 256 << 20;
/// Number of attempts to list a folder that changes meanwhile.
const LISTINGS: usize = 8;

/// A folder with segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFolder {
    root: PathBuf,
    may_write: bool,
}

/// A segment as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundSegment {
    /// The file.
    pub path: PathBuf,
    /// Its runs, or the reason why they are not read.
    pub runs: Result<Vec<StoredRun>, String>,
    /// `true` if it is broken for good.
    pub is_corrupt: bool,
    /// The file that was read; `None` if it could not be opened.
    file: Option<SegmentIdentity>,
}

/// The facts that tell a file from another one that takes its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SegmentIdentity {
    device: u64,
    inode: u64,
    /// The moment of its last change: seconds since 1970, and nanoseconds.
    changed: (i64, i64),
    bytes: u64,
}

impl SegmentIdentity {
    fn new(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
        }
    }
}

impl StoreFolder {
    /// A store below `root`, which need not exist yet. One that may not be written is left as it is in every respect.
    pub fn new(root: PathBuf, may_write: bool) -> Self {
        Self { root, may_write }
    }

    /// The folder as the user named it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of the segments.
    fn place_segments(&self) -> PathBuf {
        self.root.join(format!("v{VERSION}"))
    }

    /// Lists the files in the folder of the segments, in the order of their names.
    fn list_files(&self) -> io::Result<Vec<PathBuf>> {
        let mut paths = list_folder(&self.place_segments())?;
        paths.sort();
        Ok(paths)
    }

    /// Reads every segment, in the order of their names. Appends unusual findings to `words`, one line each.
    ///
    /// A broken segment is set aside under another name, so that one job alone reports it. Its content stays.
    pub fn read_all(&self, words: &mut Vec<String>) -> Vec<FoundSegment> {
        words.extend(self.name_newer());
        let found = match self.find_all() {
            Ok(found) => found,
            Err(error) => {
                words.push(format!("models in {} are not read: {error}", show_path(&self.root)));
                Vec::new()
            }
        };
        for segment in found.iter() {
            if let Err(reason) = &segment.runs {
                let aside = segment.is_corrupt && self.set_aside(&segment.path).is_ok();
                let fate = if aside { "is set aside" } else { "is not read" };
                words.push(format!("{} {fate}: {reason}", show_path(&segment.path)));
            }
        }
        found
    }

    /// Reads every segment, and changes nothing.
    ///
    /// # Errors
    /// Returns the errors of the system for the folder itself; one that is missing is empty.
    pub fn find_all(&self) -> io::Result<Vec<FoundSegment>> {
        read_listed(|| {
            let mut paths = self.list_files()?;
            paths.retain(|path| path.extension().is_some_and(|end| end == SEGMENT));
            Ok(paths)
        })
    }

    /// Lists all other files: segments that were set aside, and leftovers of killed writers.
    ///
    /// # Errors
    /// Returns the errors of the system for the folder.
    pub fn find_leftovers(&self) -> io::Result<Vec<PathBuf>> {
        let mut paths = self.list_files()?;
        paths.retain(|path| path.extension().is_none_or(|end| end != SEGMENT));
        Ok(paths)
    }

    /// Returns `true` for a segment that was set aside because it is broken.
    pub fn is_set_aside(path: &Path) -> bool {
        path.extension().is_some_and(|end| end == SET_ASIDE)
    }

    /// Names the folders of newer versions, which are not read, in one line each.
    pub fn name_newer(&self) -> Vec<String> {
        let mut paths = list_folder(&self.root).unwrap_or_default();
        paths.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            let version = name.and_then(|name| name.strip_prefix('v')?.parse::<u32>().ok());
            version.is_some_and(|version| version > VERSION)
        });
        paths.sort();
        paths
            .iter()
            .map(|path| {
                let path = show_path(path);
                format!("{path} is of a newer version of isochron and is not read")
            })
            .collect()
    }

    fn set_aside(&self, path: &Path) -> io::Result<()> {
        if !self.may_write {
            return Err(ErrorKind::ReadOnlyFilesystem.into());
        }
        pass_stage("set aside")?;
        fs::rename(path, path.with_extension(SET_ASIDE))
    }

    /// Writes runs as the segment of a writer, with a name that no other job takes. It has this name only once all of it is
    /// on the disk. An earlier segment of this writer is replaced. Returns its path.
    ///
    /// # Errors
    /// Returns [`Error::Output`], [`Error::File`] or [`Error::Space`]; then there is no such segment.
    pub fn write(&self, writer: &str, runs: &[StoredRun]) -> Result<PathBuf, Error> {
        self.write_segment(&self.make_segment(writer, runs)?)
    }

    /// Makes the segment of a writer.
    ///
    /// # Errors
    /// Returns [`Error::Output`] for runs that have no text, or more than a segment may have.
    pub(super) fn make_segment(
        &self,
        writer: &str,
        runs: &[StoredRun],
    ) -> Result<SegmentFile, Error> {
        let name = format!("{writer}.{SEGMENT}");
        let text = format_segment(runs).map_err(io::Error::from);
        let text = text.map_err(|error| Error::output(self.place_file(&name), error))?;
        if text.len() as u64 > LARGEST_BYTES {
            let reason = format!(
                "it would have {} bytes, and no segment of more than {LARGEST_BYTES} is read",
                text.len()
            );
            let path = self.place_file(&name);
            return Err(Error::output(path, io::Error::other(reason)));
        }
        Ok(SegmentFile { name, text })
    }

    /// Writes a segment as [`write`](Self::write) does.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write).
    pub(super) fn write_segment(&self, segment: &SegmentFile) -> Result<PathBuf, Error> {
        let (folder, path) = (self.place_segments(), self.place_file(&segment.name));
        fs::create_dir_all(&folder).map_err(|error| Error::output(&path, error))?;
        write_file(&path, &segment.text)?;
        // The name has to reach the disk too. Not every file system can do that for a folder.
        let _ = File::open(&folder).and_then(|folder| folder.sync_all());
        Ok(path)
    }

    /// Writes a segment that another host of the job has written to its store, unless this store has it. That is so if both
    /// hosts have one folder. A network file system may show the file late: then it is replaced by its like.
    ///
    /// Returns `true` if it was written.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Self::write).
    pub(crate) fn copy_segment(&self, segment: &SegmentFile) -> Result<bool, Error> {
        let found = read_file(&self.place_file(&segment.name), &mut None);
        if found.is_ok_and(|bytes| bytes == segment.text.as_bytes()) {
            return Ok(false);
        }
        self.write_segment(segment).map(|_| true)
    }

    /// Returns the path of a segment.
    fn place_file(&self, name: &str) -> PathBuf {
        self.place_segments().join(name)
    }

    /// Removes a segment, after another one has taken over its runs, unless a job has replaced it since it was read.
    /// Returns `true` if it is gone.
    ///
    /// It is renamed before it is looked at, so that a job may replace it at any moment. A file that was replaced gets
    /// its name back, unless the job has replaced it once more.
    ///
    /// # Errors
    /// Returns [`Error::Output`].
    pub fn remove_found(&self, segment: &FoundSegment) -> Result<bool, Error> {
        let path = &segment.path;
        let fail = |error: io::Error| Error::output(path, error);
        let aside = path.with_extension(format!("removed-{:016x}", choose_token()));
        match fs::rename(path, &aside) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            renamed => renamed.map_err(fail)?,
        }
        let found = fs::symlink_metadata(&aside).map_err(fail)?;
        let is_same = segment.file == Some(SegmentIdentity::new(&found));
        if !is_same {
            match fs::hard_link(&aside, path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    // Not every file system has hard links.
                    return fs::rename(&aside, path).map(|()| false).map_err(fail);
                }
                _ => {}
            }
        }
        fs::remove_file(&aside).map_err(fail)?;
        Ok(is_same)
    }

    /// Removes a leftover.
    ///
    /// # Errors
    /// Returns [`Error::Output`].
    pub fn remove(&self, path: &Path) -> Result<(), Error> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::output(path, error)),
            _ => Ok(()),
        }
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), Error> {
    let fail = |error: io::Error| Error::output(path, error);
    pass_stage("create").map_err(fail)?;
    let mut file = PartialFile::create(path, text.len() as u64)?;
    let (first, second) = text.as_bytes().split_at(text.len() / 2);
    file.write_all(first).map_err(fail)?;
    pass_stage("half").map_err(fail)?;
    file.write_all(second).map_err(fail)?;
    pass_stage("written").map_err(fail)?;
    file.publish()?;
    pass_stage("named").map_err(fail)
}

/// Makes a name for the segments of a job on a host: hosts may share their names, and processes their numbers.
pub fn name_writer(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let host = host.chars().map(|c| if is_plain(c) { c } else { '_' });
    let host: String = host.take(64).collect();
    format!("{host}-{}-{:016x}", std::process::id(), choose_token())
}

/// Lists a folder; one that is missing is empty.
fn list_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(io::Error::other("is not a folder, and a store must be one"))
        }
        Err(error) => Err(error),
    }
}

/// Reads the segments that `list` finds. It is asked again if one has vanished: that may be merged into one that was not
/// there yet.
fn read_listed(
    mut list: impl FnMut() -> io::Result<Vec<PathBuf>>,
) -> io::Result<Vec<FoundSegment>> {
    let mut found = Vec::new();
    for _ in 0..LISTINGS {
        let paths = list()?;
        let listed = paths.len();
        found = paths.into_iter().filter_map(read_segment).collect();
        if found.len() == listed {
            break;
        }
    }
    Ok(found)
}

/// Reads a segment; `None` if it has vanished meanwhile, as when another job has set it aside.
fn read_segment(path: PathBuf) -> Option<FoundSegment> {
    let mut file = None;
    let (runs, is_corrupt) = match read_file(&path, &mut file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => (Err(error.to_string()), false),
        Ok(bytes) => match parse_segment(&bytes) {
            Ok(runs) => (Ok(runs), false),
            Err(error @ (SegmentError::Corrupt(_) | SegmentError::Foreign)) => {
                (Err(error.to_string()), true)
            }
            Err(error) => (Err(error.to_string()), false),
        },
    };
    Some(FoundSegment { path, runs, is_corrupt, file })
}

/// Reads a file, and notes which one it is.
fn read_file(path: &Path, identity: &mut Option<SegmentIdentity>) -> io::Result<Vec<u8>> {
    let mut file = open_file(path)?;
    let metadata = file.metadata()?;
    *identity = Some(SegmentIdentity::new(&metadata));
    let bytes = metadata.len();
    if bytes > LARGEST_BYTES {
        return Err(io::Error::other(format!("it has {bytes} bytes, which no job writes")));
    }
    let mut content = Vec::with_capacity(bytes as usize);
    io::Read::read_to_end(&mut file, &mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests;
