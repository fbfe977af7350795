//! `cargo xtask test`: unit, doc and multi-rank tests.

use std::env;
use std::num::NonZero;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

use crate::FUZZ_SECONDS;
use crate::build::{self, EVERYTHING, ISOCHRON_ALONE, ISOCHRON_AND_CASES, TEST_HOOKS};
use crate::bundle;
use crate::cluster;
use crate::fuzz;
use crate::install;
use crate::interface;
use crate::machine;
use crate::mpi::{Library, MpiInstallation};
use crate::needs::{Goal, find_browser, find_python};
use crate::portable;
use crate::prefix;
use crate::steps::{Steps, execute};
use crate::wheel;
use crate::workspace::Workspace;

/// The programs that the multi-rank tests launch.
const PROGRAMS: &[(&str, &str)] =
    &[("BIN", "isochron"), ("CASES", "isochron-cases"), ("STENCIL", "examples/stencil")];

/// The harness reads the number of tests that run at one time from this variable.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// The tests to run.
#[derive(Debug, Default, clap::Args)]
pub struct TestOptions {
    /// Also all combinations of the tables (of the largest one of eight), all with the standard ABI of MPI, all programs under valgrind, reports in a browser, campaigns in jobs of
    /// Slurm, tests by ReFrame and JUBE, the Python package without MPI, training with PyTorch, the lists of public items, a minute of `fuzz`,
    /// and a bundle with the tests, also as a container image
    #[arg(long)]
    pub all: bool,
    /// Print the time of each test; leaves the tests of documentation out
    #[arg(long)]
    pub times: bool,
    /// Passed to every test program, e.g. `-- summa` runs the tests named so
    #[arg(last = true)]
    pub filter: Vec<String>,
}

/// Builds with the MPI libraries, then runs unit, doc and multi-rank tests.
///
/// # Errors
/// Fails if a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, options: &TestOptions) -> Result<()> {
    let goal = if options.all { Goal::TestAll } else { Goal::Test };
    install::ensure(goal, steps)?;
    let python = find_python().context("no Python with numpy was found")?;
    let open_mpi = build::prepare(workspace, Library::OpenMpi)?;
    build::release(workspace, steps, &open_mpi, &format!("{EVERYTHING} {TEST_HOOKS}"))?;
    let mpich = build::prepare(workspace, Library::Mpich)?;
    let with_libraries = format!("{ISOCHRON_AND_CASES} --lib");
    build::release(workspace, steps, &mpich, &format!("{with_libraries} {TEST_HOOKS}"))?;
    let abi = build::prepare(workspace, Library::Abi)?;
    let for_abi = if options.all { &with_libraries } else { ISOCHRON_ALONE };
    build::release(workspace, steps, &abi, &format!("{for_abi} {TEST_HOOKS}"))?;
    let tested = [&open_mpi, &mpich].into_iter().chain(options.all.then_some(&abi));
    let installed = workspace.target(Library::OpenMpi).join("installed");
    let kinds: Vec<Library> = tested.clone().map(|mpi| mpi.kind).collect();
    steps.run("install", || prefix::write_files(workspace, &kinds, &installed))?;
    let packages = steps.run("packages of Python", || wheel::fetch_packages(workspace))?;
    // The selection of the first build, so that nothing is compiled twice with other features.
    let line = format!("test --release --workspace --no-fail-fast {TEST_HOOKS}");
    let mut command = build::cargo(workspace, &open_mpi, &line);
    command.env("ISOCHRON_PYTHON", python);
    command.env("ISOCHRON_PREFIX", installed);
    // No test depends on what an earlier one left, or leaves anything to the user.
    command.env("ISOCHRON_STORE", "");
    command.env("ISOCHRON_TEST_ALL", if options.all { "1" } else { "0" });
    command.env(TEST_THREADS, choose_test_threads(options.all));
    command.env("ISOCHRON_PYTHON_PACKAGES", packages);
    // The loader, and the linker of programs in C.
    abi.lead_loader(&mut command);
    for mpi in [&open_mpi, &mpich, &abi] {
        name_programs(&mut command, workspace, mpi, PROGRAMS);
    }
    for mpi in tested {
        let wheel = steps.run("wheel", || wheel::pack(workspace, mpi))?;
        command.env(format!("ISOCHRON_WHEEL_{}", mpi.kind.suffix()), wheel);
    }
    if options.all {
        if let Some(browser) = find_browser() {
            command.env("ISOCHRON_BROWSER", browser);
        }
        let wheel =
            steps.run("wheel without MPI", || portable::pack(workspace, env::consts::ARCH))?;
        command.env("ISOCHRON_WHEEL_WITHOUT_MPI", wheel);
        let wheels = steps.run("mpi4py", || wheel::provide_abi_wheels(workspace, &abi))?;
        command.env("ISOCHRON_WHEELS_ABI", wheels);
        let reframe = steps.run("ReFrame", || wheel::provide_reframe(workspace))?;
        command.env("ISOCHRON_REFRAME", reframe);
        let torch = || wheel::provide_environment(workspace, "torch", &wheel::TORCH);
        let torch = steps.run("PyTorch", torch)?;
        command.env("ISOCHRON_TORCH", torch);
    }
    command.env(cluster::VARIABLE, cluster::program_path(workspace));
    let bench = workspace.binary(Library::OpenMpi, "isochron-bench");
    command.env("ISOCHRON_BENCH", bench);
    if options.times {
        report_times(&mut command)?;
    } else if !options.filter.is_empty() {
        command.arg("--");
    }
    steps.run("tests", || execute(command.args(&options.filter)))?;
    if options.all {
        interface::check(workspace, steps, &open_mpi)?;
        fuzz::run(workspace, steps, FUZZ_SECONDS)?;
        bundle::run(workspace, steps, Library::OpenMpi, true, true)?;
    }
    Ok(())
}

