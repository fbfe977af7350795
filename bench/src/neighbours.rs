//! A device beside a neighbour that is hungry for memory: slower than alone, and its model says so.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, Thread};
use std::time::Duration;

use anyhow::{Context, ensure};
use isochron_devices::measure::{UpdateOperands, repeat_alone};
use isochron_devices::{
    BlasChoice, CoreInfo, CpuWorker, Depth, DeviceTeam, MeasureConfig, Measurement, Topology, blas,
    measure_team,
};
use isochron_hierarchy::model::{PiecewiseFpm, Point, SpeedModel};
use serde_json::{Value, json};

use crate::launch::machine;
use crate::results::{Results, list, number, series, spread, word, yes};
use crate::statistics::Spread;

const RESULTS: Results = Results {
    file: "bench/results/neighbours.json",
    page: "bench/results/neighbours.md",
    section: "bench neighbours",
};

/// Sizes n of the update `C (n×n) += A (n×b) · B (b×n)`: from what a second-level cache holds to what none does.
const SIZES: [usize; 4] = [256, 1024, 2048, 4096];

/// What a neighbour reads and writes, at least: beyond any cache.
const HUNGER_BYTES: usize = 256 << 20;

/// Elements that a neighbour goes through between two looks at whether it is still wanted.
const BITE: usize = 1 << 17;

/// How long a neighbour sleeps that is not wanted, unless it is woken.
const NAP: Duration = Duration::from_millis(100);

/// How large the campaign is.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; in each, every size alone and beside the neighbour
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Block size b: an update reads and writes 8 bytes of C each for every 2·b flop
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    block: u32,
    /// Only make the table from the results that are there
    #[arg(long)]
    table_only: bool,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let fresh =
        (!arguments.table_only).then(|| measure(arguments.rounds, arguments.block as usize));
    let sum_up = |results: &mut Value| {
        results["summary"] = summary(results)?;
        Ok(())
    };
    RESULTS.publish(fresh.transpose()?, sum_up, table)
}

/// The first half of the cores is the device, a neighbour is on each of the others.
fn measure(rounds: usize, block: usize) -> anyhow::Result<Value> {
    let topology = Arc::new(Topology::discover()?);
    let mut device = topology.cores();
    ensure!(
        device.len() > 1,
        "a neighbour needs a core of its own, and there is one core in all"
    );
    let others = device.split_off(device.len() / 2);
    let blas = blas::choose_blas(&BlasChoice::Auto)?;
    let name = blas.name().to_owned();
    let n_cores = device.len();
    let worker = CpuWorker::new(topology.clone(), "cpu0", device, true, blas)?;
    let mut team = DeviceTeam::new(vec![Box::new(worker)])?;
    let mut samples = Vec::new();
    let neighbours = Neighbours::default();
    std::thread::scope(|scope| {
        let threads = neighbours.start(scope, &topology, &others);
        let outcome = threads.and_then(|threads| {
            alternate(
                rounds,
                block,
                &mut team,
                &neighbours,
                &threads,
                &mut samples,
            )
        });
        // The scope waits for its threads, so they have to be told in any case.
        neighbours.over.store(true, Ordering::Release);
        outcome
    })?;
    Ok(json!({
        "schema": 1,
        "command": format!("cargo xtask bench neighbours --rounds {rounds} --block {block}"),
        "machine": machine(),
        "library": name,
        "block": block,
        "cores": n_cores,
        "neighbours": others.len(),
        "samples": samples,
    }))
}

fn alternate(
    rounds: usize,
    block: usize,
    team: &mut DeviceTeam,
    neighbours: &Neighbours,
    threads: &[Thread],
    samples: &mut Vec<Value>,
) -> anyhow::Result<()> {
    let config = MeasureConfig {
        min_reps: 10,
        max_reps: 100,
        max_seconds: 2.0,
        ..MeasureConfig::default()
    };
    let mut operands = UpdateOperands::<f64>::default();
    for round in 0..rounds {
        for n in SIZES {
            // Every other round begins alone.
            for beside in [round % 2 == 1, round % 2 == 0] {
                let before = beside.then(|| neighbours.feed(threads));
                let depth = Depth::endless(block);
                let found = measure_team(
                    team,
                    n,
                    &[n],
                    depth,
                    &config,
                    &mut operands,
                    &mut repeat_alone,
                );
                let bytes = before.map(|before| neighbours.starve() - before);
                let found: Measurement = found?[0];
                let how = if beside { "beside" } else { "alone" };
                eprintln!("round {round} n = {n} {how}: {:.6} s", found.t_s);
                samples.push(json!({
                    "round": round, "n": n, "beside": beside, "measurement": found, "neighbour_bytes": bytes,
                }));
            }
        }
    }
    Ok(())
}

/// Threads that read and write memory as fast as they can, while they are fed.
#[derive(Default)]
struct Neighbours {
    fed: AtomicBool,
    over: AtomicBool,
    /// Bytes that they have read and written.
    bytes: AtomicU64,
}

