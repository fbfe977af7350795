//! The `isochron` command, all of it but ranks over MPI: [`run`] is given the ranks.
//!
//! Exit status: 0 success, 1 the run failed, 2 bad usage or input; `health` and `simulate` have more. With `--json`, standard output holds the
//! machine-readable result and nothing else. Under `mpirun` only the head rank prints.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod address_space;
mod balance;
mod campaign;
mod check;
mod choices;
mod config;
mod documents;
mod examples;
mod failure;
mod health;
mod host_share;
mod launch;
mod layout;
mod lines;
mod links;
mod log;
mod man_pages;
mod manuals;
mod measure;
mod measuring;
mod models;
mod mxm;
mod named_values;
mod numbers;
mod output;
mod own_program;
mod partition;
mod plan;
mod points;
#[cfg(feature = "schemars")]
mod schemas;
mod shades;
mod simulate;
mod table;
mod terminal_line;
mod topology;
mod trace;
mod trace_model;
mod watch;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use examples::add_examples;
use failure::Failure;
use isochron_core::Error;
use isochron_core::comm::{Comm, LocalComm, agree};
pub use isochron_core::internal::obey_tests;
use isochron_core::internal::watch::{RankPhase, RankWatch, Wait, describe_phase, enter};
use isochron_core::internal::{Standing, find_standing, has_other_ranks, launched_rank};
use isochron_devices::internal::{
    ExitWatch, own_libraries, prepare_heap, set_failed_status, watch_exit,
};
pub use isochron_devices::internal::{ReportingHeap, end_at_once};
use isochron_devices::kernel;
use isochron_hierarchy::printable::show_text;
use launch::Launch;
use mxm::{FinishedRun, MxmEnding};
use output::{Answer, note, print_failure};
use signal_hook::consts::SIGXFSZ;
use watch::WatchArguments;

/// The end of every command's help text.
const HELP_END: &str = "\
Environment variables:
  ISOCHRON_BLAS  BLAS that `--blas auto` takes
  ISOCHRON_COMM  `mpi` or `local` [default: mpi under a launcher such as mpirun]
  ISOCHRON_LOG   Events that go to standard error: warn, info, isochron=debug, ...
  ISOCHRON_STORE Folder of the model store, and after colons more that are only read; empty for
                 none [default: $XDG_DATA_HOME/isochron/models, and those in $XDG_DATA_DIRS]

Exit status:
  0  Success
  1  The run failed
  2  The command line or an input is wrong
`isochron health` and `isochron simulate` have more: see their help.";

