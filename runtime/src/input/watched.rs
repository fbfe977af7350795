//! Files that must not change while they are read.
//!
//! The time of the last change of a file's status (`ctime`) cannot be set by a program, so a change that leaves it as it was
//! has come within the same tick of the file system's clock. A file that has just changed is therefore opened a tick later.
//! Where times do not tell of every change, what was read is read a second time, and compared. So it is on file systems such as
//! those in memory, and for files that have changed within the last minute: a program that has a file mapped may change pages
//! that wait to be written to the disk, and only the first change of each of them has a time.

use std::cell::RefCell;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::digest::digest_bytes;
use super::file_system::FileSystem;
use super::open_file;

/// Longest tick of the clock by which a Linux kernel notes changes, and that of file systems which keep whole seconds.
const TICK: Duration = Duration::from_millis(20);
const TICK_OF_SECONDS: Duration = Duration::from_secs(2);
/// Largest difference between this host's clock and that of a file server.
const SKEW: Duration = Duration::from_secs(10);
/// Longest time for which a changed page waits to be written to the disk: twice what Linux grants it.
const WRITTEN_AFTER: Duration = Duration::from_secs(60);
/// Number of ticks after which a file that goes on changing is refused.
const TICKS: usize = 5;
/// Bytes that are read again at a time: they stay in a core's cache.
const PIECE_BYTES: usize = 256 << 10;

/// The facts that tell a file with its content from any other one on the same device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileVersion {
    inode: u64,
    len: u64,
    /// Times of the last change of content and status: seconds since 1970, and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl From<&Metadata> for FileVersion {
    fn from(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl FileVersion {
    pub(super) fn inode(&self) -> u64 {
        self.inode
    }

    /// Returns the tick of the clock that gave the times.
    fn tick(&self) -> Duration {
        match (self.modified.1, self.changed.1) {
            (0, 0) => TICK_OF_SECONDS,
            _ => TICK,
        }
    }

    /// Returns `true` if the last change is younger than `age`, or in the future.
    fn is_younger(&self, age: Duration) -> bool {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now_s = now.map_or(0.0, |since| since.as_secs_f64());
        let changed_s = self.changed.0 as f64 + 1e-9 * self.changed.1 as f64;
        now_s - changed_s < age.as_secs_f64()
    }
}

/// A file that is open, with its state before the first byte was read.
#[derive(Debug)]
pub struct WatchedFile {
    file: File,
    device: u64,
    file_system: FileSystem,
    state: FileVersion,
    /// What was read, if times do not tell of every change.
    seen: Option<RefCell<SeenBytes>>,
}

/// The places and the digest of bytes that were read.
#[derive(Debug, Default)]
struct SeenBytes {
    ranges: Vec<(u64, usize)>,
    digest: u64,
}

impl WatchedFile {
    /// Opens a file to be read. A file that has just changed is opened a tick of its clock later.
    ///
    /// # Errors
    /// Those of [`open_file`], and one for a file that does not cease to change.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open_file(path)?;
        let file_system = FileSystem::of(&file);
        let state = settle(&file, file_system)?;
        let device = file.metadata()?.dev();
        let is_doubtful = !file_system.notes_changes() || state.is_younger(WRITTEN_AFTER);
        Ok(Self {
            file,
            device,
            file_system,
            state,
            seen: is_doubtful.then(RefCell::default),
        })
    }

    /// Takes a file that only this job knows and writes: its times tell nothing.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn of_writer(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            file_system: FileSystem::of(&file),
            state: FileVersion::from(&metadata),
            seen: None,
            file,
        })
    }

    /// Returns the number of bytes.
    #[allow(
        clippy::len_without_is_empty,
        reason = "files are rarely asked whether they are empty"
    )]
    pub fn len(&self) -> u64 {
        self.state.len
    }

    pub(super) fn device(&self) -> u64 {
        self.device
    }

    pub(super) fn file_system(&self) -> FileSystem {
        self.file_system
    }

    pub(super) fn state(&self) -> FileVersion {
        self.state
    }

    /// Reads some of the bytes from byte `at` on, and returns their number.
    ///
    /// # Errors
    /// Those of the system.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let read = self.file.read_at(bytes, at)?;
        self.note(&bytes[..read], at);
        Ok(read)
    }

    /// Reads all of the bytes from byte `at` on.
    ///
    /// # Errors
    /// Those of the system, and one for a file that ends before.
    pub fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)?;
        self.note(bytes, at);
        Ok(())
    }

    fn note(&self, bytes: &[u8], at: u64) {
        #[cfg(test)]
        crate::fault::injected::pass_read();
        if let Some(seen) = &self.seen {
            let mut seen = seen.borrow_mut();
            seen.ranges.push((at, bytes.len()));
            seen.digest = seen.digest.wrapping_add(digest_bytes(at, bytes));
        }
    }

    /// Checks that the file is as it was when it was opened, as far as its length and times tell.
    ///
    /// # Errors
    /// Those of the system, and one for a file that has changed.
    pub fn check(&self) -> io::Result<()> {
        match look(&self.file)? == self.state {
            true => Ok(()),
            false => Err(changed()),
        }
    }

    /// Checks that the file is as it was when it was opened. What was read is read again if times may not tell of every
    /// change. All readers of one file do so after the last of them has read.
    ///
    /// # Errors
    /// Those of the system, and one for a file that has changed.
    pub fn check_content(&self) -> io::Result<()> {
        self.check()?;
        let Some(seen) = &self.seen else {
            return Ok(());
        };
        let seen = seen.borrow();
        let mut bytes = vec![0; PIECE_BYTES];
        let mut digest = 0u64;
        for &(first, len) in &seen.ranges {
            for at in (0..len).step_by(PIECE_BYTES) {
                let piece = &mut bytes[..PIECE_BYTES.min(len - at)];
                let at = first + at as u64;
                self.file.read_exact_at(piece, at).map_err(blame_change)?;
                digest = digest.wrapping_add(digest_bytes(at, piece));
            }
        }
        match digest == seen.digest {
            true => Ok(()),
            false => Err(changed()),
        }
    }
}

