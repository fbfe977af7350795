//! The layouts that need areas only, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::columns::check_areas;
use super::{Layout, LayoutError, Rect, Zones};
use super::{br, cartesian, corner, kl, kl_columns, recursive, slice_cols, slice_rows};
use crate::partition::apportion;

/// How areas become zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Columns of equally many nodes as they come: [`kl()`].
    Kl,
    /// Columns of the least sum of half-perimeters: [`br()`].
    #[default]
    Br,
    /// A grid: [`cartesian()`]. The areas are approximate.
    Cartesian,
    /// Rectangles by recursive cuts: [`recursive()`].
    Recursive,
    /// Rectangles and L-shaped zones: [`corner()`].
    Corner,
    /// Horizontal slices of the whole width: [`slice_rows()`].
    RowSlices,
    /// Vertical slices of the whole height: [`slice_cols()`].
    ColumnSlices,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 7] = [
        Self::Kl,
        Self::Br,
        Self::Cartesian,
        Self::Recursive,
        Self::Corner,
        Self::RowSlices,
        Self::ColumnSlices,
    ];

    /// The name in text: `kl`, `br`, `cartesian`, `recursive`, `corner`, `row-slices` or
    /// `column-slices`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kl => "kl",
            Self::Br => "br",
            Self::Cartesian => "cartesian",
            Self::Recursive => "recursive",
            Self::Corner => "corner",
            Self::RowSlices => "row-slices",
            Self::ColumnSlices => "column-slices",
        }
    }

    pub(super) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Whether every node gets one rectangle.
    #[must_use]
    pub fn is_rectangular(self) -> bool {
        self != Self::Corner
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Method {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == text)
            .ok_or_else(|| LayoutError::UnknownMethod {
                name: text.to_owned(),
            })
    }
}

/// Arranges `areas` (relative, one a node) over a matrix of `rows × cols` blocks. The result's
/// [cost](Zones::cost) and [lower bound](Zones::lower_bound) compare the methods; a method whose zones
/// are all rectangles gives a [`Layout`] by `try_into()`.
///
/// # Errors
/// [`LayoutError::InvalidArea`] for a negative or non-finite area, [`LayoutError::NoArea`] if there
/// are blocks and no area is positive, [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{Method, arrange};
///
/// let cost = |method| arrange(method, &[30.0, 1.0], 100, 100).map(|zones| zones.cost());
/// assert!(cost(Method::Corner)? < cost(Method::Br)?);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
pub fn arrange(method: Method, areas: &[f64], rows: u64, cols: u64) -> Result<Zones, LayoutError> {
    match method {
        Method::Kl => kl(areas, &kl_columns(areas, rows, cols)?, rows, cols).map(Zones::from),
        Method::Br => br(areas, rows, cols).map(Zones::from),
        Method::Cartesian => cartesian(areas, rows, cols).map(Zones::from),
        Method::Recursive => recursive(areas, rows, cols).map(Zones::from),
        Method::Corner => corner(areas, rows, cols),
        Method::RowSlices | Method::ColumnSlices => {
            slices(method, areas, rows, cols).map(Zones::from)
        }
    }
}

/// Slices in proportion to `areas`.
fn slices(method: Method, areas: &[f64], rows: u64, cols: u64) -> Result<Layout, LayoutError> {
    check_areas(areas)?;
    if rows == 0 || cols == 0 || areas.is_empty() {
        return Layout::new(rows, cols, vec![Rect::default(); areas.len()]);
    }
    if areas.iter().all(|&area| area == 0.0) {
        return Err(LayoutError::NoArea { rows, cols });
    }
    match method {
        Method::RowSlices => slice_rows(cols, &apportion(rows, areas)),
        _ => slice_cols(rows, &apportion(cols, areas)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for method in Method::ALL {
            assert_eq!(method.to_string().parse(), Ok(method));
            let json = serde_json::to_string(&method).expect("serialises");
            assert_eq!(json, format!("{:?}", method.name()));
        }
        let error = "columns".parse::<Method>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "unknown layout method \"columns\": expected one of kl, br, cartesian, recursive, corner, \
             row-slices, column-slices"
        );
    }
}
