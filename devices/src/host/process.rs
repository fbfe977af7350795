//! The process of a program that uses this crate alone: its standard output, and its end by code that is not its own.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use libc::{STDERR_FILENO, STDOUT_FILENO, c_int};

/// Exit status of a process that has failed, or that other code has ended.
static FAILED_STATUS: AtomicU8 = AtomicU8::new(1);

/// The process whose end is watched; 0 for none. A forked child ends as it likes.
static WATCHED: AtomicU32 = AtomicU32::new(0);

/// Makes the words for an end by other code.
static DESCRIBE: OnceLock<fn() -> String> = OnceLock::new();

/// Returns the exit status of this process if it fails: 1, unless 1 has another meaning here.
pub fn failed_status() -> u8 {
    FAILED_STATUS.load(Ordering::Relaxed)
}

/// Sets the exit status of this process if it fails.
pub fn set_failed_status(status: u8) {
    FAILED_STATUS.store(status, Ordering::Relaxed);
}

/// Takes standard output away from libraries and kernels: what they write to it from now on goes to standard error. Returns
/// the output itself, which children do not inherit.
///
/// # Errors
/// Fails if the process has no descriptor left.
pub fn take_stdout() -> io::Result<OwnedFd> {
    let taken = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both descriptors are open from the start of a Rust program, and no value owns them.
    match unsafe { libc::dup2(STDERR_FILENO, STDOUT_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(taken),
    }
}

/// The time during which the process must not call `exit`. Dropping it ends that time.
#[must_use]
pub struct ExitWatch(());

/// Watches over ends of the process while the returned value lives: instead of ending with status 0, or by `exit`, it writes the
/// text that `describe` returns to standard error, and ends with [`failed_status`]. Only the first `describe` counts.
///
/// Calls of `_exit` are seen by programs that replace it by [`end_at_once`].
pub fn watch_exit(describe: fn() -> String) -> ExitWatch {
    if DESCRIBE.set(describe).is_ok() {
        // SAFETY: the function lives as long as the process. Without room for it, these ends are not watched.
        unsafe {
            libc::atexit(report_exit);
            #[cfg(all(target_os = "linux", target_env = "gnu"))]
            at_quick_exit(report_exit);
        }
    }
    WATCHED.store(process::id(), Ordering::Release);
    ExitWatch(())
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

impl Drop for ExitWatch {
    fn drop(&mut self) {
        WATCHED.store(0, Ordering::Release);
    }
}

/// Returns `true` if the end of this process is not the program's own.
fn is_foreign_end() -> bool {
    // The message of a panic is on standard error already, and the program chooses the status.
    WATCHED.load(Ordering::Acquire) == process::id() && !std::thread::panicking()
}

extern "C" fn report_exit() {
    if !is_foreign_end() {
        return;
    }
    // SAFETY: it writes what C code has left in its buffers, which the end of a process does too.
    unsafe { libc::fflush(ptr::null_mut()) };
    write_reason();
    end_at_once(failed_status().into())
}

fn write_reason() {
    if let Some(describe) = DESCRIBE.get() {
        // If standard error is closed, the status has to say it all.
        let _ = io::stderr().write_all(describe().as_bytes());
    }
}

/// Ends the process at once, as `_exit` of the C library, unless other code claims success by it: see [`watch_exit`].
pub fn end_at_once(status: c_int) -> ! {
    let is_refused = status == 0 && is_foreign_end();
    if is_refused {
        write_reason();
    }
    let status = if is_refused { failed_status().into() } else { status };
    // SAFETY: the system ends the process in the first call. The second one is for systems without it.
    unsafe {
        #[cfg(target_os = "linux")]
        libc::syscall(libc::SYS_exit_group, status);
        libc::_exit(status)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Ends this process as the environment says. Without it, does nothing.
    #[test]
    fn ending_process() {
        let Ok(end) = std::env::var("EXIT_TEST_END") else {
            return;
        };
        let watch = watch_exit(|| "ended by other code\n".to_owned());
        if end == "permitted" {
            drop(watch);
        }
        if end == "at once" {
            end_at_once(0);
        }
        process::exit(0);
    }

    #[test]
    fn an_end_by_other_code_is_an_error_with_words() {
        for (end, status, words) in [
            ("foreign", 1, "ended by other code\n"),
            ("at once", 1, "ended by other code\n"),
            ("permitted", 0, ""),
        ] {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "host::process::tests::ending_process"])
                .env("EXIT_TEST_END", end)
                .output()
                .unwrap();
            assert_eq!(child.status.code(), Some(status), "{end}");
            assert_eq!(String::from_utf8_lossy(&child.stderr), words, "{end}");
        }
    }

    /// Writes to standard output after it was taken, if the environment says so.
    #[test]
    fn writing_process() {
        if std::env::var_os("STDOUT_TEST").is_none() {
            return;
        }
        let taken = take_stdout().unwrap();
        // SAFETY: the text ends with a zero byte.
        unsafe { libc::puts(c"noise".as_ptr()) };
        std::fs::File::from(taken).write_all(b"result\n").unwrap();
    }

    #[test]
    fn words_of_other_code_do_not_reach_standard_output() {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host::process::tests::writing_process"])
            .env("STDOUT_TEST", "1")
            .output()
            .unwrap();
        let [stdout, stderr] = [&child.stdout, &child.stderr].map(|it| String::from_utf8_lossy(it));
        assert!(stdout.contains("result\n") && !stdout.contains("noise"), "{stdout}");
        assert!(stderr.contains("noise\n"), "{stderr}");
    }
}
