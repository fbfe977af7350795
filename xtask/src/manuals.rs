//! `cargo xtask manuals`: man pages and shell completions, which the program makes of its own command line, and the schemas of
//! its documents.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::build::{self, ISOCHRON};
use crate::install;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::steps::{Steps, execute, show_path};
use crate::workspace::Workspace;

/// Makes the program able to write the schemas of its documents.
const SCHEMAS: &str = "--features schemars";

/// Builds the program and has it write its manuals into the folder `out`; prints the folder.
///
/// # Errors
/// Fails when a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps, out: Option<PathBuf>) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let library = Library::OpenMpi;
    let mpi = build::prepare(workspace, library)?;
    build::release(workspace, steps, &mpi, &format!("{ISOCHRON} {SCHEMAS}"))?;
    let share = out.unwrap_or_else(|| workspace.target(library).join("manuals"));
    steps.run("manuals", || write_manuals(&workspace.binary(library, "isochron"), &share))?;
    println!("\n{}", show_path(&share));
    Ok(())
}

/// Has a program write its manuals into a `share` folder.
///
/// # Errors
/// Fails when it fails.
pub fn write_manuals(program: &Path, share: &Path) -> Result<()> {
    execute(Command::new(program).arg("write-manuals").arg(share))
}
