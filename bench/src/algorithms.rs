//! Time of the algorithms of `isochron-hierarchy` and its growth, on one core.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use isochron_bench::{Algorithm, Instance};
use isochron_plot::{Series, draw_log_log};
use serde::{Deserialize, Serialize};

use crate::process::run_program;
use crate::results::{Origin, ResultsPage, yes_or_no};
use crate::statistics::MedianRange;

const RESULTS: ResultsPage = ResultsPage {
    file: "bench/results/algorithms.json",
    page: "bench/results/algorithms.md",
    section: "bench algorithms",
};
const PLOT: &str = "bench/results/algorithms.svg";

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
struct AlgorithmsResults {
    #[serde(flatten)]
    origin: Origin,
    algorithms: Vec<AlgorithmInfo>,
    samples: Vec<SolveSample>,
    memory: Vec<MemorySample>,
    #[serde(default)]
    summary: Vec<GrowthRow>,
    #[serde(default)]
    goals: Vec<GoalRow>,
}

/// An algorithm for readers of the results.
#[derive(Serialize, Deserialize)]
struct AlgorithmInfo {
    name: Algorithm,
    description: String,
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

/// The time of an instance over the rounds.
#[derive(Serialize, Deserialize)]
struct GrowthRow {
    algorithm: Algorithm,
    size: usize,
    time_s: MedianRange,
    /// The exponent `log(t₂ / t₁) / log(n₂ / n₁)` from the size before; `None` for the first size, and without a solution.
    growth: Option<f64>,
    solved: bool,
}

/// A goal of the campaign.
#[derive(Serialize, Deserialize)]
struct GoalRow {
    goal: String,
    found: f64,
    unit: String,
    met: bool,
}

/// Runs the campaign, or makes its tables and plot only.
pub fn run(arguments: &AlgorithmsArguments) -> anyhow::Result<()> {
    if let Some([name, size]) = arguments.memory_of.as_deref() {
        Algorithm::named(name)?.instance(size.parse()?)?.solve()?;
        println!("{}", serde_json::to_string(&peak_bytes())?);
        return Ok(());
    }
    let fresh = (!arguments.table_only).then(|| measure(arguments.rounds));
    RESULTS.publish(fresh.transpose()?, sum_up, format_tables)
}

/// Solves every instance once in each round, the instances of the algorithms in turn, so that a disturbance affects all of
/// them.
fn measure(rounds: usize) -> anyhow::Result<AlgorithmsResults> {
    // Memory is measured before this process grows, so that a child shows its own memory only.
    let mut memory = Vec::new();
    for (algorithm, size, _) in MEMORY_GOALS {
        memory.push(measure_memory(algorithm, size)?);
    }
    let instances = make_instances()?;
    let mut samples = Vec::new();
    for round in 0..rounds {
        for (algorithm, size, instance) in &instances {
            let start = Instant::now();
            let solved = instance.solve()?;
            let time_s = start.elapsed().as_secs_f64();
            eprintln!("round {round} {} {size}: {time_s:.6} s", algorithm.name());
            samples.push(SolveSample {
                round,
                algorithm: *algorithm,
                size: *size,
                time_s,
                solved,
            });
        }
    }
    let algorithms = Algorithm::ALL.map(|algorithm| AlgorithmInfo {
        name: algorithm,
        description: algorithm.describe(),
    });
    Ok(AlgorithmsResults {
        origin: Origin::new(format!("cargo xtask bench algorithms --rounds {rounds}")),
        algorithms: algorithms.into(),
        samples,
        memory,
        summary: Vec::new(),
        goals: Vec::new(),
    })
}

/// Makes all instances: the smallest of each algorithm, then the next ones.
fn make_instances() -> anyhow::Result<Vec<(Algorithm, usize, Instance)>> {
    let counts = Algorithm::ALL.map(|algorithm| algorithm.sizes().len());
    let most = counts.into_iter().max().unwrap_or(0);
    let mut instances = Vec::new();
    for nth in 0..most {
        for algorithm in Algorithm::ALL {
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
    command.args(["algorithms", "--memory-of", algorithm.name()]);
    let (text, _) = run_program(command.arg(size.to_string()))?;
    Ok(MemorySample {
        algorithm,
        size,
        peak_bytes: serde_json::from_str(&text).context("the memory")?,
    })
}

/// Returns the most memory that this process ever had; `None` if the system does not tell it. Linux does.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kib)
}

impl AlgorithmsResults {
    /// Returns the row of one instance.
    fn row(&self, algorithm: Algorithm, size: usize) -> Option<&GrowthRow> {
        let mut rows = self.summary.iter();
        rows.find(|row| row.algorithm == algorithm && row.size == size)
    }

    /// Returns the rows of an algorithm in order of size.
    fn rows(&self, algorithm: Algorithm) -> impl Iterator<Item = &GrowthRow> {
        let rows = self.summary.iter();
        rows.filter(move |row| row.algorithm == algorithm)
    }

    /// Summarizes the instances of an algorithm.
    fn summarize(&self, algorithm: Algorithm) -> Vec<GrowthRow> {
        let samples = || self.samples.iter().filter(|s| s.algorithm == algorithm);
        let mut rows: Vec<GrowthRow> = Vec::new();
        for size in samples().filter(|s| s.round == 0).map(|s| s.size) {
            let solutions = || samples().filter(|s| s.size == size);
            let solved = solutions().all(|sample| sample.solved);
            let time_s = MedianRange::of(solutions().map(|sample| sample.time_s));
            let growth = rows.last().filter(|_| solved).map(|before| {
                let time_ratio = time_s.median / before.time_s.median;
                time_ratio.ln() / (size as f64 / before.size as f64).ln()
            });
            rows.push(GrowthRow {
                algorithm,
                size,
                time_s,
                growth,
                solved,
            });
        }
        rows
    }

    /// Compares the summary and the memory with the goals.
    fn check_goals(&self) -> Vec<GoalRow> {
        let times = TIME_GOALS.map(|(algorithm, size, bound_s)| {
            let row = self.row(algorithm, size);
            let median_s = row.map_or(f64::NAN, |row| row.time_s.median);
            GoalRow::new(algorithm, size, median_s, bound_s, "s")
        });
        let memory = MEMORY_GOALS.map(|(algorithm, size, bound_mb)| {
            let mut found = self.memory.iter();
            let peak_bytes = found
                .find(|sample| sample.algorithm == algorithm && sample.size == size)
                .and_then(|sample| sample.peak_bytes);
            let peak_mb = peak_bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e6);
            GoalRow::new(algorithm, size, peak_mb, bound_mb, "MB")
        });
        times.into_iter().chain(memory).collect()
    }
}

impl GoalRow {
    fn new(algorithm: Algorithm, size: usize, found: f64, bound: f64, unit: &str) -> Self {
        Self {
            goal: format!("{} of {size}: at most {bound} {unit}", algorithm.name()),
            found,
            unit: unit.to_owned(),
            met: found <= bound,
        }
    }
}

/// Summarizes the samples, checks the goals and draws the plot.
fn sum_up(results: &mut AlgorithmsResults) -> anyhow::Result<()> {
    let summary = Algorithm::ALL.map(|algorithm| results.summarize(algorithm));
    results.summary = summary.into_iter().flatten().collect();
    results.goals = results.check_goals();
    std::fs::write(PLOT, draw_plot(results)).context(PLOT)
}

fn draw_plot(results: &AlgorithmsResults) -> String {
    let series = Algorithm::ALL.map(|algorithm| {
        let solved = results.rows(algorithm).filter(|row| row.solved);
        Series {
            name: algorithm.name().to_owned(),
            points: solved
                .map(|row| (row.size as f64, row.time_s.median))
                .collect(),
        }
    });
    draw_log_log(
        "Time on one core",
        "devices (br: nodes, inpa: nodes of five)",
        "seconds",
        &series,
    )
}

fn format_tables(results: &AlgorithmsResults) -> String {
    let mut text = format!(
        "{} Growth is the exponent of the size from one row to the next.\n\n\
         ![time against size](algorithms.svg)\n\n",
        RESULTS.describe_origin(&results.origin, " on one core", ""),
    );
    text.push_str("| goal | found | met |\n|---|---|---|\n");
    for GoalRow {
        goal,
        found,
        unit,
        met,
    } in &results.goals
    {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "| {goal} | {found:.3} {unit} | {} |", yes_or_no(*met));
    }
    for AlgorithmInfo { name, description } in &results.algorithms {
        let _ = writeln!(text, "\n`{}`: {description}.\n", name.name());
        text.push_str("| size | time, ms | growth |\n|---:|---|---|\n");
        for row in results.rows(*name) {
            let ms = row.time_s.scale(1e3).text(3);
            let gave_up = if row.solved { "" } else { ", gave up" };
            let growth = row
                .growth
                .map_or(String::new(), |growth| format!("{growth:.2}"));
            let _ = writeln!(text, "| {} | {ms}{gave_up} | {growth} |", row.size);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::check_published;

    #[test]
    fn the_published_file_is_read_and_makes_its_page() -> anyhow::Result<()> {
        check_published(&RESULTS, format_tables)
    }
}
