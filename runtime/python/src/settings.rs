//! Settings by keyword.

use std::str::FromStr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt};
use serde_json::{Map, Value};

use crate::errors::RaisedError;

/// Reads the value of a setting.
pub(crate) fn read_setting<T: FromStr<Err: ToString>>(
    name: &'static str,
    value: Option<&str>,
) -> Result<Option<T>, RaisedError> {
    let Some(text) = value else {
        return Ok(None);
    };
    text.parse()
        .map(Some)
        .map_err(|error: T::Err| RaisedError::refuse(name, text, error.to_string()))
}

/// Returns keywords as values, of which JSON knows the types. Numbers and arrays of NumPy become plain ones.
pub(crate) fn read_keywords(
    keywords: Option<&Bound<'_, PyDict>>,
) -> Result<Map<String, Value>, RaisedError> {
    let Some(keywords) = keywords else {
        return Ok(Map::new());
    };
    let values = keywords.iter().map(|(name, value)| {
        let name = name.to_string();
        match read_value(&value) {
            Ok(read) => Ok((name, read)),
            Err(error) => {
                let (is_value, reason) = describe(&error);
                let value = format!("{name}={value}");
                Err(if is_value {
                    RaisedError::refuse(SETTINGS, value, reason)
                } else {
                    RaisedError::refuse_type(SETTINGS, value, reason)
                })
            }
        }
    });
    values.collect()
}

/// Reads a value by way of JSON, which has no infinite numbers, and would make a float of a large integer.
fn read_value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = value.py();
    let is_huge = value.extract::<u64>().is_err() && value.extract::<i64>().is_err();
    if value.is_instance_of::<PyInt>() && is_huge {
        return Err(PyValueError::new_err(WHOLE_NUMBER));
    }
    if value.extract::<f64>().is_ok_and(|number| !number.is_finite()) {
        return Err(PyValueError::new_err("use a finite number"));
    }
    let options = PyDict::new(py);
    options.set_item("allow_nan", false)?;
    let to_list = py.import("operator")?.getattr("methodcaller")?;
    options.set_item("default", to_list.call1(("tolist",))?)?;
    let text: String =
        py.import("json")?.getattr("dumps")?.call((value,), Some(&options))?.extract()?;
    serde_json::from_str(&text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns a configuration in which these keywords are set.
///
/// # Errors
/// They name the wrong setting, and for an unknown one those that exist: a `TypeError` for that and for a value of the wrong
/// type, and an `InputError` for a wrong value.
pub(crate) fn configure<T: serde::de::DeserializeOwned>(
    keywords: Map<String, Value>,
) -> Result<T, RaisedError> {
    for (name, value) in &keywords {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        if let Err(error) = serde_json::from_value::<T>(Value::Object(alone)) {
            return Err(refuse_setting(name, value, &error));
        }
    }
    let names: Vec<String> = keywords.keys().cloned().collect();
    serde_json::from_value(Value::Object(keywords))
        .map_err(|error| RaisedError::refuse(SETTINGS, names.join(", "), error.to_string()))
}

/// The name of all settings in errors.
const SETTINGS: &str = "settings";

const WHOLE_NUMBER: &str = "use a whole number that is not negative, and not too large";

/// Refuses the value of a setting.
fn refuse_setting(name: &str, value: &Value, error: &serde_json::Error) -> RaisedError {
    let reason = error.to_string();
    let mut known = [
        ("expected f64", "use a number"),
        ("expected u64", WHOLE_NUMBER),
        ("expected u32", WHOLE_NUMBER),
        ("expected usize", WHOLE_NUMBER),
    ]
    .into_iter();
    let plain =
        known.find(|(end, _)| reason.ends_with(end)).map_or(reason.as_str(), |(_, plain)| plain);
    let value = format!("{name}={value}");
    let is_type = ["invalid type", "unknown field"].iter().any(|words| reason.starts_with(words));
    if is_type {
        RaisedError::refuse_type(SETTINGS, value, plain)
    } else {
        RaisedError::refuse(SETTINGS, value, plain)
    }
}

/// Returns `true` for an exception about a value, and its text without its class.
fn describe(error: &PyErr) -> (bool, String) {
    Python::attach(|py| {
        let is_value = error.is_instance_of::<PyValueError>(py);
        (is_value, error.value(py).to_string())
    })
}

/// Returns a document as Python's dictionaries and lists.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    document: &impl serde::Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(document);
    let text = text.map_err(|error| PyValueError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}
