//! Faults that tests inject: into the reading and writing of files, and into the ranks of a job.
//!
//! Environment variables name the faults of whole jobs. They have an effect only in a program that was built for tests, which
//! calls [`obey_tests`]: in all others a variable that is left over does nothing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::comm::launched::launched_rank;

/// `true` in a program that was built for tests.
static OBEYS: AtomicBool = AtomicBool::new(false);

/// Makes this process obey the variables of tests.
pub fn obey_tests() {
    OBEYS.store(true, Ordering::Relaxed);
}

/// Reads a variable of tests; `None` in a program that was not built for them.
fn read_variable(name: &str) -> Option<String> {
    if !OBEYS.load(Ordering::Relaxed) {
        return None;
    }
    std::env::var(name).ok()
}

/// Gives the steps after which the division changes even if that does not pay, in tests of changes.
const FORCED_CHANGES: &str = "ISOCHRON_TEST_FORCED_CHANGES";

/// Returns the steps after which a test wants the division to change; 0 for never.
pub fn read_forced_changes() -> u64 {
    read_variable(FORCED_CHANGES).and_then(|steps| steps.parse().ok()).unwrap_or(0)
}

/// Names the stage of writing at which the process is killed, in tests of whole jobs: the first time that it gets there, or
/// the second by `STAGE:2`.
const KILLED_AT: &str = "ISOCHRON_TEST_KILLED_AT";

/// Names a phase of the work and a rank, as `multiply:1`, or all ranks, as `multiply:all`. A rank stops there by SIGSTOP, in
/// tests of whole jobs: the first time that it gets there, or the second by `multiply:1:2`.
const STOPPED_AT: &str = "ISOCHRON_TEST_STOPPED_AT";

/// Names a folder in which a rank makes the file `reached-RANK` instead of stopping. It goes on once there is a file `go`.
const HELD_IN: &str = "ISOCHRON_TEST_HELD_IN";

/// Passes a phase of a rank's work. Tests stop or hold the rank there; else it does nothing.
pub(crate) fn pass_phase(phase: &str, note_progress: fn()) {
    static STOPPED: OnceLock<Option<String>> = OnceLock::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let stopped = STOPPED.get_or_init(|| read_variable(STOPPED_AT));
    let Some((name, place)) = stopped.as_deref().and_then(|at| at.split_once(':')) else {
        return;
    };
    let (rank, time) = place.split_once(':').unwrap_or((place, "1"));
    if name == phase
        && (rank == "all" || rank == launched_rank().to_string())
        && (PASSED.fetch_add(1, Ordering::Relaxed) + 1).to_string() == time
    {
        // The watch tells the phase meanwhile.
        std::thread::sleep(Duration::from_millis(500));
        match read_variable(HELD_IN) {
            Some(folder) => hold_in(Path::new(&folder), note_progress),
            None => {
                // A test notices that it does not happen.
                let _ = kill_process(getpid(), Signal::STOP);
            }
        }
    }
}

/// Waits until a test lets this rank go on, and notes that it is at work.
fn hold_in(folder: &Path, note_progress: fn()) {
    // A test notices that it is not there.
    let _ = File::create(folder.join(format!("reached-{}", launched_rank())));
    while !folder.join("go").exists() {
        note_progress();
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Passes a stage of writing. Tests let it fail or end the process there; else it does nothing.
pub(crate) fn pass_stage(stage: &'static str) -> io::Result<()> {
    #[cfg(test)]
    injected::strike(stage)?;
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let Some(at) = read_variable(KILLED_AT) else {
        return Ok(());
    };
    let (name, time) = at.split_once(':').unwrap_or((&at, "1"));
    if name == stage && (PASSED.fetch_add(1, Ordering::Relaxed) + 1).to_string() == time {
        kill_process(getpid(), Signal::KILL)?;
    }
    Ok(())
}

/// Names the stage at which a bit flips, in tests of whole jobs.
const FLIPPED_AT: &str = "ISOCHRON_TEST_FLIPPED_AT";

/// Flips a bit in the middle of these bytes if tests ask for it at this stage.
pub(crate) fn flip_bit(stage: &str, bytes: &mut [u8]) {
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle)
        && read_variable(FLIPPED_AT).is_some_and(|at| at == stage)
    {
        *byte ^= 1;
    }
}

/// Flips a bit in the middle of a file, as [`flip_bit`].
pub(crate) fn flip_in_file(stage: &str, file: &File) -> io::Result<()> {
    if read_variable(FLIPPED_AT).is_none() {
        return Ok(());
    }
    let middle = file.metadata()?.len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle)?;
    let before = byte;
    flip_bit(stage, &mut byte);
    if byte == before {
        return Ok(());
    }
    file.write_all_at(&byte, middle)
}

#[cfg(test)]
pub(crate) mod injected {
    use std::cell::Cell;
    use std::io;

    use rustix::io::Errno;
    use rustix::process::{Signal, getpid, kill_process};

    /// A fault at a stage.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Fault {
        /// The file system refuses.
        Refusal(Errno),
        /// The process is killed.
        Death,
    }

    thread_local! {
        static FAULT: Cell<Option<(&'static str, Fault)>> = const { Cell::new(None) };
    }

    /// Runs `work` on this thread, with a fault at a stage.
    pub fn run_with<R>(stage: &'static str, fault: Fault, work: impl FnOnce() -> R) -> R {
        FAULT.set(Some((stage, fault)));
        let done = work();
        FAULT.set(None);
        done
    }

    type Action = Box<dyn FnOnce()>;

    thread_local! {
        static AFTER_READS: Cell<Option<(usize, Action)>> = const { Cell::new(None) };
    }

    /// Runs `action` on this thread after this number of further reads of input files.
    pub fn run_after_reads(reads: usize, action: impl FnOnce() + 'static) {
        AFTER_READS.set(Some((reads, Box::new(action))));
    }

    /// Cancels an action that still waits for reads; returns `false` if there is none.
    pub fn cancel_after_reads() -> bool {
        AFTER_READS.take().is_some()
    }

    /// Passes a read of an input file.
    pub fn pass_read() {
        match AFTER_READS.take() {
            Some((0 | 1, action)) => action(),
            Some((reads, action)) => AFTER_READS.set(Some((reads - 1, action))),
            None => {}
        }
    }

    pub fn strike(stage: &'static str) -> io::Result<()> {
        match FAULT.get() {
            Some((at, Fault::Refusal(errno))) if at == stage => Err(errno.into()),
            Some((at, Fault::Death)) if at == stage => {
                kill_process(getpid(), Signal::KILL)?;
                unreachable!("a process survives no SIGKILL")
            }
            _ => Ok(()),
        }
    }
}
