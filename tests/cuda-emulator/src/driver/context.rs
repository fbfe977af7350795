//! Contexts: a context is the number of its device, from 1.

use super::devices::find_device;
use crate::call::{Out, export, initialised, write_result};
use crate::codes::{INVALID_CONTEXT, INVALID_VALUE};
use crate::state::{Violation, lock, pop_current, push_current};
use std::ffi::c_int;

export! { driver:
    Plain fn cuDevicePrimaryCtxRetain(context: Out<'_, usize>, number: c_int) {
        let index = find_device(number)?;
        lock().alive(index)?;
        write_result(context, index + 1)?;
        lock().devices[index].retained += 1;
        Ok(())
    }

    Releases fn cuDevicePrimaryCtxRelease_v2(number: c_int) {
        let index = find_device(number)?;
        let mut emulator = lock();
        let retained = &mut emulator.devices[index].retained;
        *retained = retained.checked_sub(1).ok_or(INVALID_VALUE)?;
        if *retained == 0 && emulator.is_left_in(index) {
            emulator.report_violation(Violation::ContextNotEmpty);
        }
        emulator.alive(index)
    }

    Plain fn cuCtxPushCurrent_v2(context: usize) {
        initialised()?;
        let index = context.checked_sub(1).ok_or(INVALID_VALUE)?;
        let known = lock().devices.get(index).map(|device| device.retained);
        match known.ok_or(INVALID_VALUE)? {
            0 => Err(INVALID_CONTEXT),
            _ => {
                push_current(index);
                Ok(())
            }
        }
    }

    Releases fn cuCtxPopCurrent_v2(context: Out<'_, usize>) {
        let index = pop_current().ok_or(INVALID_CONTEXT)?;
        write_result(context, index + 1)
    }
}
