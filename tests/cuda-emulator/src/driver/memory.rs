//! Device memory, and pinned host memory.

use crate::call::{Out, export, write_result};
use crate::codes::INVALID_VALUE;
use crate::schedule::quiesce;
use crate::state::{Violation, lock};
use std::ffi::{c_uint, c_void};

export! { driver:
    Plain fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) {
        let emulator = lock();
        let index = emulator.current()?;
        let memory = emulator.settings.visible[index].memory;
        let used = emulator.devices[index].used;
        write_result(free, memory.saturating_sub(used) as usize)?;
        write_result(total, memory as usize)
    }

    Plain fn cuMemAlloc_v2(address: Out<'_, u64>, bytes: usize) {
        let mut emulator = lock();
        let index = emulator.current()?;
        write_result(address, emulator.allocate(index, bytes as u64)?)
    }

    Releases fn cuMemFree_v2(address: u64) {
        quiesce();
        let mut emulator = lock();
        if address == 0 {
            return Ok(());
        }
        let block = emulator.blocks.remove(&address).ok_or(INVALID_VALUE)?;
        if emulator.is_used(address, block.bytes) {
            emulator.report_violation(Violation::FreedInUse);
        }
        emulator.devices[block.device].used -= block.bytes;
        emulator.alive(block.device)
    }

    Plain fn cuMemHostAlloc(address: Out<'_, *mut c_void>, bytes: usize, _flags: c_uint) {
        let mut emulator = lock();
        let index = emulator.current()?;
        write_result(address, emulator.pin(index, bytes as u64)? as *mut c_void)
    }

    Releases fn cuMemFreeHost(address: *mut c_void) {
        quiesce();
        let mut emulator = lock();
        let start = address as usize;
        let freed = emulator.pinned.remove(&start).ok_or(INVALID_VALUE)?;
        emulator.pinned_bytes -= freed.bytes;
        if emulator.is_used(start as u64, freed.bytes) {
            emulator.report_violation(Violation::FreedInUse);
            // The work that uses it goes on, and must find memory there.
            std::mem::forget(freed);
        }
        Ok(())
    }
}
