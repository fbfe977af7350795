//! Files that carry their final name only once they are complete.

use isochron_hierarchy::printable::show_path;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, ErrorKind, Seek as _, Write};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use isochron_devices::internal::take_stdout;
use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, fallocate, fstatvfs, linkat};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

use crate::error::Error;
use crate::fault::pass_stage;
use crate::watch::LongCall;

/// Bytes to reserve for a document of unknown length.
pub const DOCUMENT_BYTES: u64 = 16 << 10;

/// Standard output, if it was taken away from libraries and kernels.
static RESULTS: OnceLock<OwnedFd> = OnceLock::new();

/// Keeps standard output for results: what libraries and kernels write to it from now on goes to standard error.
///
/// # Errors
/// Fails if the process has no descriptor left.
pub fn keep_stdout() -> io::Result<()> {
    if RESULTS.get().is_none() {
        // Another thread's is as good.
        let _ = RESULTS.set(take_stdout()?);
    }
    Ok(())
}

/// Opens the standard output of results.
///
/// # Errors
/// Fails if the process has no descriptor left.
pub fn open_stdout() -> io::Result<File> {
    let own = match RESULTS.get() {
        Some(kept) => kept.try_clone(),
        None => io::stdout().as_fd().try_clone_to_owned(),
    };
    own.map(File::from)
}

/// Returns the path by which this process opens a file. Names of standard output, such as `/dev/stdout`, lead to the one of
/// results.
fn find_opened(path: &Path) -> PathBuf {
    const OPEN_FILES: &str = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let lead_to_stdout = || {
        let end = follow_links(path).ok()?;
        let is_open =
            fs::canonicalize(find_folder(&end)).ok()? == fs::canonicalize(OPEN_FILES).ok()?;
        (is_open && end.file_name()? == "1").then_some(())
    };
    match RESULTS.get() {
        Some(kept) if lead_to_stdout().is_some() => {
            Path::new(OPEN_FILES).join(kept.as_raw_fd().to_string())
        }
        _ => path.to_path_buf(),
    }
}

/// A file being written, which gets its name once it is complete.
///
/// Until it is published it has no name, or a temporary one in the folder of its final one (`.NAME.partial-PID-TOKEN`,
/// the token a random number). It is removed unless it is published; only a process that is killed leaves it behind.
///
/// Symbolic links stay: the file that they lead to is replaced. A pipe or a terminal cannot be replaced; its bytes are
/// written directly.
///
/// The file takes over mode, group and owner of the file that it replaces. Only root can give files away: in the place
/// of another user's file comes one of the caller. If the group cannot be kept, the new one gets the rights of all
/// others.
#[derive(Debug)]
pub struct PartialFile {
    /// Name that the user gave.
    path: PathBuf,
    /// Name by which it is opened.
    opened: PathBuf,
    /// `None` for a pipe or a file that is open already.
    names: Option<FileNames>,
    /// `None` until something is written to a pipe.
    file: Option<File>,
    /// Number of bytes written to this value.
    written: u64,
    /// Length of the file if bytes are reserved; the unused ones are given back.
    reserved: u64,
}

/// Names of a file before and after it is published.
#[derive(Debug)]
struct FileNames {
    partial: PathBuf,
    end: PathBuf,
}