/// Balances matrix multiplications over unlike nodes, by measured speed.
#[derive(Parser)]
#[command(name = "isochron", version, about, max_term_width = 100, after_help = HELP_END)]
#[command(mut_subcommands(add_examples))]
struct CliArguments {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Multiply matrices: C = alpha*A*B + beta*C, alone or under mpirun
    ///
    /// Of the files about a run, --save-plan and --load-plan hold its division, --trace its course of time to look at, and
    /// --report its totals for scripts.
    Mxm(Box<mxm::MxmArguments>),
    /// Check that a result file holds what the run of a report has computed
    Check(check::CheckArguments),
    /// Show the hosts of the job with their cores, memory and GPUs, and the devices made of them
    Topology(topology::TopologyArguments),
    /// Measure the times of a kernel over a range of sizes (a full model), on all ranks at once
    Measure(Box<measure::MeasureArguments>),
    /// Find devices of the job that are slower than those like them, and the likely cause
    ///
    /// All devices are measured at once at 7 sizes. Devices of equal models and limits are compared, fewer than four with
    /// their earlier times in the model store. A device is slow if it is more than 5 % and more than 3.5 robust
    /// deviations below its class, in a second look too. The last line of the answer tells it all, as a reason to drain
    /// a node.
    ///
    /// Then all devices multiply whole numbers, and every element is compared; and the links between several hosts are checked as by
    /// `links`.
    ///
    /// The exit status is 0 if all devices are healthy, 1 if one is slow or computes wrongly or a link is slow, 2 if one failed or
    /// the check itself did, and 3 if there is nothing to compare one with.
    Health(Box<health::HealthArguments>),
    /// Find the levels of the network between the hosts of the job, and links that are slower than those like them
    ///
    /// One rank of each host, or all ranks of one host, exchange short and long messages in pairs, all at once, until every pair
    /// has met. What is slow in a second look too is named with the likely cause. Times of all links go into the model store, so that the
    /// next run of these ranks need not measure them. The exit status is 0 if nothing is slow, and 1 otherwise.
    Links(links::LinksArguments),
    /// Divide a kernel's units over the ranks so that all take the same time, by measuring and dividing again
    Balance(Box<balance::DpaArguments>),
    /// Write a platform file with the devices of every rank's host, to be edited and passed by --platform
    Config(config::ConfigArguments),
    /// Predict a multiplication on the nodes of a platform file with a network, without them, and choose its layout and block
    Plan(plan::PlanArguments),
    /// Write a plan as a platform and a trace of SimGrid, replay them with its engine, and compare both predictions
    ///
    /// Writes platform.xml, hosts, traces (a list of the trace files) and a trace file for each process. Each rank is a process
    /// that computes and, unless k is divided, one for each set of panels under way. The exit status is 3 if there is no
    /// `smpirun`: all is written, and only the plan's prediction is printed.
    Simulate(simulate::SimulateArguments),
    /// Split units of work over devices, by models in points files
    Partition(partition::PartitionArguments),
    /// Lay out areas, or nodes with models in files, as rectangles of a matrix with little communication
    Layout(layout::LayoutArguments),
    /// Make points files from traces of an instrumented application (Paraver, Chrome)
    TraceModel(Box<trace_model::TraceArguments>),
    /// Show models in files and in the store that earlier runs have filled; list, compare and tidy the stored ones
    #[command(subcommand)]
    Models(models::ModelsCommand),
    /// Measure any programs against each other over combinations of parameters, resume, report and compare
    #[command(subcommand)]
    Campaign(campaign::CampaignCommand),
}

/// Runs the command line of this process on all ranks of its job.
///
/// `connect` joins the ranks, and `prepare` is called on each as soon as they are joined.
pub fn run(connect: fn() -> Result<Arc<dyn Comm>, Error>, prepare: fn()) -> ExitCode {
    let own_calls = measure::serve_if_asked().or_else(manuals::write_if_asked);
    if let Some(status) = own_calls.or_else(campaign::describe_if_asked) {
        return ExitCode::from(status);
    }
    let launch = Launch::of_process(Instant::now());
    if launch.is_health() {
        set_failed_status(health::FAILED);
    }
    own_libraries();
    prepare_heap(launched_rank());
    // A write beyond `ulimit -f` then fails, and does not end the process. Without it there is less to say about the end.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let may_start_mpi = launch.needs_ranks() || has_other_ranks();
    if may_start_mpi && let Some(status) = address_space::refuse_little_space() {
        return ExitCode::from(status);
    }
    let exit_watch = match own_process(&launch) {
        Ok(watch) => watch,
        Err(failure) => return ExitCode::from(print_failure(&failure)),
    };
    let log = log::start(launched_rank());
    let mut watch = launch.find_watch().and_then(WatchArguments::start);
    let status = match join_ranks(connect, &launch) {
        Ok(comm) => {
            prepare();
            let outcome = run_on_ranks(&comm, log, &mut watch, &launch);
            enter(RankPhase::End);
            let ending = Wait::begin();
            drop(comm);
            drop(ending);
            outcome.map_or_else(|status| status, publish)
        }
        Err(error) => end_alone(error, &launch),
    };
    // The file system of a report may stand still too.
    drop(watch);
    drop(exit_watch);
    ExitCode::from(status)
}

