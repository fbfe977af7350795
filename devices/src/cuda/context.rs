//! The context of a GPU, in which everything else lives.

use super::check::{Outcome, check};
use super::raw;

/// A GPU's primary context, retained while this value lives.
///
/// The driver keeps the current context per thread. Whoever uses a GPU calls [`Context::bind`] first, on the thread that
/// does so, so that work may move between threads.
#[derive(Debug)]
pub struct Context {
    device: raw::CUdevice,
    handle: raw::CUcontext,
}

// SAFETY: a context may be used from any thread, and from several at a time, as the driver's manual says; what must be
// per thread, being current, is not in this value.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a device that [`super::find::devices`] has listed, and makes it current.
    pub fn new(ordinal: usize) -> Outcome<Self> {
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        let mut device = 0;
        // SAFETY: the driver is initialised, since it has listed devices; one integer is written.
        check("cuDeviceGet", unsafe {
            raw::cuDeviceGet(&mut device, ordinal)
        })?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the driver gave the device; one pointer is written.
        let code = unsafe { raw::cuDevicePrimaryCtxRetain(&mut handle, device) };
        check("cuDevicePrimaryCtxRetain", code)?;
        let context = Self { device, handle };
        context.bind()?;
        Ok(context)
    }

    /// Makes the context current on the calling thread.
    pub fn bind(&self) -> Outcome<()> {
        // SAFETY: the context is retained as long as this value lives.
        check("cuCtxSetCurrent", unsafe {
            raw::cuCtxSetCurrent(self.handle)
        })
    }

    /// Bytes of the GPU's memory that are free, in a bound context.
    pub fn free_bytes(&self) -> Outcome<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two integers are written.
        check("cuMemGetInfo_v2", unsafe {
            raw::cuMemGetInfo_v2(&mut free, &mut total)
        })?;
        Ok(free as u64)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // The context must not stay current on a thread when it is gone. Errors here are those of earlier work, which
        // were reported, or there is nobody left to report to.
        // SAFETY: no context at all is always a valid choice.
        let _ = unsafe { raw::cuCtxSetCurrent(std::ptr::null_mut()) };
        // SAFETY: retained once by `new`, and released once here; streams, events and memory hold the context in an
        // `Arc`, so that they are gone.
        let _ = unsafe { raw::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}
