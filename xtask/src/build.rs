//! Release builds against one MPI library.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::machine;
use crate::mpi::{Library, MpiInstallation};
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// The multiplying program.
pub const ISOCHRON: &str = "-p isochron-cli --bin isochron";
/// The same, with the multi-rank cases that the tests launch.
pub const ISOCHRON_AND_CASES: &str =
    "-p isochron-cli --bin isochron -p isochron-tests --bin isochron-cases";
/// Libraries, programs and tests of all packages.
pub const EVERYTHING: &str = "--workspace --lib --bins --tests";

/// Finds `library`, and makes its target directory ready for builds with it.
///
/// The MPI bindings are not rebuilt when the compiler changes, so we note which one they were built
/// with, and clean them when it is another.
///
/// # Errors
/// When the library is not found, or the target directory cannot be written.
pub fn prepare(workspace: &Workspace, library: Library) -> Result<MpiInstallation> {
    let mpi = library
        .find()
        .with_context(|| format!("{} was not found", library.name()))?;
    let target = workspace.target(library);
    if library == Library::Mpich && !target.exists() {
        copy_products(&workspace.target(Library::OpenMpi), &target)?;
    }
    let note = target.join("mpicc.txt");
    let identity = describe_compiler(&mpi);
    if fs::read_to_string(&note).is_ok_and(|known| known == identity) {
        return Ok(mpi);
    }
    if target.exists() {
        for profile in ["dev", "release"] {
            let line = format!("clean --quiet -p mpi-sys --profile {profile}");
            execute(&mut workspace.cargo(library, &line))?;
        }
    }
    fs::create_dir_all(&target)?;
    fs::write(&note, identity).with_context(|| note.display().to_string())?;
    Ok(mpi)
}

/// Copies the products of release builds with another MPI library. Only the MPI bindings and their users differ.
fn copy_products(from: &Path, to: &Path) -> Result<()> {
    for folder in [".fingerprint", "build", "deps"] {
        let source = from.join("release").join(folder);
        if source.exists() {
            fs::create_dir_all(to.join("release"))?;
            // Cargo compares times, so they are kept.
            execute(
                Command::new("cp")
                    .arg("-a")
                    .arg(source)
                    .arg(to.join("release")),
            )?;
        }
    }
    Ok(())
}

/// The compiler and what it runs: `-show` prints include and library folders under every MPI.
fn describe_compiler(mpi: &MpiInstallation) -> String {
    let shown = machine::read_output(&mpi.compiler, &["-show"]).unwrap_or_default();
    format!("{}\n{shown}", mpi.compiler)
}

/// Builds the chosen packages in release, as one step.
///
/// # Errors
/// When cargo fails.
pub fn release(
    workspace: &Workspace,
    steps: &mut Steps,
    mpi: &MpiInstallation,
    packages: &str,
) -> Result<()> {
    let name = format!("build with {}", mpi.kind.name());
    steps.run(&name, || {
        execute(&mut cargo(
            workspace,
            mpi,
            &format!("build --release {packages}"),
        ))
    })
}

/// A cargo command that builds against `mpi`.
pub fn cargo(workspace: &Workspace, mpi: &MpiInstallation, line: &str) -> Command {
    let mut command = workspace.cargo(mpi.kind, line);
    mpi.apply(&mut command);
    command
}