impl PartialFile {
    /// Creates the file and reserves `bytes` for it, if its file system can. A pipe is opened by the first write, which
    /// waits for its reader.
    ///
    /// # Errors
    /// Returns [`Error::File`] when `path` cannot be a file, its folder cannot be written, or the limit of the process
    /// or a quota is below `bytes`; [`Error::Space`] when the file system has less space.
    pub fn create(path: &Path, bytes: u64) -> Result<Self, Error> {
        let names = FileNames::choose(path)?;
        let file = names.as_ref().map(|names| {
            names.create_file().map_err(|error| Error::file(path, blame_folder(&names.end, &error)))
        });
        let mut partial = Self {
            path: path.to_path_buf(),
            opened: find_opened(path),
            file: file.transpose()?,
            names,
            written: 0,
            reserved: 0,
        };
        if let Some(names) = &partial.names {
            lock_temporary_names().push(names.partial.clone());
        }
        partial.reserve(bytes)?;
        Ok(partial)
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), Error> {
        let Some(file) = self.file.as_ref().filter(|_| bytes > 0) else {
            return Ok(());
        };
        if bytes > longest_file() {
            let reason = format!("needs {bytes} bytes, more than `ulimit -f` allows");
            return Err(Error::file(&self.path, reason));
        }
        // Asked before: a reservation that fails may keep a part.
        let space = match fstatvfs(file) {
            Ok(space) if space.f_blocks > 0 => space.f_bavail * space.f_frsize,
            // Some file systems do not tell.
            _ => u64::MAX,
        };
        match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, bytes)) {
            Ok(()) => self.reserved = bytes,
            // The file system cannot reserve.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if bytes <= space => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOSPC) => {
                return Err(Error::Space {
                    path: self.path.clone(),
                    needed_bytes: bytes,
                    free_bytes: space,
                });
            }
            Err(error) => {
                let reason = format!("needs {bytes} bytes: {error}");
                return Err(Error::file(&self.path, reason));
            }
        }
        Ok(())
    }

    /// Returns the name that the user gave.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes written to this value.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Gives the file its whole length and a temporary name, which it returns; `None` if the bytes go directly to their
    /// destination, or if that fails.
    pub(crate) fn share(&mut self, len: u64) -> Option<&Path> {
        let (names, file) = (self.names.as_ref()?, self.file.as_ref()?);
        file.set_len(len).and_then(|()| names.link(file)).ok()?;
        self.reserved = 0;
        Some(&names.partial)
    }

    /// Opens what was written, from its beginning; `None` if the bytes went directly to their destination. Bytes that were
    /// reserved and not used are given back.
    pub(crate) fn reopen(&mut self) -> io::Result<Option<File>> {
        self.cut_to_written()?;
        let (Some(_), Some(file)) = (&self.names, &self.file) else {
            return Ok(None);
        };
        let mut file = file.try_clone()?;
        file.rewind()?;
        Ok(Some(file))
    }

    /// Writes the whole content, and publishes the file.
    ///
    /// # Errors
    /// Returns [`Error::Output`].
    pub fn fill(mut self, text: &str) -> Result<(), Error> {
        self.write_all(text.as_bytes()).map_err(|error| Error::output(&self.path, error))?;
        self.publish()
    }

    /// Writes everything to the disk and gives the file its name; an older file of that name is replaced.
    ///
    /// # Errors
    /// Returns [`Error::Output`].
    pub fn publish(mut self) -> Result<(), Error> {
        let cut = self.cut_to_written();
        // Pipes and terminals have nothing to write to a disk.
        let (Some(names), Some(file)) = (&self.names, &self.file) else {
            return Ok(());
        };
        cut.and_then(|()| names.publish(file)).map_err(|error| Error::output(&self.path, error))
    }

    /// Gives back the bytes that were reserved and not written.
    fn cut_to_written(&mut self) -> io::Result<()> {
        if let Some(file) = &self.file
            && self.written < self.reserved
        {
            file.set_len(self.written)?;
            self.reserved = 0;
        }
        Ok(())
    }
}

