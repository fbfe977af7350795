//! Arrays whose bytes move between ranks.

use isochron::comm::Settings;
use isochron::prelude::{Error, Order};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{lock_buffer, make_array};
use crate::errors::RaisedError;

/// Blocks to move: the type and shape of each as bytes, and its locked elements.
pub(crate) type LockedBlocks = (Vec<Vec<u8>>, Vec<PyUntypedBuffer>);

/// Blocks that have come: the type and shape of each as bytes, and the bytes of its elements.
pub(crate) type PackedBlocks = (Vec<Vec<u8>>, Vec<Vec<u8>>);

/// Locks an array with a row for each of `units`, in one piece. Returns its shape, too.
pub(crate) fn lock_rows(
    array: &Bound<'_, PyAny>,
    units: u64,
) -> Result<(PyUntypedBuffer, Vec<usize>), RaisedError> {
    let rows = lock_buffer("array", array)?;
    check_bytes("array", &rows)?;
    let shape = rows.shape().to_vec();
    if shape.first().map(|&rows| rows as u64) != Some(units) {
        let value = format!("an array of shape {shape:?}");
        let reason = format!("this rank had {units} units, and each has a row");
        return Err(RaisedError::refuse("array", value, reason));
    }
    Ok((rows, shape))
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
        (
            "format of the array".to_owned(),
            rows.format().to_string_lossy().into_owned(),
        ),
        (
            "shape of a row".to_owned(),
            format!("{:?}", &rows.shape()[1..]),
        ),
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
pub(crate) fn read_blocks(
    blocks: &Bound<'_, PyAny>,
    units: u64,
) -> Result<LockedBlocks, RaisedError> {
    let list = blocks
        .try_iter()
        .and_then(Iterator::collect::<PyResult<Vec<_>>>);
    let list = list.map_err(|error| {
        let reason = format!("give a list of arrays ({error})");
        RaisedError::refuse_as(&error, "blocks", "no list", reason)
    })?;
    if list.len() as u64 != units {
        let value = format!("{} arrays", list.len());
        let reason = format!("this rank had {units} units, and each has an array");
        return Err(RaisedError::refuse("blocks", value, reason));
    }
    list.iter().map(read_block).collect()
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
    let dimensions = block
        .getattr("ndim")
        .and_then(|ndim| ndim.extract::<usize>());
    let flat = match dimensions {
        Ok(0) => block.call_method1("reshape", (1,)).ok(),
        _ => None,
    };
    flat.unwrap_or_else(|| block.clone())
}

/// Returns the type and the shape of an array as bytes.
fn pack_kind(block: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let kind = (block.getattr("dtype")?, block.getattr("shape")?);
    block
        .py()
        .import("pickle")?
        .call_method1("dumps", (kind,))?
        .extract()
}

/// Makes arrays of the blocks that have come.
pub(crate) fn make_blocks(
    py: Python<'_>,
    (kinds, contents): PackedBlocks,
) -> Result<Vec<Bound<'_, PyAny>>, Error> {
    let made = kinds.iter().zip(&contents);
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
