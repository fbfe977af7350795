//! A device next to a neighbour that streams through memory: slower than alone, and its model says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, Thread};
use std::time::Duration;

use anyhow::{Context, ensure};
use isochron_devices::measure::{UpdateOperands, repeat_alone};
use isochron_devices::{
    BlasChoice, CoreInfo, CpuWorker, Depth, DeviceTeam, MeasureConfig, Topology, blas, measure_team,
};
use isochron_hierarchy::model::{PiecewiseFpm, Point, SpeedModel};
use isochron_hierarchy::times::Measurement;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::markdown::{format_table, yes_or_no};
use crate::results::{CampaignResults, Origin, ResultsPage, list_in_turn};
use crate::shape::ProductShape;
use crate::statistics::{MedianRange, median};

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
pub struct NeighboursResults {
    #[serde(flatten)]
    origin: Origin,
    library: String,
    block: u64,
    /// Cores of the device.
    cores: usize,
    /// Cores with a neighbour.
    neighbours: usize,
    samples: Vec<NeighbourSample>,
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

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &NeighboursArguments) -> anyhow::Result<()> {
    let NeighboursArguments { rounds, block, .. } = *arguments;
    let fresh = (!arguments.table_only).then(|| measure(rounds, block));
    NeighboursResults::publish(fresh.transpose()?)
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
        team: DeviceTeam::new(vec![worker.into()])?,
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
                for &beside in list_in_turn(&[false, true], round) {
                    let before = beside.then(|| neighbours.feed(threads));
                    let found = self.measure(n);
                    let neighbour_bytes = before.map(|before| neighbours.starve() - before);
                    let found = found?;
                    let place = if beside { "beside" } else { "alone" };
                    eprintln!(
                        "round {round} n = {n} {place}: {:.6} s",
                        found.sample.seconds
                    );
                    samples.push(NeighbourSample {
                        round,
                        n,
                        beside,
                        measurement: AverageTime {
                            t_s: found.sample.seconds,
                            rest: serde_json::from_value(serde_json::to_value(&found)?)?,
                        },
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
        let mut found = measure_team(
            &mut self.team,
            n,
            &[n],
            self.depth,
            &config,
            &mut self.operands,
            &mut repeat_alone,
        )?;
        Ok(found.swap_remove(0))
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
        self.samples
            .iter()
            .filter(|sample| sample.n == n && sample.beside == beside)
            .map(|sample| sample.measurement.t_s)
            .collect()
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

    /// Returns the line of a size: the speeds, their ratio in the same round, and the ratio of the models' speeds.
    fn make_row(&self, n: usize, ratio_of_models: f64) -> [String; 6] {
        let k = self.block as usize;
        let shape = ProductShape { m: n, n, k };
        let [alone, beside] = [false, true].map(|beside| self.times(n, beside));
        let ratio = MedianRange::of_ratios(&alone, &beside);
        [
            n.to_string(),
            shape.speeds_gflops(&alone).text(1),
            shape.speeds_gflops(&beside).text(1),
            ratio.text(3),
            format!("{ratio_of_models:.3}"),
            yes_or_no(ratio.median < 1.0 && ratio_of_models < 1.0),
        ]
    }
}

impl CampaignResults for NeighboursResults {
    const PAGE: ResultsPage = ResultsPage { name: "neighbours" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let cores = format!(" on {} of {} cores", self.cores, self.origin.machine.cores);
        let more = format!(
            ", {}, b = {}; a thread that streams through {} MiB on each other core",
            self.library,
            self.block,
            STREAM_BYTES >> 20,
        );
        let (alone, beside) = (self.make_model(false)?, self.make_model(true)?);
        let rows = SIZES.map(|n| {
            let d = self.units(n) as f64;
            self.make_row(n, beside.speed(d) / alone.speed(d))
        });
        let columns = [
            "n:",
            "alone, GFLOP/s",
            "with the neighbour, GFLOP/s",
            "with / alone",
            "the models' speeds, with / alone:",
            "slower",
        ];
        let origin = Self::PAGE.describe_origin(&self.origin, &cores, &more);
        Ok(format!("{origin}\n\n{}", format_table(columns, rows)))
    }
}
