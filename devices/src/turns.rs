//! Taking turns on cores that several emulated devices share.

use std::fs::{self, File};
use std::path::PathBuf;

/// The cores of one paced device, which it has to itself while it computes.
///
/// The nodes of an emulated cluster share the cores of one machine. Left to the scheduler, their updates would be
/// sliced into each other, and each slice begin with caches full of another node's data: an update then takes up to
/// a quarter more CPU time, and the more so the shorter it is, which no real cluster would show. So an update runs
/// from beginning to end and the others wait; they have the time, since each computes for less than a `1/pace` part
/// of it.
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
    /// For a device that computes on the logical cores `cores`.
    pub(crate) fn new(cores: &[u32]) -> Self {
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores.dedup();
        let open = |core: u32| {
            let mut options = File::options();
            options.create(true).write(true).truncate(false);
            options.open(folder()?.join(format!("core-{core}"))).ok()
        };
        Self {
            cores: cores.into_iter().filter_map(open).collect(),
        }
    }

    /// Waits for the cores.
    pub(crate) fn take(&self) -> Turn<'_> {
        let held = self.cores.iter().filter(|core| core.lock().is_ok());
        Turn {
            held: held.collect(),
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

/// A folder of the user's own for the locks.
fn folder() -> Option<PathBuf> {
    // SAFETY: getuid has no preconditions and always succeeds.
    let user = unsafe { libc::getuid() };
    let folder = std::env::temp_dir().join(format!("isochron-cores-{user}"));
    fs::create_dir_all(&folder).ok()?;
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn devices_of_one_core_compute_one_after_the_other() {
        // Far beyond any real core, so that no other program's turns are in the way.
        let shared = u32::MAX;
        let busy = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for other in [1, 2] {
                let busy = &busy;
                scope.spawn(move || {
                    let turns = Turns::new(&[shared, shared - other, shared]);
                    assert_eq!(turns.cores.len(), 2);
                    for _ in 0..100 {
                        let turn = turns.take();
                        assert!(!busy.swap(true, Ordering::SeqCst), "both compute");
                        std::thread::yield_now();
                        busy.store(false, Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
    }
}
