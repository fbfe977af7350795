//! Device memory, and pinned host memory.

use super::check::{CallError, CallResult, Code, check};
use super::codes::CUresult;
use super::context::Context;
use super::raw;
use std::ptr::NonNull;
use std::sync::Arc;

/// Pinned for all contexts of the process, and cached: the host reads results from it too.
const PORTABLE: u32 = 1;

/// A block of device memory, freed at the end.
#[derive(Debug)]
pub struct DeviceMemory {
    address: raw::CUdeviceptr,
    bytes: u64,
    context: Arc<Context>,
}

impl DeviceMemory {
    /// Allocates `bytes >= 1` bytes in a bound context.
    pub fn new(context: &Arc<Context>, bytes: u64) -> CallResult<Self> {
        let mut address = 0;
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the context is current; one address is written.
        check("cuMemAlloc_v2", unsafe {
            raw::cuMemAlloc_v2(&mut address, size)
        })?;
        Ok(Self {
            address,
            bytes,
            context: Arc::clone(context),
        })
    }

    /// Returns its first address.
    pub fn address(&self) -> raw::CUdeviceptr {
        self.address
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let _bound = self.context.bind();
        // SAFETY: allocated by `new` and freed once. The owner has waited for all work that uses it.
        let _ = unsafe { raw::cuMemFree_v2(self.address) };
    }
}

/// A block of pinned host memory, freed at the end.
#[derive(Debug)]
pub struct PinnedMemory {
    start: NonNull<u8>,
    bytes: u64,
    context: Arc<Context>,
}

// SAFETY: plain memory with one owner; the driver lets any thread use portable pinned memory.
unsafe impl Send for PinnedMemory {}

impl PinnedMemory {
    /// Allocates `bytes >= 1` bytes in a bound context.
    pub fn new(context: &Arc<Context>, bytes: u64) -> CallResult<Self> {
        let mut start = std::ptr::null_mut();
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the context is current; one address is written.
        let code = unsafe { raw::cuMemHostAlloc(&mut start, size, PORTABLE) };
        check("cuMemHostAlloc", code)?;
        let start = NonNull::new(start.cast()).ok_or(CallError {
            call: "cuMemHostAlloc",
            code: Code::Driver(CUresult::CUDA_ERROR_OUT_OF_MEMORY),
        })?;
        Ok(Self {
            start,
            bytes,
            context: Arc::clone(context),
        })
    }

    /// Returns its start, which is aligned for every element type.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        let _bound = self.context.bind();
        // SAFETY: allocated by `new` and freed once. The owner has waited for all copies that use it.
        let _ = unsafe { raw::cuMemFreeHost(self.start.as_ptr().cast()) };
    }
}
