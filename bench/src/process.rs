//! Started programs.

use std::io::{BufRead as _, BufReader};
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

/// Does the same, but tells the program to end after `limit`, and kills it if it does not.
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

/// Runs a program, and hands each line of its standard error to `observe` as soon as it is written; returns its standard
/// output.
///
/// # Errors
/// If it cannot be started or fails, or `observe` fails.
pub fn run_observed(
    command: &mut Command,
    mut observe: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("{command:?}"))?;
    let output = child.stdout.take().context("standard output")?;
    let output = std::thread::spawn(|| std::io::read_to_string(output));
    let lines = BufReader::new(child.stderr.take().context("standard error")?).split(b'\n');
    let mut errors = String::new();
    let mut outcome = Ok(());
    for line in lines.map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        outcome = outcome.and_then(|()| observe(&line));
        errors += &line;
        errors.push('\n');
    }
    let status = child.wait()?;
    ensure!(status.success(), "{command:?}: {status}\n{errors}");
    outcome?;
    output
        .join()
        .ok()
        .context("standard output")?
        .with_context(|| format!("{command:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_observed_while_a_program_runs() {
        let file = std::env::temp_dir()
            .join(format!("isochron-observed-{}", std::process::id()))
            .display()
            .to_string();
        // It ends only when the observer has seen its first line.
        let script =
            "echo first >&2; while [ ! -e $0 ]; do sleep 0.01; done; echo out; echo last >&2";
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        let output = run_observed(command.args(["-c", script, &file]), |line| {
            seen.push(line.to_owned());
            Ok(std::fs::write(&file, "")?)
        });
        let _ = std::fs::remove_file(&file);
        assert_eq!(output.ok().as_deref(), Some("out\n"));
        assert_eq!(seen, ["first", "last"]);
    }

    #[test]
    fn a_failure_of_the_program_or_its_observer_is_one() {
        let script = ["-c", "echo why >&2; exit 3"];
        let failed = run_observed(Command::new("sh").args(script), |_| Ok(()));
        assert!(failed.is_err_and(|error| error.to_string().contains("why")));
        let refused = run_observed(Command::new("sh").args(["-c", "echo a >&2"]), |_| {
            bail!("refused")
        });
        assert!(refused.is_err_and(|error| error.to_string() == "refused"));
    }
}
