//! The parts of all ranks and their devices, which may change in mid-run.

use isochron_hierarchy::layout::Layout;
use serde::{Deserialize, Serialize};

/// The part of C that each rank computes, and the columns of it for each device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Assignment {
    /// The parts of C, in blocks. If k is divided they are those of the plan, and stay, as the shares of k do: A and
    /// B of a share that moved would have to travel.
    pub layout: Layout,
    /// Columns of every rank's devices.
    pub slices: Vec<Vec<usize>>,
}