/// Makes standard output and the exit status this program's own, before it calls kernels and libraries.
fn own_process(launch: &Launch) -> Result<ExitWatch, Failure> {
    // Help and versions are printed by the parser of the command line.
    if launch.arguments.is_ok() {
        output::keep_stdout()
            .map_err(|error| Failure::run(format!("cannot use standard output: {error}")))?;
    }
    Ok(watch_exit(describe_exit))
}

/// Describes an end of the process that is not this program's.
fn describe_exit() -> String {
    // The process ends without the drops that remove them.
    output::remove_partial_files();
    let reason = kernel::describe_exit().unwrap_or_else(|| {
        let advice = match find_standing() {
            Standing::Unknown => {
                ". If no launcher runs and its variables are left over, set ISOCHRON_COMM=local"
            }
            _ => "",
        };
        format!(
            "a library (MPI, BLAS or CUDA) ended the process before the result was there, while it was {}; its own message \
             may stand above{advice}",
            describe_phase()
        )
    });
    let reason = show_text(&reason);
    format!("isochron: rank {}: {reason}\n", launched_rank())
}

/// Joins the ranks of the job, if this command or other ranks need that.
///
/// Ranks of a launcher always compare their command lines: a rank that went its own way would leave others waiting.
fn join_ranks(
    connect: fn() -> Result<Arc<dyn Comm>, Error>,
    launch: &Launch,
) -> Result<Arc<dyn Comm>, Error> {
    let alone = || Ok::<Arc<dyn Comm>, Error>(Arc::new(LocalComm::new()));
    if !launch.needs_ranks() && !has_other_ranks() {
        return alone();
    }
    let starting = Wait::begin();
    let connected = connect();
    drop(starting);
    match connected {
        // Its ranks cannot be joined: of those that a launcher has started, the first one runs the command.
        Err(_) if !launch.needs_ranks() && launched_rank() == 0 => alone(),
        connected => connected,
    }
}

/// Ends a rank that could not join the others; returns its exit status. An error that all ranks have is printed by the first.
fn end_alone(error: Error, launch: &Launch) -> u8 {
    let is_of_all =
        matches!(error, Error::Rank { .. } | Error::Settings(_) | Error::Launcher { .. });
    if !is_of_all || launched_rank() == 0 || *find_standing() != Standing::Rank {
        return print_failure(&Failure::from(error));
    }
    // Without a communicator no barrier waits for the first rank's words: a moment must do.
    std::thread::sleep(Duration::from_secs(1));
    match &launch.arguments {
        Ok(_) if !launch.needs_ranks() => 0,
        Err(message) if !message.use_stderr() => 0,
        _ => Failure::from(error).status,
    }
}

impl Subcommands {
    /// Returns how the ranks are watched, if this is a command of the whole job.
    fn find_watch(&self) -> Option<WatchArguments> {
        match self {
            Self::Mxm(arguments) => Some(arguments.watch),
            Self::Measure(arguments) => Some(arguments.watch),
            Self::Health(arguments) => Some(arguments.watch()),
            Self::Links(arguments) => Some(arguments.watch),
            Self::Balance(arguments) => Some(arguments.watch),
            Self::Topology(arguments) => arguments.is_of_job().then_some(WatchArguments::DEFAULT),
            Self::Config(_) => Some(WatchArguments::DEFAULT),
            Self::Check(_)
            | Self::Plan(_)
            | Self::Simulate(_)
            | Self::Partition(_)
            | Self::Layout(_)
            | Self::TraceModel(_)
            | Self::Models(_)
            | Self::Campaign(_) => None,
        }
    }
}

