//! Devices, and queries about them.

use super::write_result;
use crate::call::{Class, driver, initialised};
use crate::codes::{INVALID_DEVICE, INVALID_VALUE, NO_DEVICE};
use crate::state::lock;
use crate::text::write_text;
use std::ffi::{c_char, c_int, c_uint};

/// Returns the index of the device of that number.
pub fn find_device(number: c_int) -> Result<usize, u32> {
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
        unsafe { write_result(version, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    driver("cuDeviceGetCount", Class::Plain, || {
        initialised()?;
        let value = lock().devices.len() as c_int;
        // SAFETY: the caller's promise.
        unsafe { write_result(count, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(handle: *mut c_int, ordinal: c_int) -> u32 {
    driver("cuDeviceGet", Class::Plain, || {
        find_device(ordinal)?;
        // SAFETY: the caller's promise.
        unsafe { write_result(handle, ordinal) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, number: c_int) -> u32 {
    driver("cuDeviceGetName", Class::Plain, || {
        let index = find_device(number)?;
        let text = lock().settings.visible[index].name.clone();
        let bytes = usize::try_from(len).map_err(|_| INVALID_VALUE)?;
        // SAFETY: the caller promises room for `len` characters.
        unsafe { write_text(name, bytes, &text) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], number: c_int) -> u32 {
    driver("cuDeviceGetUuid_v2", Class::Plain, || {
        let index = find_device(number)?;
        let value = lock().settings.visible[index].uuid;
        // SAFETY: the caller's promise.
        unsafe { write_result(uuid, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, number: c_int) -> u32 {
    driver("cuDeviceGetPCIBusId", Class::Plain, || {
        let index = find_device(number)?;
        let text = lock().settings.visible[index].pci.clone();
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
        find_device(number)?;
        let known = match what {
            13 => 1_000_000, // clock rate in kHz
            16 => 1,         // multiprocessors
            75 => 9,         // compute capability, major
            76 => 0,         // and minor
            87 => 2,         // single to double precision
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: the caller's promise.
        unsafe { write_result(value, known) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, number: c_int) -> u32 {
    driver("cuDeviceTotalMem_v2", Class::Plain, || {
        let index = find_device(number)?;
        let value = lock().settings.visible[index].memory as usize;
        // SAFETY: the caller's promise.
        unsafe { write_result(bytes, value) }
    })
}
