//! `cargo xtask demo`: what balancing gains, shown on one machine.
//!
//! Four ranks, paced so that they are unlike, multiply the same matrices twice: split evenly, then
//! balanced by functional performance models.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::build::{self, ISOCHRON};
use crate::install;
use crate::mpi::{Library, MpiInstallation};
use crate::needs::Goal;
use crate::report::{DemoReport, compare};
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

const N_RANKS: usize = 4;
const MULTIPLICATION: &str =
    "mxm --size 4608 --block 48 --platform cluster-configs/emulated-4.toml --verify probe";

/// Builds, multiplies twice and compares.
///
/// # Errors
/// When a step fails, or when a result was not found right.
pub fn run(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    build::release(workspace, steps, &mpi, ISOCHRON)?;
    let folder = workspace.target(Library::OpenMpi).join("demo");
    fs::create_dir_all(&folder)?;
    let even = steps.run("multiply, split evenly", || {
        multiply(workspace, &mpi, "homogeneous", &folder.join("even.json"))
    })?;
    let balanced = steps.run("multiply, balanced", || {
        multiply(workspace, &mpi, "fpm", &folder.join("fpm.json"))
    })?;
    println!("\n{}", compare(&even, &balanced));
    println!("reports: {}", folder.display());
    for report in [&even, &balanced] {
        let strategy = &report.strategy;
        ensure!(
            report.verified == Some(true),
            "the result of `{strategy}` was not verified"
        );
    }
    Ok(())
}

fn multiply(
    workspace: &Workspace,
    mpi: &MpiInstallation,
    strategy: &str,
    report: &Path,
) -> Result<DemoReport> {
    // A report of an earlier demo must not pass for this one's.
    if report.exists() {
        fs::remove_file(report)?;
    }
    let binary = workspace.binary(Library::OpenMpi, "isochron");
    let mut command = mpi.launch(N_RANKS, &binary);
    command
        .args(MULTIPLICATION.split(' '))
        .args(["--strategy", strategy]);
    command.arg("--report").arg(report);
    execute(command.current_dir(workspace.root()))?;
    let place = report.display().to_string();
    let text = fs::read_to_string(report).with_context(|| place.clone())?;
    serde_json::from_str(&text).context(place)
}
