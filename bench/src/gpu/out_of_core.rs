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
use super::part_records::{BlockSearch, OutOfCoreRecord, TriedBlock};
use super::record::{GpuFigures, GpuResults};
use super::resident::{CUBLAS, OURS, time_cublas};
use super::rows::{PartTable, TableRow};
use super::streamed::prepare_tiles;
use super::{GpuCampaign, GpuPart};
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// The goals of our speed over the bound of cuBLAS and the link, and over cuBLASXt's.
const GOAL: f64 = 0.85;
const XT_GOAL: f64 = 1.0;
/// The size of C over the memory.
const TIMES_MEMORY: u64 = 2;
/// Tried squares of cuBLASXt, the most promising first. The best is found before the rounds, for ordinary matrices and
/// for pinned ones, in this share of the time each.
const BLOCKS: [usize; 5] = [4096, 8192, 16384, 2048, 1024];
const SMALL_BLOCKS: [usize; 2] = [32, 64];
const SEARCH: f64 = 0.2;

/// The contestants besides ours and cuBLAS on a tile.
const XT: &str = "cublasxt";
const XT_PINNED: &str = "cublasxt, pinned";

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
    let (panel, count) = (campaign.scale.panel, campaign.scale.updates);
    let limit = (8 * shape.m * shape.n) as u64 / TIMES_MEMORY;
    let depth = Depth::of(panel, shape.k / panel);
    let (mut worker, job, _) = prepare_tiles(campaign, shape, limit, depth)?;
    let (what, tile) = (job.what.clone(), job.tile);
    let mut matrices = ProductMatrices::new(shape)?;
    // The first runs take memory and raise the clocks, and are not counted.
    matrices.time_ours(&mut worker, panel)?;
    time_cublas::<f64>(&mut worker, tile, count)?;
    let (mut xt, [cublasxt, cublasxt_pinned]) = prepare_xt(campaign, &mut matrices, budget);
    let mut contestants = vec![(OURS, 0), (CUBLAS, 0)];
    // Only cuBLASXt may be missing, with one kind of matrices or with both.
    contestants.extend(cublasxt.block.map(|block| (XT, block)));
    contestants.extend(cublasxt_pinned.block.map(|block| (XT_PINNED, block)));
    campaign.record.results.out_of_core = Some(OutOfCoreRecord {
        job,
        cublasxt,
        cublasxt_pinned,
    });
    let abouts: Vec<_> = contestants.iter().map(|&(who, _)| (&*what, who)).collect();
    let rounds = budget.rounds(campaign.rounds);
    let record = &mut campaign.record;
    record.sample_in_turn(GpuPart::OutOfCore, rounds, &abouts, |at, _| {
        let seconds = match (contestants[at], &mut xt) {
            ((who @ (XT | XT_PINNED), block), Some(xt)) => {
                matrices.time_xt(xt, block, who == XT_PINNED)?
            }
            ((CUBLAS, _), _) => time_cublas::<f64>(&mut worker, tile, count)?,
            _ => matrices.time_ours(&mut worker, panel)?,
        };
        Ok(GpuFigures::Times {
            times_s: vec![seconds],
        })
    })
}

/// Opens cuBLASXt and searches its fastest blocks with ordinary matrices and with pinned ones.
fn prepare_xt(
    campaign: &GpuCampaign,
    matrices: &mut ProductMatrices,
    budget: TimeBudget,
) -> (Option<BlasXt>, [BlockSearch; 2]) {
    let gpu = &campaign.card.info;
    let opened = BlasXt::open(gpu).and_then(|xt| xt.context("this cuBLAS has no cuBLASXt"));
    let mut xt = match opened {
        Ok(xt) => xt,
        Err(error) => return (None, [(); 2].map(|()| BlockSearch::without(&error))),
    };
    let pinned = matrices.pin(gpu);
    let blocks: &[usize] = if campaign.scale.small {
        &SMALL_BLOCKS
    } else {
        &BLOCKS
    };
    let ordinary = matrices.search_block(&mut xt, false, blocks, budget.take_share(SEARCH));
    let pinned = match pinned {
        Ok(()) => matrices.search_block(&mut xt, true, blocks, budget.take_share(SEARCH)),
        Err(error) => BlockSearch::without(&error),
    };
    (Some(xt), [ordinary, pinned])
}

