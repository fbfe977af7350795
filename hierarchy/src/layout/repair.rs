//! Single blocks moved away from the slowest node.

use super::arrangement::place;
use super::{Layout, LayoutError};

/// Moves single rows of blocks between the nodes of a column, and single columns of blocks between
/// columns, as long as that reduces the largest time.
///
/// `time_s(node, rows, cols)` is the time in seconds of a rectangle. It is called for rectangles with
/// blocks only.
///
/// At the edge of a node's memory or of a kernel's granule, one block more or less can matter more than
/// its share. In each step, with `T` the largest time,
/// * the slowest node exchanges a row of blocks with another node in its column, in either direction;
///   or
/// * its column exchanges a column of blocks with another column, in either direction.
///
/// The best change is made that brings no node above `T` and leaves fewer nodes at `T`. If `T` is
/// infinite (a rectangle does not fit), a change also counts if the nodes that do not fit have fewer
/// blocks afterwards.
///
/// The algorithm ends: `T`, the number of nodes at `T`, and the blocks of nodes that do not fit fall
/// lexicographically in every step, and there are finitely many layouts. The result is a tiling. A step
/// costs O(p) evaluations of `time_s` for the columns of blocks and O(1) per node of the column for the
/// rows.
///
/// # Errors
/// Returns [`LayoutError::NotColumns`] unless the rectangles lie in columns, [`LayoutError::InvalidTime`] for a time
/// that is negative or not a number.
pub fn repair(
    layout: &Layout,
    time_s: &dyn Fn(usize, u64, u64) -> f64,
) -> Result<Layout, LayoutError> {
    repair_within(layout, time_s, usize::MAX)
}

/// Repairs as [`repair()`] does, in at most `steps` steps. After rounding each cut is off by less than
/// a block. If more steps would help, rounding was not the cause.
pub(super) fn repair_within(
    layout: &Layout,
    time_s: &dyn Fn(usize, u64, u64) -> f64,
    steps: usize,
) -> Result<Layout, LayoutError> {
    let mut state = RepairState::new(layout, time_s)?;
    for _ in 0..steps {
        if !state.improve()? {
            break;
        }
    }
    let nodes = layout.rects().len();
    let rects = place(&state.columns, &state.widths, &state.heights, nodes);
    Layout::new(layout.rows(), layout.cols(), rects)
}

/// Replaces a time that is negative or not a number by infinity. A size without a time in the model
/// does not fit.
pub(super) fn time_or_never(time_s: f64) -> f64 {
    if time_s >= 0.0 { time_s } else { f64::INFINITY }
}

/// A layout in columns on the way to a better one.
struct RepairState<'a> {
    time_s: &'a dyn Fn(usize, u64, u64) -> f64,
    columns: Vec<Vec<usize>>,
    widths: Vec<u64>,
    /// Heights of each column's nodes.
    heights: Vec<Vec<u64>>,
    /// Times of each column's nodes.
    times_s: Vec<Vec<f64>>,
}

/// One row or one column of blocks that moves.
#[derive(Clone, Copy)]
enum BlockMove {
    /// In a column, from one of its nodes to another.
    Row { column: usize, from: usize, to: usize },
    /// From one column to another.
    Col { from: usize, to: usize },
}

impl BlockMove {
    /// Returns the size, after the move, of the rectangle of `rows × cols` at place `i` of `column`.
    fn resize(self, column: usize, i: usize, rows: u64, cols: u64) -> (u64, u64) {
        match self {
            Self::Row { from, .. } if from == i => (rows - 1, cols),
            Self::Row { .. } => (rows + 1, cols),
            Self::Col { from, .. } if from == column => (rows, cols - 1),
            Self::Col { .. } => (rows, cols + 1),
        }
    }
}

/// The state of the nodes that a move concerns.
#[derive(Default)]
struct NodesWeight {
    /// Number of them that need the largest time.
    slowest: usize,
    /// Their blocks, if that is infinite.
    blocks: u64,
    /// The largest of their times.
    time_s: f64,
}

impl NodesWeight {
    fn add(&mut self, time_s: f64, blocks: u64, largest_s: f64) {
        self.slowest += usize::from(time_s >= largest_s);
        self.blocks += if time_s.is_infinite() { blocks } else { 0 };
        self.time_s = self.time_s.max(time_s);
    }

