//! `cargo xtask lint`: the checks that run no test.

use std::process::Command;

use anyhow::Result;

use crate::build;
use crate::install;
use crate::machine;
use crate::mpi::Library;
use crate::needs::Goal;
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// The checks by cargo: their names and its arguments.
///
/// Clippy checks in release, as the tests are built, so that build scripts and macros are compiled once. The dependency
/// rules may allow an edge of the design that no crate uses yet. The program `isochron` would overwrite the pages of
/// the library of the same name. Without MPI only libraries that have it as a feature are checked again, and the test of the
/// C calls; packages that always use MPI, if only in tests, are left out. Nothing is built then, since libraries without MPI
/// would overwrite those with it.
const CHECKS: [(&str, &str); 5] = [
    ("formatting", "fmt --all --check"),
    (
        "clippy",
        "clippy --release --workspace --all-targets --features isochron-cli/test-hooks -- -D warnings",
    ),
    (
        "clippy without MPI",
        "clippy --release --workspace --exclude isochron-cli --exclude isochron-tests --exclude isochron-core \
         --no-default-features --lib --test calls -- -D warnings",
    ),
    (
        "dependency rules",
        "deny --workspace check --allow unused-wrapper licenses bans sources",
    ),
    (
        "documentation",
        "doc --release --workspace --no-deps --exclude isochron-cli",
    ),
];

/// Checks formatting, clippy, dependency rules and documentation, each without a single warning.
///
/// # Errors
/// When a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    provide_tools(workspace, steps)?;
    for (name, line) in CHECKS {
        let mut check = build::cargo(workspace, &mpi, line);
        steps.run(name, || execute(check.env("RUSTDOCFLAGS", "-D warnings")))?;
    }
    Ok(())
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
            let line = "install --debug cargo-deny --locked";
            execute(&mut workspace.cargo(Library::OpenMpi, line))
        })?;
    }
    Ok(())
}
