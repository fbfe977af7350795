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
    text.parse()
        .map(Some)
        .map_err(|error: T::Err| Error::parameter(name, text, error.to_string()))
}

/// Returns keywords as values, of which JSON knows the types. Numbers and arrays of NumPy become plain ones.
pub(crate) fn read_keywords(
    keywords: Option<&Bound<'_, PyDict>>,
) -> Result<Map<String, Value>, Error> {
    let Some(keywords) = keywords else {
        return Ok(Map::new());
    };
    keywords
        .iter()
        .map(|(name, value)| {
            let name = name.to_string();
            let read = read_value(&value).map_err(|error| refuse_setting(&name, &value, &error))?;
            Ok((name, read))
        })
        .collect()
}

/// Reads a value by way of JSON, which has no infinite numbers.
fn read_value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = value.py();
    let options = PyDict::new(py);
    options.set_item("allow_nan", false)?;
    let to_list = py.import("operator")?.getattr("methodcaller")?;
    options.set_item("default", to_list.call1(("tolist",))?)?;
    let text: String = py
        .import("json")?
        .getattr("dumps")?
        .call((value,), Some(&options))?
        .extract()?;
    serde_json::from_str(&text)
        .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}

/// Returns a configuration in which these keywords are set.
///
/// # Errors
/// [`Error::Parameter`], which names the wrong setting, and for an unknown one those that exist.
pub(crate) fn configure<T: serde::de::DeserializeOwned>(
    keywords: Map<String, Value>,
) -> Result<T, Error> {
    for (name, value) in &keywords {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        if let Err(error) = serde_json::from_value::<T>(Value::Object(alone)) {
            return Err(refuse_setting(name, value, &error));
        }
    }
    let text = Value::Object(keywords.clone()).to_string();
    serde_json::from_value(Value::Object(keywords))
        .map_err(|error| Error::parameter("settings", text, error.to_string()))
}

/// Refuses the value of a setting.
fn refuse_setting(name: &str, value: impl ToString, error: &dyn ToString) -> Error {
    let reason = error.to_string();
    let mut known = [
        ("expected f64", "use a number"),
        ("expected u64", "use a whole number that is not negative"),
        ("expected u32", "use a whole number that is not negative"),
        ("expected usize", "use a whole number that is not negative"),
    ]
    .into_iter();
    let reason = known
        .find(|(end, _)| reason.ends_with(end))
        .map_or(reason.as_str(), |(_, plain)| plain);
    let value = format!("{name}={}", value.to_string());
    Error::parameter("settings", value, reason)
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
