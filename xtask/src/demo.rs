//! `cargo xtask demo`: what balancing gains, shown on one machine.
//!
//! Four ranks, paced so that they are unlike, multiply the same matrices twice: split evenly, then
//! balanced by the default strategy.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::build::{self, ISOCHRON};
use crate::install;
use crate::mpi::{Library, MpiInstallation};
use crate::needs::Goal;
use crate::report::{DemoReport, compare};
use crate::steps::{Steps, execute, show_path};
use crate::workspace::Workspace;

const N_RANKS: usize = 4;
const MULTIPLICATION: &str =
    "mxm --size 4608 --block 48 --platform cluster-configs/emulated-4.toml --verify probe";

/// Introduction, at most 80 characters a line.
const BEFORE: &str = "\
Four ranks on this machine stand for four unlike nodes: paces make them 2, 4, 8
and 8 times as slow as a core. They multiply the same matrices twice.
* Split evenly, each node gets a quarter, and the fast ones wait for the slow.
* Balanced, a short look at each device divides the work. Then the steps show
  each device's speed, and work moves where that pays.";

/// Explanation of the results, at most 80 characters a line.
const AFTER: &str = "\
Compare `busy s` of the nodes above: after the even split, the slow ones are
busy longest. Balanced, all nodes are busy for about the same time. `ideal` is
the time of a perfect division at the speeds that the devices showed.";

/// Builds, multiplies twice and compares.
///
/// # Errors
/// Fails when a step fails, or when a result was not found right.
pub fn run(workspace: &Workspace, steps: &mut Steps) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    build::release(workspace, steps, &mpi, ISOCHRON)?;
    let folder = workspace.target(Library::OpenMpi).join("demo");
    fs::create_dir_all(&folder)?;
    println!("\n{BEFORE}");
    let even = ["--strategy", "homogeneous"];
    let even = steps.run("multiply, split evenly", || {
        multiply(workspace, &mpi, &even, &folder.join("even.json"))
    })?;
    let balanced = steps.run("multiply, balanced", || {
        multiply(workspace, &mpi, &[], &folder.join("balanced.json"))
    })?;
    println!("\n{}\n{AFTER}", compare(&even, &balanced));
    println!("reports: {}", show_path(&folder));
    for report in [&even, &balanced] {
        let strategy = &report.strategy;
        ensure!(report.verified == Some(true), "the result of `{strategy}` was not verified");
    }
    Ok(())
}

fn multiply(
    workspace: &Workspace,
    mpi: &MpiInstallation,
    options: &[&str],
    report: &Path,
) -> Result<DemoReport> {
    // A report of an earlier demo must not pass for this one's.
    if report.exists() {
        fs::remove_file(report)?;
    }
    let binary = workspace.binary(Library::OpenMpi, "isochron");
    let mut command = mpi.launch(N_RANKS, &binary);
    command.args(MULTIPLICATION.split(' ')).args(options);
    command.arg("--report").arg(report);
    // The demo shows learning from nothing, however often it runs.
    command.env("ISOCHRON_STORE", "");
    execute(command.current_dir(workspace.root()))?;
    let place = report.display().to_string();
    let text = fs::read_to_string(report).with_context(|| place.clone())?;
    serde_json::from_str(&text).context(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_fits_80_columns_and_25_words() {
        for text in [BEFORE, AFTER] {
            let widths = text.lines().map(|line| line.chars().count());
            assert!(widths.max() <= Some(80), "{text}");
            for sentence in text.split(['.', '*']) {
                assert!(sentence.split_whitespace().count() <= 25, "{sentence}");
            }
        }
    }
}
