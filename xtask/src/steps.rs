//! Named, timed steps, and the processes they run.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The steps that ran so far.
#[derive(Default)]
pub struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: String,
    took: Duration,
    succeeded: bool,
}

impl Steps {
    /// Announces a step, runs it and keeps its time.
    ///
    /// # Errors
    /// Those of `action`, with the step's name.
    pub fn run<T>(&mut self, name: &str, action: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = action();
        self.done.push(Step {
            name: name.to_owned(),
            took: start.elapsed(),
            succeeded: outcome.is_ok(),
        });
        outcome.with_context(|| name.to_owned())
    }

    /// Prints one line a step; nothing when none ran.
    pub fn print_summary(&self) {
        if !self.done.is_empty() {
            println!();
        }
        for step in &self.done {
            println!("{}", step.line());
        }
    }
}

impl Step {
    fn line(&self) -> String {
        let verdict = if self.succeeded { "ok" } else { "FAILED" };
        let seconds = self.took.as_secs_f64();
        format!("{verdict:<6} {seconds:>7.1} s  {}", self.name)
    }
}

/// Prints a command, runs it with no standard input and waits for it.
///
/// # Errors
/// When it does not start, or does not exit with 0; the message names the command.
pub fn execute(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    println!("$ {line}");
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("`{line}` did not start"))?;
    if !status.success() {
        bail!("`{line}`: {status}");
    }
    Ok(())
}

/// The command as one would type it; cargo's own path is its toolchain's, and only noise.
fn line_of(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let is_cargo = program.file_stem().is_some_and(|stem| stem == "cargo");
    let program = if is_cargo {
        "cargo".into()
    } else {
        program.to_string_lossy()
    };
    let mut line = program.into_owned();
    for word in command.get_args() {
        line.push(' ');
        line.push_str(&word.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_step_is_kept_and_named_in_the_error() {
        let mut steps = Steps::default();
        steps.run("first", || Ok(())).unwrap();
        let error = steps.run("second", || -> Result<()> { bail!("broke") });
        assert_eq!(format!("{:#}", error.unwrap_err()), "second: broke");
        let verdicts: Vec<_> = steps.done.iter().map(|step| step.succeeded).collect();
        assert_eq!(verdicts, [true, false]);
    }

    #[test]
    fn exit_code_other_than_zero_is_an_error() {
        assert!(execute(&mut Command::new("true")).is_ok());
        let error = execute(Command::new("false").arg("x")).unwrap_err();
        assert!(error.to_string().contains("`false x`"), "{error}");
    }

    #[test]
    fn commands_are_shown_as_typed() {
        let mut cargo = Command::new("/toolchains/stable/bin/cargo");
        assert_eq!(
            line_of(cargo.args(["test", "--release"])),
            "cargo test --release"
        );
        assert_eq!(line_of(&Command::new("/opt/bin/mpirun")), "/opt/bin/mpirun");
    }

    #[test]
    fn summary_line_shows_verdict_time_and_name() {
        let step = Step {
            name: "clippy".to_owned(),
            took: Duration::from_millis(1250),
            succeeded: true,
        };
        assert_eq!(step.line(), "ok         1.2 s  clippy");
    }
}
