//! Points: combinations of parameters.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Parameters by name.
pub type Parameters = BTreeMap<String, Parameter>;

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a number, a string, true or false")]
pub enum Parameter {
    /// `true` or `false`.
    Switch(bool),
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(String),
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(value) => value.fmt(f),
            Self::Whole(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

/// A combination of parameters at which every contender is measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CampaignPoint {
    /// Name of the point in `points.jsonl`: the fingerprint of its parameters.
    pub id: String,
    /// The parameters.
    pub parameters: Parameters,
    /// Number of nodes that the point needs; `None` if the campaign does not say.
    pub nodes: Option<u32>,
}

impl CampaignPoint {
    pub(crate) fn new(parameters: Parameters) -> Self {
        Self { id: fingerprint(&parameters), parameters, nodes: None }
    }
}

/// Returns the first 16 hexadecimal digits of the SHA-256 of a document with sorted keys.
pub(crate) fn fingerprint(document: &impl Serialize) -> String {
    // Maps of documents have text as keys, and their values can be written.
    let text = serde_json::to_string(document).unwrap_or_default();
    let mut digits = to_hex(&Sha256::digest(text));
    digits.truncate(16);
    digits
}

/// Returns `true` for a text that may be a fingerprint, and so leads to no other folder as the name of a file.
pub(crate) fn is_fingerprint(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// Writes bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes parameters for a line: `hosts=1:4 size=4096`.
pub fn describe_parameters(parameters: &Parameters) -> String {
    let words = parameters.iter().map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_point_depends_on_its_parameters_alone() {
        let size = ("size".to_owned(), Parameter::Whole(4096));
        let hosts = ("hosts".to_owned(), Parameter::Text("1:4".to_owned()));
        let point = CampaignPoint::new([size.clone(), hosts.clone()].into());
        assert_eq!(point, CampaignPoint::new([hosts.clone(), size].into()));
        // Files that were written before keep their names.
        assert_eq!(point.id, "d4b66b42d9f545e5");
        let text = ("size".to_owned(), Parameter::Text("4096".to_owned()));
        assert_ne!(point.id, CampaignPoint::new([text, hosts].into()).id);
        assert_eq!(describe_parameters(&point.parameters), "hosts=1:4 size=4096");
    }
}
