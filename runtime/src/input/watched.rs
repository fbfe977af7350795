//! Files that must not change while they are read.
//!
//! The time of the last change of a file's status (`ctime`) cannot be set by a program, so a change that leaves it as it was
//! has come within the same tick of the file system's clock. A file that has just changed is therefore opened a tick later.
//!
//! Bytes are digested as they are read, and the digest decides where times do not: the bytes are then read again and must have
//! the same digest. A link, `chmod` or a backup changes `ctime` alone, and so does a rewrite whose time is put back. Some file
//! systems, such as those in memory, do not note every change. And a program that has a file mapped may change pages that wait
//! to be written to the disk, of which only the first change has a time: a file younger than a minute is read again too.
//!
//! A new time of the content (`mtime`) ends the reading without a comparison. Its writer may be at work, and bytes that it has
//! not reached yet would compare as equal.

use std::cell::{Cell, RefCell};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::digest::{BLOCK_BYTES, digest_bytes};
use super::file_system::FileSystem;
use super::open_file;
use crate::watch::note_progress;

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

    /// Returns `true` if neither the length nor the time of the content differs.
    fn has_content_time_of(&self, other: &Self) -> bool {
        (self.len, self.modified) == (other.len, other.modified)
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
        let now_s = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64());
        let changed_s = self.changed.0 as f64 + 1e-9 * self.changed.1 as f64;
        now_s - changed_s < age.as_secs_f64()
    }
}

/// A file that is open, with its state and the digest of all bytes that were read.
#[derive(Debug)]
pub struct WatchedFile {
    file: File,
    device: u64,
    file_system: FileSystem,
    /// State before the first byte was read, or when what was read was last compared.
    state: Cell<FileVersion>,
    seen: RefCell<SeenBytes>,
    /// `true` if times may not tell of every change.
    is_doubtful: bool,
}

/// The places and the digest of bytes that were read.
#[derive(Debug, Default)]
struct SeenBytes {
    ranges: Vec<(u64, usize)>,
    digest: u64,
}

impl SeenBytes {
    fn add(&mut self, at: u64, bytes: &[u8]) {
        self.digest = self.digest.wrapping_add(digest_bytes(at, bytes));
        match self.ranges.last_mut() {
            // Only a range of whole blocks goes on: the digest counts blocks from its first byte.
            Some((first, len)) if *first + *len as u64 == at && *len % BLOCK_BYTES == 0 => {
                *len += bytes.len();
            }
            _ => self.ranges.push((at, bytes.len())),
        }
    }
}

impl WatchedFile {
    /// Opens a file to be read. A file that has just changed is opened a tick of its clock later.
    ///
    /// # Errors
    /// As [`open_file`], and fails for a file that goes on changing.
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
            state: Cell::new(state),
            seen: RefCell::default(),
            is_doubtful,
        })
    }

    /// Takes a file that only this job knows and writes: its times tell nothing.
    ///
    /// # Errors
    /// Fails if the system does not tell the state of the file.
    pub(crate) fn of_writer(file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            file_system: FileSystem::of(&file),
            state: Cell::new(FileVersion::from(&metadata)),
            seen: RefCell::default(),
            is_doubtful: false,
            file,
        })
    }

    /// Returns the number of bytes.
    #[allow(clippy::len_without_is_empty, reason = "files are rarely asked whether they are empty")]
    pub fn len(&self) -> u64 {
        self.state.get().len
    }

    pub(super) fn device(&self) -> u64 {
        self.device
    }

    pub(super) fn file_system(&self) -> FileSystem {
        self.file_system
    }

    pub(super) fn state(&self) -> FileVersion {
        self.state.get()
    }

    /// Returns the digest of all bytes that were read so far. Each read adds to it modulo 2⁶⁴.
    pub(super) fn digest(&self) -> u64 {
        self.seen.borrow().digest
    }

    /// Reads some of the bytes from byte `at` on, and returns their number.
    ///
    /// # Errors
    /// Fails if the system cannot read the file.
    pub fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let read = self.file.read_at(bytes, at)?;
        self.note(&bytes[..read], at);
        Ok(read)
    }

    /// Reads all of the bytes from byte `at` on.
    ///
    /// # Errors
    /// Fails if the system cannot read the file, or the file ends before.
    pub fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)?;
        self.note(bytes, at);
        Ok(())
    }

    fn note(&self, bytes: &[u8], at: u64) {
        #[cfg(test)]
        crate::fault::injected::pass_read();
        note_progress();
        self.seen.borrow_mut().add(at, bytes);
    }

    /// Checks that what was read is still the content of the file, as far as its length and times tell.
    ///
    /// # Errors
    /// Fails if the content has changed, the file goes on changing, or the system cannot read it.
    pub fn check(&self) -> io::Result<()> {
        if look(&self.file)? == self.state.get() { Ok(()) } else { self.compare() }
    }

    /// Checks that what was read is still the content of the file. It is read again if times may not tell of every change.
    /// All readers of one file do so after the last of them has read.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_content(&self) -> io::Result<()> {
        if self.is_doubtful { self.compare() } else { self.check() }
    }

    /// Reads again what was read, and compares. The state of the file is then that of the comparison.
    fn compare(&self) -> io::Result<()> {
        for _ in 0..TICKS {
            let state = settle(&self.file, self.file_system)?;
            if !state.has_content_time_of(&self.state.get())
                || self.digest_again()? != self.digest()
            {
                return Err(changed());
            }
            // Else a change during the comparison is compared too.
            if look(&self.file)? == state {
                self.state.set(state);
                return Ok(());
            }
        }
        Err(restless())
    }

    /// Returns the digest of what was read, as the file holds it now.
    fn digest_again(&self) -> io::Result<u64> {
        let mut bytes = vec![0; PIECE_BYTES];
        let mut digest = 0u64;
        for &(first, len) in &self.seen.borrow().ranges {
            for at in (0..len).step_by(PIECE_BYTES) {
                let piece = &mut bytes[..PIECE_BYTES.min(len - at)];
                let at = first + at as u64;
                self.file.read_exact_at(piece, at).map_err(blame_change)?;
                digest = digest.wrapping_add(digest_bytes(at, piece));
                note_progress();
            }
        }
        Ok(digest)
    }
}

