//! Rectangles in a grid.
//!
//! # Deviations
//!
//! * **Cartesian rule**: the report takes widths in proportion to the sums of the columns' speeds, and
//!   heights in proportion to those of the rows (Fig. 14). Here [`GridRule::Balanced`] computes heights
//!   and widths in turn, because the sums can make the largest time longer. [`GridRule::Sums`] is the
//!   report's rule.
//! * **Cartesian grid**: the report tries all arrangements `p × q` by predicted times (4.1.2). Here
//!   computing time and half-perimeters compare the grids, because areas say nothing about the network.
//!   The report tries all nodes first, then one node fewer, as long as that is faster. Here every grid
//!   without room for another row or column is a candidate.

use super::areas::{check_areas, relate, sort_ascending};
use super::arrangement::{check_nodes, place, sum_columns};
use super::{Layout, LayoutError, Rect, lower_bound};
use crate::partition::apportion;

/// Ratio of computing to communicating in a multiplication with a sum of half-perimeters at its lower
/// bound. The best grid depends on it, and areas say nothing about it. A multiplication worth
/// distributing is well above 1.
const COMPUTING_TO_COMMUNICATING: f64 = 4.0;

/// Lower limit of relative speeds, so that products of speeds do not underflow. With
/// [`GridRule::Balanced`] a node that slow gets no block.
const SLOWEST: f64 = 1e-100;

/// The rule that gives the rows of a grid their heights and its columns their widths.
///
/// Node `(i, j)` of speed `s_ij` gets the height `r_i` and the width `c_j`, and takes a time in
/// proportion to `r_i · c_j / s_ij`. If and only if the matrix of speeds has rank 1, all times can be
/// equal; both rules make them equal then. In general no heights and widths can.
///
/// # Example
/// On a grid of 2 × 2 with the speeds 9 and 1 in the first row, 2 and 3 in the second:
/// ```
/// use isochron_hierarchy::layout::{GridRule, cartesian_in};
///
/// let speeds = [9.0, 2.0, 1.0, 3.0];
/// let columns = [vec![0, 1], vec![2, 3]];
/// // Row sums 10 : 5, column sums 11 : 4.
/// let sums = cartesian_in(GridRule::Sums, &columns, &speeds, 285, 15)?;
/// assert_eq!(sums.areas(), [190 * 11, 95 * 11, 190 * 4, 95 * 4]);
/// // Node 2 takes the longest, 190 · 4 / 1. With heights 11 : 8 it takes as long as node 1.
/// let balanced = cartesian_in(GridRule::Balanced, &columns, &speeds, 285, 15)?;
/// assert_eq!(balanced.areas(), [165 * 11, 120 * 11, 165 * 4, 120 * 4]);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GridRule {
    /// The report's rule: `c_j = Σ_i s_ij` and `r_i = Σ_j s_ij`, relative to their sums.
    Sums,
    /// Heights and widths that make the largest time small.
    ///
    /// For given widths the best heights are in proportion to `min_j s_ij / c_j`, and likewise the best
    /// widths for given heights. The two are computed in turn, in O(p) time, which never increases the
    /// largest time. One start is the column sums, the other one the geometric means of the columns; the
    /// better end is taken. So the largest time, before rounding, is never above that of
    /// [`Sums`](Self::Sums). Beaumont et al. start from the singular vectors of the inverse speeds.
    Balanced,
}

/// Arranges rectangles in a grid of rows and columns that reach through the whole matrix of
/// `rows × cols` blocks, by [`cartesian_columns()`] and [`cartesian_in()`].
///
/// Every node has at most one neighbour to each side, and the nodes of a grid row or column are the same
/// in every step of a multiplication. A grid cannot give every node an area in proportion to its speed;
/// see [`GridRule`].
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite speed, [`LayoutError::NoArea`] if there are blocks
/// and no speed is positive, [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # References
/// The errors of [`cartesian_in()`].
pub fn cartesian(
    rule: GridRule,
    speeds: &[f64],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    let columns = cartesian_columns(rule, speeds, rows, cols)?;
    cartesian_in(rule, &columns, speeds, rows, cols)
}

