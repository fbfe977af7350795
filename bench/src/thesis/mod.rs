//! Chapters 3 and 4 of the thesis: figures 3.1 to 3.4 and table 4.2, measured here.
//!
//! # References
//! Clarke's thesis, sections 3.1 to 3.3 and 4.3.1.

mod cost;
mod figures;
mod kernel;
mod spline;
mod warm;

use std::collections::BTreeMap;
use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::launch::MxmLauncher;
use crate::markdown::format_table;
use crate::results::{CampaignResults, Origin, ResultsPage, write_file};
use cost::CostSamples;
use kernel::KernelSamples;
use warm::WarmSamples;

/// The size of the campaign.
#[derive(clap::Args)]
pub struct ThesisArguments {
    /// Rounds of the table; each multiplies every size in every way
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Sizes m = n = k of the table
    #[arg(long, value_delimiter = ',', default_values_t = [1536, 2048, 3072, 4096])]
    sizes: Vec<usize>,
    /// Points of the naive kernel's full model
    #[arg(long, default_value_t = 60)]
    points: usize,
    /// Measure this part, and keep the others
    #[arg(long)]
    only: Option<ThesisPart>,
    /// Only make the figures and the table from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// A part of the campaign.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ThesisPart {
    /// Figures 3.1 to 3.4.
    Figures,
    /// Table 4.2.
    Table,
    /// Alike ranks with a warm store.
    Warm,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct ThesisResults {
    #[serde(flatten)]
    origin: Origin,
    /// The origin of the parts that were measured again alone.
    #[serde(default)]
    again: BTreeMap<ThesisPart, Origin>,
    #[serde(default)]
    kernel: KernelSamples,
    #[serde(default)]
    cost: CostSamples,
    #[serde(default)]
    warm: WarmSamples,
}

/// Rounds of short runs with a warm store for each round of the table.
const WARM_ROUNDS: usize = 3;

impl ThesisArguments {
    fn has_part(&self, part: ThesisPart) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

/// Runs the campaign, or makes its figures and its table only.
pub fn run(arguments: &ThesisArguments) -> anyhow::Result<()> {
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    ThesisResults::publish(fresh.transpose()?)
}

fn measure(arguments: &ThesisArguments) -> anyhow::Result<ThesisResults> {
    let ThesisArguments { rounds, points, .. } = *arguments;
    let sizes: Vec<String> = arguments.sizes.iter().map(usize::to_string).collect();
    let sizes = sizes.join(",");
    let command = format!(
        "cargo xtask reproduce thesis-3 --rounds {rounds} --sizes {sizes} --points {points}"
    );
    let mut results = ThesisResults {
        origin: Origin::new(command.clone()),
        again: BTreeMap::new(),
        kernel: KernelSamples::default(),
        cost: CostSamples::default(),
        warm: WarmSamples::default(),
    };
    if let Some(part) = arguments.only
        && let Ok(kept) = ThesisResults::PAGE.read::<ThesisResults>()
    {
        results = kept;
        let name = part.to_possible_value();
        let name = name.as_ref().map_or("", |name| name.get_name());
        let origin = Origin::new(format!("{command} --only {name}"));
        results.again.insert(part, origin);
    }
    let launcher = MxmLauncher::from_environment()?;
    if arguments.has_part(ThesisPart::Figures) {
        results.kernel = KernelSamples::measure(&launcher, points)?;
    }
    if arguments.has_part(ThesisPart::Table) {
        results.cost = CostSamples::measure(&launcher, rounds, &arguments.sizes)?;
    }
    if arguments.has_part(ThesisPart::Warm) {
        results.warm = WarmSamples::measure(&launcher, WARM_ROUNDS * rounds)?;
    }
    Ok(results)
}

impl ThesisResults {
    fn describe_origin(&self, part: ThesisPart) -> String {
        let origin = self.again.get(&part).unwrap_or(&self.origin);
        let cores = format!(" on {} cores", origin.machine.cores);
        Self::PAGE.describe_origin(origin, &cores, "")
    }
}

impl CampaignResults for ThesisResults {
    const PAGE: ResultsPage = ResultsPage { name: "thesis-3" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let origin = self.describe_origin(ThesisPart::Table);
        let warm = match self.warm.check_goals() {
            rows if rows.is_empty() => String::new(),
            rows => {
                let origin = self.describe_origin(ThesisPart::Warm);
                let table = format_table(["goal with a warm store", "found", "met"], rows);
                format!("\n{origin}\n\n{table}")
            }
        };
        Ok(format!("{origin}\n\n{}{warm}", self.cost.format_tables()))
    }

    fn write_plot(&self, folder: &Path) -> anyhow::Result<()> {
        for (number, svg) in self.kernel.draw_figures()? {
            write_file(&folder.join(format!("thesis-3-{number}.svg")), &svg)?;
        }
        Ok(())
    }
}
