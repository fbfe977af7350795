//! A device next to a neighbour that streams through memory: slower than alone, and its model says so.

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
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::results::{Origin, ResultsPage, RoundSample, figures_by_round, yes_or_no};
use crate::statistics::{MedianRange, median};

const RESULTS: ResultsPage = ResultsPage {
    file: "bench/results/neighbours.json",
    page: "bench/results/neighbours.md",
    section: "bench neighbours",
};

/// Sizes n of the update `C (n×n) += A (n×b) · B (b×n)`: from ones that fit a second-level cache to ones that fit none.
const SIZES: [usize; 4] = [256, 1024, 2048, 4096];

/// Bytes that a neighbour reads and writes: more than any cache holds.
const STREAM_BYTES: usize = 256 << 20;

/// Elements that a neighbour streams between two looks at the flags.
const CHUNK: usize = 1 << 17;

/// The time that an idle neighbour sleeps unless it is woken.
const NAP: Duration = Duration::from_millis(100);

/// The size of the campaign.
#[derive(clap::Args)]
pub struct NeighboursArguments {
    /// Rounds; in each, every size alone and next to the neighbour
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Block size b: an update reads and writes 8 bytes of C each for every 2·b flop
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    block: u32,
    /// Only make the table from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
struct NeighboursResults {
    #[serde(flatten)]
    origin: Origin,
    library: String,
    block: u64,
    /// Cores of the device.
    cores: usize,
    /// Cores with a neighbour.
    neighbours: usize,
    samples: Vec<NeighbourSample>,
    #[serde(default)]
    summary: Vec<NeighbourRow>,
}

/// An update measured alone or next to the neighbours.
#[derive(Serialize, Deserialize)]
struct NeighbourSample {
    round: usize,
    n: usize,
    beside: bool,
    measurement: AverageTime,
    /// Bytes that the neighbours read and wrote meanwhile.
    neighbour_bytes: Option<u64>,
}

/// A measurement. Keys that the campaign does not read are kept as they are.
#[derive(Serialize, Deserialize)]
struct AverageTime {
    t_s: f64,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// The speeds of a size in 10⁹ flop/s, and their ratio as measured in the same round and as the two models say.
#[derive(Serialize, Deserialize)]
struct NeighbourRow {
    n: usize,
    units: u64,
    alone_gflops: MedianRange,
    beside_gflops: MedianRange,
    ratio: MedianRange,
    ratio_of_models: f64,
    slower: bool,
}

impl RoundSample for NeighbourSample {
    fn round(&self) -> usize {
        self.round
    }
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &NeighboursArguments) -> anyhow::Result<()> {
    let NeighboursArguments { rounds, block, .. } = *arguments;
    let fresh = (!arguments.table_only).then(|| measure(rounds, block));
    RESULTS.publish(fresh.transpose()?, sum_up, format_table)
}

/// Measures a device of the first half of the cores; a neighbour is on each of the others.
fn measure(rounds: usize, block: u32) -> anyhow::Result<NeighboursResults> {
    let topology = Arc::new(Topology::discover()?);
    let mut device = topology.cores();
    ensure!(
        device.len() > 1,
        "a neighbour needs a core besides the device's, and there is only one core"
    );
    let others = device.split_off(device.len() / 2);
    let blas = blas::choose_blas(&BlasChoice::Auto)?;
    let library = blas.name().to_owned();
    let n_cores = device.len();
    let worker = CpuWorker::new(topology.clone(), "cpu0", device, true, blas)?;
    let mut device = MeasuredDevice {
        team: DeviceTeam::new(vec![Box::new(worker)])?,
        operands: UpdateOperands::default(),
        depth: Depth::endless(block as usize),
    };
    let mut samples = Vec::new();
    let neighbours = Neighbours::default();
    std::thread::scope(|scope| {
        let threads = neighbours.start(scope, &topology, &others);
        let outcome = threads
            .and_then(|threads| device.alternate(rounds, &neighbours, &threads, &mut samples));
        // The scope waits for its threads, so they are told in any case.
        neighbours.over.store(true, Ordering::Release);
        outcome
    })?;
    let command = format!("cargo xtask bench neighbours --rounds {rounds} --block {block}");
    Ok(NeighboursResults {
        origin: Origin::new(command),
        library,
        block: u64::from(block),
        cores: n_cores,
        neighbours: others.len(),
        samples,
        summary: Vec::new(),
    })
}

/// The device that is measured.
struct MeasuredDevice {
    team: DeviceTeam,
    operands: UpdateOperands<f64>,
    depth: Depth,
}

impl MeasuredDevice {
    /// Measures all sizes alone and next to the neighbours, in turn.
    fn alternate(
        &mut self,
        rounds: usize,
        neighbours: &Neighbours,
        threads: &[Thread],
        samples: &mut Vec<NeighbourSample>,
    ) -> anyhow::Result<()> {
        for round in 0..rounds {
            for n in SIZES {
                // Every other round begins alone.
                for beside in [round % 2 == 1, round % 2 == 0] {
                    let before = beside.then(|| neighbours.feed(threads));
                    let found = self.measure(n);
                    let neighbour_bytes = before.map(|before| neighbours.starve() - before);
                    let found = found?;
                    let place = if beside { "beside" } else { "alone" };
                    eprintln!("round {round} n = {n} {place}: {:.6} s", found.t_s);
                    samples.push(NeighbourSample {
                        round,
                        n,
                        beside,
                        measurement: serde_json::from_value(serde_json::to_value(found)?)?,
                        neighbour_bytes,
                    });
                }
            }
        }
        Ok(())
    }

