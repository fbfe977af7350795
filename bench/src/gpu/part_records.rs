//! The records of the parts of the campaign, as they stand in the file of results.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::report::MxmReport;
use crate::shape::ProductShape;

/// The measured devices and their points files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModelsRecord {
    pub files: Vec<String>,
    pub devices: Vec<DeviceCurve>,
}

/// The measured speeds of a device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceCurve {
    pub name: String,
    pub sizes: Vec<SizeTimes>,
}

/// The times of an update.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SizeTimes {
    pub n: usize,
    pub flop: f64,
    pub alone: UpdateMean,
    pub together: Option<UpdateMean>,
}

/// A mean time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UpdateMean {
    pub t_s: f64,
    /// 0 if the measurement was given up.
    pub reps: u32,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A job whose C does not fit, and visits the GPU in tiles.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TiledRecord {
    pub what: String,
    #[serde(flatten)]
    pub shape: ProductShape,
    pub memory_bytes: u64,
    /// The product of cuBLAS on a whole tile.
    pub tile: ProductShape,
    /// The inner dimension gathered for a visit; 0 if each update is a visit.
    pub gathered_k: usize,
}

/// The product that was measured against cuBLASXt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutOfCoreRecord {
    #[serde(flatten)]
    pub job: TiledRecord,
    /// The search for cuBLASXt's block with ordinary matrices.
    pub cublasxt: BlockSearch,
    /// The same with pinned matrices.
    #[serde(rename = "cublasxt, pinned")]
    pub cublasxt_pinned: BlockSearch,
}

/// The search for the fastest block.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BlockSearch {
    /// The fastest block; `None` if none was tried, or all have failed.
    pub block: Option<usize>,
    pub tried: Vec<TriedBlock>,
    /// The reason why none was tried.
    pub missing: Option<String>,
}

/// A block that was tried: its seconds, or its error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TriedBlock {
    pub block: usize,
    pub seconds: Option<f64>,
    pub error: Option<String>,
}

/// The updates of a multiplication whose panels were sent ahead.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepRecord {
    pub what: String,
    pub updates: Vec<TracedUpdate>,
    pub report: MxmReport,
}

/// An update. All times but its beginning are seconds after that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TracedUpdate {
    /// `true` if its own panels were sent ahead.
    pub is_ahead: bool,
    /// Its beginning, in seconds of the day.
    pub from_s: f64,
    /// Its arithmetic was queued.
    pub queued_s: f64,
    /// All of the next panels were in pinned memory.
    pub copied_s: f64,
    /// Its arithmetic was done.
    pub done_s: f64,
    pub pieces: Vec<TracedPiece>,
}

/// A piece of the next panels: the wait until the link has freed a slot, and then the copy into it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TracedPiece {
    pub waits_s: f64,
    pub copies_s: f64,
    /// The end of the copy, in seconds after the beginning of the update.
    pub done_s: f64,
}
