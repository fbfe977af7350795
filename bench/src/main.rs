//! Contenders of the campaigns in `bench/campaigns`, and the figures that are drawn from their results.

// A contender prints its result.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod algorithms;
mod clusters;
mod figures;
mod gain;
mod gpu;
mod grid5000;
mod growth;
mod instances;
mod learning;
mod listen;
mod measure;
mod neighbours;
mod points;
mod rosebud;
mod shape;
mod update;
mod volume;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "isochron-bench", about)]
struct BenchCliArguments {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Time of a partitioner, layout or balancing machine, and its growth from half the size
    Algorithms(algorithms::AlgorithmsArguments),
    /// A burst of updates by a CPU device, or by the BLAS with its own threads
    Update(update::UpdateArguments),
    /// An update of a device alone, or next to neighbours that stream through memory
    Neighbours(neighbours::NeighboursArguments),
    /// A GPU: its link, our updates, those of a C that does not fit, cuBLAS or cuBLASXt
    Gpu(gpu::GpuArguments),
    /// Models of a kernel measured at adaptive sizes against models measured on a grid of sizes
    Measure(measure::AdaptiveSizesArguments),
    /// Cost of learning the speeds, simulated on clusters of known times
    Learning(learning::LearningArguments),
    /// Bytes that layouts predict for many nodes
    Volume(volume::VolumeArguments),
    /// What jobs say on standard error, and when
    Listen(listen::ListenArguments),
    /// Partial models that grow: DPA divides work over two unlike kernels
    Growth(growth::GrowthArguments),
    /// Gain of HPOPTA over balanced divisions, simulated on clusters of like nodes
    Gain(gain::GainArguments),
    /// Predicted times of a multiplication on a published cluster
    Rosebud(rosebud::RosebudArguments),
    /// A multiplication on a cluster of a platform file, simulated with the strategies of the papers
    Grid5000(grid5000::Grid5000Arguments),
    /// The points files of published clusters
    Clusters(clusters::ClustersArguments),
    /// The figures of a publication, from the results of its campaign
    Figures(figures::FiguresArguments),
}

fn main() -> ExitCode {
    isochron_devices::internal::own_libraries();
    if let Err(error) = run() {
        eprintln!("isochron-bench: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run() -> anyhow::Result<()> {
    match BenchCliArguments::parse().command {
        BenchCommand::Algorithms(arguments) => algorithms::run(&arguments),
        BenchCommand::Update(arguments) => update::run(&arguments),
        BenchCommand::Neighbours(arguments) => neighbours::run(&arguments),
        BenchCommand::Gpu(arguments) => gpu::run(&arguments),
        BenchCommand::Measure(arguments) => measure::run(&arguments),
        BenchCommand::Learning(arguments) => learning::run(&arguments),
        BenchCommand::Volume(arguments) => volume::run(&arguments),
        BenchCommand::Listen(arguments) => listen::run(&arguments),
        BenchCommand::Growth(arguments) => growth::run(&arguments),
        BenchCommand::Gain(arguments) => gain::run(&arguments),
        BenchCommand::Rosebud(arguments) => rosebud::run(&arguments),
        BenchCommand::Grid5000(arguments) => grid5000::run(&arguments),
        BenchCommand::Clusters(arguments) => clusters::run(&arguments),
        BenchCommand::Figures(arguments) => figures::run(&arguments),
    }
}
