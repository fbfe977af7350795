//! Given columns of nodes.

use std::collections::BTreeMap;

use super::areas::{check_areas, relate};
use super::{Layout, LayoutError, Rect};
use crate::partition::apportion;

/// Arranges rectangles of areas in proportion to `areas` in the given `columns`, from left to right,
/// each with its nodes from top to bottom, over a matrix of `rows × cols` blocks.
///
/// The width of a column is its share of the matrix, the height of a node its share of the column.
/// [`apportion()`] rounds the widths, then the heights, to whole blocks. With `q` columns and `p` nodes
/// in the column, a node with an exact rectangle of `h × w` gets more than `(h - 1) · (w - 1)` and less
/// than `h · w · (1 + p / rows) · (1 + q / cols)` blocks. A node of area 0 need not be in a column.
///
/// A balancing loop can keep the columns that it has measured, by [`Layout::columns`]. Then few blocks
/// move while the areas change little.
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite area; [`LayoutError::NoSuchNode`],
/// [`LayoutError::Repeated`], and [`LayoutError::NotArranged`] for a node of positive area, if the columns do not hold
/// every node once; [`LayoutError::NoArea`] if there are blocks and no area is positive; [`LayoutError::NoNodes`],
/// [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{br, br_in};
///
/// let measured = br(&[4.0, 2.0, 1.0, 1.0], 16, 16)?;
/// let columns = measured.columns().unwrap_or_default();
/// assert_eq!(columns, [vec![2, 3, 1], vec![0]]);
/// // The new areas would be sorted differently.
/// let kept = br_in(&columns, &[4.0, 1.0, 1.0, 2.0], 16, 16)?;
/// assert_eq!(kept.columns(), Some(columns));
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
pub fn br_in(
    columns: &[Vec<usize>],
    areas: &[f64],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    check_arrangement(columns, areas)?;
    let nodes = areas.len();
    if rows == 0 || cols == 0 || areas.is_empty() {
        return Layout::new(rows, cols, vec![Rect::default(); nodes]);
    }
    if areas.iter().all(|&area| area == 0.0) {
        return Err(LayoutError::NoArea { rows, cols });
    }
    let widths = apportion(cols, &weigh_columns(columns, areas));
    let heights = columns.iter().map(|column| {
        let areas: Vec<f64> = column.iter().map(|&node| areas[node]).collect();
        apportion(rows, &areas)
    });
    let heights: Vec<Vec<u64>> = heights.collect();
    Layout::new(rows, cols, place(columns, &widths, &heights, nodes))
}

impl Layout {
    /// Finds the columns of the rectangles, from left to right, each with its nodes from top to bottom.
    /// [`br_in()`] arranges other areas in them.
    ///
    /// Returns `None` if the rectangles do not lie in columns over the whole height. A node with an
    /// empty rectangle is in the column that has the place and the width of its rectangle. If there is
    /// no such column, the node is in none.
    pub fn columns(&self) -> Option<Vec<Vec<usize>>> {
        let rects = self.rects();
        let mut columns: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (node, rect) in rects.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
            columns.entry(rect.col).or_default().push(node);
        }
        for column in columns.values() {
            let width = rects[column[0]].cols;
            let alike = column.iter().all(|&node| rects[node].cols == width);
            let height: u64 = column.iter().map(|&node| rects[node].rows).sum();
            if !alike || height != self.rows() {
                return None;
            }
        }
        for (node, rect) in rects.iter().enumerate().filter(|(_, r)| r.is_empty()) {
            if let Some(column) = columns.get_mut(&rect.col)
                && rects[column[0]].cols == rect.cols
            {
                column.push(node);
            }
        }
        Some(
            columns
                .into_values()
                .map(|mut column| {
                    column.sort_by_key(|&node| (rects[node].row, rects[node].rows, node));
                    column
                })
                .collect(),
        )
    }
}

