//! Single blocks moved away from the slowest node.

use super::arrangement::place;
use super::{Layout, LayoutError, Rect};

/// Moves single rows of blocks between the nodes of a column, and single columns of blocks between
/// columns, while that makes the largest time fall. `time_s(node, rows, cols)` is the time in seconds
/// of a rectangle; it is asked about rectangles with blocks only.
///
/// Rounding treats every cut alike; where the slowest node stands at the edge of its memory or of
/// a kernel's granule, one block more or less can matter more than its share. In each step the node of
/// the largest time `T` gives a row of blocks to another one in its column, or takes one; or its column
/// gives a column of blocks to another one, or takes one. Of all these changes the best one is made
/// that brings no node above `T` and fewer to it. If the largest time is infinite (a rectangle that
/// does not fit), a change also counts if the nodes that do not fit have fewer blocks afterwards.
///
/// That ends: `T`, the number of nodes at `T`, and the blocks of nodes that do not fit fall
/// lexicographically in every step, and the layouts are finitely many. The result tiles as the argument
/// does. A step costs O(p) evaluations of `time_s` for the columns of blocks and O(1) per node of the
/// column for the rows.
///
/// # Errors
/// [`LayoutError::NotColumns`] unless the rectangles lie in columns, [`LayoutError::InvalidTime`] for
/// a time that is negative or not a number.
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{repair, slice_rows};
///
/// let speeds = [1.0, 2.0];
/// let time_s = |node: usize, rows: u64, cols: u64| (rows * cols) as f64 / speeds[node];
/// let repaired = repair(&slice_rows(2, &[3, 3])?, &time_s)?;
/// assert_eq!(repaired.areas(), [4, 8]);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
pub fn repair(
    layout: &Layout,
    time_s: &dyn Fn(usize, u64, u64) -> f64,
) -> Result<Layout, LayoutError> {
    repair_within(layout, time_s, usize::MAX)
}

/// As [`repair()`], in so many steps at most: after rounding each cut is off by less than a block, and
/// where more would help it is not rounding that was bad.
///
/// # Errors
/// As [`repair()`].
pub(super) fn repair_within(
    layout: &Layout,
    time_s: &dyn Fn(usize, u64, u64) -> f64,
    steps: usize,
) -> Result<Layout, LayoutError> {
    let mut state = State::new(layout, time_s)?;
    for _ in 0..steps {
        if !state.step()? {
            break;
        }
    }
    let mut rects = vec![Rect::default(); layout.rects().len()];
    place(&state.columns, &state.widths, &state.heights, &mut rects);
    Layout::new(layout.rows(), layout.cols(), rects)
}

/// The time that a model gives, infinite if that is none: what a model knows no time for does not fit.
pub(super) fn time_or_never(time_s: f64) -> f64 {
    if time_s >= 0.0 { time_s } else { f64::INFINITY }
}

/// A layout in columns on the way to a better one.
struct State<'a> {
    time_s: &'a dyn Fn(usize, u64, u64) -> f64,
    columns: Vec<Vec<usize>>,
    widths: Vec<u64>,
    /// Heights of each column's nodes.
    heights: Vec<Vec<u64>>,
    /// Times of each column's nodes.
    times_s: Vec<Vec<f64>>,
}

/// One row or one column of blocks more or less.
#[derive(Clone, Copy)]
enum Change {
    /// In a column, from one of its nodes to another.
    Row {
        column: usize,
        from: usize,
        to: usize,
    },
    /// From one column to another.
    Col { from: usize, to: usize },
}

/// What the nodes that a change concerns are like.
#[derive(Default)]
struct Weight {
    /// How many of them need the largest time.
    slowest: usize,
    /// Their blocks, if that is infinite.
    blocks: u64,
    /// The largest of their times.
    time_s: f64,
}

impl Weight {
    fn is_less(&self, other: &Self) -> bool {
        (self.slowest, self.blocks) < (other.slowest, other.blocks)
    }

    /// Whether a change that ends here is the better one.
    fn is_better(&self, other: &Self) -> bool {
        let counts = (self.slowest, self.blocks).cmp(&(other.slowest, other.blocks));
        counts.then(self.time_s.total_cmp(&other.time_s)).is_lt()
    }
}

