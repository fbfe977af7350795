//! What copies between host and GPU reach, of pinned memory and of ordinary matrices with so many host cores.

use anyhow::ensure;
use isochron_bench::yardsticks::time_pinned_copies;
use isochron_devices::cuda::Placement;
use isochron_devices::{
    CudaWorker, Depth, JobShape, UpdateTime, Updates, ViewMut, Worker as _, memory_available_bytes,
};
use serde_json::{Value, json};

use super::card::{Card, HOST_CORES};
use super::clock::Clock;
use super::record::{figures, whats};
use super::rows::Row;
use super::{Campaign, Part};
use crate::direct::Shape;
use crate::results::number;
use crate::statistics::Spread;

/// Host cores are added while copies of ordinary matrices gain more than a twentieth.
const WORTHWHILE: f64 = 1.05;

/// Columns of the matrix that is copied: as the panels of a multiplication it is longer than it is wide, and a slot of
/// pinned memory holds many of its columns.
const COLUMNS: usize = 2048;

/// What is copied in the rounds.
const DIRECTIONS: [&str; 5] = ["up", "down", "both", "staged_up", "staged_down"];

/// Measures with some numbers of host cores, and chooses how many the other parts have.
pub fn measure(campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
    // At least half of the cores are left to compute.
    let most = (campaign.card.cores.len() / 2).max(1);
    let counts = HOST_CORES.into_iter().filter(|&count| count <= most);
    let mut workers: Vec<(usize, CudaWorker)> = Vec::new();
    for count in counts {
        workers.push((count, campaign.card.worker_on(count, None)?));
    }
    let rows = (campaign.scale.copy_bytes as usize / COLUMNS / size_of::<f64>()).max(1);
    for (_, worker) in &mut workers {
        // The first one finds sleeping clocks.
        time_copies(&campaign.card, worker, rows)?;
    }
    for round in clock.rounds(campaign.rounds) {
        for (count, worker) in &mut workers {
            let about = (&*count.to_string(), "copies");
            let card = &campaign.card;
            campaign.record.sample((Part::Link, round), about, || {
                Ok(json!({ "copies": time_copies(card, worker, rows)? }))
            })?;
        }
    }
    let results = &campaign.record.results;
    let staged = |count: usize| bytes_per_s(results, count, "staged_up").median;
    let mut chosen = HOST_CORES[0];
    for (count, _) in &workers {
        if staged(*count) > WORTHWHILE * staged(chosen) {
            chosen = *count;
        }
    }
    campaign.card.host_cores = chosen;
    campaign.record.results["host_cores"] = json!(chosen);
    Ok(())
}

/// Times copies of a matrix of `rows` rows, in seconds: of pinned memory, and of an ordinary matrix, which is the C of a job
/// that has no updates.
fn time_copies(card: &Card, worker: &mut CudaWorker, rows: usize) -> anyhow::Result<Value> {
    let bytes = rows * COLUMNS * size_of::<f64>();
    let pinned_bytes = 2 * bytes as u64;
    let available = memory_available_bytes().unwrap_or(u64::MAX);
    ensure!(
        pinned_bytes <= available / 4,
        "{pinned_bytes} bytes would be pinned, and {available} are available"
    );
    let pinned = time_pinned_copies(&card.info, (COLUMNS, rows * size_of::<f64>()))?;
    let mut values = vec![1.0; rows * COLUMNS];
    let job = JobShape::of::<f64>((rows, COLUMNS), Depth::of(1, 1));
    let plan = worker.plan(&job);
    ensure!(
        plan.is_some_and(|plan| plan.placement == Placement::Resident),
        "there is no room on the GPU for a matrix of {rows}x{COLUMNS}"
    );
    worker.reserve(&job)?;
    let mut c = ViewMut::new(&mut values, rows, COLUMNS, rows);
    let UpdateTime { busy_s: up_s, .. } = worker.begin(c.reborrow(), job.depth)?;
    let UpdateTime { busy_s: down_s, .. } = worker.finish(c)?;
    Ok(json!({
        "bytes": bytes, "up_s": pinned.up_s, "down_s": pinned.down_s, "both_s": pinned.both_s,
        "staged_up_s": up_s, "staged_down_s": down_s,
    }))
}

