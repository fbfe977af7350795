//! Our update on all cores against the BLAS called directly with its own threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use isochron_devices::{Blas, CblasLibrary, CpuWorker, Depth, Topology, Updates, Worker};
use serde::{Deserialize, Serialize};

use crate::direct::{DirectOperands, DirectProcess, serve_updates, time_burst};
use crate::markdown::{format_table, yes_or_no};
use crate::results::{CampaignResults, Origin, ResultsPage, list_in_turn};
use crate::shape::ProductShape;
use crate::statistics::{MedianRange, median};

/// The goal of our speed over the library's.
const GOAL: f64 = 0.97;

/// The pause after each burst. OpenBLAS's threads spin for some 30 ms after their last update and would disturb the
/// next.
const PAUSE: Duration = Duration::from_millis(100);

/// Squares, and two slices as IDPA makes them: a third of the columns, and the part of a slower node's device.
const SHAPES: [ProductShape; 5] = [
    update_shape(4096, 4096, 128),
    update_shape(4096, 4096, 256),
    update_shape(4096, 4096, 512),
    update_shape(4096, 1365, 128),
    update_shape(2731, 683, 128),
];

const fn update_shape(m: usize, n: usize, k: usize) -> ProductShape {
    ProductShape { m, n, k }
}

/// The size of the campaign.
#[derive(clap::Args)]
pub struct UpdateArguments {
    /// Rounds; in each, ours and the library's updates of every shape
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Updates of each in a round, after one that warms up
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// The library, called by both
    #[arg(long, default_value = "libopenblas.so.0")]
    blas: String,
    /// Only make the table from the samples that are kept
    #[arg(long)]
    table_only: bool,
    /// Answer requests on standard input with this number of the library's threads
    #[arg(long, hide = true)]
    serve: Option<usize>,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct UpdateResults {
    #[serde(flatten)]
    origin: Origin,
    library: String,
    samples: Vec<BurstSample>,
}

/// A burst of updates.
#[derive(Serialize, Deserialize)]
struct BurstSample {
    round: usize,
    #[serde(flatten)]
    shape: ProductShape,
    who: UpdateSide,
    threads: usize,
    times_s: Vec<f64>,
}

/// The two sides of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum UpdateSide {
    /// Our CPU device.
    Worker,
    /// The library with its own threads.
    Library,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &UpdateArguments) -> anyhow::Result<()> {
    if let Some(threads) = arguments.serve {
        return serve_updates(&arguments.blas, threads);
    }
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    UpdateResults::publish(fresh.transpose()?)
}

fn measure(arguments: &UpdateArguments) -> anyhow::Result<UpdateResults> {
    let topology = Arc::new(Topology::discover()?);
    let cores = topology.cores();
    let blas = Arc::new(CblasLibrary::open(&arguments.blas)?);
    let library = blas.name().to_owned();
    // The library may be best with a thread a core, or with a thread a hardware thread.
    let mut threads = vec![cores.len(), topology.allowed_pus().len()];
    threads.dedup();
    let mut worker = CpuWorker::new(topology, "cpu0", cores, true, blas)?;
    let n_cores = worker.info().cores.len();
    let mut libraries = Vec::new();
    for &count in &threads {
        libraries.push((count, DirectProcess::start(&arguments.blas, count)?));
    }
    let UpdateArguments { rounds, reps, .. } = *arguments;
    let mut samples = Vec::new();
    for round in 0..rounds {
        for shape in SHAPES {
            for &who in list_in_turn(&[UpdateSide::Worker, UpdateSide::Library], round) {
                if who == UpdateSide::Worker {
                    let times_s = time_worker(&mut worker, shape, reps)?;
                    samples.push(BurstSample::new(round, shape, (who, n_cores), times_s));
                    continue;
                }
                for (count, library) in &mut libraries {
                    let times_s = library.time_burst(shape, reps)?;
                    samples.push(BurstSample::new(round, shape, (who, *count), times_s));
                }
            }
        }
    }
    let command = format!("cargo xtask bench update --rounds {rounds} --reps {reps}");
    Ok(UpdateResults {
        origin: Origin::new(command),
        library,
        samples,
    })
}

/// Runs our updates; returns the seconds of each.
fn time_worker(
    worker: &mut CpuWorker,
    shape: ProductShape,
    reps: usize,
) -> anyhow::Result<Vec<f64>> {
    let mut operands = DirectOperands::new(shape)?;
    worker.begin(operands.views().2, Depth::of(shape.k, reps))?;
    let times_s = time_burst(reps, &mut || {
        let (a, b, c) = operands.views();
        worker.update(1.0, a, b, c)?;
        Ok(())
    })?;
    worker.finish(operands.views().2)?;
    Ok(times_s)
}

impl BurstSample {
    /// Makes a sample and reports it, then pauses.
    fn new(
        round: usize,
        shape: ProductShape,
        (who, threads): (UpdateSide, usize),
        times_s: Vec<f64>,
    ) -> Self {
        let ProductShape { m, n, k } = shape;
        let median_s = median(&times_s);
        eprintln!("round {round} {m}×{n}, k = {k}: {who:?} {median_s:.5} s");
        std::thread::sleep(PAUSE);
        Self {
            round,
            shape,
            who,
            threads,
            times_s,
        }
    }
}

impl UpdateResults {
    /// Returns the median time of each round, in order.
    fn medians(&self, shape: ProductShape, side: (UpdateSide, usize)) -> Vec<f64> {
        self.samples
            .iter()
            .filter(|sample| sample.shape == shape && (sample.who, sample.threads) == side)
            .map(|sample| median(&sample.times_s))
            .collect()
    }

    /// Returns the fastest number of threads of a side for a shape, over all rounds, and its times with them.
    fn find_fastest(&self, shape: ProductShape, who: UpdateSide) -> (usize, Vec<f64>) {
        let threads: BTreeSet<usize> = self
            .samples
            .iter()
            .filter(|sample| sample.who == who)
            .map(|sample| sample.threads)
            .collect();
        threads
            .into_iter()
            .map(|count| (count, self.medians(shape, (who, count))))
            .min_by(|a, b| median(&a.1).total_cmp(&median(&b.1)))
            .unwrap_or_default()
    }

    /// Returns the line of a shape: the speeds, and the ratio of ours to the library's in the same round.
    fn make_row(&self, shape: ProductShape) -> [String; 6] {
        let (_, worker_s) = self.find_fastest(shape, UpdateSide::Worker);
        let (threads, library_s) = self.find_fastest(shape, UpdateSide::Library);
        let ratio = MedianRange::of_ratios(&library_s, &worker_s);
        let library_gflops = shape.speeds_gflops(&library_s).text(1);
        [
            format!("{}×{}", shape.m, shape.n),
            shape.k.to_string(),
            shape.speeds_gflops(&worker_s).text(1),
            format!("{library_gflops}, {threads} threads"),
            ratio.text(3),
            yes_or_no(ratio.median >= GOAL),
        ]
    }
}

impl CampaignResults for UpdateResults {
    const PAGE: ResultsPage = ResultsPage { name: "update" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let cores = format!(" on {} cores", self.origin.machine.cores);
        let library = format!(", {}", self.library);
        let origin = Self::PAGE.describe_origin(&self.origin, &cores, &library);
        let columns = [
            "C",
            "k:",
            "ours, GFLOP/s",
            "the library's own threads, GFLOP/s",
            "ours / the library's",
            "met",
        ];
        let table = format_table(columns, SHAPES.map(|shape| self.make_row(shape)));
        Ok(format!(
            "{origin} The goal is a ratio of at least {GOAL}.\n\n{table}"
        ))
    }
}
