//! The caller's choice of the dimension that is divided.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

/// The choice of the dimension that is divided among the nodes: `auto`, `c` or `k`.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown_split)]
pub enum Split {
    /// The faster one by prediction.
    #[default]
    Auto,
    /// C: panels of A and B travel.
    C,
    /// k: A and B stay, and the nodes' contributions to C are summed.
    K,
}

fn unknown_split(text: &str) -> String {
    format!("unknown split `{text}`: use auto, c or k")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_one_name_in_text_and_in_json() {
        for name in ["auto", "c", "k"] {
            let choice: Split = name.parse().unwrap();
            let json = serde_json::to_string(&choice).unwrap();
            assert_eq!((choice.to_string(), json), (name.to_owned(), format!("\"{name}\"")));
        }
        let refused = "m".parse::<Split>().unwrap_err();
        assert_eq!(refused, "unknown split `m`: use auto, c or k");
    }
}