    fn measure(&mut self, n: usize) -> anyhow::Result<Measurement> {
        let config = MeasureConfig {
            min_reps: 10,
            max_reps: 100,
            max_seconds: 2.0,
            ..MeasureConfig::default()
        };
        let found = measure_team(
            &mut self.team,
            n,
            &[n],
            self.depth,
            &config,
            &mut self.operands,
            &mut repeat_alone,
        )?;
        Ok(found[0])
    }
}

/// Threads that read and write memory as fast as they can while they are fed.
#[derive(Default)]
struct Neighbours {
    fed: AtomicBool,
    over: AtomicBool,
    /// Bytes read and written so far.
    bytes: AtomicU64,
}

impl Neighbours {
    /// Starts one pinned thread on each core, which sleeps.
    ///
    /// # Errors
    /// If a thread cannot be pinned.
    fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        topology: &'scope Topology,
        cores: &'scope [CoreInfo],
    ) -> anyhow::Result<Vec<Thread>> {
        let mut threads = Vec::new();
        for core in cores {
            let (sender, receiver) = std::sync::mpsc::channel();
            let handle = scope.spawn(move || {
                let bound = topology.bind_current_thread(core);
                let is_ready = bound.is_ok();
                // The receiver waits until this comes.
                let _ = sender.send(bound);
                if is_ready {
                    self.stream_memory();
                }
            });
            receiver.recv().context("a neighbour ended")??;
            threads.push(handle.thread().clone());
        }
        Ok(threads)
    }

    /// Streams through memory while fed, until all is over.
    fn stream_memory(&self) {
        let mut memory = vec![1.0_f64; STREAM_BYTES / size_of::<f64>()];
        while !self.over.load(Ordering::Acquire) {
            if !self.fed.load(Ordering::Acquire) {
                // It wakes now and then to look whether all is over.
                std::thread::park_timeout(NAP);
                continue;
            }
            for chunk in memory.chunks_mut(CHUNK) {
                chunk
                    .iter_mut()
                    .for_each(|value| *value = *value * 0.5 + 0.5);
                self.bytes
                    .fetch_add(2 * size_of_val(chunk) as u64, Ordering::Relaxed);
                if !self.fed.load(Ordering::Acquire) {
                    break;
                }
            }
        }
        std::hint::black_box(memory);
    }

    /// Wakes the threads and waits until they stream; returns the bytes so far.
    fn feed(&self, threads: &[Thread]) -> u64 {
        let before = self.bytes.load(Ordering::Relaxed);
        self.fed.store(true, Ordering::Release);
        threads.iter().for_each(Thread::unpark);
        while self.bytes.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sends the threads to sleep; returns the bytes so far.
    fn starve(&self) -> u64 {
        self.fed.store(false, Ordering::Release);
        self.bytes.load(Ordering::Relaxed)
    }
}

impl NeighboursResults {
    /// Returns the mean times of one size, by round.
    fn times(&self, n: usize, beside: bool) -> Vec<f64> {
        let samples = self.samples.iter();
        figures_by_round(
            samples.filter(|sample| sample.n == n && sample.beside == beside),
            |sample| sample.measurement.t_s,
        )
    }

    fn units(&self, n: usize) -> u64 {
        (n as u64 / self.block).pow(2)
    }

    /// Makes the model of the medians.
    fn make_model(&self, beside: bool) -> anyhow::Result<PiecewiseFpm> {
        let points = SIZES.map(|n| Point {
            d: self.units(n),
            t_s: median(&self.times(n, beside)),
            reps: 1,
            ci_s: 0.0,
        });
        Ok(PiecewiseFpm::from_points(points.into())?)
    }

    /// Summarizes the times of `n`, with the ratio of the speeds of the models.
    fn summarize(&self, n: usize, ratio_of_models: f64) -> NeighbourRow {
        let flop = 2.0 * (n * n) as f64 * self.block as f64;
        let [alone, beside] = [false, true].map(|beside| self.times(n, beside));
        let [alone_gflops, beside_gflops] = [&alone, &beside]
            .map(|times| MedianRange::of(times.iter().map(|t_s| flop / t_s / 1e9)));
        let ratio = MedianRange::of_ratios(&alone, &beside);
        NeighbourRow {
            n,
            units: self.units(n),
            alone_gflops,
            beside_gflops,
            ratio,
            ratio_of_models,
            slower: ratio.median < 1.0 && ratio_of_models < 1.0,
        }
    }
}

/// Adds the summary.
fn sum_up(results: &mut NeighboursResults) -> anyhow::Result<()> {
    let (alone, beside) = (results.make_model(false)?, results.make_model(true)?);
    let rows = SIZES.map(|n| {
        let d = results.units(n) as f64;
        results.summarize(n, beside.speed(d) / alone.speed(d))
    });
    results.summary = rows.into();
    Ok(())
}

fn format_table(results: &NeighboursResults) -> String {
    let cores = format!(
        " on {} of {} cores",
        results.cores, results.origin.machine.cores
    );
    let more = format!(
        ", {}, b = {}; a thread that streams through {} MiB on each other core",
        results.library,
        results.block,
        STREAM_BYTES >> 20,
    );
    let mut text = RESULTS.describe_origin(&results.origin, &cores, &more) + "\n\n";
    text.push_str(
        "| n | alone, GFLOP/s | with the neighbour, GFLOP/s | with / alone | the models' speeds, with / alone | slower |\n\
         |---:|---|---|---|---:|---|\n",
    );
    for row in &results.summary {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {:.3} | {} |",
            row.n,
            row.alone_gflops.text(1),
            row.beside_gflops.text(1),
            row.ratio.text(3),
            row.ratio_of_models,
            yes_or_no(row.slower),
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
