//! Updates of a C that does not fit on the GPU: their speed over a visit of all of C.

use anyhow::{Context as _, bail};
use isochron_devices::cuda::{Placement, TilePlan};
use isochron_devices::{CudaWorker, Depth, JobShape, Updates, View, ViewMut};

use super::budget::TimeBudget;
use super::host::make_matrix;
use super::link::LinkSpeeds;
use super::part_records::StreamedRecord;
use super::record::{GpuFigures, GpuResults};
use super::resident::{CUBLAS, OURS, time_cublas};
use super::rows::TableRow;
use super::{GpuCampaign, GpuPart};
use crate::shape::ProductShape;
use crate::statistics::{MedianRange, median};

/// The goal of our speed over the bound of cuBLAS and the link.
const GOAL: f64 = 0.9;
/// The memory of jobs over the size of C.
const MEMORY: f64 = 0.75;

/// Measures updates of a C a third larger than the memory, and cuBLAS on a tile of it, in turn.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let (side, k) = (campaign.scale.out_of_core_shape().m, campaign.scale.panel);
    let limit = (MEMORY * 8.0 * (side * side) as f64) as u64;
    let mut worker = campaign.card.make_worker(Some(limit))?;
    let plan = worker
        .plan(&JobShape::of::<f64>((side, side), Depth::endless(k)))
        .context("a C of this size has no plan")?;
    let (tile, gathered_k) = tile_shape(&plan)?;
    let updates = plan.updates_per_visit;
    let what = format!("{side}×{side}, k = {k}, f64, {updates} updates a visit");
    campaign.record.results.streamed = Some(StreamedRecord {
        what: what.clone(),
        shape: ProductShape {
            m: side,
            n: side,
            k,
        },
        memory_bytes: limit,
        gathered_k,
        plan,
        tile: [tile.m, tile.n, tile.k],
    });
    let mut c = make_matrix::<f64>(side, side)?;
    let (a, b) = (make_matrix::<f64>(side, k)?, make_matrix::<f64>(k, side)?);
    let panels = (View::new(&a, side, k, side), View::new(&b, k, side, k));
    for round in budget.rounds(campaign.rounds) {
        let at = (GpuPart::Streamed, round);
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                campaign.record.sample(at, (&what, OURS), || {
                    let c = ViewMut::new(&mut c, side, side, side);
                    let visits_s = time_visits(&mut worker, panels, c, updates)?;
                    Ok(GpuFigures::Visits { updates, visits_s })
                })?;
            } else {
                let count = campaign.scale.updates;
                campaign.record.sample(at, (&what, CUBLAS), || {
                    let seconds = time_cublas::<f64>(&mut worker, tile, count)?;
                    Ok(GpuFigures::Product { seconds })
                })?;
            }
        }
    }
    Ok(())
}

/// Returns the shape of cuBLAS's product on a whole tile, and the inner dimension gathered for a visit.
///
/// # Errors
/// If C fits.
pub fn tile_shape(plan: &TilePlan) -> anyhow::Result<(ProductShape, usize)> {
    match plan.placement {
        Placement::Streamed {
            tile_rows,
            tile_cols,
            gather_k,
            step_k,
        } => {
            let tile = ProductShape {
                m: tile_rows,
                n: tile_cols,
                k: step_k,
            };
            Ok((tile, gather_k))
        }
        Placement::Resident => bail!("C fits into memory that should be too small"),
    }
}

/// Runs a visit that warms up and two more; returns the seconds of the updates of each.
fn time_visits(
    worker: &mut CudaWorker,
    (a, b): (View<'_, f64>, View<'_, f64>),
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
        times_s.push(visit_s);
    }
    worker.finish(c)?;
    Ok(times_s.split_off(1))
}

/// Makes one row.
pub fn make_rows(results: &GpuResults) -> Vec<TableRow> {
    let Some(about) = &results.streamed else {
        return Vec::new();
    };
    let ours = results.figures(
        GpuPart::Streamed,
        (&about.what, OURS),
        |figures| match figures {
            GpuFigures::Visits { updates, visits_s } => {
                Some(about.shape.flop() * *updates as f64 / median(visits_s))
            }
            _ => None,
        },
    );
    let cublas = results.cublas_speeds(GpuPart::Streamed, &about.what, about.tile);
    let visit = ProductShape {
        k: about.gathered_k.max(about.shape.k),
        ..about.shape
    };
    let speeds = LinkSpeeds::of(results);
    let own = speeds.tile_bound(visit, &about.plan);
    let link = speeds.streamed_bound(visit, about.memory_bytes);
    let bound: Vec<f64> = cublas.iter().map(|speed| speed.min(link)).collect();
    let ratio = MedianRange::of_ratios(&ours, &bound);
    let megabytes = about.memory_bytes as f64 / 1e6;
    let row = TableRow::new(&*about.what)
        .with_text("memory, MB", format!("{megabytes:.1}"))
        .with_speed("cuBLAS on a tile, GFLOP/s", MedianRange::of(cublas))
        .with_speed("the link allows", MedianRange::of([link]))
        .with_speed("the link allows tiles of ours", MedianRange::of([own]))
        .with_speed("ours", MedianRange::of(ours))
        .with_range("ours / the smaller", ratio, 3)
        .with_goal(format!("≥ {GOAL}"), ratio.median, ratio.median >= GOAL);
    vec![row]
}

impl GpuResults {
    /// Returns the speeds of cuBLAS on a tile of m, n and k in flop/s, by round.
    pub fn cublas_speeds(&self, part: GpuPart, what: &str, [m, n, k]: [usize; 3]) -> Vec<f64> {
        let flop = ProductShape { m, n, k }.flop();
        self.figures(part, (what, CUBLAS), |figures| {
            figures.product_s().map(|seconds| flop / seconds)
        })
    }
}

/// Describes the table.
pub fn describe(_results: &GpuResults) -> String {
    "**C in tiles.** Updates of a C that does not fit: panels are gathered in pinned memory, and every few updates all tiles \
     of C visit the GPU. The speed is that over the updates of a visit. The bound of the link: C is sent both ways once a \
     visit, and A and B as often as they must with this memory, at the speed of pinned copies. With tiles of ours, of which \
     two fit, they are sent more often."
        .to_owned()
}
