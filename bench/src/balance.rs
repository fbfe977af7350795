//! The papers' comparison: four strategies on the same unlike nodes.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 4; Clarke's thesis, section 2.3.1 (the memory cliff).

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::launch::MxmLauncher;
use crate::report::MxmReport;
use crate::results::{Origin, ResultsPage, RoundSample, figures_by_round};
use crate::statistics::{MedianRange, nan_if_null};

const STRATEGIES: [&str; 4] = ["homogeneous", "single-cpm", "multi-cpm", "fpm"];
const RESULTS: ResultsPage = ResultsPage {
    file: "bench/results/balance.json",
    page: "bench/results/balance.md",
    section: "bench balance",
};
const EMULATED: &str = "emulated-4";
const CLIFF: &str = "emulated-memory-cliff";
const PLATFORMS: [&str; 2] = [EMULATED, CLIFF];
const RANKS: usize = 4;

/// The size of the campaign.
#[derive(clap::Args)]
pub struct BalanceArguments {
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

/// A platform and the product on it.
struct PlatformSetting {
    platform: &'static str,
    size: usize,
    block: usize,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
struct BalanceResults {
    #[serde(flatten)]
    origin: Origin,
    samples: Vec<StrategySample>,
    #[serde(default)]
    summary: Vec<StrategyRow>,
    #[serde(default)]
    goals: Vec<BalanceGoal>,
}

/// A multiplication by one strategy.
#[derive(Serialize, Deserialize)]
struct StrategySample {
    platform: String,
    round: usize,
    strategy: String,
    report: MxmReport,
}

/// The figures of a strategy on a platform.
#[derive(Serialize, Deserialize)]
struct StrategyRow {
    platform: String,
    strategy: String,
    wall_over_ideal: MedianRange,
    imbalance: MedianRange,
    iterations: MedianRange,
    /// Measuring and partitioning, as a share of the run.
    measuring_share: MedianRange,
    /// Wall times over those of `fpm` in the same round.
    wall_over_fpm: MedianRange,
}

/// A goal of the campaign.
#[derive(Serialize, Deserialize)]
struct BalanceGoal {
    goal: String,
    #[serde(deserialize_with = "nan_if_null")]
    median: f64,
    met: bool,
}

impl RoundSample for StrategySample {
    fn round(&self) -> usize {
        self.round
    }
}

/// Runs the campaign, or makes its tables only.
pub fn run(arguments: &BalanceArguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    RESULTS.publish(fresh.transpose()?, sum_up, format_tables)
}

fn measure(arguments: &BalanceArguments) -> anyhow::Result<BalanceResults> {
    let launcher = MxmLauncher::from_environment()?;
    let BalanceArguments {
        rounds,
        size,
        block,
        ..
    } = *arguments;
    let emulated = PlatformSetting {
        platform: EMULATED,
        size,
        block,
    };
    let cliff = PlatformSetting {
        platform: CLIFF,
        size: 3072,
        block: 32,
    };
    let mut samples = Vec::new();
    for setting in [emulated, cliff] {
        for round in 0..rounds {
            for turn in 0..STRATEGIES.len() {
                // Every round starts with another strategy.
                let strategy = STRATEGIES[(round + turn) % STRATEGIES.len()];
                let platform = setting.platform;
                let report = launcher.run_mxm(RANKS, &setting.mxm_arguments(strategy))?;
                let wall_s = report.wall_s;
                eprintln!("{platform} round {round} {strategy}: wall {wall_s:.3} s");
                samples.push(StrategySample {
                    platform: platform.to_owned(),
                    round,
                    strategy: strategy.to_owned(),
                    report,
                });
            }
        }
    }
    let command =
        format!("cargo xtask bench balance --rounds {rounds} --size {size} --block {block}");
    Ok(BalanceResults {
        origin: Origin::new(command),
        samples,
        summary: Vec::new(),
        goals: Vec::new(),
    })
}

impl PlatformSetting {
    fn mxm_arguments(&self, strategy: &str) -> Vec<String> {
        let Self {
            platform,
            size,
            block,
        } = self;
        let platform = format!("cluster-configs/{platform}.toml");
        let text =
            format!("--size {size} --block {block} --platform {platform} --strategy {strategy}");
        text.split(' ').map(str::to_owned).collect()
    }
}

impl BalanceResults {
    fn samples(&self, platform: &str, strategy: &str) -> impl Iterator<Item = &StrategySample> {
        let samples = self.samples.iter();
        samples.filter(move |s| s.platform == platform && s.strategy == strategy)
    }

    /// Returns the wall times by round.
    fn walls(&self, platform: &str, strategy: &str) -> Vec<f64> {
        figures_by_round(self.samples(platform, strategy), |s| s.report.wall_s)
    }

