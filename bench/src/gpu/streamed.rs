//! Updates of a C that does not fit on the GPU: their speed over a visit of all of C.

use anyhow::{Context as _, bail};
use isochron_devices::internal::Placement;
use isochron_devices::{CudaWorker, Depth, JobShape, Updates, View, ViewMut};

use super::budget::TimeBudget;
use super::host::make_matrix;
use super::link::LinkSpeeds;
use super::part_records::TiledRecord;
use super::record::{GpuFigures, GpuResults};
use super::resident::{CUBLAS, OURS, time_cublas};
use super::rows::{PartTable, TableRow};
use super::{GpuCampaign, GpuPart};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// The goal of our speed over the bound of cuBLAS and the link.
const GOAL: f64 = 0.9;
/// The memory of jobs over the size of C.
const MEMORY: f64 = 0.75;

/// Measures updates of a C a third larger than the memory, and cuBLAS on a tile of it, in turn.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let (side, k) = (campaign.scale.out_of_core_shape().m, campaign.scale.panel);
    let shape = ProductShape {
        m: side,
        n: side,
        k,
    };
    let memory_bytes = (MEMORY * 8.0 * (side * side) as f64) as u64;
    let (mut worker, mut job, updates) =
        prepare_tiles(campaign, shape, memory_bytes, Depth::endless(k))?;
    job.what = format!("{side}×{side}, k = {k}, f64, {updates} updates a visit");
    campaign.record.results.streamed = Some(job.clone());
    let mut c = make_matrix::<f64>(side, side)?;
    let (a, b) = (make_matrix::<f64>(side, k)?, make_matrix::<f64>(k, side)?);
    let (a, b) = (View::new(&a, side, k, side), View::new(&b, k, side, k));
    let contestants = [(&*job.what, OURS), (&*job.what, CUBLAS)];
    let (rounds, count) = (budget.rounds(campaign.rounds), campaign.scale.updates);
    let record = &mut campaign.record;
    record.sample_in_turn(GpuPart::Streamed, rounds, &contestants, |at, _| {
        let times_s = match at {
            0 => {
                let c = ViewMut::new(&mut c, side, side, side);
                time_visits(&mut worker, a, b, c, updates)?
            }
            _ => vec![time_cublas::<f64>(&mut worker, job.tile, count)?],
        };
        Ok(GpuFigures::Times { times_s })
    })
}

/// Makes the device with this memory, which is too small for C; returns it with its tiles and with the updates of a
/// visit.
///
/// # Errors
/// If C fits, has no plan, or the device cannot be made.
pub fn prepare_tiles(
    campaign: &GpuCampaign,
    shape: ProductShape,
    memory_bytes: u64,
    depth: Depth,
) -> anyhow::Result<(CudaWorker, TiledRecord, usize)> {
    let card = &campaign.card;
    let worker = card.make_worker(card.host_cores, Some(memory_bytes))?;
    let plan = worker
        .plan(&JobShape::of::<f64>(shape.m, shape.n, depth))
        .context("a C of this size has no plan")?;
    let Placement::Streamed(tiles) = plan.placement else {
        bail!("C fits into memory that should be too small");
    };
    let job = TiledRecord {
        what: format!("{shape}, f64"),
        shape,
        memory_bytes,
        tile: ProductShape {
            m: tiles.rows,
            n: tiles.cols,
            k: tiles.step_k,
        },
        gathered_k: tiles.gather_k,
    };
    Ok((worker, job, plan.updates_per_visit))
}

/// Runs a visit that warms up and two more; returns the mean seconds of an update of each.
fn time_visits(
    worker: &mut CudaWorker,
    a: View<'_, f64>,
    b: View<'_, f64>,
    mut c: ViewMut<'_, f64>,
    updates: usize,
) -> anyhow::Result<Vec<f64>> {
    const VISITS: usize = 2;
    worker.begin(c.reborrow(), Depth::endless(a.cols()))?;
    let mut times_s = Vec::with_capacity(VISITS + 1);
    for _ in 0..=VISITS {
        let mut visit_s = 0.0;
        for _ in 0..updates {
            visit_s += worker.update(1.0, a, b, c.reborrow())?.busy_s;
        }
        times_s.push(visit_s / updates as f64);
    }
    worker.finish(c)?;
    Ok(times_s.split_off(1))
}

impl TiledRecord {
    /// Returns the speeds in flop/s that bound a product of `shape`, a whole job or a visit. They are cuBLAS's on a
    /// tile by round, the one that the link allows, and the one that it allows with tiles of ours.
    pub fn find_bounds(
        &self,
        results: &GpuResults,
        part: GpuPart,
        shape: ProductShape,
    ) -> (Vec<f64>, f64, f64) {
        let speeds = LinkSpeeds::of(results);
        (
            results.speeds(part, (&self.what, CUBLAS), self.tile.flop()),
            speeds.streamed_bound(shape, self.memory_bytes),
            speeds.tile_bound(shape, self),
        )
    }
}

/// Makes one row.
pub fn make_table(results: &GpuResults) -> PartTable {
    let Some(job) = &results.streamed else {
        return PartTable::default();
    };
    let ours = results.speeds(GpuPart::Streamed, (&job.what, OURS), job.shape.flop());
    let visit = ProductShape {
        k: job.gathered_k.max(job.shape.k),
        ..job.shape
    };
    let (cublas, link, own) = job.find_bounds(results, GpuPart::Streamed, visit);
    let bound: Vec<f64> = cublas.iter().map(|speed| speed.min(link)).collect();
    let ratio = MedianRange::of_ratios(&ours, &bound);
    let megabytes = job.memory_bytes as f64 / 1e6;
    let row = TableRow::new(&*job.what)
        .with_text("memory, MB", format!("{megabytes:.1}"))
        .with_speed("cuBLAS on a tile, GFLOP/s", MedianRange::of(cublas))
        .with_speed("the link allows", MedianRange::of([link]))
        .with_speed("the link allows tiles of ours", MedianRange::of([own]))
        .with_speed("ours", MedianRange::of(ours))
        .with_range("ours / the smaller", ratio, 3)
        .with_goal(format!("≥ {GOAL}"), ratio.median, ratio.median >= GOAL);
    PartTable::new(
        "**C in tiles.** Updates of a C that does not fit: panels are gathered in pinned memory, and every few updates all tiles \
         of C visit the GPU. The speed is that over the updates of a visit. The bound of the link: C is sent both ways once a \
         visit, and A and B as often as they must with this memory, at the speed of pinned copies. With tiles of ours, of which \
         two fit, they are sent more often.",
        vec![row],
    )
}
