//! The results of learning in a run.

use isochron_hierarchy::learn::{ChangeReason, PartModel};
use serde::{Deserialize, Serialize};

/// The results of learning in a run, with their times and costs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Learnt {
    /// Number of decisions in the run.
    pub decisions: usize,
    /// Seconds of these decisions on the first rank, during which the devices compute.
    pub deciding_s: f64,
    /// Seconds of changing the division, with the return of C to where the plan has it.
    pub changing_s: f64,
    /// Seconds by which steps took longer than they would have in the last division, by the models at the end.
    pub late_s: f64,
    /// Every change of the division, in order.
    pub changes: Vec<LearntChange>,
    /// Every device whose speed changed in mid-run, in order.
    pub drifts: Vec<LearntDrift>,
    /// The model of every device at the end, by rank.
    pub devices: Vec<LearntDevice>,
    /// Unusual facts, one line each: times that nothing could be learnt from, and changes without memory.
    pub notices: Vec<String>,
}

/// A change of the division in mid-run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LearntChange {
    /// First step in the new division.
    pub step: usize,
    /// Rank whose devices divide their work anew; `null` if all ranks do.
    pub rank: Option<usize>,
    /// Why. `saving`: it saves more than it costs. `drift`: a device became slower or faster, and it saves more than
    /// it costs. `forced`: a test asks for it.
    #[cfg_attr(feature = "schemars", schemars(extend("enum" = ["saving", "drift", "forced"])))]
    pub why: ChangeReason,
    /// `true` if parts of C moved between ranks; `false` if only columns moved between the devices of a rank.
    pub moves_c: bool,
    /// Seconds that it was expected to cost.
    pub expected_cost_s: f64,
    /// Seconds that it cost.
    pub cost_s: f64,
    /// Seconds that the remaining steps were expected to save by it.
    pub expected_saving_s: f64,
    /// Seconds that the steps up to the next change saved by it, by the models at the end.
    pub saved_s: f64,
}

/// A lasting change of a device's speed in mid-run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LearntDrift {
    /// Rank of the device.
    pub rank: usize,
    /// Host of the rank.
    pub host: String,
    /// Name of the device.
    pub device: String,
    /// First step at the new speed.
    pub step: usize,
    /// Time after the change over the time before; above 1 if the device became slower.
    pub factor: f64,
}

/// The model of a device's time of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LearntDevice {
    /// Rank of the device.
    pub rank: usize,
    /// Name of the device.
    pub name: String,
    /// Its model, in elements of C per step; `null` if it was never measured.
    pub model: Option<PartModel>,
}
