//! Updates of a C that does not fit on the GPU: every few of them all tiles of C visit it.

use anyhow::{Context as _, bail};
use isochron_devices::internal::Placement;
use isochron_devices::{CudaWorker, Depth, JobShape, Updates as _, View, ViewMut};
use serde::Serialize;

use super::card::GpuCard;
use super::cublas::time_products;
use super::host::make_matrix;
use crate::shape::ProductShape;

/// Measured visits, after one that warms up.
const VISITS: usize = 2;

/// Products of cuBLAS on a tile.
const PRODUCTS: u32 = 8;

/// The updates, without an end.
#[derive(clap::Args)]
pub struct VisitsArguments {
    /// C, with the columns of A in an update
    #[command(flatten)]
    shape: ProductShape,
    /// Bytes of the GPU's memory that the job may use: fewer than C takes
    #[arg(long)]
    memory: u64,
    /// Host cores that copy for the GPU
    #[arg(long, default_value_t = 1)]
    cores: usize,
}

/// The printed document.
#[derive(Serialize)]
pub struct VisitTimes {
    #[serde(flatten)]
    tiled: TiledJob,
    /// Columns of A in the updates of a visit.
    visit_k: usize,
    /// Seconds of the updates of each visit.
    times_s: Vec<f64>,
}

/// A job whose C visits the GPU in tiles.
#[derive(Serialize)]
pub struct TiledJob {
    gpu: String,
    /// The product of a whole tile.
    tile: ProductShape,
    /// Speed of cuBLAS on it, in 10⁹ flop/s.
    cublas_gflops: f64,
}

/// Such a job with its device.
pub struct PlannedJob {
    pub worker: CudaWorker,
    pub tiled: TiledJob,
    updates_per_visit: usize,
}

/// Measures visits.
pub fn measure(arguments: &VisitsArguments) -> anyhow::Result<VisitTimes> {
    let ProductShape { m, n, k } = arguments.shape;
    let depth = Depth::endless(k);
    let PlannedJob {
        mut worker,
        tiled,
        updates_per_visit,
    } = PlannedJob::new(arguments.cores, arguments.memory, m, n, depth)?;
    let (a, b) = (make_matrix::<f64>(m, k)?, make_matrix::<f64>(k, n)?);
    let mut c = make_matrix::<f64>(m, n)?;
    let (a, b) = (View::new(&a, m, k, m), View::new(&b, k, n, k));
    let mut c = ViewMut::new(&mut c, m, n, m);
    worker.begin(c.reborrow(), depth)?;
    let mut times_s = Vec::with_capacity(VISITS + 1);
    for _ in 0..=VISITS {
        let mut visit_s = 0.0;
        for _ in 0..updates_per_visit {
            visit_s += worker.update(1.0, a, b, c.reborrow())?.busy_s;
        }
        times_s.push(visit_s);
    }
    worker.finish(c)?;
    Ok(VisitTimes {
        tiled,
        visit_k: updates_per_visit * k,
        times_s: times_s.split_off(1),
    })
}

impl PlannedJob {
    /// Plans a job on the first GPU, of whose memory it may use this many bytes, and measures cuBLAS on a tile.
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
        let mut worker = card.make_worker(cores, Some(memory))?;
        let plan = worker
            .plan(&JobShape::of::<f64>(m, n, depth))
            .context("a C of this size has no plan")?;
        let Placement::Streamed(tiles) = plan.placement else {
            bail!("C fits into {memory} bytes, which should be too small");
        };
        let tile = ProductShape {
            m: tiles.rows,
            n: tiles.cols,
            k: tiles.step_k,
        };
        let tile_s = time_products::<f64>(&mut worker, tile, PRODUCTS)?;
        Ok(Self {
            worker,
            tiled: TiledJob {
                gpu: card.info.name,
                tile,
                cublas_gflops: tile.flop() / tile_s / 1e9,
            },
            updates_per_visit: plan.updates_per_visit,
        })
    }
}
