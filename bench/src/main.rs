//! Benchmark campaigns: `cargo xtask bench NAME`.
//!
//! Within each round of a campaign its contestants take turns, so that a machine with drifting speed treats all alike.
//! Every raw sample is kept in `bench/results/`, and the tables and plots in the documentation are made from those
//! files. Compare ratios within one run: absolute times belong to the machine.

// A campaign reports its progress.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod algorithms;
mod goal;
mod gpu;
mod hpopta;
mod instances;
mod jacobi;
mod launch;
mod learning;
mod listen;
mod markdown;
mod measure;
mod neighbours;
mod process;
mod report;
mod results;
mod shape;
mod statistics;
mod thesis;
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
    /// Chapters 3 and 4 of the thesis: figures 3.1 to 3.4 and table 4.2
    #[command(name = "thesis-3")]
    Thesis(thesis::ThesisArguments),
    /// Figures 1 to 3 of the HPOPTA paper's supplement: DGEMV and FFT, predicted and actual times
    Hpopta(hpopta::HpoptaArguments),
    /// The Jacobi method of the thesis: figures 2.4 to 2.7, 4.3, 4.4 and A.4
    #[command(name = "thesis-jacobi")]
    Jacobi(jacobi::JacobiCampaignArguments),
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
        CampaignCommand::Thesis(arguments) => thesis::run(&arguments),
        CampaignCommand::Hpopta(arguments) => hpopta::run(&arguments),
        CampaignCommand::Jacobi(arguments) => jacobi::run(&arguments),
    }
}
