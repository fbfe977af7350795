//! Started programs.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

/// The time that a program may take to end after it was told to.
const GRACE: Duration = Duration::from_secs(5);

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
    run_within(command, Duration::MAX)
}

/// Runs a program as [`run_program`], but tells it to end after `limit`, and kills it if it does not.
///
/// # Errors
/// If it cannot be started, fails or takes too long.
pub fn run_within(command: &mut Command, limit: Duration) -> anyhow::Result<(String, String)> {
    command.stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    let id = child.id().to_string();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(limit) else {
        // A launcher that is killed would leave its ranks behind.
        let _ = Command::new("kill").arg(&id).status();
        if receiver.recv_timeout(GRACE).is_err() {
            let _ = Command::new("kill").args(["-KILL", &id]).status();
        }
        bail!("{command:?}: not done in {:.0} s", limit.as_secs_f64());
    };
    let output = output.with_context(|| format!("{command:?}"))?;
    let [text, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{errors}",
        output.status
    );
    Ok((text, errors))
}
