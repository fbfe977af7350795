//! Jobs whose C does not fit on the GPU, and what bounds them.

use anyhow::{Context as _, bail};
use isochron_devices::internal::Placement;
use isochron_devices::{CudaWorker, Depth, JobShape};
use serde::Serialize;

use super::card::GpuCard;
use super::copies::LinkSpeeds;
use super::cublas::time_bursts;
use crate::shape::ProductShape;

/// Bytes of the copies that measure the link, or fewer if C is smaller.
const COPY_BYTES: usize = 256 << 20;

/// A job with its device.
pub struct PlannedJob {
    card: GpuCard,
    pub worker: CudaWorker,
    memory: u64,
    /// The product of a whole tile.
    tile: ProductShape,
    pub updates_per_visit: usize,
}

/// The printed document, with speeds in 10⁹ flop/s.
#[derive(Serialize)]
pub struct TiledSpeeds {
    gpu: String,
    /// The product of a whole tile.
    tile: ProductShape,
    /// Seconds of each visit or product.
    times_s: Vec<f64>,
    gflops: Vec<f64>,
    /// Of cuBLAS on a tile, in each burst.
    cublas_gflops: Vec<f64>,
    /// The bound of the link.
    link_gflops: f64,
}

impl PlannedJob {
    /// Plans a job on the first GPU that may use `memory` bytes there.
    ///
    /// # Errors
    /// If C fits or has no plan.
    pub fn new(
        cores: usize,
        memory: u64,
        m: usize,
        n: usize,
        depth: Depth,
    ) -> anyhow::Result<Self> {
        let card = GpuCard::find()?;
        let worker = card.make_worker(cores, Some(memory))?;
        let plan = worker
            .plan(&JobShape::of::<f64>(m, n, depth))
            .context("a C of this size has no plan")?;
        let Placement::Streamed(tiles) = plan.placement else {
            bail!("C fits into {memory} bytes, which should be too small");
        };
        Ok(Self {
            card,
            worker,
            memory,
            tile: ProductShape {
                m: tiles.rows,
                n: tiles.cols,
                k: tiles.step_k,
            },
            updates_per_visit: plan.updates_per_visit,
        })
    }

    /// Measures the bounds of products of this shape that took these seconds.
    ///
    /// # Errors
    /// The errors of cuBLAS and of the copies.
    pub fn compare(
        mut self,
        shape: ProductShape,
        times_s: Vec<f64>,
    ) -> anyhow::Result<TiledSpeeds> {
        let bursts_s = time_bursts::<f64>(&mut self.worker, self.tile)?;
        let bytes = COPY_BYTES.min(8 * shape.m * shape.n);
        let link = LinkSpeeds::measure(&self.card.info, bytes)?;
        let gflops = |flop: f64, times_s: &[f64]| {
            let speeds = times_s.iter().map(|time_s| flop / time_s / 1e9);
            speeds.collect()
        };
        Ok(TiledSpeeds {
            gpu: self.card.info.name,
            tile: self.tile,
            gflops: gflops(shape.flop(), &times_s),
            cublas_gflops: gflops(self.tile.flop(), &bursts_s),
            link_gflops: bound_by_link(shape, self.memory, link),
            times_s,
        })
    }
}

/// Returns the largest speed in 10⁹ flop/s of a product of `shape`, of whose C the GPU holds at most `memory` bytes at a time.
///
/// C is sent both ways once, A and B as often as they must be. With memory for M elements no order of the work sends fewer than
/// about `2·m·n·k / √M` elements of them, nor fewer than all of A and B.
///
/// # References
/// Hong and Kung, I/O complexity: the red-blue pebble game, 1981.
fn bound_by_link(shape: ProductShape, memory: u64, link: LinkSpeeds) -> f64 {
    let [m, n, k] = [shape.m, shape.n, shape.k].map(|side| side as f64);
    let root = (memory as f64 / 8.0).sqrt();
    let panels = (2.0 * m * n * k / root).max(k * (m + n));
    let up_s = 8e-9 * (m * n + panels) / link.up_gb_per_s;
    let down_s = 8e-9 * m * n / link.down_gb_per_s;
    shape.flop() / up_s.max(down_s) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_bounds_by_the_panels_or_by_c() {
        let link = LinkSpeeds {
            up_gb_per_s: 10.0,
            down_gb_per_s: 1.0,
            both_gb_per_s: 11.0,
        };
        let shape = |k| ProductShape {
            m: 1000,
            n: 1000,
            k,
        };
        // 8 MB back at 1 GB/s take longer than 8 MB and thin panels at ten times that.
        let thin = bound_by_link(shape(10), 8_000_000, link);
        assert!((thin - 0.02 / 0.008).abs() < 1e-9, "{thin}");
        // A memory of 100×100 elements has each element of A and B sent ten times.
        let deep = bound_by_link(shape(100_000), 80_000, link);
        let sent_gb = 0.008 + 8e-9 * 2e11 / 100.0;
        assert!((deep - 200.0 / (sent_gb / 10.0)).abs() < 1e-6, "{deep}");
    }
}
