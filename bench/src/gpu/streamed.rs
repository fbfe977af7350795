//! Updates of a C that does not fit on the GPU: how fast they are over a visit of all of C.

use anyhow::{Context as _, bail};
use isochron_devices::cuda::{Placement, TilePlan};
use isochron_devices::{CudaWorker, Depth, JobShape, Updates, View, ViewMut};
use serde_json::{Value, json};

use super::clock::Clock;
use super::host::matrix;
use super::link::Link;
use super::record::figures;
use super::resident::cublas;
use super::rows::Row;
use super::{Campaign, Part};
use crate::direct::Shape;
use crate::results::number;
use crate::statistics::Spread;

/// What updates are to reach of what cuBLAS and the link allow, at least.
const GOAL: f64 = 0.9;
/// The memory that jobs may use, of what C takes.
const MEMORY: f64 = 0.75;

/// Updates of a C a third larger than the memory, and cuBLAS on a tile of it, in turn.
pub fn measure(campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
    let (side, k) = (campaign.scale.out_of_core().m, campaign.scale.panel);
    let limit = (MEMORY * 8.0 * (side * side) as f64) as u64;
    let mut worker = campaign.card.worker(Some(limit))?;
    let plan = worker.plan(&JobShape::of::<f64>((side, side), Depth::endless(k)));
    let plan = plan.context("a C of this size has no plan")?;
    let (tile, gathered) = tile(&plan)?;
    let updates = plan.updates_per_visit;
    let what = format!("{side}×{side}, k = {k}, f64, {updates} updates a visit");
    campaign.record.results["streamed"] = json!({
        "what": what, "m": side, "n": side, "k": k, "memory_bytes": limit, "gathered_k": gathered, "plan": plan,
        "tile": [tile.m, tile.n, tile.k],
    });
    let mut c = matrix::<f64>(side, side)?;
    let (a, b) = (matrix::<f64>(side, k)?, matrix::<f64>(k, side)?);
    let panels = (View::new(&a, side, k, side), View::new(&b, k, side, k));
    for round in clock.rounds(campaign.rounds) {
        for turn in 0..2 {
            let at = (Part::Streamed, round);
            if (round + turn) % 2 == 0 {
                campaign.record.sample(at, (&what, "ours"), || {
                    let c = ViewMut::new(&mut c, side, side, side);
                    let times_s = visits(&mut worker, panels, c, updates)?;
                    Ok(json!({ "updates": updates, "visits_s": times_s }))
                })?;
            } else {
                let count = campaign.scale.updates;
                campaign.record.sample(at, (&what, "cublas"), || {
                    let seconds = cublas::<f64>(&mut worker, tile, count)?;
                    Ok(json!({ "seconds": seconds }))
                })?;
            }
        }
    }
    Ok(())
}

/// The product that cuBLAS is called with for a whole tile, and the inner dimension that is gathered for a visit.
pub fn tile(plan: &TilePlan) -> anyhow::Result<(Shape, usize)> {
    match plan.placement {
        Placement::Streamed {
            tile_rows,
            tile_cols,
            gather_k,
            step_k,
        } => {
            let tile = Shape {
                m: tile_rows,
                n: tile_cols,
                k: step_k,
            };
            Ok((tile, gather_k))
        }
        Placement::Resident => bail!("C fits into the memory that was to be too small"),
    }
}

/// Seconds of the updates of a visit each, after one that warms up.
fn visits(
    worker: &mut CudaWorker,
    (a, b): (View<'_, f64>, View<'_, f64>),
    mut c: ViewMut<'_, f64>,
    updates: usize,
) -> anyhow::Result<Vec<f64>> {
    const VISITS: usize = 2;
    worker.begin(c.reborrow(), Depth::endless(a.cols()))?;
    let mut times_s = Vec::with_capacity(VISITS);
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

/// One row.
pub fn rows(results: &Value) -> Vec<Row> {
    let about = &results["streamed"];
    let Some(what) = about["what"].as_str() else {
        return Vec::new();
    };
    let [m, n, k, gathered_k, memory] =
        ["/m", "/n", "/k", "/gathered_k", "/memory_bytes"].map(|key| number(about, key));
    let updates = |sample: &Value| {
        let visits = crate::results::list(sample, "visits_s").filter_map(Value::as_f64);
        let visit_s = Spread::of(visits).median;
        2.0 * m * n * k * number(sample, "/updates") / visit_s
    };
    let ours = figures(results, Part::Streamed, (what, "ours"), updates);
    let cublas = cublas_speeds(results, Part::Streamed, what, &about["tile"]);
    let visit = Shape {
        m: m as usize,
        n: n as usize,
        k: gathered_k.max(k) as usize,
    };
    let link = Link::of(results);
    let own = link.allows_tiles(visit, about);
    let link = link.allows_streamed(visit, memory as u64);
    let bound: Vec<f64> = cublas.iter().map(|speed| speed.min(link)).collect();
    let ratio = Spread::of_ratios(&ours, &bound);
    let row = Row::new(what)
        .words("memory, MB", format!("{:.1}", memory / 1e6))
        .speed("cuBLAS on a tile, GFLOP/s", Spread::of(cublas))
        .speed("the link allows", Spread::of([link]))
        .speed("the link allows tiles of ours", Spread::of([own]))
        .speed("ours", Spread::of(ours))
        .spread("ours / the smaller", ratio, 3)
        .goal(format!("≥ {GOAL}"), ratio.median, ratio.median >= GOAL);
    vec![row]
}

/// cuBLAS's speeds on a tile in flop/s, by round.
pub fn cublas_speeds(results: &Value, part: Part, what: &str, tile: &Value) -> Vec<f64> {
    let flop = 2.0
        * ["/0", "/1", "/2"]
            .map(|key| number(tile, key))
            .iter()
            .product::<f64>();
    figures(results, part, (what, "cublas"), |sample| {
        flop / number(sample, "/seconds")
    })
}

/// What the table shows.
pub fn words(_results: &Value) -> String {
    "**C in tiles.** Updates where C does not fit: panels are gathered in pinned memory, and every so often all tiles of C \
     visit the GPU. The speed is that over the updates of a visit. What the link allows: C goes there and back once a visit, \
     and A and B cross as often as they must with so much memory, at the speed of pinned copies; with tiles of ours, of which \
     there is room for two, they cross more often."
        .to_owned()
}
