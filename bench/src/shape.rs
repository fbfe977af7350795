//! The shape of a product.

use serde::{Deserialize, Serialize};

/// The shape of a product or update `C (m×n) += A (m×k) · B (k×n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductShape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl ProductShape {
    /// Makes the shape of a product of squares.
    pub const fn square(side: usize) -> Self {
        Self {
            m: side,
            n: side,
            k: side,
        }
    }

    /// Returns the floating-point operations `2·m·n·k`.
    pub fn flop(self) -> f64 {
        2.0 * (self.m * self.n) as f64 * self.k as f64
    }
}

impl std::fmt::Display for ProductShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}×{}×{}", self.m, self.n, self.k)
    }
}
