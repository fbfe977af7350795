//! The heap of a program that says why it ends when the system refuses it memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{RLIM_INFINITY, RLIMIT_AS, STDERR_FILENO, rlimit};

use super::process::failed_status;

/// Least bytes of a matrix or of the room of a library, whose refusal is an error of all ranks. A smaller piece is one that no code can do without.
const MATRIX_BYTES: usize = 16 << 20;

/// The rank that the words name.
static RANK: AtomicUsize = AtomicUsize::new(0);

/// The system's heap, for programs that use this crate alone: once it refuses a small piece of memory, the process says so
/// on standard error and ends with status 1. Otherwise Rust would abort it.
pub struct ReportingHeap;

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for ReportingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligation, passed on.
        check(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's obligation, passed on.
        check(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's obligation, passed on.
        check(unsafe { System.realloc(memory, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligation, passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Prepares the heap of this process for its limits, and for words that name this rank.
///
/// Each thread would reserve a heap of its own, 64 MiB of address space. Under a limit on that space all threads share one.
pub fn prepare_heap(rank: usize) {
    RANK.store(rank, Ordering::Relaxed);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if find_limit().is_some() {
        // SAFETY: the function takes two numbers.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

fn check(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() && bytes < MATRIX_BYTES {
        end_process(bytes);
    }
    memory
}

/// Returns the limit on the address space in bytes, if there is one.
fn find_limit() -> Option<u64> {
    let mut limit = rlimit { rlim_cur: RLIM_INFINITY, rlim_max: RLIM_INFINITY };
    // SAFETY: the limits are written to a value of their type.
    unsafe { libc::getrlimit(RLIMIT_AS, &mut limit) };
    (limit.rlim_cur != RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Says that the system refuses memory, and ends the process without another call that could need some.
#[cold]
fn end_process(bytes: usize) -> ! {
    let mut words = Words::default();
    // Words that do not fit are left out.
    let _ = write_words(&mut words, RANK.load(Ordering::Relaxed), bytes, find_limit());
    let text = words.text();
    // SAFETY: the text is valid, and standard error may be closed.
    unsafe {
        libc::write(STDERR_FILENO, text.as_ptr().cast(), text.len());
        libc::_exit(failed_status().into())
    }
}

fn write_words(
    words: &mut impl fmt::Write,
    rank: usize,
    bytes: usize,
    limit: Option<u64>,
) -> fmt::Result {
    write!(words, "isochron: rank {rank}: the system refuses {bytes} bytes of memory: ")?;
    match limit {
        Some(limit) => writeln!(
            words,
            "the address space of this process is limited to {} MiB: raise the limit (`ulimit -v`)",
            limit >> 20
        ),
        None => writeln!(words, "use a smaller problem, or fewer ranks on this host"),
    }
}

/// A text in memory that the process has already.
struct Words {
    bytes: [u8; 256],
    length: usize,
}

impl Default for Words {
    fn default() -> Self {
        Self { bytes: [0; 256], length: 0 }
    }
}

impl Words {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let rest = &mut self.bytes[self.length..];
        rest.get_mut(..text.len()).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn the_words_name_rank_bytes_and_limit() {
        let mut words = Words::default();
        write_words(&mut words, 3, 4096, Some(200 << 20)).unwrap();
        assert_eq!(
            String::from_utf8_lossy(words.text()),
            "isochron: rank 3: the system refuses 4096 bytes of memory: the address space of this process is limited to \
             200 MiB: raise the limit (`ulimit -v`)\n"
        );
        let mut longest = Words::default();
        write_words(&mut longest, usize::MAX, usize::MAX, Some(u64::MAX)).unwrap();
        assert!(longest.text().ends_with(b"\n"));
        assert!(longest.write_str(&"x".repeat(256)).is_err());
    }

    #[test]
    fn memory_that_is_granted_passes() {
        let layout = Layout::array::<u8>(100).unwrap();
        // SAFETY: the layout is not empty, and the memory is given back with the layout that it has.
        let last = unsafe {
            let first = ReportingHeap.alloc_zeroed(layout);
            let larger = ReportingHeap.realloc(first, layout, 200);
            let last = *larger.add(99);
            ReportingHeap.dealloc(larger, Layout::array::<u8>(200).unwrap());
            last
        };
        assert_eq!(last, 0);
    }
}
