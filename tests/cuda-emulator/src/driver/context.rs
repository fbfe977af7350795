//! Contexts: a context is the number of its device, from 1.

use super::devices::find_device;
use super::write_result;
use crate::call::{Class, driver, initialised};
use crate::codes::{INVALID_CONTEXT, INVALID_VALUE};
use crate::state::{Violation, lock, pop_current, push_current};
use std::ffi::c_int;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut usize, number: c_int) -> u32 {
    driver("cuDevicePrimaryCtxRetain", Class::Plain, || {
        let index = find_device(number)?;
        lock().alive(index)?;
        // SAFETY: the caller's promise.
        unsafe { write_result(context, index + 1) }?;
        lock().devices[index].retained += 1;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(number: c_int) -> u32 {
    driver("cuDevicePrimaryCtxRelease_v2", Class::Releases, || {
        let index = find_device(number)?;
        let mut emulator = lock();
        let retained = &mut emulator.devices[index].retained;
        *retained = retained.checked_sub(1).ok_or(INVALID_VALUE)?;
        if *retained == 0 && emulator.is_left_in(index) {
            emulator.report_violation(Violation::ContextNotEmpty);
        }
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
            0 => Err(INVALID_CONTEXT),
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
        let index = pop_current().ok_or(INVALID_CONTEXT)?;
        // SAFETY: the caller's promise.
        unsafe { write_result(context, index + 1) }
    })
}
