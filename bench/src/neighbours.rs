//! A device next to neighbours that stream through memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use isochron_devices::measure::{UpdateOperands, repeat_alone};
use isochron_devices::{
    Blas as _, CblasLibrary, CoreInfo, CpuWorker, Depth, DeviceError, DeviceTeam, MeasureConfig,
    Topology, measure_team,
};
use serde::Serialize;

/// Bytes that a neighbour reads and writes: more than any cache holds.
const STREAM_BYTES: usize = 256 << 20;

/// Elements that a neighbour streams between two looks at the end.
const CHUNK: usize = 1 << 17;

/// The update.
#[derive(clap::Args)]
pub struct NeighboursArguments {
    /// What the other cores do
    place: NeighbourPlace,
    /// Rows and columns of C
    n: usize,
    /// Columns of A
    #[arg(long, default_value_t = 8)]
    block: usize,
    /// The library
    #[arg(long, default_value = "libopenblas.so.0")]
    blas: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NeighbourPlace {
    /// Nothing.
    Alone,
    /// They stream through memory.
    Beside,
}

/// The printed document.
#[derive(Debug, Serialize)]
struct NeighbourSpeed {
    library: String,
    /// Cores of the device.
    cores: usize,
    /// Mean seconds of an update.
    update_s: f64,
    /// 10⁹ bytes a second that the neighbours read and wrote meanwhile.
    neighbour_gb_per_s: f64,
}

/// Prints the time of an update on the first half of the cores as JSON.
///
/// # Errors
/// Fails if there is only one core, or the device fails.
pub fn run(arguments: &NeighboursArguments) -> anyhow::Result<()> {
    let topology = Arc::new(Topology::discover()?);
    let mut cores = topology.cores();
    ensure!(
        cores.len() > 1,
        "a neighbour needs a core besides the device's, and there is only one core"
    );
    let others = cores.split_off(cores.len() / 2);
    let blas = Arc::new(CblasLibrary::open(&arguments.blas)?);
    let mut speed = NeighbourSpeed {
        library: blas.name().to_owned(),
        cores: cores.len(),
        update_s: 0.0,
        neighbour_gb_per_s: 0.0,
    };
    let worker = CpuWorker::new(topology.clone(), "cpu0", cores, true, blas)?;
    let mut team = DeviceTeam::new(vec![worker.into()])?;
    match arguments.place {
        NeighbourPlace::Alone => speed.update_s = measure(&mut team, arguments)?,
        NeighbourPlace::Beside => {
            let neighbours = Neighbours::default();
            let (found, gb_per_s) =
                neighbours.stream_during(&topology, &others, || measure(&mut team, arguments))?;
            (speed.update_s, speed.neighbour_gb_per_s) = (found?, gb_per_s);
        }
    }
    println!("{}", serde_json::to_string(&speed)?);
    Ok(())
}

/// Returns the mean seconds of an update.
fn measure(team: &mut DeviceTeam, arguments: &NeighboursArguments) -> anyhow::Result<f64> {
    let config =
        MeasureConfig { min_reps: 10, max_reps: 100, max_seconds: 2.0, ..MeasureConfig::default() };
    let found = measure_team(
        team,
        arguments.n,
        &[arguments.n],
        Depth::endless(arguments.block),
        &config,
        &mut UpdateOperands::<f64>::default(),
        &mut repeat_alone,
    )?;
    let first = found.first().context("a measurement")?;
    Ok(first.sample.seconds)
}

/// Threads that read and write memory as fast as they can.
#[derive(Default)]
struct Neighbours {
    are_over: AtomicBool,
    /// Bytes read and written so far.
    bytes: AtomicU64,
}

impl Neighbours {
    /// Does something while a pinned thread on each of these cores streams. Returns its result, and the 10⁹ bytes a second that
    /// the threads read and wrote.
    fn stream_during<R>(
        &self,
        topology: &Topology,
        cores: &[CoreInfo],
        act: impl FnOnce() -> R,
    ) -> anyhow::Result<(R, f64)> {
        std::thread::scope(|scope| {
            let (sender, receiver) = channel();
            for core in cores {
                let sender = sender.clone();
                scope.spawn(move || {
                    let bound = topology.bind_current_thread(core);
                    self.stream(bound, &sender);
                });
            }
            let begun: anyhow::Result<()> = cores
                .iter()
                .try_for_each(|_| Ok(receiver.recv().context("a neighbour ended")??));
            let (before, start) = (self.bytes.load(Ordering::Relaxed), Instant::now());
            let acted = begun.map(|()| act());
            let (after, seconds) = (self.bytes.load(Ordering::Relaxed), start.elapsed());
            // The scope waits for its threads, so they are told in any case.
            self.are_over.store(true, Ordering::Release);
            Ok((acted?, (after - before) as f64 / seconds.as_secs_f64() / 1e9))
        })
    }

    /// Streams through memory until all is over. Tells after the first pass that it does.
    fn stream(&self, bound: Result<(), DeviceError>, sender: &Sender<Result<(), DeviceError>>) {
        let mut memory = vec![1.0_f64; STREAM_BYTES / size_of::<f64>()];
        let mut told = Some(bound);
        while !self.are_over.load(Ordering::Acquire) {
            for chunk in memory.chunks_mut(CHUNK) {
                for value in chunk.iter_mut() {
                    *value = *value * 0.5 + 0.5;
                }
                let bytes = 2 * size_of_val(chunk) as u64;
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                if self.are_over.load(Ordering::Acquire) {
                    break;
                }
            }
            if let Some(told) = told.take() {
                // The receiver waits for it, unless another neighbour has failed.
                let _ = sender.send(told);
            }
        }
        std::hint::black_box(memory);
    }
}
