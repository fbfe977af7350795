//! A whole product with a C of twice the memory that jobs may use, beside cuBLASXt on the same matrices.

use std::time::Instant;

use anyhow::Context as _;
use isochron_devices::cuda::{BlasXt, PinnedVec};
use isochron_devices::{
    CudaWorker, Depth, ElementType, Updates, View, ViewMut, Worker as _, memory_available_bytes,
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
/// Squares that cuBLASXt may cut matrices into; the best is found before the rounds.
const BLOCKS: [usize; 4] = [1024, 2048, 4096, 8192];
const SMALL_BLOCKS: [usize; 2] = [32, 64];

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
    pinned: Option<[PinnedVec<f64>; 3]>,
}

/// Ours, cuBLASXt and cuBLAS on a tile, in turn.
pub fn measure(campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
    let shape = campaign.scale.out_of_core();
    let panel = campaign.scale.panel;
    let Shape { m, n, k } = shape;
    let limit = (8 * m * n) as u64 / TIMES_MEMORY;
    let mut worker = campaign.card.worker(Some(limit))?;
    let depth = Depth::of(panel, k / panel);
    let plan = worker.plan(m, n, depth, ElementType::F64);
    let plan = plan.context("a C of this size has no plan")?;
    let (tile, _) = tile(&plan)?;
    let what = format!("{m}×{n}×{k}, f64");
    let mut about = json!({
        "what": what, "m": m, "n": n, "k": k, "panel": panel, "memory_bytes": limit, "plan": plan,
        "tile": [tile.m, tile.n, tile.k],
    });
    let mut matrices = Matrices::new(shape)?;
    let mut xt = prepare_xt(campaign, &mut matrices, &mut worker, clock, &mut about);
    campaign.record.results["out_of_core"] = about;
    for round in clock.rounds(campaign.rounds) {
        for turn in 0..4 {
            let sample = match ((round + turn) % 4, xt.as_mut()) {
                (0, _) => Some((OURS, matrices.ours(&mut worker, panel)?)),
                (1, _) => {
                    let count = campaign.scale.updates;
                    Some(("cublas", cublas::<f64>(&mut worker, tile, count)?))
                }
                (2, Some(xt)) => Some((XT, matrices.xt(xt)?)),
                (3, Some(xt)) => matrices.xt_pinned(xt)?.map(|took_s| (XT_PINNED, took_s)),
                _ => None,
            };
            if let Some((who, seconds)) = sample {
                let sample = json!({ "what": what, "seconds": seconds });
                campaign
                    .record
                    .sample((Part::OutOfCore, round), who, sample);
            }
        }
        campaign.record.keep()?;
    }
    Ok(())
}

