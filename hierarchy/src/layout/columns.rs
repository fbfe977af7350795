//! The communication minimising algorithm (CMA): rectangles in columns.
//!
//! # Deviations
//!
//! * **CMA**: the paper tiles a unit square (thesis, 5.1.2). Here true rows and columns of blocks are
//!   tiled, because a long matrix needs other columns. Widths, and then heights, follow Jefferson's
//!   method, which minimises the largest time at either stage.
//! * **search for the columns**: the paper fills a table of p² costs (Beaumont et al. 2001). Here binary
//!   searches find the same minimum, because they take only O(p log p) time. The quadrangle inequality
//!   makes them possible.

use std::collections::VecDeque;
use std::ops::Range;

use super::areas::{check_areas, sort_ascending, to_shares};
use super::arrangement::br_in;
use super::{Layout, LayoutError};

/// Arranges one rectangle per node, of areas in proportion to `areas`, in columns over a matrix of
/// `rows × cols` blocks so that the sum of half-perimeters is minimal.
///
/// The areas are sorted in ascending order and cut into columns. Each column is a run of consecutive
/// nodes, and its width is its share of the matrix. With `W(j, q)` the width that nodes `j+1 ..= q`
/// need together,
///
/// `F[0] = 0`, `F[q] = min_{0 ≤ j < q} F[j] + rows + (q - j) · W(j, q)`
///
/// is the least sum for the first `q` nodes. [`br_in()`] places the columns in whole blocks; its
/// documentation says how far rounding moves the areas.
///
/// O(p log p) time and O(p) memory are enough because the best `j` never decreases with `q`. The cost
/// `(q - j) · W(j, q)` is a number of nodes times a width, and both add up over runs. For adjacent runs
/// `X`, `Y`, `Z` of `n` nodes and widths `w` each,
///
/// `cost(XYZ) + cost(Y) - cost(XY) - cost(YZ) = n_X w_Z + n_Z w_X ≥ 0`,
///
/// which is the quadrangle inequality. So a later start of the last column, once it is as good as an
/// earlier one, remains so. One binary search finds the node from which that holds.
///
/// A node gets an empty rectangle if its area is 0, or so small that rounding leaves it no block.
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite area, [`LayoutError::NoArea`] if there are blocks
/// and no area is positive, [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
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
/// section 3 (CMA). The search: Galil and Park, "Dynamic programming with convexity, concavity and
/// sparsity", Theoretical Computer Science 92(1), 1992.
pub fn br(areas: &[f64], rows: u64, cols: u64) -> Result<Layout, LayoutError> {
    br_in(&br_columns(areas, rows, cols)?, areas, rows, cols)
}

/// Chooses the columns of [`br()`], from left to right, each with its nodes from top to bottom. Nodes
/// of area 0 are in none.
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite area.
pub fn br_columns(areas: &[f64], rows: u64, cols: u64) -> Result<Vec<Vec<usize>>, LayoutError> {
    check_areas(areas)?;
    let order = sort_ascending(areas);
    let shares = to_shares(order.iter().map(|&node| areas[node]));
    let (_, columns) = best_columns(&shares, rows as f64, cols as f64);
    Ok(columns.into_iter().map(|column| order[column].to_vec()).collect())
}

/// Returns the lower bound of the sum of half-perimeters of rectangles in proportion to `areas`, in
/// blocks, before rounding to whole blocks.
///
/// It is `Σ 2 √a_i`, every rectangle a square, with the areas scaled to sum to `rows · cols`; 0 if no
/// area is positive.
///
/// # References
/// Beaumont, Boudet, Rastello and Robert 2001.
pub fn lower_bound(areas: &[f64], rows: u64, cols: u64) -> f64 {
    let matrix = rows as f64 * cols as f64;
    let positive = areas.iter().copied().filter(|&area| area > 0.0);
    let half_perimeters =
        to_shares(positive).into_iter().map(|share| 2.0 * (share * matrix).sqrt());
    // A sum of nothing would be -0.
    half_perimeters.fold(0.0, |sum, each| sum + each)
}

/// Least costs of the columns that end before a node.
struct ColumnCosts {
    height: f64,
    width: f64,
    /// Sums of the shares before each node.
    before: Vec<f64>,
    /// `F`.
    least: Vec<f64>,
}

impl ColumnCosts {
    /// Returns the least sum for the first `q` nodes if the last column starts with node `j`.
    fn cost(&self, j: usize, q: usize) -> f64 {
        let width = (self.before[q] - self.before[j]) * self.width;
        self.least[j] + self.height + (q - j) as f64 * width
    }

