//! Streams, events, and copies on streams.

use super::check::{CallResult, check};
use super::context::Context;
use super::raw;
use std::sync::Arc;

/// A stream that is not ordered with the legacy default stream, which is unused here.
const NON_BLOCKING: u32 = 1;
/// An event for which threads sleep while they wait (1), and which takes no time stamp (2).
const BLOCKING_SYNC_WITHOUT_TIMING: u32 = 1 | 2;

/// A queue of work on a GPU, executed in order.
#[derive(Debug)]
pub struct Stream {
    handle: raw::CUstream,
    context: Arc<Context>,
}

// SAFETY: a stream may be used from any thread in which its context is current.
unsafe impl Send for Stream {}

impl Stream {
    /// Makes a stream in a bound context.
    pub fn new(context: &Arc<Context>) -> CallResult<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current; one handle is written.
        let code = unsafe { raw::cuStreamCreate(&mut handle, NON_BLOCKING) };
        check("cuStreamCreate", code)?;
        Ok(Self {
            handle,
            context: Arc::clone(context),
        })
    }

    /// Returns the driver's handle.
    pub fn handle(&self) -> raw::CUstream {
        self.handle
    }

    /// Waits until all work queued so far is done.
    pub fn synchronize(&self) -> CallResult<()> {
        // SAFETY: the stream lives.
        check("cuStreamSynchronize", unsafe {
            raw::cuStreamSynchronize(self.handle)
        })
    }

    /// Lets work queued from now on begin after the last record of `event`.
    pub fn wait(&self, event: &Event) -> CallResult<()> {
        // SAFETY: the stream and the event live; the driver keeps its own reference to the event.
        let code = unsafe { raw::cuStreamWaitEvent(self.handle, event.handle, 0) };
        check("cuStreamWaitEvent", code)
    }

    /// Queues a copy of a matrix part.
    ///
    /// # Safety
    /// Both ends hold `height` lines of `width` bytes, `pitch` bytes apart. The host end is pinned, stays allocated, and
    /// has no other user before the copy is done (except readers of a source).
    pub unsafe fn copy(&self, copy: &MatrixCopy) -> CallResult<()> {
        if copy.width == 0 || copy.height == 0 {
            return Ok(());
        }
        let mut raw = raw::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: raw::CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: std::ptr::null(),
            srcDevice: 0,
            srcArray: std::ptr::null_mut(),
            srcPitch: copy.host_pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: raw::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: std::ptr::null_mut(),
            dstDevice: 0,
            dstArray: std::ptr::null_mut(),
            dstPitch: copy.device_pitch,
            WidthInBytes: copy.width,
            Height: copy.height,
        };
        if copy.to_host {
            raw.srcMemoryType = raw::CUmemorytype::CU_MEMORYTYPE_DEVICE;
            raw.srcDevice = copy.device;
            raw.srcPitch = copy.device_pitch;
            raw.dstMemoryType = raw::CUmemorytype::CU_MEMORYTYPE_HOST;
            raw.dstHost = copy.host.cast();
            raw.dstPitch = copy.host_pitch;
        } else {
            raw.srcHost = copy.host.cast();
            raw.dstDevice = copy.device;
        }
        // SAFETY: by this function's contract.
        check("cuMemcpy2DAsync_v2", unsafe {
            raw::cuMemcpy2DAsync_v2(&raw, self.handle)
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _bound = self.context.bind();
        // SAFETY: created by `new` and destroyed once.
        let _ = unsafe { raw::cuStreamDestroy_v2(self.handle) };
    }
}

/// A copy between pinned host memory and device memory: `height` lines of `width` bytes.
#[derive(Debug)]
pub struct MatrixCopy {
    pub host: *mut u8,
    pub host_pitch: usize,
    pub device: raw::CUdeviceptr,
    pub device_pitch: usize,
    pub width: usize,
    pub height: usize,
    pub to_host: bool,
}

/// A mark in a stream that others can wait for.
#[derive(Debug)]
pub struct Event {
    handle: raw::CUevent,
    context: Arc<Context>,
}

// SAFETY: an event may be used from any thread in which its context is current.
unsafe impl Send for Event {}

impl Event {
    /// Makes an event in a bound context; it counts as reached until it is recorded.
    pub fn new(context: &Arc<Context>) -> CallResult<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current; one handle is written.
        let code = unsafe { raw::cuEventCreate(&mut handle, BLOCKING_SYNC_WITHOUT_TIMING) };
        check("cuEventCreate", code)?;
        Ok(Self {
            handle,
            context: Arc::clone(context),
        })
    }

    /// Marks the work queued on the stream so far.
    pub fn record(&self, stream: &Stream) -> CallResult<()> {
        // SAFETY: both live, in the same context.
        check("cuEventRecord", unsafe {
            raw::cuEventRecord(self.handle, stream.handle())
        })
    }

    /// Waits until the work marked last is done. The thread sleeps.
    pub fn synchronize(&self) -> CallResult<()> {
        // SAFETY: the event lives.
        check("cuEventSynchronize", unsafe {
            raw::cuEventSynchronize(self.handle)
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _bound = self.context.bind();
        // SAFETY: created by `new` and destroyed once.
        let _ = unsafe { raw::cuEventDestroy_v2(self.handle) };
    }
}
