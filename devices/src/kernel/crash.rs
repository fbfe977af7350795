//! Words on standard error when a kernel crashes in this process, which ends by it.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, c_int, sigaction, stack_t};

/// The signals of crashes.
const SIGNALS: [(c_int, &str); 5] = [
    (SIGSEGV, "SIGSEGV"),
    (SIGBUS, "SIGBUS"),
    (SIGFPE, "SIGFPE"),
    (SIGILL, "SIGILL"),
    (SIGABRT, "SIGABRT"),
];

/// Bytes of the stack on which the words are written: a crash may be an overflow of the thread's own.
const STACK_BYTES: usize = 64 << 10;

/// The words for a crash of a kernel, which are written before the process ends.
#[derive(Clone, Copy)]
pub struct CrashNote(&'static Note);

/// The data of the handler of a crash. They are never freed, so a crash on any thread finds it.
struct Note {
    kernel: String,
    advice: String,
    /// The words for each signal.
    texts: [String; SIGNALS.len()],
    /// The actions of the signals before a call.
    earlier: UnsafeCell<[sigaction; SIGNALS.len()]>,
    stack: UnsafeCell<Vec<u8>>,
}

// SAFETY: only the thread that has made the note the current one writes its cells, before the handler is in place. The
// handler reads them.
unsafe impl Sync for Note {}

/// The note of the call that is watched; null without one.
static CURRENT: AtomicPtr<Note> = AtomicPtr::new(ptr::null_mut());

impl CrashNote {
    /// Makes the words for a crash of a kernel, which end with `advice`. They stay in memory until the process ends.
    #[must_use]
    pub fn new(kernel: &str, advice: &str) -> Self {
        let note = Note {
            kernel: kernel.to_owned(),
            advice: advice.to_owned(),
            texts: SIGNALS.map(|(_, name)| {
                format!("isochron: kernel {kernel}: crashed by {name}: {advice}\n")
            }),
            earlier: UnsafeCell::new([empty_action(); SIGNALS.len()]),
            stack: UnsafeCell::new(vec![0; STACK_BYTES]),
        };
        Self(Box::leak(Box::new(note)))
    }

    /// Calls a function of the kernel. If it crashes, the words are written, and the process ends as it would without them.
    /// Calls on several threads at once are watched one at a time.
    pub fn watch<R>(self, call: impl FnOnce() -> R) -> R {
        let watched = WatchedCall::begin(self.0);
        let result = call();
        drop(watched);
        result
    }
}

/// Describes the end of this process by a call of `exit` or the like in a kernel; `None` if no call of one is [watched](CrashNote::watch).
pub fn describe_exit() -> Option<String> {
    // SAFETY: a note that is not null is never freed.
    let note = unsafe { CURRENT.load(Ordering::Acquire).as_ref() }?;
    let (kernel, advice) = (&note.kernel, &note.advice);
    Some(format!("kernel {kernel}: ended the process before the result was there: {advice}"))
}

/// A call during which the handler is in place.
struct WatchedCall {
    note: &'static Note,
    earlier_stack: stack_t,
}

impl WatchedCall {
    /// Puts the handler in place; `None` if another call is watched.
    fn begin(note: &'static Note) -> Option<Self> {
        let free = ptr::null_mut();
        let own = ptr::from_ref(note).cast_mut();
        CURRENT.compare_exchange(free, own, Ordering::AcqRel, Ordering::Acquire).ok()?;
        let mut earlier_stack =
            stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the exchange above makes this thread the only user of the cells, and no handler reads them yet. The stack
        // is never freed. Each function reads and writes values of its own types; the handler is async-signal-safe.
        unsafe {
            let stack = stack_t {
                ss_sp: (*note.stack.get()).as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: STACK_BYTES,
            };
            libc::sigaltstack(&stack, &mut earlier_stack);
            let earlier = &mut *note.earlier.get();
            for ((signal, _), earlier) in SIGNALS.iter().zip(earlier) {
                sigaction(*signal, ptr::null(), earlier);
            }
            let mut ours = empty_action();
            ours.sa_sigaction = handler_address();
            ours.sa_flags = libc::SA_ONSTACK;
            for (signal, _) in SIGNALS {
                sigaction(signal, &ours, ptr::null_mut());
            }
        }
        Some(Self { note, earlier_stack })
    }
}

impl Drop for WatchedCall {
    fn drop(&mut self) {
        self.note.restore();
        // SAFETY: the thread's earlier stack is still its own.
        unsafe { libc::sigaltstack(&self.earlier_stack, ptr::null_mut()) };
        CURRENT.store(ptr::null_mut(), Ordering::Release);
    }
}

impl Note {
    /// Restores the actions of the signals, except those that the kernel has changed. Async-signal-safe.
    fn restore(&self) {
        // SAFETY: the cell is only written before the handler is in place.
        let earlier = unsafe { &*self.earlier.get() };
        for ((signal, _), earlier) in SIGNALS.iter().zip(earlier) {
            let mut now = empty_action();
            // SAFETY: both calls read or write values of their own type.
            unsafe {
                sigaction(*signal, ptr::null(), &mut now);
                if now.sa_sigaction == handler_address() {
                    sigaction(*signal, earlier, ptr::null_mut());
                }
            }
        }
    }
}

/// Writes the words, and lets the signal take the course that it had before. Async-signal-safe.
extern "C" fn report_crash(signal: c_int) {
    let note = CURRENT.load(Ordering::Acquire);
    // SAFETY: a note that is not null is never freed.
    if let Some(note) = unsafe { note.as_ref() } {
        for ((known, _), text) in SIGNALS.iter().zip(&note.texts) {
            if *known == signal {
                // SAFETY: the text is valid, and standard error may be closed.
                unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
            }
        }
        note.restore();
    }
    // SAFETY: the signal is blocked until this handler returns, and goes to the earlier action then.
    unsafe { libc::raise(signal) };
}

fn handler_address() -> usize {
    let handler: extern "C" fn(c_int) = report_crash;
    handler as usize
}

fn empty_action() -> sigaction {
    // SAFETY: all zeros are the default action without flags, with an empty set of blocked signals.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;

    fn read_handler() -> usize {
        let mut now = empty_action();
        // SAFETY: the action is written to a value of its type.
        unsafe { sigaction(SIGILL, ptr::null(), &mut now) };
        now.sa_sigaction
    }

    /// Crashes by the signal that the environment names. Without it, looks at the handler around a call.
    #[test]
    fn crashing_call() {
        let note = CrashNote::new("./k.so", "try another");
        if let Ok(signal) = std::env::var("CRASH_TEST_SIGNAL") {
            let signal: c_int = signal.parse().unwrap();
            // Rust's own handler of SIGSEGV lets one that is no fault pass, once.
            for _ in 0..2 {
                // SAFETY: the signal ends this process, which is there for that.
                note.watch(|| unsafe { libc::raise(signal) });
            }
            return;
        }
        let before = read_handler();
        let during = note.watch(|| (read_handler(), note.watch(read_handler)));
        assert_eq!(during, (handler_address(), handler_address()));
        assert_eq!(read_handler(), before);
    }

    #[test]
    fn a_crash_names_the_kernel_and_ends_the_process_as_ever() {
        for (signal, name) in SIGNALS {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "kernel::crash::tests::crashing_call"])
                .env("CRASH_TEST_SIGNAL", signal.to_string())
                .output();
            let child = child.unwrap();
            let stderr = String::from_utf8_lossy(&child.stderr);
            let words = format!("isochron: kernel ./k.so: crashed by {name}: try another\n");
            assert!(stderr.contains(&words), "{stderr}");
            assert_eq!(child.status.signal(), Some(signal));
        }
    }
}
