//! Names of the layout methods, and grids as text.

use std::str::FromStr;

use isochron_hierarchy::layout::Method;
use strum::{Display, VariantNames as _};

use crate::named_values::NamedValues;

/// A method of the library, or one that needs models.
#[derive(Clone, Copy, PartialEq, Eq, Display)]
#[strum(serialize_all = "kebab-case")]
pub enum LayoutMethod {
    /// By areas, or by areas of equal times that models give.
    #[strum(transparent)]
    Areas(Method),
    /// By models of the area (1.5D), arranged as br.
    FpmBr,
}

impl LayoutMethod {
    /// Returns `true` if the nodes' columns may be given.
    pub fn takes_columns(self) -> bool {
        match self {
            Self::Areas(method) => method.takes_columns(),
            Self::FpmBr => false,
        }
    }
}

impl FromStr for LayoutMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fpm-br" => Ok(Self::FpmBr),
            // The message ends with the names that are possible.
            _ => text.parse().map(Self::Areas).map_err(|error| format!("{error}, fpm-br")),
        }
    }
}

/// Takes the names of all methods.
pub fn name_methods() -> NamedValues<LayoutMethod> {
    NamedValues::new(Method::VARIANTS).with(&["fpm-br"])
}

/// Columns from left to right, each with its nodes from top to bottom: `0,1/2,3`.
pub type Columns = Vec<Vec<usize>>;

/// Reads columns.
pub fn parse_columns(text: &str) -> Result<Columns, &'static str> {
    let columns = text.split('/');
    columns
        .map(|nodes| nodes.split(',').map(|node| node.parse().ok()).collect())
        .collect::<Option<_>>()
        .ok_or(
            "expected columns of nodes counted from 0, with commas between nodes and slashes between columns: 0,1/2,3",
        )
}
