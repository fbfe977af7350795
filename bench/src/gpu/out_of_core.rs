//! A whole product with a C of twice the memory of jobs, against cuBLASXt on the same matrices.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use isochron_bench::yardsticks::{BlasXt, BoundContext, PinnedVec};
use isochron_devices::{
    CudaInfo, CudaWorker, Depth, JobShape, Updates, View, ViewMut, Worker as _,
    memory_available_bytes,
};

use super::budget::TimeBudget;
use super::host::make_matrix;
use super::link::LinkSpeeds;
use super::part_records::{BlockSearch, OutOfCoreRecord, TriedBlock};
use super::record::{GpuFigures, GpuResults};
use super::resident::{CUBLAS, OURS, time_cublas};
use super::rows::TableRow;
use super::streamed::tile_shape;
use super::{GpuCampaign, GpuPart};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// The goals of our speed over the bound of cuBLAS and the link, and over cuBLASXt's.
const GOAL: f64 = 0.85;
const XT_GOAL: f64 = 1.0;
/// The size of C over the memory.
const TIMES_MEMORY: u64 = 2;
/// Tried squares of cuBLASXt, the most promising first. The best is found before the rounds, for ordinary matrices and for
/// pinned ones, in this share of the time each.
const BLOCKS: [usize; 5] = [4096, 8192, 16384, 2048, 1024];
const SMALL_BLOCKS: [usize; 2] = [32, 64];
const SEARCH: f64 = 0.2;

/// The contestants besides ours and cuBLAS on a tile.
const XT: &str = "cublasxt";
const XT_PINNED: &str = "cublasxt, pinned";

impl BlockSearch {
    fn new(tried: Vec<TriedBlock>) -> Self {
        let timed = tried.iter().filter_map(|t| Some((t.block, t.seconds?)));
        let fastest = timed.min_by(|a, b| a.1.total_cmp(&b.1));
        Self {
            block: fastest.map(|(block, _)| block),
            tried,
        }
    }

    /// Returns the error of the last tried block.
    fn last_error(&self) -> Option<&str> {
        self.tried.last()?.error.as_deref()
    }
}

/// The matrices A, B and C, and pinned copies of them.
struct ProductMatrices {
    shape: ProductShape,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    pinned: Option<[PinnedVec; 3]>,
}

