//! Rectangles in a grid.

use super::arrangement::{check_nodes, place, relative};
use super::columns::{ascending, check_areas};
use super::{Layout, LayoutError, Rect, lower_bound};
use crate::partition::apportion;

/// How many times as long a multiplication computes as it communicates, at a sum of half-perimeters at
/// its lower bound. What grid is best depends on it, and areas say nothing about it; a multiplication
/// worth distributing is well above 1.
const COMPUTING_TO_COMMUNICATING: f64 = 4.0;

/// Relative speeds below this are taken for this, so that products of speeds stay numbers. No such node
/// gets a block.
const SLOWEST: f64 = 1e-100;

/// Arranges rectangles in a grid of rows and columns that reach through the whole matrix of
/// `rows × cols` blocks, so that every node has exactly one neighbour to each side, and the nodes of a
/// grid row or column are the same in every step of a multiplication. The grid is that of
/// [`cartesian_columns()`].
///
/// A grid cannot give every node an area in proportion to its speed; see [`cartesian_in()`].
///
/// # Errors
/// [`LayoutError::InvalidArea`] for a negative or non-finite speed, [`LayoutError::NoArea`] if there
/// are blocks and no speed is positive, [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::cartesian;
///
/// let layout = cartesian(&[2.0, 1.0, 4.0, 2.0], 90, 90)?;
/// assert_eq!(layout.areas(), [1800, 900, 3600, 1800]);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// As [`cartesian_in()`].
pub fn cartesian(speeds: &[f64], rows: u64, cols: u64) -> Result<Layout, LayoutError> {
    cartesian_in(&cartesian_columns(speeds, rows, cols)?, speeds, rows, cols)
}

/// Arranges rectangles in a given grid: `columns` of equally many nodes, from left to right, each with
/// its nodes from top to bottom. A node in no column gets an empty rectangle.
///
/// With heights `r_i` and widths `c_j`, node `(i, j)` takes a time in proportion to `r_i · c_j / s_ij`,
/// and the largest of these is made small. The times are all equal if and only if the matrix of
/// speeds has rank 1; in general they are not. For given widths the best heights are in proportion to
/// `min_j s_ij / c_j`, and likewise the best widths for given heights. The two are computed in turn,
/// which never makes the largest time longer, from the speeds' sums over the columns and from their
/// geometric means; the better end is taken. That is an approximation, of O(p) time a turn. Heights and
/// widths are rounded to whole blocks by [`apportion()`].
///
/// The thesis and the report name Cartesian partitioning without describing a method. Beaumont et al.
/// start from the singular vectors of the matrix of inverse speeds; the sums need no iteration, and
/// the turns make up for the difference.
///
/// # Errors
/// [`LayoutError::InvalidArea`] for a negative or non-finite speed; [`LayoutError::NoSuchNode`],
/// [`LayoutError::Repeated`]; [`LayoutError::Ragged`] for columns of unlike lengths;
/// [`LayoutError::IdleInGrid`] for a node of speed 0 in a column; [`LayoutError::NoArea`] if there are
/// blocks and no nodes in the grid; [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # References
/// Beaumont, Boudet, Petitet, Rastello and Robert, "A proposal for a heterogeneous cluster ScaLAPACK
/// (dense linear solvers)", IEEE Transactions on Computers 50(10), 2001; Dovolnov, Kalinov and Klimov,
/// "Natural block data decomposition for heterogeneous clusters", IPDPS 2003; both by way of Clarke's
/// thesis, section 2.2.
pub fn cartesian_in(
    columns: &[Vec<usize>],
    speeds: &[f64],
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    check_areas(speeds)?;
    check_nodes(columns, speeds.len())?;
    check_grid(columns, speeds)?;
    let mut rects = vec![Rect::default(); speeds.len()];
    if rows == 0 || cols == 0 || speeds.is_empty() {
        return Layout::new(rows, cols, rects);
    }
    if columns.iter().all(Vec::is_empty) {
        return Err(LayoutError::NoArea { rows, cols });
    }
    let fit = Fit::best(columns, &relative_speeds(speeds));
    let heights = vec![apportion(rows, &fit.heights); columns.len()];
    place(columns, &apportion(cols, &fit.widths), &heights, &mut rects);
    Layout::new(rows, cols, rects)
}

