//! Copies between host and device.

use crate::call::export;
use crate::codes::INVALID_VALUE;
use crate::memory::POISON;
use crate::schedule::{drain, enqueue};
use crate::state::{Emulator, lock};
use crate::work::{Copy, CopyEnd, StreamWork, count_span};
use std::ffi::c_uint;

/// The layout of `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Copy2d {
    from_x: usize,
    from_y: usize,
    from_type: c_uint,
    from_host: usize,
    from_device: u64,
    from_array: usize,
    from_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_type: c_uint,
    to_host: usize,
    to_device: u64,
    to_array: usize,
    to_pitch: usize,
    width: usize,
    height: usize,
}

#[cfg(test)]
impl Copy2d {
    /// Makes a copy of one line of bytes. An end is its memory type, host address and device address.
    pub fn line(from: (c_uint, usize, u64), to: (c_uint, usize, u64), bytes: usize) -> Self {
        Self {
            from_type: from.0,
            from_host: from.1,
            from_device: from.2,
            from_pitch: bytes,
            to_type: to.0,
            to_host: to.1,
            to_device: to.2,
            to_pitch: bytes,
            width: bytes,
            height: 1,
            ..Self::default()
        }
    }
}

const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
/// The largest pitch that the driver reports.
const MAX_PITCH: usize = i32::MAX as usize;

export! { driver:
    Queues fn cuMemcpy2DAsync_v2(copy: Option<&Copy2d>, stream: u64) {
        let (copy, synchronous) = checked_copy(copy.ok_or(INVALID_VALUE)?)?;
        enqueue(stream, StreamWork::Copy(copy))?;
        if synchronous { drain(stream) } else { Ok(()) }
    }
}

/// Returns the copy to queue, and `true` if the call must wait for it.
fn checked_copy(c: &Copy2d) -> Result<(Copy, bool), u32> {
    for pitch in [c.from_pitch, c.to_pitch] {
        if pitch < c.width || pitch > MAX_PITCH {
            return Err(INVALID_VALUE);
        }
    }
    let mut emulator = lock();
    let device = emulator.current()?;
    let size = (c.width, c.height);
    let from_start = c.from_y * c.from_pitch + c.from_x;
    let to_start = c.to_y * c.to_pitch + c.to_x;
    let from = (c.from_type, c.from_host, c.from_device);
    let to = (c.to_type, c.to_host, c.to_device);
    let mut copy = Copy {
        from: emulator.check_end(device, from, from_start, count_span(size, c.from_pitch))?,
        from_pitch: c.from_pitch,
        to: emulator.check_end(device, to, to_start, count_span(size, c.to_pitch))?,
        to_pitch: c.to_pitch,
        width: c.width,
        height: c.height,
    };
    let synchronous = emulator.treat_host_memory(&mut copy);
    Ok((copy, synchronous))
}

impl Emulator {
    /// Checks one end of a copy, its memory type, host address and device address, of which it uses `bytes` from
    /// `offset` on.
    fn check_end(
        &self,
        device: usize,
        (kind, host, address): (c_uint, usize, u64),
        offset: usize,
        bytes: u64,
    ) -> Result<CopyEnd, u32> {
        match kind {
            DEVICE => {
                let address = address + offset as u64;
                self.device_memory(device, address, bytes).map_err(|_| INVALID_VALUE)?;
                Ok(CopyEnd::Device(address))
            }
            HOST if Self::can_be_host(host + offset) => Ok(CopyEnd::Host(host + offset)),
            _ => Err(INVALID_VALUE),
        }
    }

    /// Treats the host ends of a copy as the driver would. Returns `true` if the call must wait for it.
    fn treat_host_memory(&mut self, copy: &mut Copy) -> bool {
        let size = (copy.width, copy.height);
        if let CopyEnd::Host(address) = copy.from
            && !self.is_pinned(address, count_span(size, copy.from_pitch))
        {
            self.pageable_copies += 1;
            let mut bytes = vec![0; copy.width * copy.height];
            for (line, to) in bytes.chunks_exact_mut(copy.width.max(1)).enumerate() {
                let from = (address + line * copy.from_pitch) as *const u8;
                // SAFETY: the caller of the copy promises that its source can be read.
                unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), copy.width) };
            }
            copy.from = CopyEnd::Staged(bytes);
            copy.from_pitch = copy.width;
        }
        let CopyEnd::Host(address) = copy.to else {
            return false;
        };
        if !self.is_pinned(address, count_span(size, copy.to_pitch)) {
            self.pageable_copies += 1;
            return true;
        }
        for line in 0..copy.height {
            let to = (address + line * copy.to_pitch) as *mut u8;
            // SAFETY: the range is inside pinned memory, which this library allocated, and the caller promises not to
            // use it before the copy is done.
            unsafe { std::ptr::write_bytes(to, POISON, copy.width) };
        }
        false
    }
}
