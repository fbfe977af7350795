//! The Jacobi method of the thesis: figures 2.4 to 2.7, 4.3, 4.4 and A.4, on emulated nodes with a memory cliff.
//!
//! # References
//! Clarke's thesis, sections 2.3.1 and 4.3, and appendix A.5.

mod figures;
mod speedup;
mod trial;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::launch::MxmLauncher;
use crate::markdown::format_table;
use crate::results::{CampaignResults, Origin, ResultsPage, write_file};
use speedup::SpeedupSamples;
use trial::{CLIFF, JacobiTrial, TWO_CLIFFS};

/// The size of the campaign.
#[derive(clap::Args)]
pub struct JacobiCampaignArguments {
    /// Rounds of figure 4.4; each solves every size by every strategy
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Sizes n of figure 4.4
    #[arg(long, value_delimiter = ',', default_values_t = [2048, 4096, 5120, 5632, 6144, 6912])]
    sizes: Vec<usize>,
    /// Iterations of a run of figure 4.4
    #[arg(long, default_value_t = 20)]
    iterations: usize,
    /// Try small sizes on four nodes, and publish nothing
    #[arg(long)]
    quick: bool,
    /// Only make the figures and the tables from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct JacobiResults {
    #[serde(flatten)]
    origin: Origin,
    /// The runs of figures 2.4 to 2.7, 4.3 and A.4.
    runs: Vec<FigureRun>,
    speedups: SpeedupSamples,
}

/// A run that a figure shows.
#[derive(Serialize, Deserialize)]
pub struct FigureRun {
    /// The number of the figure in the thesis.
    pub figure: String,
    pub trial: JacobiTrial,
    pub report: trial::JacobiReport,
}

/// The sizes n of the figures: all parts fit the memory, and an even division does not.
const SMALL: usize = 2048;
const LARGE: usize = 3456;

/// The size of figure 4.3, and the iterations that the figures show.
const LARGER: usize = 3840;
const SHOWN: usize = 12;

/// Lists the runs of the figures: figure, platform, n, and strategy with its options.
const FIGURES: [(&str, &str, usize, &str); 7] = [
    ("2.4 (a)", CLIFF, SMALL, "cpm"),
    ("2.4 (b)", CLIFF, LARGE, "cpm"),
    ("2.4 (c)", TWO_CLIFFS, SMALL, "cpm"),
    ("2.4 (d)", TWO_CLIFFS, LARGE, "cpm"),
    ("2.6", TWO_CLIFFS, LARGE, "fpm --partitioner gpa"),
    ("4.3", TWO_CLIFFS, LARGER, "fpm --partitioner npa"),
    ("A.4", CLIFF, LARGE, "fpm --partitioner gpa"),
];

/// The part of the page that shows the figures.
const FIGURE_TEXTS: &str = include_str!("figures.md");

/// Runs the campaign, or makes its figures and tables only.
pub fn run(arguments: &JacobiCampaignArguments) -> anyhow::Result<()> {
    if arguments.table_only {
        return JacobiResults::publish(None);
    }
    let results = measure(arguments)?;
    if arguments.quick {
        return results.try_out();
    }
    JacobiResults::publish(Some(results))
}

fn measure(arguments: &JacobiCampaignArguments) -> anyhow::Result<JacobiResults> {
    let JacobiCampaignArguments {
        rounds, iterations, ..
    } = *arguments;
    let sizes: Vec<String> = arguments.sizes.iter().map(usize::to_string).collect();
    let sizes = sizes.join(",");
    let command = if arguments.quick {
        "cargo xtask reproduce thesis-jacobi --quick".to_owned()
    } else {
        format!(
            "cargo xtask reproduce thesis-jacobi --rounds {rounds} --sizes {sizes} --iterations {iterations}"
        )
    };
    let launcher = MxmLauncher::from_environment()?;
    let mut runs = Vec::new();
    for (figure, platform, size, strategy) in FIGURES {
        let trial = JacobiTrial {
            platform: platform.to_owned(),
            ranks: 4,
            size,
            strategy: strategy.to_owned(),
            iterations: SHOWN,
        };
        let report = trial.run(&launcher)?;
        eprintln!("figure {figure}: {:.2} s", report.wall_s);
        runs.push(FigureRun {
            figure: figure.to_owned(),
            trial,
            report,
        });
    }
    let speedups = if arguments.quick {
        SpeedupSamples::measure(&launcher, CLIFF, 4, 1, 8, &[1024, 2816])?
    } else {
        let sizes = &arguments.sizes;
        SpeedupSamples::measure(&launcher, trial::SIXTEEN, 16, rounds, iterations, sizes)?
    };
    Ok(JacobiResults {
        origin: Origin::new(command),
        runs,
        speedups,
    })
}

impl JacobiResults {
    /// Finds the run of a figure.
    fn find_run(&self, figure: &str) -> Option<&FigureRun> {
        self.runs.iter().find(|run| run.figure == figure)
    }

    fn format_runs(&self) -> String {
        let columns = [
            "figure",
            "nodes",
            "n:",
            "strategy",
            "imbalance, even, %:",
            "last, %:",
            "iterations that moved rows:",
            "rows moved:",
            "seconds:",
            "of them moving:",
        ];
        format_table(columns, self.runs.iter().map(FigureRun::make_row))
    }
}

impl FigureRun {
    fn make_row(&self) -> [String; 10] {
        let sweeps = &self.report.history;
        let [first, last] = [sweeps.first(), sweeps.last()]
            .map(|sweep| sweep.map_or(f64::NAN, trial::SweepSample::percent_apart));
        let moves = sweeps.iter().filter(|sweep| sweep.moved > 0).count();
        [
            self.figure.clone(),
            format!("`{}`", self.trial.platform),
            self.trial.size.to_string(),
            format!("`{}`", self.trial.strategy),
            format!("{first:.0}"),
            format!("{last:.0}"),
            format!("{moves} of {}", sweeps.len()),
            self.report.moved.to_string(),
            format!("{:.2}", self.report.wall_s),
            format!("{:.2}", self.report.moving_s),
        ]
    }
}

impl CampaignResults for JacobiResults {
    const PAGE: ResultsPage = ResultsPage {
        name: "thesis-jacobi",
    };

    fn format_tables(&self) -> anyhow::Result<String> {
        let cores = format!(" on {} cores", self.origin.machine.cores);
        let origin = Self::PAGE.describe_origin(&self.origin, &cores, "");
        let (runs, speedups) = (self.format_runs(), self.speedups.format_table());
        Ok(format!(
            "{origin}\n\n{FIGURE_TEXTS}\n## Numbers\n\n{runs}\n{speedups}"
        ))
    }

    fn write_plot(&self, folder: &Path) -> anyhow::Result<()> {
        for (number, svg) in self.draw_figures()? {
            write_file(&folder.join(format!("thesis-jacobi-{number}.svg")), &svg)?;
        }
        Ok(())
    }
}
