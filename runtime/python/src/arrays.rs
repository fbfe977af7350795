//! The memory of arrays, by Python's buffer protocol.
//!
//! A buffer stays locked while a call uses it: NumPy refuses to resize its array meanwhile. No other thread may write an
//! array that a call uses, or read the one that it writes.

use std::ptr::NonNull;

use isochron::devices::MatrixView;
use isochron::matrix::MemoryLines;
use isochron::prelude::{Element, ElementType, Error, Order};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::errors::RaisedError;

/// The memory of a matrix: an array in two dimensions, with elements that can be multiplied.
pub(crate) struct ArrayMemory {
    name: &'static str,
    buffer: PyUntypedBuffer,
    element: ElementType,
}

impl ArrayMemory {
    /// Locks the memory of `array`.
    ///
    /// # Errors
    /// Returns a `TypeError` for what is no array. An `InputError` for another type of elements, another number of
    /// dimensions, or elements that are not aligned.
    pub fn lock(name: &'static str, array: &Bound<'_, PyAny>) -> Result<Self, RaisedError> {
        let buffer = lock_buffer(name, array)?;
        let format = buffer.format().to_string_lossy();
        let element = find_element(&format).ok_or_else(|| {
            let reason = "elements are float32, float64, complex64 or complex128, in the byte order of this machine";
            RaisedError::refuse(name, describe_type(array, &format), reason)
        })?;
        if buffer.dimensions() != 2 {
            let reason = "a matrix has two dimensions: reshape it";
            let value = format!("an array of {} dimensions", buffer.dimensions());
            return Err(RaisedError::refuse(name, value, reason));
        }
        let alignment = element.bytes() / if element.is_complex() { 2 } else { 1 };
        if !buffer.buf_ptr().addr().is_multiple_of(alignment) {
            let reason = "its elements are not aligned: copy it by numpy.array";
            return Err(RaisedError::refuse(name, "an array of any bytes", reason));
        }
        Ok(Self { name, buffer, element })
    }

    /// Returns the type of the elements.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the numbers of rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.buffer.shape()[0], self.buffer.shape()[1])
    }

    /// Refuses a read-only array.
    pub fn check_writable(&self) -> Result<(), Error> {
        if self.buffer.readonly() {
            let reason = "the result is written to it";
            Err(Error::parameter(self.name, "a read-only array", reason))
        } else {
            Ok(())
        }
    }

    /// Returns row-major order if the array has it, otherwise column-major order.
    pub fn find_order(&self) -> Result<Order, Error> {
        [Order::Rows, Order::Columns]
            .into_iter()
            .find(|&order| self.find_ld(order).is_ok()).ok_or_else(|| {
            self.refuse_strides(
                "its rows or its columns have to be contiguous, in ascending order, and must not overlap",
            )
        })
    }

    /// Returns the leading dimension in this order.
    pub fn find_ld(&self, order: Order) -> Result<usize, Error> {
        let (along, across) = match order {
            Order::Rows => (1, 0),
            Order::Columns => (0, 1),
        };
        let (shape, strides) = (self.buffer.shape(), self.buffer.strides());
        let [line, distance] = [along, across].map(|axis| usize::try_from(strides[axis]).ok());
        let (bytes, lines) = (self.element.bytes(), shape[across]);
        let is_empty = shape[along] == 0 || lines == 0;
        if shape[along] > 1 && line != Some(bytes) && !is_empty {
            return Err(self.refuse_strides(match order {
                Order::Rows => "its rows have to be contiguous, as in C",
                Order::Columns => "its columns have to be contiguous, as in Fortran",
            }));
        }
        if lines <= 1 || is_empty {
            return Ok(shape[along].max(1));
        }
        let whole = distance.filter(|distance| distance.is_multiple_of(bytes));
        let whole = whole.filter(|&distance| distance / bytes >= shape[along]);
        let reason =
            "its lines have to be whole elements apart, in ascending order, and must not overlap";
        whole.map(|distance| distance / bytes).ok_or_else(|| self.refuse_strides(reason))
    }

    fn refuse_strides(&self, reason: &str) -> Error {
        let strides = self.buffer.strides();
        let value = format!("an array with strides of {} and {} bytes", strides[0], strides[1]);
        let reason = format!("{reason}: copy it by numpy.ascontiguousarray");
        Error::parameter(self.name, value, reason)
    }

    /// Returns the lines in this order; `None` if there are no elements.
    pub fn find_lines(&self, order: Order) -> Result<Option<MemoryLines>, Error> {
        let (along, lines) = order.find_lines(self.shape());
        let [length, distance] = [along, self.find_ld(order)?].map(|n| n * self.element.bytes());
        let start = self.buffer.buf_ptr().addr();
        Ok(MemoryLines::new(start, lines, length, distance))
    }

    /// Views the elements in this order.
    ///
    /// # Safety
    /// `T` is the type of the elements. As long as the view lives, the array is locked; with `D = &[T]` nothing writes the
    /// elements, and with `D = &mut [T]` the array is writable, and nothing else uses them.
    pub unsafe fn view<T: Element, D>(&self, order: Order) -> Result<MatrixView<T, D>, Error> {
        let (rows, cols) = self.shape();
        let strides = order.find_strides((rows, cols), self.find_ld(order)?)?;
        // An array without elements may be nowhere.
        let first = NonNull::new(self.buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling());
        // SAFETY: the buffer has these elements, aligned; the rest is as the caller says.
        Ok(unsafe { MatrixView::from_raw(first, [rows, cols], strides) })
    }
}

