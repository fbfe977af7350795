//! The communication minimising algorithm: rectangles in columns.

use std::ops::Range;

use super::{Layout, LayoutError, Rect};
use crate::partition::apportion;

/// Arranges one rectangle per node, of areas in proportion to `areas`, in columns over a matrix of
/// `rows × cols` blocks so that the sum of half-perimeters is minimal.
///
/// The areas are sorted ascending and cut into columns, each a run of consecutive nodes as wide as its
/// share of the matrix. With `W(j, q)` the width that nodes `j+1 ..= q` need together,
///
/// `F[0] = 0`, `F[q] = min_{0 ≤ j < q} F[j] + rows + (q - j) · W(j, q)`
///
/// is the least sum for the first `q` nodes. Beaumont et al. tile the unit square; here the true
/// heights and widths enter, so that a long matrix gets columns that suit it. Widths and then the
/// heights within each column are rounded to whole blocks by [`apportion()`], which keeps the largest
/// excess over the exact share smallest at either stage. O(p²) time, O(p) memory.
///
/// A node of area 0, or of less than rounding leaves, gets an empty rectangle.
///
/// # Errors
/// [`LayoutError::InvalidArea`] for a negative or non-finite area, [`LayoutError::NoArea`] if there
/// are blocks and no area is positive, [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{Rect, br};
///
/// let layout = br(&[3.0, 1.0], 8, 8)?;
/// assert_eq!(layout.rects()[0], Rect { row: 0, col: 2, rows: 8, cols: 6 });
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// Beaumont, Boudet, Rastello and Robert 2001; Clarke's thesis, section 5.1.2; Clarke et al. 2012,
/// section 3 (CMA).
pub fn br(areas: &[f64], rows: u64, cols: u64) -> Result<Layout, LayoutError> {
    check_areas(areas)?;
    let mut rects = vec![Rect::default(); areas.len()];
    if rows == 0 || cols == 0 {
        return Layout::new(rows, cols, rects);
    }
    let mut order: Vec<usize> = (0..areas.len()).filter(|&node| areas[node] > 0.0).collect();
    if order.is_empty() && !areas.is_empty() {
        return Err(LayoutError::NoArea { rows, cols });
    }
    order.sort_by(|&a, &b| areas[a].total_cmp(&areas[b]));
    let shares = shares(order.iter().map(|&node| areas[node]));
    let columns = best_columns(&shares, rows as f64, cols as f64);
    let column_shares: Vec<f64> = columns
        .iter()
        .map(|column| shares[column.clone()].iter().sum())
        .collect();
    let mut col = 0;
    for (column, width) in columns.into_iter().zip(apportion(cols, &column_shares)) {
        let heights = apportion(rows, &shares[column.clone()]);
        let mut row = 0;
        for (&node, height) in order[column].iter().zip(heights) {
            rects[node] = Rect {
                row,
                col,
                rows: height,
                cols: width,
            };
            row += height;
        }
        col += width;
    }
    Layout::new(rows, cols, rects)
}

/// What no arrangement of rectangles of these proportions can go below in its sum of half-perimeters:
/// `Σ 2 √a_i`, every rectangle a square, the areas scaled to sum to `rows · cols`. 0 if no area is
/// positive. In blocks, and before rounding to whole blocks.
///
/// # References
/// Beaumont, Boudet, Rastello and Robert 2001.
#[must_use]
pub fn lower_bound(areas: &[f64], rows: u64, cols: u64) -> f64 {
    let matrix = rows as f64 * cols as f64;
    let positive = areas.iter().copied().filter(|&area| area > 0.0);
    shares(positive)
        .iter()
        .map(|share| 2.0 * (share * matrix).sqrt())
        .sum()
}

fn check_areas(areas: &[f64]) -> Result<(), LayoutError> {
    match areas
        .iter()
        .enumerate()
        .find(|(_, area)| !(area.is_finite() && **area >= 0.0))
    {
        Some((index, &area)) => Err(LayoutError::InvalidArea { index, area }),
        None => Ok(()),
    }
}

