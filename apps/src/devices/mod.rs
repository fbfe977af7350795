//! `isochron devices`: measurements of this host's devices.

mod bench;
mod measured;
mod peak;
mod points;
mod report;
mod sizes;

use clap::Subcommand;

use crate::failure::Failure;

/// The subcommands.
#[derive(Subcommand)]
pub enum DevicesCommand {
    /// Measure the update kernel of each device over sizes, alone and all together
    Bench(Box<bench::BenchArguments>),
}

/// Runs the command; returns the text that it prints.
pub fn run(command: &DevicesCommand) -> Result<String, Failure> {
    match command {
        DevicesCommand::Bench(arguments) => bench::run(arguments),
    }
}
