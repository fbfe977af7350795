//! The paper's comparison: four strategies on the same unlike nodes.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 4; Clarke's thesis, section 2.3.1 (the memory cliff).

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use crate::launch::{Launcher, machine};
use crate::markdown::replace_section;
use crate::statistics::Spread;

const STRATEGIES: [&str; 4] = ["homogeneous", "single-cpm", "multi-cpm", "fpm"];
const RESULTS: &str = "bench/results/balance.json";
const RANKS: usize = 4;

/// How large the campaign is.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; each runs every strategy once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// m = n = k on the emulated cluster
    #[arg(long, default_value_t = 8192)]
    size: usize,
    /// Block size on the emulated cluster
    #[arg(long, default_value_t = 64)]
    block: usize,
    /// Only make the table in the README from the results that are there
    #[arg(long)]
    table_only: bool,
}

/// A platform and what is multiplied on it.
struct Setting {
    name: &'static str,
    size: usize,
    block: usize,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if !arguments.table_only {
        let results = measure(arguments)?;
        std::fs::create_dir_all("bench/results")?;
        std::fs::write(RESULTS, serde_json::to_string_pretty(&results)? + "\n").context(RESULTS)?;
    }
    let results: Value = serde_json::from_str(&std::fs::read_to_string(RESULTS).context(RESULTS)?)?;
    let text = tables(&results);
    println!("{text}");
    replace_section(Path::new("README.md"), "bench balance", &text)
}

fn measure(arguments: &Arguments) -> anyhow::Result<Value> {
    let launcher = Launcher::from_environment()?;
    let settings = [
        Setting {
            name: "emulated-4",
            size: arguments.size,
            block: arguments.block,
        },
        Setting {
            name: "emulated-memory-cliff",
            size: 3072,
            block: 32,
        },
    ];
    let mut samples = Vec::new();
    for setting in &settings {
        for round in 0..arguments.rounds {
            // Every round starts with another strategy.
            for turn in 0..STRATEGIES.len() {
                let strategy = STRATEGIES[(round + turn) % STRATEGIES.len()];
                let report = launcher.mxm(RANKS, &setting.arguments(strategy))?;
                eprintln!(
                    "{} round {round} {strategy}: wall {:.3} s",
                    setting.name,
                    number(&report, "/wall_s")
                );
                samples.push(json!({
                    "platform": setting.name, "round": round, "strategy": strategy, "report": report,
                }));
            }
        }
    }
    let Arguments {
        rounds,
        size,
        block,
        ..
    } = arguments;
    Ok(json!({
        "schema": 1,
        "command": format!("cargo xtask bench balance --rounds {rounds} --size {size} --block {block}"),
        "machine": machine(),
        "samples": samples,
    }))
}

impl Setting {
    fn arguments(&self, strategy: &str) -> Vec<String> {
        let platform = format!("cluster-configs/{}.toml", self.name);
        let (size, block) = (self.size.to_string(), self.block.to_string());
        [
            "--size",
            &size,
            "--block",
            &block,
            "--platform",
            &platform,
            "--strategy",
            strategy,
        ]
        .map(str::to_string)
        .to_vec()
    }
}

fn number(value: &Value, pointer: &str) -> f64 {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or(f64::NAN)
}

/// The reports of one platform and strategy.
fn reports<'a>(
    results: &'a Value,
    platform: &'a str,
    strategy: &'a str,
) -> impl Iterator<Item = &'a Value> {
    let samples = results["samples"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    samples
        .iter()
        .filter(move |sample| sample["platform"] == platform && sample["strategy"] == strategy)
        .map(|sample| &sample["report"])
}

fn tables(results: &Value) -> String {
    let mut text = String::new();
    let command = results["command"].as_str().unwrap_or_default();
    let cores = number(results, "/machine/cores");
    let cpu = results
        .pointer("/machine/cpu")
        .and_then(Value::as_str)
        .unwrap_or("unknown processor");
    let _ = writeln!(
        text,
        "Measured by `{command}` on {cores} cores ({cpu}); median (smallest to largest) over the rounds, raw \
         samples in [`{RESULTS}`]({RESULTS}).\n",
    );
    for platform in ["emulated-4", "emulated-memory-cliff"] {
        table(&mut text, results, platform);
    }
    text
}

fn table(text: &mut String, results: &Value, platform: &str) {
    let Some(first) = reports(results, platform, "fpm").next() else {
        return;
    };
    let (size, block) = (number(first, "/m"), number(first, "/block"));
    let _ = writeln!(text, "`{platform}`, m = n = k = {size}, b = {block}:\n");
    text.push_str(
        "| strategy | wall / FPM's wall | wall / ideal | imbalance of busy times, % | iterations | converged | \
         measuring and partitioning, % of the run |\n|---|---|---|---|---|---|---|\n",
    );
    let fpm: Vec<f64> = reports(results, platform, "fpm")
        .map(|report| number(report, "/wall_s"))
        .collect();
    for strategy in STRATEGIES {
        let of = |value: &dyn Fn(&Value) -> f64| {
            Spread::of(reports(results, platform, strategy).map(value))
        };
        let walls = reports(results, platform, strategy).map(|report| number(report, "/wall_s"));
        let against_fpm = Spread::of(walls.zip(&fpm).map(|(wall, fpm)| wall / fpm));
        let n_rounds = reports(results, platform, strategy).count();
        let converged = reports(results, platform, strategy)
            .filter(|report| report.pointer("/balance/converged") == Some(&Value::Bool(true)))
            .count();
        let share = |r: &Value| {
            100.0 * number(r, "/balance_s") / (number(r, "/balance_s") + number(r, "/wall_s"))
        };
        let _ = writeln!(
            text,
            "| {strategy} | {} | {} | {} | {} | {converged} of {n_rounds} | {} |",
            against_fpm.text(2),
            of(&|r| number(r, "/wall_s") / number(r, "/ideal_s")).text(2),
            of(&|r| 100.0 * number(r, "/imbalance")).text(1),
            of(&|r| number(r, "/balance/iterations")).text(0),
            of(&share).text(1),
        );
    }
    text.push('\n');
}
