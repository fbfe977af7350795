//! Device memory, and pinned host memory.

use super::check::{CallError, CallResult};
use super::codes::{CUresult, Code};
use super::context::{Context, Owned};
use super::raw;
use std::ptr::NonNull;
use std::sync::Arc;

/// Pinned for all contexts of the process, and cached: the host reads results from it too.
const PORTABLE: u32 = 1;

/// A block of memory, freed at the end: its owner has waited for all work that uses it.
#[derive(Debug)]
pub struct CudaMemory<A: Copy> {
    start: Owned<A>,
    bytes: u64,
}

/// Memory of the GPU.
pub type DeviceMemory = CudaMemory<raw::CUdeviceptr>;

/// Pinned host memory; its start is aligned for every element type.
pub type PinnedMemory = CudaMemory<NonNull<u8>>;

impl<A: Copy> CudaMemory<A> {
    /// Returns its first address.
    pub fn start(&self) -> A {
        self.start.handle()
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl DeviceMemory {
    /// Allocates `bytes >= 1` bytes in a bound context.
    pub fn new(context: &Arc<Context>, bytes: u64) -> CallResult<Self> {
        let mut address = 0;
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the context is current; one address is written.
        unsafe { raw::cuMemAlloc_v2(&mut address, size) }?;
        // SAFETY: fresh memory, which is freed by this function from any thread in which its context is current.
        let start = unsafe { Owned::new(context, address, raw::cuMemFree_v2) };
        Ok(Self { start, bytes })
    }
}

impl PinnedMemory {
    /// Allocates `bytes >= 1` bytes in a bound context.
    pub fn new(context: &Arc<Context>, bytes: u64) -> CallResult<Self> {
        let mut start = std::ptr::null_mut();
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the context is current; one address is written.
        unsafe { raw::cuMemHostAlloc(&mut start, size, PORTABLE) }?;
        let start = NonNull::new(start.cast()).ok_or(CallError {
            call: "cuMemHostAlloc",
            code: Code::Driver(CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        })?;
        // SAFETY: fresh and plain memory, which is freed by this function; the driver lets any thread use portable
        // pinned memory.
        let start = unsafe { Owned::new(context, start, free_pinned) };
        Ok(Self { start, bytes })
    }
}

/// # Safety
/// The memory was pinned by [`PinnedMemory::new`] and is freed once.
unsafe fn free_pinned(start: NonNull<u8>) -> CallResult<()> {
    // SAFETY: by this function's contract.
    unsafe { raw::cuMemFreeHost(start.as_ptr().cast()) }
}