impl BlockSearch {
    /// Makes the search that `error` has prevented.
    fn without(error: &anyhow::Error) -> Self {
        Self {
            missing: Some(format!("{error:#}")),
            ..Self::default()
        }
    }

    /// Returns the reason why there is no block: the error of the last tried one, or that for which none was tried.
    fn error(&self) -> Option<&str> {
        self.tried
            .last()
            .and_then(|tried| tried.error.as_deref())
            .or(self.missing.as_deref())
    }
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

    /// Runs the whole product by our updates; returns its seconds. C is in host memory before and after, and the job's
    /// memory is taken before.
    fn time_ours(&mut self, worker: &mut CudaWorker, panel: usize) -> anyhow::Result<f64> {
        let ProductShape { m, n, k } = self.shape;
        let depth = Depth::of(panel, k / panel);
        worker.reserve(&JobShape::of::<f64>(m, n, depth))?;
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
        let fastest = tried
            .iter()
            .filter_map(|t| Some((t.block, t.seconds?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        BlockSearch {
            block: fastest.map(|(block, _)| block),
            tried,
            missing: None,
        }
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
pub fn make_table(results: &GpuResults) -> PartTable {
    let Some(about) = &results.out_of_core else {
        return PartTable::default();
    };
    let job = &about.job;
    let (cublas, link, own) = job.find_bounds(results, GpuPart::OutOfCore, job.shape);
    let bound: Vec<f64> = cublas.iter().map(|speed| speed.min(link)).collect();
    let possible = format!(
        "the smaller of cuBLAS on a tile ({:.0}) and the bound of the link ({:.0}; with tiles of ours {:.0})",
        MedianRange::of(cublas).median / 1e9,
        link / 1e9,
        own / 1e9
    );
    PartTable::new(
        format!(
            "**A product that does not fit.** `C += A·B` in updates of {}, from host memory to host memory, where jobs may use \
             {:.1} MB of the GPU's memory and C takes {TIMES_MEMORY} times as much. cuBLASXt has no limit of memory, and uses \
             its fastest block. The bound of the link is that of the table above, for the whole product.",
            results.scale.panel,
            job.memory_bytes as f64 / 1e6,
        ),
        vec![
            about.compare_with(results, &possible, &bound, GOAL),
            about.compare_with_xt(results, XT, "cuBLASXt on the same matrices"),
            about.compare_with_xt(results, XT_PINNED, "cuBLASXt on pinned copies of them"),
        ],
    )
}

impl OutOfCoreRecord {
    /// Returns the speeds of a contestant in flop/s, by round.
    fn speeds(&self, results: &GpuResults, who: &str) -> Vec<f64> {
        let about = (&*self.job.what, who);
        results.speeds(GpuPart::OutOfCore, about, self.job.shape.flop())
    }

    /// Makes the row of ours against other speeds.
    fn compare_with(&self, results: &GpuResults, name: &str, other: &[f64], goal: f64) -> TableRow {
        let ours = self.speeds(results, OURS);
        let ratio = MedianRange::of_ratios(&ours, other);
        TableRow::new(&*self.job.what)
            .with_text("against", name)
            .with_speed("its GFLOP/s", MedianRange::of(other.iter().copied()))
            .with_speed("ours", MedianRange::of(ours))
            .with_range("ours / its", ratio, 3)
            .with_goal(format!("≥ {goal}"), ratio.median, ratio.median >= goal)
    }

    fn compare_with_xt(&self, results: &GpuResults, who: &str, name: &str) -> TableRow {
        let search = match who {
            XT => &self.cublasxt,
            _ => &self.cublasxt_pinned,
        };
        let block = search.block;
        let block = block.map_or(String::new(), |block| format!(", block {block}"));
        let other = self.speeds(results, who);
        let row = self.compare_with(results, &format!("{name}{block}"), &other, XT_GOAL);
        match search.error() {
            Some(why) if other.is_empty() => row.with_goal("", f64::NAN, false).without_goal(why),
            _ => row,
        }
    }
}
