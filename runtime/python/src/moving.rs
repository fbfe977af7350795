//! Arrays whose bytes move between ranks.

use std::ops::Range;

use isochron::comm::Settings;
use isochron::prelude::{Error, Order, UnitMemory};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{lock_buffer, make_array};
use crate::errors::RaisedError;

/// Blocks to move.
pub(crate) struct LockedBlocks<'py> {
    pub arrays: Vec<Bound<'py, PyAny>>,
    /// The type and shape of each as bytes.
    pub kinds: Vec<Vec<u8>>,
    /// The elements of each.
    pub locked: Vec<PyUntypedBuffer>,
}

/// Locks an array with a row for each of `units`, in one piece.
pub(crate) fn lock_rows(
    name: &'static str,
    array: &Bound<'_, PyAny>,
    units: u64,
) -> Result<PyUntypedBuffer, RaisedError> {
    let rows = lock_buffer(name, array)?;
    check_bytes(name, &rows)?;
    if rows.shape().first().map(|&rows| rows as u64) != Some(units) {
        let value = format!("an array of shape {:?}", rows.shape());
        let when = if name == "out" { "has" } else { "had" };
        let reason = format!("this rank {when} {units} units, and each has a row");
        return Err(RaisedError::refuse(name, value, reason));
    }
    Ok(rows)
}

/// Locks an array that receives rows like these, one for each of `units`.
pub(crate) fn lock_out(
    out: &Bound<'_, PyAny>,
    rows: &PyUntypedBuffer,
    units: u64,
) -> Result<PyUntypedBuffer, RaisedError> {
    let target = lock_rows("out", out, units)?;
    if describe_rows(rows) != describe_rows(&target) {
        let [theirs, own] = [rows, &target].map(|array| {
            let format = array.format().to_string_lossy().into_owned();
            format!("rows of shape {:?} and format {format}", &array.shape()[1..])
        });
        let reason = format!("array has {theirs}");
        return Err(RaisedError::refuse("out", format!("an array with {own}"), reason));
    }
    if target.readonly() {
        let reason = "the rows of the new part are written to it";
        return Err(RaisedError::refuse("out", "a read-only array", reason));
    }
    Ok(target)
}

/// Makes an array for rows like these, one for each of `units`.
pub(crate) fn make_rows<'py>(
    array: &Bound<'py, PyAny>,
    rows: &PyUntypedBuffer,
    units: u64,
) -> Result<(PyUntypedBuffer, Bound<'py, PyAny>), RaisedError> {
    let mut shape = rows.shape().to_vec();
    shape[0] = units as usize;
    let dtype = array.getattr("dtype");
    let made = dtype.and_then(|dtype| make_array(array.py(), &shape, &dtype, Order::Rows));
    let made =
        made.map_err(|error| Error::parameter("array", "rows that move", error.to_string()))?;
    Ok((lock_buffer("array", &made)?, made))
}

/// Returns the bytes of a row.
pub(crate) fn count_row_bytes(rows: &PyUntypedBuffer) -> usize {
    rows.shape()[1..].iter().product::<usize>() * rows.item_size()
}

/// Returns the memory of rows before and after a move, whose units are `parts`.
///
/// # Safety
/// The arrays are locked and in one piece, the target is writable, and nothing else uses them for `'m`.
pub(crate) unsafe fn find_memory<'m>(
    rows: &'m PyUntypedBuffer,
    target: &'m PyUntypedBuffer,
    parts: &[Range<u64>; 2],
) -> Result<UnitMemory<'m, u8>, RaisedError> {
    let [from, to] = [rows, target].map(|array| {
        let start = array.buf_ptr().addr();
        start..start + array.len_bytes()
    });
    if from.is_empty() || to.is_empty() || from.start >= to.end || to.start >= from.end {
        let to = match target.len_bytes() {
            0 => &mut [],
            // SAFETY: the buffer has these bytes, which nothing else uses, as the caller says.
            bytes => unsafe {
                std::slice::from_raw_parts_mut(target.buf_ptr().cast::<u8>(), bytes)
            },
        };
        let from = view_bytes(rows);
        return Ok(UnitMemory::Apart { from, to });
    }
    let moved = i128::from(parts[1].start) - i128::from(parts[0].start);
    if to.start as i128 - from.start as i128 != moved * count_row_bytes(rows) as i128 {
        let reason = "it overlaps array, and a row that stays would have another place: give another array, or slices of \
                      one array that has a place for every row";
        return Err(RaisedError::refuse("out", "a slice of the same array", reason));
    }
    let start = target.buf_ptr().cast::<u8>().with_addr(from.start.min(to.start));
    let bytes = from.end.max(to.end) - start.addr();
    // SAFETY: the two buffers overlap, so they have all bytes from the first of them to the last; nothing else uses these, as
    // the caller says.
    let memory = unsafe { std::slice::from_raw_parts_mut(start, bytes) };
    let first = parts[0].start.min(parts[1].start);
    Ok(UnitMemory::Within { memory, first })
}

