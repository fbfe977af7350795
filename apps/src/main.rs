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
mod plot;
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
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Multiply matrices: C = alpha*A*B + beta*C, alone or under mpirun
    Mxm(Box<mxm::Arguments>),
    /// Show what hosts have and the devices that would be made of it; under mpirun all hosts of the job
    Topology(topology::Arguments),
    /// Measure what the devices of this host can do
    Devices(devices::Arguments),
    /// Split units of work over devices whose models are in points files
    Partition(partition::Arguments),
    /// Arrange areas, or nodes whose models are in files, as rectangles of a matrix that need little
    /// communication
    Layout(layout::LayoutArguments),
    /// Show what points files say about speed and time, and the models made of them
    Model(model::Arguments),
}

fn main() -> ExitCode {
    start_log();
    let status = match Arguments::try_parse() {
        Ok(arguments) => run(&arguments.command),
        // Help and version are no failures, and go to standard output.
        Err(message) if !message.use_stderr() => {
            tell_once(|| status(output::told(message.print())))
        }
        Err(mistake) => {
            tell_once(|| {
                let _ = mistake.print();
                2
            });
            2
        }
    };
    ExitCode::from(status)
}

/// Runs a command; its exit status.
fn run(command: &Command) -> u8 {
    let answer = match command {
        Command::Mxm(arguments) => return run_on_ranks(|comm| mxm::run(comm, arguments)),
        Command::Topology(arguments) if arguments.is_of_job() => {
            return run_on_ranks(|comm| topology::run_on_ranks(comm, arguments));
        }
        // The other commands are for one process; of several, the first one does it.
        _ if launched_rank() != 0 => Ok(String::new()),
        Command::Topology(arguments) => topology::run(arguments),
        Command::Devices(arguments) => devices::run(arguments),
        Command::Partition(arguments) => partition::run(arguments),
        Command::Layout(arguments) => layout::run(arguments),
        Command::Model(arguments) => model::run(arguments),
    };
    status(answer.and_then(|answer| output::write(&answer)))
}

/// Tells a failure; the exit status.
fn status(outcome: Result<(), Failure>) -> u8 {
    outcome.map_or_else(|failure| failure.tell(), |()| 0)
}

/// Runs a command on all ranks of the job.
fn run_on_ranks(command: impl FnOnce(&dyn Comm) -> Result<(), Failure>) -> u8 {
    let comm = match connect() {
        Ok(comm) => comm,
        Err(error) if launched_rank() == 0 => return Failure::from(error).tell(),
        Err(error) => {
            // Without a communicator there is no waiting for the head rank to tell why; a moment does.
            std::thread::sleep(Duration::from_secs(1));
            return Failure::from(error).status;
        }
    };
    let status = match command(comm.as_ref()) {
        Ok(()) => 0,
        Err(failure) if comm.rank() == 0 => failure.tell(),
        Err(failure) => failure.status,
    };
    // A launcher ends the job as soon as one rank has ended with a failure: nobody leaves before the head rank has
    // said what it was.
    comm.barrier();
    status
}

/// Runs `tell` on the head rank, before any rank leaves; the exit status that it gives, 0 on other ranks. All
/// ranks find the same to tell; one tells it.
fn tell_once(tell: impl FnOnce() -> u8) -> u8 {
    let comm = connect().ok();
    let status = match comm.as_ref().map_or(launched_rank(), |comm| comm.rank()) {
        0 => tell(),
        _ => 0,
    };
    if let Some(comm) = comm {
        comm.barrier();
    }
    status
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