    fn is_less(&self, other: &Self) -> bool {
        (self.slowest, self.blocks) < (other.slowest, other.blocks)
    }

    /// Returns `true` if a move that ends here is the better one.
    fn is_better(&self, other: &Self) -> bool {
        (self.slowest, self.blocks)
            .cmp(&(other.slowest, other.blocks))
            .then(self.time_s.total_cmp(&other.time_s))
            .is_lt()
    }
}

impl<'a> RepairState<'a> {
    fn new(
        layout: &Layout,
        time_s: &'a dyn Fn(usize, u64, u64) -> f64,
    ) -> Result<Self, LayoutError> {
        let columns = layout.columns().ok_or(LayoutError::NotColumns)?;
        let rects = layout.rects();
        let mut state = Self {
            time_s,
            widths: columns.iter().map(|column| rects[column[0]].cols).collect(),
            heights: (columns.iter())
                .map(|column| column.iter().map(|&node| rects[node].rows).collect())
                .collect(),
            times_s: Vec::new(),
            columns,
        };
        for column in 0..state.columns.len() {
            let times_s = state.column_times_s(column)?;
            state.times_s.push(times_s);
        }
        Ok(state)
    }

    /// Makes the best move. Returns `false` if there is none.
    fn improve(&mut self) -> Result<bool, LayoutError> {
        let Some((column, slowest)) = self.find_slowest() else {
            return Ok(false);
        };
        let largest_s = self.times_s[column][slowest];
        let mut best: Option<(NodesWeight, BlockMove)> = None;
        for change in self.list_moves(column, slowest) {
            let Some(weight) = self.weigh_move(change, largest_s)? else {
                continue;
            };
            if (best.as_ref()).is_none_or(|(least, _)| weight.is_better(least)) {
                best = Some((weight, change));
            }
        }
        match best {
            Some((_, change)) => self.apply(change).map(|()| true),
            None => Ok(false),
        }
    }

    /// Finds the node of the largest time, as its column and its place there.
    fn find_slowest(&self) -> Option<(usize, usize)> {
        self.times_s
            .iter()
            .enumerate()
            .flat_map(|(column, times)| (0..times.len()).map(move |i| (column, i)))
            .max_by(|a, b| self.times_s[a.0][a.1].total_cmp(&self.times_s[b.0][b.1]))
    }

    /// Lists the moves that concern a node of a column.
    fn list_moves(&self, column: usize, node: usize) -> Vec<BlockMove> {
        let mut moves = Vec::new();
        for other in (0..self.columns[column].len()).filter(|&other| other != node) {
            for (from, to) in [(node, other), (other, node)] {
                if self.heights[column][from] > 0 {
                    moves.push(BlockMove::Row { column, from, to });
                }
            }
        }
        for other in (0..self.columns.len()).filter(|&other| other != column) {
            for (from, to) in [(column, other), (other, column)] {
                if self.widths[from] > 0 {
                    moves.push(BlockMove::Col { from, to });
                }
            }
        }
        moves
    }

    /// Returns the weight after a move, if that counts as an improvement on a largest time.
    fn weigh_move(
        &self,
        change: BlockMove,
        largest_s: f64,
    ) -> Result<Option<NodesWeight>, LayoutError> {
        let (mut before, mut after) = (NodesWeight::default(), NodesWeight::default());
        for (column, i) in self.list_concerned(change) {
            let (rows, cols) = (self.heights[column][i], self.widths[column]);
            let (new_rows, new_cols) = change.resize(column, i, rows, cols);
            let time_s = self.node_time_s(self.columns[column][i], new_rows, new_cols)?;
            if time_s > largest_s {
                return Ok(None);
            }
            before.add(self.times_s[column][i], rows * cols, largest_s);
            after.add(time_s, new_rows * new_cols, largest_s);
        }
        Ok(after.is_less(&before).then_some(after))
    }

    /// Lists the nodes that a move resizes, each by its column and its place there.
    fn list_concerned(&self, change: BlockMove) -> Vec<(usize, usize)> {
        match change {
            BlockMove::Row { column, from, to } => vec![(column, from), (column, to)],
            BlockMove::Col { from, to } => [from, to]
                .into_iter()
                .flat_map(|column| (0..self.columns[column].len()).map(move |i| (column, i)))
                .collect(),
        }
    }

