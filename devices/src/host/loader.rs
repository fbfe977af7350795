//! The words of the system's loader.

use std::error::Error as _;

/// Returns the loader's own words, without the name of the file that they begin with.
pub(crate) fn find_reason(file: &str, error: &libloading::Error) -> String {
    let text = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    text.strip_prefix(file).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text).to_owned()
}
