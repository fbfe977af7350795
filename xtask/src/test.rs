//! `cargo xtask test`: unit, doc and multi-rank tests.

use std::process::Command;

use anyhow::{Context, Result};

use crate::FUZZ_SECONDS;
use crate::build::{self, EVERYTHING, ISOCHRON_AND_CASES};
use crate::cluster;
use crate::fuzz;
use crate::install;
use crate::mpi::{Library, MpiInstallation};
use crate::needs::{Goal, find_python};
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// The programs that the multi-rank tests launch.
const PROGRAMS: &[(&str, &str)] = &[("BIN", "isochron"), ("CASES", "isochron-cases")];

/// Builds with both MPI libraries, then runs unit, doc and multi-rank tests; with `all` the slow ones too.
///
/// # Errors
/// When a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, all: bool, filter: &[String]) -> Result<()> {
    install::ensure(Goal::Test, steps)?;
    let python = find_python().context("no Python with numpy was found")?;
    let open_mpi = build::prepare(workspace, Library::OpenMpi)?;
    build::release(workspace, steps, &open_mpi, EVERYTHING)?;
    let mpich = build::prepare(workspace, Library::Mpich)?;
    build::release(workspace, steps, &mpich, ISOCHRON_AND_CASES)?;
    // The selection of the first build, so that nothing is compiled twice with other features.
    let mut command = build::cargo(workspace, &open_mpi, &["test", "--release", "--workspace"]);
    command.env("ISOCHRON_PYTHON", python);
    command.env("ISOCHRON_TEST_ALL", if all { "1" } else { "0" });
    for mpi in [&open_mpi, &mpich] {
        name_programs(&mut command, workspace, mpi, PROGRAMS);
    }
    command.env(cluster::VARIABLE, cluster::program_path(workspace));
    let campaigns = workspace.binary(Library::OpenMpi, "isochron-bench");
    command.env("ISOCHRON_BENCH", campaigns);
    if !filter.is_empty() {
        command.arg("--").args(filter);
    }
    steps.run("tests", || execute(&mut command))?;
    if all {
        fuzz::run(workspace, steps, FUZZ_SECONDS)?;
    }
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
    for (what, name) in programs {
        let path = workspace.binary(mpi.kind, name);
        command.env(format!("ISOCHRON_{what}_{suffix}"), path);
    }
}
