//! The predictions of a plan.

use serde::{Deserialize, Serialize};

use crate::matrix::Region;

/// The predictions of a [`Plan`](super::Plan). They follow from it, so reading a plan from a file leaves them out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// Predicted seconds of the arithmetic: number of updates times the slowest node's time of one. `null` if nothing
    /// was measured.
    pub arithmetic_s: Option<f64>,
    /// Every node, by rank, with the rectangle of C that it holds.
    pub nodes: Vec<PredictedNode>,
}

/// The predictions for one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PredictedNode {
    /// The rectangle of C that it holds, in elements.
    #[serde(flatten)]
    pub part: Region,
    /// Indices along k that it computes over: the first, and the one after the last.
    pub k: [usize; 2],
    /// Its work: updates of a block of C over all of k.
    pub units: f64,
    /// Predicted seconds of its arithmetic; `null` if nothing was measured.
    pub arithmetic_s: Option<f64>,
    /// Bytes that it will receive.
    pub bytes: u64,
    /// Messages that it will receive.
    pub messages: u64,
    /// Bytes of host memory that it needs, including those of its devices.
    pub memory_bytes: u64,
    /// Its devices.
    pub devices: Vec<PredictedDevice>,
}

/// The predictions for one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PredictedDevice {
    /// Its work: updates of a block of C over all of k.
    pub units: f64,
    /// Bytes of its own memory that it needs; 0 if it computes in host memory.
    pub memory_bytes: u64,
}
