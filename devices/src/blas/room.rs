//! Address space for libraries, which is known to be there before a library asks for it.
//!
//! A limit on the address space (`ulimit -v`) refuses memory that is never written. OpenBLAS repeats a refused request
//! for ever, BLIS ends the process, and MKL misses its parts. So the system is asked first.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::iter::repeat_n;
use std::sync::{Arc, Mutex, PoisonError};

use super::make::Make;
use crate::contract::DeviceError;

/// Bytes of the buffer that OpenBLAS takes for each thread in a product: `32 << 22` for most processors, less in some
/// builds.
const BUFFER_BYTES: usize = 128 << 20;

/// Bytes that other libraries and the embedded one pack into for each thread.
const PACKING_BYTES: usize = 16 << 20;

/// Bytes of MKL's parts, which it loads with its first call.
const MKL_BYTES: usize = 512 << 20;

/// Bytes that a library leaves to the rest of a job: heaps and stacks of threads, messages, small matrices.
const LEFT_BYTES: usize = 128 << 20;

/// Least bytes that are asked for at once: the refusal of a smaller piece would be the end of the command.
const LEAST_BYTES: usize = 16 << 20;

/// Returns the bytes that the system refuses of these pieces together, or `None` if it grants them.
fn find_refused(pieces: impl Iterator<Item = usize> + Clone) -> Option<u64> {
    let mut held = Vec::new();
    let is_granted = pieces.clone().filter(|&bytes| bytes > 0).all(|bytes| {
        let mut piece: Vec<u8> = Vec::new();
        // The heap of the command ends the process where it is refused less.
        let granted = piece.try_reserve_exact(bytes.max(LEAST_BYTES)).is_ok();
        // Memory that is only taken and given back would not be asked for at all.
        held.push(black_box(piece));
        granted
    });
    (!is_granted).then(|| pieces.map(|bytes| bytes as u64).sum())
}

/// Asks for the address space that opening a library takes, and then products of `threads` threads at once.
/// `file_bytes` is the size of its file, which may be read before it is loaded.
///
/// # Errors
/// Returns the bytes that were refused.
pub(super) fn check_opening(make: Make, file_bytes: u64, threads: usize) -> Result<(), u64> {
    let file_bytes = usize::try_from(file_bytes).unwrap_or(usize::MAX / 2);
    let (parts, each) = match make {
        Make::Mkl => (MKL_BYTES, PACKING_BYTES),
        Make::OpenBlas => (0, BUFFER_BYTES),
        Make::Blis | Make::Other => (0, PACKING_BYTES),
    };
    let pieces = [file_bytes, file_bytes, parts, LEFT_BYTES].into_iter();
    find_refused(pieces.chain(repeat_n(each, threads))).map_or(Ok(()), Err)
}

/// Asks for the memory that `threads` threads pack into.
///
/// # Errors
/// Returns the bytes that were refused.
pub(super) fn check_packing(threads: usize) -> Result<(), u64> {
    find_refused(repeat_n(PACKING_BYTES, threads)).map_or(Ok(()), Err)
}

/// The functions `blas_memory_alloc` and `blas_memory_free` of OpenBLAS.
///
/// A product takes a buffer and gives it back. The library keeps buffers that were given back, so it asks the system only
/// when more products run at once than ever before.
#[derive(Debug)]
pub(super) struct Buffers {
    pub take: unsafe extern "C" fn(c_int) -> *mut c_void,
    pub give_back: unsafe extern "C" fn(*mut c_void),
    /// Number of buffers for which the library was built. With more it ends, or corrupts its memory.
    most: usize,
    counts: Mutex<BufferCounts>,
}

#[derive(Debug, Default)]
struct BufferCounts {
    /// Buffers that the library has.
    kept: usize,
    /// Threads that may be in a product at once.
    reserved: usize,
}

/// The buffers of threads that may multiply at once. The library may use them for other threads when this value is dropped.
#[derive(Debug)]
#[must_use]
pub(super) struct ReservedBuffers {
    buffers: Arc<Buffers>,
    threads: usize,
}

