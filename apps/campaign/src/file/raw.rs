//! The campaign file as it is written, with the places of its parts.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Better, Repeat};
use crate::point::Parameter;
use crate::reading::RawResult;

/// Lists of values by name, as `[sweep]`, `[[zip]]` and `tune` have them.
pub(super) type Lists = BTreeMap<Spanned<String>, Spanned<Vec<Parameter>>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub name: Spanned<String>,
    pub about: Option<String>,
    #[serde(default)]
    pub seed: u64,
    /// A number, or an expression over parameters.
    pub nodes: Option<Spanned<Parameter>>,
    #[serde(default)]
    pub exclude: Vec<Spanned<String>>,
    #[serde(default)]
    pub sweep: Lists,
    #[serde(default)]
    pub zip: Vec<Spanned<Lists>>,
    #[serde(default)]
    pub values: BTreeMap<Spanned<String>, Spanned<String>>,
    pub contender: Vec<RawContender>,
    pub repeat: Option<Spanned<Repeat>>,
    #[serde(default)]
    pub goal: Vec<Spanned<RawGoal>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawContender {
    pub name: Spanned<String>,
    pub command: Spanned<String>,
    pub launch: Option<Spanned<String>>,
    #[serde(default)]
    pub env: BTreeMap<Spanned<String>, Spanned<String>>,
    pub result: Option<Spanned<RawResult>>,
    pub when: Option<Spanned<String>>,
    #[serde(default)]
    pub tune: Lists,
    pub tune_when: Option<Spanned<String>>,
    pub value: Option<Spanned<String>>,
    pub better: Option<Better>,
    pub limit_s: Option<Spanned<f64>>,
    pub keep: Option<Spanned<bool>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGoal {
    pub name: Option<String>,
    pub when: Option<Spanned<String>>,
    pub ratio: Option<[Spanned<String>; 2]>,
    pub value: Option<Spanned<String>>,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
}
