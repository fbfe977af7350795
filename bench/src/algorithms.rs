//! Time of the algorithms of `isochron-hierarchy` and its growth, on one core.

use std::process::Command;
use std::str::FromStr as _;
use std::time::Instant;

use anyhow::Context;
use isochron_bench::{Algorithm, Instance};
use isochron_plot::{Series, draw_log_log};
use serde::{Deserialize, Serialize};
use strum::VariantArray as _;

use crate::markdown::{format_table, yes_or_no};
use crate::process::run_program;
use crate::results::{CampaignResults, Origin, ResultsPage};
use crate::statistics::MedianRange;

/// Goals of time: the largest medians in seconds.
const TIME_GOALS: [(Algorithm, usize, f64); 6] = [
    (Algorithm::Gpa, 100_000, 0.1),
    (Algorithm::Npa, 1_000, 0.1),
    (Algorithm::Br, 10_000, 1.0),
    (Algorithm::Hpopta, 768, 2.0),
    (Algorithm::HpoptaKinds, 768, 2.0),
    (Algorithm::Inpa, 10_000, 10.0),
];

/// Goals of memory: the largest peaks of a whole process in megabytes.
const MEMORY_GOALS: [(Algorithm, usize, f64); 2] = [
    (Algorithm::Hpopta, 768, 1000.0),
    (Algorithm::HpoptaKinds, 768, 1000.0),
];

/// The size of the campaign.
#[derive(clap::Args)]
pub struct AlgorithmsArguments {
    /// Rounds; each solves every instance once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only make the tables and the plot from the samples that are kept
    #[arg(long)]
    table_only: bool,
    /// Solve one instance, `ALGORITHM SIZE`, and print the memory that the process took
    #[arg(long, hide = true, num_args = 2)]
    memory_of: Option<Vec<String>>,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct AlgorithmsResults {
    #[serde(flatten)]
    origin: Origin,
    samples: Vec<SolveSample>,
    memory: Vec<MemorySample>,
}

/// One solution of an instance.
#[derive(Serialize, Deserialize)]
struct SolveSample {
    round: usize,
    algorithm: Algorithm,
    size: usize,
    time_s: f64,
    /// `false` if the algorithm gave up.
    solved: bool,
}

/// The memory of a process that solves an instance.
#[derive(Serialize, Deserialize)]
struct MemorySample {
    algorithm: Algorithm,
    size: usize,
    /// `None` if the system does not tell it.
    peak_bytes: Option<u64>,
}

/// Runs the campaign, or makes its tables and plot only.
pub fn run(arguments: &AlgorithmsArguments) -> anyhow::Result<()> {
    if let Some([name, size]) = arguments.memory_of.as_deref() {
        let solve = Algorithm::from_str(name)?.instance(size.parse()?)?;
        solve()?;
        println!("{}", serde_json::to_string(&peak_bytes())?);
        return Ok(());
    }
    let fresh = (!arguments.table_only).then(|| measure(arguments.rounds));
    AlgorithmsResults::publish(fresh.transpose()?)
}

/// Solves every instance once in each round, the instances of the algorithms in turn, so that a disturbance affects all
/// of them.
fn measure(rounds: usize) -> anyhow::Result<AlgorithmsResults> {
    // Memory is measured before this process grows, so that a child shows its own memory only.
    let mut memory = Vec::new();
    for (algorithm, size, _) in MEMORY_GOALS {
        memory.push(measure_memory(algorithm, size)?);
    }
    let instances = make_instances()?;
    let mut samples = Vec::new();
    for round in 0..rounds {
        for (algorithm, size, solve) in &instances {
            let start = Instant::now();
            let solved = solve()?;
            let time_s = start.elapsed().as_secs_f64();
            eprintln!("round {round} {algorithm} {size}: {time_s:.6} s");
            samples.push(SolveSample {
                round,
                algorithm: *algorithm,
                size: *size,
                time_s,
                solved,
            });
        }
    }
    Ok(AlgorithmsResults {
        origin: Origin::new(format!("cargo xtask bench algorithms --rounds {rounds}")),
        samples,
        memory,
    })
}

/// Makes all instances: the smallest of each algorithm, then the next ones.
fn make_instances() -> anyhow::Result<Vec<(Algorithm, usize, Instance)>> {
    let most = Algorithm::VARIANTS
        .iter()
        .map(|kind| kind.sizes().len())
        .max()
        .unwrap_or(0);
    let mut instances = Vec::new();
    for nth in 0..most {
        for &algorithm in Algorithm::VARIANTS {
            if let Some(&size) = algorithm.sizes().get(nth) {
                instances.push((algorithm, size, algorithm.instance(size)?));
            }
        }
    }
    Ok(instances)
}

/// Measures the memory of a process that solves one instance.
fn measure_memory(algorithm: Algorithm, size: usize) -> anyhow::Result<MemorySample> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["algorithms", "--memory-of"]);
    let (text, _) = run_program(command.args([algorithm.to_string(), size.to_string()]))?;
    Ok(MemorySample {
        algorithm,
        size,
        peak_bytes: serde_json::from_str(&text).context("the memory")?,
    })
}

