//! A burst of updates on all cores: ours, or those of the BLAS called directly with its own threads.
//!
//! A library keeps the number of threads that it was given, and its waiting threads spin for a while. So each burst has a
//! process of its own.

use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use isochron_devices::internal::try_reserve_matrix;
use isochron_devices::{
    Blas, BlasGemm, CblasLibrary, CpuWorker, Depth, Topology, Updates, View, ViewMut, Worker,
    leading_dimension,
};
use serde::Serialize;

use crate::shape::ProductShape;

/// The burst.
#[derive(clap::Args)]
pub struct UpdateArguments {
    /// Who updates
    side: UpdateSide,
    #[command(flatten)]
    shape: ProductShape,
    /// Updates, after one that warms up
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// The library, called by both
    #[arg(long, default_value = "libopenblas.so.0")]
    blas: String,
    /// The library's own threads: it may be best with one on each core, or with one on each hardware thread
    #[arg(long, value_enum, default_value_t = ThreadPlaces::Cores)]
    threads: ThreadPlaces,
}

/// The two sides of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum UpdateSide {
    /// Our CPU device.
    Ours,
    /// The library with its own threads.
    Library,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ThreadPlaces {
    Cores,
    HardwareThreads,
}

/// The printed document.
#[derive(Debug, Serialize)]
struct BurstTimes {
    library: String,
    threads: usize,
    /// Seconds of each update.
    times_s: Vec<f64>,
}

/// Prints the times of a burst as JSON.
///
/// # Errors
/// Fails if the library or the device cannot be opened, or memory is short.
pub fn run(arguments: &UpdateArguments) -> anyhow::Result<()> {
    let &UpdateArguments { shape, reps, .. } = arguments;
    let topology = Arc::new(Topology::discover()?);
    let mut operands = OwnOperands::new(shape)?;
    let burst = match arguments.side {
        UpdateSide::Ours => {
            let blas = Arc::new(CblasLibrary::open(&arguments.blas)?);
            let library = blas.name().to_owned();
            let cores = topology.cores();
            let mut worker = CpuWorker::new(topology, "cpu0", cores, true, blas)?;
            worker.begin(operands.views().2, Depth::of(shape.k, reps))?;
            let times_s = time_burst(reps, &mut || {
                let (a, b, c) = operands.views();
                worker.update(1.0, a, b, c)?;
                Ok(())
            })?;
            worker.finish(operands.views().2)?;
            BurstTimes { library, threads: worker.info().cores.len(), times_s }
        }
        UpdateSide::Library => {
            let threads = match arguments.threads {
                ThreadPlaces::Cores => topology.cores().len(),
                ThreadPlaces::HardwareThreads => topology.allowed_pus().len(),
            };
            let blas = CblasLibrary::open_threaded(&arguments.blas, threads)?;
            let times_s = time_burst(reps, &mut || {
                let (a, b, c) = operands.views();
                blas.gemm(1.0, a, b, c);
                Ok(())
            })?;
            BurstTimes { library: blas.name().to_owned(), threads, times_s }
        }
    };
    println!("{}", serde_json::to_string(&burst)?);
    Ok(())
}

/// Runs `reps` updates after one that warms up; returns the seconds of each.
fn time_burst(
    reps: usize,
    update: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<f64>> {
    update()?;
    let times = (0..reps).map(|_| {
        let start = Instant::now();
        update()?;
        Ok(start.elapsed().as_secs_f64())
    });
    times.collect()
}

/// Written matrices for updates of one shape.
struct OwnOperands {
    shape: ProductShape,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl OwnOperands {
    /// Writes the matrices, in memory of the kind that multiplications use.
    fn new(shape: ProductShape) -> anyhow::Result<Self> {
        let ProductShape { m, n, k } = shape;
        Ok(Self {
            shape,
            a: fill_matrix(m * k)?,
            b: fill_matrix(k * n)?,
            c: fill_matrix(leading_dimension::<f64>(m) * n)?,
        })
    }

    /// Returns A, B and C.
    fn views(&mut self) -> (View<'_, f64>, View<'_, f64>, ViewMut<'_, f64>) {
        let ProductShape { m, n, k } = self.shape;
        (
            View::new(&self.a, m, k, m),
            View::new(&self.b, k, n, k),
            ViewMut::new(&mut self.c, m, n, leading_dimension::<f64>(m)),
        )
    }
}

fn fill_matrix(count: usize) -> anyhow::Result<Vec<f64>> {
    let mut values = Vec::new();
    try_reserve_matrix(&mut values, count)?;
    values.extend((0..count).map(|at| (at % 16 + 1) as f64 / 32.0));
    Ok(values)
}
