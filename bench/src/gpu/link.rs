//! Copies between host and GPU, of pinned memory and of ordinary matrices with several numbers of host cores.

use anyhow::ensure;
use isochron_bench::yardsticks::time_pinned_copies;
use isochron_devices::internal::Placement;
use isochron_devices::{
    CudaInfo, CudaWorker, Depth, JobShape, Updates, ViewMut, Worker as _, memory_available_bytes,
};

use super::budget::TimeBudget;
use super::card::HOST_CORES;
use super::part_records::TiledRecord;
use super::record::{About, GpuFigures, GpuResults};
use super::rows::{PartTable, TableRow};
use super::{GpuCampaign, GpuPart};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// The least gain of copies of ordinary matrices for which host cores are added.
const WORTHWHILE: f64 = 1.05;

/// Columns of the copied matrix. Like the panels of a multiplication it is longer than wide, and a slot of pinned
/// memory holds many of its columns.
const COLUMNS: usize = 2048;

/// The contestant of the samples.
const COPIES: &str = "copies";

/// The columns of the table, in the order of a sample's speeds, and the places of some of them.
const DIRECTIONS: [&str; 5] = [
    "pinned, to the GPU, GB/s",
    "pinned, back",
    "pinned, both at once",
    "ordinary matrix, to the GPU",
    "ordinary matrix, back",
];
const UP: usize = 0;
const DOWN: usize = 1;
const STAGED_UP: usize = 3;

/// Measures copies with some numbers of host cores, and chooses the number for the other parts.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    // At least half of the cores are left to compute.
    let most = (campaign.card.cores.len() / 2).max(1);
    let counts = HOST_CORES.into_iter().filter(|&count| count <= most);
    let names: Vec<String> = counts.clone().map(|count| count.to_string()).collect();
    let rows = (campaign.scale.copy_bytes as usize / COLUMNS / size_of::<f64>()).max(1);
    let mut workers = Vec::new();
    for count in counts.clone() {
        let mut worker = campaign.card.make_worker(count, None)?;
        // The first copies find sleeping clocks, and are not counted.
        time_copies(&campaign.card.info, &mut worker, rows)?;
        workers.push(worker);
    }
    let contestants: Vec<About<'_>> = names.iter().map(|name| (&**name, COPIES)).collect();
    let rounds = budget.rounds(campaign.rounds);
    let record = &mut campaign.record;
    record.sample_in_turn(GpuPart::Link, rounds, &contestants, |at, _| {
        let bytes_per_s = time_copies(&campaign.card.info, &mut workers[at], rows)?;
        Ok(GpuFigures::Copies { bytes_per_s })
    })?;
    let results = &mut record.results;
    let mut chosen = HOST_CORES[0];
    let mut best = results.copy_speed(chosen, STAGED_UP).median;
    for count in counts {
        let staged = results.copy_speed(count, STAGED_UP).median;
        if staged > WORTHWHILE * best {
            (chosen, best) = (count, staged);
        }
    }
    results.host_cores = chosen;
    campaign.card.host_cores = chosen;
    Ok(())
}

/// Times copies of a matrix of `rows` rows: of pinned memory, and of an ordinary matrix, which is the C of a job
/// without updates. Returns bytes per second, in the order of [`DIRECTIONS`].
fn time_copies(gpu: &CudaInfo, worker: &mut CudaWorker, rows: usize) -> anyhow::Result<[f64; 5]> {
    let bytes = rows * COLUMNS * size_of::<f64>();
    let pinned_bytes = 2 * bytes as u64;
    let available = memory_available_bytes().unwrap_or(u64::MAX);
    ensure!(
        pinned_bytes <= available / 4,
        "{pinned_bytes} bytes would be pinned, and {available} are available"
    );
    let pinned = time_pinned_copies(gpu, COLUMNS, rows * size_of::<f64>())?;
    let mut values = vec![1.0; rows * COLUMNS];
    let job = JobShape::of::<f64>(rows, COLUMNS, Depth::of(1, 1));
    let plan = worker.plan(&job);
    ensure!(
        plan.is_some_and(|plan| plan.placement == Placement::Resident),
        "there is no room on the GPU for a matrix of {rows}x{COLUMNS}"
    );
    worker.reserve(&job)?;
    let mut c = ViewMut::new(&mut values, rows, COLUMNS, rows);
    let begin = worker.begin(c.reborrow(), job.depth)?;
    let finish = worker.finish(c)?;
    // Both directions together carry twice the bytes.
    let both_s = pinned.both_s / 2.0;
    Ok([
        pinned.up_s,
        pinned.down_s,
        both_s,
        begin.busy_s,
        finish.busy_s,
    ]
    .map(|s| bytes as f64 / s))
}

