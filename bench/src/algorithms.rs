//! How fast the algorithms of `isochron-hierarchy` are and how their time grows, on one core.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use isochron_bench::{Algorithm, Instance};
use serde_json::{Value, json};

use crate::launch::machine;
use crate::plot::{Line, log_log};
use crate::results::{Results, list, number, spread, word, yes};
use crate::statistics::Spread;

const RESULTS: Results = Results {
    file: "bench/results/algorithms.json",
    page: "bench/results/algorithms.md",
    section: "bench algorithms",
};
const PLOT: &str = "bench/results/algorithms.svg";

/// Largest times in seconds.
const TIME_GOALS: [(Algorithm, usize, f64); 6] = [
    (Algorithm::Gpa, 100_000, 0.1),
    (Algorithm::Npa, 1_000, 0.1),
    (Algorithm::Br, 10_000, 1.0),
    (Algorithm::Hpopta, 768, 2.0),
    (Algorithm::HpoptaKinds, 768, 2.0),
    (Algorithm::Inpa, 10_000, 10.0),
];

/// Largest memory of a whole process in megabytes.
const MEMORY_GOALS: [(Algorithm, usize, f64); 2] = [
    (Algorithm::Hpopta, 768, 1000.0),
    (Algorithm::HpoptaKinds, 768, 1000.0),
];

/// How large the campaign is.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; each solves every instance once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only make the table and the plot from the results that are there
    #[arg(long)]
    table_only: bool,
    /// Solve one instance, `ALGORITHM SIZE`, and print the memory that the process took
    #[arg(long, hide = true, num_args = 2)]
    memory_of: Option<Vec<String>>,
}

/// Runs the campaign, or makes its table and plot only.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some([name, size]) = arguments.memory_of.as_deref() {
        Algorithm::named(name)?.instance(size.parse()?)?.solve()?;
        println!("{}", json!(peak_bytes()));
        return Ok(());
    }
    let fresh = (!arguments.table_only).then(|| measure(arguments.rounds));
    let sum_up = |results: &mut Value| {
        results["summary"] = summary(results);
        results["goals"] = goals(results);
        std::fs::write(PLOT, plot(results)).context(PLOT)
    };
    RESULTS.publish(fresh.transpose()?, sum_up, tables)
}

/// Solves every instance once in each round, each algorithm's next one after another's: whatever disturbs the
/// machine for a while disturbs them all.
fn measure(rounds: usize) -> anyhow::Result<Value> {
    // Before this process grows: a child shows no more than its own.
    let memory = MEMORY_GOALS
        .iter()
        .map(|&(algorithm, size, _)| memory_of(algorithm, size))
        .collect::<anyhow::Result<Vec<Value>>>()?;
    let instances = instances()?;
    let mut samples = Vec::new();
    for round in 0..rounds {
        for (algorithm, size, instance) in &instances {
            let start = Instant::now();
            let solved = instance.solve()?;
            let time_s = start.elapsed().as_secs_f64();
            eprintln!("round {round} {} {size}: {time_s:.6} s", algorithm.name());
            samples.push(json!({
                "round": round, "algorithm": algorithm.name(), "size": size, "time_s": time_s, "solved": solved,
            }));
        }
    }
    Ok(json!({
        "schema": 1,
        "command": format!("cargo xtask bench algorithms --rounds {rounds}"),
        "machine": machine(),
        "algorithms": Algorithm::ALL.map(|a| json!({ "name": a.name(), "description": a.describe() })),
        "samples": samples,
        "memory": memory,
    }))
}

/// All instances: the smallest of each algorithm, then the next ones.
fn instances() -> anyhow::Result<Vec<(Algorithm, usize, Instance)>> {
    let most = Algorithm::ALL.map(|algorithm| algorithm.sizes().len());
    let most = most.into_iter().max().unwrap_or(0);
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

/// The memory that a process of its own takes for one instance.
fn memory_of(algorithm: Algorithm, size: usize) -> anyhow::Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["algorithms", "--memory-of", algorithm.name()]);
    let output = command.arg(size.to_string()).output()?;
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let peak_bytes: Value = serde_json::from_slice(&output.stdout).context("the memory")?;
    Ok(json!({ "algorithm": algorithm.name(), "size": size, "peak_bytes": peak_bytes }))
}

/// The most memory that this process ever had; none where the system does not tell (it is Linux that does).
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kib)
}

/// The samples of one instance.
fn samples(results: &Value, algorithm: Algorithm, size: usize) -> impl Iterator<Item = &Value> {
    list(results, "samples")
        .filter(move |sample| sample["algorithm"] == algorithm.name() && sample["size"] == size)
}

fn times(results: &Value, algorithm: Algorithm, size: usize) -> Spread {
    Spread::of(samples(results, algorithm, size).map(|s| number(s, "/time_s")))
}