/// cuBLASXt with the block that is best for it, where the library has it and there is time; why not is noted, as is why no
/// matrices were pinned.
fn prepare_xt(
    campaign: &Campaign,
    matrices: &mut Matrices,
    worker: &mut CudaWorker,
    clock: Clock,
    about: &mut Value,
) -> Option<BlasXt> {
    let mut prepared = || -> anyhow::Result<BlasXt> {
        let mut xt = BlasXt::new("gpu", &campaign.card.info)?;
        let blocks: &[usize] = if campaign.scale.small {
            &SMALL_BLOCKS
        } else {
            &BLOCKS
        };
        let (mut best, mut tried) = (None, Vec::new());
        let side = matrices.shape.m;
        for &block in blocks.iter().filter(|&&block| block <= side) {
            // Half of the time is for the rounds.
            let longest_s = tried
                .iter()
                .map(|tried| number(tried, "/seconds"))
                .fold(0.0, f64::max);
            if best.is_some() && 2.0 * longest_s > clock.left().as_secs_f64() / 2.0 {
                break;
            }
            xt.set_block(block)?;
            // The first call takes memory.
            matrices.xt(&mut xt)?;
            let seconds = matrices.xt(&mut xt)?;
            tried.push(json!({ "block": block, "seconds": seconds }));
            if best.is_none_or(|(best_s, _)| seconds < best_s) {
                best = Some((seconds, block));
            }
        }
        let (_, block) = best.context("C is smaller than every block")?;
        xt.set_block(block)?;
        about["cublasxt"] = json!({ "block": block, "tried": tried });
        Ok(xt)
    };
    match prepared() {
        Ok(xt) => {
            if let Err(error) = matrices.pin(worker) {
                about["not_pinned"] = json!(format!("{error:#}"));
            }
            Some(xt)
        }
        Err(error) => {
            about["no_cublasxt"] = json!(format!("{error:#}"));
            None
        }
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
        worker.reserve(m, n, depth, ElementType::F64)?;
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

    /// Seconds of the same product by cuBLASXt.
    fn xt(&mut self, xt: &mut BlasXt) -> anyhow::Result<f64> {
        let c = &mut self.c;
        by_xt(xt, self.shape, (&self.a, &self.b), c)
    }

    /// The same with matrices in pinned memory, where there are such.
    fn xt_pinned(&mut self, xt: &mut BlasXt) -> anyhow::Result<Option<f64>> {
        let Some([a, b, c]) = &mut self.pinned else {
            return Ok(None);
        };
        by_xt(
            xt,
            self.shape,
            (a.as_slice(), b.as_slice()),
            c.as_mut_slice(),
        )
        .map(Some)
    }

    /// Makes copies in pinned memory.
    ///
    /// # Errors
    /// Where there is too little of it: what is left is for ours.
    fn pin(&mut self, worker: &mut CudaWorker) -> anyhow::Result<()> {
        let bytes = 8 * (self.a.len() + self.b.len() + self.c.len()) as u64;
        let available = memory_available_bytes().unwrap_or(0);
        anyhow::ensure!(
            bytes < available / 4 * 3,
            "{bytes} more bytes would be pinned, and {available} are available"
        );
        let (a, b, c) = (&self.a, &self.b, &self.c);
        let copies = worker.with_engine(|engine| {
            Ok::<_, isochron_devices::DeviceError>([
                PinnedVec::copy_of(engine, a)?,
                PinnedVec::copy_of(engine, b)?,
                PinnedVec::copy_of(engine, c)?,
            ])
        });
        self.pinned = Some(copies?);
        Ok(())
    }
}

fn by_xt(
    xt: &mut BlasXt,
    Shape { m, n, k }: Shape,
    (a, b): (&[f64], &[f64]),
    c: &mut [f64],
) -> anyhow::Result<f64> {
    let begin = Instant::now();
    let (a, b) = (View::new(a, m, k, m), View::new(b, k, n, k));
    xt.multiply(a, b, ViewMut::new(c, m, n, m))?;
    Ok(begin.elapsed().as_secs_f64())
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
    let link = Link::of(results).allows_streamed(shape, memory as u64);
    let bound: Vec<f64> = cublas.iter().map(|speed| speed.min(link)).collect();
    let possible = format!(
        "the smaller of cuBLAS on a tile ({:.0}) and what the link allows ({:.0})",
        Spread::of(cublas).median / 1e9,
        link / 1e9
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
    let block = about
        .pointer("/cublasxt/block")
        .map_or(String::new(), |block| format!(", block {block}"));
    let xt = |who: &str, name: &str, reason: &str| {
        let other = speeds(who);
        let row = compared(&format!("{name}{block}"), &other, GOAL_XT);
        match about[reason].as_str().or(about["no_cublasxt"].as_str()) {
            Some(why) if other.is_empty() => row.goal("", f64::NAN, false).no_goal(why),
            _ => row,
        }
    };
    vec![
        compared(&possible, &bound, GOAL),
        xt(XT, "cuBLASXt on the same matrices", "no_cublasxt"),
        xt(XT_PINNED, "cuBLASXt on pinned copies of them", "not_pinned"),
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
