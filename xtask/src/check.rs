//! `cargo xtask lint`: the checks that run no test.

use std::process::Command;

use anyhow::Result;

use crate::build;
use crate::counts;
use crate::install;
use crate::machine;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// Checks formatting, counts, clippy, dependency rules and documentation, each without a single warning.
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
    steps.run("counts", || counts::run(workspace))?;
    steps.run("clippy", || {
        // In release, as the tests, so that build scripts and macros are compiled once.
        let args = ["clippy", "--release", "--workspace", "--all-targets"];
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
            "--release",
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
        if !machine::can_run(tool, &["--version"]) {
            steps.run(&format!("install {component}"), || {
                execute(Command::new("rustup").args(["component", "add", component]))
            })?;
        }
    }
    if !machine::can_run("cargo-deny", &["--version"]) {
        steps.run("install cargo-deny", || {
            // Unoptimised: it runs for a second, and takes minutes to optimise.
            let args = ["install", "--debug", "cargo-deny", "--locked"];
            execute(&mut workspace.cargo(Library::OpenMpi, &args))
        })?;
    }
    Ok(())
}
