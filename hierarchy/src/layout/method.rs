//! The layouts that need areas only, by name.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

use super::{
    GridRule, Layout, LayoutError, Way, br, br_in, cartesian, cartesian_in, kl, kl_columns,
    recursive, slice_cols, slice_rows,
};
use crate::partition::apportion;

/// A way to turn areas into rectangles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumString, VariantArray, strum::VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = LayoutError, parse_err_fn = unknown_method)]
pub enum Method {
    /// Columns of equally many nodes as they come: [`kl()`].
    Kl,
    /// Columns of the least sum of half-perimeters: [`br()`].
    #[default]
    #[strum(to_string = "br", serialize = "fpm-br")]
    Br,
    /// A grid: [`cartesian()`] by [`GridRule::Balanced`]. The areas are approximate.
    Cartesian,
    /// A grid: [`cartesian()`] by [`GridRule::Sums`]. The areas are approximate.
    CartesianSums,
    /// Rectangles by recursive cuts: [`recursive()`].
    Recursive,
    /// Heights and widths by models, in columns: [`fpm_kl()`](super::fpm_kl()). By areas alone it is [`Kl`](Self::Kl).
    FpmKl,
}

fn unknown_method(name: &str) -> LayoutError {
    LayoutError::UnknownMethod(name.to_owned())
}

impl Method {
    /// Returns `true` if the nodes' columns may be given, as [`arrange_in()`] takes them.
    pub fn takes_columns(self) -> bool {
        matches!(self, Self::Kl | Self::Cartesian | Self::CartesianSums | Self::FpmKl)
    }
}

/// Arranges `areas` (relative, one per node) over a matrix of `rows × cols` blocks.
///
/// The [sum of half-perimeters](Layout::half_perimeter_sum) and its
/// [lower bound](Layout::lower_bound) compare the methods. A node without blocks gets
/// [`Rect::default()`](super::Rect).
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite area, [`LayoutError::NoArea`] if there are blocks
/// and no area is positive, [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
pub fn arrange(method: Method, areas: &[f64], rows: u64, cols: u64) -> Result<Layout, LayoutError> {
    let layout = match method {
        Method::Kl | Method::FpmKl => kl(areas, &kl_columns(areas, rows, cols)?, rows, cols),
        Method::Br => br(areas, rows, cols),
        Method::Cartesian => cartesian(GridRule::Balanced, areas, rows, cols),
        Method::CartesianSums => cartesian(GridRule::Sums, areas, rows, cols),
        Method::Recursive => recursive(areas, rows, cols),
    };
    layout.map(Layout::forget_empty_places)
}

/// Arranges `areas` as [`arrange()`] does, in the given `columns`, from left to right, each with its
/// nodes from top to bottom.
///
/// # Errors
/// Returns [`LayoutError::OwnColumns`] unless [`Method::takes_columns()`]; else the errors of [`kl()`] or
/// [`cartesian_in()`].
pub fn arrange_in(
    method: Method,
    columns: &[Vec<usize>],
    areas: &[f64],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    match method {
        Method::Kl | Method::FpmKl => kl(areas, columns, rows, cols),
        Method::Cartesian => cartesian_in(GridRule::Balanced, columns, areas, rows, cols),
        Method::CartesianSums => cartesian_in(GridRule::Sums, columns, areas, rows, cols),
        Method::Br | Method::Recursive => Err(LayoutError::OwnColumns { method }),
    }
}

/// Arranges other areas in a layout's place: in slices if it is in slices, else as [`arrange()`] does. The
/// columns of nodes stay if that costs little, so that few blocks change their node. A node that had no blocks joins a column
/// or gets one at the right.
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite area; [`LayoutError::NoArea`] if there are blocks
/// and no area is positive; [`LayoutError::NoNodes`] and [`LayoutError::TooLarge`].
pub fn rearrange(current: &Layout, method: Method, areas: &[f64]) -> Result<Layout, LayoutError> {
    rearrange_over(current, method, areas, current.rows(), current.cols())
}

/// Arranges other areas over another matrix as they are in this layout.
pub(super) fn rearrange_over(
    current: &Layout,
    method: Method,
    areas: &[f64],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    let free = match Way::of(current) {
        Way::M => slice_rows(cols, &apportion(rows, areas))?,
        Way::N => slice_cols(rows, &apportion(cols, areas))?,
        Way::C | Way::K => arrange(method, areas, rows, cols)?,
    };
    let columns = current.columns().filter(|_| method == Method::Br);
    let kept = columns.and_then(|columns| {
        let columns = admit_nodes(columns, Way::of(current), areas, rows, cols);
        br_in(&columns, areas, rows, cols).ok()
    });
    let most = KEEP * free.half_perimeter_sum() as f64;
    Ok(match kept.map(Layout::forget_empty_places) {
        Some(kept) if kept.half_perimeter_sum() as f64 <= most => kept,
        _ => free,
    })
}

