//! Benchmark campaigns: `cargo xtask bench NAME`.
//!
//! A campaign alternates what it compares within each round, so that a machine whose speed drifts treats all
//! alike; it keeps every raw sample in `bench/results/`, and the tables in the documentation are made from those
//! files. Ratios within one run are what counts: absolute times belong to the machine.

// A campaign tells how it goes.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod algorithms;
mod balance;
mod direct;
mod gpu;
mod hybrid;
mod launch;
mod markdown;
mod neighbours;
mod peers;
mod plot;
mod results;
mod statistics;
mod update;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "isochron-bench", about)]
struct Arguments {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Subcommand)]
enum Campaign {
    /// The four balancing strategies on emulated unlike nodes, and on nodes with a memory cliff
    Balance(balance::Arguments),
    /// Time and growth of the models' partitioners, layouts and balancing machines, on one core
    Algorithms(algorithms::Arguments),
    /// The update of a CPU device against the BLAS called directly with its own threads
    Update(update::Arguments),
    /// Two unlike cores balanced by IDPA, against an even split over them
    Hybrid(hybrid::Arguments),
    /// A device alone and beside a neighbour that is hungry for memory
    Neighbours(neighbours::Arguments),
    /// A GPU: its link, our update beside cuBLAS, C that does not fit, the GPU beside CPUs and ranks
    Gpu(gpu::Arguments),
    /// Our multiplication beside ScaLAPACK's, StarPU's and the BLAS itself, on this machine and on emulated hosts
    Peers(peers::Arguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().campaign {
        Campaign::Balance(arguments) => balance::run(&arguments),
        Campaign::Algorithms(arguments) => algorithms::run(&arguments),
        Campaign::Update(arguments) => update::run(&arguments),
        Campaign::Hybrid(arguments) => hybrid::run(&arguments),
        Campaign::Neighbours(arguments) => neighbours::run(&arguments),
        Campaign::Gpu(arguments) => gpu::run(&arguments),
        Campaign::Peers(arguments) => peers::run(&arguments),
    }
}
