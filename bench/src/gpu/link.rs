//! Copies between host and GPU, of pinned memory and of ordinary matrices with several numbers of host cores.

use anyhow::ensure;
use isochron_bench::yardsticks::time_pinned_copies;
use isochron_devices::cuda::{Placement, TilePlan};
use isochron_devices::{
    CudaWorker, Depth, JobShape, UpdateTime, Updates, ViewMut, Worker as _, memory_available_bytes,
};

use super::budget::TimeBudget;
use super::card::{GpuCard, HOST_CORES};
use super::part_records::CopyTimes;
use super::record::{GpuFigures, GpuResults};
use super::rows::TableRow;
use super::{GpuCampaign, GpuPart};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// The least gain of copies of ordinary matrices for which host cores are added.
const WORTHWHILE: f64 = 1.05;

/// Columns of the copied matrix. Like the panels of a multiplication it is longer than wide, and a slot of pinned memory holds
/// many of its columns.
const COLUMNS: usize = 2048;

/// The contestant of the samples.
const COPIES: &str = "copies";

/// A direction of copies: its column in the table and its speed in bytes per second.
type CopyDirection = (&'static str, fn(&CopyTimes) -> f64);

impl CopyTimes {
    const DIRECTIONS: [CopyDirection; 5] = [
        ("pinned, to the GPU, GB/s", Self::up),
        ("pinned, back", Self::down),
        ("pinned, both at once", Self::both),
        ("ordinary matrix, to the GPU", Self::staged_up),
        ("ordinary matrix, back", Self::staged_down),
    ];

    fn up(&self) -> f64 {
        self.bytes as f64 / self.up_s
    }

    fn down(&self) -> f64 {
        self.bytes as f64 / self.down_s
    }

    /// Both directions together carry twice the bytes.
    fn both(&self) -> f64 {
        2.0 * self.bytes as f64 / self.both_s
    }

    fn staged_up(&self) -> f64 {
        self.bytes as f64 / self.staged_up_s
    }

    fn staged_down(&self) -> f64 {
        self.bytes as f64 / self.staged_down_s
    }
}

/// Measures copies with some numbers of host cores, and chooses the number for the other parts.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    // At least half of the cores are left to compute.
    let most = (campaign.card.cores.len() / 2).max(1);
    let counts = HOST_CORES.into_iter().filter(|&count| count <= most);
    let mut workers: Vec<(usize, CudaWorker)> = Vec::new();
    for count in counts {
        workers.push((count, campaign.card.make_worker_on(count, None)?));
    }
    let rows = (campaign.scale.copy_bytes as usize / COLUMNS / size_of::<f64>()).max(1);
    for (_, worker) in &mut workers {
        // The first copies find sleeping clocks, and are not counted.
        time_copies(&campaign.card, worker, rows)?;
    }
    for round in budget.rounds(campaign.rounds) {
        for (count, worker) in &mut workers {
            let about = (&*count.to_string(), COPIES);
            let card = &campaign.card;
            campaign.record.sample((GpuPart::Link, round), about, || {
                let copies = time_copies(card, worker, rows)?;
                Ok(GpuFigures::Copies { copies })
            })?;
        }
    }
    let results = &mut campaign.record.results;
    let mut chosen = HOST_CORES[0];
    let mut best = results.copy_speed(chosen, CopyTimes::staged_up).median;
    for (count, _) in &workers {
        let staged = results.copy_speed(*count, CopyTimes::staged_up).median;
        if staged > WORTHWHILE * best {
            (chosen, best) = (*count, staged);
        }
    }
    results.host_cores = chosen;
    campaign.card.host_cores = chosen;
    Ok(())
}

/// Times copies of a matrix of `rows` rows: of pinned memory, and of an ordinary matrix, which is the C of a job without
/// updates.
fn time_copies(card: &GpuCard, worker: &mut CudaWorker, rows: usize) -> anyhow::Result<CopyTimes> {
    let bytes = (rows * COLUMNS * size_of::<f64>()) as u64;
    let pinned_bytes = 2 * bytes;
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
    Ok(CopyTimes {
        bytes,
        up_s: pinned.up_s,
        down_s: pinned.down_s,
        both_s: pinned.both_s,
        staged_up_s: up_s,
        staged_down_s: down_s,
    })
}