    fn summarize(&self, platform: &str, strategy: &str) -> StrategyRow {
        let figure = |figure: fn(&MxmReport) -> f64| {
            let samples = self.samples(platform, strategy);
            MedianRange::of(samples.map(|sample| figure(&sample.report)))
        };
        let walls = self.walls(platform, strategy);
        StrategyRow {
            platform: platform.to_owned(),
            strategy: strategy.to_owned(),
            wall_over_ideal: figure(MxmReport::over_ideal),
            imbalance: figure(|report| report.imbalance),
            iterations: figure(|report| {
                let balance = report.balance.as_ref();
                balance.map_or(f64::NAN, |balance| f64::from(balance.iterations))
            }),
            measuring_share: figure(|report| report.balance_s / (report.balance_s + report.wall_s)),
            wall_over_fpm: MedianRange::of_ratios(&walls, &self.walls(platform, "fpm")),
        }
    }

    /// Returns a median of the summary.
    fn median(
        &self,
        platform: &str,
        strategy: &str,
        figure: fn(&StrategyRow) -> MedianRange,
    ) -> f64 {
        let mut rows = self.summary.iter();
        let row = rows.find(|row| row.platform == platform && row.strategy == strategy);
        row.map_or(f64::NAN, |row| figure(row).median)
    }

    fn check_goals(&self) -> Vec<BalanceGoal> {
        vec![
            BalanceGoal::at_most(
                "emulated-4: FPM's wall / ideal at most 1.15",
                self.median(EMULATED, "fpm", |row| row.wall_over_ideal),
                1.15,
            ),
            BalanceGoal::at_most(
                "emulated-4: FPM's imbalance at most 0.10",
                self.median(EMULATED, "fpm", |row| row.imbalance),
                0.10,
            ),
            BalanceGoal::at_least(
                "emulated-4: even wall / FPM's wall at least 1.7",
                self.median(EMULATED, "homogeneous", |row| row.wall_over_fpm),
                1.7,
            ),
            BalanceGoal::at_most(
                "emulated-4: FPM's measuring share at most 0.15",
                self.median(EMULATED, "fpm", |row| row.measuring_share),
                0.15,
            ),
            BalanceGoal::at_most(
                "memory-cliff: FPM's iterations at most 10",
                self.median(CLIFF, "fpm", |row| row.iterations),
                10.0,
            ),
            BalanceGoal::at_most(
                "memory-cliff: FPM's imbalance at most 0.10",
                self.median(CLIFF, "fpm", |row| row.imbalance),
                0.10,
            ),
            BalanceGoal::at_least(
                "memory-cliff: multi-CPM's imbalance above 0.10",
                self.median(CLIFF, "multi-cpm", |row| row.imbalance),
                0.10,
            ),
        ]
    }
}

impl BalanceGoal {
    fn at_most(goal: &str, median: f64, bound: f64) -> Self {
        Self {
            goal: goal.to_owned(),
            median,
            met: median <= bound,
        }
    }

    fn at_least(goal: &str, median: f64, bound: f64) -> Self {
        Self {
            goal: goal.to_owned(),
            median,
            met: median >= bound,
        }
    }
}

/// Summarizes the samples, and checks and prints the goals.
fn sum_up(results: &mut BalanceResults) -> anyhow::Result<()> {
    let mut summary = Vec::new();
    for platform in PLATFORMS {
        for strategy in STRATEGIES {
            summary.push(results.summarize(platform, strategy));
        }
    }
    results.summary = summary;
    results.goals = results.check_goals();
    for goal in &results.goals {
        println!("{}", serde_json::to_string(goal)?);
    }
    Ok(())
}

fn format_tables(results: &BalanceResults) -> String {
    let cores = format!(" on {} cores", results.origin.machine.cores);
    let mut text = RESULTS.describe_origin(&results.origin, &cores, "") + "\n\n";
    for platform in PLATFORMS {
        format_table(&mut text, results, platform);
    }
    text
}

fn format_table(text: &mut String, results: &BalanceResults, platform: &str) {
    let Some(first) = results.samples(platform, "fpm").next() else {
        return;
    };
    let (size, block) = (first.report.m.unwrap_or(0), first.report.block);
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(text, "`{platform}`, m = n = k = {size}, b = {block}:\n");
    text.push_str(
        "| strategy | wall / FPM's wall | wall / ideal | imbalance of busy times, % | iterations | converged | \
         measuring and partitioning, % of the run |\n|---|---|---|---|---|---|---|\n",
    );
    for row in results
        .summary
        .iter()
        .filter(|row| row.platform == platform)
    {
        let strategy = &row.strategy;
        let n_rounds = results.samples(platform, strategy).count();
        let converged = results
            .samples(platform, strategy)
            .filter_map(|sample| sample.report.balance.as_ref())
            .filter(|balance| balance.converged)
            .count();
        let _ = writeln!(
            text,
            "| {strategy} | {} | {} | {} | {} | {converged} of {n_rounds} | {} |",
            row.wall_over_fpm.text(2),
            row.wall_over_ideal.text(2),
            row.imbalance.scale(100.0).text(1),
            row.iterations.text(0),
            row.measuring_share.scale(100.0).text(1),
        );
    }
    text.push('\n');
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