impl Write for PartialFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The system would end the process by a signal.
        if self.names.is_some() && self.written + bytes.len() as u64 > longest_file() {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let file = match &mut self.file {
            Some(file) => file,
            // The content of a file that is open already, such as standard output, is not overwritten.
            None => {
                let opened = OpenOptions::new().append(true).open(&self.opened)?;
                self.file.insert(opened)
            }
        };
        let written = file.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the number of bytes from which on the process may not write to a file.
pub(crate) fn longest_file() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

impl FileNames {
    /// Chooses the names for a file at `path`; `None` if the bytes go there directly.
    fn choose(path: &Path) -> Result<Option<Self>, Error> {
        let path = &*find_opened(path);
        if let Ok(there) = fs::metadata(path).map(|metadata| metadata.file_type()) {
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
        if stands_for_open_file(&end) {
            return Ok(None);
        }
        let Some(name) = end.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::file(path, "is no name for a file"));
        };
        // Processes of other hosts may have the same number and write in the same folder.
        let (pid, token) = (std::process::id(), choose_token());
        let partial = end.with_file_name(format!(".{name}.partial-{pid}-{token:016x}"));
        Ok(Some(Self { partial, end }))
    }

    /// Creates the file: without a name if the file system can, so that it vanishes with a killed process.
    fn create_file(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        // Others may not read it if they will not be able to read it under its name.
        let mode = if self.end.exists() { 0o600 } else { 0o666 };
        options.read(true).write(true).mode(mode);
        options
            .clone()
            .custom_flags(OFlags::TMPFILE.bits() as i32)
            .open(find_folder(&self.partial))
            .or_else(|_| options.create_new(true).open(&self.partial))
    }

    /// Gives a file without a name its temporary one.
    fn link(&self, file: &File) -> io::Result<()> {
        if file.metadata()?.nlink() == 0 {
            let open = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, open, CWD, &self.partial, AtFlags::SYMLINK_FOLLOW)?;
        }
        Ok(())
    }

    fn publish(&self, file: &File) -> io::Result<()> {
        if let Ok(old) = fs::metadata(&self.end) {
            take_over_access(file, &old);
        }
        sync_file(file)?;
        pass_stage("synced")?;
        self.link(file)?;
        pass_stage("linked")?;
        fs::rename(&self.partial, &self.end)
    }
}

/// Brings a file to the disk, which may take as long as the system writes all of it.
pub(crate) fn sync_file(file: &File) -> io::Result<()> {
    const SLOW_DISK_BYTES_S: f64 = 5e7;
    let bytes = file.metadata()?.len();
    let _syncing = LongCall::begin(bytes as f64 / SLOW_DISK_BYTES_S);
    file.sync_all()
}

/// Gives a file the owner, group and mode of an older one, as far as the system allows. A failure is none of the
/// output: some file systems have no owners or modes.
fn take_over_access(file: &File, old: &Metadata) {
    let mut mode = old.mode() & 0o777;
    let group_is_kept = fchown(file, Some(old.uid()), Some(old.gid()))
        .or_else(|_| fchown(file, None, Some(old.gid())))
        .is_ok();
    if !group_is_kept {
        mode = mode & 0o707 | (mode & 0o007) << 3;
    }
    let _ = file.set_permissions(Permissions::from_mode(mode));
}

/// Returns a random number, from the random keys of the standard library's hash tables.
pub(crate) fn choose_token() -> u64 {
    RandomState::new().hash_one(())
}

/// Says why no file could be created: the system speaks of the file where its folder is missing.
fn blame_folder(path: &Path, error: &io::Error) -> String {
    let folder = show_path(find_folder(path));
    match error.kind() {
        ErrorKind::NotFound => format!("there is no folder {folder}: make it first"),
        ErrorKind::NotADirectory => format!("{folder} is no folder"),
        _ => error.to_string(),
    }
}