/// What the copies of one direction reached with so many host cores.
fn bytes_per_s(results: &Value, host_cores: usize, direction: &str) -> Spread {
    // Both directions together carry twice the bytes.
    let times = if direction == "both" { 2.0 } else { 1.0 };
    let figure = |sample: &Value| {
        times * number(sample, "/copies/bytes") / number(sample, &format!("/copies/{direction}_s"))
    };
    let what = format!("{host_cores}");
    Spread::of(figures(results, Part::Link, (&what, "copies"), figure))
}

/// What the link carries, in bytes per second.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// From pinned memory to the GPU.
    pub up: f64,
    /// Back.
    pub down: f64,
    /// From ordinary matrices to the GPU, with the host cores of the campaign.
    pub staged_up: f64,
}

impl Link {
    /// As it was measured; not numbers where it was not.
    pub fn of(results: &Value) -> Self {
        let host_cores = results["host_cores"].as_u64().unwrap_or(1) as usize;
        let of = |direction| bytes_per_s(results, host_cores, direction).median;
        Self {
            up: of("up"),
            down: of("down"),
            staged_up: of("staged_up"),
        }
    }

    /// The speed in flop/s that it allows a product of `shape` at most, of whose C the GPU holds `memory_bytes` at a time:
    /// C goes there and back, and A and B as often as they must. With so much memory no order of the work moves fewer than
    /// about `2·m·n·k / √M` elements of them, M being the elements that it holds; nor fewer than A and B have.
    ///
    /// # References
    /// Hong and Kung, I/O complexity: the red-blue pebble game, 1981.
    pub fn allows_streamed(&self, shape: Shape, memory_bytes: u64) -> f64 {
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|side| side as f64);
        let root = (memory_bytes as f64 / 8.0).sqrt();
        let panels = (2.0 * m * n * k / root).max(k * (m + n));
        self.allows(2.0 * m * n * k, [8.0 * (m * n + panels), 8.0 * m * n])
    }

    /// The same with the tiles and visits that the plan in `about` has: in each visit C goes there and back, and every tile
    /// has its panels of what is gathered.
    pub fn allows_tiles(&self, shape: Shape, about: &Value) -> f64 {
        let plan = |key: &str| number(&about["plan"]["placement"]["streamed"], key);
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|side| side as f64);
        let (across, down) = (
            (n / plan("/tile_cols")).ceil(),
            (m / plan("/tile_rows")).ceil(),
        );
        let visits = (k / plan("/gather_k")).ceil();
        let panels = k * (m * across + n * down);
        let c = visits * m * n;
        self.allows(2.0 * m * n * k, [8.0 * (c + panels), 8.0 * c])
    }

    /// The speed of so many flop with so many bytes to the GPU and back, both at once.
    fn allows(&self, flop: f64, [up, down]: [f64; 2]) -> f64 {
        flop / (up / self.up).max(down / self.down)
    }
}

/// A row for each number of host cores.
pub fn rows(results: &Value) -> Vec<Row> {
    let chosen = results["host_cores"].as_u64();
    let counts = whats(results, Part::Link);
    let row = |what: &String| {
        let count: usize = what.parse().unwrap_or(1);
        let plural = if count == 1 { "" } else { "s" };
        let names = [
            "pinned, to the GPU, GB/s",
            "pinned, back",
            "pinned, both at once",
            "ordinary matrix, to the GPU",
            "ordinary matrix, back",
        ];
        let mut row = Row::new(format!("{count} host core{plural}"));
        for (name, direction) in names.into_iter().zip(DIRECTIONS) {
            row = row.spread(name, bytes_per_s(results, count, direction).scaled(1e-9), 1);
        }
        row.no_goal(if chosen == Some(count as u64) {
            "the other parts have so many"
        } else {
            ""
        })
    };
    counts.iter().map(row).collect()
}

/// What the table shows.
pub fn words(_results: &Value) -> String {
    "**The link.** Copies between the host and the GPU: of pinned memory, which is what the link carries, and of ordinary \
     matrices, which host cores copy into pinned memory piece by piece, as in every job of ours."
        .to_owned()
}
