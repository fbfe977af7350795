//! The repetitions of one size.

use serde::{Deserialize, Serialize};

/// The repetitions of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Elements of C, bytes of a message, or units of a kernel.
    pub units: u64,
    /// Seconds of each repetition kept.
    pub seconds: Vec<f64>,
    /// `true` for a size that was given up: it takes at least these seconds.
    #[serde(default)]
    pub at_least: bool,
}

impl Series {
    /// Makes the series of measured times.
    pub fn measured(units: u64, seconds: Vec<f64>) -> Self {
        Self {
            units,
            seconds,
            at_least: false,
        }
    }
}
