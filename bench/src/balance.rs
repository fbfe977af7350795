//! The papers' comparison of four strategies on the same unlike nodes, and beside them the one that learns in the run.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 4; Clarke's thesis, section 2.3.1 (the memory cliff).

use serde::{Deserialize, Serialize};

use isochron_hierarchy::model::{ModelFile, PiecewiseFpm, SpeedModel};
use isochron_hierarchy::partition::gpa;

use crate::goal::{check_least, check_most};
use crate::launch::MxmLauncher;
use crate::markdown::format_table;
use crate::report::MxmReport;
use crate::results::{CampaignResults, Origin, ResultsPage, list_in_turn};
use crate::statistics::MedianRange;

const STRATEGIES: [&str; 5] = ["homogeneous", "single-cpm", "multi-cpm", "fpm", "adaptive"];
const EMULATED: &str = "emulated-4";
const CLIFF: &str = "emulated-memory-cliff";
/// m = n = k and the block on the nodes with a memory cliff: those of their points files.
const CLIFF_SIZE: usize = 3072;
const CLIFF_BLOCK: usize = 32;
/// The points files of these nodes.
const CLIFF_POINTS: [&str; 4] = [
    include_str!("../../cluster-configs/models/cliff-paging.points"),
    include_str!("../../cluster-configs/models/cliff-60k.points"),
    include_str!("../../cluster-configs/models/cliff-45k.points"),
    include_str!("../../cluster-configs/models/cliff-30k.points"),
];

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
    /// Run on this platform only, and publish nothing
    #[arg(long, value_parser = [EMULATED, CLIFF])]
    only: Option<String>,
    /// Run these strategies only, and publish nothing
    #[arg(long, value_delimiter = ',', value_parser = STRATEGIES)]
    strategies: Vec<String>,
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
    pub strategies: Vec<&'static str>,
}

/// The figures of a strategy on a platform.
struct StrategyFigures {
    /// Wall times over those of `fpm` in the same round.
    wall_over_fpm: MedianRange,
    wall_over_ideal: MedianRange,
    /// Measuring and wall times over the ideal ones.
    total_over_ideal: MedianRange,
    imbalance: MedianRange,
    iterations: MedianRange,
    /// Measuring and partitioning, as a share of the run.
    measuring_share: MedianRange,
}

