//! The papers' comparison: four strategies on the same unlike nodes.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 4; Clarke's thesis, section 2.3.1 (the memory cliff).

use serde::{Deserialize, Serialize};

use crate::launch::MxmLauncher;
use crate::markdown::{format_table, yes_or_no};
use crate::report::MxmReport;
use crate::results::{CampaignResults, Origin, ResultsPage, list_in_turn};
use crate::statistics::MedianRange;

const STRATEGIES: [&str; 4] = ["homogeneous", "single-cpm", "multi-cpm", "fpm"];
const EMULATED: &str = "emulated-4";
const CLIFF: &str = "emulated-memory-cliff";

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

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct BalanceResults {
    #[serde(flatten)]
    origin: Origin,
    samples: Vec<StrategySample>,
}

/// A multiplication by one strategy.
#[derive(Serialize, Deserialize)]
pub struct StrategySample {
    platform: String,
    round: usize,
    strategy: String,
    report: MxmReport,
}

/// A comparison of strategies on the platform `cluster-configs/PLATFORM.toml`.
pub struct StrategyTrial {
    pub platform: &'static str,
    pub ranks: usize,
    /// m = n = k.
    pub size: usize,
    pub block: usize,
    pub strategies: &'static [&'static str],
}

/// The figures of a strategy on a platform.
struct StrategyFigures {
    /// Wall times over those of `fpm` in the same round.
    wall_over_fpm: MedianRange,
    wall_over_ideal: MedianRange,
    imbalance: MedianRange,
    iterations: MedianRange,
    /// Measuring and partitioning, as a share of the run.
    measuring_share: MedianRange,
}

/// Runs the campaign, or makes its tables only.
pub fn run(arguments: &BalanceArguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    BalanceResults::publish(fresh.transpose()?)
}

fn measure(arguments: &BalanceArguments) -> anyhow::Result<BalanceResults> {
    let BalanceArguments {
        rounds,
        size,
        block,
        ..
    } = *arguments;
    let launcher = MxmLauncher::from_environment()?;
    let mut samples = Vec::new();
    for (platform, size, block) in [(EMULATED, size, block), (CLIFF, 3072, 32)] {
        let trial = StrategyTrial {
            platform,
            ranks: 4,
            size,
            block,
            strategies: &STRATEGIES,
        };
        samples.extend(trial.measure(&launcher, rounds)?);
    }
    let command =
        format!("cargo xtask bench balance --rounds {rounds} --size {size} --block {block}");
    Ok(BalanceResults {
        origin: Origin::new(command),
        samples,
    })
}

impl StrategyTrial {
    /// Multiplies by each strategy once in every round.
    ///
    /// # Errors
    /// If `isochron mxm` fails.
    pub fn measure(
        &self,
        launcher: &MxmLauncher,
        rounds: usize,
    ) -> anyhow::Result<Vec<StrategySample>> {
        let Self {
            platform,
            size,
            block,
            ..
        } = self;
        let mut samples = Vec::new();
        for round in 0..rounds {
            for &strategy in list_in_turn(self.strategies, round) {
                let text = format!(
                    "--size {size} --block {block} --platform cluster-configs/{platform}.toml --strategy {strategy}"
                );
                let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
                let report = launcher.run_mxm(self.ranks, &words)?;
                let wall_s = report.wall_s;
                eprintln!("{platform} round {round} {strategy}: wall {wall_s:.3} s");
                samples.push(StrategySample {
                    platform: self.platform.to_owned(),
                    round,
                    strategy: strategy.to_owned(),
                    report,
                });
            }
        }
        Ok(samples)
    }
}

/// Returns the reports of a strategy on a platform, by round.
pub fn list_reports<'a>(
    samples: &'a [StrategySample],
    platform: &str,
    strategy: &str,
) -> Vec<&'a MxmReport> {
    let wanted = samples
        .iter()
        .filter(|sample| sample.platform == platform && sample.strategy == strategy);
    wanted.map(|sample| &sample.report).collect()
}

/// Summarizes a figure of reports.
pub fn summarize_reports(reports: &[&MxmReport], figure: fn(&MxmReport) -> f64) -> MedianRange {
    MedianRange::of(reports.iter().map(|report| figure(report)))
}

/// Summarizes the ratios of a figure, round by round.
pub fn compare_reports(
    above: &[&MxmReport],
    below: &[&MxmReport],
    figure: fn(&MxmReport) -> f64,
) -> MedianRange {
    let pairs = above.iter().zip(below);
    MedianRange::of(pairs.map(|(above, below)| figure(above) / figure(below)))
}