/// Places columns of these widths side by side, with nodes of these heights from top to bottom. Returns
/// the rectangles of all `nodes`.
pub(super) fn place(
    columns: &[Vec<usize>],
    widths: &[u64],
    heights: &[Vec<u64>],
    nodes: usize,
) -> Vec<Rect> {
    let mut rects = vec![Rect::default(); nodes];
    let mut col = 0;
    for ((column, &width), heights) in columns.iter().zip(widths).zip(heights) {
        let mut row = 0;
        for (&node, &height) in column.iter().zip(heights) {
            rects[node] = Rect::new(row, col, height, width);
            row += height;
        }
        col += width;
    }
    rects
}

/// Refuses columns that name a node twice, or a node that does not exist among `nodes`. Returns `true`
/// for each node that the columns name.
pub(super) fn check_nodes(columns: &[Vec<usize>], nodes: usize) -> Result<Vec<bool>, LayoutError> {
    let mut named = vec![false; nodes];
    for &index in columns.iter().flatten() {
        match named.get_mut(index) {
            None => return Err(LayoutError::NoSuchNode { index, nodes }),
            Some(true) => return Err(LayoutError::Repeated { index }),
            Some(name) => *name = true,
        }
    }
    Ok(named)
}

fn check_arrangement(columns: &[Vec<usize>], areas: &[f64]) -> Result<(), LayoutError> {
    check_areas(areas)?;
    let named = check_nodes(columns, areas.len())?;
    match (0..areas.len()).find(|&node| areas[node] > 0.0 && !named[node]) {
        Some(index) => Err(LayoutError::NotArranged { index }),
        None => Ok(()),
    }
}

/// Sums the values of each column's nodes.
pub(super) fn sum_columns(columns: &[Vec<usize>], values: &[f64]) -> Vec<f64> {
    (columns.iter()).map(|column| column.iter().map(|&node| values[node]).sum()).collect()
}

/// Sums the areas of each column, relative to the largest area of all.
fn weigh_columns(columns: &[Vec<usize>], areas: &[f64]) -> Vec<f64> {
    let largest = areas.iter().copied().fold(0.0, f64::max);
    let relative: Vec<f64> = areas.iter().map(|&area| relate(area, largest)).collect();
    sum_columns(columns, &relative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::br;

    const AREAS: [f64; 3] = [1.0, 2.0, 0.0];

    fn refusal(columns: &[Vec<usize>]) -> LayoutError {
        br_in(columns, &AREAS, 4, 4).expect_err("refused")
    }

    #[test]
    fn columns_must_hold_every_node_once() {
        assert_eq!(refusal(&[vec![0]]), LayoutError::NotArranged { index: 1 });
        assert_eq!(refusal(&[vec![0, 1], vec![0]]), LayoutError::Repeated { index: 0 });
        assert_eq!(refusal(&[vec![0, 3]]), LayoutError::NoSuchNode { index: 3, nodes: 3 });
        let layout = br_in(&[vec![], vec![1, 0]], &AREAS, 3, 4).expect("valid");
        assert_eq!(layout.areas(), [4, 8, 0]);
        assert_eq!(layout.columns(), Some(vec![vec![1, 0]]));
        assert_eq!(br_in(&[], &[0.0], 1, 1), Err(LayoutError::NoArea { rows: 1, cols: 1 }));
    }

    #[test]
    fn a_node_too_small_for_a_block_keeps_its_place() {
        let areas = [1e-9, 1.0, 1.0];
        let layout = br_in(&[vec![1], vec![2, 0]], &areas, 4, 4).expect("valid");
        assert_eq!(layout.areas(), [0, 8, 8]);
        assert_eq!(layout.columns(), Some(vec![vec![1], vec![2, 0]]));
    }

    #[test]
    fn what_lies_in_rows_lies_in_no_columns() {
        let rects = [Rect::new(0, 0, 1, 3), Rect::new(1, 0, 1, 1), Rect::new(1, 1, 1, 2)];
        let layout = Layout::new(2, 3, rects.to_vec()).expect("tiles");
        assert_eq!(layout.columns(), None);
        assert_eq!(br(&[1.0], 0, 5).expect("no blocks").columns(), Some(vec![]));
    }
}
