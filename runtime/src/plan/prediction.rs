//! The predictions of a plan.

use serde::{Deserialize, Serialize};

use super::Plan;
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
    /// Bytes that pass each uplink of the network, the busier way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplink_bytes: Vec<u64>,
}

impl Prediction {
    /// Predicts a plan whose nodes are predicted.
    pub(crate) fn new(plan: &Plan, nodes: Vec<PredictedNode>) -> Self {
        let through = plan.network().map(|network| plan.phase(network).through);
        let bytes = plan.problem().element().bytes() as f64;
        let uplinks = through.into_iter().flatten();
        let uplink_bytes = uplinks.map(|elements| (elements * bytes).round() as u64).collect();
        Self { arithmetic_s: plan.predicted_s(), nodes, uplink_bytes }
    }
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

impl PredictedNode {
    /// Predicts the node of a rank whose devices need these bytes of the host's memory, and these of their own.
    pub(crate) fn new(plan: &Plan, rank: usize, host_bytes: u64, own_bytes: &[u64]) -> Self {
        let k = plan.k_range(rank);
        let received = plan.count_received(rank);
        let devices = plan.slices(rank).into_iter().zip(own_bytes);
        let devices = devices.map(|(columns, &memory_bytes)| PredictedDevice {
            units: plan.units_of(rank, columns),
            memory_bytes,
        });
        Self {
            part: plan.c().part(rank),
            k: [k.start, k.end],
            units: plan.units(rank),
            arithmetic_s: plan.node_s(rank),
            bytes: received.bytes,
            messages: received.messages,
            memory_bytes: plan.memory_bytes(rank).saturating_add(host_bytes),
            devices: devices.collect(),
        }
    }
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