/// The grid that [`cartesian()`] chooses, as columns of nodes.
///
/// A grid of `a × b` takes the fastest `a · b` nodes of positive speed, sorted, row after row or column
/// after column, whichever balances better. All grids are compared that have no room for another row or
/// column, by
///
/// `T · Σs / (rows · cols) + (b · rows + a · cols) / (4 · bound)`:
///
/// the computing time `T` of [`cartesian_in()`] over all nodes' ideal one, and the sum of
/// half-perimeters over the [lower bound](lower_bound()), as if communication were a fourth of
/// computing. So a number of nodes that is no product of two similar ones either leaves some of the
/// slowest idle (13 equal nodes stand 4 × 3, the slowest without work) or ends in a single row or
/// column (5 equal ones do), whichever costs less. The report's HeteroMPI application searches
/// likewise, by predicted times.
///
/// # Errors
/// [`LayoutError::InvalidArea`] for a negative or non-finite speed.
pub fn cartesian_columns(
    speeds: &[f64],
    rows: u64,
    cols: u64,
) -> Result<Vec<Vec<usize>>, LayoutError> {
    check_areas(speeds)?;
    let mut order = ascending(speeds);
    order.reverse();
    let relative = relative_speeds(speeds);
    let bound = lower_bound(speeds, rows, cols);
    let mut best = (f64::INFINITY, Vec::new());
    for (optimum, shape) in candidates(&order, &relative, (rows, cols), bound) {
        // In the order of what they cost at least, the others cannot be better.
        if optimum >= best.0 {
            break;
        }
        for columns in shape.fill(&order) {
            let time = Fit::best(&columns, &relative).time;
            let cost = optimum + (time - shape.ideal_time) * shape.all;
            if cost < best.0 {
                best = (cost, columns);
            }
        }
    }
    Ok(best.1)
}

/// A number of rows and columns.
struct Shape {
    n_rows: usize,
    n_cols: usize,
    /// Time that perfectly balanced nodes of this grid take for the matrix.
    ideal_time: f64,
    /// Sum of all nodes' speeds.
    all: f64,
}

impl Shape {
    /// The first nodes of `order`, row after row and column after column.
    fn fill(&self, order: &[usize]) -> [Vec<Vec<usize>>; 2] {
        let (a, b) = (self.n_rows, self.n_cols);
        let along_rows = (0..b).map(|j| (0..a).map(|i| order[i * b + j]).collect());
        let along_columns = (0..b).map(|j| order[j * a..(j + 1) * a].to_vec());
        [along_rows.collect(), along_columns.collect()]
    }
}

/// The grids to compare, each with what it costs if it balances perfectly, the cheapest first.
fn candidates(
    order: &[usize],
    relative: &[f64],
    (rows, cols): (u64, u64),
    bound: f64,
) -> Vec<(f64, Shape)> {
    let mut sum = 0.0;
    let sums: Vec<f64> = order
        .iter()
        .map(|&node| {
            sum += relative[node];
            sum
        })
        .collect();
    let full = |&n_rows: &usize| order.len() / (order.len() / n_rows) == n_rows;
    let shape = |n_rows: usize| {
        let n_cols = order.len() / n_rows;
        let ideal_time = 1.0 / sums[n_rows * n_cols - 1];
        // Without blocks all grids are alike.
        let half_perimeters = n_cols as f64 * rows as f64 + n_rows as f64 * cols as f64;
        let communicating = half_perimeters / bound.max(1.0) / COMPUTING_TO_COMMUNICATING;
        let shape = Shape {
            n_rows,
            n_cols,
            ideal_time,
            all: sum,
        };
        (ideal_time * sum + communicating, shape)
    };
    let mut shapes: Vec<(f64, Shape)> = (1..=order.len()).filter(full).map(shape).collect();
    shapes.sort_by(|a, b| a.0.total_cmp(&b.0));
    shapes
}

/// Heights and widths in proportion, each summing to 1, and the largest `r_i · c_j / s_ij`.
struct Fit {
    heights: Vec<f64>,
    widths: Vec<f64>,
    time: f64,
}

impl Fit {
    /// The better of the two ends.
    fn best(columns: &[Vec<usize>], speeds: &[f64]) -> Self {
        let over = |mean: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            let column = |column: &Vec<usize>| {
                let speeds: Vec<f64> = column.iter().map(|&node| speeds[node]).collect();
                mean(&speeds)
            };
            columns.iter().map(column).collect()
        };
        let sums = over(&|speeds| speeds.iter().sum());
        let means = over(&|speeds| {
            let logarithms: f64 = speeds.iter().map(|speed| speed.ln()).sum();
            (logarithms / speeds.len() as f64).exp()
        });
        let ends = [sums, means].map(|widths| Self::improve(columns, speeds, widths));
        let [a, b] = ends;
        if b.time < a.time { b } else { a }
    }

    /// Computes heights and widths in turn until that hardly gains anything.
    fn improve(columns: &[Vec<usize>], speeds: &[f64], widths: Vec<f64>) -> Self {
        const TURNS: usize = 100;
        const GAIN: f64 = 1e-9;
        let mut fit = Self {
            heights: Vec::new(),
            widths,
            time: f64::INFINITY,
        };
        for _ in 0..TURNS {
            let before = fit.time;
            let mut heights = vec![f64::INFINITY; columns[0].len()];
            for (column, width) in columns.iter().zip(&fit.widths) {
                for (height, &node) in heights.iter_mut().zip(column) {
                    *height = height.min(speeds[node] / width);
                }
            }
            scale(&mut heights);
            fit.heights = heights;
            fit.widths = columns
                .iter()
                .map(|column| fit.width(column, speeds))
                .collect();
            // The widest possible columns in unit time: what they miss of the matrix is time.
            fit.time = 1.0 / scale(&mut fit.widths);
            if fit.time >= before * (1.0 - GAIN) {
                break;
            }
        }
        fit
    }

    /// How wide a column may be for its nodes to finish in unit time.
    fn width(&self, column: &[usize], speeds: &[f64]) -> f64 {
        let widths = column
            .iter()
            .zip(&self.heights)
            .map(|(&node, height)| speeds[node] / height);
        widths.fold(f64::INFINITY, f64::min)
    }
}

