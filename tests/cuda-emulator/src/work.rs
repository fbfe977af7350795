//! The work that is queued on streams, and how it is done.

use crate::arithmetic::Gemm;
use crate::codes::ILLEGAL_ADDRESS;
use crate::memory::Storage;
use crate::state::Emulator;
use std::sync::Arc;

/// One end of a copy.
#[derive(Debug, Clone)]
pub enum End {
    /// A device address.
    Device(u64),
    /// A host address.
    Host(usize),
    /// What host memory that is not pinned held when the copy was queued, without gaps.
    Staged(Vec<u8>),
}

/// A copy of `height` lines of `width` bytes.
#[derive(Debug, Clone)]
pub struct Copy {
    pub from: End,
    pub from_pitch: usize,
    pub to: End,
    pub to_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// A piece of work.
#[derive(Debug, Clone)]
pub enum Work {
    Copy(Copy),
    Gemm(Gemm),
    /// The event has been reached for the `n`-th time.
    Record(u64, u64),
    /// Nothing goes on before the event has been reached for the `n`-th time.
    Wait(u64, u64),
}

/// Work in a queue, and the code with which it is to fail.
#[derive(Debug, Clone)]
pub struct Queued {
    pub work: Work,
    pub fails: Option<u32>,
}

/// Memory that work uses, kept alive until it is done.
type Held = Vec<Arc<Storage>>;

/// Work with all addresses looked up.
pub enum Ready {
    Copy {
        from: *const u8,
        to: *mut u8,
        copy: Copy,
        _held: Held,
    },
    Gemm {
        a: *const u8,
        b: *const u8,
        c: *mut u8,
        gemm: Gemm,
        _held: Held,
    },
}

/// Bytes from the first to behind the last of `height` lines.
pub fn span(width: usize, height: usize, pitch: usize) -> u64 {
    match height {
        0 => 0,
        _ => ((height - 1) * pitch + width) as u64,
    }
}

impl Emulator {
    /// Looks up the addresses of a piece of work on a device.
    pub fn prepare(&self, device: usize, work: Work) -> Result<Option<Ready>, u32> {
        match work {
            Work::Copy(copy) => self.prepare_copy(device, copy).map(Some),
            Work::Gemm(gemm) => self.prepare_gemm(device, gemm).map(Some),
            Work::Record(..) | Work::Wait(..) => Ok(None),
        }
    }

    fn prepare_copy(&self, device: usize, copy: Copy) -> Result<Ready, u32> {
        let mut held = Held::new();
        let mut find = |end: &End, pitch: usize| -> Result<*mut u8, u32> {
            Ok(match end {
                End::Device(address) => {
                    let bytes = span(copy.width, copy.height, pitch);
                    let (storage, at) = self.device_memory(device, *address, bytes)?;
                    held.push(storage);
                    at
                }
                End::Host(address) => *address as *mut u8,
                End::Staged(bytes) => bytes.as_ptr().cast_mut(),
            })
        };
        let from = find(&copy.from, copy.from_pitch)?;
        let to = find(&copy.to, copy.to_pitch)?;
        Ok(Ready::Copy {
            from,
            to,
            copy,
            _held: held,
        })
    }

    fn prepare_gemm(&self, device: usize, gemm: Gemm) -> Result<Ready, u32> {
        let size = gemm.kind.bytes();
        let mut held = Held::new();
        let mut find = |address: u64, rows: usize, cols: usize, ld: usize| {
            if rows == 0 || cols == 0 {
                return Ok(std::ptr::NonNull::<u64>::dangling().as_ptr().cast());
            }
            if !address.is_multiple_of(size as u64) {
                return Err(ILLEGAL_ADDRESS);
            }
            let bytes = span(rows * size, cols, ld * size);
            let (storage, at) = self.device_memory(device, address, bytes)?;
            held.push(storage);
            Ok(at)
        };
        let a = find(gemm.a, gemm.m, gemm.k, gemm.lda)?;
        let b = find(gemm.b, gemm.k, gemm.n, gemm.ldb)?;
        let c = find(gemm.c, gemm.m, gemm.n, gemm.ldc)?;
        Ok(Ready::Gemm {
            a,
            b,
            c,
            gemm,
            _held: held,
        })
    }
}

impl Ready {
    /// Does the work.
    pub fn run(self) {
        match self {
            Self::Copy { from, to, copy, .. } => {
                for line in 0..copy.height {
                    let from = from.wrapping_add(line * copy.from_pitch);
                    let to = to.wrapping_add(line * copy.to_pitch);
                    // SAFETY: device ends were looked up and hold `height` lines of `width` bytes `pitch` apart;
                    // host ends do so by the promise of whoever queued the copy, as on a GPU. The two ends are in
                    // different kinds of memory, or in different allocations.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, copy.width) };
                }
            }
            Self::Gemm { a, b, c, gemm, .. } => gemm.run(a, b, c),
        }
    }
}
