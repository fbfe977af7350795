//! The dimension that a division cuts.

use serde::{Deserialize, Serialize};
use strum::Display;

use super::Layout;

/// The dimension that is divided among the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[derive(Display)]
#[strum(serialize_all = "lowercase")]
pub enum Way {
    /// m and n: C in rectangles. Every node receives rows of A and columns of B.
    #[default]
    C,
    /// m alone: C in slices of rows. Every node receives all of B.
    M,
    /// n alone: C in slices of columns. Every node receives all of A.
    N,
    /// k: every node computes all of C over its share, and the parts are summed.
    K,
}

impl Way {
    /// Returns the way of a layout while C stays.
    ///
    /// It is [`M`](Self::M) if all rectangles are as wide as C, [`N`](Self::N) if all are as high, and
    /// [`C`](Self::C) otherwise or if one node has everything.
    pub fn of(layout: &Layout) -> Self {
        let mut rects = layout.rects().iter().filter(|rect| !rect.is_empty());
        let wide = rects.clone().all(|rect| rect.cols == layout.cols());
        let high = rects.all(|rect| rect.rows == layout.rows());
        match (wide, high) {
            (true, false) => Self::M,
            (false, true) => Self::N,
            _ => Self::C,
        }
    }
}
