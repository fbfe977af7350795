//! Texts that are written into memory of the caller.

use std::ffi::c_char;

/// Writes `text`, cut to fit and ended by 0.
///
/// # Safety
/// `to` points to `bytes` bytes that may be written.
pub unsafe fn write_text(to: *mut c_char, bytes: usize, text: &str) {
    let Some(room) = bytes.checked_sub(1) else {
        return;
    };
    let count = text.len().min(room);
    // SAFETY: `count + 1 <= bytes`.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), count);
        to.add(count).write(0);
    }
}
