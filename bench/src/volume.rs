//! The volume that layouts predict for more nodes than a machine has.

use anyhow::Context;
use isochron_hierarchy::layout::{Method, arrange};
use serde::Serialize;

use crate::instances;

/// Blocks of C that a node has on average, and their side in elements.
const BLOCKS_EACH: f64 = 4096.0;
const BLOCK: u64 = 128;

/// The number of nodes.
#[derive(clap::Args)]
pub struct VolumeArguments {
    /// Nodes, with speeds that differ by a factor of up to 100
    nodes: usize,
}

/// 10⁹ bytes that an average node receives in `C (m×m) = A·B`, by layout.
///
/// For each index along k, a node needs as many elements of A and B as its half-perimeter is long, and all nodes
/// together hold A and B once: `k·(Σ half-perimeters - (m + n))` elements are sent. The memory grows with the nodes.
#[derive(Debug, Serialize)]
struct PredictedVolume {
    /// m = n = k.
    size: u64,
    /// Columns by the CMA.
    columns: f64,
    /// Rectangles by recursive cuts.
    recursive: f64,
    grid: f64,
    /// Slices of the whole height, which are together as wide as the matrix.
    slices: f64,
    /// The least volume of any layout.
    bound: f64,
}

impl PredictedVolume {
    fn predict(nodes: usize) -> anyhow::Result<Self> {
        let side = (BLOCKS_EACH * nodes as f64).sqrt().round() as u64;
        let size = side * BLOCK;
        let areas = instances::make_areas(nodes);
        let volume = |half_perimeters: f64| {
            let lines = (half_perimeters - 2.0 * side as f64) * BLOCK as f64;
            8e-9 * lines * size as f64 / nodes as f64
        };
        let arrange = |method| arrange(method, &areas, side, side).context(method);
        let columns = arrange(Method::Br)?;
        Ok(Self {
            size,
            columns: volume(columns.half_perimeter_sum() as f64),
            recursive: volume(arrange(Method::Recursive)?.half_perimeter_sum() as f64),
            grid: volume(arrange(Method::Cartesian)?.half_perimeter_sum() as f64),
            slices: volume(((nodes + 1) as u64 * side) as f64),
            bound: volume(columns.lower_bound()),
        })
    }
}

/// Prints the volumes as JSON.
///
/// # Errors
/// Fails if a layout refuses.
pub fn run(arguments: &VolumeArguments) -> anyhow::Result<()> {
    let volume = PredictedVolume::predict(arguments.nodes)?;
    println!("{}", serde_json::to_string(&volume)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_lie_between_the_bound_and_slices() -> anyhow::Result<()> {
        for nodes in [16, 1024] {
            let volume = PredictedVolume::predict(nodes)?;
            assert!(volume.bound <= volume.columns && volume.columns < volume.slices, "{volume:?}");
            assert!(volume.columns / volume.bound < 1.1, "{volume:?}");
        }
        Ok(())
    }
}
