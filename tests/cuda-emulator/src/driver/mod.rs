//! The functions of the CUDA driver.

pub mod context;
pub mod copy;
pub mod devices;
pub mod memory;
pub mod streams;

use crate::codes::INVALID_VALUE;

/// Writes a result through a pointer of the caller; null is an error.
///
/// # Safety
/// `to` is null or may be written.
unsafe fn write_result<T>(to: *mut T, value: T) -> Result<(), u32> {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so it may be written.
    unsafe { to.write(value) };
    Ok(())
}
