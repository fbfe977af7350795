//! `cargo xtask lint`: what needs no test to run.

use std::process::Command;

use anyhow::Result;

use crate::build;
use crate::install;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::probe::{Machine, Probe};
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// Formatting, clippy, dependency rules and documentation, each without a single warning.
///
/// # Errors
/// When a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    provide_tools(workspace, steps)?;
    let cargo = |args: &[&str]| build::cargo(workspace, &mpi, args);
    steps.run("formatting", || {
        execute(&mut cargo(&["fmt", "--all", "--check"]))
    })?;
    steps.run("clippy", || {
        let args = ["clippy", "--workspace", "--all-targets"];
        execute(cargo(&args).args(["--", "-D", "warnings"]))
    })?;
    steps.run("dependency rules", || {
        // The rules may allow an edge of the design that no crate uses yet.
        let rules = ["--allow", "unused-wrapper", "licenses", "bans", "sources"];
        execute(cargo(&["deny", "--workspace", "check"]).args(rules))
    })?;
    steps.run("documentation", || {
        // The program `isochron` would overwrite the pages of the library of the same name.
        let args = [
            "doc",
            "--workspace",
            "--no-deps",
            "--exclude",
            "isochron-cli",
        ];
        execute(cargo(&args).env("RUSTDOCFLAGS", "-D warnings"))
    })
}

/// Installs the cargo tools that are missing.
fn provide_tools(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    for (tool, component) in [("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")] {
        if !Machine.runs(tool, &["--version"]) {
            steps.run(&format!("install {component}"), || {
                execute(Command::new("rustup").args(["component", "add", component]))
            })?;
        }
    }
    if !Machine.runs("cargo-deny", &["--version"]) {
        steps.run("install cargo-deny", || {
            let args = ["install", "cargo-deny", "--locked"];
            execute(&mut workspace.cargo(Library::OpenMpi, &args))
        })?;
    }
    Ok(())
}