    /// Finds the first `q > from` up to `end` from which on starting with node `late` costs no more
    /// than with node `early`, or `end + 1`.
    fn find_takeover(&self, late: usize, early: usize, from: usize, end: usize) -> usize {
        let (mut low, mut high) = (from + 1, end + 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.cost(late, middle) <= self.cost(early, middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// Cuts `shares` (ascending, summing to 1) into the columns of the least sum of half-perimeters on
/// a matrix of `height × width`. Returns that sum and the columns.
pub(super) fn best_columns(shares: &[f64], height: f64, width: f64) -> (f64, Vec<Range<usize>>) {
    let n = shares.len();
    let before = shares.iter().scan(0.0, |sum, share| {
        *sum += share;
        Some(*sum)
    });
    let mut table = ColumnCosts {
        height,
        width,
        before: [0.0].into_iter().chain(before).collect(),
        least: vec![0.0; n + 1],
    };
    let mut start = vec![0];
    // Starts of the last column, each the best from its q on and until the next one's.
    let mut starts = VecDeque::from([(0, 1)]);
    for q in 1..=n {
        while starts.len() > 1 && starts[1].1 <= q {
            starts.pop_front();
        }
        let (best, _) = starts[0];
        start.push(best);
        table.least[q] = table.cost(best, q);
        add_start(&mut starts, &table, q, n);
    }
    let mut columns = Vec::new();
    let mut end = n;
    while end > 0 {
        columns.push(start[end]..end);
        end = start[end];
    }
    columns.reverse();
    (table.least[n], columns)
}

/// Adds the start `q` after those of `starts` that remain better for some column's end up to `n`.
fn add_start(starts: &mut VecDeque<(usize, usize)>, table: &ColumnCosts, q: usize, n: usize) {
    let mut from = q + 1;
    while let Some(&(last, best_from)) = starts.back() {
        let first = best_from.max(q + 1);
        if first <= n && table.cost(q, first) <= table.cost(last, first) {
            starts.pop_back();
            from = first;
        } else {
            from = table.find_takeover(q, last, first, n);
            break;
        }
    }
    if from <= n {
        starts.push_back((q, from));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sums the half-perimeters of columns.
    fn sum_columns(shares: &[f64], columns: &[Range<usize>], height: f64, width: f64) -> f64 {
        columns
            .iter()
            .map(|column| &shares[column.clone()])
            .map(|shares| height + shares.len() as f64 * shares.iter().sum::<f64>() * width)
            .sum()
    }

    /// Lists the cuts of `n` nodes into runs, one bit for each possible cut.
    fn list_columns(n: usize) -> impl Iterator<Item = Vec<Range<usize>>> {
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
            let shares = to_shares(areas.iter().copied());
            let found = sum_columns(&shares, &best_columns(&shares, height, width).1, height, width);
            let least = list_columns(shares.len())
                .map(|columns| sum_columns(&shares, &columns, height, width))
                .fold(f64::INFINITY, f64::min);
            prop_assert!(found <= least * (1.0 + 1e-12), "{found} > {least}");
        }
    }

    /// Evaluates the recurrence itself.
    fn least_sum(shares: &[f64], height: f64, width: f64) -> f64 {
        let mut least = vec![0.0; shares.len() + 1];
        for q in 1..=shares.len() {
            least[q] = (0..q)
                .map(|j| (j, shares[j..q].iter().sum::<f64>() * width))
                .map(|(j, column)| least[j] + height + (q - j) as f64 * column)
                .fold(f64::INFINITY, f64::min);
        }
        least[shares.len()]
    }

    proptest! {
        #[test]
        fn the_search_finds_what_the_whole_table_has(
            exponents in prop::collection::vec(-6.0..6.0_f64, 1..=150),
            levels in 1..20_u32,
            height in 1.0..1000.0_f64,
            width in 1.0..1000.0_f64,
        ) {
            // Few levels make many equal areas.
            let level = f64::from(levels) / 12.0;
            let mut areas: Vec<f64> =
                exponents.iter().map(|e| 10_f64.powf((e * level).round() / level)).collect();
            areas.sort_by(f64::total_cmp);
            let shares = to_shares(areas.iter().copied());
            let found = sum_columns(&shares, &best_columns(&shares, height, width).1, height, width);
            let least = least_sum(&shares, height, width);
            prop_assert!(found <= least * (1.0 + 1e-12), "{found} > {least}");
        }
    }

    #[test]
    fn a_flat_matrix_gets_columns_and_a_tall_one_rows() {
        let flat = br(&[1.0; 4], 1, 100).expect("areas");
        assert!(flat.rects().iter().all(|rect| (rect.rows, rect.cols) == (1, 25)));
        let tall = br(&[1.0; 4], 100, 1).expect("areas");
        assert!(tall.rects().iter().all(|rect| (rect.rows, rect.cols) == (25, 1)));
        let square = br(&[1.0; 4], 100, 100).expect("areas");
        assert_eq!(square.half_perimeter_sum() as f64, lower_bound(&[7.0; 4], 100, 100));
    }

    #[test]
    fn impossible_areas_are_refused() {
        assert_eq!(br(&[], 2, 2), Err(LayoutError::NoNodes { rows: 2, cols: 2 }));
        assert_eq!(br(&[0.0], 2, 2), Err(LayoutError::NoArea { rows: 2, cols: 2 }));
        assert_eq!(br(&[1.0, -1.0], 2, 2), Err(LayoutError::InvalidArea { index: 1, area: -1.0 }));
        assert_eq!(br(&[0.0, 0.0], 0, 2).expect("no blocks").areas(), [0, 0]);
    }
}
