//! The context of a GPU, and matrices in memory that is pinned for it.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::rc::Rc;

use anyhow::Context as _;
use isochron_devices::CudaInfo;

use super::foreign::{CUcontext, CUdevice, Driver, check, find_driver};

/// Memory that every context treats as pinned.
const PORTABLE: u32 = 1;

/// A GPU's primary context, current on the thread that has made this value until it goes out of scope.
pub struct BoundContext {
    pub(super) driver: &'static Driver,
    device: CUdevice,
    /// It belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl BoundContext {
    /// Retains the primary context of `gpu` and makes it current.
    ///
    /// # Errors
    /// Fails if a call of the driver fails.
    pub fn new(gpu: &CudaInfo) -> anyhow::Result<Rc<Self>> {
        let driver = find_driver()?;
        let ordinal = i32::try_from(gpu.ordinal).unwrap_or(i32::MAX);
        let mut device = 0;
        let mut handle: CUcontext = std::ptr::null_mut();
        // SAFETY: initialising twice does no harm.
        check("cuInit", unsafe { (driver.init)(0) })?;
        // SAFETY: one integer is written.
        let code = unsafe { (driver.device)(&mut device, ordinal) };
        check("cuDeviceGet", code)?;
        // SAFETY: the driver gave the device; one pointer is written.
        let code = unsafe { (driver.retain)(&mut handle, device) };
        check("cuDevicePrimaryCtxRetain", code)?;
        // SAFETY: the context was retained just now.
        let pushed = check("cuCtxPushCurrent_v2", unsafe { (driver.push)(handle) });
        if let Err(error) = pushed {
            // SAFETY: retained above, and released once.
            unsafe { (driver.release)(device) };
            return Err(error);
        }
        Ok(Rc::new(Self { driver, device, _thread: PhantomData }))
    }
}

impl Drop for BoundContext {
    fn drop(&mut self) {
        let mut popped = std::ptr::null_mut();
        // SAFETY: one pointer is written; `new` has pushed the context on this thread, which the value does not leave.
        unsafe { (self.driver.pop)(&mut popped) };
        // SAFETY: retained once by `new`; memory and streams hold an `Rc` of this value, so that they are gone.
        unsafe { (self.driver.release)(self.device) };
    }
}

/// Bytes of pinned host memory, freed at the end.
pub(super) struct PinnedBytes {
    pub(super) start: NonNull<u8>,
    context: Rc<BoundContext>,
}

impl PinnedBytes {
    /// Pins `bytes >= 1` bytes.
    pub(super) fn new(context: &Rc<BoundContext>, bytes: usize) -> anyhow::Result<Self> {
        let mut start: *mut c_void = std::ptr::null_mut();
        // SAFETY: the context is current; one address is written.
        let code = unsafe { (context.driver.pin)(&mut start, bytes, PORTABLE) };
        check("cuMemHostAlloc", code)?;
        Ok(Self {
            start: NonNull::new(start.cast()).context("the driver pinned nothing")?,
            context: Rc::clone(context),
        })
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` and freed once; the owner has waited for all copies that use it.
        unsafe { (self.context.driver.unpin)(self.start.as_ptr().cast()) };
    }
}

/// Numbers in pinned host memory, which a GPU reads and writes without a copy in between.
pub struct PinnedVec {
    memory: Option<PinnedBytes>,
    len: usize,
}

impl PinnedVec {
    /// Copies `values` into memory that is pinned for the GPU of `context`, and for all others.
    ///
    /// # Errors
    /// Fails without such memory.
    pub fn copy_of(context: &Rc<BoundContext>, values: &[f64]) -> anyhow::Result<Self> {
        let len = values.len();
        let memory =
            (len > 0).then(|| PinnedBytes::new(context, size_of_val(values))).transpose()?;
        let pinned = Self { memory, len };
        // SAFETY: the memory is as large as `values`, aligned for all types, and has no other user.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), pinned.start(), len) };
        Ok(pinned)
    }

    fn start(&self) -> *mut f64 {
        let memory = self.memory.as_ref();
        memory.map_or(NonNull::dangling(), |memory| memory.start.cast()).as_ptr()
    }

    /// Returns the numbers.
    pub fn as_slice(&self) -> &[f64] {
        // SAFETY: `copy_of` has written `len` numbers there, which live as long as this value.
        unsafe { std::slice::from_raw_parts(self.start(), self.len) }
    }

    /// Returns the numbers, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [f64] {
        // SAFETY: as above, and the borrow excludes others.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len) }
    }
}
