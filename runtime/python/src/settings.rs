//! Settings by keyword.

use std::str::FromStr;

use isochron::prelude::Error;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value};

/// Reads the value of a setting.
pub(crate) fn read_setting<T: FromStr<Err: ToString>>(
    name: &'static str,
    value: Option<&str>,
) -> Result<Option<T>, Error> {
    let Some(text) = value else {
        return Ok(None);
    };
    let read = text.parse().map(Some);
    read.map_err(|error: T::Err| Error::parameter(name, text, error.to_string()))
}

/// Returns keywords as values, of which JSON knows the types.
pub(crate) fn read_keywords(
    keywords: Option<&Bound<'_, PyDict>>,
) -> Result<Map<String, Value>, Error> {
    let Some(keywords) = keywords else {
        return Ok(Map::new());
    };
    let json = keywords.py().import("json");
    let text = json.and_then(|json| json.call_method1("dumps", (keywords,))?.extract::<String>());
    let text = text.map_err(|error| refuse_keywords(keywords, &error))?;
    serde_json::from_str(&text).map_err(|error| refuse_keywords(keywords, &error))
}

/// Returns a configuration in which these keywords are set.
pub(crate) fn configure<T: serde::de::DeserializeOwned>(
    keywords: Map<String, Value>,
) -> Result<T, Error> {
    let text = Value::Object(keywords.clone()).to_string();
    serde_json::from_value(Value::Object(keywords))
        .map_err(|error| Error::parameter("settings", text, error.to_string()))
}

fn refuse_keywords(keywords: &Bound<'_, PyDict>, error: &dyn ToString) -> Error {
    Error::parameter("settings", keywords, error.to_string())
}

/// Returns a document as Python's dictionaries and lists.
pub(crate) fn to_python<'py>(
    py: Python<'py>,
    document: &impl serde::Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(document);
    let text = text.map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}