/// Returns the number of tests that run at one time: what the user says, or three for each core. A test that launches ranks
/// waits longer for them to start, meet and end than it computes. Ranks of long tables compute, so `all` tests run one for each
/// core.
fn choose_test_threads(all: bool) -> String {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let at_one_time = if all { cores } else { 3 * cores };
    machine::read_variable(TEST_THREADS).unwrap_or_else(|| at_one_time.to_string())
}

/// Makes the test programs print the time of each test, which the stable harness does only if it is told to be another
/// one.
///
/// That is told to the programs and not to cargo, which would build everything again.
fn report_times(command: &mut Command) -> Result<()> {
    let version = machine::read_output("rustc", &["-vV"]).context("rustc does not start")?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not tell its host")?;
    let runner = format!("CARGO_TARGET_{}_RUNNER", host.to_uppercase().replace('-', "_"));
    command.env(runner, "env RUSTC_BOOTSTRAP=1");
    let words = "--lib --bins --tests -- -Zunstable-options --report-time";
    command.args(words.split(' '));
    Ok(())
}

/// Names the launcher and the programs of one MPI library in a command's environment.
///
/// `programs` pairs the middle of a variable's name with an executable: `("BIN", "isochron")`
/// becomes `ISOCHRON_BIN_MPICH`.
pub fn name_programs(
    command: &mut Command,
    workspace: &Workspace,
    mpi: &MpiInstallation,
    programs: &[(&str, &str)],
) {
    let suffix = mpi.kind.suffix();
    command.env(format!("ISOCHRON_MPIRUN_{suffix}"), &mpi.launcher);
    command.env(format!("ISOCHRON_MPICC_{suffix}"), &mpi.compiler);
    for (what, name) in programs {
        let path = workspace.binary(mpi.kind, name);
        command.env(format!("ISOCHRON_{what}_{suffix}"), path);
    }
}
