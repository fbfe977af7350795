//! Errors as exceptions.
//!
//! A value of the wrong type is a `TypeError`, and a wrong value an `InputError`, which is a `ValueError` too. That is so for
//! every argument of every call.

use std::cell::Cell;

use isochron::comm::Comm;
use isochron::hierarchy::model::ModelError;
use isochron::hierarchy::partition::PartitionError;
use isochron::matrix::SpreadError;
use isochron::prelude::{Error, ErrorClass};
use pyo3::exceptions::{PyException, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

pyo3::create_exception!(
    isochron,
    IsochronError,
    PyException,
    "An error of Isochron. Its text names the rank if there are several."
);
pyo3::create_exception!(isochron, RunError, IsochronError, "The run failed.");

/// Returns the class `InputError`, which has two bases: an error of this package, and a wrong value.
pub(crate) fn input_error(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static MADE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    Ok(MADE
        .get_or_try_init(py, || {
            let bases = [py.get_type::<IsochronError>(), py.get_type::<PyValueError>()];
            let class = PyTuple::new(py, bases)?;
            let members = pyo3::types::PyDict::new(py);
            members.set_item("__module__", "isochron")?;
            let text = "The request, an argument or a file is wrong. Nothing was computed.";
            members.set_item("__doc__", text)?;
            let made = py.get_type::<PyType>().call1(("InputError", class, members))?;
            Ok::<_, PyErr>(made.cast_into::<PyType>()?.unbind())
        })?
        .bind(py))
}

/// Makes an `InputError`.
fn new_input_error(text: String) -> PyErr {
    Python::attach(|py| match input_error(py) {
        Ok(class) => PyErr::from_type(class.clone(), (text,)),
        Err(error) => error,
    })
}

/// The error of a call, ready to be raised.
#[derive(Debug)]
pub(crate) struct RaisedError(PyErr);

impl RaisedError {
    /// Refuses a value.
    pub fn refuse(name: &'static str, value: impl ToString, reason: impl Into<String>) -> Self {
        Error::parameter(name, value, reason).into()
    }

    /// Refuses a value of the wrong type.
    pub fn refuse_type(name: &str, value: impl ToString, reason: impl AsRef<str>) -> Self {
        let (value, reason) = (value.to_string(), reason.as_ref());
        Self(PyTypeError::new_err(format!("{name} = {value}: {reason}")))
    }

    /// Refuses a value that could not be converted: by its type, if Python said so.
    pub fn refuse_as(
        error: &PyErr,
        name: &'static str,
        value: impl ToString,
        reason: impl AsRef<str>,
    ) -> Self {
        if Python::attach(|py| error.is_instance_of::<PyTypeError>(py)) {
            Self::refuse_type(name, value, reason)
        } else {
            Self::refuse(name, value, reason.as_ref())
        }
    }

    /// Returns the text, and `true` for a value of the wrong type.
    fn describe(&self) -> (String, bool) {
        Python::attach(|py| {
            let is_type = self.0.is_instance_of::<PyTypeError>(py);
            (self.0.value(py).to_string(), is_type)
        })
    }
}

/// Returns a value as Python shows it.
pub(crate) fn describe(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "unreadable".to_owned(), |text| text.to_string())
}

/// Refuses an object that lacks one of these methods.
pub(crate) fn check_methods(
    name: &'static str,
    object: &Bound<'_, PyAny>,
    methods: &[&str],
) -> Result<(), RaisedError> {
    for method in methods {
        if !object.hasattr(method)? {
            let reason = format!("it has no method {method}");
            return Err(RaisedError::refuse_type(name, describe(object), reason));
        }
    }
    Ok(())
}

/// Turns wrong arguments of one rank into the same exception on every rank, before they act.
///
/// # Collective
/// All ranks.
pub(crate) fn agree_on<T>(
    comm: &dyn Comm,
    outcome: Result<T, RaisedError>,
) -> Result<T, RaisedError> {
    if comm.size() == 1 {
        return outcome;
    }
    let mine = outcome.as_ref().err().map(RaisedError::describe);
    let mut failures = comm.gather(&(comm.host().to_owned(), mine))?.into_iter().enumerate();
    let first = failures.find_map(|(rank, (host, failure))| Some((rank, host, failure?)));
    let Some((rank, host, (text, is_type))) = first else {
        return outcome;
    };
    let text = format!("rank {rank} on {host}: {text}");
    Err(RaisedError(if is_type { PyTypeError::new_err(text) } else { new_input_error(text) }))
}

thread_local! {
    /// The exception of a group of the program, until the call that it has failed in raises.
    static OF_GROUP: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Keeps the exception of a group of the program for the call in which it was raised. An earlier one, which its call has not raised, goes.
pub(crate) fn keep_exception(exception: Option<PyErr>) {
    OF_GROUP.set(exception);
}

impl From<Error> for RaisedError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let made = match error.class() {
            ErrorClass::Input => new_input_error(text),
            ErrorClass::Run => RunError::new_err(text),
        };
        let (Error::Group { .. }, Some(cause)) = (&error, OF_GROUP.take()) else {
            return Self(made);
        };
        Python::attach(|py| {
            // Ctrl-C and the end of the program stay what they are.
            if !cause.is_instance_of::<PyException>(py) {
                return Self(cause);
            }
            made.set_cause(py, Some(cause));
            Self(made)
        })
    }
}

impl From<PartitionError> for RaisedError {
    fn from(error: PartitionError) -> Self {
        Self(new_input_error(error.to_string()))
    }
}

impl From<ModelError> for RaisedError {
    fn from(error: ModelError) -> Self {
        Error::from(error).into()
    }
}

impl From<SpreadError> for RaisedError {
    fn from(error: SpreadError) -> Self {
        Error::from(error).into()
    }
}

impl From<PyErr> for RaisedError {
    fn from(error: PyErr) -> Self {
        Self(error)
    }
}

impl From<RaisedError> for PyErr {
    fn from(error: RaisedError) -> Self {
        error.0
    }
}

/// A whole number, an argument of a call. It is not negative if `N` has no sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Count<N = usize>(pub N);

impl<'a, 'py, N: FromPyObject<'a, 'py, Error = PyErr>> FromPyObject<'a, 'py> for Count<N> {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let wanted = "use a whole number that is not negative";
        read_number(value, wanted).map(Self)
    }
}

/// Reads a [`Count`], an argument with a default that the documentation of the call shows.
pub(crate) fn read_count(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(value.extract::<Count>()?.0)
}

/// Reads a number of units as [`read_count`] does.
pub(crate) fn read_units(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    Ok(value.extract::<Count<u64>>()?.0)
}

/// A number, an argument of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(pub f64);

impl<'a, 'py> FromPyObject<'a, 'py> for Number {
    type Error = PyErr;

    fn extract(value: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        read_number(value, "use a number that a float can be").map(Self)
    }
}

/// Reads a number. Python raises an exception of another kind for a number out of range.
fn read_number<'a, 'py, N: FromPyObject<'a, 'py, Error = PyErr>>(
    value: Borrowed<'a, 'py, PyAny>,
    wanted: &str,
) -> PyResult<N> {
    value.extract::<N>().map_err(|error| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            new_input_error(format!("{}: {wanted} and not too large", show_short(value)))
        } else {
            error
        }
    })
}

/// Returns a number as Python shows it, without the digits in the middle of a long one.
fn show_short(value: Borrowed<'_, '_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| "a number".to_owned(), |text| text.to_string());
    match text.get(..20).filter(|_| text.len() > 50) {
        Some(start) => format!("{start}..."),
        None => text,
    }
}
