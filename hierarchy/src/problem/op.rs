//! The operations of a product on its factors.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

/// Operation of a product on a stored matrix X: `op(X)`. Text may have a capital letter, as BLAS writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_operation)]
pub enum Op {
    /// X itself.
    #[default]
    #[serde(alias = "N")]
    N,
    /// Its transpose.
    #[serde(alias = "T")]
    T,
    /// Its conjugate transpose.
    #[serde(alias = "C")]
    C,
}

impl Op {
    /// Returns `true` if `op(X)` has as many rows as X has columns.
    pub fn transposes(self) -> bool {
        self != Op::N
    }
}

fn unknown_operation(text: &str) -> String {
    format!(
        "unknown operation `{text}`: use n (as stored), t (transposed) or c (conjugated and transposed)"
    )
}
