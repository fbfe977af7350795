//! The work that is queued on streams, and its execution.

use crate::arithmetic::DeviceGemm;
use crate::codes::ILLEGAL_ADDRESS;
use crate::memory::Storage;
use crate::state::Emulator;
use std::sync::Arc;

/// One end of a copy.
#[derive(Debug, Clone)]
pub enum CopyEnd {
    /// A device address.
    Device(u64),
    /// A host address.
    Host(usize),
    /// The bytes, without gaps, of host memory that is not pinned, read when the copy was queued.
    Staged(Vec<u8>),
}

/// A copy of `height` lines of `width` bytes.
#[derive(Debug, Clone)]
pub struct Copy {
    pub from: CopyEnd,
    pub from_pitch: usize,
    pub to: CopyEnd,
    pub to_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// Work on a stream.
#[derive(Debug, Clone)]
pub enum StreamWork {
    Copy(Copy),
    Gemm(DeviceGemm),
    /// Reaches the event for the `n`-th time.
    Record(u64, u64),
    /// Holds the stream back until the event has been reached for the `n`-th time.
    Wait(u64, u64),
}

/// Work in a queue, and the code with which it is to fail.
#[derive(Debug, Clone)]
pub struct Queued {
    pub work: StreamWork,
    pub fails: Option<u32>,
}

/// Memory of the work, kept alive until it is done.
type Held = Vec<Arc<Storage>>;

/// Work with all addresses looked up.
pub type Ready = Box<dyn FnOnce()>;

/// Counts the bytes from the start of the first to the end of the last of `height` lines of `width` bytes.
pub fn count_span((width, height): (usize, usize), pitch: usize) -> u64 {
    match height {
        0 => 0,
        _ => ((height - 1) * pitch + width) as u64,
    }
}

impl Emulator {
    /// Looks up the addresses of work on a device.
    pub fn prepare(&self, device: usize, work: StreamWork) -> Result<Option<Ready>, u32> {
        match work {
            StreamWork::Copy(copy) => self.prepare_copy(device, copy).map(Some),
            StreamWork::Gemm(gemm) => self.prepare_gemm(device, gemm).map(Some),
            StreamWork::Record(..) | StreamWork::Wait(..) => Ok(None),
        }
    }

    fn prepare_copy(&self, device: usize, copy: Copy) -> Result<Ready, u32> {
        let size = (copy.width, copy.height);
        let mut held = Held::new();
        let from_bytes = count_span(size, copy.from_pitch);
        let from = self.find_end(device, &copy.from, from_bytes, &mut held)?;
        let to_bytes = count_span(size, copy.to_pitch);
        let to = self.find_end(device, &copy.to, to_bytes, &mut held)?;
        Ok(Box::new(move || {
            let (_held, copy) = (held, copy);
            for line in 0..copy.height {
                let from = from.wrapping_add(line * copy.from_pitch);
                let to = to.wrapping_add(line * copy.to_pitch);
                // SAFETY: device ends were looked up and hold `height` lines of `width` bytes `pitch` apart. Host ends
                // do so by the promise of the program that queued the copy, as on a GPU. The two ends are in different
                // kinds of memory, or in different allocations.
                unsafe { std::ptr::copy_nonoverlapping(from, to, copy.width) };
            }
        }))
    }

    /// Looks up one end of a copy, which spans `bytes`.
    fn find_end(
        &self,
        device: usize,
        end: &CopyEnd,
        bytes: u64,
        held: &mut Held,
    ) -> Result<*mut u8, u32> {
        Ok(match end {
            CopyEnd::Device(address) => {
                let (storage, at) = self.device_memory(device, *address, bytes)?;
                held.push(storage);
                at
            }
            CopyEnd::Host(address) => *address as *mut u8,
            CopyEnd::Staged(bytes) => bytes.as_ptr().cast_mut(),
        })
    }

    fn prepare_gemm(&self, device: usize, gemm: DeviceGemm) -> Result<Ready, u32> {
        let size = gemm.kind.bytes();
        let mut held = Held::new();
        let matrices = [
            (gemm.a, gemm.m, gemm.k, gemm.lda),
            (gemm.b, gemm.k, gemm.n, gemm.ldb),
            (gemm.c, gemm.m, gemm.n, gemm.ldc),
        ];
        let mut found = [std::ptr::NonNull::<u64>::dangling().as_ptr().cast(); 3];
        for ((address, rows, cols, ld), found) in matrices.into_iter().zip(&mut found) {
            if rows == 0 || cols == 0 {
                continue;
            }
            if !address.is_multiple_of(size as u64) {
                return Err(ILLEGAL_ADDRESS);
            }
            let bytes = count_span((rows * size, cols), ld * size);
            let (storage, at) = self.device_memory(device, address, bytes)?;
            held.push(storage);
            *found = at;
        }
        Ok(Box::new(move || {
            let _held = held;
            gemm.run(found[0], found[1], found[2]);
        }))
    }
}
