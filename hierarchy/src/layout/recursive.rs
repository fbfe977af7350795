//! Rectangles by recursive cuts.
//!
//! # Deviations
//!
//! * **recursive cuts**: Nagamochi and Abe always cut across the longer side. Here a part becomes
//!   columns or rows if these have smaller half-perimeters, because cuts alone are often worse than
//!   [`br()`](super::br()).
//! * **whole blocks of cuts**: Nagamochi and Abe divide a rectangle of real sides. Here [`apportion()`]
//!   rounds the cuts, because a matrix consists of blocks. The cuts are chosen for exact areas.

use std::collections::HashMap;
use std::ops::Range;

use super::areas::{check_areas, sort_ascending, to_shares};
use super::arrangement::place;
use super::columns::best_columns;
use super::{Layout, LayoutError, Rect};
use crate::partition::apportion;

/// Arranges one rectangle per node, of areas in proportion to `areas`, by repeatedly cutting the matrix
/// of `rows × cols` blocks in two.
///
/// The first group takes the largest areas until they make up a third of the sum; the second group takes
/// the others. A straight line across the longer side gives each group its part, and both parts are
/// divided the same way. So no part is below a third of the whole unless one node needs more than two
/// thirds. A part whose sum of half-perimeters is smaller in columns or in rows becomes these instead.
/// Before rounding the sum therefore never exceeds that of [`br()`](super::br()).
///
/// A cut divides a side `s` into `q` parts by [`apportion()`]. A part of exact length `x` gets more than
/// `x - 1` and less than `x · (1 + q / s)`. All nodes behind the cut share the difference.
///
/// O(p log² p) time, unless areas fall off so fast that one node after another dominates.
///
/// A node gets an empty rectangle if its area is 0, or so small that rounding leaves it no block.
///
/// The sum of half-perimeters is on average 1.030 times the bound `2 · Σ √area`, and at worst 1.454
/// times. In columns ([`br()`](super::br())) the figures are 1.035 and 1.454. They are those of 40 000
/// random cases of 2 to 24 areas, of ratios up to 1000.
///
/// # Errors
/// Returns [`LayoutError::InvalidArea`] for a negative or non-finite area, [`LayoutError::NoArea`] if there are blocks
/// and no area is positive, [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{br, recursive};
///
/// // In columns the two small ones share theirs with a large one, or are narrow.
/// let areas = [8.0, 6.0, 1.0, 1.0];
/// assert_eq!(br(&areas, 120, 120)?.half_perimeter_sum(), 480);
/// assert_eq!(recursive(&areas, 120, 120)?.half_perimeter_sum(), 450);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// Nagamochi and Abe, "An approximation algorithm for dissecting a rectangle into rectangles with
/// specified areas", Discrete Applied Mathematics 155(4), 2007.
pub fn recursive(areas: &[f64], rows: u64, cols: u64) -> Result<Layout, LayoutError> {
    let mut rects = vec![Rect::default(); areas.len()];
    if let Some(nodes) = SortedNodes::new(areas, rows, cols)? {
        let all =
            NodeRun { start: 0, end: nodes.order.len(), height: rows as f64, width: cols as f64 };
        let whole = Rect::new(0, 0, rows, cols);
        let mut planner = CutPlanner { nodes, known: HashMap::new() };
        planner.build(all, whole, &mut rects);
    }
    Layout::new(rows, cols, rects)
}

/// Nodes of positive area, the largest first.
struct SortedNodes {
    order: Vec<usize>,
    /// Areas in blocks, in this order.
    areas: Vec<f64>,
    /// Sums of the areas from each one on.
    from: Vec<f64>,
}

impl SortedNodes {
    /// Sorts the nodes of positive area and scales these to sum to `rows · cols`. Returns `None` if
    /// there are no blocks or no nodes.
    fn new(areas: &[f64], rows: u64, cols: u64) -> Result<Option<Self>, LayoutError> {
        check_areas(areas)?;
        if rows == 0 || cols == 0 || areas.is_empty() {
            return Ok(None);
        }
        let mut order = sort_ascending(areas);
        if order.is_empty() {
            return Err(LayoutError::NoArea { rows, cols });
        }
        // Stable: equal areas stay in node order.
        order.sort_by(|&a, &b| areas[b].total_cmp(&areas[a]));
        let matrix = rows as f64 * cols as f64;
        let mut scaled = to_shares(order.iter().map(|&node| areas[node]));
        scaled.iter_mut().for_each(|area| *area *= matrix);
        let mut from = vec![0.0];
        // From the smallest up, a sum is exact relative to the areas in it.
        for area in scaled.iter().rev() {
            from.push(from[from.len() - 1] + area);
        }
        from.reverse();
        Ok(Some(Self { order, areas: scaled, from }))
    }

