//! One node's rectangle.

use serde::{Deserialize, Serialize};

/// A rectangle of blocks: rows `row .. row + rows`, columns `col .. col + cols`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Rect {
    /// First row, in blocks.
    pub row: u64,
    /// First column, in blocks.
    pub col: u64,
    /// Number of rows, in blocks.
    pub rows: u64,
    /// Number of columns, in blocks.
    pub cols: u64,
}

impl Rect {
    /// Makes the rectangle of `rows × cols` blocks that begins in row `row` and column `col`.
    pub fn new(row: u64, col: u64, rows: u64, cols: u64) -> Self {
        Self { row, col, rows, cols }
    }

    /// Returns the number of blocks, `rows · cols`.
    ///
    /// # Panics
    /// In a build with overflow checks, if that exceeds 64 bits.
    pub fn area(&self) -> u64 {
        self.rows * self.cols
    }

    /// Returns `true` if the rectangle holds no block.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Returns the rectangle with rows and columns exchanged.
    #[must_use]
    pub fn transposed(&self) -> Self {
        Self::new(self.col, self.row, self.cols, self.rows)
    }
}
