//! Streams, events, and copies on streams.

use super::check::CallResult;
use super::context::{Context, Owned};
use super::raw;
use std::sync::Arc;

/// A stream that is not ordered with the legacy default stream, which is unused here.
const NON_BLOCKING: u32 = 1;
/// An event for which threads sleep while they wait (1), and which takes no time stamp (2).
const BLOCKING_SYNC_WITHOUT_TIMING: u32 = 1 | 2;

/// A queue of work on a GPU, executed in order.
#[derive(Debug)]
pub struct Stream(Owned<raw::CUstream>);

impl Stream {
    /// Makes a stream in a bound context.
    pub fn new(context: &Arc<Context>) -> CallResult<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current; one handle is written.
        unsafe { raw::cuStreamCreate(&mut handle, NON_BLOCKING) }?;
        // SAFETY: a fresh stream, which may be used from any thread in which its context is current.
        let stream = unsafe { Owned::new(context, handle, raw::cuStreamDestroy_v2) };
        Ok(Self(stream))
    }

    /// Returns the driver's handle.
    pub fn handle(&self) -> raw::CUstream {
        self.0.handle()
    }

    /// Waits until all work queued so far is done.
    pub fn synchronize(&self) -> CallResult<()> {
        // SAFETY: the stream lives.
        unsafe { raw::cuStreamSynchronize(self.handle()) }
    }

    /// Lets work queued from now on begin after the last record of `event`.
    pub fn wait(&self, event: &Event) -> CallResult<()> {
        // SAFETY: the stream and the event live; the driver keeps its own reference to the event.
        unsafe { raw::cuStreamWaitEvent(self.handle(), event.0.handle(), 0) }
    }

    /// Queues a copy of a `rows × cols` part between `host`, in a matrix with the leading dimension `host_ld`, and
    /// `device`.
    ///
    /// # Safety
    /// Both matrices hold the part. The host end is pinned, stays allocated, and has no other user before the copy is
    /// done (except readers of a source).
    pub unsafe fn copy<T>(
        &self,
        host: *mut T,
        host_ld: usize,
        device: DevicePlace,
        rows: usize,
        cols: usize,
        to_host: bool,
    ) -> CallResult<()> {
        if rows == 0 || cols == 0 {
            return Ok(());
        }
        let host_end = (raw::CUmemorytype::CU_MEMORYTYPE_HOST, host_ld);
        let device_end = (raw::CUmemorytype::CU_MEMORYTYPE_DEVICE, device.ld);
        let (from, to) = if to_host { (device_end, host_end) } else { (host_end, device_end) };
        // The types of memory choose between the addresses of the host and of the device.
        let copy = raw::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: from.0,
            srcHost: host.cast(),
            srcDevice: device.address,
            srcArray: std::ptr::null_mut(),
            srcPitch: from.1 * size_of::<T>(),
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: to.0,
            dstHost: host.cast(),
            dstDevice: device.address,
            dstArray: std::ptr::null_mut(),
            dstPitch: to.1 * size_of::<T>(),
            WidthInBytes: rows * size_of::<T>(),
            Height: cols,
        };
        // SAFETY: by this function's contract.
        unsafe { raw::cuMemcpy2DAsync_v2(&copy, self.handle()) }
    }
}

/// A matrix in device memory: its address and its leading dimension in elements.
#[derive(Debug, Clone, Copy)]
pub struct DevicePlace {
    pub address: raw::CUdeviceptr,
    pub ld: usize,
}

impl DevicePlace {
    /// Returns the place of element `(row, col)`.
    pub fn at<T>(self, row: usize, col: usize) -> Self {
        let offset = (col * self.ld + row) * size_of::<T>();
        Self { address: self.address + offset as raw::CUdeviceptr, ..self }
    }
}

/// A mark in a stream that others can wait for.
#[derive(Debug)]
pub struct Event(Owned<raw::CUevent>);

impl Event {
    /// Makes an event in a bound context; it counts as reached until it is recorded.
    pub fn new(context: &Arc<Context>) -> CallResult<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current; one handle is written.
        unsafe { raw::cuEventCreate(&mut handle, BLOCKING_SYNC_WITHOUT_TIMING) }?;
        // SAFETY: a fresh event, which may be used from any thread in which its context is current.
        let event = unsafe { Owned::new(context, handle, raw::cuEventDestroy_v2) };
        Ok(Self(event))
    }

    /// Marks the work queued on the stream so far.
    pub fn record(&self, stream: &Stream) -> CallResult<()> {
        // SAFETY: both live, in the same context.
        unsafe { raw::cuEventRecord(self.0.handle(), stream.handle()) }
    }

    /// Waits until the work marked last is done. The thread sleeps.
    pub fn synchronize(&self) -> CallResult<()> {
        // SAFETY: the event lives.
        unsafe { raw::cuEventSynchronize(self.0.handle()) }
    }
}