/// Returns the folder of a file.
fn find_folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Follows the symbolic links at `path` to their end, where there need not be a file. A link in `/proc`, which stands
/// for an open file, is not followed.
pub(crate) fn follow_links(path: &Path) -> io::Result<PathBuf> {
    // The number that the system follows.
    const LINKS: u32 = 40;
    let mut end = path.to_path_buf();
    for _ in 0..LINKS {
        if stands_for_open_file(&end) {
            return Ok(end);
        }
        match fs::read_link(&end) {
            // A relative link starts from its folder; an absolute one replaces the whole path.
            Ok(link) => end = end.parent().unwrap_or(Path::new("")).join(link),
            Err(_) => return Ok(end),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns `true` for a path in `/proc`, such as the end of `/dev/stdin`.
pub(crate) fn stands_for_open_file(path: &Path) -> bool {
    fs::canonicalize(find_folder(path)).is_ok_and(|folder| folder.starts_with("/proc"))
}

/// Checks that no output is the same file as an input, another output, or standard output, under whatever names: links,
/// hard links, and names of files that do not exist yet. Pipes and terminals are no files. Each path comes with the
/// option that names it.
///
/// # Errors
/// Returns [`Error::File`] with both options.
pub fn check_distinct<'a>(
    inputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
    outputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
) -> Result<(), Error> {
    let mut known: Vec<_> = open_stdout()
        .ok()
        .and_then(FileIdentity::of_open_file)
        .map(|file| (file, "standard output"))
        .into_iter()
        .collect();
    for (option, path) in inputs {
        known.extend(FileIdentity::of_path(path).map(|file| (file, option)));
    }
    for (option, path) in outputs {
        let Some(file) =
            FileNames::choose(path)?.and_then(|names| FileIdentity::of_path(&names.end))
        else {
            continue;
        };
        if let Some((_, other)) = known.iter().find(|(known, _)| *known == file) {
            let reason = format!("{option} would write the file of {other}");
            return Err(Error::file(path, reason));
        }
        known.push((file, option));
    }
    Ok(())
}

/// The identity of a file, equal for all its names.
#[derive(PartialEq)]
enum FileIdentity {
    /// Device and inode.
    There(u64, u64),
    /// Folder and name of a file that does not exist yet.
    New(PathBuf),
}

impl FileIdentity {
    /// Returns `None` if it is no file.
    fn of_open_file(file: File) -> Option<Self> {
        Self::of_metadata(&file.metadata().ok()?)
    }

    fn of_metadata(there: &Metadata) -> Option<Self> {
        there.is_file().then(|| Self::There(there.dev(), there.ino()))
    }

    /// Returns `None` if the path is no file.
    fn of_path(path: &Path) -> Option<Self> {
        if let Ok(there) = fs::metadata(path) {
            return Self::of_metadata(&there);
        }
        let end = follow_links(path).ok()?;
        let folder = fs::canonicalize(find_folder(&end)).ok()?;
        Some(Self::New(folder.join(end.file_name()?)))
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Some(names) = &self.names {
            // After `publish` there is no file of this name; before it, the file is incomplete.
            let _ = fs::remove_file(&names.partial);
            lock_temporary_names().retain(|name| *name != names.partial);
        }
    }
}

/// The temporary names of the files that this process writes, whether they have got them or not.
static TEMPORARY_NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn lock_temporary_names() -> MutexGuard<'static, Vec<PathBuf>> {
    TEMPORARY_NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files with temporary names before the process ends in the midst of its work.
pub fn remove_partial_files() {
    let names = std::mem::take(&mut *lock_temporary_names());
    for name in names {
        // Most have no name yet.
        let _ = fs::remove_file(name);
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
        let mut abandoned = PartialFile::create(&path, 0).unwrap();
        abandoned.write_all(b"half").unwrap();
        drop(abandoned);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut complete = PartialFile::create(&path, 0).unwrap();
        complete.write_all(b"whole").unwrap();
        assert!(!path.exists());
        complete.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(PartialFile::create(folder.path(), 0).is_err());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, file) = (folder.path().join("missing"), folder.path().join("file"));
        fs::write(&file, "text").unwrap();
        for (parent, word) in [(missing, "there is no folder"), (file, "is no folder")] {
            let text = PartialFile::create(&parent.join("x.json"), 0).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
            assert!(!text.contains("os error"), "{text}");
        }
    }

    #[test]
    fn a_link_stays_and_its_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/old"), b"old").unwrap();
        std::os::unix::fs::symlink("inner/old", folder.join("one")).unwrap();
        std::os::unix::fs::symlink(folder.join("one"), folder.join("two")).unwrap();
        std::os::unix::fs::symlink("inner/new", folder.join("dangling")).unwrap();
        for (link, end) in [("two", "inner/old"), ("dangling", "inner/new")] {
            let mut file = PartialFile::create(&folder.join(link), 0).unwrap();
            file.write_all(b"whole").unwrap();
            file.publish().unwrap();
            assert_eq!(fs::read(folder.join(end)).unwrap(), b"whole");
            assert!(folder.join(link).is_symlink() && !folder.join(end).is_symlink(), "{link}");
        }
        assert_eq!(fs::read_dir(folder.join("inner")).unwrap().count(), 2);
        std::os::unix::fs::symlink("loop", folder.join("loop")).unwrap();
        assert!(PartialFile::create(&folder.join("loop"), 0).is_err());
    }

    #[test]
    fn a_pipe_is_written_directly() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe.npy");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        std::thread::scope(|threads| {
            // Without a reader, opening would never end.
            let mut file = PartialFile::create(&path, 10).unwrap();
            let reader = threads.spawn(|| fs::read(&path));
            file.write_all(b"whole").unwrap();
            file.publish().unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), b"whole");
        });
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        assert!(kind.is_fifo());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_socket_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let outcome = PartialFile::create(&path, 0);
        assert!(matches!(outcome, Err(Error::File { .. })), "{outcome:?}");
    }

    #[test]
    fn a_replaced_file_keeps_mode_group_and_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        for mode in [0o640, 0o444, 0o666] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            // Only root can do this; for others, the file stays their own.
            let _ = std::os::unix::fs::chown(&path, Some(12), Some(34));
            let old = fs::metadata(&path).unwrap();
            let file = PartialFile::create(&path, 0).unwrap();
            assert_eq!(file.file.as_ref().unwrap().metadata().unwrap().mode() & 0o077, 0);
            file.fill("new").unwrap();
            let new = fs::metadata(&path).unwrap();
            let access = [&old, &new].map(|file| (file.mode(), file.uid(), file.gid()));
            assert_eq!(access[0], access[1]);
            assert_eq!(fs::read_to_string(&path).unwrap(), "new");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn unused_space_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let mut file = PartialFile::create(&path, 1 << 20).unwrap();
        let reserved = file.file.as_ref().unwrap().metadata().unwrap();
        assert!(file.reserved == 0 || reserved.blocks() >= 2048, "{reserved:?}");
        file.write_all(b"whole").unwrap();
        file.publish().unwrap();
        let there = fs::metadata(&path).unwrap();
        assert!(there.len() == 5 && there.blocks() < 2048, "{there:?}");
    }

    #[test]
    fn a_folder_that_vanished_is_a_failure_of_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = PartialFile::create(&folder.path().join("x.json"), 0).unwrap();
        folder.close().unwrap();
        let failure = file.fill("text").unwrap_err();
        assert!(matches!(failure, Error::Output { .. }), "{failure}");
    }

    #[test]
    fn one_file_under_two_names_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("inner")).unwrap();
        fs::write(folder.join("old"), b"old").unwrap();
        fs::hard_link(folder.join("old"), folder.join("hard")).unwrap();
        for (target, link) in [("old", "soft"), ("new", "dangling"), ("inner", "folder")] {
            std::os::unix::fs::symlink(target, folder.join(link)).unwrap();
        }
        for (one, other, is_same) in [
            ("old", "inner/../old", true),
            ("old", "hard", true),
            ("old", "soft", true),
            ("new", "new", true),
            ("new", "dangling", true),
            ("inner/new", "folder/new", true),
            ("old", "new", false),
            ("new", "inner/new", false),
        ] {
            let (one, other) = (folder.join(one), folder.join(other));
            let (a, out) = (("--a", one.as_path()), ("--out", other.as_path()));
            assert_eq!(check_distinct([a], [out]).is_err(), is_same, "{one:?} {other:?}");
            let failure = check_distinct([], [a, out]).map_err(|error| error.to_string());
            assert_eq!(failure.is_err(), is_same, "{one:?} {other:?}");
            if let Err(text) = failure {
                assert!(text.contains("--a") && text.contains("--out"), "{text}");
            }
        }
        // One file may be read twice.
        check_distinct([("--a", &*folder.join("old")), ("--b", &*folder.join("old"))], []).unwrap();
        let null = Path::new("/dev/null");
        check_distinct([("--a", null)], [("--out", null), ("--report", null)]).unwrap();
    }
}