/// Positive `areas` as fractions of their sum.
fn shares(areas: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    // Relative to the largest, the sum cannot overflow.
    let largest = areas.clone().fold(0.0, f64::max);
    let sum: f64 = areas.clone().map(|area| area / largest).sum();
    areas.map(|area| area / largest / sum).collect()
}

/// Cuts `shares` (ascending, summing to 1) into the columns of least total half-perimeter on a matrix
/// of `height × width`.
fn best_columns(shares: &[f64], height: f64, width: f64) -> Vec<Range<usize>> {
    let n = shares.len();
    let mut least = vec![0.0; n + 1];
    let mut start = vec![0; n + 1];
    for q in 1..=n {
        let (mut sum, mut best) = (0.0, f64::INFINITY);
        for j in (0..q).rev() {
            sum += shares[j];
            let cost = least[j] + height + (q - j) as f64 * (sum * width);
            if cost < best {
                (best, start[q]) = (cost, j);
            }
        }
        least[q] = best;
    }
    let mut columns = Vec::new();
    let mut end = n;
    while end > 0 {
        columns.push(start[end]..end);
        end = start[end];
    }
    columns.reverse();
    columns
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cost(shares: &[f64], columns: &[Range<usize>], height: f64, width: f64) -> f64 {
        let column = |c: &Range<usize>| {
            height + c.len() as f64 * shares[c.clone()].iter().sum::<f64>() * width
        };
        columns.iter().map(column).sum()
    }

    /// Every way to cut `n` nodes into runs, one bit for each possible cut.
    fn all_columns(n: usize) -> impl Iterator<Item = Vec<Range<usize>>> {
        (0..1_u32 << (n - 1)).map(move |cuts| {
            let inner = (1..n).filter(|i| cuts >> (i - 1) & 1 == 1);
            let bounds: Vec<usize> = [0].into_iter().chain(inner).chain([n]).collect();
            bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
        })
    }

    proptest! {
        #[test]
        fn columns_are_as_good_as_exhaustive_search(
            areas in prop::collection::vec(0.01..10.0_f64, 1..=8),
            height in 1.0..1000.0_f64,
            width in 1.0..1000.0_f64,
        ) {
            let mut areas = areas;
            areas.sort_by(f64::total_cmp);
            let shares = shares(areas.iter().copied());
            let found = cost(&shares, &best_columns(&shares, height, width), height, width);
            let least = all_columns(shares.len())
                .map(|columns| cost(&shares, &columns, height, width))
                .fold(f64::INFINITY, f64::min);
            prop_assert!(found <= least * (1.0 + 1e-12), "{found} > {least}");
        }
    }

    #[test]
    fn a_flat_matrix_gets_columns_and_a_tall_one_rows() {
        let flat = br(&[1.0; 4], 1, 100).expect("areas");
        assert!(
            flat.rects()
                .iter()
                .all(|rect| (rect.rows, rect.cols) == (1, 25))
        );
        let tall = br(&[1.0; 4], 100, 1).expect("areas");
        assert!(
            tall.rects()
                .iter()
                .all(|rect| (rect.rows, rect.cols) == (25, 1))
        );
        let square = br(&[1.0; 4], 100, 100).expect("areas");
        assert_eq!(
            square.half_perimeter_sum() as f64,
            lower_bound(&[7.0; 4], 100, 100)
        );
    }

    #[test]
    fn impossible_areas_are_refused() {
        assert_eq!(
            br(&[], 2, 2),
            Err(LayoutError::NoNodes { rows: 2, cols: 2 })
        );
        assert_eq!(
            br(&[0.0], 2, 2),
            Err(LayoutError::NoArea { rows: 2, cols: 2 })
        );
        assert_eq!(
            br(&[1.0, -1.0], 2, 2),
            Err(LayoutError::InvalidArea {
                index: 1,
                area: -1.0
            })
        );
        assert_eq!(br(&[0.0, 0.0], 0, 2).expect("no blocks").areas(), [0, 0]);
    }
}