impl Neighbours {
    /// One pinned thread on each core, which sleeps.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        topology: &'scope Topology,
        cores: &'scope [CoreInfo],
    ) -> anyhow::Result<Vec<Thread>> {
        let mut threads = Vec::new();
        for core in cores {
            let (tell, told) = std::sync::mpsc::channel();
            let handle = scope.spawn(move || {
                let bound = topology.bind_current_thread(core);
                let ready = bound.is_ok();
                // Whoever waits for it is there until it comes.
                let _ = tell.send(bound);
                if ready {
                    self.stream();
                }
            });
            told.recv().context("a neighbour ended")??;
            threads.push(handle.thread().clone());
        }
        Ok(threads)
    }

    fn stream(&self) {
        let mut memory = vec![1.0_f64; HUNGER_BYTES / size_of::<f64>()];
        while !self.over.load(Ordering::Acquire) {
            if !self.fed.load(Ordering::Acquire) {
                // They wake by themselves now and then, to see whether it is all over.
                std::thread::park_timeout(NAP);
                continue;
            }
            for bite in memory.chunks_mut(BITE) {
                bite.iter_mut()
                    .for_each(|value| *value = *value * 0.5 + 0.5);
                self.bytes
                    .fetch_add(2 * size_of_val(bite) as u64, Ordering::Relaxed);
                if !self.fed.load(Ordering::Acquire) {
                    break;
                }
            }
        }
        std::hint::black_box(memory);
    }

    /// Wakes them up, and waits until they are at it; the bytes so far.
    fn feed(&self, threads: &[Thread]) -> u64 {
        let before = self.bytes.load(Ordering::Relaxed);
        self.fed.store(true, Ordering::Release);
        threads.iter().for_each(Thread::unpark);
        while self.bytes.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sends them to sleep; the bytes so far.
    fn starve(&self) -> u64 {
        self.fed.store(false, Ordering::Release);
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Mean times of one size, by round.
fn times(results: &Value, n: usize, beside: bool) -> Vec<f64> {
    let is = |sample: &Value| sample["n"] == n && sample["beside"] == beside;
    series(results, is, |sample| number(sample, "/measurement/t_s"))
}

/// The model of the medians.
fn model(results: &Value, beside: bool) -> anyhow::Result<PiecewiseFpm> {
    let point = |n: usize| Point {
        d: units(results, n),
        t_s: Spread::of(times(results, n, beside)).median,
        reps: 1,
        ci_s: 0.0,
    };
    Ok(PiecewiseFpm::from_points(
        SIZES.into_iter().map(point).collect(),
    )?)
}

fn block(results: &Value) -> u64 {
    results["block"].as_u64().unwrap_or(1)
}

fn units(results: &Value, n: usize) -> u64 {
    (n as u64 / block(results)).pow(2)
}

/// For each size the ratio of speeds, as measured in the same round and as the two models say.
fn summary(results: &Value) -> anyhow::Result<Value> {
    let (lonely, beset) = (model(results, false)?, model(results, true)?);
    let row = |n: usize| {
        let (without, with) = (times(results, n, false), times(results, n, true));
        let ratio = Spread::of_ratios(&without, &with);
        let d = units(results, n) as f64;
        let modelled = beset.speed(d) / lonely.speed(d);
        let flop = 2.0 * (n * n) as f64 * block(results) as f64;
        let gflops = |times: &[f64]| Spread::of(times.iter().map(|t_s| flop / t_s / 1e9)).json();
        json!({
            "n": n, "units": units(results, n), "alone_gflops": gflops(&without), "beside_gflops": gflops(&with),
            "ratio": ratio.json(), "ratio_of_models": modelled,
            "slower": ratio.median < 1.0 && modelled < 1.0,
        })
    };
    Ok(Value::Array(SIZES.into_iter().map(row).collect()))
}

fn table(results: &Value) -> String {
    let cores = format!(
        " on {} of {} cores",
        results["cores"], results["machine"]["cores"]
    );
    let more = format!(
        ", {}, b = {}; a thread that streams through {} MiB on each other core",
        word(results, "/library"),
        block(results),
        HUNGER_BYTES >> 20,
    );
    let mut text = RESULTS.origin(results, &cores, &more) + "\n\n";
    text.push_str(
        "| n | alone, GFLOP/s | beside the neighbour, GFLOP/s | beside / alone | the models' speeds, beside / alone | slower |\n\
         |---:|---|---|---|---:|---|\n",
    );
    for row in list(results, "summary") {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.3} | {} |",
            row["n"],
            spread(&row["alone_gflops"]).text(1),
            spread(&row["beside_gflops"]).text(1),
            spread(&row["ratio"]).text(3),
            number(row, "/ratio_of_models"),
            yes(&row["slower"]),
        );
    }
    text
}