/// Measures ours, cuBLASXt and cuBLAS on a tile, in turn.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let shape = campaign.scale.out_of_core_shape();
    let panel = campaign.scale.panel;
    let ProductShape { m, n, k } = shape;
    let limit = (8 * m * n) as u64 / TIMES_MEMORY;
    let mut worker = campaign.card.make_worker(Some(limit))?;
    let plan = worker
        .plan(&JobShape::of::<f64>((m, n), Depth::of(panel, k / panel)))
        .context("a C of this size has no plan")?;
    let (tile, _) = tile_shape(&plan)?;
    let what = format!("{m}×{n}×{k}, f64");
    let mut about = OutOfCoreRecord {
        what: what.clone(),
        shape,
        panel,
        memory_bytes: limit,
        plan,
        tile: [tile.m, tile.n, tile.k],
        no_cublasxt: None,
        not_pinned: None,
        cublasxt: None,
        cublasxt_pinned: None,
    };
    let mut matrices = ProductMatrices::new(shape)?;
    let count = campaign.scale.updates;
    // The first runs take memory and raise the clocks, and are not counted.
    matrices.time_ours(&mut worker, panel)?;
    time_cublas::<f64>(&mut worker, tile, count)?;
    let mut xt = prepare_xt(campaign, &mut matrices, budget, &mut about);
    let blocks = [&about.cublasxt, &about.cublasxt_pinned]
        .map(|search| search.as_ref().and_then(|search| search.block));
    campaign.record.results.out_of_core = Some(about);
    for round in budget.rounds(campaign.rounds) {
        for turn in 0..4 {
            let at = (GpuPart::OutOfCore, round);
            let record = &mut campaign.record;
            match (round + turn) % 4 {
                0 => record.sample(at, (&what, OURS), || {
                    let seconds = matrices.time_ours(&mut worker, panel)?;
                    Ok(GpuFigures::Product { seconds })
                })?,
                1 => record.sample(at, (&what, CUBLAS), || {
                    let seconds = time_cublas::<f64>(&mut worker, tile, count)?;
                    Ok(GpuFigures::Product { seconds })
                })?,
                kind => {
                    let is_pinned = kind == 3;
                    // Only cuBLASXt may be missing, with one kind of matrices or with both.
                    let (Some(xt), Some(block)) = (&mut xt, blocks[usize::from(is_pinned)]) else {
                        continue;
                    };
                    let who = if is_pinned { XT_PINNED } else { XT };
                    record.sample(at, (&what, who), || {
                        let seconds = matrices.time_xt(xt, block, is_pinned)?;
                        Ok(GpuFigures::Product { seconds })
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// Opens cuBLASXt and searches its fastest blocks; notes in `about` why it or pinned matrices are missing.
fn prepare_xt(
    campaign: &GpuCampaign,
    matrices: &mut ProductMatrices,
    budget: TimeBudget,
    about: &mut OutOfCoreRecord,
) -> Option<BlasXt> {
    let gpu = &campaign.card.info;
    let mut xt = match BlasXt::open(gpu) {
        Ok(Some(xt)) => xt,
        Ok(None) => {
            about.no_cublasxt = Some("this cuBLAS has no cuBLASXt".to_owned());
            return None;
        }
        Err(error) => {
            about.no_cublasxt = Some(format!("{error:#}"));
            return None;
        }
    };
    if let Err(error) = matrices.pin(gpu) {
        about.not_pinned = Some(format!("{error:#}"));
    }
    let blocks: &[usize] = if campaign.scale.small {
        &SMALL_BLOCKS
    } else {
        &BLOCKS
    };
    let share = budget.take_share(SEARCH);
    about.cublasxt = Some(matrices.search_block(&mut xt, false, blocks, share));
    if matrices.pinned.is_some() {
        let share = budget.take_share(SEARCH);
        about.cublasxt_pinned = Some(matrices.search_block(&mut xt, true, blocks, share));
    }
    Some(xt)
}

impl ProductMatrices {
    fn new(shape: ProductShape) -> anyhow::Result<Self> {
        let ProductShape { m, n, k } = shape;
        Ok(Self {
            shape,
            a: make_matrix(m, k)?,
            b: make_matrix(k, n)?,
            c: make_matrix(m, n)?,
            pinned: None,
        })
    }

    /// Runs the whole product by our updates; returns its seconds. C is in host memory before and after, and the job's memory
    /// is taken before.
    fn time_ours(&mut self, worker: &mut CudaWorker, panel: usize) -> anyhow::Result<f64> {
        let ProductShape { m, n, k } = self.shape;
        let depth = Depth::of(panel, k / panel);
        worker.reserve(&JobShape::of::<f64>((m, n), depth))?;
        let (a, b) = (View::new(&self.a, m, k, m), View::new(&self.b, k, n, k));
        let mut c = ViewMut::new(&mut self.c, m, n, m);
        let begin = Instant::now();
        worker.begin(c.reborrow(), depth)?;
        for first in (0..k).step_by(panel) {
            let columns = first..(first + panel).min(k);
            let b = b.block(columns.clone(), 0..n);
            worker.update(1.0, a.columns(columns), b, c.reborrow())?;
        }
        worker.finish(c)?;
        Ok(begin.elapsed().as_secs_f64())
    }

    /// Makes copies in pinned memory.
    ///
    /// # Errors
    /// If they would take more than three quarters of the available memory: ours needs the rest.
    fn pin(&mut self, gpu: &CudaInfo) -> anyhow::Result<()> {
        let bytes = 8 * (self.a.len() + self.b.len() + self.c.len()) as u64;
        let available = memory_available_bytes().unwrap_or(0);
        ensure!(
            bytes < available / 4 * 3,
            "{bytes} more bytes would be pinned, and {available} are available"
        );
        let context = BoundContext::new(gpu)?;
        self.pinned = Some([
            PinnedVec::copy_of(&context, &self.a)?,
            PinnedVec::copy_of(&context, &self.b)?,
            PinnedVec::copy_of(&context, &self.c)?,
        ]);
        Ok(())
    }

    /// Tries the blocks for which there is time.
    fn search_block(
        &mut self,
        xt: &mut BlasXt,
        is_pinned: bool,
        blocks: &[usize],
        budget: TimeBudget,
    ) -> BlockSearch {
        let (mut tried, mut longest_s) = (Vec::new(), 0.0_f64);
        let most_s = budget.left().as_secs_f64();
        let side = self.shape.m;
        for &block in blocks.iter().filter(|&&block| block <= side) {
            if longest_s > budget.left().as_secs_f64() {
                break;
            }
            // The first call takes memory, which matters for a short one.
            let seconds = match self.time_xt(xt, block, is_pinned) {
                Ok(first_s) if first_s < most_s / 10.0 => self.time_xt(xt, block, is_pinned),
                first => first,
            };
            longest_s = longest_s.max(*seconds.as_ref().unwrap_or(&0.0));
            tried.push(TriedBlock {
                block,
                // One block may need more memory than there is.
                error: seconds.as_ref().err().map(|error| format!("{error:#}")),
                seconds: seconds.ok(),
            });
        }
        BlockSearch::new(tried)
    }

    /// Runs the whole product by cuBLASXt, on ordinary matrices or on the pinned ones; returns its seconds.
    fn time_xt(&mut self, xt: &mut BlasXt, block: usize, is_pinned: bool) -> anyhow::Result<f64> {
        xt.set_block(block)?;
        let ProductShape { m, n, k } = self.shape;
        let (a, b, c) = match &mut self.pinned {
            Some([a, b, c]) if is_pinned => (a.as_slice(), b.as_slice(), c.as_mut_slice()),
            _ => (&*self.a, &*self.b, &mut *self.c),
        };
        let begin = Instant::now();
        let (a, b) = (View::new(a, m, k, m), View::new(b, k, n, k));
        xt.multiply(a, b, ViewMut::new(c, m, n, m))?;
        Ok(begin.elapsed().as_secs_f64())
    }
}

/// Makes a row against the bound, and two against cuBLASXt.
pub fn make_rows(results: &GpuResults) -> Vec<TableRow> {
    let Some(about) = &results.out_of_core else {
        return Vec::new();
    };
    let cublas = results.cublas_speeds(GpuPart::OutOfCore, &about.what, about.tile);
    let speeds = LinkSpeeds::of(results);
    let own = speeds.tile_bound(about.shape, &about.plan);
    let link = speeds.streamed_bound(about.shape, about.memory_bytes);
    let bound: Vec<f64> = cublas.iter().map(|speed| speed.min(link)).collect();
    let possible = format!(
        "the smaller of cuBLAS on a tile ({:.0}) and the bound of the link ({:.0}; with tiles of ours {:.0})",
        MedianRange::of(cublas).median / 1e9,
        link / 1e9,
        own / 1e9
    );
    vec![
        about.compare_with(results, &possible, &bound, GOAL),
        about.compare_with_xt(
            results,
            (XT, "cuBLASXt on the same matrices"),
            about.cublasxt.as_ref(),
        ),
        about.compare_with_xt(
            results,
            (XT_PINNED, "cuBLASXt on pinned copies of them"),
            about.cublasxt_pinned.as_ref(),
        ),
    ]
}

impl OutOfCoreRecord {
    /// Returns the speeds of a contestant in flop/s, by round.
    fn speeds(&self, results: &GpuResults, who: &str) -> Vec<f64> {
        results.figures(GpuPart::OutOfCore, (&self.what, who), |figures| {
            figures
                .product_s()
                .map(|seconds| self.shape.flop() / seconds)
        })
    }

    /// Makes the row of ours against other speeds.
    fn compare_with(&self, results: &GpuResults, name: &str, other: &[f64], goal: f64) -> TableRow {
        let ours = self.speeds(results, OURS);
        let ratio = MedianRange::of_ratios(&ours, other);
        TableRow::new(&*self.what)
            .with_text("against", name)
            .with_speed("its GFLOP/s", MedianRange::of(other.iter().copied()))
            .with_speed("ours", MedianRange::of(ours))
            .with_range("ours / its", ratio, 3)
            .with_goal(format!("≥ {goal}"), ratio.median, ratio.median >= goal)
    }

    fn compare_with_xt(
        &self,
        results: &GpuResults,
        (who, name): (&str, &str),
        search: Option<&BlockSearch>,
    ) -> TableRow {
        let block = search.and_then(|search| search.block);
        let block = block.map_or(String::new(), |block| format!(", block {block}"));
        let other = self.speeds(results, who);
        let row = self.compare_with(results, &format!("{name}{block}"), &other, XT_GOAL);
        let error = search.and_then(BlockSearch::last_error);
        let why = error
            .or(self.no_cublasxt.as_deref())
            .or(self.not_pinned.as_deref());
        match why {
            Some(why) if other.is_empty() => row.with_goal("", f64::NAN, false).without_goal(why),
            _ => row,
        }
    }
}

/// Describes the table.
pub fn describe(results: &GpuResults) -> String {
    let Some(about) = &results.out_of_core else {
        return String::new();
    };
    format!(
        "**A product that does not fit.** `C += A·B` in updates of {}, from host memory to host memory, where jobs may use \
         {:.1} MB of the GPU's memory and C takes {TIMES_MEMORY} times as much. cuBLASXt has no limit of memory, and uses its \
         fastest block. The bound of the link is that of the table above, for the whole product.",
        about.panel,
        about.memory_bytes as f64 / 1e6,
    )
}
