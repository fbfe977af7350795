//! The division of a multiplication among nodes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::layout::{Layout, LayoutError, Way, slice_cols};

/// A division of a multiplication among nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Division {
    /// C is divided: every node computes and holds its rectangle of C, and panels of A and B travel.
    C(Layout),
    /// k is divided: every node computes all of C over its share of k. A and B stay, and the nodes' contributions are summed
    /// where C is held.
    K {
        /// Blocks of k by rank.
        shares: Vec<u64>,
        /// The rectangles of C that the nodes hold, in blocks.
        held: Layout,
    },
}

/// Returns the slices of columns in which C of `rows × cols` blocks is held while k is divided, as even as
/// blocks allow.
///
/// # Errors
/// Returns [`LayoutError`] if there are no nodes, or if C has more blocks than can be counted.
pub fn hold_evenly((rows, cols): (u64, u64), nodes: usize) -> Result<Layout, LayoutError> {
    let nodes = nodes as u64;
    let widths = (0..nodes).map(|node| cols / nodes + u64::from(node < cols % nodes));
    slice_cols(rows, &widths.collect::<Vec<_>>())
}

impl Division {
    /// Returns the rectangles of C that the nodes hold, in blocks.
    pub fn layout(&self) -> &Layout {
        match self {
            Self::C(layout) | Self::K { held: layout, .. } => layout,
        }
    }

    /// Returns the blocks of k by node; `None` if C is divided.
    pub fn shares(&self) -> Option<&[u64]> {
        match self {
            Self::C(_) => None,
            Self::K { shares, .. } => Some(shares),
        }
    }

    /// Returns the way of dividing: k, or C as its layout divides it.
    pub fn way(&self) -> Way {
        match self {
            Self::C(layout) => Way::of(layout),
            Self::K { .. } => Way::K,
        }
    }
}

impl fmt::Display for Division {
    /// Writes the dimension that is divided: `c` or `k`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::C(_) => "c",
            Self::K { .. } => "k",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{slice_cols, slice_rows};

    #[test]
    fn a_division_knows_its_way_and_its_shares() {
        let rows = Division::C(slice_rows(4, &[2, 2]).unwrap());
        assert_eq!((rows.way(), rows.shares(), rows.to_string()), (Way::M, None, "c".to_owned()));
        let held = slice_cols(4, &[2, 2]).unwrap();
        let shares = Division::K { shares: vec![3, 1], held: held.clone() };
        assert_eq!((shares.way(), shares.layout()), (Way::K, &held));
        assert_eq!((shares.shares(), shares.to_string()), (Some(&[3, 1][..]), "k".to_owned()));
        for division in [rows, shares] {
            let json = serde_json::to_string(&division).unwrap();
            assert_eq!(serde_json::from_str::<Division>(&json).unwrap(), division);
        }
    }
}
