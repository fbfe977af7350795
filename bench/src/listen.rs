//! What jobs say on standard error, and when.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde::Serialize;

/// The beginning of each line of the command itself.
const OWN: &str = "isochron: ";

/// The jobs.
#[derive(clap::Args)]
pub struct ListenArguments {
    /// Jobs, one after the other
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// The exit status that every job must have
    #[arg(long, default_value_t = 0)]
    status: i32,
    /// The beginning of the line whose time is wanted
    #[arg(long)]
    until: Option<String>,
    /// The command of a job
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// The printed document.
#[derive(Debug, Serialize)]
struct Heard {
    /// Seconds from the start of each job to the line that is wanted, for those that said it.
    heard_s: Vec<f64>,
    /// Lines of all jobs.
    lines: usize,
    /// Processes of the machine that ran or waited for a core at the start: the mean of a minute.
    load: f64,
}

/// Runs the jobs, and prints what was heard as JSON.
///
/// # Errors
/// Fails if a job cannot be started or ends with another status.
pub fn run(arguments: &ListenArguments) -> anyhow::Result<()> {
    let mut heard = Heard { heard_s: Vec::new(), lines: 0, load: read_load()? };
    for _ in 0..arguments.jobs {
        listen(arguments, &mut heard)?;
    }
    println!("{}", serde_json::to_string(&heard)?);
    Ok(())
}

/// Runs a job, and adds what it says.
fn listen(arguments: &ListenArguments, heard: &mut Heard) -> anyhow::Result<()> {
    let (program, words) = arguments.command.split_first().context("a command")?;
    let mut command = Command::new(program);
    command.args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let mut job = command.stderr(Stdio::piped()).spawn().with_context(|| format!("{command:?}"))?;
    let errors = BufReader::new(job.stderr.take().context("standard error")?);
    let before = heard.heard_s.len();
    for line in errors.lines() {
        let line = line?;
        eprintln!("{line}");
        let Some(said) = line.strip_prefix(OWN) else {
            continue;
        };
        heard.lines += 1;
        let is_wanted = arguments.until.as_ref().is_some_and(|until| said.starts_with(until));
        if is_wanted && heard.heard_s.len() == before {
            heard.heard_s.push(start.elapsed().as_secs_f64());
        }
    }
    let status = job.wait()?;
    ensure!(status.code() == Some(arguments.status), "{command:?}: {status}");
    Ok(())
}

/// Reads the load of the machine: the mean of a minute.
fn read_load() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    let first = text.split(' ').next().context("the load")?;
    Ok(first.parse()?)
}
