//! Our update on all cores against the BLAS called directly with its own threads.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use isochron_devices::{Blas, CblasLibrary, CpuWorker, Depth, Topology, Updates, Worker};
use serde::{Deserialize, Serialize};

use crate::direct::{DirectOperands, DirectProcess, serve_updates, time_burst};
use crate::results::{Origin, ResultsPage, RoundSample, figures_by_round, yes_or_no};
use crate::shape::ProductShape;
use crate::statistics::{MedianRange, median};

const RESULTS: ResultsPage = ResultsPage {
    file: "bench/results/update.json",
    page: "bench/results/update.md",
    section: "bench update",
};

/// The goal of our speed over the library's.
const GOAL: f64 = 0.97;

/// The pause after each burst. OpenBLAS's threads spin for some 30 ms after their last update and would disturb the next.
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
struct UpdateResults {
    #[serde(flatten)]
    origin: Origin,
    library: String,
    goal: f64,
    samples: Vec<BurstSample>,
    #[serde(default)]
    summary: Vec<UpdateRow>,
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

/// The speeds of a shape in 10⁹ flop/s, and the ratio of ours to the library's in the same round.
#[derive(Serialize, Deserialize)]
struct UpdateRow {
    #[serde(flatten)]
    shape: ProductShape,
    /// The library's fastest number of threads.
    threads: usize,
    worker_gflops: MedianRange,
    library_gflops: MedianRange,
    ratio: MedianRange,
    met: bool,
}

impl RoundSample for BurstSample {
    fn round(&self) -> usize {
        self.round
    }
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &UpdateArguments) -> anyhow::Result<()> {
    if let Some(threads) = arguments.serve {
        return serve_updates(&arguments.blas, threads);
    }
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    RESULTS.publish(fresh.transpose()?, sum_up, format_table)
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
            // Every other round begins with ours.
            for is_ours in [round % 2 == 0, round % 2 == 1] {
                if is_ours {
                    let times_s = time_worker(&mut worker, shape, reps)?;
                    let side = (UpdateSide::Worker, n_cores);
                    samples.push(BurstSample::new(round, shape, side, times_s));
                    continue;
                }
                for (count, library) in &mut libraries {
                    let times_s = library.time_burst(shape, reps)?;
                    let side = (UpdateSide::Library, *count);
                    samples.push(BurstSample::new(round, shape, side, times_s));
                }
            }
        }
    }
    let command = format!("cargo xtask bench update --rounds {rounds} --reps {reps}");
    Ok(UpdateResults {
        origin: Origin::new(command),
        library,
        goal: GOAL,
        samples,
        summary: Vec::new(),
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
    fn medians(&self, shape: ProductShape, who: UpdateSide, threads: Option<usize>) -> Vec<f64> {
        let samples = self.samples.iter().filter(|sample| {
            sample.shape == shape
                && sample.who == who
                && threads.is_none_or(|threads| sample.threads == threads)
        });
        figures_by_round(samples, |sample| median(&sample.times_s))
    }

    /// Returns the library's fastest number of threads for a shape, over all rounds, and its times with them.
    fn fastest_library(&self, shape: ProductShape) -> (usize, Vec<f64>) {
        let samples = self.samples.iter();
        let mut threads: Vec<usize> = samples
            .filter(|sample| sample.who == UpdateSide::Library)
            .map(|sample| sample.threads)
            .collect();
        threads.sort_unstable();
        threads.dedup();
        let timed = threads.into_iter().map(|count| {
            let times_s = self.medians(shape, UpdateSide::Library, Some(count));
            (count, times_s)
        });
        timed
            .min_by(|a, b| median(&a.1).total_cmp(&median(&b.1)))
            .unwrap_or_default()
    }

    fn summarize(&self, shape: ProductShape) -> UpdateRow {
        let (threads, library_s) = self.fastest_library(shape);
        let worker_s = self.medians(shape, UpdateSide::Worker, None);
        let ratio = MedianRange::of_ratios(&library_s, &worker_s);
        UpdateRow {
            shape,
            threads,
            worker_gflops: speeds_gflops(shape, &worker_s),
            library_gflops: speeds_gflops(shape, &library_s),
            ratio,
            met: ratio.median >= GOAL,
        }
    }
}

fn speeds_gflops(shape: ProductShape, times_s: &[f64]) -> MedianRange {
    MedianRange::of(times_s.iter().map(|t_s| shape.flop() / t_s / 1e9))
}

/// Adds the summary.
fn sum_up(results: &mut UpdateResults) -> anyhow::Result<()> {
    results.summary = SHAPES.map(|shape| results.summarize(shape)).into();
    Ok(())
}

fn format_table(results: &UpdateResults) -> String {
    let cores = format!(" on {} cores", results.origin.machine.cores);
    let library = format!(", {}", results.library);
    let origin = RESULTS.describe_origin(&results.origin, &cores, &library);
    let mut text = format!("{origin} The goal is a ratio of at least {GOAL}.\n\n");
    text.push_str(
        "| C | k | ours, GFLOP/s | the library's own threads, GFLOP/s | ours / the library's | met |\n\
         |---|---:|---|---|---|---|\n",
    );
    for row in &results.summary {
        let ProductShape { m, n, k } = row.shape;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {m}×{n} | {k} | {} | {}, {} threads | {} | {} |",
            row.worker_gflops.text(1),
            row.library_gflops.text(1),
            row.threads,
            row.ratio.text(3),
            yes_or_no(row.met),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::check_published;

    #[test]
    fn the_published_file_is_read_and_makes_its_page() -> anyhow::Result<()> {
        check_published(&RESULTS, format_table)
    }
}
