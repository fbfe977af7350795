//! Copies between host and device.

use crate::call::{Class, driver};
use crate::codes::INVALID_VALUE;
use crate::memory::POISON;
use crate::schedule::{drain, enqueue};
use crate::state::{Emulator, lock};
use crate::work::{Copy, End, Work, span};
use std::ffi::c_uint;

/// The layout of `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
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
    /// A copy of one line of bytes. An end is its memory type, host address and device address.
    pub fn line(from: (c_uint, usize, u64), to: (c_uint, usize, u64), bytes: usize) -> Self {
        Self {
            from_x: 0,
            from_y: 0,
            from_type: from.0,
            from_host: from.1,
            from_device: from.2,
            from_array: 0,
            from_pitch: bytes,
            to_x: 0,
            to_y: 0,
            to_type: to.0,
            to_host: to.1,
            to_device: to.2,
            to_array: 0,
            to_pitch: bytes,
            width: bytes,
            height: 1,
        }
    }
}

const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
/// What the driver reports as the largest pitch.
const MAX_PITCH: usize = i32::MAX as usize;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpy2DAsync_v2(copy: *const Copy2d, stream: u64) -> u32 {
    driver("cuMemcpy2DAsync_v2", Class::Queues, || {
        if copy.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, so the caller promises that it can be read.
        let copy = unsafe { copy.read() };
        let (copy, synchronous) = checked_copy(copy)?;
        enqueue(stream, Work::Copy(copy))?;
        if synchronous { drain(stream) } else { Ok(()) }
    })
}

/// The copy that is to be queued, and whether the call must wait for it.
fn checked_copy(c: Copy2d) -> Result<(Copy, bool), u32> {
    let pitch = |pitch: usize| {
        if pitch < c.width || pitch > MAX_PITCH {
            Err(INVALID_VALUE)
        } else {
            Ok(pitch)
        }
    };
    let (from_pitch, to_pitch) = (pitch(c.from_pitch)?, pitch(c.to_pitch)?);
    let from_start = c.from_y * from_pitch + c.from_x;
    let to_start = c.to_y * to_pitch + c.to_x;
    let mut emulator = lock();
    let index = emulator.current()?;
    let on_device = |address: u64, pitch: usize| {
        let bytes = span(c.width, c.height, pitch);
        let found = emulator.device_memory(index, address, bytes);
        found.map(|_| address).map_err(|_| INVALID_VALUE)
    };
    let on_host = |address: usize| {
        let fits = Emulator::can_be_host(address);
        fits.then_some(address).ok_or(INVALID_VALUE)
    };
    let from = match c.from_type {
        DEVICE => End::Device(on_device(c.from_device + from_start as u64, from_pitch)?),
        HOST => End::Host(on_host(c.from_host + from_start)?),
        _ => return Err(INVALID_VALUE),
    };
    let to = match c.to_type {
        DEVICE => End::Device(on_device(c.to_device + to_start as u64, to_pitch)?),
        HOST => End::Host(on_host(c.to_host + to_start)?),
        _ => return Err(INVALID_VALUE),
    };
    let mut copy = Copy {
        from,
        from_pitch,
        to,
        to_pitch,
        width: c.width,
        height: c.height,
    };
    let synchronous = emulator.treat_host_memory(&mut copy);
    Ok((copy, synchronous))
}

impl Emulator {
    /// Does to the host ends of a copy what the driver would; whether the call must wait for it.
    fn treat_host_memory(&mut self, copy: &mut Copy) -> bool {
        if let End::Host(address) = copy.from
            && !self.is_pinned(address, span(copy.width, copy.height, copy.from_pitch))
        {
            self.pageable_copies += 1;
            let mut bytes = vec![0; copy.width * copy.height];
            for (line, to) in bytes.chunks_exact_mut(copy.width.max(1)).enumerate() {
                let from = (address + line * copy.from_pitch) as *const u8;
                // SAFETY: the caller of the copy promises that its source can be read.
                unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), copy.width) };
            }
            copy.from = End::Staged(bytes);
            copy.from_pitch = copy.width;
        }
        let End::Host(address) = copy.to else {
            return false;
        };
        if !self.is_pinned(address, span(copy.width, copy.height, copy.to_pitch)) {
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