/// Arranges rectangles in a given grid: `columns` of equally many nodes, from left to right, each with
/// its nodes from top to bottom. A node in no column gets an empty rectangle.
///
/// `rule` gives heights and widths, and [`apportion()`] rounds them to whole blocks.
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite speed; [`LayoutError::NoSuchNode`],
/// [`LayoutError::Repeated`]; [`LayoutError::Ragged`] for columns of unlike lengths; [`LayoutError::IdleInGrid`] for a
/// node of speed 0 in a column; [`LayoutError::NoArea`] if there are blocks and no nodes in the grid;
/// [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # References
/// Alonso, Reddy and Lastovetsky 2009, Fig. 14 ([`GridRule::Sums`]). Beaumont, Boudet, Petitet, Rastello
/// and Robert, "A proposal for a heterogeneous cluster ScaLAPACK (dense linear solvers)", IEEE
/// Transactions on Computers 50(10), 2001; Dovolnov, Kalinov and Klimov, "Natural block data
/// decomposition for heterogeneous clusters", IPDPS 2003; both by way of Clarke's thesis, section 2.2,
/// which names Cartesian partitioning without a method.
pub fn cartesian_in(
    rule: GridRule,
    columns: &[Vec<usize>],
    speeds: &[f64],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    check_areas(speeds)?;
    check_nodes(columns, speeds.len())?;
    check_grid(columns, speeds)?;
    if rows == 0 || cols == 0 || speeds.is_empty() {
        return Layout::new(rows, cols, vec![Rect::default(); speeds.len()]);
    }
    if columns.iter().all(Vec::is_empty) {
        return Err(LayoutError::NoArea { rows, cols });
    }
    let fit = GridFit::by_rule(rule, columns, &relate_speeds(speeds));
    let heights = vec![apportion(rows, &fit.heights); columns.len()];
    let widths = apportion(cols, &fit.widths);
    Layout::new(rows, cols, place(columns, &widths, &heights, speeds.len()))
}

/// Chooses the grid of [`cartesian()`], as columns of nodes.
///
/// A grid of `a × b` takes the fastest `a · b` nodes of positive speed in descending order, row after
/// row or column after column, whichever balances better. All grids without room for another row or
/// column are compared by
///
/// `T · Σs / (rows · cols) + (b · rows + a · cols) / (4 · bound)`:
///
/// the computing time `T` by `rule` relative to the ideal time of all nodes, and the sum of
/// half-perimeters relative to the [lower bound](lower_bound()). Communication counts as a fourth of
/// computing. A number of nodes that is no product of two similar numbers leaves two choices. Either some
/// of the slowest nodes stay idle (13 equal nodes stand 4 × 3), or the grid is a single row or column
/// (5 equal nodes). The cheaper of the two is chosen.
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite speed.
pub fn cartesian_columns(
    rule: GridRule,
    speeds: &[f64],
    rows: u64,
    cols: u64,
) -> Result<Vec<Vec<usize>>, LayoutError> {
    check_areas(speeds)?;
    let mut order = sort_ascending(speeds);
    order.reverse();
    let relative = relate_speeds(speeds);
    let bound = lower_bound(speeds, rows, cols);
    let mut best = (f64::INFINITY, Vec::new());
    for shape in list_shapes(&order, &relative, rows, cols, bound) {
        // Shapes come in the order of their least costs: the rest cannot be better.
        if shape.least_cost >= best.0 {
            break;
        }
        for columns in shape.fill(&order) {
            let time = GridFit::by_rule(rule, &columns, &relative).time;
            let cost = shape.least_cost + (time - shape.ideal_time) * shape.all;
            if cost < best.0 {
                best = (cost, columns);
            }
        }
    }
    Ok(best.1)
}

/// A number of rows and columns.
struct GridShape {
    n_rows: usize,
    n_cols: usize,
    /// Time that perfectly balanced nodes of this grid take for the matrix.
    ideal_time: f64,
    /// Sum of all nodes' speeds.
    all: f64,
    /// Cost if the grid balances perfectly.
    least_cost: f64,
}

