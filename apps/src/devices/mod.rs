//! `isochron devices`: measurements of this host's devices.

mod bench;
mod measured;
mod peak;
mod points;
mod report;
mod sizes;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// The subcommands.
#[derive(Args)]
pub struct DevicesArguments {
    #[command(subcommand)]
    command: DevicesCommand,
}

#[derive(Subcommand)]
enum DevicesCommand {
    /// Measure the update kernel of each device over sizes, alone and all together
    Bench(Box<bench::BenchArguments>),
}

/// Runs the command; returns the text that it prints.
pub fn run(arguments: &DevicesArguments) -> Result<String, Failure> {
    match &arguments.command {
        DevicesCommand::Bench(arguments) => bench::run(arguments),
    }
}