impl GpuResults {
    /// Returns the bytes per second of copies with this number of host cores.
    fn copy_speed(&self, host_cores: usize, speed: fn(&CopyTimes) -> f64) -> MedianRange {
        let what = host_cores.to_string();
        let speeds = self.figures(GpuPart::Link, (&what, COPIES), |figures| match figures {
            GpuFigures::Copies { copies } => Some(speed(copies)),
            _ => None,
        });
        MedianRange::of(speeds)
    }
}

/// The speeds of the link in bytes per second; NaN if they were not measured.
#[derive(Debug, Clone, Copy)]
pub struct LinkSpeeds {
    /// From pinned memory to the GPU.
    pub up: f64,
    /// From the GPU to pinned memory.
    pub down: f64,
    /// From ordinary matrices to the GPU, with the host cores of the campaign.
    pub staged_up: f64,
}

impl LinkSpeeds {
    /// Returns the measured speeds.
    pub fn of(results: &GpuResults) -> Self {
        let host_cores = results.host_cores;
        let [up, down, staged_up] = [CopyTimes::up, CopyTimes::down, CopyTimes::staged_up]
            .map(|speed: fn(&CopyTimes) -> f64| results.copy_speed(host_cores, speed).median);
        Self {
            up,
            down,
            staged_up,
        }
    }

    /// Returns the largest speed in flop/s of a product of `shape`, of whose C the GPU holds `memory_bytes` at a time.
    ///
    /// C is sent both ways once, A and B as often as they must be. With memory for M elements no order of the work sends
    /// fewer than about `2·m·n·k / √M` elements of them, nor fewer than all of A and B.
    ///
    /// # References
    /// Hong and Kung, I/O complexity: the red-blue pebble game, 1981.
    pub fn streamed_bound(&self, shape: ProductShape, memory_bytes: u64) -> f64 {
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|side| side as f64);
        let root = (memory_bytes as f64 / 8.0).sqrt();
        let panels = (2.0 * m * n * k / root).max(k * (m + n));
        self.bound(shape.flop(), [8.0 * (m * n + panels), 8.0 * m * n])
    }

    /// Returns the same bound with the tiles and visits of our plan: in each visit C is sent both ways, and every tile gets its
    /// gathered panels. NaN for a plan without tiles.
    pub fn tile_bound(&self, shape: ProductShape, plan: &TilePlan) -> f64 {
        let Placement::Streamed {
            tile_rows,
            tile_cols,
            gather_k,
            ..
        } = plan.placement
        else {
            return f64::NAN;
        };
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|side| side as f64);
        let across = (n / tile_cols as f64).ceil();
        let down = (m / tile_rows as f64).ceil();
        let visits = (k / gather_k as f64).ceil();
        let panels = k * (m * across + n * down);
        let c = visits * m * n;
        self.bound(shape.flop(), [8.0 * (c + panels), 8.0 * c])
    }

    /// Returns the speed at which `flop` take as long as their bytes to the GPU and back, both at once.
    fn bound(&self, flop: f64, [up, down]: [f64; 2]) -> f64 {
        flop / (up / self.up).max(down / self.down)
    }
}

/// Makes a row for each number of host cores.
pub fn make_rows(results: &GpuResults) -> Vec<TableRow> {
    let mut rows = Vec::new();
    for what in results.list_whats(GpuPart::Link) {
        let count: usize = what.parse().unwrap_or(1);
        let plural = if count == 1 { "" } else { "s" };
        let mut row = TableRow::new(format!("{count} host core{plural}"));
        for (name, speed) in CopyTimes::DIRECTIONS {
            let gb_per_s = results.copy_speed(count, speed).scale(1e-9);
            row = row.with_range(name, gb_per_s, 1);
        }
        let is_chosen = count == results.host_cores;
        rows.push(row.without_goal(if is_chosen {
            "used by the other parts"
        } else {
            ""
        }));
    }
    rows
}

/// Describes the table.
pub fn describe(_results: &GpuResults) -> String {
    "**The link.** Copies between the host and the GPU: of pinned memory, at the speed of the link, and of ordinary \
     matrices, which host cores copy into pinned memory piece by piece, as in every job of ours."
        .to_owned()
}
