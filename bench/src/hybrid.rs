//! A hybrid processor: two unlike cores balanced by IDPA, against an even split over them.
//!
//! A BLAS with threads of its own gives each thread as many columns, whichever core it runs on. So does the
//! homogeneous strategy, with the same library on the same cores, one of which is paced.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::launch::{Launcher, machine};
use crate::results::{Results, number, series, spread};
use crate::statistics::Spread;

const RESULTS: Results = Results {
    file: "bench/results/hybrid.json",
    page: "bench/results/hybrid.md",
    section: "bench hybrid",
};
const PLATFORM: &str = "cluster-configs/emulated-hybrid.toml";
const STRATEGIES: [&str; 2] = ["homogeneous", "fpm"];

/// How many times as long the even split is to take, at least; 1.75 is what the speeds 1 : 0.4 allow.
const GOAL: f64 = 1.3;

/// How large the campaign is.
#[derive(clap::Args)]
pub struct Arguments {
    /// Rounds; each runs both
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// m = n = k
    #[arg(long, default_value_t = 3840)]
    size: usize,
    /// Block size
    #[arg(long, default_value_t = 128)]
    block: usize,
    /// Only make the table from the results that are there
    #[arg(long)]
    table_only: bool,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    let sum_up = |results: &mut Value| {
        results["summary"] = summary(results);
        Ok(())
    };
    RESULTS.publish(fresh.transpose()?, sum_up, table)
}

fn measure(arguments: &Arguments) -> anyhow::Result<Value> {
    let launcher = Launcher::from_environment()?;
    let Arguments {
        rounds,
        size,
        block,
        ..
    } = arguments;
    let mut samples = Vec::new();
    for round in 0..*rounds {
        for turn in 0..STRATEGIES.len() {
            // Every round starts with the other one.
            let strategy = STRATEGIES[(round + turn) % STRATEGIES.len()];
            let text = format!(
                "--size {size} --block {block} --platform {PLATFORM} --strategy {strategy}"
            );
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let report = launcher.mxm(1, &words)?;
            eprintln!(
                "round {round} {strategy}: {:.3} s",
                number(&report, "/wall_s")
            );
            samples.push(json!({ "round": round, "strategy": strategy, "report": report }));
        }
    }
    Ok(json!({
        "schema": 1,
        "command": format!("cargo xtask bench hybrid --rounds {rounds} --size {size} --block {block}"),
        "machine": machine(),
        "goal": GOAL,
        "samples": samples,
    }))
}

/// A figure of the reports of one strategy, by round.
fn figures(results: &Value, strategy: &str, figure: fn(&Value) -> f64) -> Vec<f64> {
    let is = |sample: &Value| sample["strategy"] == strategy;
    series(results, is, |sample| figure(&sample["report"]))
}

fn wall_s(report: &Value) -> f64 {
    number(report, "/wall_s")
}

fn with_balancing_s(report: &Value) -> f64 {
    number(report, "/wall_s") + number(report, "/balance_s")
}

fn summary(results: &Value) -> Value {
    let [even, fpm] = STRATEGIES;
    let ratio = |figure| {
        Spread::of_ratios(
            &figures(results, even, figure),
            &figures(results, fpm, figure),
        )
    };
    let multiplication = ratio(wall_s);
    json!({
        "even_over_fpm": multiplication.json(),
        "even_over_fpm_with_balancing": ratio(with_balancing_s).json(),
        "met": multiplication.median >= GOAL,
    })
}

fn table(results: &Value) -> String {
    let mut text = format!(
        "{} The even split stands for the threads of a BLAS: the same library on the same cores, one of them paced. The \
         goal is a ratio of {GOAL} at least.\n\n",
        RESULTS.origin(results, "", ""),
    );
    text.push_str("| | wall / ideal | imbalance of busy times, % |\n|---|---|---|\n");
    for (strategy, name) in STRATEGIES.iter().zip(["even split", "IDPA by FPM"]) {
        let over_ideal = |report: &Value| wall_s(report) / number(report, "/ideal_s");
        let imbalance = |report: &Value| 100.0 * number(report, "/imbalance");
        let _ = writeln!(
            text,
            "| {name} | {} | {} |",
            Spread::of(figures(results, strategy, over_ideal)).text(2),
            Spread::of(figures(results, strategy, imbalance)).text(1),
        );
    }
    let ratio = |key: &str| spread(&results["summary"][key]).text(2);
    let _ = writeln!(
        text,
        "\nThe even split takes {} times as long as the balanced one, {} times with the measuring counted in: \
         the goal is {}.",
        ratio("even_over_fpm"),
        ratio("even_over_fpm_with_balancing"),
        if results["summary"]["met"] == true {
            "met"
        } else {
            "missed"
        },
    );
    text
}