/// Runs the command on all ranks of the job; returns the results to publish after the end of MPI.
fn run_on_ranks<'a>(
    comm: &Arc<dyn Comm>,
    log: Result<(), Error>,
    watch: &mut Option<RankWatch>,
    launch: &'a Launch,
) -> Result<Option<FinishedRun<'a>>, u8> {
    let is_head = comm.rank() == 0;
    let outcome = match (agree_on_launch(comm.as_ref(), log, watch, launch), &launch.arguments) {
        (Ok(()), Ok(arguments)) => run_command(comm, launch.start, &arguments.command),
        (Ok(()), Err(message)) if is_head => print_message(message).map(|()| None),
        (agreed, _) => agreed.map(|()| None),
    };
    let outcome = match (outcome, &launch.arguments) {
        (Err(failure), _) if is_head => Err(print_failure(&failure)),
        (Err(failure), _) => Err(failure.status),
        (Ok(_), Err(message)) if message.use_stderr() => Err(2),
        (Ok(finished), _) => Ok(finished),
    };
    // A launcher ends the job as soon as one rank has failed, so all ranks wait for the head rank's message.
    // If it fails, the others know already that a rank has failed.
    let _ = comm.barrier();
    outcome
}

/// Publishes the report of a finished run on the head rank; returns the exit status.
fn publish(finished: Option<FinishedRun<'_>>) -> u8 {
    let Some(finished) = finished else {
        return 0;
    };
    enter(RankPhase::Write);
    finished.close().and_then(Answer::print).map_or_else(|failure| print_failure(&failure), |()| 0)
}

/// Prints help, a version or a mistake in the command line.
fn print_message(message: &clap::Error) -> Result<(), Failure> {
    let text = message.render().to_string();
    let shown = show_text(&text);
    if message.use_stderr() && shown != text {
        let _ = write!(std::io::stderr(), "{shown}");
        return Ok(());
    }
    let printed = message.print();
    // If standard error is closed, the status has to say it all.
    if message.use_stderr() { Ok(()) } else { output::check_printed(printed) }
}

fn agree_on_launch(
    comm: &dyn Comm,
    log: Result<(), Error>,
    watch: &mut Option<RankWatch>,
    launch: &Launch,
) -> Result<(), Failure> {
    launch.agree(comm)?;
    agree(comm, log)?;
    if launch.find_watch().is_some() {
        *watch = RankWatch::join(watch.take(), comm, note)?;
        enter(RankPhase::Work);
    }
    Ok(())
}

fn run_command<'a>(
    comm: &Arc<dyn Comm>,
    start: Instant,
    command: &'a Subcommands,
) -> Result<Option<FinishedRun<'a>>, Failure> {
    let answer = match command {
        Subcommands::Mxm(arguments) => match mxm::run(comm, start, arguments)? {
            Some(MxmEnding::Run(finished)) => return Ok(Some(*finished)),
            Some(MxmEnding::Answer(answer)) => Some(answer),
            None => None,
        },
        Subcommands::Measure(arguments) => measure::run(comm, arguments)?,
        Subcommands::Health(arguments) => health::run(comm, arguments)?,
        Subcommands::Links(arguments) => links::run(comm, arguments)?,
        Subcommands::Balance(arguments) => balance::run(comm.as_ref(), arguments)?,
        Subcommands::Config(arguments) => config::run(comm.as_ref(), arguments)?,
        Subcommands::Topology(arguments) if arguments.is_of_job() => {
            topology::run_on_ranks(comm.as_ref(), arguments)?
        }
        // The other commands are for one process: of several, the first one runs them.
        _ if comm.rank() != 0 => None,
        Subcommands::Check(arguments) => Some(check::run(arguments)?),
        Subcommands::Topology(arguments) => Some(topology::run(arguments)?),
        Subcommands::Plan(arguments) => Some(plan::run(arguments)?),
        Subcommands::Simulate(arguments) => Some(simulate::run(arguments)?),
        Subcommands::Partition(arguments) => Some(partition::run(arguments)?),
        Subcommands::Layout(arguments) => Some(layout::run(arguments)?),
        Subcommands::TraceModel(arguments) => Some(trace_model::run(arguments)?),
        Subcommands::Models(command) => Some(models::run(command)?),
        Subcommands::Campaign(command) => Some(campaign::run(command)?),
    };
    answer.map_or(Ok(()), Answer::print).map(|()| None)
}
