//! A hybrid processor: two unlike cores balanced by IDPA, against an even split.
//!
//! A BLAS with its own threads gives each thread the same number of columns, regardless of its core. So does the
//! homogeneous strategy, with the same library on the same cores, one of which is paced.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::launch::MxmLauncher;
use crate::report::MxmReport;
use crate::results::{Origin, ResultsPage, RoundSample, figures_by_round};
use crate::statistics::MedianRange;

const RESULTS: ResultsPage = ResultsPage {
    file: "bench/results/hybrid.json",
    page: "bench/results/hybrid.md",
    section: "bench hybrid",
};
const PLATFORM: &str = "cluster-configs/emulated-hybrid.toml";
const EVEN: &str = "homogeneous";
const FPM: &str = "fpm";

/// The goal of the even split's time over the balanced one; the speeds 1 : 0.4 allow 1.75.
const GOAL: f64 = 1.3;

/// The size of the campaign.
#[derive(clap::Args)]
pub struct HybridArguments {
    /// Rounds; each runs both strategies
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// m = n = k
    #[arg(long, default_value_t = 3840)]
    size: usize,
    /// Block size
    #[arg(long, default_value_t = 128)]
    block: usize,
    /// Only make the table from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
struct HybridResults {
    #[serde(flatten)]
    origin: Origin,
    goal: f64,
    samples: Vec<HybridSample>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<HybridSummary>,
}

/// A multiplication by one strategy.
#[derive(Serialize, Deserialize)]
struct HybridSample {
    round: usize,
    strategy: String,
    report: MxmReport,
}

/// Times of the even split over those of the balanced one.
#[derive(Serialize, Deserialize)]
struct HybridSummary {
    even_over_fpm: MedianRange,
    even_over_fpm_with_balancing: MedianRange,
    met: bool,
}

impl RoundSample for HybridSample {
    fn round(&self) -> usize {
        self.round
    }
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &HybridArguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    RESULTS.publish(fresh.transpose()?, sum_up, format_table)
}

fn measure(arguments: &HybridArguments) -> anyhow::Result<HybridResults> {
    let launcher = MxmLauncher::from_environment()?;
    let HybridArguments {
        rounds,
        size,
        block,
        ..
    } = *arguments;
    let mut samples = Vec::new();
    for round in 0..rounds {
        for turn in 0..2 {
            // Every round starts with the other one.
            let strategy = [EVEN, FPM][(round + turn) % 2];
            let text = format!(
                "--size {size} --block {block} --platform {PLATFORM} --strategy {strategy}"
            );
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let report = launcher.run_mxm(1, &words)?;
            eprintln!("round {round} {strategy}: {:.3} s", report.wall_s);
            samples.push(HybridSample {
                round,
                strategy: strategy.to_owned(),
                report,
            });
        }
    }
    let command =
        format!("cargo xtask bench hybrid --rounds {rounds} --size {size} --block {block}");
    Ok(HybridResults {
        origin: Origin::new(command),
        goal: GOAL,
        samples,
        summary: None,
    })
}

impl HybridResults {
    /// Returns a figure of the reports of one strategy, by round.
    fn figures(&self, strategy: &str, figure: fn(&MxmReport) -> f64) -> Vec<f64> {
        let samples = self.samples.iter().filter(|s| s.strategy == strategy);
        figures_by_round(samples, |sample| figure(&sample.report))
    }

    /// Returns a figure of the even split over that of the balanced one.
    fn even_over_fpm(&self, figure: fn(&MxmReport) -> f64) -> MedianRange {
        MedianRange::of_ratios(&self.figures(EVEN, figure), &self.figures(FPM, figure))
    }
}

/// Adds the summary.
fn sum_up(results: &mut HybridResults) -> anyhow::Result<()> {
    let even_over_fpm = results.even_over_fpm(|report| report.wall_s);
    results.summary = Some(HybridSummary {
        even_over_fpm,
        even_over_fpm_with_balancing: results
            .even_over_fpm(|report| report.wall_s + report.balance_s),
        met: even_over_fpm.median >= GOAL,
    });
    Ok(())
}

fn format_table(results: &HybridResults) -> String {
    let mut text = format!(
        "{} The even split stands for the threads of a BLAS: the same library on the same cores, one of them paced. The \
         goal is a ratio of at least {GOAL}.\n\n",
        RESULTS.describe_origin(&results.origin, "", ""),
    );
    text.push_str("| | wall / ideal | imbalance of busy times, % |\n|---|---|---|\n");
    for (strategy, name) in [(EVEN, "even split"), (FPM, "IDPA by FPM")] {
        let over_ideal = results.figures(strategy, MxmReport::over_ideal);
        let imbalance = results.figures(strategy, |report| 100.0 * report.imbalance);
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "| {name} | {} | {} |",
            MedianRange::of(over_ideal).text(2),
            MedianRange::of(imbalance).text(1),
        );
    }
    if let Some(summary) = &results.summary {
        let _ = writeln!(
            text,
            "\nThe even split takes {} times as long as the balanced one, {} times with the measuring: \
             the goal is {}.",
            summary.even_over_fpm.text(2),
            summary.even_over_fpm_with_balancing.text(2),
            if summary.met { "met" } else { "missed" },
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::check_published;

    #[test]
    fn the_published_file_is_read_and_makes_its_page() -> anyhow::Result<()> {
        check_published(&RESULTS, format_table)
    }
}
