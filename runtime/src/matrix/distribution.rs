//! Which rank holds which elements.

use std::sync::Arc;

use super::region::Region;
use isochron_hierarchy::layout::{Layout, Rect};

/// An `rows×cols` matrix spread over ranks: a layout in whole `b×b` blocks, the last row and column of blocks
/// possibly cut short.
#[derive(Debug, Clone)]
pub struct Distribution {
    rows: usize,
    cols: usize,
    block: usize,
    layout: Arc<Layout>,
    window: Option<Window>,
}

/// Where a matrix lies in a larger one.
#[derive(Debug, Clone, Copy)]
struct Window {
    row: usize,
    col: usize,
    /// Rows and columns of the larger one.
    whole: (usize, usize),
}

impl Distribution {
    /// Spreads a `rows×cols` matrix over the rectangles of `layout`, one for each rank.
    ///
    /// # Panics
    /// When `layout` does not have `ceil(rows/block) × ceil(cols/block)` blocks.
    pub fn new(rows: usize, cols: usize, block: usize, layout: Arc<Layout>) -> Self {
        let blocks = (rows.div_ceil(block) as u64, cols.div_ceil(block) as u64);
        assert_eq!(
            (layout.rows(), layout.cols()),
            blocks,
            "the layout is in blocks of another matrix"
        );
        Self {
            rows,
            cols,
            block,
            layout,
            window: None,
        }
    }

    /// The same parts as a window of a larger matrix, of `whole` rows and columns, with its first element in `row` and
    /// `col`. The rest of that matrix nobody holds.
    ///
    /// # Panics
    /// When the window reaches beyond the matrix.
    #[must_use]
    pub fn within(self, (row, col): (usize, usize), whole: (usize, usize)) -> Self {
        assert!(
            row + self.rows <= whole.0 && col + self.cols <= whole.1,
            "a window reaches beyond its matrix"
        );
        let window = Some(Window { row, col, whole });
        Self { window, ..self }
    }

    /// Whether it is of a window of a larger matrix.
    pub(crate) fn is_window(&self) -> bool {
        self.window.is_some()
    }

    /// The same parts, of a matrix that lies in no larger one.
    pub(super) fn alone(&self) -> Self {
        Self {
            window: None,
            ..self.clone()
        }
    }

    /// A `rows×cols` matrix that one rank holds, whole.
    pub fn whole(rows: usize, cols: usize) -> Self {
        let rect = Rect {
            row: 0,
            col: 0,
            rows: rows as u64,
            cols: cols as u64,
        };
        let layout = Layout::new(rect.rows, rect.cols, vec![rect])
            .unwrap_or_else(|error| panic!("one rectangle tiles its matrix: {error}"));
        Self::new(rows, cols, 1, Arc::new(layout))
    }

    /// How the transposed matrix is spread when every rank holds the same elements.
    pub fn transposed(&self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            block: self.block,
            layout: Arc::new(self.layout.transposed()),
            window: self.window.map(|Window { row, col, whole }| Window {
                row: col,
                col: row,
                whole: (whole.1, whole.0),
            }),
        }
    }

    /// Number of rows of the whole matrix.
    pub fn rows(&self) -> usize {
        self.window.map_or(self.rows, |window| window.whole.0)
    }

    /// Number of columns of the whole matrix.
    pub fn cols(&self) -> usize {
        self.window.map_or(self.cols, |window| window.whole.1)
    }

    /// Block size `b`.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Number of ranks.
    pub fn n_ranks(&self) -> usize {
        self.layout.rects().len()
    }

    /// The layout in blocks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The elements that `rank` holds.
    pub fn part(&self, rank: usize) -> Region {
        let rect = &self.layout.rects()[rank];
        let cut = |block: u64, limit: usize| (block as usize).saturating_mul(self.block).min(limit);
        let (row, col) = (cut(rect.row, self.rows), cut(rect.col, self.cols));
        let first = self
            .window
            .map_or((0, 0), |window| (window.row, window.col));
        Region {
            row: first.0 + row,
            col: first.1 + col,
            rows: cut(rect.row + rect.rows, self.rows) - row,
            cols: cut(rect.col + rect.cols, self.cols) - col,
        }
    }
}