impl<'a> State<'a> {
    fn new(
        layout: &Layout,
        time_s: &'a dyn Fn(usize, u64, u64) -> f64,
    ) -> Result<Self, LayoutError> {
        let columns = layout.columns().ok_or(LayoutError::NotColumns)?;
        let rect = |node: &usize| layout.rects()[*node];
        let mut state = Self {
            time_s,
            widths: columns.iter().map(|column| rect(&column[0]).cols).collect(),
            heights: columns
                .iter()
                .map(|column| column.iter().map(|node| rect(node).rows).collect())
                .collect(),
            times_s: Vec::new(),
            columns,
        };
        for column in 0..state.columns.len() {
            let times_s = state.column_times(column, state.widths[column])?;
            state.times_s.push(times_s);
        }
        Ok(state)
    }

    /// Makes the best change; whether there was one.
    fn step(&mut self) -> Result<bool, LayoutError> {
        let all = || self.times_s.iter().enumerate();
        let nodes = all().flat_map(|(column, times)| (0..times.len()).map(move |i| (column, i)));
        let time_s = |&(column, i): &(usize, usize)| self.times_s[column][i];
        let Some((column, slowest)) = nodes.max_by(|a, b| time_s(a).total_cmp(&time_s(b))) else {
            return Ok(false);
        };
        let largest_s = self.times_s[column][slowest];
        let mut best: Option<(Weight, Change)> = None;
        for change in self.changes(column, slowest) {
            let Some(weight) = self.weigh(change, largest_s)? else {
                continue;
            };
            if best
                .as_ref()
                .is_none_or(|(least, _)| weight.is_better(least))
            {
                best = Some((weight, change));
            }
        }
        match best {
            Some((_, change)) => self.make(change).map(|()| true),
            None => Ok(false),
        }
    }

    /// The changes that concern a node of a column.
    fn changes(&self, column: usize, node: usize) -> Vec<Change> {
        let rows = (0..self.columns[column].len()).filter(|&other| other != node);
        let rows = rows.flat_map(|other| {
            [(node, other), (other, node)].map(|(from, to)| Change::Row { column, from, to })
        });
        let cols = (0..self.columns.len()).filter(|&other| other != column);
        let cols = cols.flat_map(|other| {
            [(column, other), (other, column)].map(|(from, to)| Change::Col { from, to })
        });
        let exists = |change: &Change| match *change {
            Change::Row { column, from, .. } => self.heights[column][from] > 0,
            Change::Col { from, .. } => self.widths[from] > 0,
        };
        rows.chain(cols).filter(exists).collect()
    }

    /// The weight after a change, if that counts as an improvement on a largest time.
    fn weigh(&self, change: Change, largest_s: f64) -> Result<Option<Weight>, LayoutError> {
        let (mut before, mut after) = (Weight::default(), Weight::default());
        for (column, i) in self.concerned(change) {
            let (rows, cols) = (self.heights[column][i], self.widths[column]);
            let (new_rows, new_cols) = match change {
                Change::Row { from, .. } if from == i => (rows - 1, cols),
                Change::Row { .. } => (rows + 1, cols),
                Change::Col { from, .. } if from == column => (rows, cols - 1),
                Change::Col { .. } => (rows, cols + 1),
            };
            let time_s = self.time(self.columns[column][i], new_rows, new_cols)?;
            if time_s > largest_s {
                return Ok(None);
            }
            before.add(self.times_s[column][i], rows * cols, largest_s);
            after.add(time_s, new_rows * new_cols, largest_s);
        }
        Ok(after.is_less(&before).then_some(after))
    }

    /// The nodes whose rectangles a change changes, each by its column and its place there.
    fn concerned(&self, change: Change) -> Vec<(usize, usize)> {
        match change {
            Change::Row { column, from, to } => vec![(column, from), (column, to)],
            Change::Col { from, to } => [from, to]
                .into_iter()
                .flat_map(|column| (0..self.columns[column].len()).map(move |i| (column, i)))
                .collect(),
        }
    }

