//! Started programs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

/// Returns a path that `cargo xtask bench` names in the environment.
///
/// # Errors
/// If the variable is not set.
pub fn path_variable(name: &str) -> anyhow::Result<PathBuf> {
    std::env::var_os(name)
        .map(PathBuf::from)
        .with_context(|| format!("{name} is not set: run campaigns by `cargo xtask bench NAME`"))
}

/// Runs a program; returns its standard output and standard error.
///
/// # Errors
/// If it cannot be started or fails.
pub fn run_program(command: &mut Command) -> anyhow::Result<(String, String)> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let [text, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if !output.status.success() {
        bail!("{command:?}: {}\n{errors}", output.status);
    }
    Ok((text, errors))
}