impl GridShape {
    /// Fills the grid with the first nodes of `order`: once row after row, once column after column.
    fn fill(&self, order: &[usize]) -> [Vec<Vec<usize>>; 2] {
        let (a, b) = (self.n_rows, self.n_cols);
        let along_rows = (0..b).map(|j| (0..a).map(|i| order[i * b + j]).collect());
        let along_columns = (0..b).map(|j| order[j * a..(j + 1) * a].to_vec());
        [along_rows.collect(), along_columns.collect()]
    }
}

/// Lists the grids to compare, the one of the least possible cost first.
fn list_shapes(
    order: &[usize],
    relative: &[f64],
    rows: u64,
    cols: u64,
    bound: f64,
) -> Vec<GridShape> {
    let n = order.len();
    let sums: Vec<f64> = (order.iter())
        .scan(0.0, |sum, &node| {
            *sum += relative[node];
            Some(*sum)
        })
        .collect();
    let all = sums.last().copied().unwrap_or_default();
    let mut shapes = Vec::new();
    // Another row would not fit below the others.
    for n_rows in (1..=n).filter(|n_rows| n / (n / n_rows) == *n_rows) {
        let n_cols = n / n_rows;
        let ideal_time = 1.0 / sums[n_rows * n_cols - 1];
        // Without blocks all grids are alike.
        let half_perimeters = n_cols as f64 * rows as f64 + n_rows as f64 * cols as f64;
        let communicating = half_perimeters / bound.max(1.0) / COMPUTING_TO_COMMUNICATING;
        shapes.push(GridShape {
            n_rows,
            n_cols,
            ideal_time,
            all,
            least_cost: ideal_time * all + communicating,
        });
    }
    shapes.sort_by(|a, b| a.least_cost.total_cmp(&b.least_cost));
    shapes
}

/// Heights and widths in proportion, each summing to 1, and the largest `r_i · c_j / s_ij`.
struct GridFit {
    heights: Vec<f64>,
    widths: Vec<f64>,
    time: f64,
}

impl GridFit {
    fn by_rule(rule: GridRule, columns: &[Vec<usize>], speeds: &[f64]) -> Self {
        match rule {
            GridRule::Sums => Self::by_sums(columns, speeds),
            GridRule::Balanced => Self::by_turns(columns, speeds),
        }
    }

    /// Takes row sums and column sums.
    fn by_sums(columns: &[Vec<usize>], speeds: &[f64]) -> Self {
        let mut widths = sum_columns(columns, speeds);
        let mut heights = vec![0.0; columns[0].len()];
        for column in columns {
            for (height, &node) in heights.iter_mut().zip(column) {
                *height += speeds[node];
            }
        }
        normalise(&mut widths);
        normalise(&mut heights);
        let mut time: f64 = 0.0;
        for (column, width) in columns.iter().zip(&widths) {
            for (height, &node) in heights.iter().zip(column) {
                time = time.max(height * width / speeds[node]);
            }
        }
        Self { heights, widths, time }
    }

    /// Improves column sums and geometric means, and takes the better end.
    fn by_turns(columns: &[Vec<usize>], speeds: &[f64]) -> Self {
        let sums = Self::improve(columns, speeds, sum_columns(columns, speeds));
        let means = Self::improve(columns, speeds, average_columns(columns, speeds));
        if means.time < sums.time { means } else { sums }
    }

    /// Computes heights and widths in turn until that hardly gains anything.
    fn improve(columns: &[Vec<usize>], speeds: &[f64], widths: Vec<f64>) -> Self {
        const TURNS: usize = 100;
        const GAIN: f64 = 1e-9;
        let mut fit = Self { heights: Vec::new(), widths, time: f64::INFINITY };
        for _ in 0..TURNS {
            let before = fit.time;
            let mut heights = vec![f64::INFINITY; columns[0].len()];
            for (column, width) in columns.iter().zip(&fit.widths) {
                for (height, &node) in heights.iter_mut().zip(column) {
                    *height = height.min(speeds[node] / width);
                }
            }
            normalise(&mut heights);
            fit.heights = heights;
            fit.widths = (columns.iter()).map(|column| fit.widest_column(column, speeds)).collect();
            // These widths are the widest in unit time: their sum is the part of the matrix done.
            fit.time = 1.0 / normalise(&mut fit.widths);
            if fit.time >= before * (1.0 - GAIN) {
                break;
            }
        }
        fit
    }