/// Returns the most memory that this process ever had; `None` if the system does not tell it. Linux does.
fn peak_bytes() -> Option<u64> {
    let kib: u64 = std::fs::read_to_string("/proc/self/status")
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse()
        .ok()?;
    Some(1024 * kib)
}

impl AlgorithmsResults {
    fn samples(&self, algorithm: Algorithm, size: usize) -> impl Iterator<Item = &SolveSample> {
        self.samples
            .iter()
            .filter(move |sample| sample.algorithm == algorithm && sample.size == size)
    }

    fn time_s(&self, algorithm: Algorithm, size: usize) -> MedianRange {
        MedianRange::of(self.samples(algorithm, size).map(|sample| sample.time_s))
    }

    fn is_solved(&self, algorithm: Algorithm, size: usize) -> bool {
        self.samples(algorithm, size).all(|sample| sample.solved)
    }

    /// Returns the lines of an algorithm's sizes.
    ///
    /// The growth is the exponent `log(t₂ / t₁) / log(n₂ / n₁)` from the size before. The first size has none, nor has
    /// a size without a solution.
    fn make_rows(&self, algorithm: Algorithm) -> Vec<[String; 3]> {
        let mut rows = Vec::new();
        let mut before: Option<(usize, f64)> = None;
        for &size in algorithm.sizes() {
            let time_s = self.time_s(algorithm, size);
            let solved = self.is_solved(algorithm, size);
            let growth = before.filter(|_| solved).map(|(smaller, least_s)| {
                let exponent = (time_s.median / least_s).ln() / (size as f64 / smaller as f64).ln();
                format!("{exponent:.2}")
            });
            let gave_up = if solved { "" } else { ", gave up" };
            rows.push([
                size.to_string(),
                time_s.scale(1e3).text(3) + gave_up,
                growth.unwrap_or_default(),
            ]);
            before = Some((size, time_s.median));
        }
        rows
    }

    /// Returns the lines of the goals: the medians of the times, and the memory.
    fn check_goals(&self) -> Vec<[String; 3]> {
        let times = TIME_GOALS.map(|goal| {
            let found_s = self.time_s(goal.0, goal.1).median;
            check_goal(goal, found_s, "s")
        });
        let memory = MEMORY_GOALS.map(|goal| {
            let mut samples = self.memory.iter();
            let sample = samples.find(|found| (found.algorithm, found.size) == (goal.0, goal.1));
            let peak_bytes = sample.and_then(|sample| sample.peak_bytes);
            check_goal(
                goal,
                peak_bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e6),
                "MB",
            )
        });
        times.into_iter().chain(memory).collect()
    }
}

fn check_goal(
    (algorithm, size, bound): (Algorithm, usize, f64),
    found: f64,
    unit: &str,
) -> [String; 3] {
    [
        format!("{algorithm} of {size}: at most {bound} {unit}"),
        format!("{found:.3} {unit}"),
        yes_or_no(found <= bound),
    ]
}

impl CampaignResults for AlgorithmsResults {
    const PAGE: ResultsPage = ResultsPage { name: "algorithms" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let origin = Self::PAGE.describe_origin(&self.origin, " on one core", "");
        let goals = format_table(["goal", "found", "met"], self.check_goals());
        let tables = Algorithm::VARIANTS.iter().map(|&algorithm| {
            let table = format_table(["size:", "time, ms", "growth"], self.make_rows(algorithm));
            format!("\n`{algorithm}`: {}.\n\n{table}", algorithm.describe())
        });
        Ok(format!(
            "{origin} Growth is the exponent of the size from one row to the next.\n\n\
             ![time against size](algorithms.svg)\n\n{goals}{}",
            tables.collect::<String>()
        ))
    }

    fn draw_plot(&self) -> anyhow::Result<Option<String>> {
        let series = Algorithm::VARIANTS.iter().map(|&algorithm| {
            let solved = algorithm
                .sizes()
                .iter()
                .copied()
                .filter(|&size| self.is_solved(algorithm, size));
            Series {
                name: algorithm.to_string(),
                points: solved
                    .map(|size| (size as f64, self.time_s(algorithm, size).median))
                    .collect(),
            }
        });
        Ok(Some(draw_log_log(
            "Time on one core",
            "devices (br: nodes, inpa: nodes of five)",
            "seconds",
            &series.collect::<Vec<_>>(),
        )))
    }
}
