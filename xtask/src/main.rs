//! `cargo xtask`: set-up, demo, tests, checks and benches of Isochron on one machine.
//!
//! Each command first finds out what the machine lacks ([`needs`]) and installs it where it may ([`install`]). It
//! builds with one target directory for each MPI library ([`build`]), and works in named, timed steps ([`steps`]). Exit
//! codes: 0 success, 1 a step failed, 2 something is missing that cannot be installed from here, or bad usage.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should panic where it stands")
)]

mod bench;
mod build;
mod bundle;
mod check;
mod cluster;
mod demo;
#[cfg(test)]
mod documented;
mod fuzz;
mod install;
mod interface;
mod machine;
mod manuals;
mod mpi;
mod needs;
mod packages;
mod peers;
mod portable;
mod prefix;
mod report;
mod stencils;
mod steps;
mod test;
mod vendor;
mod wheel;
mod workspace;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use install::CannotInstall;
use steps::Steps;
use workspace::Workspace;

/// Set up this machine, then demonstrate, test, check or measure Isochron.
///
/// A particular MPI library is chosen by naming its compiler and its launcher, in pairs:
/// ISOCHRON_MPICC_OPENMPI with ISOCHRON_MPIRUN_OPENMPI, ISOCHRON_MPICC_MPICH with
/// ISOCHRON_MPIRUN_MPICH, and ISOCHRON_MPICC_ABI with ISOCHRON_MPIRUN_ABI. ISOCHRON_PYTHON names a Python that has numpy and venv.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct XtaskArguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Multiply on four unlike ranks, split evenly and then balanced, and compare
    Demo,
    /// Run every test: unit, doc, and multi-rank under Open MPI and MPICH
    Test(test::TestOptions),
    /// All checks that a change must pass: `lint`, `test` and `bundle`
    Ci,
    /// Formatting, clippy, dependency rules, documentation
    Lint,
    /// Run the properties that take any input with new cases until the time is used up
    Fuzz {
        /// Duration
        #[arg(long, default_value_t = FUZZ_SECONDS)]
        seconds: u64,
    },
    /// Pack the program, the libraries it needs and an MPI launcher into one archive that runs anywhere
    Bundle {
        /// Also pack the programs of the multi-rank tests
        #[arg(long)]
        tests: bool,
        /// Also make a container image of it (OCI), for Apptainer, podman and Kubernetes
        #[arg(long)]
        image: bool,
        /// The MPI library that the program is built with and whose launcher is packed
        #[arg(long, value_enum, default_value_t = mpi::Library::OpenMpi)]
        mpi: mpi::Library,
    },
    /// Pack the last commit and the sources of all crates into one archive that builds without a network
    Vendor,
    /// Install the library, header and Fortran module for programs in C, C++ and Fortran
    Install(prefix::PrefixOptions),
    /// Build the Python package and pack it as a wheel, for one MPI library or for none
    Wheel {
        /// The MPI library, that of mpi4py
        #[arg(long, value_enum, default_value_t = mpi::Library::OpenMpi)]
        mpi: mpi::Library,
        /// Without MPI, for any Linux with the GNU C library 2.28 or newer
        #[arg(long, conflicts_with = "mpi")]
        without_mpi: bool,
        /// The processor of a wheel without MPI: x86_64 or aarch64
        #[arg(long, requires = "without_mpi", default_value = env::consts::ARCH)]
        processor: String,
    },
    /// Write the man pages, the shell completions and the schemas of documents into a `share` folder
    Manuals {
        /// The folder [default: `manuals` in the target folder]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Emulate several hosts on this machine, and start ranks on them; `cluster --help` says how
    #[command(disable_help_flag = true)]
    Cluster {
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build in release and measure one campaign of bench/campaigns
    Bench {
        /// The campaign
        name: String,
        /// Passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// Duration of `fuzz` by default, and in `test --all`.
const FUZZ_SECONDS: u64 = 60;

fn main() -> ExitCode {
    let task = XtaskArguments::parse().command;
    let mut steps = Steps::default();
    let outcome = run(task, &mut steps);
    steps.print_summary();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if error.is::<CannotInstall>() { 2 } else { 1 })
        }
    }
}

fn run(task: Task, steps: &mut Steps) -> Result<()> {
    let workspace = Workspace::locate()?;
    match task {
        Task::Demo => demo::run(&workspace, steps),
        Task::Test(options) => test::run(&workspace, steps, &options),
        Task::Ci => {
            check::run(&workspace, steps)?;
            test::run(&workspace, steps, &test::TestOptions::default())?;
            bundle::run(&workspace, steps, mpi::Library::OpenMpi, false, false)
        }
        Task::Lint => check::run(&workspace, steps),
        Task::Fuzz { seconds } => fuzz::run(&workspace, steps, seconds),
        Task::Bundle { tests, image, mpi } => bundle::run(&workspace, steps, mpi, tests, image),
        Task::Vendor => vendor::run(&workspace, steps),
        Task::Install(options) => prefix::run(&workspace, steps, &options),
        Task::Wheel { processor, without_mpi: true, .. } => {
            portable::run(&workspace, steps, &processor)
        }
        Task::Wheel { mpi, .. } => wheel::run(&workspace, steps, mpi),
        Task::Manuals { out } => manuals::run(&workspace, steps, out),
        Task::Cluster { args } => cluster::run(&workspace, steps, &args),
        Task::Bench { name, args } => bench::run(&workspace, steps, &name, &args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        XtaskArguments::command().debug_assert();
    }

    #[test]
    fn words_after_the_dashes_filter_the_tests() {
        let arguments =
            XtaskArguments::try_parse_from(["xtask", "test", "--", "summa", "--nocapture"]);
        let Task::Test(options) = arguments.unwrap().command else {
            panic!("`test` parsed as another command");
        };
        assert_eq!(options.filter, ["summa", "--nocapture"]);
    }

    #[test]
    fn the_cluster_command_gets_its_own_options_and_dashes() {
        for words in [
            &["--help"][..],
            &["up", "2", "--help"],
            &["run", "--ranks", "2", "--", "program", "--help"],
        ] {
            let line = [&["xtask", "cluster"], words].concat();
            let Task::Cluster { args } = XtaskArguments::try_parse_from(line).unwrap().command
            else {
                panic!("`cluster` parsed as another command");
            };
            assert_eq!(args, words);
        }
    }

    #[test]
    fn a_campaign_keeps_its_own_options() {
        let arguments =
            XtaskArguments::try_parse_from(["xtask", "bench", "even-split", "--size", "8"]);
        let Task::Bench { name, args } = arguments.unwrap().command else {
            panic!("`bench` parsed as another command");
        };
        assert_eq!(name, "even-split");
        assert_eq!(args, ["--size", "8"]);
    }
}
