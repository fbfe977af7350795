//! The volume that layouts predict for more nodes than the machine has.

use anyhow::Context as _;
use isochron_bench::instances;
use isochron_hierarchy::layout::{Method, arrange};
use isochron_plot::{Series, draw_log_log};

use crate::markdown::format_table;

const NODES: [usize; 6] = [16, 64, 256, 1024, 4096, 10_000];
/// Blocks of C that a node has on average, and their side in elements.
const BLOCKS_EACH: f64 = 4096.0;
const BLOCK: u64 = 128;

/// The columns of the table. The layouts are columns by the CMA, rectangles by recursive cuts, a grid and slices of the
/// whole height; the lower bound is the least volume of any layout.
const COLUMNS: [&str; 8] = [
    "nodes:",
    "m = n = k:",
    "columns (br):",
    "recursive cuts:",
    "grid:",
    "slices:",
    "lower bound:",
    "columns / lower bound:",
];

/// Bytes that an average node receives in `C (m×m) = A·B`, by layout.
///
/// For each index along k, a node needs as many elements of A and B as its half-perimeter is long, and all nodes
/// together hold A and B once: `k·(Σ half-perimeters - (m + n))` elements are sent.
#[derive(Debug)]
pub struct PredictedVolume {
    nodes: usize,
    /// m = n = k.
    size: u64,
    /// Columns, recursive cuts, grid, slices and lower bound.
    bytes: [f64; 5],
}

impl PredictedVolume {
    fn predict(nodes: usize) -> anyhow::Result<Self> {
        let side = (BLOCKS_EACH * nodes as f64).sqrt().round() as u64;
        let size = side * BLOCK;
        let areas = instances::make_areas(nodes);
        let [br, recursive, grid] = [Method::Br, Method::Recursive, Method::Cartesian]
            .map(|method| arrange(method, &areas, side, side).context(method));
        let br = br?;
        let bytes = [
            br.half_perimeter_sum() as f64,
            recursive?.half_perimeter_sum() as f64,
            grid?.half_perimeter_sum() as f64,
            // Slices of the whole height are together as wide as the matrix.
            ((nodes + 1) as u64 * side) as f64,
            br.lower_bound(),
        ]
        .map(|sum| {
            let lines = (sum - 2.0 * side as f64) * BLOCK as f64;
            8.0 * lines * size as f64 / nodes as f64
        });
        Ok(Self { nodes, size, bytes })
    }
}

/// Predicts the volumes for nodes with speeds that differ by a factor of up to 100, and memory that grows with the
/// nodes.
///
/// # Errors
/// If a layout refuses.
pub fn predict_volumes() -> anyhow::Result<Vec<PredictedVolume>> {
    NODES.into_iter().map(PredictedVolume::predict).collect()
}

/// Formats the table.
pub fn format_volumes(volumes: &[PredictedVolume]) -> String {
    let rows = volumes.iter().map(|volume| {
        let over_bound = volume.bytes[0] / volume.bytes[4];
        let [br, recursive, grid, slices, bound] =
            volume.bytes.map(|bytes| format!("{:.2}", bytes / 1e9));
        [
            volume.nodes.to_string(),
            volume.size.to_string(),
            br,
            recursive,
            grid,
            slices,
            bound,
            format!("{over_bound:.3}"),
        ]
    });
    format_table(COLUMNS, rows)
}

/// Draws bytes against nodes, a series for each layout and one for the bound.
pub fn draw_volumes(volumes: &[PredictedVolume]) -> String {
    let series: Vec<Series> = COLUMNS[2..7]
        .iter()
        .enumerate()
        .map(|(at, name)| Series {
            name: name.trim_end_matches(':').to_owned(),
            points: volumes
                .iter()
                .map(|volume| (volume.nodes as f64, volume.bytes[at] / 1e9))
                .collect(),
        })
        .collect();
    draw_log_log(
        "Predicted volume",
        "nodes",
        "GB that a node receives on average",
        &series,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_lie_between_the_bound_and_slices() -> anyhow::Result<()> {
        let volumes = predict_volumes()?;
        assert_eq!(volumes.len(), NODES.len());
        for volume in volumes {
            let [br, _, _, slices, bound] = volume.bytes;
            assert!(bound <= br && br < slices, "{volume:?}");
            assert!(br / bound < 1.1, "{volume:?}");
        }
        Ok(())
    }
}