/// Returns the state of a file once a later change would change it.
fn settle(file: &File, file_system: FileSystem) -> io::Result<FileVersion> {
    let skew = match file_system.is_shared() {
        true => SKEW,
        false => Duration::ZERO,
    };
    let mut state = look(file)?;
    for _ in 0..TICKS {
        if !state.is_younger(state.tick() + skew) {
            return Ok(state);
        }
        sleep(state.tick());
        let before = std::mem::replace(&mut state, look(file)?);
        if state == before {
            return Ok(state);
        }
    }
    Err(io::Error::other(
        "goes on changing: wait until its writer is done",
    ))
}

/// Looks at a file. Opening it again asks the server of a network file system, whose last answer may be some seconds old.
fn look(file: &File) -> io::Result<FileVersion> {
    let again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let metadata = again.as_ref().unwrap_or(file).metadata()?;
    Ok(FileVersion::from(&metadata))
}

fn changed() -> io::Error {
    io::Error::other(
        "changed while it was read: write a new version under another name, and rename it between runs",
    )
}

/// Names the reason why a file ends before bytes that were read from it.
fn blame_change(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => changed(),
        _ => error,
    }
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
    use std::fs::{self, OpenOptions};

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    /// Overwrites the first byte of a file, and puts its time of change back.
    fn rewrite(path: &Path, byte: u8) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(&[byte], 0).unwrap();
        file.set_modified(modified).unwrap();
    }

    #[test]
    fn a_change_at_once_shows_although_its_time_is_put_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for byte in 0..20 {
            fs::write(file.path(), [byte; 100]).unwrap();
            let watched = WatchedFile::open(file.path()).unwrap();
            watched.check().unwrap();
            rewrite(file.path(), byte + 1);
            let told = watched.check_content().unwrap_err().to_string();
            assert!(told.contains("changed while it was read"), "{told}");
        }
    }

    #[test]
    fn a_file_that_was_replaced_or_cut_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["file", "other"].map(|name| folder.path().join(name));
        let changes: [&dyn Fn(); 3] = [
            &|| fs::rename(&other, &path).unwrap(),
            &|| fs::remove_file(&path).unwrap(),
            &|| fs::write(&path, "con").unwrap(),
        ];
        for change in changes {
            fs::write(&path, "content").unwrap();
            fs::write(&other, "content").unwrap();
            let watched = WatchedFile::open(&path).unwrap();
            change();
            assert!(watched.check().is_err());
        }
    }

    /// A file that is mapped to memory, with a change of its last byte that waits to be written to the disk.
    struct MappedFile {
        start: *mut u8,
        len: usize,
    }

    #[allow(
        unsafe_code,
        reason = "only a mapping changes a file without its times"
    )]
    impl MappedFile {
        fn new(path: &Path, len: usize) -> Self {
            let (flags, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            let file = OpenOptions::new().read(true).write(true).open(path);
            // SAFETY: a new mapping overlaps no memory in use.
            let start = unsafe { mmap(std::ptr::null_mut(), len, flags, kind, file.unwrap(), 0) };
            let mapped = Self {
                start: start.unwrap().cast(),
                len,
            };
            mapped.write(7);
            mapped
        }

        fn write(&self, byte: u8) {
            // SAFETY: the byte lies within the mapping, and no reference to it exists.
            unsafe { self.start.add(self.len - 1).write_volatile(byte) }
        }
    }

    #[allow(unsafe_code, reason = "as above")]
    impl Drop for MappedFile {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours, and nothing points there.
            let _ = unsafe { munmap(self.start.cast(), self.len) };
        }
    }

    #[test]
    fn a_change_through_a_mapping_shows_although_it_has_no_time() {
        let folders = [std::env::temp_dir(), "/dev/shm".into()].into_iter();
        for folder in folders.filter(|folder| folder.exists()) {
            let file = tempfile::NamedTempFile::new_in(&folder).unwrap();
            let len = PIECE_BYTES + 1003;
            fs::write(file.path(), vec![7; len]).unwrap();
            let mapped = MappedFile::new(file.path(), len);
            let watched = Rc::new(WatchedFile::open(file.path()).unwrap());
            let mut reader = FileReader::from(Rc::clone(&watched));
            reader.read_to_end(&mut Vec::new()).unwrap();
            watched.check_content().unwrap();
            mapped.write(8);
            let told = watched.check_content().unwrap_err().to_string();
            assert!(
                told.contains("changed while it was read"),
                "{folder:?}: {told}"
            );
        }
    }
}
