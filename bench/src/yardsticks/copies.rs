//! Copies between pinned memory and a GPU: the speed of the link itself.

use std::rc::Rc;
use std::time::Instant;

use isochron_devices::CudaInfo;

use super::foreign::{CUDA_MEMCPY2D, CUdeviceptr, CUmemorytype, StreamHandle, check};
use super::pinned::{BoundContext, PinnedBytes};

/// A stream that is not ordered with the legacy default stream.
const NON_BLOCKING: u32 = 1;

/// Times of copies of `bytes` bytes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PinnedCopies {
    /// From pinned memory to the GPU, alone.
    pub up_s: f64,
    /// From the GPU to pinned memory, alone.
    pub down_s: f64,
    /// Both at the same time, until the longer one is done.
    pub both_s: f64,
}

/// Times copies of `rows` lines of `pitch` bytes each way; both are at least 1.
///
/// # Errors
/// Fails if a call of the driver fails; a lack of memory for two such blocks on the GPU and two in pinned memory.
pub fn time_pinned_copies(
    gpu: &CudaInfo,
    rows: usize,
    pitch: usize,
) -> anyhow::Result<PinnedCopies> {
    let context = BoundContext::new(gpu)?;
    let bytes = rows * pitch;
    let blocks = Blocks {
        rows,
        pitch,
        device: DeviceBytes::new(&context, 2 * bytes)?,
        pinned: PinnedBytes::new(&context, 2 * bytes)?,
        up: CopyStream::new(&context)?,
        down: CopyStream::new(&context)?,
    };
    Ok(PinnedCopies {
        up_s: blocks.time(true, false)?,
        down_s: blocks.time(false, true)?,
        both_s: blocks.time(true, true)?,
    })
}

/// Memory for a block that goes up and one that comes down. The streams are dropped first: copies end before the
/// memory.
struct Blocks {
    rows: usize,
    pitch: usize,
    up: CopyStream,
    down: CopyStream,
    device: DeviceBytes,
    pinned: PinnedBytes,
}

impl Blocks {
    /// Copies up, down, or both at the same time. Returns the seconds until all is done.
    fn time(&self, goes_up: bool, comes_down: bool) -> anyhow::Result<f64> {
        let begin = Instant::now();
        if goes_up {
            self.up.copy(&self.copy(false))?;
        }
        if comes_down {
            self.down.copy(&self.copy(true))?;
        }
        self.up.synchronize()?;
        self.down.synchronize()?;
        Ok(begin.elapsed().as_secs_f64())
    }

    /// Returns the copy of the first half to the GPU, or of the second half to the host.
    fn copy(&self, to_host: bool) -> CUDA_MEMCPY2D {
        let offset = usize::from(to_host) * self.rows * self.pitch;
        let host = self.pinned.start.as_ptr().wrapping_add(offset);
        let device = self.device.address + offset as CUdeviceptr;
        let (host_type, device_type) =
            (CUmemorytype::CU_MEMORYTYPE_HOST, CUmemorytype::CU_MEMORYTYPE_DEVICE);
        CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: if to_host { device_type } else { host_type },
            srcHost: host.cast(),
            srcDevice: device,
            srcArray: std::ptr::null_mut(),
            srcPitch: self.pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: if to_host { host_type } else { device_type },
            dstHost: host.cast(),
            dstDevice: device,
            dstArray: std::ptr::null_mut(),
            dstPitch: self.pitch,
            WidthInBytes: self.pitch,
            Height: self.rows,
        }
    }
}

/// Bytes of GPU memory, freed at the end.
struct DeviceBytes {
    address: CUdeviceptr,
    context: Rc<BoundContext>,
}

impl DeviceBytes {
    fn new(context: &Rc<BoundContext>, bytes: usize) -> anyhow::Result<Self> {
        let mut address = 0;
        // SAFETY: the context is current; one address is written.
        let code = unsafe { (context.driver.allocate)(&mut address, bytes) };
        check("cuMemAlloc_v2", code)?;
        Ok(Self { address, context: Rc::clone(context) })
    }
}

impl Drop for DeviceBytes {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` and freed once; the streams that use it have been waited for.
        unsafe { (self.context.driver.free)(self.address) };
    }
}

/// A queue of copies, done in order.
struct CopyStream {
    handle: StreamHandle,
    context: Rc<BoundContext>,
}

impl CopyStream {
    fn new(context: &Rc<BoundContext>) -> anyhow::Result<Self> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the context is current; one handle is written.
        let code = unsafe { (context.driver.create_stream)(&mut handle, NON_BLOCKING) };
        check("cuStreamCreate", code)?;
        Ok(Self { handle, context: Rc::clone(context) })
    }

    fn copy(&self, copy: &CUDA_MEMCPY2D) -> anyhow::Result<()> {
        // SAFETY: both ends lie in the memory of `Blocks`, the host end is pinned, and the stream is waited for before
        // the memory goes.
        let code = unsafe { (self.context.driver.copy)(copy, self.handle) };
        check("cuMemcpy2DAsync_v2", code)
    }

    fn synchronize(&self) -> anyhow::Result<()> {
        // SAFETY: the stream lives.
        let code = unsafe { (self.context.driver.synchronize)(self.handle) };
        check("cuStreamSynchronize", code)
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        // After an error copies may be under way.
        let _ = self.synchronize();
        // SAFETY: created by `new` and destroyed once.
        unsafe { (self.context.driver.destroy_stream)(self.handle) };
    }
}
