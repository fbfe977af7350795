//! Taking turns on cores that several emulated devices share.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait for a core at most: a process that was stopped while it held one must not stop the others.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at a core that is taken. An update takes milliseconds.
const PAUSE: Duration = Duration::from_micros(100);

/// The cores of one paced device, which it has to itself while it computes.
///
/// The nodes of an emulated cluster share the cores of one machine. Left to the scheduler, their updates would be
/// sliced into each other, and each slice begin with caches full of another node's data, which no real cluster would
/// show. So an update runs from beginning to end and the others wait; they have the time, since each computes for less
/// than a `1/pace` part of it.
///
/// A core is a file that is locked, so that turns are taken between processes, and a process that is killed gives
/// its cores back. Where the files cannot be made, the devices do without.
#[derive(Debug)]
pub(crate) struct Turns {
    /// In ascending order of the cores: two devices never wait for each other in a circle.
    cores: Vec<File>,
}

/// Cores that are held until this is dropped.
pub(crate) struct Turn<'a> {
    held: Vec<&'a File>,
}

impl Turns {
    /// For a device that computes on the logical cores `cores` of this host.
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

    /// With the locks in `folder`.
    fn in_folder(folder: &Path, cores: &[u32]) -> Self {
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores.dedup();
        let open = |core: u32| {
            let mut options = File::options();
            options.create(true).write(true).truncate(false);
            let path = folder.join(format!("core-{core}"));
            options
                .open(&path)
                .inspect_err(|error| tracing::warn!(%error, ?path, "no turns on this core"))
                .ok()
        };
        Self {
            cores: cores.into_iter().filter_map(open).collect(),
        }
    }

    /// Waits for the cores, but not for ever.
    pub(crate) fn take_turn(&self) -> Turn<'_> {
        let start = Instant::now();
        let lock = |core: &&File| {
            loop {
                if core.try_lock().is_ok() {
                    return true;
                }
                if start.elapsed() > PATIENCE {
                    return false;
                }
                std::thread::sleep(PAUSE);
            }
        };
        Turn {
            held: self.cores.iter().filter(lock).collect(),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        for core in &self.held {
            // The lock is ours, and closing the file ends it in any case.
            let _ = core.unlock();
        }
    }
}

/// A folder for the locks of this user on this host, which nobody else can write to. The folder for temporary files
/// may be shared between hosts, so its name tells them apart: by the number of the running system.
fn own_folder() -> Result<PathBuf, std::io::Error> {
    // SAFETY: getuid has no preconditions and always succeeds.
    let user = unsafe { libc::getuid() };
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
