//! Texts that are written into memory of the caller.

use std::ffi::c_char;

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
