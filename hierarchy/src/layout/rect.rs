//! One node's rectangle.

use serde::{Deserialize, Serialize};

/// A rectangle of blocks: rows `row .. row + rows`, columns `col .. col + cols`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Rect {
    /// First block row.
    pub row: u64,
    /// First block column.
    pub col: u64,
    /// Height in blocks.
    pub rows: u64,
    /// Width in blocks.
    pub cols: u64,
}

impl Rect {
    /// Blocks in it: `rows · cols`.
    ///
    /// # Panics
    /// In a build with overflow checks, if that exceeds 64 bits.
    #[must_use]
    pub fn area(&self) -> u64 {
        self.rows * self.cols
    }

    /// Whether it holds no block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }
}