    /// Sums the areas of a run of nodes, in blocks.
    fn sum(&self, run: Range<usize>) -> f64 {
        self.from[run.start] - self.from[run.end]
    }

    /// Finds the start of the second group of a run of at least two nodes.
    fn find_middle(&self, run: Range<usize>) -> usize {
        let third = self.sum(run.clone()) / 3.0;
        let candidates = &self.from[run.start + 1..run.end];
        let fewer = candidates.partition_point(|rest| self.from[run.start] - rest < third);
        (run.start + 1 + fewer).min(run.end - 1)
    }

    /// Finds the best columns for a run on `height × width`, and their sum of half-perimeters. The
    /// ranges of the columns count from the end of the run.
    fn best_columns(&self, run: Range<usize>, height: f64, width: f64) -> (f64, Vec<Range<usize>>) {
        let shares = to_shares(self.areas[run].iter().rev().copied());
        best_columns(&shares, height, width)
    }
}

/// A run of nodes, and the sides of its part of the matrix before rounding to whole blocks.
#[derive(Clone, Copy)]
struct NodeRun {
    start: usize,
    end: usize,
    height: f64,
    width: f64,
}

impl NodeRun {
    fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns `true` if a cut places the two parts side by side.
    fn is_wide(&self) -> bool {
        self.width >= self.height
    }

    /// Cuts across the longer side; the nodes up to `middle` get `share` of it.
    fn cut(self, middle: usize, share: f64) -> (Self, Self) {
        let (mut near, mut far) = (self, self);
        (near.end, far.start) = (middle, middle);
        if self.is_wide() {
            near.width = self.width * share;
            far.width = self.width - near.width;
        } else {
            near.height = self.height * share;
            far.height = self.height - near.height;
        }
        (near, far)
    }
}

/// The division of a run.
#[derive(Clone, Copy, PartialEq)]
enum CutStyle {
    /// Two groups on either side of a straight line.
    Halves,
    /// Columns of nodes.
    Columns,
    /// Rows of nodes.
    Rows,
}

/// Chooses the cheapest division of every run for exact areas, and builds it in whole blocks.
struct CutPlanner {
    nodes: SortedNodes,
    /// Sum of half-perimeters and style chosen for the run from start to end.
    known: HashMap<(usize, usize), (f64, CutStyle)>,
}

impl CutPlanner {
    fn cost(&mut self, run: NodeRun) -> f64 {
        if run.len() == 1 {
            return run.height + run.width;
        }
        self.choose(run).0
    }

    fn choose(&mut self, run: NodeRun) -> (f64, CutStyle) {
        let (start, end) = (run.start, run.end);
        // A run of less than one block hardly gets one, so the recursion ends here.
        let area = self.nodes.sum(start..end);
        if area < 1.0 {
            return (2.0 * area.sqrt(), CutStyle::Halves);
        }
        if let Some(&known) = self.known.get(&(start, end)) {
            return known;
        }
        let (near, far) = self.halve(run);
        let mut best = (self.cost(near) + self.cost(far), CutStyle::Halves);
        // Two nodes are best divided across the longer side.
        if run.len() > 2 {
            let (columns, _) = self.nodes.best_columns(start..end, run.height, run.width);
            let (rows, _) = self.nodes.best_columns(start..end, run.width, run.height);
            for other in [(columns, CutStyle::Columns), (rows, CutStyle::Rows)] {
                if other.0 < best.0 {
                    best = other;
                }
            }
        }
        self.known.insert((start, end), best);
        best
    }

    /// Returns the two groups' runs.
    fn halve(&self, run: NodeRun) -> (NodeRun, NodeRun) {
        let middle = self.nodes.find_middle(run.start..run.end);
        let share = self.nodes.sum(run.start..middle) / self.nodes.sum(run.start..run.end);
        run.cut(middle, share)
    }

