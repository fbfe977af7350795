//! Pointers of a C program, checked as far as they can be.

use std::ffi::{CStr, c_char};

use isochron::Error;

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

/// Writes what an answer is until its call succeeds. A pointer that cannot take it is refused where the answer is written.
///
/// # Safety
/// The conditions of [`write`].
pub(crate) unsafe fn clear<T>(to: *mut T, nothing: T) {
    if !to.is_null() && to.is_aligned() {
        // SAFETY: not null, so it may be written, as the caller says.
        unsafe { to.write(nothing) };
    }
}

/// Returns a text, which is empty for a null pointer.
///
/// # Safety
/// `text` is null or ends with a zero byte; it stays as it is for `'a`.
pub(crate) unsafe fn read_config<'a>(
    text: *const c_char,
    name: &str,
) -> Result<&'a str, CallFailure> {
    if text.is_null() {
        Ok("")
    } else {
        // SAFETY: as the caller says.
        unsafe { read_text(text, name) }
    }
}

/// Returns a text.
///
/// # Safety
/// The conditions of [`read_config`].
pub(crate) unsafe fn read_text<'a>(
    text: *const c_char,
    name: &str,
) -> Result<&'a str, CallFailure> {
    check(text, name)?;
    // SAFETY: not null, so it ends with a zero byte, as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| CallFailure::argument(name, "is not UTF-8"))
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
    check_slice(data, length, name)?;
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
    check_slice(data.cast_const(), length, name)?;
    // SAFETY: not null, so it has these elements for us alone, as the caller says; they span at most `isize::MAX` bytes.
    Ok(unsafe { std::slice::from_raw_parts_mut(data, length) })
}

/// Refuses null pointers and those that no element can have.
pub(crate) fn check<T>(data: *const T, name: &str) -> Result<(), CallFailure> {
    match data {
        _ if data.is_null() => Err(CallFailure::argument(name, "is a null pointer")),
        _ if !data.is_aligned() => {
            Err(CallFailure::argument(name, "is not aligned to its elements"))
        }
        _ => Ok(()),
    }
}

/// Bytes that no array has: no process addresses as many.
const BEYOND_MEMORY: u64 = 1 << 48;

/// Refuses elements whose pointer is wrong, and those that end beyond the address space. No elements need no pointer.
pub(crate) fn check_slice<T>(data: *const T, length: usize, name: &str) -> Result<(), CallFailure> {
    if length == 0 {
        return Ok(());
    }
    check(data, name)?;
    let bytes = length.checked_mul(size_of::<T>());
    let bytes = bytes.filter(|&bytes| (bytes as u64) < BEYOND_MEMORY);
    let end = bytes.and_then(|bytes| data.addr().checked_add(bytes));
    if end.is_some_and(|end| isize::try_from(end).is_ok()) {
        Ok(())
    } else {
        let reason = format!("{length} elements are more than any memory has");
        Err(CallFailure::argument(name, reason))
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
    let mut sizes = reserve(length, "numbers of the program")?;
    // SAFETY: as the caller says.
    for &number in unsafe { read_slice(numbers, length, name)? } {
        sizes.push(to_size(number, name)?);
    }
    Ok(sizes)
}

/// Returns a copy of bytes.
///
/// # Safety
/// `data` is null or has `length` bytes.
pub(crate) unsafe fn copy_bytes(
    data: *const u8,
    length: usize,
    name: &str,
) -> Result<Vec<u8>, CallFailure> {
    let mut copy = reserve(length, "bytes of the program")?;
    // SAFETY: as the caller says.
    copy.extend_from_slice(unsafe { read_slice(data, length, name)? });
    Ok(copy)
}

/// Makes room for a list whose length is the program's word: one that no memory has is an error before the list is read.
pub(crate) fn reserve<T>(length: usize, what: &'static str) -> Result<Vec<T>, Error> {
    let mut list = Vec::new();
    list.try_reserve_exact(length).map_err(|_| Error::Allocation {
        what,
        bytes: length.saturating_mul(size_of::<T>()) as u64,
    })?;
    Ok(list)
}
