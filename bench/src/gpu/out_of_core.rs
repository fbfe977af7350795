//! A whole product with a C of twice the memory that jobs may use, beside cuBLASXt on the same matrices.

use std::time::Instant;

use anyhow::Context as _;
use isochron_bench::yardsticks::{BlasXt, BoundContext, PinnedVec};
use isochron_devices::{
    CudaInfo, CudaWorker, Depth, JobShape, Updates, View, ViewMut, Worker as _,
    memory_available_bytes,
};
use serde_json::{Value, json};

use super::clock::Clock;
use super::host::matrix;
use super::link::Link;
use super::record::figures;
use super::resident::cublas;
use super::rows::Row;
use super::streamed::{cublas_speeds, tile};
use super::{Campaign, Part};
use crate::direct::Shape;
use crate::results::number;
use crate::statistics::Spread;

/// What the product is to reach of what cuBLAS and the link allow, and of cuBLASXt's speed, at least.
const GOAL: f64 = 0.85;
const GOAL_XT: f64 = 1.0;
/// C's size over the memory.
const TIMES_MEMORY: u64 = 2;
/// Squares that cuBLASXt may cut matrices into, the most promising ones first; the best is found before the rounds, for
/// ordinary matrices and for pinned ones, in this part of the time each.
const BLOCKS: [usize; 5] = [4096, 8192, 16384, 2048, 1024];
const SMALL_BLOCKS: [usize; 2] = [32, 64];
const SEARCH: f64 = 0.2;

/// Who multiplies.
const OURS: &str = "ours";
const XT: &str = "cublasxt";
const XT_PINNED: &str = "cublasxt, pinned";

/// The matrices, A and B and C one after the other.
struct Matrices {
    shape: Shape,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    pinned: Option<[PinnedVec; 3]>,
}

/// Ours, cuBLASXt and cuBLAS on a tile, in turn.
pub fn measure(campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
    let shape = campaign.scale.out_of_core();
    let panel = campaign.scale.panel;
    let Shape { m, n, k } = shape;
    let limit = (8 * m * n) as u64 / TIMES_MEMORY;
    let mut worker = campaign.card.worker(Some(limit))?;
    let depth = Depth::of(panel, k / panel);
    let plan = worker.plan(&JobShape::of::<f64>((m, n), depth));
    let plan = plan.context("a C of this size has no plan")?;
    let (tile, _) = tile(&plan)?;
    let what = format!("{m}×{n}×{k}, f64");
    let mut about = json!({
        "what": what, "m": m, "n": n, "k": k, "panel": panel, "memory_bytes": limit, "plan": plan,
        "tile": [tile.m, tile.n, tile.k],
    });
    let mut matrices = Matrices::new(shape)?;
    let count = campaign.scale.updates;
    // What nobody waits for is not counted: memory that is taken, clocks that rise.
    matrices.ours(&mut worker, panel)?;
    cublas::<f64>(&mut worker, tile, count)?;
    let mut xt = Xt::prepared(campaign, &mut matrices, clock, &mut about);
    campaign.record.results["out_of_core"] = about;
    let who = [OURS, "cublas", XT, XT_PINNED];
    for round in clock.rounds(campaign.rounds) {
        for turn in 0..who.len() {
            let at = (round + turn) % who.len();
            // Only cuBLASXt may not be there, on neither kind of matrices or on one.
            let xt_kind = at.checked_sub(2);
            let ready = xt
                .as_mut()
                .filter(|xt| xt_kind.is_none_or(|kind| xt.blocks[kind].is_some()));
            if xt_kind.is_some() && ready.is_none() {
                continue;
            }
            let measured = (Part::OutOfCore, round);
            campaign.record.sample(measured, (&what, who[at]), || {
                let seconds = match (at, ready) {
                    (0, _) => matrices.ours(&mut worker, panel)?,
                    (2 | 3, Some(xt)) => xt.seconds(&mut matrices, at == 3)?,
                    _ => cublas::<f64>(&mut worker, tile, count)?,
                };
                Ok(json!({ "seconds": seconds }))
            })?;
        }
    }
    Ok(())
}

