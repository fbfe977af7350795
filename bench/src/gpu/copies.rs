//! Copies between host and GPU, of pinned memory and of ordinary matrices.

use anyhow::ensure;
use isochron_bench::yardsticks::time_pinned_copies;
use isochron_devices::internal::Placement;
use isochron_devices::{
    CudaInfo, CudaWorker, Depth, JobShape, Updates as _, ViewMut, Worker as _,
    memory_available_bytes,
};
use isochron_hierarchy::times::find_median;
use serde::Serialize;

use super::card::GpuCard;

/// Columns of the copied matrix. Like the panels of a multiplication it is longer than wide, and a slot of pinned
/// memory holds many of its columns.
const COLUMNS: usize = 2048;

/// Copies of pinned memory whose median counts.
const REPETITIONS: usize = 3;

/// The copies.
#[derive(clap::Args)]
pub struct CopiesArguments {
    /// Bytes of a copy
    bytes: usize,
    /// Host cores that copy ordinary matrices into pinned memory
    #[arg(long, default_value_t = 1)]
    cores: usize,
}

/// The printed document.
#[derive(Serialize)]
pub struct CopySpeeds {
    gpu: String,
    #[serde(flatten)]
    pinned: LinkSpeeds,
    /// From an ordinary matrix to the GPU, in 10⁹ bytes/s: host cores copy it into pinned memory piece by piece, as every job of
    /// ours does.
    ordinary_up_gb_per_s: f64,
    /// From the GPU to an ordinary matrix.
    ordinary_down_gb_per_s: f64,
}

/// Speeds of copies of pinned memory, in 10⁹ bytes/s.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LinkSpeeds {
    /// To the GPU.
    pub up_gb_per_s: f64,
    /// From the GPU.
    pub down_gb_per_s: f64,
    /// Both at once, together.
    pub both_gb_per_s: f64,
}

/// Measures the copies, after others that warm up.
pub fn measure(arguments: &CopiesArguments) -> anyhow::Result<CopySpeeds> {
    let card = GpuCard::find()?;
    let mut worker = card.make_worker(arguments.cores, None)?;
    let rows = (arguments.bytes / COLUMNS / size_of::<f64>()).max(1);
    // The first copies find sleeping clocks.
    time_copies(&card.info, &mut worker, rows)?;
    time_copies(&card.info, &mut worker, rows)
}

/// Copies a matrix of `rows` rows: in pinned memory, and an ordinary one, which is the C of a job without updates.
fn time_copies(gpu: &CudaInfo, worker: &mut CudaWorker, rows: usize) -> anyhow::Result<CopySpeeds> {
    let bytes = rows * COLUMNS * size_of::<f64>();
    let pinned = LinkSpeeds::measure(gpu, bytes)?;
    let mut values = vec![1.0; rows * COLUMNS];
    let job = JobShape::of::<f64>(rows, COLUMNS, Depth::of(1, 1));
    let plan = worker.plan(&job);
    ensure!(
        plan.is_some_and(|plan| plan.placement == Placement::Resident),
        "there is no room on the GPU for a matrix of {rows}×{COLUMNS}"
    );
    worker.reserve(&job)?;
    let mut c = ViewMut::new(&mut values, rows, COLUMNS, rows);
    let begin = worker.begin(c.reborrow(), job.depth)?;
    let finish = worker.finish(c)?;
    let gb = bytes as f64 / 1e9;
    Ok(CopySpeeds {
        gpu: gpu.name.clone(),
        pinned,
        ordinary_up_gb_per_s: gb / begin.busy_s,
        ordinary_down_gb_per_s: gb / finish.busy_s,
    })
}

impl LinkSpeeds {
    /// Copies about `bytes` bytes each way, some times after one that warms up; returns the medians.
    ///
    /// # Errors
    /// Fails if so much memory cannot be pinned, or a call of the driver fails.
    pub fn measure(gpu: &CudaInfo, bytes: usize) -> anyhow::Result<Self> {
        let pinned_bytes = 2 * bytes as u64;
        let available = memory_available_bytes().unwrap_or(u64::MAX);
        ensure!(
            pinned_bytes <= available / 4,
            "{pinned_bytes} bytes would be pinned, and {available} are available"
        );
        let pitch = (bytes / COLUMNS).max(1);
        // The first copies find sleeping clocks.
        time_pinned_copies(gpu, COLUMNS, pitch)?;
        let mut times_s: [Vec<f64>; 3] = Default::default();
        for _ in 0..REPETITIONS {
            let copies = time_pinned_copies(gpu, COLUMNS, pitch)?;
            for (all, time_s) in times_s.iter_mut().zip([copies.up_s, copies.down_s, copies.both_s])
            {
                all.push(time_s);
            }
        }
        let gb = (COLUMNS * pitch) as f64 / 1e9;
        let [up, down, both] = times_s.map(|mut times_s| {
            times_s.sort_by(f64::total_cmp);
            gb / find_median(&times_s)
        });
        Ok(Self { up_gb_per_s: up, down_gb_per_s: down, both_gb_per_s: 2.0 * both })
    }
}
