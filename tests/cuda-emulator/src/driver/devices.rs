//! Devices, and queries about them.

use crate::call::{Class, Out, driver, export, initialised, write_result};
use crate::codes::{INVALID_DEVICE, INVALID_VALUE, NO_DEVICE};
use crate::state::lock;
use crate::text::write_text;
use crate::visible::Visible;
use std::ffi::{c_char, c_int, c_uint};

/// Returns the index of the device of that number.
pub fn find_device(number: c_int) -> Result<usize, u32> {
    initialised()?;
    let index = usize::try_from(number).map_err(|_| INVALID_DEVICE)?;
    let is_there = index < lock().devices.len();
    is_there.then_some(index).ok_or(INVALID_DEVICE)
}

/// Returns the properties of the device of that number.
fn describe_device(number: c_int) -> Result<Visible, u32> {
    let index = find_device(number)?;
    Ok(lock().settings.visible[index].clone())
}

export! { driver:
    Plain fn cuInit(_flags: c_uint) {
        let mut emulator = lock();
        if emulator.devices.is_empty() {
            return Err(NO_DEVICE);
        }
        emulator.initialised = true;
        Ok(())
    }

    Plain fn cuDriverGetVersion(version: Out<'_, c_int>) {
        write_result(version, lock().settings.version)
    }

    Plain fn cuDeviceGetCount(count: Out<'_, c_int>) {
        initialised()?;
        write_result(count, lock().devices.len() as c_int)
    }

    Plain fn cuDeviceGet(handle: Out<'_, c_int>, ordinal: c_int) {
        find_device(ordinal)?;
        write_result(handle, ordinal)
    }

    Plain fn cuDeviceGetUuid_v2(uuid: Out<'_, [u8; 16]>, number: c_int) {
        write_result(uuid, describe_device(number)?.uuid)
    }

    Plain fn cuDeviceGetAttribute(value: Out<'_, c_int>, what: c_uint, number: c_int) {
        find_device(number)?;
        let known = match what {
            13 => 1_000_000, // clock rate in kHz
            16 => 1,         // multiprocessors
            75 => 9,         // compute capability, major
            76 => 0,         // and minor
            87 => 2,         // single to double precision
            _ => return Err(INVALID_VALUE),
        };
        write_result(value, known)
    }

    Plain fn cuDeviceTotalMem_v2(bytes: Out<'_, usize>, number: c_int) {
        write_result(bytes, describe_device(number)?.memory as usize)
    }
}

// SAFETY: it stands for the function of libcuda, whose type it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, number: c_int) -> u32 {
    driver("cuDeviceGetName", Class::Plain, || {
        let device = describe_device(number)?;
        let bytes = usize::try_from(len).map_err(|_| INVALID_VALUE)?;
        // SAFETY: the caller promises room for `len` characters.
        unsafe { write_text(name, bytes, &device.name) };
        Ok(())
    })
}

// SAFETY: it stands for the function of libcuda, whose type it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, number: c_int) -> u32 {
    driver("cuDeviceGetPCIBusId", Class::Plain, || {
        let device = describe_device(number)?;
        let bytes = usize::try_from(len).map_err(|_| INVALID_VALUE)?;
        // SAFETY: the caller promises room for `len` characters.
        unsafe { write_text(id, bytes, &device.pci) };
        Ok(())
    })
}
