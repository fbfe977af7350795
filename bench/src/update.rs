//! Our update on all cores against the BLAS called directly with its own threads.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use isochron_devices::{Blas, CblasLibrary, CpuWorker, Depth, Topology, Updates, Worker};
use serde_json::{Value, json};

use crate::direct::{Direct, Operands, Shape, burst, serve};
use crate::launch::machine;
use crate::results::{Results, list, series, spread, word, yes};
use crate::statistics::Spread;

const RESULTS: Results = Results {
    file: "bench/results/update.json",
    page: "bench/results/update.md",
    section: "bench update",
};

/// What our speed is to be of the library's, at least.
const GOAL: f64 = 0.97;

/// The threads of OpenBLAS spin for some 30 ms after their last update; whoever is next should not share with them.
const PAUSE: Duration = Duration::from_millis(100);

/// Squares, and two slices as IDPA makes them: a third of the columns, and the part of a slower node's device.
const SHAPES: [Shape; 5] = [
    shape(4096, 4096, 128),
    shape(4096, 4096, 256),
    shape(4096, 4096, 512),
    shape(4096, 1365, 128),
    shape(2731, 683, 128),
];

const fn shape(m: usize, n: usize, k: usize) -> Shape {
    Shape { m, n, k }
}

/// How large the campaign is.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; in each, ours and the library's updates of every shape
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Updates of each in a round, after one that warms up
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// The library, called by both
    #[arg(long, default_value = "libopenblas.so.0")]
    blas: String,
    /// Only make the table from the results that are there
    #[arg(long)]
    table_only: bool,
    /// Call the library with so many threads as requests on standard input say
    #[arg(long, hide = true)]
    serve: Option<usize>,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(threads) = arguments.serve {
        return serve(&arguments.blas, threads);
    }
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    let sum_up = |results: &mut Value| {
        results["summary"] = summary(results);
        Ok(())
    };
    RESULTS.publish(fresh.transpose()?, sum_up, table)
}

fn measure(arguments: &Arguments) -> anyhow::Result<Value> {
    let topology = Arc::new(Topology::discover()?);
    let cores = topology.cores();
    let blas = Arc::new(CblasLibrary::open(&arguments.blas)?);
    let name = blas.name().to_owned();
    // The library's best: a thread a core, or a thread a hardware thread.
    let mut threads = vec![cores.len(), topology.allowed_pus().len()];
    threads.dedup();
    let mut worker = CpuWorker::new(topology, "cpu0", cores, true, blas)?;
    let mut libraries = Vec::new();
    for &count in &threads {
        libraries.push((count, Direct::start(&arguments.blas, count)?));
    }
    let mut samples = Vec::new();
    for round in 0..arguments.rounds {
        for shape in SHAPES {
            let mut sample = |who: &str, threads: usize, times_s: Vec<f64>| {
                let median_s = Spread::of(times_s.iter().copied()).median;
                let Shape { m, n, k } = shape;
                eprintln!("round {round} {m}×{n}, k = {k}: {who} {median_s:.5} s");
                samples.push(json!({
                    "round": round, "m": m, "n": n, "k": k, "who": who, "threads": threads, "times_s": times_s,
                }));
                std::thread::sleep(PAUSE);
            };
            // Every other round begins with ours.
            if round % 2 == 0 {
                sample(
                    "worker",
                    worker.info().cores.len(),
                    ours(&mut worker, shape, arguments.reps)?,
                );
            }
            for (count, library) in &mut libraries {
                sample("library", *count, library.burst(shape, arguments.reps)?);
            }
            if round % 2 == 1 {
                sample(
                    "worker",
                    worker.info().cores.len(),
                    ours(&mut worker, shape, arguments.reps)?,
                );
            }
        }
    }
    let Arguments { rounds, reps, .. } = arguments;
    Ok(json!({
        "schema": 1,
        "command": format!("cargo xtask bench update --rounds {rounds} --reps {reps}"),
        "machine": machine(),
        "library": name,
        "goal": GOAL,
        "samples": samples,
    }))
}

/// Seconds of our updates.
fn ours(worker: &mut CpuWorker, shape: Shape, reps: usize) -> anyhow::Result<Vec<f64>> {
    let mut operands = Operands::new(shape)?;
    worker.begin(operands.views().2, Depth::of(shape.k, reps))?;
    let times_s = burst(reps, &mut || {
        let (a, b, c) = operands.views();
        worker.update(1.0, a, b, c)?;
        Ok(())
    })?;
    worker.finish(operands.views().2)?;
    Ok(times_s)
}

/// The median time of each round, in order.
fn medians(results: &Value, shape: Shape, who: &str, threads: Option<u64>) -> Vec<f64> {
    let is = |sample: &Value| {
        sample["m"] == shape.m
            && sample["n"] == shape.n
            && sample["k"] == shape.k
            && sample["who"] == who
            && threads.is_none_or(|threads| sample["threads"] == threads)
    };
    series(results, is, |sample| {
        Spread::of(list(sample, "times_s").filter_map(Value::as_f64)).median
    })
}

/// The library's threads that were fastest for a shape, over all rounds, and its times with them.
fn best(results: &Value, shape: Shape) -> (u64, Vec<f64>) {
    let mut threads: Vec<u64> = list(results, "samples")
        .filter(|sample| sample["who"] == "library")
        .filter_map(|sample| sample["threads"].as_u64())
        .collect();
    threads.sort_unstable();
    threads.dedup();
    let found = threads
        .into_iter()
        .map(|count| (count, medians(results, shape, "library", Some(count))));
    let median = |times: &[f64]| Spread::of(times.iter().copied()).median;
    found
        .min_by(|a, b| median(&a.1).total_cmp(&median(&b.1)))
        .unwrap_or_default()
}

/// For each shape, speeds in 10⁹ flop/s and the ratio of ours to the library's in the same round.
fn summary(results: &Value) -> Value {
    let row = |shape: Shape| {
        let Shape { m, n, k } = shape;
        let flop = 2.0 * (m * n * k) as f64;
        let (threads, library) = best(results, shape);
        let worker = medians(results, shape, "worker", None);
        let gflops = |times: &[f64]| Spread::of(times.iter().map(|t_s| flop / t_s / 1e9)).json();
        let ratio = Spread::of_ratios(&library, &worker);
        json!({
            "m": m, "n": n, "k": k, "threads": threads,
            "worker_gflops": gflops(&worker), "library_gflops": gflops(&library),
            "ratio": ratio.json(), "met": ratio.median >= GOAL,
        })
    };
    Value::Array(SHAPES.into_iter().map(row).collect())
}

fn table(results: &Value) -> String {
    let cores = format!(" on {} cores", results["machine"]["cores"]);
    let library = format!(", {}", word(results, "/library"));
    let origin = RESULTS.origin(results, &cores, &library);
    let mut text = format!("{origin} The goal is a ratio of {GOAL} at least.\n\n");
    text.push_str(
        "| C | k | ours, GFLOP/s | the library's own threads, GFLOP/s | ours / the library's | met |\n\
         |---|---:|---|---|---|---|\n",
    );
    for row in list(results, "summary") {
        let _ = writeln!(
            text,
            "| {}×{} | {} | {} | {}, {} threads | {} | {} |",
            row["m"],
            row["n"],
            row["k"],
            spread(&row["worker_gflops"]).text(1),
            spread(&row["library_gflops"]).text(1),
            row["threads"],
            spread(&row["ratio"]).text(3),
            yes(&row["met"]),
        );
    }
    text
}