impl Buffers {
    /// Takes the two functions of a library for so many buffers.
    pub fn new(
        take: unsafe extern "C" fn(c_int) -> *mut c_void,
        give_back: unsafe extern "C" fn(*mut c_void),
        most: usize,
    ) -> Self {
        Self { take, give_back, most, counts: Mutex::default() }
    }

    /// Lets the library take buffers for `threads` more threads than have reserved theirs already.
    ///
    /// # Errors
    /// For this library, returns [`DeviceError::BlasThreads`] if it was not built for so many, and
    /// [`DeviceError::BlasMemory`] if the system refuses the memory.
    pub fn reserve(
        self: &Arc<Self>,
        threads: usize,
        library: &str,
    ) -> Result<ReservedBuffers, DeviceError> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = counts.reserved + threads;
        if wanted > self.most {
            return Err(DeviceError::BlasThreads {
                library: library.to_owned(),
                most: self.most,
                threads: wanted,
            });
        }
        if wanted > counts.kept {
            // Threads with a reservation may hold buffers meanwhile, so that others are made for these.
            let new = wanted - counts.kept + counts.reserved;
            if let Some(bytes) = find_refused(repeat_n(BUFFER_BYTES, new)) {
                return Err(DeviceError::refused_library(library, bytes));
            }
            self.make(wanted);
            counts.kept = wanted;
        }
        counts.reserved = wanted;
        Ok(ReservedBuffers { buffers: Arc::clone(self), threads })
    }

    /// Takes this many buffers together, and gives them back.
    fn make(&self, count: usize) {
        // SAFETY: the signatures are those of OpenBLAS's common.h, whose argument is not used. Every buffer is given back
        // once, and nobody writes to it. The library is never unloaded.
        unsafe {
            let taken: Vec<_> = (0..count).map(|_| (self.take)(0)).collect();
            for buffer in taken.into_iter().filter(|buffer| !buffer.is_null()) {
                (self.give_back)(buffer);
            }
        }
    }
}

impl Drop for ReservedBuffers {
    fn drop(&mut self) {
        let counts = self.buffers.counts.lock();
        counts.unwrap_or_else(PoisonError::into_inner).reserved -= self.threads;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Number of buffers of the made-up library that are in use, and the most that ever were.
    static IN_USE: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn take(_: c_int) -> *mut c_void {
        let in_use = IN_USE.fetch_add(1, Ordering::SeqCst) + 1;
        MOST.fetch_max(in_use, Ordering::SeqCst);
        (64 * in_use) as *mut c_void
    }

    unsafe extern "C" fn give_back(_: *mut c_void) {
        IN_USE.fetch_sub(1, Ordering::SeqCst);
    }

    #[test]
    fn buffers_are_made_for_all_threads_that_may_multiply_at_once() {
        let buffers = Arc::new(Buffers::new(take, give_back, 5));
        let most = || (IN_USE.load(Ordering::SeqCst), MOST.load(Ordering::SeqCst));
        let first = buffers.reserve(2, "").unwrap();
        assert_eq!(most(), (0, 2));
        let second = buffers.reserve(3, "").unwrap();
        assert_eq!(most(), (0, 5));
        drop(first);
        assert!(buffers.reserve(3, "").is_err());
        // They are used again.
        let third = buffers.reserve(2, "").unwrap();
        assert_eq!(most(), (0, 5));
        drop((second, third));
        assert_eq!(buffers.counts.lock().unwrap().reserved, 0);
    }

    #[test]
    fn memory_beyond_all_address_space_is_refused() {
        assert_eq!(find_refused([1, 1 << 20].into_iter()), None);
        let far = isize::MAX as usize;
        assert_eq!(find_refused([1, far].into_iter()), Some(1 + far as u64));
        assert!(check_opening(Make::OpenBlas, 1 << 62, 1).is_err());
    }
}
