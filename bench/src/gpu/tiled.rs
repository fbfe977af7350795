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
    /// Columns of A that are gathered for a visit.
    gathered_k: usize,
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
    /// The bound of the link, with the fewest tiles that the memory allows.
    link_gflops: f64,
    /// The bound of the link, with our tiles.
    tiles_gflops: f64,
}

impl PlannedJob {
    /// Plans a job on the first GPU that may use `memory` bytes there.
    ///
    /// # Errors
    /// Fails if C fits or has no plan.
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
            tile: ProductShape { m: tiles.rows, n: tiles.cols, k: tiles.step_k },
            gathered_k: tiles.gather_k.max(depth.k_max),
            updates_per_visit: plan.updates_per_visit,
        })
    }

    /// Measures the bounds of products of this shape that took these seconds.
    ///
    /// # Errors
    /// Returns the errors of cuBLAS and of the copies.
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
            link_gflops: link.bound(shape, &count_fewest(shape, self.memory)),
            tiles_gflops: link.bound(shape, &count_tiled(shape, self.tile, self.gathered_k)),
            times_s,
        })
    }
}

/// Elements that a product sends.
struct SentElements {
    /// Of A, B and C, to the GPU.
    up: f64,
    /// Of C, back.
    down: f64,
}

/// Counts the elements that a product must send: C once both ways, and the panels of tiles of `memory` bytes.
///
/// A tile of `M` elements needs at least `2·k·√M` elements of A and B, if it is square. C has `m·n/M` tiles.
fn count_fewest(shape: ProductShape, memory: u64) -> SentElements {
    let [m, n, k] = [shape.m, shape.n, shape.k].map(|side| side as f64);
    let root = (memory as f64 / 8.0).sqrt();
    let panels = (2.0 * m * n * k / root).max(k * (m + n));
    SentElements { up: m * n + panels, down: m * n }
}

/// Counts what a product sends in tiles of C: in each visit all of them, with panels of their own.
fn count_tiled(shape: ProductShape, tile: ProductShape, gathered_k: usize) -> SentElements {
    let [m, n, k] = [shape.m, shape.n, shape.k].map(|side| side as f64);
    let [across, down, visits] =
        [(n, tile.n), (m, tile.m), (k, gathered_k)].map(|(side, part)| (side / part as f64).ceil());
    let c = visits * m * n;
    SentElements { up: c + k * (m * across + n * down), down: c }
}

impl LinkSpeeds {
    /// Returns the speed in 10⁹ flop/s at which a product takes as long as its elements travel, both ways at once.
    fn bound(&self, shape: ProductShape, sent: &SentElements) -> f64 {
        let up_s = 8e-9 * sent.up / self.up_gb_per_s;
        let down_s = 8e-9 * sent.down / self.down_gb_per_s;
        shape.flop() / up_s.max(down_s) / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(k: usize) -> ProductShape {
        ProductShape { m: 1000, n: 1000, k }
    }

    #[test]
    fn the_link_bounds_by_what_goes_up_or_comes_down() {
        let link = LinkSpeeds { up_gb_per_s: 10.0, down_gb_per_s: 1.0, both_gb_per_s: 11.0 };
        // 8 MB back at 1 GB/s take longer than 8 MB and thin panels at ten times that.
        let thin = link.bound(shape(10), &count_fewest(shape(10), 8_000_000));
        assert!((thin - 0.02 / 0.008).abs() < 1e-9, "{thin}");
        // With tiles of 100×100, each element of A and B is sent ten times.
        let deep = link.bound(shape(100_000), &count_fewest(shape(100_000), 80_000));
        let sent_gb = 8e-9 * (1e6 + 2e9);
        assert!((deep - 200.0 / (sent_gb / 10.0)).abs() < 1e-6, "{deep}");
    }

    #[test]
    fn every_visit_sends_c_and_every_tile_its_panels() {
        let tile = ProductShape { m: 500, n: 400, k: 8 };
        let sent = count_tiled(shape(100), tile, 60);
        assert_eq!((sent.up, sent.down), (2e6 + 5e5, 2e6));
    }
}