/// The sizes that there are samples of, in order of measurement.
fn sizes(results: &Value, algorithm: Algorithm) -> Vec<usize> {
    list(results, "samples")
        .filter(|sample| sample["algorithm"] == algorithm.name() && sample["round"] == 0)
        .filter_map(|sample| sample["size"].as_u64())
        .map(|size| size as usize)
        .collect()
}

fn is_solved(results: &Value, algorithm: Algorithm, size: usize) -> bool {
    samples(results, algorithm, size).all(|sample| sample["solved"] == true)
}

/// Median, smallest and largest time of every instance, and the exponent of the growth since the one before:
/// `log(t₂ / t₁) / log(n₂ / n₁)`.
fn summary(results: &Value) -> Value {
    let mut rows = Vec::new();
    for algorithm in Algorithm::ALL {
        let mut before: Option<(f64, f64)> = None;
        for size in sizes(results, algorithm) {
            let solved = is_solved(results, algorithm, size);
            let time_s = times(results, algorithm, size);
            let now = (size as f64, time_s.median);
            let growth = |before: (f64, f64)| (now.1 / before.1).ln() / (now.0 / before.0).ln();
            rows.push(json!({
                "algorithm": algorithm.name(),
                "size": size,
                "time_s": time_s.json(),
                "growth": before.filter(|_| solved).map(growth),
                "solved": solved,
            }));
            before = Some(now);
        }
    }
    Value::Array(rows)
}

fn memory_mb(results: &Value, algorithm: Algorithm, size: usize) -> f64 {
    list(results, "memory")
        .find(|found| found["algorithm"] == algorithm.name() && found["size"] == size)
        .and_then(|found| found["peak_bytes"].as_f64())
        .map_or(f64::NAN, |bytes| bytes / 1e6)
}

/// What the campaign is to show, and whether it does.
fn goals(results: &Value) -> Value {
    let mut goals = Vec::new();
    let mut add = |algorithm: Algorithm, size, found: f64, bound: f64, unit: &str| {
        goals.push(json!({
            "goal": format!("{} of {size}: at most {bound} {unit}", algorithm.name()),
            "found": found,
            "unit": unit,
            "met": found <= bound,
        }));
    };
    for (algorithm, size, bound_s) in TIME_GOALS {
        let median_s = times(results, algorithm, size).median;
        add(algorithm, size, median_s, bound_s, "s");
    }
    for (algorithm, size, bound_mb) in MEMORY_GOALS {
        let peak_mb = memory_mb(results, algorithm, size);
        add(algorithm, size, peak_mb, bound_mb, "MB");
    }
    Value::Array(goals)
}

fn plot(results: &Value) -> String {
    let line = |algorithm: Algorithm| Line {
        name: algorithm.name().to_owned(),
        points: sizes(results, algorithm)
            .into_iter()
            .filter(|&size| is_solved(results, algorithm, size))
            .map(|size| (size as f64, times(results, algorithm, size).median))
            .collect(),
    };
    log_log(
        "Time on one core",
        "devices (br: nodes, inpa: nodes of five)",
        "seconds",
        &Algorithm::ALL.map(line),
    )
}

fn tables(results: &Value) -> String {
    let mut text = format!(
        "{} Growth is the exponent of the size from one row to the next.\n\n\
         ![time against size](algorithms.svg)\n\n",
        RESULTS.origin(results, " on one core", ""),
    );
    text.push_str("| goal | found | met |\n|---|---|---|\n");
    for goal in list(results, "goals") {
        let _ = writeln!(
            text,
            "| {} | {:.3} {} | {} |",
            word(goal, "/goal"),
            number(goal, "/found"),
            word(goal, "/unit"),
            yes(&goal["met"])
        );
    }
    for algorithm in list(results, "algorithms") {
        table(&mut text, results, algorithm);
    }
    text
}

fn table(text: &mut String, results: &Value, algorithm: &Value) {
    let (name, description) = (word(algorithm, "/name"), word(algorithm, "/description"));
    let _ = writeln!(text, "\n`{name}`: {description}.\n");
    text.push_str("| size | time, ms | growth |\n|---:|---|---|\n");
    for row in list(results, "summary").filter(|row| row["algorithm"] == name) {
        let ms = spread(&row["time_s"]).scaled(1e3);
        let gave_up = if row["solved"] == true {
            ""
        } else {
            ", gave up"
        };
        let growth = row["growth"].as_f64();
        let growth = growth.map_or(String::new(), |growth| format!("{growth:.2}"));
        let _ = writeln!(
            text,
            "| {} | {}{gave_up} | {growth} |",
            row["size"],
            ms.text(3)
        );
    }
}
