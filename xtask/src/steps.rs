//! Named, timed steps, and the processes they run.

use std::env;
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
    /// Returns the errors of `action`, with the step's name.
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
/// Fails when it does not start, or does not exit with 0; the message names the command.
pub fn execute(command: &mut Command) -> Result<()> {
    let line = line_of(command);
    println!("$ {line}");
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("`{line}` did not start"))?;
    if !status.success() {
        bail!("`{line}`: {status}");
    }
    Ok(())
}

/// The command as one would type it; cargo's own path is its toolchain's, and only noise.
fn line_of(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let is_cargo = program.file_stem().is_some_and(|stem| stem == "cargo");
    let mut line = if is_cargo { "cargo".to_owned() } else { show_path(program) };
    for word in command.get_args() {
        line.push(' ');
        line.push_str(&show_path(Path::new(word)));
    }
    line
}

/// Writes a path relative to the working directory, if it lies in there.
pub fn show_path(path: &Path) -> String {
    let here = env::current_dir().unwrap_or_default();
    path.strip_prefix(here)
        .ok()
        .filter(|rest| !rest.as_os_str().is_empty())
        .unwrap_or(path)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_the_working_directory_are_relative_to_it() {
        let here = env::current_dir().unwrap();
        let mut command = Command::new(here.join("target/release/isochron"));
        command.args(["mxm", "--report"]).arg(here.join("target/demo/even.json"));
        command.arg("/elsewhere/a").arg(&here);
        let whole = here.display();
        assert_eq!(
            line_of(&command),
            format!(
                "target/release/isochron mxm --report target/demo/even.json /elsewhere/a {whole}"
            )
        );
    }
}
