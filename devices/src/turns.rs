//! Turns on cores that several emulated devices share.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest wait for a core: a process that was stopped while it held one must not stop the others.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two looks at a core that is taken. An update takes milliseconds.
const PAUSE: Duration = Duration::from_micros(100);

/// The cores of one paced device, which it has to itself while it computes.
///
/// The nodes of an emulated cluster share the cores of one machine. The scheduler would interleave slices of their updates,
/// and each slice would begin with caches full of another node's data, as on no real cluster. So an update runs from
/// beginning to end and the others wait. They have the time, since each computes for less than a `1/pace` part of it.
///
/// A core is a locked file, so processes take turns too, and a killed process gives its cores back. If the files cannot be
/// made, the devices take no turns.
#[derive(Debug)]
pub(crate) struct Turns {
    /// In ascending order of the cores, so that no two devices wait for each other in a circle.
    cores: Vec<File>,
}

/// Cores that are held until this value is dropped.
pub(crate) struct Turn<'a> {
    held: Vec<&'a File>,
}

impl Turns {
    /// Makes the turns of a device that computes on the logical cores `cores` of this host.
    pub(crate) fn new(cores: &[u32]) -> Self {
        let folder = own_folder();
        let turns = folder
            .as_deref()
            .map(|folder| Self::in_folder(folder, cores));
        turns.unwrap_or_else(|error| {
            tracing::warn!(%error, "paced devices take no turns on the cores that they share");
            Self { cores: Vec::new() }
        })
    }

    /// Makes them with the locks in `folder`.
    fn in_folder(folder: &Path, cores: &[u32]) -> Self {
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores.dedup();
        let locks = cores.iter().filter_map(|core| {
            let mut options = File::options();
            options.create(true).write(true).truncate(false);
            let path = folder.join(format!("core-{core}"));
            options
                .open(&path)
                .inspect_err(|error| tracing::warn!(%error, ?path, "no turns on this core"))
                .ok()
        });
        Self {
            cores: locks.collect(),
        }
    }

    /// Waits for the cores, each at most until [`PATIENCE`] is over.
    pub(crate) fn take_turn(&self) -> Turn<'_> {
        let start = Instant::now();
        let cores = self.cores.iter();
        Turn {
            held: cores.filter(|core| wait_for_lock(core, start)).collect(),
        }
    }
}

/// Waits for the lock of a core until [`PATIENCE`] after `start` is over; returns `true` if it is held.
fn wait_for_lock(core: &File, start: Instant) -> bool {
    loop {
        if core.try_lock().is_ok() {
            return true;
        }
        if start.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        for core in &self.held {
            // The lock is ours, and closing the file would end it as well.
            let _ = core.unlock();
        }
    }
}

/// Makes the folder for the locks of this user on this host, which no other user can write to. Hosts may share the folder for
/// temporary files, so the name contains the id of the running system.
fn own_folder() -> Result<PathBuf, std::io::Error> {
    let user = rustix::process::getuid().as_raw();
    let system = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let name = format!("isochron-cores-{user}-{}", system.trim());
    let folder = std::env::temp_dir().join(name);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let found = fs::symlink_metadata(&folder)?;
    if found.is_dir() && found.uid() == user {
        Ok(folder)
    } else {
        let reason = format!("{} is not a folder of this user", folder.display());
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
                    let turns = Turns::in_folder(folder, &[3, own, 3]);
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
    fn the_folder_is_the_users_own() {
        let folder = own_folder().unwrap();
        assert_eq!(own_folder().unwrap(), folder);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o077, 0);
    }
}
