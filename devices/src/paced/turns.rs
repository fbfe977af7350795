//! Turns on cores that several emulated devices share.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isochron_hierarchy::printable::{show_name, show_path};

/// Longest wait for a core, once a job: a process that was stopped while it held one must not stop the others.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two looks at a core that is taken. An update takes milliseconds.
const PAUSE: Duration = Duration::from_micros(100);

/// Most readings of the system's list of locks for one holder.
const LOOKS: usize = 5;

/// The cores of one paced device, which it has to itself while it computes.
///
/// The nodes of an emulated cluster share the cores of one machine. The scheduler would interleave slices of their
/// updates, and each slice would begin with caches full of another node's data, as on no real cluster. So an update
/// runs from beginning to end and the others wait. They have the time, since each computes for less than a `1/pace`
/// part of it.
///
/// A core is a locked file, so processes take turns too, and a killed process gives its cores back. If the files cannot
/// be made, the devices take no turns.
#[derive(Debug)]
pub(crate) struct Turns {
    /// In ascending order of the cores, so that no two devices wait for each other in a circle.
    cores: Vec<Core>,
    /// Longest wait for the cores of one turn.
    patience: Duration,
}

#[derive(Debug)]
struct Core {
    index: u32,
    lock: File,
    /// Reason why no turn waits for this core any more.
    notice: Option<String>,
}

/// Cores that are held until this value is dropped.
pub(crate) struct Turn<'a> {
    held: Vec<&'a File>,
}

impl Turns {
    /// Makes the turns of a device that computes on the logical cores `cores` of this host.
    pub(crate) fn new(cores: &[u32]) -> Self {
        let folder = own_folder();
        let turns = folder.as_deref().map(|folder| Self::in_folder(folder, cores, PATIENCE));
        turns.unwrap_or_else(|error| {
            tracing::warn!(%error, "paced devices take no turns on the cores that they share");
            Self { cores: Vec::new(), patience: PATIENCE }
        })
    }

    /// Makes them with the locks in `folder`.
    pub(crate) fn in_folder(folder: &Path, cores: &[u32], patience: Duration) -> Self {
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores.dedup();
        let cores = cores.into_iter().filter_map(|index| {
            let mut options = File::options();
            options.create(true).write(true).truncate(false);
            let path = folder.join(format!("core-{index}"));
            let lock = options
                .open(&path)
                .inspect_err(|error| tracing::warn!(%error, ?path, "no turns on this core"));
            Some(Core { index, lock: lock.ok()?, notice: None })
        });
        Self { cores: cores.collect(), patience }
    }

    /// Waits for the cores until the patience is over. A core that is taken then is never waited for again.
    pub(crate) fn take_turn(&mut self) -> Turn<'_> {
        let end = Instant::now().checked_add(self.patience);
        let cores = self.cores.iter_mut();
        Turn { held: cores.filter_map(|core| core.wait_for_lock(end)).collect() }
    }

    /// Returns a line about each core that no turn waits for any more.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.cores.iter().filter_map(|core| core.notice.clone()).collect()
    }
}

impl Core {
    /// Waits for the lock until `end`, and then gives the core up; returns the lock if it is held.
    fn wait_for_lock(&mut self, end: Option<Instant>) -> Option<&File> {
        while self.lock.try_lock().is_err() {
            if self.notice.is_some() {
                return None;
            }
            if end.is_some_and(|end| Instant::now() > end) {
                self.give_up();
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        Some(&self.lock)
    }

    fn give_up(&mut self) {
        let holder = name_holder(&self.lock).unwrap_or_else(|| "another process".to_owned());
        let notice = format!(
            "core {} was held by {holder}, and paced devices no longer wait for it: times may be disturbed",
            self.index
        );
        tracing::warn!("{notice}");
        self.notice = Some(notice);
    }
}

/// Returns the id and the command of the process that holds a lock on this file, if the system tells.
fn name_holder(lock: &File) -> Option<String> {
    let inode = lock.metadata().ok()?.ino();
    // The list is read in pieces while other locks come and go, so that a look may miss one.
    let mut looks = (0..LOOKS).filter_map(|_| fs::read_to_string("/proc/locks").ok());
    let id = looks.find_map(|locks| find_holder(&locks, inode))?;
    let command = fs::read_to_string(format!("/proc/{id}/comm")).ok()?;
    Some(format!("process {id} ({})", show_name(command.trim())))
}

/// Finds the process that holds the file with this inode in the lines of `/proc/locks`.
fn find_holder(locks: &str, inode: u64) -> Option<u32> {
    // `7: FLOCK  ADVISORY  WRITE 14551 fe:00:10062632 0 EOF`; a process that waits has `->` after the number.
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", id, file, ..] = words[..] else {
            return None;
        };
        let (_, held) = file.rsplit_once(':')?;
        id.parse().ok().filter(|_| held.parse() == Ok(inode))
    })
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        for core in &self.held {
            // The lock is ours, and closing the file would end it as well.
            let _ = core.unlock();
        }
    }
}

/// Makes the folder for the locks of this user on this host, which no other user can write to. Hosts may share the
/// folder for temporary files, so the name contains the id of the running system.
fn own_folder() -> Result<PathBuf, std::io::Error> {
    let user = rustix::process::getuid().as_raw();
    let system = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = format!("isochron-cores-{user}-{}", system.trim());
    let folder = std::env::temp_dir().join(name);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let found = fs::symlink_metadata(&folder)?;
    if found.is_dir() && found.uid() == user {
        Ok(folder)
    } else {
        let reason = format!("{} is not a folder of this user", show_path(&folder));
        Err(std::io::Error::other(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn devices_of_one_core_compute_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let busy = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for own in [1, 2] {
                let (busy, folder) = (&busy, folder.path());
                scope.spawn(move || {
                    let mut turns = Turns::in_folder(folder, &[3, own, 3], PATIENCE);
                    assert_eq!(turns.cores.len(), 2);
                    for _ in 0..100 {
                        let turn = turns.take_turn();
                        assert!(!busy.swap(true, Ordering::SeqCst), "both compute");
                        std::thread::yield_now();
                        busy.store(false, Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
    }

    #[test]
    fn a_core_that_stays_held_is_given_up_and_named_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut others = Turns::in_folder(folder.path(), &[3], PATIENCE);
        let held = others.take_turn();
        let mut turns = Turns::in_folder(folder.path(), &[3, 4], Duration::ZERO);
        assert_eq!(turns.take_turn().held.len(), 1);
        let notices = turns.notices();
        let own = std::process::id();
        assert!(notices[0].contains(&format!("core 3 was held by process {own} (")));
        // From now on a turn that waited would not end.
        turns.patience = Duration::MAX;
        assert_eq!(turns.take_turn().held.len(), 1);
        assert_eq!(turns.notices(), notices);
        drop(held);
        assert_eq!(turns.take_turn().held.len(), 2);
        assert_eq!(name_holder(&turns.cores[0].lock), None);
    }

    #[test]
    fn only_the_process_that_holds_a_lock_is_named() {
        let locks = "1: FLOCK  ADVISORY  WRITE 11 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:00:8 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:9 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 14 fe:00:9 0 EOF\n";
        let holders = [7, 8, 9].map(|inode| find_holder(locks, inode));
        assert_eq!(holders, [Some(11), Some(12), None]);
    }

    #[test]
    fn the_folder_is_the_users_own() {
        let folder = own_folder().unwrap();
        assert_eq!(own_folder().unwrap(), folder);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o077, 0);
    }
}
