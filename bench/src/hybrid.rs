//! A hybrid processor: two unlike cores balanced by IDPA, against an even split.
//!
//! A BLAS with its own threads gives each thread the same number of columns, regardless of its core. So does the
//! homogeneous strategy, with the same library on the same cores, one of which is paced.

use serde::{Deserialize, Serialize};

use crate::balance::{
    StrategySample, StrategyTrial, compare_reports, list_reports, summarize_reports,
};
use crate::launch::MxmLauncher;
use crate::markdown::format_table;
use crate::report::MxmReport;
use crate::results::{CampaignResults, Origin, ResultsPage};

const PLATFORM: &str = "emulated-hybrid";
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
pub struct HybridResults {
    #[serde(flatten)]
    origin: Origin,
    samples: Vec<StrategySample>,
}

/// Runs the campaign, or makes its table only.
pub fn run(arguments: &HybridArguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    HybridResults::publish(fresh.transpose()?)
}

fn measure(arguments: &HybridArguments) -> anyhow::Result<HybridResults> {
    let HybridArguments {
        rounds,
        size,
        block,
        ..
    } = *arguments;
    let trial = StrategyTrial {
        platform: PLATFORM,
        ranks: 1,
        size,
        block,
        strategies: vec![EVEN, FPM],
    };
    let command =
        format!("cargo xtask bench hybrid --rounds {rounds} --size {size} --block {block}");
    Ok(HybridResults {
        origin: Origin::new(command),
        samples: trial.measure(&MxmLauncher::from_environment()?, rounds)?,
    })
}

impl CampaignResults for HybridResults {
    const PAGE: ResultsPage = ResultsPage { name: "hybrid" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let origin = Self::PAGE.describe_origin(&self.origin, "", "");
        let [even, fpm] =
            [EVEN, FPM].map(|strategy| list_reports(&self.samples, PLATFORM, strategy));
        let rows = [("even split", &even), ("IDPA by FPM", &fpm)].map(|(name, reports)| {
            let imbalance = summarize_reports(reports, |report| report.imbalance);
            [
                name.to_owned(),
                summarize_reports(reports, MxmReport::over_ideal).text(2),
                imbalance.scale(100.0).text(1),
            ]
        });
        let table = format_table(
            ["strategy", "wall / ideal", "imbalance of busy times, %"],
            rows,
        );
        let ratio = compare_reports(&even, &fpm, |report| report.wall_s);
        let with_measuring =
            compare_reports(&even, &fpm, |report| report.wall_s + report.balance_s);
        Ok(format!(
            "{origin} The even split stands for the threads of a BLAS: the same library on the same cores, one of them \
             paced. The goal is a ratio of at least {GOAL}.\n\n{table}\n\
             The even split takes {} times as long as the balanced one, {} times with the measuring: \
             the goal is {}.\n",
            ratio.text(2),
            with_measuring.text(2),
            if ratio.median >= GOAL {
                "met"
            } else {
                "missed"
            },
        ))
    }
}
