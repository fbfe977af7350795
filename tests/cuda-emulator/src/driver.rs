//! The functions of the CUDA driver.

use crate::call::{Class, driver, initialised};
use crate::codes::{INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NO_DEVICE};
use crate::memory::POISON;
use crate::schedule::{drain, drain_event, enqueue, quiesce, serve};
use crate::settings::Schedule;
use crate::state::{CHANGED, Event, Stream, lock, pop_current, push_current};
use crate::work::{Copy, End, Work, span};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// Writes `text`, cut to fit and ended by 0.
///
/// # Safety
/// `to` points to `bytes` bytes that may be written.
pub unsafe fn write_text(to: *mut c_char, bytes: usize, text: &str) {
    let count = text.len().min(bytes.saturating_sub(1));
    for (i, &byte) in text.as_bytes()[..count]
        .iter()
        .chain(&[0])
        .enumerate()
        .take(bytes)
    {
        // SAFETY: `i < bytes`.
        unsafe { to.add(i).write(byte as c_char) };
    }
}

/// Writes a result through a pointer of the caller; null is an error.
///
/// # Safety
/// `to` is null or may be written.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), u32> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so it may be written.
    unsafe { to.write(value) };
    Ok(())
}

/// The device of that number.
fn device(number: c_int) -> Result<usize, u32> {
    initialised()?;
    let index = usize::try_from(number).map_err(|_| INVALID_DEVICE)?;
    if index < lock().devices.len() {
        Ok(index)
    } else {
        Err(INVALID_DEVICE)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> u32 {
    driver("cuInit", Class::Plain, || {
        let mut emulator = lock();
        if emulator.devices.is_empty() {
            return Err(NO_DEVICE);
        }
        emulator.initialised = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    driver("cuDriverGetVersion", Class::Plain, || {
        let value = lock().settings.version;
        // SAFETY: the caller's promise, as with the real function.
        unsafe { give(version, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    driver("cuDeviceGetCount", Class::Plain, || {
        initialised()?;
        let value = lock().devices.len() as c_int;
        // SAFETY: the caller's promise.
        unsafe { give(count, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(handle: *mut c_int, ordinal: c_int) -> u32 {
    driver("cuDeviceGet", Class::Plain, || {
        device(ordinal)?;
        // SAFETY: the caller's promise.
        unsafe { give(handle, ordinal) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, number: c_int) -> u32 {
    driver("cuDeviceGetName", Class::Plain, || {
        let index = device(number)?;
        let text = if lock().settings.mig {
            format!("Emulated CUDA MIG 1g slice {index}")
        } else {
            format!("Emulated CUDA device {index}")
        };
        let bytes = usize::try_from(len).map_err(|_| INVALID_VALUE)?;
        // SAFETY: the caller promises room for `len` characters.
        unsafe { write_text(name, bytes, &text) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], number: c_int) -> u32 {
    driver("cuDeviceGetUuid_v2", Class::Plain, || {
        let index = device(number)?;
        let mut value = [0xE0; 16];
        value[15] = index as u8;
        // SAFETY: the caller's promise.
        unsafe { give(uuid, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, number: c_int) -> u32 {
    driver("cuDeviceGetPCIBusId", Class::Plain, || {
        let index = device(number)?;
        let text = lock().settings.pci[index].clone();
        let bytes = usize::try_from(len).map_err(|_| INVALID_VALUE)?;
        // SAFETY: the caller promises room for `len` characters.
        unsafe { write_text(id, bytes, &text) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    what: c_uint,
    number: c_int,
) -> u32 {
    driver("cuDeviceGetAttribute", Class::Plain, || {
        device(number)?;
        let known = match what {
            13 => 1_000_000, // clock rate in kHz
            16 => 1,         // multiprocessors
            75 => 9,         // compute capability, major
            76 => 0,         // and minor
            87 => 2,         // single to double precision
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: the caller's promise.
        unsafe { give(value, known) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, number: c_int) -> u32 {
    driver("cuDeviceTotalMem_v2", Class::Plain, || {
        let index = device(number)?;
        let value = lock().settings.memory[index] as usize;
        // SAFETY: the caller's promise.
        unsafe { give(bytes, value) }
    })
}

/// A context is the number of its device, from 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut usize, number: c_int) -> u32 {
    driver("cuDevicePrimaryCtxRetain", Class::Plain, || {
        let index = device(number)?;
        lock().alive(index)?;
        // SAFETY: the caller's promise.
        unsafe { give(context, index + 1) }?;
        lock().devices[index].retained += 1;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(number: c_int) -> u32 {
    driver("cuDevicePrimaryCtxRelease_v2", Class::Releases, || {
        let index = device(number)?;
        let mut emulator = lock();
        let retained = &mut emulator.devices[index].retained;
        *retained = retained.checked_sub(1).ok_or(INVALID_VALUE)?;
        emulator.alive(index)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(context: usize) -> u32 {
    driver("cuCtxPushCurrent_v2", Class::Plain, || {
        initialised()?;
        let index = context.checked_sub(1).ok_or(INVALID_VALUE)?;
        let known = lock().devices.get(index).map(|device| device.retained);
        match known.ok_or(INVALID_VALUE)? {
            0 => Err(crate::codes::INVALID_CONTEXT),
            _ => {
                push_current(index);
                Ok(())
            }
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut usize) -> u32 {
    driver("cuCtxPopCurrent_v2", Class::Releases, || {
        let index = pop_current().ok_or(crate::codes::INVALID_CONTEXT)?;
        // SAFETY: the caller's promise.
        unsafe { give(context, index + 1) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    driver("cuMemGetInfo_v2", Class::Plain, || {
        let (memory, used) = {
            let emulator = lock();
            let index = emulator.current()?;
            (
                emulator.settings.memory[index],
                emulator.devices[index].used,
            )
        };
        // SAFETY: the caller's promise.
        unsafe { give(free, memory.saturating_sub(used) as usize) }?;
        // SAFETY: the caller's promise.
        unsafe { give(total, memory as usize) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    driver("cuMemAlloc_v2", Class::Plain, || {
        let mut emulator = lock();
        let index = emulator.current()?;
        let start = emulator.allocate(index, bytes as u64)?;
        // SAFETY: the caller's promise.
        unsafe { give(address, start) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    driver("cuMemFree_v2", Class::Releases, || {
        quiesce();
        let mut emulator = lock();
        if address == 0 {
            return Ok(());
        }
        let bytes = emulator.blocks.get(&address).ok_or(INVALID_VALUE)?.bytes;
        if emulator.uses_device(address, bytes) {
            emulator.violation("device memory is freed that queued work uses");
        }
        let block = emulator.blocks.remove(&address).ok_or(INVALID_VALUE)?;
        emulator.devices[block.device].used -= block.bytes;
        emulator.alive(block.device)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(
    address: *mut *mut c_void,
    bytes: usize,
    _flags: c_uint,
) -> u32 {
    driver("cuMemHostAlloc", Class::Plain, || {
        let mut emulator = lock();
        emulator.current()?;
        let start = emulator.pin(bytes as u64)?;
        // SAFETY: the caller's promise.
        unsafe { give(address, start as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(address: *mut c_void) -> u32 {
    driver("cuMemFreeHost", Class::Releases, || {
        quiesce();
        let mut emulator = lock();
        let start = address as usize;
        let bytes = emulator.pinned.get(&start).ok_or(INVALID_VALUE)?.bytes;
        if emulator.uses_host(start, bytes) {
            emulator.violation("pinned memory is freed that queued work uses");
        }
        emulator.pinned.remove(&start);
        emulator.pinned_bytes -= bytes;
        Ok(())
    })
}

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
    let from = match c.from_type {
        DEVICE => End::Device(on_device(c.from_device + from_start as u64, from_pitch)?),
        HOST => End::Host(c.from_host + from_start),
        _ => return Err(INVALID_VALUE),
    };
    let to = match c.to_type {
        DEVICE => End::Device(on_device(c.to_device + to_start as u64, to_pitch)?),
        HOST => End::Host(c.to_host + to_start),
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

impl crate::state::Emulator {
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut u64, _flags: c_uint) -> u32 {
    driver("cuStreamCreate", Class::Plain, || {
        let mut emulator = lock();
        let index = emulator.current()?;
        let id = emulator.fresh_id();
        // SAFETY: the caller's promise.
        unsafe { give(stream, id) }?;
        emulator.streams.insert(
            id,
            Stream {
                device: index,
                queue: VecDeque::new(),
                running: None,
                destroyed: false,
            },
        );
        if emulator.settings.schedule == Schedule::Threads {
            std::thread::spawn(move || serve(id));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: u64) -> u32 {
    driver("cuStreamDestroy_v2", Class::Releases, || {
        // The driver lets the work end before the stream is gone.
        let outcome = drain(stream);
        let mut emulator = lock();
        if emulator.settings.schedule == Schedule::Threads {
            let state = emulator.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
            state.destroyed = true;
        } else {
            emulator.streams.remove(&stream).ok_or(INVALID_HANDLE)?;
        }
        CHANGED.notify_all();
        outcome
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: u64) -> u32 {
    driver("cuStreamSynchronize", Class::Waits, || {
        lock().stream(stream)?;
        drain(stream)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: u64, event: u64, _flags: c_uint) -> u32 {
    driver("cuStreamWaitEvent", Class::Queues, || {
        let recorded = {
            let emulator = lock();
            emulator.events.get(&event).ok_or(INVALID_HANDLE)?.recorded
        };
        // An event that was never recorded is waited for in no time.
        enqueue(stream, Work::Wait(event, recorded))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut u64, _flags: c_uint) -> u32 {
    driver("cuEventCreate", Class::Plain, || {
        let mut emulator = lock();
        let index = emulator.current()?;
        let id = emulator.fresh_id();
        // SAFETY: the caller's promise.
        unsafe { give(event, id) }?;
        let new = Event {
            device: index,
            recorded: 0,
            ahead: BTreeSet::new(),
        };
        emulator.events.insert(id, new);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: u64) -> u32 {
    driver("cuEventDestroy_v2", Class::Releases, || {
        let mut emulator = lock();
        let removed = emulator.events.remove(&event).ok_or(INVALID_HANDLE)?;
        CHANGED.notify_all();
        emulator.alive(removed.device)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: u64, stream: u64) -> u32 {
    driver("cuEventRecord", Class::Queues, || {
        let number = {
            let mut emulator = lock();
            emulator.stream(stream)?;
            let state = emulator.events.get_mut(&event).ok_or(INVALID_HANDLE)?;
            state.recorded += 1;
            state.ahead.insert(state.recorded);
            state.recorded
        };
        enqueue(stream, Work::Record(event, number))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: u64) -> u32 {
    driver("cuEventSynchronize", Class::Waits, || {
        lock().current()?;
        drain_event(event)
    })
}
