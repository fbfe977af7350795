//! The paper's comparison: four strategies on the same unlike nodes.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 4; Clarke's thesis, section 2.3.1 (the memory cliff).

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::launch::{Launcher, machine};
use crate::results::{Results, list, number, series};
use crate::statistics::Spread;

const STRATEGIES: [&str; 4] = ["homogeneous", "single-cpm", "multi-cpm", "fpm"];
const RESULTS: Results = Results {
    file: "bench/results/balance.json",
    page: "bench/results/balance.md",
    section: "bench balance",
};
const PLATFORMS: [&str; 2] = ["emulated-4", "emulated-memory-cliff"];
const RANKS: usize = 4;

/// How large the campaign is.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; each runs every strategy once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// m = n = k on the emulated cluster
    #[arg(long, default_value_t = 7680)]
    size: usize,
    /// Block size on the emulated cluster
    #[arg(long, default_value_t = 48)]
    block: usize,
    /// Only make the tables from the samples that are kept
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
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    let sum_up = |results: &mut Value| {
        results["summary"] = summary(results);
        results["goals"] = goals(results);
        for goal in list(results, "goals") {
            println!("{goal}");
        }
        Ok(())
    };
    RESULTS.publish(fresh.transpose()?, sum_up, tables)
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

fn is(sample: &Value, platform: &str, strategy: &str) -> bool {
    sample["platform"] == platform && sample["strategy"] == strategy
}

/// The reports of one platform and strategy.
fn reports<'a>(
    results: &'a Value,
    platform: &'a str,
    strategy: &'a str,
) -> impl Iterator<Item = &'a Value> {
    list(results, "samples")
        .filter(move |sample| is(sample, platform, strategy))
        .map(|sample| &sample["report"])
}

/// A figure of a report.
type Figure = fn(&Value) -> f64;

/// What the tables show of each run.
const FIGURES: [(&str, Figure); 4] = [
    ("wall_over_ideal", |r| {
        number(r, "/wall_s") / number(r, "/ideal_s")
    }),
    ("imbalance", |r| number(r, "/imbalance")),
    ("iterations", |r| number(r, "/balance/iterations")),
    ("measuring_share", |r| {
        number(r, "/balance_s") / (number(r, "/balance_s") + number(r, "/wall_s"))
    }),
];

/// Median, smallest and largest of every figure, for each platform and strategy.
fn summary(results: &Value) -> Value {
    let mut rows = Vec::new();
    for platform in PLATFORMS {
        for strategy in STRATEGIES {
            let mut row = json!({ "platform": platform, "strategy": strategy });
            for (name, figure) in FIGURES {
                row[name] = Spread::of(reports(results, platform, strategy).map(figure)).json();
            }
            row["wall_over_fpm"] = against_fpm(results, platform, strategy).json();
            rows.push(row);
        }
    }
    Value::Array(rows)
}

/// What the campaign is to show, and whether its medians do.
fn goals(results: &Value) -> Value {
    let [emulated, cliff] = PLATFORMS;
    let median = |platform, strategy, figure: usize| {
        Spread::of(reports(results, platform, strategy).map(FIGURES[figure].1)).median
    };
    let even = against_fpm(results, emulated, "homogeneous").median;
    let goals = [
        (
            "emulated-4: FPM's wall / ideal at most 1.15",
            median(emulated, "fpm", 0),
            1.15,
            true,
        ),
        (
            "emulated-4: FPM's imbalance at most 0.10",
            median(emulated, "fpm", 1),
            0.10,
            true,
        ),
        (
            "emulated-4: even wall / FPM's wall at least 1.7",
            even,
            1.7,
            false,
        ),
        (
            "emulated-4: FPM's measuring share at most 0.15",
            median(emulated, "fpm", 3),
            0.15,
            true,
        ),
        (
            "memory-cliff: FPM's iterations at most 10",
            median(cliff, "fpm", 2),
            10.0,
            true,
        ),
        (
            "memory-cliff: FPM's imbalance at most 0.10",
            median(cliff, "fpm", 1),
            0.10,
            true,
        ),
        (
            "memory-cliff: multi-CPM's imbalance above 0.10",
            median(cliff, "multi-cpm", 1),
            0.10,
            false,
        ),
    ];
    let line = |(goal, found, bound, at_most): (&str, f64, f64, bool)| {
        let met = if at_most {
            found <= bound
        } else {
            found >= bound
        };
        json!({ "goal": goal, "median": found, "met": met })
    };
    Value::Array(goals.into_iter().map(line).collect())
}

/// Wall times in units of FPM's in the same round.
fn against_fpm(results: &Value, platform: &str, strategy: &str) -> Spread {
    let walls = |strategy| {
        let is = |sample: &Value| is(sample, platform, strategy);
        series(results, is, |sample| number(sample, "/report/wall_s"))
    };
    Spread::of_ratios(&walls(strategy), &walls("fpm"))
}

fn tables(results: &Value) -> String {
    let cores = format!(" on {} cores", results["machine"]["cores"]);
    let mut text = RESULTS.origin(results, &cores, "") + "\n\n";
    for platform in PLATFORMS {
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
    for strategy in STRATEGIES {
        let of = |figure: usize, scale: f64| {
            let figure = FIGURES[figure].1;
            Spread::of(reports(results, platform, strategy).map(|report| scale * figure(report)))
        };
        let n_rounds = reports(results, platform, strategy).count();
        let converged = reports(results, platform, strategy)
            .filter(|report| report.pointer("/balance/converged") == Some(&Value::Bool(true)))
            .count();
        let _ = writeln!(
            text,
            "| {strategy} | {} | {} | {} | {} | {converged} of {n_rounds} | {} |",
            against_fpm(results, platform, strategy).text(2),
            of(0, 1.0).text(2),
            of(1, 100.0).text(1),
            of(2, 1.0).text(0),
            of(3, 100.0).text(1),
        );
    }
    text.push('\n');
}
