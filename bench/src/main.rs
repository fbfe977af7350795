//! Contenders of the campaigns in `bench/campaigns`, the figures that are drawn from their results, and the campaign of a GPU.

// A campaign reports its progress.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod algorithms;
mod figures;
mod gpu;
mod growth;
mod instances;
mod launch;
mod learning;
mod listen;
mod markdown;
mod measure;
mod neighbours;
mod points;
mod process;
mod report;
mod results;
mod shape;
mod statistics;
mod trace;
mod update;
mod volume;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "isochron-bench", about)]
struct BenchCliArguments {
    #[command(subcommand)]
    campaign: CampaignCommand,
}

#[derive(Subcommand)]
enum CampaignCommand {
    /// Time of a partitioner, layout or balancing machine, and its growth from half the size
    Algorithms(algorithms::AlgorithmsArguments),
    /// A burst of updates by a CPU device, or by the BLAS with its own threads
    Update(update::UpdateArguments),
    /// An update of a device alone, or next to neighbours that stream through memory
    Neighbours(neighbours::NeighboursArguments),
    /// A GPU: its link, our update against cuBLAS, a C that does not fit, the GPU with CPUs and ranks
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
    /// The figures of a publication, from the results of its campaign
    Figures(figures::FiguresArguments),
}

fn main() -> anyhow::Result<()> {
    isochron_devices::internal::own_libraries();
    match BenchCliArguments::parse().campaign {
        CampaignCommand::Algorithms(arguments) => algorithms::run(&arguments),
        CampaignCommand::Update(arguments) => update::run(&arguments),
        CampaignCommand::Neighbours(arguments) => neighbours::run(&arguments),
        CampaignCommand::Gpu(arguments) => gpu::run(&arguments),
        CampaignCommand::Measure(arguments) => measure::run(&arguments),
        CampaignCommand::Learning(arguments) => learning::run(&arguments),
        CampaignCommand::Volume(arguments) => volume::run(&arguments),
        CampaignCommand::Listen(arguments) => listen::run(&arguments),
        CampaignCommand::Growth(arguments) => growth::run(&arguments),
        CampaignCommand::Figures(arguments) => figures::run(&arguments),
    }
}
