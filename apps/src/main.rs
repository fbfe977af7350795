//! The `isochron` command.
//!
//! Exit status: 0 success, 1 the run failed, 2 bad usage or input. With `--json`, standard output holds the
//! machine-readable result and nothing else. Under `mpirun` only the head rank prints.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod devices;
mod failure;
mod layout;
mod measuring;
mod model;
mod mxm;
mod output;
mod partition;
mod points;
mod table;
mod topology;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use failure::Failure;
use isochron::comm::{Comm, connect, launched_rank};

/// Balances matrix multiplications over unlike nodes, by measured speed.
#[derive(Parser)]
#[command(name = "isochron", version, about, max_term_width = 100)]
struct CliArguments {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Multiply matrices: C = alpha*A*B + beta*C, alone or under mpirun
    Mxm(Box<mxm::MxmArguments>),
    /// Show the hosts of the job with their cores, memory and GPUs, and the devices made of them
    Topology(topology::TopologyArguments),
    /// Measure the devices of this host
    Devices(devices::DevicesArguments),
    /// Split units of work over devices, by models in points files
    Partition(partition::PartitionArguments),
    /// Lay out areas, or nodes with models in files, as rectangles of a matrix with little communication
    Layout(layout::LayoutArguments),
    /// Show the speeds and times in points files and of models made from them
    Model(model::ModelArguments),
}

fn main() -> ExitCode {
    start_log();
    let status = match CliArguments::try_parse() {
        Ok(arguments) => run(&arguments.command),
        // Help and version are no failures, and go to standard output.
        Err(message) if !message.use_stderr() => {
            print_once(|| exit_status(output::check_printed(message.print())))
        }
        Err(mistake) => {
            print_once(|| {
                let _ = mistake.print();
                2
            });
            2
        }
    };
    ExitCode::from(status)
}

/// Runs a command; returns its exit status.
fn run(command: &Subcommands) -> u8 {
    let answer = match command {
        Subcommands::Mxm(arguments) => return run_on_ranks(|comm| mxm::run(comm, arguments)),
        Subcommands::Topology(arguments) if arguments.is_of_job() => {
            return run_on_ranks(|comm| topology::run_on_ranks(comm, arguments));
        }
        // The other commands are for one process: of several, the first one runs them.
        _ if launched_rank() != 0 => Ok(String::new()),
        Subcommands::Topology(arguments) => topology::run(arguments),
        Subcommands::Devices(arguments) => devices::run(arguments),
        Subcommands::Partition(arguments) => partition::run(arguments),
        Subcommands::Layout(arguments) => layout::run(arguments),
        Subcommands::Model(arguments) => model::run(arguments),
    };
    exit_status(answer.and_then(|answer| output::print(&answer)))
}

/// Prints a failure; returns the exit status.
fn exit_status(outcome: Result<(), Failure>) -> u8 {
    outcome.map_or_else(|failure| failure.print(), |()| 0)
}

/// Runs a command on all ranks of the job; returns the exit status.
fn run_on_ranks(command: impl FnOnce(&dyn Comm) -> Result<(), Failure>) -> u8 {
    let comm = match connect() {
        Ok(comm) => comm,
        Err(error) if launched_rank() == 0 => return Failure::from(error).print(),
        Err(error) => {
            // Without a communicator no barrier waits for the head rank's message: a moment must do.
            std::thread::sleep(Duration::from_secs(1));
            return Failure::from(error).status;
        }
    };
    let status = match command(comm.as_ref()) {
        Ok(()) => 0,
        Err(failure) if comm.rank() == 0 => failure.print(),
        Err(failure) => failure.status,
    };
    // A launcher ends the job as soon as one rank has failed, so all ranks wait for the head rank's message.
    comm.barrier();
    status
}

/// Runs `print` on the head rank before any rank leaves, since all ranks have the same message. Returns its exit status, and
/// 0 on other ranks.
fn print_once(print: impl FnOnce() -> u8) -> u8 {
    let comm = connect().ok();
    let status = match comm.as_ref().map_or(launched_rank(), |comm| comm.rank()) {
        0 => print(),
        _ => 0,
    };
    if let Some(comm) = comm {
        comm.barrier();
    }
    status
}

/// Sends the events that `ISOCHRON_LOG` asks for (`info`, `isochron=debug`, ...) to standard error.
fn start_log() {
    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("ISOCHRON_LOG") {
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
    }
}