/// cuBLASXt, and the blocks that are best for it with ordinary matrices and with pinned ones, where it was tried.
struct Xt {
    library: BlasXt,
    blocks: [Option<usize>; 2],
}

impl Xt {
    /// Ready to be measured, where the library has it; why not is noted, as is why no matrices were pinned.
    fn prepared(
        campaign: &Campaign,
        matrices: &mut Matrices,
        clock: Clock,
        about: &mut Value,
    ) -> Option<Self> {
        let gpu = &campaign.card.info;
        let library = match BlasXt::open(gpu) {
            Ok(Some(library)) => library,
            Ok(None) => {
                about["no_cublasxt"] = json!("this cuBLAS has no cuBLASXt");
                return None;
            }
            Err(error) => {
                about["no_cublasxt"] = json!(format!("{error:#}"));
                return None;
            }
        };
        if let Err(error) = matrices.pin(gpu) {
            about["not_pinned"] = json!(format!("{error:#}"));
        }
        let mut xt = Self {
            library,
            blocks: [None; 2],
        };
        let blocks: &[usize] = if campaign.scale.small {
            &SMALL_BLOCKS
        } else {
            &BLOCKS
        };
        for (kind, pinned) in [false, true].into_iter().enumerate() {
            if pinned && matrices.pinned.is_none() {
                continue;
            }
            let key = if pinned { XT_PINNED } else { XT };
            let tried = xt.search(matrices, pinned, blocks, clock.part(SEARCH));
            let fastest = tried
                .iter()
                .filter(|tried| tried["seconds"].is_number())
                .min_by(|a, b| number(a, "/seconds").total_cmp(&number(b, "/seconds")));
            let block = fastest.and_then(|tried| tried["block"].as_u64());
            xt.blocks[kind] = block.map(|block| block as usize);
            let error = tried.last().map(|tried| tried["error"].clone());
            about[key] = json!({ "block": block, "tried": tried, "error": error });
        }
        Some(xt)
    }

    /// Tries the blocks that there is time for.
    fn search(
        &mut self,
        matrices: &mut Matrices,
        pinned: bool,
        blocks: &[usize],
        clock: Clock,
    ) -> Vec<Value> {
        let (mut tried, mut longest_s) = (Vec::new(), 0.0_f64);
        let most_s = clock.left().as_secs_f64();
        let side = matrices.shape.m;
        for &block in blocks.iter().filter(|&&block| block <= side) {
            if longest_s > clock.left().as_secs_f64() {
                break;
            }
            self.blocks[usize::from(pinned)] = Some(block);
            // The first call takes memory, which is little beside a long one.
            let seconds = match self.seconds(matrices, pinned) {
                Ok(first_s) if first_s < most_s / 10.0 => self.seconds(matrices, pinned),
                first => first,
            };
            tried.push(match seconds {
                Ok(seconds) => {
                    longest_s = longest_s.max(seconds);
                    json!({ "block": block, "seconds": seconds })
                }
                // One may need more memory than there is.
                Err(error) => json!({ "block": block, "error": format!("{error:#}") }),
            });
        }
        tried
    }

    /// Seconds of the whole product, of ordinary matrices or of the pinned ones.
    fn seconds(&mut self, matrices: &mut Matrices, pinned: bool) -> anyhow::Result<f64> {
        let block = self.blocks[usize::from(pinned)].context("a block")?;
        self.library.set_block(block)?;
        let Matrices {
            shape: Shape { m, n, k },
            a,
            b,
            c,
            pinned: copies,
        } = matrices;
        let (m, n, k) = (*m, *n, *k);
        let (a, b, c) = match copies {
            Some([a, b, c]) if pinned => (a.as_slice(), b.as_slice(), c.as_mut_slice()),
            _ => (&**a, &**b, &mut **c),
        };
        let begin = Instant::now();
        let (a, b) = (View::new(a, m, k, m), View::new(b, k, n, k));
        self.library.multiply(a, b, ViewMut::new(c, m, n, m))?;
        Ok(begin.elapsed().as_secs_f64())
    }
}

