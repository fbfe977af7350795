//! The end of the method, its iterations and its result.

use serde::Serialize;

/// The end of the method.
pub struct SolveConfig {
    /// Largest residual of the result, over the largest `|b|`.
    pub tolerance: f64,
    /// Most iterations.
    pub max_iterations: u64,
}

/// One iteration.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct SweepRecord {
    /// Rows of each rank.
    pub rows: Vec<u64>,
    /// Seconds of each rank for its rows.
    pub times_s: Vec<f64>,
    /// Largest residual before the iteration, over the largest `│b│`.
    pub residual: f64,
    /// Rows that changed their rank after it.
    pub moved: u64,
    /// Seconds that moving them took, of the rank that took longest.
    pub moving_s: f64,
    /// Seconds of the whole iteration on the head rank, with messages and moving.
    pub wall_s: f64,
}

/// The result of the method.
pub struct Solution {
    pub x: Vec<f64>,
    /// `true` if the residual is within the tolerance.
    pub converged: bool,
    /// Largest residual of x, over `scale`.
    pub residual: f64,
    /// Largest `|b|`; 1 if it is 0.
    pub scale: f64,
    pub history: Vec<SweepRecord>,
    /// Seconds of all iterations.
    pub wall_s: f64,
}

impl Solution {
    /// Returns a checksum of the bits of x.
    pub fn checksum(&self) -> String {
        let sum = self
            .x
            .iter()
            .fold(0_u64, |sum, value| (sum ^ value.to_bits()).wrapping_mul(0x100_0000_01b3));
        format!("{sum:016x}")
    }
}