/// Refuses an array whose bytes are not all that it is.
fn check_bytes(name: &'static str, array: &PyUntypedBuffer) -> Result<(), Error> {
    if array.format().to_bytes().contains(&b'O') {
        let reason = "its elements are objects of this process, which cannot move";
        return Err(Error::parameter(name, "an array of objects", reason));
    }
    if !array.is_c_contiguous() {
        let reason = "its rows have to be contiguous: copy it by numpy.ascontiguousarray";
        return Err(Error::parameter(name, "an array with strides", reason));
    }
    Ok(())
}

/// Describes the rows of an array, which are alike on all ranks.
pub(crate) fn describe_rows(rows: &PyUntypedBuffer) -> Settings {
    Settings::from([
        ("format of the array".to_owned(), rows.format().to_string_lossy().into_owned()),
        ("shape of a row".to_owned(), format!("{:?}", &rows.shape()[1..])),
    ])
}

/// Returns the bytes of an array in one piece.
pub(crate) fn view_bytes(array: &PyUntypedBuffer) -> &[u8] {
    match array.len_bytes() {
        0 => &[],
        // SAFETY: the buffer is contiguous, locked, and has these bytes. Nothing writes them meanwhile, as the module of arrays
        // says.
        bytes => unsafe { std::slice::from_raw_parts(array.buf_ptr().cast::<u8>(), bytes) },
    }
}

/// Writes the bytes of an array.
///
/// # Safety
/// The array is in one piece, and nothing else uses it meanwhile.
pub(crate) unsafe fn write_bytes(array: &PyUntypedBuffer, bytes: &[u8]) {
    let length = bytes.len().min(array.len_bytes());
    // SAFETY: the buffer is locked and has these bytes, which nothing else uses, as the caller says.
    unsafe {
        let to = array.buf_ptr().cast::<u8>();
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length);
    }
}

/// Reads an array for each of `units`.
pub(crate) fn read_blocks<'py>(
    blocks: &Bound<'py, PyAny>,
    units: u64,
) -> Result<LockedBlocks<'py>, RaisedError> {
    let list = blocks.try_iter().and_then(Iterator::collect::<PyResult<Vec<_>>>);
    let arrays = list.map_err(|error| {
        let reason = format!("give a list of arrays ({error})");
        RaisedError::refuse_as(&error, "blocks", "no list", reason)
    })?;
    if arrays.len() as u64 != units {
        let value = format!("{} arrays", arrays.len());
        let reason = format!("this rank had {units} units, and each has an array");
        return Err(RaisedError::refuse("blocks", value, reason));
    }
    let read: Result<(Vec<_>, Vec<_>), RaisedError> = arrays.iter().map(read_block).collect();
    let (kinds, locked) = read?;
    Ok(LockedBlocks { arrays, kinds, locked })
}

fn read_block(block: &Bound<'_, PyAny>) -> Result<(Vec<u8>, PyUntypedBuffer), RaisedError> {
    let locked = lock_buffer("blocks", &give_dimension(block))?;
    check_bytes("blocks", &locked)?;
    let kind = pack_kind(block).map_err(|error| {
        let reason = format!("it is no array of NumPy ({error})");
        RaisedError::refuse_type("blocks", "something with a buffer", reason)
    })?;
    Ok((kind, locked))
}

/// Returns an array without dimensions as one with a single element, which has a shape that buffers tell. Others stay as
/// they are.
fn give_dimension<'py>(block: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    let dimensions = block.getattr("ndim").and_then(|ndim| ndim.extract::<usize>());
    let flat = match dimensions {
        Ok(0) => block.call_method1("reshape", (1,)).ok(),
        _ => None,
    };
    flat.unwrap_or_else(|| block.clone())
}

/// Returns the type and the shape of an array as bytes.
fn pack_kind(block: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let kind = (block.getattr("dtype")?, block.getattr("shape")?);
    block.py().import("pickle")?.call_method1("dumps", (kind,))?.extract()
}

/// Makes arrays of blocks that have come: the type and shape of each as bytes, and the bytes of its elements.
pub(crate) fn make_blocks<'py>(
    py: Python<'py>,
    kinds: &[Vec<u8>],
    contents: &[Vec<u8>],
) -> Result<Vec<Bound<'py, PyAny>>, Error> {
    let made = kinds.iter().zip(contents);
    let made = made.map(|(kind, bytes)| make_block(py, kind, bytes));
    made.collect::<PyResult<_>>()
        .map_err(|error| Error::parameter("blocks", "arrays that move", error.to_string()))
}

fn make_block<'py>(py: Python<'py>, kind: &[u8], bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let kind = PyBytes::new(py, kind);
    let kind = py.import("pickle")?.call_method1("loads", (kind,))?;
    let (dtype, shape): (Bound<'py, PyAny>, Vec<usize>) = kind.extract()?;
    let made = make_array(py, &shape, &dtype, Order::Rows)?;
    // SAFETY: an array that was just made, which nothing else knows yet.
    unsafe { write_bytes(&PyUntypedBuffer::get(&give_dimension(&made))?, bytes) };
    Ok(made)
}