impl Matrices {
    fn new(shape: Shape) -> anyhow::Result<Self> {
        let Shape { m, n, k } = shape;
        Ok(Self {
            shape,
            a: matrix(m, k)?,
            b: matrix(k, n)?,
            c: matrix(m, n)?,
            pinned: None,
        })
    }

    /// Seconds of the whole product by updates, C in host memory before and after; the job's memory is taken before.
    fn ours(&mut self, worker: &mut CudaWorker, panel: usize) -> anyhow::Result<f64> {
        let Shape { m, n, k } = self.shape;
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
    /// Where there is too little of it: what is left is for ours.
    fn pin(&mut self, gpu: &CudaInfo) -> anyhow::Result<()> {
        let bytes = 8 * (self.a.len() + self.b.len() + self.c.len()) as u64;
        let available = memory_available_bytes().unwrap_or(0);
        anyhow::ensure!(
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
}

/// A row against what is possible, and two against cuBLASXt.
pub fn rows(results: &Value) -> Vec<Row> {
    let about = &results["out_of_core"];
    let Some(what) = about["what"].as_str() else {
        return Vec::new();
    };
    let [m, n, k, memory] = ["/m", "/n", "/k", "/memory_bytes"].map(|key| number(about, key));
    let flop = 2.0 * m * n * k;
    let speeds = |who: &str| {
        let seconds = |sample: &Value| flop / number(sample, "/seconds");
        figures(results, Part::OutOfCore, (what, who), seconds)
    };
    let ours = speeds(OURS);
    let cublas = cublas_speeds(results, Part::OutOfCore, what, &about["tile"]);
    let shape = Shape {
        m: m as usize,
        n: n as usize,
        k: k as usize,
    };
    let link = Link::of(results);
    let own = link.allows_tiles(shape, about);
    let link = link.allows_streamed(shape, memory as u64);
    let bound: Vec<f64> = cublas.iter().map(|speed| speed.min(link)).collect();
    let possible = format!(
        "the smaller of cuBLAS on a tile ({:.0}) and what the link allows ({:.0}; tiles of ours {:.0})",
        Spread::of(cublas).median / 1e9,
        link / 1e9,
        own / 1e9
    );
    let compared = |name: &str, other: &[f64], goal: f64| {
        let ratio = Spread::of_ratios(&ours, other);
        Row::new(what)
            .words("beside", name)
            .speed("its GFLOP/s", Spread::of(other.iter().copied()))
            .speed("ours", Spread::of(ours.iter().copied()))
            .spread("ours / its", ratio, 3)
            .goal(format!("≥ {goal}"), ratio.median, ratio.median >= goal)
    };
    let xt = |who: &str, name: &str| {
        let found = &about[who];
        let block = found["block"].as_u64();
        let block = block.map_or(String::new(), |block| format!(", block {block}"));
        let other = speeds(who);
        let row = compared(&format!("{name}{block}"), &other, GOAL_XT);
        let why = ["no_cublasxt", "not_pinned"].map(|key| about[key].as_str());
        let why = found["error"].as_str().or(why[0]).or(why[1]);
        match why {
            Some(why) if other.is_empty() => row.goal("", f64::NAN, false).no_goal(why),
            _ => row,
        }
    };
    vec![
        compared(&possible, &bound, GOAL),
        xt(XT, "cuBLASXt on the same matrices"),
        xt(XT_PINNED, "cuBLASXt on pinned copies of them"),
    ]
}

/// What the table shows.
pub fn words(results: &Value) -> String {
    let bytes = number(&results["out_of_core"], "/memory_bytes");
    format!(
        "**A product that does not fit.** `C += A·B` in updates of {}, from host memory to host memory, where jobs may use \
         {:.1} MB of the GPU's memory and C takes {TIMES_MEMORY} times as much. cuBLASXt uses as much as it likes, and the best \
         of some blocks. What the link allows is as above, for the whole product.",
        results["out_of_core"]["panel"],
        bytes / 1e6,
    )
}
