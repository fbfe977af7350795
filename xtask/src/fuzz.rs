//! `cargo xtask fuzz`: arbitrary input for the parser, the models, the partitioners and the C interface, for a given time.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::build;
use crate::install;
use crate::mpi::{Library, MpiInstallation};
use crate::needs::Goal;
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// Tests of properties that take any input.
struct FuzzSuite {
    /// The words of cargo that select the test program, in the profile of tests or in release.
    selection: &'static str,
    /// Properties, and their cases in one round: about a second. Every round has other cases.
    properties: &'static [(&'static str, &'static str)],
}

const SUITES: [FuzzSuite; 2] = [
    // Optimised, with the checks of arithmetic left on.
    FuzzSuite {
        selection: "-p isochron-hierarchy --test properties",
        properties: &[
            ("points_file::any_text_is_refused_by_line_or_reads_back_as_written", "50000"),
            ("fits::models_of_few_points_can_be_partitioned_by", "8000"),
            ("fits::extreme_points_make_finite_models", "8000"),
            ("npa::nasty_models_and_totals_are_divided_or_refused", "3000"),
            ("hpopta::nothing_panics_and_every_division_is_sound", "300"),
        ],
    },
    // As the other tests are built, so that nothing is compiled twice with other features.
    FuzzSuite {
        selection: "--release --workspace --test calls",
        properties: &[("any_sequence_of_calls_returns_statuses", "40")],
    },
];

/// Runs rounds of cases until `seconds` have passed, at least one.
///
/// # Errors
/// Fails if a case fails; the test names it, and keeps its seed in a file next to the test.
pub fn run(workspace: &Workspace, steps: &mut Steps, seconds: u64) -> Result<()> {
    install::ensure(Goal::Run, steps)?;
    let mpi = build::prepare(workspace, Library::OpenMpi)?;
    steps.run("build the properties", || {
        let mut suites = SUITES.iter();
        suites.try_for_each(|suite| execute(&mut test_command(workspace, &mpi, suite, "--no-run")))
    })?;
    steps.run(&format!("fuzz for {seconds} s"), || {
        let start = Instant::now();
        loop {
            for suite in &SUITES {
                run_round(workspace, &mpi, suite)?;
            }
            if start.elapsed() >= Duration::from_secs(seconds) {
                return Ok(());
            }
        }
    })
}

fn run_round(workspace: &Workspace, mpi: &MpiInstallation, suite: &FuzzSuite) -> Result<()> {
    for (property, cases) in suite.properties {
        let rest = format!("-- --exact {property}");
        let seed = RandomState::new().build_hasher().finish();
        let mut command = test_command(workspace, mpi, suite, &rest);
        command.env("PROPTEST_RNG_SEED", seed.to_string());
        execute(command.env("PROPTEST_CASES", cases))?;
    }
    Ok(())
}

fn test_command(
    workspace: &Workspace,
    mpi: &MpiInstallation,
    suite: &FuzzSuite,
    rest: &str,
) -> Command {
    let line = format!("test --quiet {} {rest}", suite.selection);
    build::cargo(workspace, mpi, &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_is_where_it_is_looked_for() {
        let workspace = Workspace::locate().unwrap();
        let folders = ["hierarchy/tests/properties", "runtime/c/tests"];
        for (suite, folder) in SUITES.iter().zip(folders) {
            let tests = workspace.root().join(folder);
            for (place, _) in suite.properties {
                let (file, property) = place.split_once("::").unwrap_or(("calls", place));
                let path = tests.join(file).with_extension("rs");
                let text = std::fs::read_to_string(path).unwrap();
                assert!(text.contains(&format!("fn {property}(")), "{place}");
            }
        }
    }
}