    fn apply(&mut self, change: BlockMove) -> Result<(), LayoutError> {
        let columns = match change {
            BlockMove::Row { column, from, to } => {
                self.heights[column][from] -= 1;
                self.heights[column][to] += 1;
                vec![column]
            }
            BlockMove::Col { from, to } => {
                self.widths[from] -= 1;
                self.widths[to] += 1;
                vec![from, to]
            }
        };
        for column in columns {
            self.times_s[column] = self.column_times_s(column)?;
        }
        Ok(())
    }

    fn column_times_s(&self, column: usize) -> Result<Vec<f64>, LayoutError> {
        self.columns[column]
            .iter()
            .zip(&self.heights[column])
            .map(|(&node, &rows)| self.node_time_s(node, rows, self.widths[column]))
            .collect()
    }

    fn node_time_s(&self, index: usize, rows: u64, cols: u64) -> Result<f64, LayoutError> {
        if rows == 0 || cols == 0 {
            return Ok(0.0);
        }
        let time_s = (self.time_s)(index, rows, cols);
        if time_s >= 0.0 {
            return Ok(time_s);
        }
        Err(LayoutError::InvalidTime { index, rows, cols, time_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{recursive, slice_cols, slice_rows};

    #[test]
    fn several_slowest_nodes_are_helped_one_by_one() {
        let slices = slice_rows(2, &[4, 4, 4]).expect("valid");
        let repaired =
            repair(&slices, &|node, rows, cols| (rows * cols) as f64 / [1.0, 1.0, 4.0][node]);
        assert_eq!(repaired.expect("valid").areas(), [4, 4, 16]);
    }

    #[test]
    fn columns_give_to_each_other() {
        let slices = slice_cols(5, &[4, 4]).expect("valid");
        let repaired = repair(&slices, &|node, rows, cols| (rows * cols) as f64 / [1.0, 3.0][node]);
        assert_eq!(repaired.expect("valid").areas(), [10, 30]);
    }

    #[test]
    fn what_does_not_fit_shrinks_until_it_does() {
        let slices = slice_rows(1, &[12, 8]).expect("valid");
        let repaired = repair(&slices, &|node, rows, cols| match (node, rows * cols) {
            (0, 7..) => f64::INFINITY,
            (_, blocks) => blocks as f64,
        });
        assert_eq!(repaired.expect("valid").areas(), [6, 14]);
    }

    #[test]
    fn a_time_that_falls_with_the_size_is_used() {
        // Heights that are no multiple of 4 take twice as long.
        let slices = slice_rows(1, &[7, 5]).expect("valid");
        let repaired = repair(&slices, &|_, rows, cols| {
            (rows * cols) as f64 * if rows.is_multiple_of(4) { 1.0 } else { 2.0 }
        });
        assert_eq!(repaired.expect("valid").areas(), [8, 4]);
    }

    #[test]
    fn what_cannot_be_repaired_is_refused() {
        let rows = recursive(&[1.0; 2], 4, 3).expect("areas");
        let pinwheel = recursive(&[2.0, 1.0, 1.0], 4, 4).expect("areas");
        assert!(repair(&rows, &|_, _, _| 1.0).is_ok());
        assert!(repair(&pinwheel, &|_, _, _| 1.0).is_ok());
        let stacked = recursive(&[2.0, 1.0, 1.0], 6, 5).expect("areas");
        assert_eq!(repair(&stacked, &|_, _, _| 1.0), Err(LayoutError::NotColumns));
        let error = repair(&rows, &|node, _, _| if node == 1 { f64::NAN } else { 1.0 });
        assert!(matches!(error, Err(LayoutError::InvalidTime { index: 1, .. })));
    }

    #[test]
    fn a_row_moves_to_the_faster_node() {
        let speeds = [1.0, 2.0];
        let layout = slice_rows(2, &[3, 3]).expect("valid");
        let repaired = repair(&layout, &|node, rows, cols| (rows * cols) as f64 / speeds[node]);
        assert_eq!(repaired.expect("valid").areas(), [4, 8]);
    }
}
