//! The records of the parts of the campaign, as they stand in the file of results.

use isochron_devices::ElementType;
use isochron_devices::cuda::TilePlan;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::report::MxmReport;
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// Seconds of copies of `bytes` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CopyTimes {
    pub bytes: u64,
    /// From pinned memory to the GPU.
    pub up_s: f64,
    /// From the GPU to pinned memory.
    pub down_s: f64,
    /// Both at once.
    pub both_s: f64,
    /// From an ordinary matrix to the GPU.
    pub staged_up_s: f64,
    /// From the GPU to an ordinary matrix.
    pub staged_down_s: f64,
}

/// The measured devices and their points files.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModelsRecord {
    pub files: Vec<String>,
    pub measured: DevicesReport,
}

/// The document of `isochron devices bench`. Keys that the campaign does not read are kept as they are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DevicesReport {
    pub block: usize,
    pub devices: Vec<DeviceCurve>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// The measured speeds of a device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeviceCurve {
    pub name: String,
    pub sizes: Vec<SizeTimes>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
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

/// The product that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OutOfCoreRecord {
    pub what: String,
    #[serde(flatten)]
    pub shape: ProductShape,
    /// Inner dimension of our updates.
    pub panel: usize,
    pub memory_bytes: u64,
    pub plan: TilePlan,
    /// m, n and k of a product of cuBLAS on a whole tile.
    pub tile: [usize; 3],
    /// The reason why there is no cuBLASXt.
    pub no_cublasxt: Option<String>,
    /// The reason why no matrices were pinned.
    pub not_pinned: Option<String>,
    /// The search for cuBLASXt's block with ordinary matrices.
    pub cublasxt: Option<BlockSearch>,
    /// The same with pinned matrices.
    #[serde(rename = "cublasxt, pinned")]
    pub cublasxt_pinned: Option<BlockSearch>,
}

/// The search for the fastest block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlockSearch {
    /// The fastest block; `None` if all have failed.
    pub block: Option<usize>,
    pub tried: Vec<TriedBlock>,
}

/// A block that was tried: its seconds, or its error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TriedBlock {
    pub block: usize,
    pub seconds: Option<f64>,
    pub error: Option<String>,
}

/// The multiplications that were measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RanksRecord {
    pub side: usize,
    pub host_cores: Vec<u32>,
    pub cores: Vec<u32>,
}

/// A shape that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResidentRecord {
    pub what: String,
    #[serde(flatten)]
    pub shape: ProductShape,
    pub element: ElementType,
}

/// Seconds of a job of ours.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResidentTimes {
    /// The beginning of the job.
    pub begin_s: f64,
    /// The first update, whose panels were not sent ahead.
    pub first_s: f64,
    /// The updates between.
    pub times_s: Vec<f64>,
    /// The last update, which sends no panels ahead.
    pub last_s: f64,
    /// The end of the job.
    pub finish_s: f64,
}

/// The updates of a multiplication.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepRecord {
    pub what: String,
    /// Updates whose panels were sent ahead.
    pub updates: usize,
    pub update_s: MedianRange,
    /// Copies on the host.
    pub copies_s: MedianRange,
    /// Waiting for the link.
    pub link_s: MedianRange,
    /// Waiting for the arithmetic at the end.
    pub arithmetic_s: MedianRange,
    /// Calls of the driver.
    pub calls_s: MedianRange,
    /// The bound in words.
    pub bound: String,
    pub drawn: Vec<TracedUpdate>,
    pub report: MxmReport,
}

/// An update. All times but its beginning are seconds after that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TracedUpdate {
    /// `true` if its own panels were sent ahead.
    #[serde(skip)]
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

/// The job that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamedRecord {
    pub what: String,
    #[serde(flatten)]
    pub shape: ProductShape,
    pub memory_bytes: u64,
    /// The inner dimension gathered for a visit.
    pub gathered_k: usize,
    pub plan: TilePlan,
    /// m, n and k of a product of cuBLAS on a whole tile.
    pub tile: [usize; 3],
}

/// The multiplications that were measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TogetherRecord {
    pub side: usize,
    pub columns_of_the_cores: usize,
    pub host_cores: Vec<u32>,
    pub cores: Vec<u32>,
}