    /// Returns the largest width with which a column's nodes finish in unit time.
    fn widest_column(&self, column: &[usize], speeds: &[f64]) -> f64 {
        column
            .iter()
            .zip(&self.heights)
            .fold(f64::INFINITY, |least, (&node, height)| least.min(speeds[node] / height))
    }
}

/// Returns the geometric mean of each column's speeds.
fn average_columns(columns: &[Vec<usize>], speeds: &[f64]) -> Vec<f64> {
    let logarithms: Vec<f64> = speeds.iter().map(|speed| speed.ln()).collect();
    let sums = sum_columns(columns, &logarithms);
    (sums.iter().zip(columns)).map(|(sum, column)| (sum / column.len() as f64).exp()).collect()
}

/// Makes `values` sum to 1, and returns their former sum.
fn normalise(values: &mut [f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    for value in values {
        *value /= sum;
    }
    sum
}

fn relate_speeds(speeds: &[f64]) -> Vec<f64> {
    let largest = speeds.iter().copied().fold(0.0, f64::max);
    (speeds.iter()).map(|&speed| relate(speed, largest).max(SLOWEST)).collect()
}

fn check_grid(columns: &[Vec<usize>], speeds: &[f64]) -> Result<(), LayoutError> {
    let expected = columns.first().map_or(0, Vec::len);
    if let Some(column) = columns.iter().position(|nodes| nodes.len() != expected) {
        return Err(LayoutError::Ragged { column, nodes: columns[column].len(), expected });
    }
    match columns.iter().flatten().find(|&&node| speeds[node] == 0.0) {
        Some(&index) => Err(LayoutError::IdleInGrid { index }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn equal_grid(p: usize, rows: u64, cols: u64) -> (usize, usize) {
        let columns =
            cartesian_columns(GridRule::Balanced, &vec![1.0; p], rows, cols).expect("speeds");
        (columns[0].len(), columns.len())
    }

    #[test]
    fn grids_are_as_square_as_idle_nodes_are_worth() {
        assert_eq!(equal_grid(1, 60, 60), (1, 1));
        assert_eq!(equal_grid(4, 60, 60), (2, 2));
        assert_eq!(equal_grid(12, 90, 120), (3, 4));
        assert_eq!(equal_grid(12, 120, 90), (4, 3));
        assert!([(1, 5), (5, 1)].contains(&equal_grid(5, 60, 60)));
        assert!([(3, 4), (4, 3)].contains(&equal_grid(13, 60, 60)));
        // One idle node of 7 would cost more than the messages of a row, and one of 11 less.
        assert!([(1, 7), (7, 1)].contains(&equal_grid(7, 60, 60)));
        assert!([(2, 5), (5, 2)].contains(&equal_grid(11, 60, 60)));
        assert_eq!(equal_grid(6, 1, 1000), (1, 6));
    }

    #[test]
    fn speeds_of_rank_one_balance_exactly() {
        let columns = [vec![0, 1], vec![2, 3], vec![4, 5]];
        let speeds = [2.0, 6.0, 1.0, 3.0, 4.0, 12.0];
        for rule in [GridRule::Sums, GridRule::Balanced] {
            let layout = cartesian_in(rule, &columns, &speeds, 40, 70).expect("valid");
            assert_eq!(layout.areas(), [200, 600, 100, 300, 400, 1200], "{rule:?}");
        }
    }

    /// The speeds of the report's Fig. 3, with row sums 0.41, 0.34, 0.25 and column sums 0.33, 0.51,
    /// 0.16.
    #[test]
    fn the_reports_rule_takes_row_sums_and_column_sums() {
        let columns = [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7, 8]];
        let speeds = [0.11, 0.17, 0.05, 0.25, 0.09, 0.17, 0.05, 0.08, 0.03];
        let layout = cartesian_in(GridRule::Sums, &columns, &speeds, 100, 100).expect("valid");
        let heights = [41, 34, 25];
        let expected = [33, 51, 16].map(|width| heights.map(|height| height * width));
        assert_eq!(layout.areas(), expected.concat());
        let coarse = cartesian_in(GridRule::Sums, &columns, &speeds, 6, 6).expect("valid");
        assert_eq!(coarse.areas(), [6, 4, 2, 9, 6, 3, 3, 2, 1]);
    }

    #[test]
    fn turns_do_not_lose_against_the_sums() {
        let columns = [vec![0, 1], vec![2, 3]];
        let speeds = [9.0, 2.0, 1.0, 3.0];
        // The largest of 10 · 11 / 9, 5 · 11 / 2, 10 · 4 / 1 and 5 · 4 / 3, of 15 · 15.
        let sums = GridFit::by_sums(&columns, &speeds);
        assert!((sums.time - 40.0 / 225.0).abs() < 1e-12, "{}", sums.time);
        // Heights 11 : 8 and widths 11 : 4, of 19 · 15: 8 · 11 / 2 and 11 · 4 / 1.
        let turns = GridFit::by_turns(&columns, &speeds);
        assert!((turns.time - 44.0 / 285.0).abs() < 1e-12, "{}", turns.time);
    }

    proptest! {
        #[test]
        fn both_rules_tile_and_turns_are_never_slower(
            speeds in prop::collection::vec(0.01..100.0_f64, 1..30),
            n_cols in 1..6_usize,
            rows in 0..60_u64,
            cols in 0..60_u64,
        ) {
            let n_rows = speeds.len() / n_cols;
            prop_assume!(n_rows > 0);
            let columns: Vec<Vec<usize>> =
                (0..n_cols).map(|j| (j * n_rows..(j + 1) * n_rows).collect()).collect();
            let sums = GridFit::by_sums(&columns, &speeds);
            let turns = GridFit::by_turns(&columns, &speeds);
            prop_assert!(turns.time <= sums.time * (1.0 + 1e-9));
            for fit in [&sums, &turns] {
                prop_assert!((fit.heights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                prop_assert!((fit.widths.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
            let row_sums: Vec<f64> = (0..n_rows)
                .map(|i| columns.iter().map(|column| speeds[column[i]]).sum())
                .collect();
            let heights = apportion(rows, &row_sums);
            let widths = apportion(cols, &sum_columns(&columns, &speeds));
            let layout = cartesian_in(GridRule::Sums, &columns, &speeds, rows, cols).expect("valid");
            prop_assert_eq!(layout.areas().iter().sum::<u64>(), rows * cols);
            for (column, width) in columns.iter().zip(&widths) {
                for (&node, height) in column.iter().zip(&heights) {
                    prop_assert_eq!(layout.rects()[node].area(), height * width);
                }
            }
        }
    }

    fn refusal(columns: &[Vec<usize>]) -> LayoutError {
        let speeds = [1.0, 1.0, 1.0, 0.0];
        cartesian_in(GridRule::Sums, columns, &speeds, 4, 4).expect_err("refused")
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        assert_eq!(
            refusal(&[vec![0, 1], vec![2]]),
            LayoutError::Ragged { column: 1, nodes: 1, expected: 2 }
        );
        assert_eq!(refusal(&[vec![0, 1], vec![2, 3]]), LayoutError::IdleInGrid { index: 3 });
        assert_eq!(refusal(&[vec![4]]), LayoutError::NoSuchNode { index: 4, nodes: 4 });
        assert_eq!(refusal(&[]), LayoutError::NoArea { rows: 4, cols: 4 });
        let speeds = [1.0, 1.0, 1.0, 0.0];
        for rule in [GridRule::Sums, GridRule::Balanced] {
            let layout = cartesian_in(rule, &[vec![2]], &speeds, 4, 4).expect("valid");
            assert_eq!(layout.areas(), [0, 0, 16, 0]);
            assert_eq!(
                cartesian(rule, &[0.0], 1, 1),
                Err(LayoutError::NoArea { rows: 1, cols: 1 })
            );
            assert_eq!(cartesian(rule, &[], 1, 1), Err(LayoutError::NoNodes { rows: 1, cols: 1 }));
        }
    }

    #[test]
    fn speeds_of_rank_one_get_their_areas() {
        let layout = cartesian(GridRule::Balanced, &[2.0, 1.0, 4.0, 2.0], 90, 90);
        assert_eq!(layout.expect("valid").areas(), [1800, 900, 3600, 1800]);
    }
}
