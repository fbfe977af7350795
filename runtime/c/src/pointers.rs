//! Pointers of a C program, checked as far as they can be.

use std::ffi::{CStr, c_char};

use crate::status::CallFailure;

/// Writes an answer.
///
/// # Safety
/// `to` is null, or may be written.
pub(crate) unsafe fn write<T>(to: *mut T, name: &str, value: T) -> Result<(), CallFailure> {
    check(to, name)?;
    // SAFETY: not null, so it may be written, as the caller says.
    unsafe { to.write(value) };
    Ok(())
}

/// Returns a text, which is empty for a null pointer.
///
/// # Safety
/// `text` is null or ends with a zero byte; it stays as it is for `'a`.
pub(crate) unsafe fn read_config<'a>(
    text: *const c_char,
    name: &str,
) -> Result<&'a str, CallFailure> {
    match text.is_null() {
        true => Ok(""),
        // SAFETY: as the caller says.
        false => unsafe { read_text(text, name) },
    }
}

/// Returns a text.
///
/// # Safety
/// As [`read_config`].
pub(crate) unsafe fn read_text<'a>(
    text: *const c_char,
    name: &str,
) -> Result<&'a str, CallFailure> {
    check(text, name)?;
    // SAFETY: not null, so it ends with a zero byte, as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str();
    text.map_err(|_| CallFailure::argument(name, "is not UTF-8"))
}

/// Returns one value.
///
/// # Safety
/// `data` is null or may be read.
pub(crate) unsafe fn read<T: Copy>(data: *const T, name: &str) -> Result<T, CallFailure> {
    check(data, name)?;
    // SAFETY: not null, so it may be read, as the caller says.
    Ok(unsafe { data.read() })
}

/// Returns `length` elements.
///
/// # Safety
/// `data` is null or has `length` elements, which stay as they are for `'a`.
pub(crate) unsafe fn read_slice<'a, T>(
    data: *const T,
    length: usize,
    name: &str,
) -> Result<&'a [T], CallFailure> {
    if length == 0 {
        return Ok(&[]);
    }
    check(data, name)?;
    check_length(data, length, name)?;
    // SAFETY: not null, so it has these elements, as the caller says; they span at most `isize::MAX` bytes.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

/// Returns `length` elements to be written.
///
/// # Safety
/// `data` is null or has `length` elements, which nothing else uses for `'a`.
pub(crate) unsafe fn write_slice<'a, T>(
    data: *mut T,
    length: usize,
    name: &str,
) -> Result<&'a mut [T], CallFailure> {
    if length == 0 {
        return Ok(&mut []);
    }
    check(data, name)?;
    check_length(data, length, name)?;
    // SAFETY: not null, so it has these elements for us alone, as the caller says; they span at most `isize::MAX` bytes.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, length) })
}

/// Refuses null pointers and those that no element can have.
pub(crate) fn check<T>(data: *const T, name: &str) -> Result<(), CallFailure> {
    match data {
        _ if data.is_null() => Err(CallFailure::argument(name, "is a null pointer")),
        _ if !data.is_aligned() => Err(CallFailure::argument(
            name,
            "is not aligned to its elements",
        )),
        _ => Ok(()),
    }
}

/// Refuses what ends beyond the address space.
fn check_length<T>(data: *const T, length: usize, name: &str) -> Result<(), CallFailure> {
    let end = length.checked_mul(size_of::<T>());
    let end = end.and_then(|bytes| data.addr().checked_add(bytes));
    match end.is_some_and(|end| isize::try_from(end).is_ok()) {
        true => Ok(()),
        false => {
            let reason = format!("{length} elements are more than any memory has");
            Err(CallFailure::argument(name, reason))
        }
    }
}

/// Returns a size or a number of units.
pub(crate) fn to_size(value: i64, name: &str) -> Result<usize, CallFailure> {
    usize::try_from(value).map_err(|_| CallFailure::argument(name, format!("{value} is negative")))
}

/// Returns several sizes.
///
/// # Safety
/// `numbers` is null or has `length` numbers.
pub(crate) unsafe fn read_sizes(
    numbers: *const i64,
    length: usize,
    name: &str,
) -> Result<Vec<usize>, CallFailure> {
    // SAFETY: as the caller says.
    let numbers = unsafe { read_slice(numbers, length, name)? };
    numbers
        .iter()
        .map(|&number| to_size(number, name))
        .collect()
}
