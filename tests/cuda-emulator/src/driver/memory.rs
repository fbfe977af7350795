//! Device memory, and pinned host memory.

use super::write_result;
use crate::call::{Class, driver};
use crate::codes::INVALID_VALUE;
use crate::schedule::quiesce;
use crate::state::{Violation, lock};
use std::ffi::{c_uint, c_void};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    driver("cuMemGetInfo_v2", Class::Plain, || {
        let (memory, used) = {
            let emulator = lock();
            let index = emulator.current()?;
            (
                emulator.settings.visible[index].memory,
                emulator.devices[index].used,
            )
        };
        // SAFETY: the caller's promise.
        unsafe { write_result(free, memory.saturating_sub(used) as usize) }?;
        // SAFETY: the caller's promise.
        unsafe { write_result(total, memory as usize) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    driver("cuMemAlloc_v2", Class::Plain, || {
        let mut emulator = lock();
        let index = emulator.current()?;
        let start = emulator.allocate(index, bytes as u64)?;
        // SAFETY: the caller's promise.
        unsafe { write_result(address, start) }
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
        if emulator.is_used(address, bytes) {
            emulator.report_violation(Violation::FreedInUse);
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
        let index = emulator.current()?;
        let start = emulator.pin(index, bytes as u64)?;
        // SAFETY: the caller's promise.
        unsafe { write_result(address, start as *mut c_void) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(address: *mut c_void) -> u32 {
    driver("cuMemFreeHost", Class::Releases, || {
        quiesce();
        let mut emulator = lock();
        let start = address as usize;
        let bytes = emulator.pinned.get(&start).ok_or(INVALID_VALUE)?.bytes;
        let freed = emulator.pinned.remove(&start);
        emulator.pinned_bytes -= bytes;
        if emulator.is_used(start as u64, bytes) {
            emulator.report_violation(Violation::FreedInUse);
            // The work that uses it goes on, and must find memory there.
            std::mem::forget(freed);
        }
        Ok(())
    })
}
