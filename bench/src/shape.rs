//! The shape of a product.

use serde::Serialize;

/// The shape of a product or update `C (m×n) += A (m×k) · B (k×n)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::Args)]
pub struct ProductShape {
    /// Rows of C
    pub m: usize,
    /// Columns of C
    pub n: usize,
    /// Columns of A
    pub k: usize,
}

impl ProductShape {
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
