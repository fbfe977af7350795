//! `cargo xtask fuzz`: arbitrary input for the parser, the models and the partitioners, for a given time.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::mpi::Library;
use crate::steps::{Steps, execute};
use crate::workspace::Workspace;

/// Properties in `hierarchy/tests/properties` that take any input, and their cases in one round: about a second. Every
/// round has other cases.
const PROPERTIES: [(&str, &str); 5] = [
    (
        "points_file::any_text_is_refused_by_line_or_reads_back_as_written",
        "50000",
    ),
    ("fits::models_of_few_points_can_be_partitioned_by", "8000"),
    ("fits::extreme_points_make_finite_models", "8000"),
    (
        "npa::nasty_models_and_totals_are_divided_or_refused",
        "3000",
    ),
    ("hpopta::nothing_panics_and_every_division_is_sound", "300"),
];

/// Runs rounds of cases until `seconds` have passed, at least one.
///
/// # Errors
/// If a case fails; the test names it, and keeps its seed in a file next to the test.
pub fn run(workspace: &Workspace, steps: &mut Steps, seconds: u64) -> Result<()> {
    steps.run("build the properties", || {
        execute(&mut test_command(workspace, "--no-run"))
    })?;
    steps.run(&format!("fuzz for {seconds} s"), || {
        let start = Instant::now();
        loop {
            for (property, cases) in PROPERTIES {
                let mut command = test_command(workspace, &format!("-- --exact {property}"));
                execute(command.env("PROPTEST_CASES", cases))?;
            }
            if start.elapsed() >= Duration::from_secs(seconds) {
                return Ok(());
            }
        }
    })
}

/// Makes the command that runs properties in the profile of tests: optimised, with the checks of arithmetic left on.
fn test_command(workspace: &Workspace, rest: &str) -> Command {
    let line = format!("test --quiet -p isochron-hierarchy --test properties {rest}");
    workspace.cargo(Library::OpenMpi, &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_is_where_it_is_looked_for() {
        let workspace = Workspace::locate().unwrap();
        let tests = workspace.root().join("hierarchy/tests/properties");
        for (place, _) in PROPERTIES {
            let (file, property) = place.split_once("::").unwrap();
            let path = tests.join(file).with_extension("rs");
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains(&format!("fn {property}(")), "{place}");
        }
    }
}