    fn make(&mut self, change: Change) -> Result<(), LayoutError> {
        let columns = match change {
            Change::Row { column, from, to } => {
                self.heights[column][from] -= 1;
                self.heights[column][to] += 1;
                vec![column]
            }
            Change::Col { from, to } => {
                self.widths[from] -= 1;
                self.widths[to] += 1;
                vec![from, to]
            }
        };
        for column in columns {
            self.times_s[column] = self.column_times(column, self.widths[column])?;
        }
        Ok(())
    }

    fn column_times(&self, column: usize, width: u64) -> Result<Vec<f64>, LayoutError> {
        let nodes = self.columns[column].iter().zip(&self.heights[column]);
        nodes
            .map(|(&node, &rows)| self.time(node, rows, width))
            .collect()
    }

    fn time(&self, index: usize, rows: u64, cols: u64) -> Result<f64, LayoutError> {
        if rows == 0 || cols == 0 {
            return Ok(0.0);
        }
        let time_s = (self.time_s)(index, rows, cols);
        if time_s >= 0.0 {
            return Ok(time_s);
        }
        Err(LayoutError::InvalidTime {
            index,
            rows,
            cols,
            time_s,
        })
    }
}

impl Weight {
    fn add(&mut self, time_s: f64, blocks: u64, largest_s: f64) {
        self.slowest += usize::from(time_s >= largest_s);
        self.blocks += if time_s.is_infinite() { blocks } else { 0 };
        self.time_s = self.time_s.max(time_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{recursive, slice_cols, slice_rows};

    #[test]
    fn several_slowest_nodes_are_helped_one_by_one() {
        let time_s =
            |node: usize, rows: u64, cols: u64| (rows * cols) as f64 / [1.0, 1.0, 4.0][node];
        let repaired = repair(&slice_rows(2, &[4, 4, 4]).expect("valid"), &time_s).expect("valid");
        assert_eq!(repaired.areas(), [4, 4, 16]);
    }

    #[test]
    fn columns_give_to_each_other() {
        let time_s = |node: usize, rows: u64, cols: u64| (rows * cols) as f64 / [1.0, 3.0][node];
        let repaired = repair(&slice_cols(5, &[4, 4]).expect("valid"), &time_s).expect("valid");
        assert_eq!(repaired.areas(), [10, 30]);
    }

    #[test]
    fn what_does_not_fit_shrinks_until_it_does() {
        let time_s = |node: usize, rows: u64, cols: u64| match (node, rows * cols) {
            (0, 7..) => f64::INFINITY,
            (_, blocks) => blocks as f64,
        };
        let repaired = repair(&slice_rows(1, &[12, 8]).expect("valid"), &time_s).expect("valid");
        assert_eq!(repaired.areas(), [6, 14]);
    }

    #[test]
    fn a_time_that_falls_with_the_size_is_used() {
        // Heights that are no multiple of 4 take twice as long.
        let time_s = |_: usize, rows: u64, cols: u64| {
            (rows * cols) as f64 * if rows.is_multiple_of(4) { 1.0 } else { 2.0 }
        };
        let repaired = repair(&slice_rows(1, &[7, 5]).expect("valid"), &time_s).expect("valid");
        assert_eq!(repaired.areas(), [8, 4]);
    }

    #[test]
    fn what_cannot_be_repaired_is_refused() {
        let rows = recursive(&[1.0; 2], 4, 3).expect("areas");
        let pinwheel = recursive(&[2.0, 1.0, 1.0], 4, 4).expect("areas");
        assert!(repair(&rows, &|_, _, _| 1.0).is_ok());
        assert!(repair(&pinwheel, &|_, _, _| 1.0).is_ok());
        let stacked = recursive(&[2.0, 1.0, 1.0], 6, 5).expect("areas");
        assert_eq!(
            repair(&stacked, &|_, _, _| 1.0),
            Err(LayoutError::NotColumns)
        );
        let error = repair(&rows, &|node, _, _| if node == 1 { f64::NAN } else { 1.0 });
        assert!(matches!(
            error,
            Err(LayoutError::InvalidTime { index: 1, .. })
        ));
    }
}
