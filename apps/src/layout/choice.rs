//! What the layouts are called, and grids as text.

use std::fmt;
use std::str::FromStr;

use isochron_hierarchy::layout::Method;
use serde::{Serialize, Serializer};

/// A method of the library, or one that needs models.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// By areas, or by models of them: equal times.
    Of(Method),
    /// By models of the area (1.5D), arranged as br.
    FpmBr,
    /// By models of height and width, in columns.
    FpmKl,
}

impl How {
    /// Whether the nodes' columns may be given.
    pub fn takes_columns(self) -> bool {
        matches!(self, Self::Of(Method::Kl) | Self::FpmKl)
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Of(method) => method.name(),
            Self::FpmBr => "fpm-br",
            Self::FpmKl => "fpm-kl",
        })
    }
}

impl FromStr for How {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fpm-br" => Ok(Self::FpmBr),
            "fpm-kl" => Ok(Self::FpmKl),
            // The message ends with the names that are possible.
            _ => text
                .parse()
                .map(Self::Of)
                .map_err(|error| format!("{error}, fpm-br, fpm-kl")),
        }
    }
}

impl Serialize for How {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Columns from left to right, each with its nodes from top to bottom: `0,1/2,3`.
#[derive(Clone)]
pub struct Columns(pub Vec<Vec<usize>>);

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let column = |nodes: &str| nodes.split(',').map(str::parse).collect();
        let columns: Result<_, std::num::ParseIntError> = text.split('/').map(column).collect();
        columns.map(Self).map_err(|_| {
            "expected columns of nodes counted from 0, with commas between nodes and slashes between \
             columns: 0,1/2,3"
                .to_owned()
        })
    }
}
