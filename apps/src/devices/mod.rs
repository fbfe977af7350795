//! `isochron devices`: what the devices of this host can do.

mod bench;
mod measured;
mod peak;
mod points;
mod report;
mod sizes;

use clap::{Args, Subcommand};

use crate::failure::Failure;

/// What to do with them.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure each device's update kernel over sizes, alone and all together
    Bench(Box<bench::Arguments>),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Bench(arguments) => bench::run(arguments),
    }
}
