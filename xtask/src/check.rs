//! `cargo xtask lint`: the checks that run no test.

use std::path::PathBuf;
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
/// Clippy checks in release, as the tests are built, so that build scripts and macros are compiled once. The program `isochron` would overwrite the pages of
/// the library of the same name. Without MPI only libraries that have it as a feature are checked again, and the test of the
/// C calls; packages that always use MPI, if only in tests, are left out. Nothing is built then, since libraries without MPI
/// would overwrite those with it.
const CHECKS: [(&str, &str); 4] = [
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
    ("documentation", "doc --release --workspace --no-deps --exclude isochron-cli"),
];

/// The version of cargo-deny: others know other rules.
const DENY_VERSION: &str = "0.20.2";

/// Checks formatting, clippy, dependency rules and documentation, each without a single warning.
///
/// # Errors
/// Fails when a step fails.
pub fn run(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    provide_tools(steps)?;
    for (name, line) in CHECKS {
        let mut check = build::cargo(workspace, &mpi, line);
        steps.run(name, || execute(check.env("RUSTDOCFLAGS", "-D warnings")))?;
    }
    check_dependencies(workspace, steps)
}

/// Checks the rules of `deny.toml`, which may allow an edge of the design that no crate uses yet, and the known flaws of
/// dependencies where their list can be fetched.
fn check_dependencies(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    let program = install_tool(workspace, steps, "cargo-deny", DENY_VERSION)?;
    let deny = |words: &str| {
        let mut command = Command::new(&program);
        command.args(words.split(' ')).current_dir(workspace.root());
        command
    };
    steps.run("dependency rules", || {
        execute(&mut deny("--workspace check --allow unused-wrapper licenses bans sources"))
    })?;
    if execute(&mut deny("--workspace fetch db")).is_err() {
        println!(
            "the list of known flaws cannot be fetched here: dependencies are not compared with it"
        );
        return Ok(());
    }
    steps.run("advisories", || execute(&mut deny("--workspace check --disable-fetch advisories")))
}

/// Installs this version of a tool, unless it is there; returns its program.
///
/// # Errors
/// Fails when it cannot be installed.
pub fn install_tool(
    workspace: &Workspace,
    steps: &mut Steps,
    name: &str,
    version: &str,
) -> Result<PathBuf> {
    let tools = workspace.target(Library::OpenMpi).join("tools");
    let program = tools.join("bin").join(name);
    let found = Command::new(&program).arg("--version").output();
    let wanted = format!("{name} {version}\n");
    if !found.is_ok_and(|found| found.stdout == wanted.as_bytes()) {
        steps.run(&format!("install {name}"), || {
            // Unoptimised: it runs for seconds, and takes minutes to optimise. What it is built of is not kept.
            let line = format!("install --debug --locked --force {name}@{version} --root");
            let mut install = workspace.cargo(Library::OpenMpi, &line);
            execute(install.arg(&tools).env_remove("CARGO_TARGET_DIR"))
        })?;
    }
    Ok(program)
}

/// Installs the components of Rust that are missing.
fn provide_tools(steps: &mut Steps) -> Result<()> {
    for (tool, component) in [("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")] {
        if !machine::can_run(tool, &["--version"]) {
            steps.run(&format!("install {component}"), || {
                execute(Command::new("rustup").args(["component", "add", component]))
            })?;
        }
    }
    Ok(())
}
