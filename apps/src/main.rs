//! The `isochron` command.
//!
//! Exit status: 0 success, 1 the run failed, 2 bad usage or input. With `--json`, standard output holds the
//! machine-readable result and nothing else. Under `mpirun` only the head rank prints.

// Printing is what this program is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod failure;
mod layout;
mod mxm;
mod partition;
mod table;
mod topology;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use failure::Failure;

/// Balances matrix multiplications over unlike nodes, by measured speed.
#[derive(Parser)]
#[command(name = "isochron", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Multiply matrices: C = alpha*A*B + beta*C, alone or under mpirun
    Mxm(mxm::Arguments),
    /// Show what this host has
    Topology(topology::Arguments),
    /// Split units of work over devices whose models are in points files
    Partition(partition::Arguments),
    /// Arrange areas as rectangles with a small sum of half-perimeters
    Layout(layout::Arguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Every rank finds the same mistake; one tells.
            if launched_rank() == 0 {
                let _ = error.print();
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    start_log();
    let outcome = match &arguments.command {
        Command::Mxm(arguments) => mxm::run(arguments),
        Command::Topology(arguments) => topology::run(arguments),
        Command::Partition(arguments) => partition::run(arguments),
        Command::Layout(arguments) => layout::run(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { message, status }) => {
            if launched_rank() == 0 {
                eprintln!("isochron: {message}");
            }
            ExitCode::from(status)
        }
    }
}

/// This process's rank as the launcher numbers it; 0 without one.
fn launched_rank() -> usize {
    let variables = [
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "PALS_RANKID",
    ];
    let rank = |name: &&str| std::env::var(name).ok()?.parse().ok();
    variables.iter().find_map(rank).unwrap_or(0)
}

/// Events go to standard error when `ISOCHRON_LOG` asks for them (`info`, `isochron=debug`, ...).
fn start_log() {
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("ISOCHRON_LOG") {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
    }
}