impl BalanceResults {
    fn summarize(&self, platform: &str, strategy: &str) -> StrategyFigures {
        let reports = list_reports(&self.samples, platform, strategy);
        let fpm = list_reports(&self.samples, platform, "fpm");
        StrategyFigures {
            wall_over_fpm: compare_reports(&reports, &fpm, |report| report.wall_s),
            wall_over_ideal: summarize_reports(&reports, MxmReport::over_ideal),
            imbalance: summarize_reports(&reports, |report| report.imbalance),
            iterations: summarize_reports(&reports, |report| {
                let balance = report.balance.as_ref();
                balance.map_or(f64::NAN, |balance| f64::from(balance.iterations))
            }),
            measuring_share: summarize_reports(&reports, |report| {
                report.balance_s / (report.balance_s + report.wall_s)
            }),
        }
    }

    /// Returns the lines of the goals.
    fn check_goals(&self) -> [[String; 3]; 7] {
        let [even, fpm] = ["homogeneous", "fpm"].map(|strategy| self.summarize(EMULATED, strategy));
        let [multi_cpm, cliff_fpm] =
            ["multi-cpm", "fpm"].map(|strategy| self.summarize(CLIFF, strategy));
        [
            check_most("emulated-4: FPM's wall / ideal", fpm.wall_over_ideal, 1.15),
            check_most("emulated-4: FPM's imbalance", fpm.imbalance, 0.10),
            check_least(
                "emulated-4: even wall / FPM's wall",
                even.wall_over_fpm,
                1.7,
            ),
            check_most(
                "emulated-4: FPM's measuring share",
                fpm.measuring_share,
                0.15,
            ),
            check_most("memory-cliff: FPM's iterations", cliff_fpm.iterations, 10.0),
            check_most("memory-cliff: FPM's imbalance", cliff_fpm.imbalance, 0.10),
            check_least(
                "memory-cliff: multi-CPM's imbalance",
                multi_cpm.imbalance,
                0.10,
            ),
        ]
    }

    /// Formats the table of a platform with the line above it; nothing if it was not measured.
    fn format_platform(&self, platform: &str) -> String {
        let fpm = list_reports(&self.samples, platform, "fpm");
        let Some(first) = fpm.first() else {
            return String::new();
        };
        let (size, block) = (first.m.unwrap_or(0), first.block);
        let rows = STRATEGIES.map(|strategy| {
            let reports = list_reports(&self.samples, platform, strategy);
            let balances = reports.iter().filter_map(|report| report.balance.as_ref());
            let converged = balances.filter(|balance| balance.converged).count();
            let figures = self.summarize(platform, strategy);
            [
                strategy.to_owned(),
                figures.wall_over_fpm.text(2),
                figures.wall_over_ideal.text(2),
                figures.imbalance.scale(100.0).text(1),
                figures.iterations.text(0),
                format!("{converged} of {}", reports.len()),
                figures.measuring_share.scale(100.0).text(1),
            ]
        });
        let columns = [
            "strategy",
            "wall / FPM's wall",
            "wall / ideal",
            "imbalance of busy times, %",
            "iterations",
            "converged",
            "measuring and partitioning, % of the run",
        ];
        let table = format_table(columns, rows);
        format!("`{platform}`, m = n = k = {size}, b = {block}:\n\n{table}\n")
    }
}

fn check_most(goal: &str, found: MedianRange, bound: f64) -> [String; 3] {
    let is_met = found.median <= bound;
    [
        format!("{goal} at most {bound}"),
        found.text(2),
        yes_or_no(is_met),
    ]
}

fn check_least(goal: &str, found: MedianRange, bound: f64) -> [String; 3] {
    let is_met = found.median >= bound;
    [
        format!("{goal} at least {bound}"),
        found.text(2),
        yes_or_no(is_met),
    ]
}

impl CampaignResults for BalanceResults {
    const PAGE: ResultsPage = ResultsPage { name: "balance" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let cores = format!(" on {} cores", self.origin.machine.cores);
        let origin = Self::PAGE.describe_origin(&self.origin, &cores, "");
        let goals = format_table(["goal", "found", "met"], self.check_goals());
        let platforms = [EMULATED, CLIFF].map(|platform| self.format_platform(platform));
        Ok(format!("{origin}\n\n{goals}\n{}", platforms.concat()))
    }
}