/// Returns the state of a file once a later change would change it.
fn settle(file: &File, file_system: FileSystem) -> io::Result<FileVersion> {
    let skew = if file_system.is_shared() { SKEW } else { Duration::ZERO };
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
    Err(restless())
}

/// Looks at a file. Opening it again asks the server of a network file system, whose last answer may be some seconds old.
fn look(file: &File) -> io::Result<FileVersion> {
    let metadata = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .as_ref()
        .unwrap_or(file)
        .metadata()?;
    Ok(FileVersion::from(&metadata))
}

fn restless() -> io::Error {
    io::Error::other("goes on changing: wait until its writer is done")
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
    use std::os::unix::fs::PermissionsExt;

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    use super::*;

    /// Overwrites the first byte of a file, and puts its time of change back.
    fn rewrite(path: &Path, byte: u8) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        file.write_all_at(&[byte], 0).unwrap();
        file.set_modified(modified).unwrap();
    }

    /// Opens a file, and reads it.
    fn open_and_read(path: &Path) -> WatchedFile {
        let watched = WatchedFile::open(path).unwrap();
        let mut bytes = vec![0; watched.len() as usize];
        watched.read_exact_at(&mut bytes, 0).unwrap();
        watched
    }

    fn assert_changed(watched: &WatchedFile, what: &str) {
        for told in [watched.check(), watched.check_content()] {
            let told = told.unwrap_err().to_string();
            assert!(told.contains("changed while it was read"), "{what}: {told}");
        }
    }

    #[test]
    fn a_change_at_once_shows_although_its_time_is_put_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for byte in 0..20 {
            fs::write(file.path(), [byte; 100]).unwrap();
            let watched = open_and_read(file.path());
            watched.check().unwrap();
            rewrite(file.path(), byte + 1);
            assert_changed(&watched, "rewritten");
        }
    }

    #[test]
    fn a_file_that_was_cut_or_written_again_has_changed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for after in ["con", "another"] {
            fs::write(file.path(), "content").unwrap();
            let watched = open_and_read(file.path());
            fs::write(file.path(), after).unwrap();
            assert_changed(&watched, after);
        }
    }

    #[test]
    fn a_file_with_another_name_owner_or_mode_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let [path, link, other] = ["file", "link", "other"].map(|name| folder.path().join(name));
        let changes: [&dyn Fn(); 5] = [
            &|| fs::hard_link(&path, &link).unwrap(),
            &|| fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap(),
            &|| fs::remove_file(&link).unwrap(),
            // The file that is open is the old one, whole.
            &|| fs::rename(&other, &path).unwrap(),
            &|| fs::remove_file(&path).unwrap(),
        ];
        fs::write(&other, "another").unwrap();
        for (number, change) in changes.iter().enumerate() {
            if number != 2 {
                fs::write(&path, "content").unwrap();
            }
            let watched = open_and_read(&path);
            let before = look(&watched.file).unwrap();
            change();
            assert_ne!(look(&watched.file).unwrap(), before, "change {number}");
            watched.check().unwrap();
            watched.check_content().unwrap();
            watched.file.read_exact_at(&mut [0; 7], 0).unwrap();
        }
    }

    #[test]
    fn a_rewrite_after_a_harmless_change_shows() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [1; 1003]).unwrap();
        let watched = WatchedFile::open(file.path()).unwrap();
        for (at, len) in [(0, 128), (128, 37), (165, 100), (400, 437)] {
            watched.read_exact_at(&mut vec![0; len], at).unwrap();
        }
        fs::set_permissions(file.path(), PermissionsExt::from_mode(0o640)).unwrap();
        watched.check().unwrap();
        rewrite(file.path(), 2);
        assert_changed(&watched, "rewritten");
    }

    /// A file that is mapped to memory, with a change of its last byte that waits to be written to the disk.
    struct MappedFile {
        start: *mut u8,
        len: usize,
    }

    #[allow(unsafe_code, reason = "only a mapping changes a file without its times")]
    impl MappedFile {
        fn new(path: &Path, len: usize) -> Self {
            let (flags, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            let file = OpenOptions::new().read(true).write(true).open(path);
            // SAFETY: a new mapping overlaps no memory in use.
            let start = unsafe { mmap(std::ptr::null_mut(), len, flags, kind, file.unwrap(), 0) };
            let mapped = Self { start: start.unwrap().cast(), len };
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
        for folder in
            [std::env::temp_dir(), "/dev/shm".into()].into_iter().filter(|folder| folder.exists())
        {
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
            assert!(told.contains("changed while it was read"), "{folder:?}: {told}");
        }
    }
}
