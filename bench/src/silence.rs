//! The watch over silent ranks: how soon a stopped rank is named, and whether ranks that work ever are.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::markdown::{format_table, yes_or_no};
use crate::process::path_variable;
use crate::results::{CampaignResults, Origin, ResultsPage};
use crate::statistics::MedianRange;

/// The MPI libraries, and the ends of the variables that name their programs.
const LIBRARIES: [(&str, &str); 2] = [("Open MPI", "OPENMPI"), ("MPICH", "MPICH")];

/// The places at which the last rank is stopped.
const PLACES: [&str; 6] = [
    "devices:1",
    "plan:1",
    "matrices:1",
    "step:1",
    "check:1:2",
    "write:1",
];

/// Longest seconds from the start of a job to the line that names its stopped rank.
const GOAL_S: f64 = 15.0;

/// Options of a job that has several steps, and that ends some time after its rank is stopped.
const SEVERAL_STEPS: [&str; 8] = [
    "--size",
    "256",
    "--block",
    "32",
    "--panel",
    "32",
    "--stall-timeout",
    "12",
];

/// The size of the campaign.
#[derive(clap::Args)]
pub struct SilenceArguments {
    /// Jobs in which a rank is stopped
    #[arg(long, default_value_t = 20)]
    tries: usize,
    /// Jobs in which every rank works
    #[arg(long, default_value_t = 200)]
    runs: usize,
    /// m = n = k of the jobs in which every rank works
    #[arg(long, default_value_t = 1024)]
    size: usize,
    /// Only make the table from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct SilenceResults {
    #[serde(flatten)]
    origin: Origin,
    stopped: Vec<JobSample>,
    working: Vec<JobSample>,
}

/// A job on two ranks.
#[derive(Serialize, Deserialize)]
struct JobSample {
    mpi: String,
    /// The place at which the last rank is stopped; `None` if every rank works.
    stopped_at: Option<String>,
    seconds: f64,
    /// Processes of the machine that ran or waited for a core at the start: the mean of a minute.
    load: f64,
    /// The lines of the command on standard error.
    lines: Vec<SaidLine>,
}

/// A line, and the seconds from the start of the job to it.
#[derive(Debug, Serialize, Deserialize)]
struct SaidLine {
    after_s: f64,
    text: String,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &SilenceArguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    SilenceResults::publish(fresh.transpose()?)
}

fn measure(arguments: &SilenceArguments) -> anyhow::Result<SilenceResults> {
    let SilenceArguments {
        tries, runs, size, ..
    } = *arguments;
    let size_text = size.to_string();
    let mut stopped = Vec::new();
    for number in 0..tries {
        let place = PLACES[number / LIBRARIES.len() % PLACES.len()];
        stopped.push(run_job(number, &SEVERAL_STEPS, Some(place))?);
    }
    let mut working = Vec::new();
    for number in 0..runs {
        working.push(run_job(number, &["--size", &size_text], None)?);
    }
    let command = format!("cargo xtask bench silence --tries {tries} --runs {runs} --size {size}");
    Ok(SilenceResults {
        origin: Origin::new(command),
        stopped,
        working,
    })
}

/// Runs a job with the MPI library whose turn it is.
fn run_job(number: usize, words: &[&str], stopped_at: Option<&str>) -> anyhow::Result<JobSample> {
    let (mpi, variable) = LIBRARIES[number % LIBRARIES.len()];
    let mut command = Command::new(path_variable(&format!("ISOCHRON_MPIRUN_{variable}"))?);
    if variable == "OPENMPI" {
        command
            .args(["--oversubscribe", "--bind-to", "none"])
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    command
        .args(["-n", "2"])
        .arg(path_variable(&format!("ISOCHRON_BIN_{variable}"))?)
        .args(["mxm", "--store", "none", "--quiet"])
        .args(words)
        .envs(stopped_at.map(|place| ("ISOCHRON_TEST_STOPPED_AT", place)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let load = read_load()?;
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let errors = BufReader::new(child.stderr.take().context("standard error")?);
    let said = errors.lines().map_while(Result::ok).filter_map(|line| {
        let text = line.strip_prefix("isochron: ")?.to_owned();
        let after_s = start.elapsed().as_secs_f64();
        Some(SaidLine { after_s, text })
    });
    let lines: Vec<SaidLine> = said.collect();
    let status = child.wait()?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{number} {mpi} {stopped_at:?}: {seconds:.1} s at load {load}, {lines:?}");
    anyhow::ensure!(
        status.success() == stopped_at.is_none(),
        "{command:?}: {status}, {lines:?}"
    );
    Ok(JobSample {
        mpi: mpi.to_owned(),
        stopped_at: stopped_at.map(str::to_owned),
        seconds,
        load,
        lines,
    })
}

/// Reads the load of the machine: the mean of a minute.
fn read_load() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    let first = text.split(' ').next().context("the load")?;
    Ok(first.parse()?)
}

impl JobSample {
    /// Returns the seconds from the start to the line that names the stopped rank.
    fn find_named(&self) -> Option<f64> {
        let mut lines = self.lines.iter();
        let line = lines.find(|line| line.text.starts_with("rank 1 on "))?;
        Some(line.after_s)
    }
}

impl CampaignResults for SilenceResults {
    const PAGE: ResultsPage = ResultsPage { name: "silence" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let origin = Self::PAGE.describe_origin(&self.origin, "", "");
        let named: Vec<f64> = self
            .stopped
            .iter()
            .filter_map(JobSample::find_named)
            .collect();
        let in_time = named.iter().filter(|&&named_s| named_s <= GOAL_S).count();
        let disturbed = self.working.iter().filter(|job| !job.lines.is_empty());
        let loads = |jobs: &[JobSample]| MedianRange::of(jobs.iter().map(|job| job.load)).text(1);
        let (tries, runs, told) = (self.stopped.len(), self.working.len(), disturbed.count());
        let rows = [
            [
                format!("a stopped rank is named within {GOAL_S} s of the job's start"),
                loads(&self.stopped),
                format!("{in_time} of {tries}"),
                yes_or_no(in_time == tries),
            ],
            [
                "no line where every rank works".to_owned(),
                loads(&self.working),
                format!("{} of {runs}", runs - told),
                yes_or_no(told == 0),
            ],
        ];
        let table = format_table(["goal", "load", "jobs", "met"], rows);
        Ok(format!(
            "{origin} The libraries take turns.\n\n{table}\n\
             The line came {} s after the start of the job.\n",
            MedianRange::of(named).text(1)
        ))
    }
}