/// Runs the campaign, or makes its tables only.
pub fn run(arguments: &BalanceArguments) -> anyhow::Result<()> {
    if arguments.table_only {
        return BalanceResults::publish(None);
    }
    let results = measure(arguments)?;
    if arguments.only.is_some() || !arguments.strategies.is_empty() {
        return results.try_out();
    }
    BalanceResults::publish(Some(results))
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
    let settings = [(EMULATED, size, block), (CLIFF, CLIFF_SIZE, CLIFF_BLOCK)];
    for (platform, size, block) in settings {
        if arguments.only.as_ref().is_some_and(|only| only != platform) {
            continue;
        }
        let trial = StrategyTrial {
            platform,
            ranks: 4,
            size,
            block,
            strategies: arguments.list_strategies(),
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

impl BalanceArguments {
    fn list_strategies(&self) -> Vec<&'static str> {
        let asked = &self.strategies;
        let mut all = STRATEGIES.to_vec();
        all.retain(|&name| asked.is_empty() || asked.iter().any(|only| only == name));
        all
    }
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
            for &strategy in list_in_turn(&self.strategies, round) {
                let words: Vec<String> = format!(
                    "--size {size} --block {block} --platform cluster-configs/{platform}.toml --strategy {strategy}"
                ).split(' ').map(str::to_owned).collect();
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
    samples
        .iter()
        .filter(|sample| sample.platform == platform && sample.strategy == strategy)
        .map(|sample| &sample.report)
        .collect()
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
            total_over_ideal: MedianRange::of(
                reports
                    .iter()
                    .map(|report| report.total_s() / find_ideal_s(platform, report)),
            ),
            imbalance: summarize_reports(&reports, |report| report.imbalance),
            iterations: summarize_reports(&reports, |report| {
                let balance = report.balance.as_ref();
                balance.map_or(f64::NAN, |balance| f64::from(balance.iterations))
            }),
            measuring_share: summarize_reports(&reports, |report| {
                report.balance_s / report.total_s()
            }),
        }
    }

    /// Returns the lines of the goals of the strategy that learns in the run.
    fn check_adaptive(&self) -> [[String; 3]; 4] {
        let [emulated, cliff] =
            [EMULATED, CLIFF].map(|platform| self.summarize(platform, "adaptive"));
        [
            (
                "emulated-4: adaptive's total / ideal",
                emulated.total_over_ideal,
                1.08,
            ),
            ("emulated-4: adaptive's imbalance", emulated.imbalance, 0.10),
            (
                "memory-cliff: adaptive's total / ideal",
                cliff.total_over_ideal,
                1.15,
            ),
            ("memory-cliff: adaptive's imbalance", cliff.imbalance, 0.10),
        ]
        .map(|(goal, found, bound)| check_most(goal, found, bound))
    }

    /// Returns the lines of the goals of the papers' strategies.
    fn check_papers(&self) -> [[String; 3]; 7] {
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

    /// Returns the line of a strategy; `None` if it was not measured.
    fn make_row(&self, platform: &str, strategy: &str) -> Option<[String; 8]> {
        let reports = list_reports(&self.samples, platform, strategy);
        let converged = reports
            .iter()
            .filter_map(|report| report.balance.as_ref())
            .filter(|balance| balance.converged)
            .count();
        let figures = self.summarize(platform, strategy);
        (!reports.is_empty()).then(|| {
            [
                strategy.to_owned(),
                figures.wall_over_fpm.text(2),
                figures.wall_over_ideal.text(2),
                figures.total_over_ideal.text(2),
                figures.imbalance.scale(100.0).text(1),
                figures.iterations.text(0),
                format!("{converged} of {}", reports.len()),
                figures.measuring_share.scale(100.0).text(1),
            ]
        })
    }

    /// Formats the table of a platform with the line above it; nothing if it was not measured.
    fn format_platform(&self, platform: &str) -> String {
        let Some(first) = self
            .samples
            .iter()
            .filter(|sample| sample.platform == platform)
            .map(|sample| &sample.report)
            .next()
        else {
            return String::new();
        };
        let (size, block) = (first.m.unwrap_or(0), first.block);
        let rows = STRATEGIES
            .iter()
            .filter_map(|strategy| self.make_row(platform, strategy));
        let columns = [
            "strategy",
            "wall / FPM's wall",
            "wall / ideal",
            "total / ideal",
            "imbalance of busy times, %",
            "iterations",
            "converged",
            "measuring and partitioning, % of the run",
        ];
        let table = format_table(columns, rows);
        format!("`{platform}`, m = n = k = {size}, b = {block}:\n\n{table}\n")
    }
}

/// Returns the ideal seconds of a run. On the memory cliff the times of all nodes are known. The speeds of a run that was
/// slow there would give a longer time.
fn find_ideal_s(platform: &str, report: &MxmReport) -> f64 {
    match platform {
        CLIFF => solve_cliff().unwrap_or(f64::NAN),
        _ => report.ideal_s,
    }
}

/// Returns the seconds of the product on the nodes with a memory cliff by the best division.
fn solve_cliff() -> anyhow::Result<f64> {
    let models: Vec<PiecewiseFpm> = CLIFF_POINTS
        .iter()
        .map(|text| PiecewiseFpm::from_points(ModelFile::parse(text)?.points))
        .collect::<Result<_, _>>()?;
    let models: Vec<&dyn SpeedModel> = models.iter().map(|model| model as _).collect();
    let side = (CLIFF_SIZE / CLIFF_BLOCK) as u64;
    let times_s = gpa(&models, side * side)?.times_s;
    Ok(side as f64 * times_s.into_iter().fold(0.0, f64::max))
}

impl CampaignResults for BalanceResults {
    const PAGE: ResultsPage = ResultsPage { name: "balance" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let cores = format!(" on {} cores", self.origin.machine.cores);
        let origin = Self::PAGE.describe_origin(&self.origin, &cores, "");
        let mut goals = self.check_adaptive().to_vec();
        goals.extend(self.check_papers());
        // A strategy that was not measured has no figures.
        goals.retain(|[_, found, _]| !found.contains("NaN"));
        let goals = format_table(["goal", "found", "met"], goals);
        let platforms = [EMULATED, CLIFF].map(|platform| self.format_platform(platform));
        Ok(format!("{origin}\n\n{goals}\n{}", platforms.concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All nodes end together: beyond 2000 blocks of 110,000 a second the first one's speed falls with the fourth power.
    #[test]
    fn the_best_division_on_the_cliff_ends_everywhere_at_once() -> anyhow::Result<()> {
        let step_s = solve_cliff()? / 96.0;
        let others = step_s * (60e3 + 45e3 + 30e3);
        let first = 9216.0 - others;
        let first_s = first / 110e3 * (first / 2000.0).powi(4);
        assert!(
            (first_s / step_s - 1.0).abs() < 0.01,
            "{first_s} and {step_s}"
        );
        Ok(())
    }
}