/// Adds the nodes that are in no column and have an area now. Slices stay slices.
fn admit_nodes(
    mut columns: Vec<Vec<usize>>,
    way: Way,
    areas: &[f64],
    rows: u64,
    cols: u64,
) -> Vec<Vec<usize>> {
    let coming: Vec<usize> = (0..areas.len())
        .filter(|node| areas[*node] > 0.0 && !columns.iter().any(|column| column.contains(node)))
        .collect();
    let mut admitted = areas.to_vec();
    for &node in &coming {
        admitted[node] = 0.0;
    }
    for node in coming {
        admitted[node] = areas[node];
        let places = match way {
            Way::M => 0..columns.len(),
            Way::N => columns.len()..columns.len() + 1,
            Way::C | Way::K => 0..columns.len() + 1,
        };
        let best = places.map(|place| add_node(&columns, place, node)).min_by_key(|candidate| {
            let layout = br_in(candidate, &admitted, rows, cols);
            layout.map_or(u64::MAX, |layout| layout.half_perimeter_sum())
        });
        columns = best.unwrap_or(columns);
    }
    columns
}

/// Adds a node at the bottom of a column, or in a new one at the right.
fn add_node(columns: &[Vec<usize>], place: usize, node: usize) -> Vec<Vec<usize>> {
    let mut columns = columns.to_vec();
    columns.resize(columns.len().max(place + 1), Vec::new());
    columns[place].push(node);
    columns
}

/// Largest ratio of half-perimeters to the least possible for which columns stay in mid-run.
const KEEP: f64 = 1.03;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_that_change_a_little_stay_in_their_columns() {
        let areas = [4.0, 2.0, 1.0, 1.0];
        let first = arrange(Method::Br, &areas, 16, 16).expect("fits");
        let next = rearrange(&first, Method::Br, &[4.0, 1.4, 1.0, 1.6]).expect("fits");
        assert_eq!(next.columns(), first.columns());
        for slices in [slice_rows(4, &[8, 4, 2, 2]), slice_cols(4, &[8, 4, 2, 2])] {
            let slices = slices.expect("fits");
            let next = rearrange(&slices, Method::Br, &[0.0, 3.0, 3.0, 2.0]).expect("fits");
            assert_eq!(Way::of(&next), Way::of(&slices));
            assert_eq!(next.areas(), [0, 24, 24, 16]);
            let again = rearrange(&next, Method::Br, &areas).expect("fits");
            assert_eq!(again.areas(), [32, 16, 8, 8]);
        }
    }

    #[test]
    fn a_node_that_comes_back_leaves_the_others_in_their_columns() {
        let first = arrange(Method::Br, &[3.0, 4.0, 0.0], 16, 16).expect("fits");
        let next = rearrange(&first, Method::Br, &[4.0, 3.0, 1.0]).expect("fits");
        assert_eq!(next.areas(), [128, 96, 32]);
        for node in 0..2 {
            assert_eq!(next.rects()[node].row, first.rects()[node].row);
        }
        let order = [&first, &next].map(|layout| layout.rects()[0].col < layout.rects()[1].col);
        assert_eq!(order[0], order[1]);
        let alone = arrange(Method::Br, &[0.0, 1.0, 0.0], 8, 8).expect("fits");
        let both = rearrange(&alone, Method::Br, &[1.0, 3.0, 4.0]).expect("fits");
        assert_eq!((both.rects()[1].row, both.rects()[1].col), (0, 0));
        assert_eq!(both.areas(), [8, 24, 32]);
    }

    #[test]
    fn names_read_back() {
        for &method in Method::VARIANTS {
            assert_eq!(method.to_string().parse(), Ok(method));
            let json = serde_json::to_string(&method).expect("serialises");
            assert_eq!(json, format!("\"{method}\""));
        }
        let error = "columns".parse::<Method>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "unknown layout method \"columns\": expected one of kl, br, cartesian, \
             cartesian-sums, recursive, fpm-kl"
        );
    }

    #[test]
    fn only_some_methods_take_columns() {
        for &method in Method::VARIANTS {
            let found = arrange_in(method, &[vec![0], vec![1]], &[1.0, 3.0], 4, 4);
            let found = found.map(|layout| layout.areas());
            if method.takes_columns() {
                assert_eq!(found, Ok(vec![4, 12]), "{method}")
            } else {
                assert_eq!(found, Err(LayoutError::OwnColumns { method }))
            }
        }
    }

    #[test]
    fn cuts_may_communicate_less_than_columns() {
        let areas = [8.0, 6.0, 1.0, 1.0];
        let columns = arrange(Method::Br, &areas, 120, 120).expect("valid");
        let cuts = arrange(Method::Recursive, &areas, 120, 120).expect("valid");
        assert!(cuts.half_perimeter_sum() < columns.half_perimeter_sum());
    }
}
