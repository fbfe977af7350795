//! `isochron devices`: measurements of the devices of the job's hosts.

mod bench;
pub mod measured;
mod peak;
pub mod points;
mod report;
pub mod schedule;
mod sizes;

use std::sync::Arc;

use clap::Subcommand;
use isochron_core::comm::Comm;

use crate::failure::Failure;

/// The subcommands.
#[derive(Subcommand)]
pub enum DevicesCommand {
    /// Measure the update kernel of each device over sizes, alone and all together
    Bench(Box<bench::BenchArguments>),
}

/// Runs the command on every rank.
pub fn run(comm: &Arc<dyn Comm>, command: &DevicesCommand) -> Result<(), Failure> {
    match command {
        DevicesCommand::Bench(arguments) => bench::run(comm, arguments),
    }
}
