//! Errors as exceptions.

use isochron::hierarchy::model::ModelError;
use isochron::hierarchy::partition::PartitionError;
use isochron::matrix::SpreadError;
use isochron::prelude::{Error, ErrorClass};
use pyo3::PyErr;
use pyo3::exceptions::PyException;

pyo3::create_exception!(
    isochron,
    IsochronError,
    PyException,
    "An error of Isochron. Its text names the rank if there are several."
);
pyo3::create_exception!(
    isochron,
    InputError,
    IsochronError,
    "The request, an argument or a file is wrong. Nothing was computed."
);
pyo3::create_exception!(isochron, RunError, IsochronError, "The run failed.");

/// The error of a call, ready to be raised.
#[derive(Debug)]
pub(crate) struct RaisedError(PyErr);

impl RaisedError {
    /// Refuses an argument.
    pub fn refuse(name: &'static str, value: impl ToString, reason: impl Into<String>) -> Self {
        Error::parameter(name, value, reason).into()
    }
}

impl From<Error> for RaisedError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        Self(match error.class() {
            ErrorClass::Input => InputError::new_err(text),
            ErrorClass::Run => RunError::new_err(text),
        })
    }
}

impl From<PartitionError> for RaisedError {
    fn from(error: PartitionError) -> Self {
        Self(InputError::new_err(error.to_string()))
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
