//! `cargo xtask cluster`: several hosts on this machine.
//!
//! A separate program does the work, `isochron-cluster`. Tests and campaigns use it too, and it takes the place of ssh
//! when `mpirun` starts ranks on the hosts.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::install;
use crate::machine;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::steps::Steps;
use crate::workspace::Workspace;

/// The environment variable that names this program to tests and campaigns.
pub const VARIABLE: &str = "ISOCHRON_CLUSTER";

/// Builds the program, and replaces this process by it.
///
/// # Errors
/// Fails when something is missing, or the program cannot be built.
pub fn run(workspace: &Workspace, steps: &mut Steps, args: &[String]) -> Result<()> {
    install::ensure(Goal::Cluster, steps)?;
    let build = "build --quiet --release -p isochron-cluster --bin isochron-cluster";
    let mut cargo = workspace.cargo(Library::OpenMpi, build);
    // Not a word where there is nothing wrong: what follows may be a script's input.
    let built = cargo.status().context("cargo did not start")?;
    ensure!(built.success(), "isochron-cluster was not built");
    let program = program_path(workspace);
    let mut command = Command::new(&program);
    for library in [Library::OpenMpi, Library::Mpich] {
        let name = format!("ISOCHRON_MPIRUN_{}", library.suffix());
        if let Some(mpi) = library.find().filter(|_| machine::read_variable(&name).is_none()) {
            command.env(name, mpi.launcher);
        }
    }
    Err(command.args(args).exec()).with_context(|| program.display().to_string())
}

/// Returns the path of the built program.
pub fn program_path(workspace: &Workspace) -> PathBuf {
    workspace.binary(Library::OpenMpi, "isochron-cluster")
}