impl GpuResults {
    /// Returns the bytes per second of copies in one of [`DIRECTIONS`] with this number of host cores.
    fn copy_speed(&self, host_cores: usize, direction: usize) -> MedianRange {
        let what = host_cores.to_string();
        let speeds = self.figures(GpuPart::Link, (&what, COPIES), |figures| match figures {
            GpuFigures::Copies { bytes_per_s } => Some(bytes_per_s[direction]),
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
        let [up, down, staged_up] = [UP, DOWN, STAGED_UP]
            .map(|direction| results.copy_speed(results.host_cores, direction).median);
        Self {
            up,
            down,
            staged_up,
        }
    }

    /// Returns the largest speed in flop/s of a product of `shape`, of whose C the GPU holds `memory_bytes` at a time.
    ///
    /// C is sent both ways once, A and B as often as they must be. With memory for M elements no order of the work
    /// sends fewer than about `2·m·n·k / √M` elements of them, nor fewer than all of A and B.
    ///
    /// # References
    /// Hong and Kung, I/O complexity: the red-blue pebble game, 1981.
    pub fn streamed_bound(&self, shape: ProductShape, memory_bytes: u64) -> f64 {
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|side| side as f64);
        let root = (memory_bytes as f64 / 8.0).sqrt();
        let panels = (2.0 * m * n * k / root).max(k * (m + n));
        self.bound(shape.flop(), [8.0 * (m * n + panels), 8.0 * m * n])
    }

    /// Returns the same bound with the tiles and visits of our plan: in each visit C is sent both ways, and every tile
    /// gets its gathered panels.
    pub fn tile_bound(&self, shape: ProductShape, job: &TiledRecord) -> f64 {
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|side| side as f64);
        let across = (n / job.tile.n as f64).ceil();
        let down = (m / job.tile.m as f64).ceil();
        let visits = (k / job.gathered_k as f64).ceil();
        let panels = k * (m * across + n * down);
        let c = visits * m * n;
        self.bound(shape.flop(), [8.0 * (c + panels), 8.0 * c])
    }

    /// Returns the speed at which `flop` take as long as their bytes to the GPU and back, both at once.
    fn bound(&self, flop: f64, [up, down]: [f64; 2]) -> f64 {
        flop / (up / self.up).max(down / self.down)
    }
}

/// Makes a row for each number of host cores that was measured.
pub fn make_table(results: &GpuResults) -> PartTable {
    let mut rows = Vec::new();
    for count in HOST_CORES {
        let speeds = [0, 1, 2, 3, 4].map(|direction| results.copy_speed(count, direction));
        if speeds[0].median.is_nan() {
            continue;
        }
        let plural = if count == 1 { "" } else { "s" };
        let mut row = TableRow::new(format!("{count} host core{plural}"));
        for (name, speed) in DIRECTIONS.into_iter().zip(speeds) {
            row = row.with_range(name, speed.scale(1e-9), 1);
        }
        let is_chosen = count == results.host_cores;
        rows.push(row.without_goal(if is_chosen {
            "used by the other parts"
        } else {
            ""
        }));
    }
    PartTable::new(
        "**The link.** Copies between the host and the GPU: of pinned memory, at the speed of the link, and of ordinary \
         matrices, which host cores copy into pinned memory piece by piece, as in every job of ours.",
        rows,
    )
}