/// Subclasses of NumPy's array whose elements are all there is to them.
const PLAIN_CLASSES: [&str; 3] = ["ndarray", "memmap", "matrix"];

/// Refuses a subclass of NumPy's array that is more than its elements, such as one with a mask or units.
fn check_class(name: &'static str, array: &Bound<'_, PyAny>) -> PyResult<Result<(), Error>> {
    let class_name = array.get_type().name()?.to_string();
    if PLAIN_CLASSES.contains(&class_name.as_str()) {
        return Ok(Ok(()));
    }
    let Ok(numpy) = array.py().import("numpy") else {
        // Without NumPy there are no arrays of NumPy.
        return Ok(Ok(()));
    };
    if !array.is_instance(&numpy.getattr("ndarray")?)? {
        return Ok(Ok(()));
    }
    let is_masked = array.is_instance(&numpy.getattr("ma")?.getattr("MaskedArray")?)?;
    let reason = if is_masked {
        "its mask would be lost: fill the masked elements by its method filled"
    } else {
        "what it is beside its elements would be lost: pass its elements by numpy.asarray"
    };
    let value = format!("a {class_name}");
    Ok(Err(Error::parameter(name, value, reason)))
}

/// Locks the memory of an array of any kind.
///
/// # Errors
/// Returns a `TypeError` for what is no array. An `InputError` for subclasses of NumPy's array that would lose their
/// meaning.
pub(crate) fn lock_buffer(
    name: &'static str,
    array: &Bound<'_, PyAny>,
) -> Result<PyUntypedBuffer, RaisedError> {
    // A class that cannot be examined is no array of NumPy.
    check_class(name, array).unwrap_or(Ok(()))?;
    PyUntypedBuffer::get(array).map_err(|error| {
        let kind = array.get_type().name();
        let kind = kind.map_or_else(|_| "something".to_owned(), |kind| kind.to_string());
        let reason = format!("it is no array: make one by numpy.array ({error})");
        RaisedError::refuse_type(name, kind, reason)
    })
}

/// Returns the type of an array's elements as NumPy writes it, otherwise its format.
fn describe_type(array: &Bound<'_, PyAny>, format: &str) -> String {
    let dtype = array.getattr("dtype").and_then(|dtype| dtype.str());
    let text = dtype.map_or_else(|_| format!("format {format}"), |dtype| dtype.to_string());
    format!("an array of {text}")
}

/// Returns the type that a format of the `struct` module stands for.
fn find_element(format: &str) -> Option<ElementType> {
    let native: &[char] =
        if cfg!(target_endian = "little") { &['@', '=', '<'] } else { &['@', '=', '>', '!'] };
    match format.strip_prefix(native).unwrap_or(format) {
        "f" => Some(ElementType::F32),
        "d" => Some(ElementType::F64),
        "Zf" => Some(ElementType::C32),
        "Zd" => Some(ElementType::C64),
        _ => None,
    }
}

/// Returns NumPy's name of a type.
pub(crate) fn name_element(element: ElementType) -> &'static str {
    match element {
        ElementType::F32 => "float32",
        ElementType::F64 => "float64",
        ElementType::C32 => "complex64",
        ElementType::C64 => "complex128",
    }
}

/// Reads a type: a name of this library, or anything that NumPy's `dtype` understands.
///
/// # Errors
/// Returns a `TypeError` for what stands for no type. An `InputError` for a name that is unknown, and a type that no
/// product has.
pub(crate) fn read_element(
    argument: &'static str,
    dtype: &Bound<'_, PyAny>,
) -> Result<ElementType, RaisedError> {
    // NumPy's c32 is a type that no product has.
    if let Ok(element) = dtype.extract::<String>().unwrap_or_default().parse() {
        return Ok(element);
    }
    let name = find_dtype_name(dtype).map_err(|error| {
        let (value, reason) = (dtype.to_string(), error.to_string());
        if dtype.is_instance_of::<PyString>() {
            RaisedError::refuse(argument, value, reason)
        } else {
            RaisedError::refuse_as(&error, argument, value, reason)
        }
    })?;
    ElementType::ALL.into_iter().find(|&element| name_element(element) == name).ok_or_else(|| {
        let reason = "use float32 (f32), float64 (f64), complex64 (c32) or complex128 (c64)";
        RaisedError::refuse(argument, name, reason)
    })
}

fn find_dtype_name(dtype: &Bound<'_, PyAny>) -> PyResult<String> {
    dtype.py().import("numpy")?.call_method1("dtype", (dtype,))?.getattr("name")?.extract()
}

/// Makes an array of NumPy, whose elements are not set.
pub(crate) fn make_array<'py>(
    py: Python<'py>,
    shape: &[usize],
    dtype: &Bound<'py, PyAny>,
    order: Order,
) -> PyResult<Bound<'py, PyAny>> {
    let shape = PyTuple::new(py, shape)?;
    py.import("numpy")?.getattr("empty")?.call1((shape, dtype, name_order(order)))
}

/// Returns the arrays of a rank: one, or those of a list or a tuple.
pub(crate) fn list_arrays<'py>(given: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    if let Ok(list) = given.cast::<PyList>() {
        return list.iter().collect();
    }
    match given.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![given.clone()],
    }
}

/// Returns NumPy's letter of an order.
pub(crate) fn name_order(order: Order) -> &'static str {
    match order {
        Order::Rows => "C",
        Order::Columns => "F",
    }
}
