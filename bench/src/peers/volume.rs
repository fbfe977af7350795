//! The volume that layouts predict for more nodes than the machine has.

use anyhow::Context as _;
use isochron_bench::instances;
use isochron_hierarchy::layout::{Method, arrange};
use isochron_plot::{Series, draw_log_log};
use serde::{Deserialize, Serialize};

const NODES: [usize; 6] = [16, 64, 256, 1024, 4096, 10_000];
/// Blocks of C that a node has on average, and their side in elements.
const BLOCKS_EACH: f64 = 4096.0;
const BLOCK: u64 = 128;

/// Bytes that an average node receives in `C (m×m) = A·B`, by layout.
///
/// For each index along k, a node needs as many elements of A and B as its half-perimeter is long, and all nodes together
/// hold A and B once: `k·(Σ half-perimeters - (m + n))` elements are sent.
#[derive(Debug, Serialize, Deserialize)]
pub struct PredictedVolume {
    pub nodes: usize,
    /// m = n = k.
    pub size: u64,
    /// Columns by the CMA.
    pub br: f64,
    /// Rectangles by recursive cuts.
    pub recursive: f64,
    /// A grid.
    pub cartesian: f64,
    /// Slices of the whole height.
    pub slices: f64,
    /// The least volume of any layout.
    pub bound: f64,
}

/// A column of a table: its name and its bytes.
type VolumeColumn = (&'static str, fn(&PredictedVolume) -> f64);

impl PredictedVolume {
    /// The columns of the table and the series of the plot.
    pub const COLUMNS: [VolumeColumn; 5] = [
        ("columns (br)", |row| row.br),
        ("recursive cuts", |row| row.recursive),
        ("grid", |row| row.cartesian),
        ("slices", |row| row.slices),
        ("lower bound", |row| row.bound),
    ];

    fn predict(nodes: usize) -> anyhow::Result<Self> {
        let side = (BLOCKS_EACH * nodes as f64).sqrt().round() as u64;
        let areas = instances::make_areas(nodes);
        let [br, recursive, cartesian] = [Method::Br, Method::Recursive, Method::Cartesian]
            .map(|method| arrange(method, &areas, side, side).context(method.name()));
        let br = br?;
        let volume = VolumeOf { nodes, side };
        Ok(Self {
            nodes,
            size: side * BLOCK,
            bound: volume.bytes_each(br.lower_bound()),
            br: volume.bytes_each(br.half_perimeter_sum() as f64),
            recursive: volume.bytes_each(recursive?.half_perimeter_sum() as f64),
            cartesian: volume.bytes_each(cartesian?.half_perimeter_sum() as f64),
            // Slices of the whole height are together as wide as the matrix.
            slices: volume.bytes_each(((nodes + 1) as u64 * side) as f64),
        })
    }
}

/// A number of nodes, and the blocks in a side of their matrix.
struct VolumeOf {
    nodes: usize,
    side: u64,
}

impl VolumeOf {
    /// Returns the bytes that a node receives on average if the half-perimeters have this sum, in blocks.
    fn bytes_each(&self, half_perimeters: f64) -> f64 {
        let lines = (half_perimeters - 2.0 * self.side as f64) * BLOCK as f64;
        8.0 * lines * (self.side * BLOCK) as f64 / self.nodes as f64
    }
}

/// Predicts the volumes for nodes with speeds that differ by a factor of up to 100, and memory that grows with the nodes.
///
/// # Errors
/// If a layout refuses.
pub fn predict_volumes() -> anyhow::Result<Vec<PredictedVolume>> {
    NODES.into_iter().map(PredictedVolume::predict).collect()
}

/// Draws bytes against nodes, a series for each column.
pub fn draw_volumes(rows: &[PredictedVolume]) -> String {
    let series = PredictedVolume::COLUMNS.map(|(name, bytes)| Series {
        name: name.to_owned(),
        points: rows
            .iter()
            .map(|row| (row.nodes as f64, bytes(row) / 1e9))
            .collect(),
    });
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
        let rows = predict_volumes()?;
        assert_eq!(rows.len(), NODES.len());
        for row in rows {
            assert!(row.bound <= row.br && row.br < row.slices, "{row:?}");
            assert!(row.br / row.bound < 1.1, "{row:?}");
        }
        Ok(())
    }
}
