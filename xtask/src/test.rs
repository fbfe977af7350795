//! `cargo xtask test`: every test there is.

use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, BENCH, ISOCHRON_AND_CASES};
use crate::cluster::{self, CLUSTER};
use crate::install;
use crate::mpi::{Library, Mpi};
use crate::needs::{Goal, python};
use crate::probe::Machine;
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// What the multi-rank tests launch.
const PROGRAMS: &[(&str, &str)] = &[("BIN", "isochron"), ("CASES", "isochron-cases")];

/// Builds with both MPI libraries, then runs unit, doc and multi-rank tests.
///
/// # Errors
/// When a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, filter: &[String]) -> Result<()> {
    install::ensure(Goal::Test, steps)?;
    let open_mpi = build::prepare(workspace, Library::OpenMpi)?;
    let mpich = build::prepare(workspace, Library::Mpich)?;
    let python = python(&Machine).context("no Python with numpy was found")?;
    build::release(
        workspace,
        steps,
        &open_mpi,
        &[ISOCHRON_AND_CASES, BENCH, CLUSTER].concat(),
    )?;
    build::release(workspace, steps, &mpich, ISOCHRON_AND_CASES)?;
    let cargo_test = |args: &[&str]| {
        let mut command = build::cargo(workspace, &open_mpi, &["test", "--release"]);
        command.args(args).env("ISOCHRON_PYTHON", &python);
        if !filter.is_empty() {
            command.arg("--").args(filter);
        }
        command
    };
    steps.run("unit and doc tests", || {
        execute(&mut cargo_test(&[
            "--workspace",
            "--exclude",
            "isochron-tests",
        ]))
    })?;
    steps.run("multi-rank tests", || {
        let mut command = cargo_test(&["-p", "isochron-tests"]);
        for mpi in [&open_mpi, &mpich] {
            name_programs(&mut command, workspace, mpi, PROGRAMS);
        }
        command.env(cluster::VARIABLE, cluster::path(workspace));
        let campaigns = workspace.binary(Library::OpenMpi, "isochron-bench");
        command.env("ISOCHRON_BENCH", campaigns);
        execute(&mut command)
    })
}

/// Tells a command where the launcher and the programs of one MPI library are.
///
/// `programs` pairs the middle of a variable's name with an executable: `("BIN", "isochron")`
/// becomes `ISOCHRON_BIN_MPICH`.
pub fn name_programs(
    command: &mut Command,
    workspace: &Workspace,
    mpi: &Mpi,
    programs: &[(&str, &str)],
) {
    let suffix = mpi.kind.suffix();
    command.env(format!("ISOCHRON_MPIRUN_{suffix}"), &mpi.launcher);
    for (what, name) in programs {
        let path = workspace.binary(mpi.kind, name);
        command.env(format!("ISOCHRON_{what}_{suffix}"), path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_named_for_their_library() {
        let workspace = Workspace::locate().unwrap();
        let mpich = Mpi {
            kind: Library::Mpich,
            compiler: "mpicc.mpich".to_owned(),
            launcher: "mpirun.mpich".to_owned(),
        };
        let mut command = Command::new("tests");
        name_programs(&mut command, &workspace, &mpich, PROGRAMS);
        let value = |name: &str| {
            let mut all = command.get_envs();
            let (_, value) = all.find(|(key, _)| *key == name).unwrap();
            value.unwrap().to_string_lossy().into_owned()
        };
        assert_eq!(value("ISOCHRON_MPIRUN_MPICH"), "mpirun.mpich");
        assert!(value("ISOCHRON_BIN_MPICH").ends_with("-mpich/release/isochron"));
        assert!(value("ISOCHRON_CASES_MPICH").ends_with("-mpich/release/isochron-cases"));
    }
}