/// Makes `values` sum to 1; what they summed to before.
fn scale(values: &mut [f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    for value in values {
        *value /= sum;
    }
    sum
}

fn relative_speeds(speeds: &[f64]) -> Vec<f64> {
    let largest = speeds.iter().copied().fold(0.0, f64::max);
    speeds
        .iter()
        .map(|&speed| relative(speed, largest).max(SLOWEST))
        .collect()
}

fn check_grid(columns: &[Vec<usize>], speeds: &[f64]) -> Result<(), LayoutError> {
    let expected = columns.first().map_or(0, Vec::len);
    for (column, nodes) in columns
        .iter()
        .enumerate()
        .map(|(i, nodes)| (i, nodes.len()))
    {
        if nodes != expected {
            return Err(LayoutError::Ragged {
                column,
                nodes,
                expected,
            });
        }
    }
    match columns.iter().flatten().find(|&&node| speeds[node] == 0.0) {
        Some(&index) => Err(LayoutError::IdleInGrid { index }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(p: usize, rows: u64, cols: u64) -> (usize, usize) {
        let columns = cartesian_columns(&vec![1.0; p], rows, cols).expect("speeds");
        (columns[0].len(), columns.len())
    }

    #[test]
    fn grids_are_as_square_as_idle_nodes_are_worth() {
        assert_eq!(shape(1, 60, 60), (1, 1));
        assert_eq!(shape(4, 60, 60), (2, 2));
        assert_eq!(shape(12, 90, 120), (3, 4));
        assert_eq!(shape(12, 120, 90), (4, 3));
        assert!([(1, 5), (5, 1)].contains(&shape(5, 60, 60)));
        assert!([(3, 4), (4, 3)].contains(&shape(13, 60, 60)));
        assert_eq!(shape(6, 1, 1000), (1, 6));
    }

    #[test]
    fn speeds_of_rank_one_balance_exactly() {
        let columns = [vec![0, 1], vec![2, 3], vec![4, 5]];
        let speeds = [2.0, 6.0, 1.0, 3.0, 4.0, 12.0];
        let layout = cartesian_in(&columns, &speeds, 40, 70).expect("valid");
        assert_eq!(layout.areas(), [200, 600, 100, 300, 400, 1200]);
    }

    #[test]
    fn turns_do_not_lose_against_the_sums() {
        // Rank 2: by the sums alone the first node takes 9 / 14.4.
        let columns = [vec![0, 1], vec![2, 3]];
        let speeds = [9.0, 2.0, 1.0, 3.0];
        let fit = Fit::best(&columns, &speeds);
        let time = |i: usize, j: usize| fit.heights[i] * fit.widths[j] / speeds[2 * j + i];
        let slowest = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(i, j)| time(i, j));
        let slowest = slowest.into_iter().fold(0.0, f64::max);
        assert!((slowest - fit.time).abs() < 1e-12, "{slowest} {}", fit.time);
        let sums = [
            (10.0, 11.0, 9.0),
            (5.0, 11.0, 2.0),
            (10.0, 4.0, 1.0),
            (5.0, 4.0, 3.0),
        ];
        let by_sums = sums
            .map(|(r, c, s)| r * c / 225.0 / s)
            .into_iter()
            .fold(0.0, f64::max);
        assert!(fit.time < by_sums);
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        let speeds = [1.0, 1.0, 1.0, 0.0];
        let refused =
            |columns: &[Vec<usize>]| cartesian_in(columns, &speeds, 4, 4).expect_err("refused");
        assert_eq!(
            refused(&[vec![0, 1], vec![2]]),
            LayoutError::Ragged {
                column: 1,
                nodes: 1,
                expected: 2
            }
        );
        assert_eq!(
            refused(&[vec![0, 1], vec![2, 3]]),
            LayoutError::IdleInGrid { index: 3 }
        );
        assert_eq!(
            refused(&[vec![4]]),
            LayoutError::NoSuchNode { index: 4, nodes: 4 }
        );
        assert_eq!(refused(&[]), LayoutError::NoArea { rows: 4, cols: 4 });
        let layout = cartesian_in(&[vec![2]], &speeds, 4, 4).expect("valid");
        assert_eq!(layout.areas(), [0, 0, 16, 0]);
        assert_eq!(
            cartesian(&[0.0], 1, 1),
            Err(LayoutError::NoArea { rows: 1, cols: 1 })
        );
        assert_eq!(
            cartesian(&[], 1, 1),
            Err(LayoutError::NoNodes { rows: 1, cols: 1 })
        );
    }
}
