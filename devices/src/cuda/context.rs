//! The context of a GPU, which owns all its other resources.

use super::check::CallResult;
use super::raw;
use std::marker::PhantomData;
use std::sync::Arc;

/// A GPU's primary context, retained while this value lives.
///
/// The driver keeps a current context for each thread. A thread calls [`Context::bind`] before it uses the GPU, so work
/// may move between threads. Afterwards the thread has its previous context again.
#[derive(Debug)]
pub struct Context {
    device: raw::CUdevice,
    handle: raw::CUcontext,
}

// SAFETY: a context may be used from any thread, and from several at a time, as the driver's manual says; the
// per-thread state, being current, is not in this value.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the primary context of a device that [`super::find::devices`] has listed, and makes it current.
    pub fn new(ordinal: usize) -> CallResult<Self> {
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        let mut device = 0;
        // SAFETY: the driver is initialised, since it has listed devices; one integer is written.
        unsafe { raw::cuDeviceGet(&mut device, ordinal) }?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the driver gave the device; one pointer is written.
        unsafe { raw::cuDevicePrimaryCtxRetain(&mut handle, device) }?;
        Ok(Self { device, handle })
    }

    /// Makes the context current on the calling thread, until the guard goes out of scope.
    pub fn bind(&self) -> CallResult<ContextGuard<'_>> {
        // SAFETY: the context is retained as long as this value lives, and so as long as it is bound.
        unsafe { raw::cuCtxPushCurrent_v2(self.handle) }?;
        Ok(ContextGuard { _context: PhantomData })
    }

    /// Returns the free bytes of the GPU's memory, in a bound context.
    pub fn free_bytes(&self) -> CallResult<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two integers are written.
        unsafe { raw::cuMemGetInfo_v2(&mut free, &mut total) }?;
        Ok(free as u64)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Errors here are those of earlier work, which were reported, or no caller is left to report to.
        // SAFETY: retained once by `new`, and released once here; streams, events and memory hold the context in an
        // `Arc`, so they are gone, and it is current on no thread, since a `ContextGuard` borrows it.
        let _ = unsafe { raw::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A context that is current on this thread. The previous one is current again when this guard goes out of scope.
#[derive(Debug)]
#[must_use]
pub struct ContextGuard<'c> {
    /// The guard belongs to the thread that has bound the context.
    _context: PhantomData<(&'c Context, *const ())>,
}

impl Drop for ContextGuard<'_> {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: one pointer is written; `bind` has pushed the context on this thread, which a `ContextGuard` does not
        // leave.
        let _ = unsafe { raw::cuCtxPopCurrent_v2(&mut popped) };
    }
}

/// A handle or memory that belongs to a context, and is freed at the end.
#[derive(Debug)]
pub struct Owned<H: Copy> {
    handle: H,
    free: unsafe fn(H) -> CallResult<()>,
    context: Arc<Context>,
}

// SAFETY: by the contract of `new`.
unsafe impl<H: Copy> Send for Owned<H> {}

impl<H: Copy> Owned<H> {
    /// Takes ownership of a handle, or of memory, made in `context`.
    ///
    /// # Safety
    /// `handle` has no other owner, and may be used from any thread in which the context is current, by one at a time.
    /// `free` is the function that frees it. It is dropped when no work uses it any more.
    pub unsafe fn new(
        context: &Arc<Context>,
        handle: H,
        free: unsafe fn(H) -> CallResult<()>,
    ) -> Self {
        Self { handle, free, context: Arc::clone(context) }
    }

    pub fn handle(&self) -> H {
        self.handle
    }
}

impl<H: Copy> Drop for Owned<H> {
    fn drop(&mut self) {
        let _bound = self.context.bind();
        // SAFETY: by the contract of `new`; it is freed once.
        let _ = unsafe { (self.free)(self.handle) };
    }
}