    /// Lays out a run's nodes in `rect`.
    fn build(&mut self, run: NodeRun, rect: Rect, rects: &mut [Rect]) {
        if rect.is_empty() {
            return;
        }
        if run.len() == 1 {
            rects[self.nodes.order[run.start]] = rect;
            return;
        }
        match self.choose(run).1 {
            CutStyle::Columns => self.build_columns(run, rect, rects),
            CutStyle::Rows => self.build_rows(run, rect, rects),
            CutStyle::Halves => self.build_halves(run, rect, rects),
        }
    }

    fn build_halves(&mut self, run: NodeRun, rect: Rect, rects: &mut [Rect]) {
        let (near, far) = self.halve(run);
        let weights = [near, far].map(|run| self.nodes.sum(run.start..run.end));
        let (mut first, mut second) = (rect, rect);
        if run.is_wide() {
            first.cols = apportion(rect.cols, &weights)[0];
            second.cols -= first.cols;
            second.col += first.cols;
        } else {
            first.rows = apportion(rect.rows, &weights)[0];
            second.rows -= first.rows;
            second.row += first.rows;
        }
        self.build(near, first, rects);
        self.build(far, second, rects);
    }

    fn build_columns(&self, run: NodeRun, rect: Rect, rects: &mut [Rect]) {
        let columns = self.lay_columns(run, run.height, run.width, rect);
        self.place_inside(rect, run, columns, rects);
    }

    /// Builds columns of the transposed part.
    fn build_rows(&self, run: NodeRun, rect: Rect, rects: &mut [Rect]) {
        let mut rows = self.lay_columns(run, run.width, run.height, rect.transposed());
        rows.iter_mut().for_each(|rect| *rect = rect.transposed());
        self.place_inside(rect, run, rows, rects);
    }

    fn place_inside(&self, whole: Rect, run: NodeRun, parts: Vec<Rect>, rects: &mut [Rect]) {
        for (&node, part) in self.nodes.order[run.start..run.end].iter().zip(parts) {
            rects[node] = Rect { row: whole.row + part.row, col: whole.col + part.col, ..part };
        }
    }

    /// Returns the rectangles of a run in columns over the size of `rect`, relative to its corner.
    fn lay_columns(&self, run: NodeRun, height: f64, width: f64, rect: Rect) -> Vec<Rect> {
        let (_, ranges) = self.nodes.best_columns(run.start..run.end, height, width);
        // Back from the end, the smallest node, to places in the order.
        let columns: Vec<Vec<usize>> =
            (ranges.into_iter()).map(|range| range.map(|i| run.len() - 1 - i).collect()).collect();
        let areas = &self.nodes.areas[run.start..run.end];
        let (mut sums, mut heights) = (Vec::<f64>::new(), Vec::new());
        for column in &columns {
            let areas: Vec<f64> = column.iter().map(|&i| areas[i]).collect();
            sums.push(areas.iter().sum());
            heights.push(apportion(rect.rows, &areas));
        }
        place(&columns, &apportion(rect.cols, &sums), &heights, run.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn middle_of_all(areas: &[f64]) -> usize {
        SortedNodes::new(areas, 10, 10).expect("areas").expect("blocks").find_middle(0..areas.len())
    }

    #[test]
    fn the_first_group_is_a_third() {
        assert_eq!(middle_of_all(&[1.0, 1.0]), 1);
        assert_eq!(middle_of_all(&[1.0, 1.1, 1.0]), 1);
        assert_eq!(middle_of_all(&[1.0; 8]), 3);
        assert_eq!(middle_of_all(&[1.0, 7.0, 1.0]), 1);
    }

    #[test]
    fn a_matrix_is_cut_across_its_longer_side() {
        let layout = recursive(&[1.0, 2.0, 1.0], 4, 10).expect("areas");
        let expected = [Rect::new(0, 5, 4, 3), Rect::new(0, 0, 4, 5), Rect::new(0, 8, 4, 2)];
        assert_eq!(layout.rects(), expected);
    }

    #[test]
    fn areas_far_apart_end_the_recursion() {
        let areas: Vec<f64> = (0..2000).map(|i| 2.0_f64.powi(900 - i)).collect();
        let layout = recursive(&areas, 1 << 30, 1 << 30).expect("areas");
        assert!(layout.areas()[0] > 1 << 58);
        assert_eq!(layout.areas()[1999], 0);
    }
}
