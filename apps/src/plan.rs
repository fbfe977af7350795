//! `isochron plan`: a multiplication on a cluster that is somewhere else, before it runs.

use std::path::PathBuf;

use clap::Args;
use isochron_core::Error;
use isochron_core::plan::{
    HostRanks, ModelledCluster, PlanCandidate, PlanSearch, PlannedRanks, Problem, SearchConfig,
    WhatIf, list_problems,
};
use isochron_devices::ElementType;
use isochron_hierarchy::balance::Strategy;

use crate::failure::Failure;
use crate::lines::output_width;
use crate::mxm::format_plan;
use crate::named_values::name_all;
use crate::numbers::parse_whole;
use crate::output::Answer;
use crate::table::TextTable;

/// The multiplication, the cluster, and the blocks that are compared.
#[derive(Args)]
pub struct PlannedArguments {
    /// Platform file with nodes, devices and a network
    #[arg(long, value_name = "FILE")]
    platform: PathBuf,
    /// Folder with a model of every device: points files as `isochron measure mxm` writes them [default: the points
    /// files that the platform names]
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// m, n and k at once
    #[arg(long, value_parser = parse_whole::<usize, 1>, required_unless_present = "m", conflicts_with_all = ["m", "n", "k"])]
    size: Option<usize>,
    /// Rows of A and C
    #[arg(long, value_parser = parse_whole::<usize, 1>, requires = "n", requires = "k")]
    m: Option<usize>,
    /// Columns of B and C
    #[arg(long, value_parser = parse_whole::<usize, 1>, requires = "m", requires = "k")]
    n: Option<usize>,
    /// Columns of A and rows of B
    #[arg(long, value_parser = parse_whole::<usize, 1>, requires = "m", requires = "n")]
    k: Option<usize>,
    /// Type of the elements: f32, f64, c32 or c64
    #[arg(long = "type", value_name = "TYPE", default_value_t = ElementType::F64)]
    #[arg(value_parser = name_all::<ElementType>(), hide_possible_values = true)]
    element: ElementType,
    /// Block sizes that are compared
    #[arg(long, value_name = "B,...", value_delimiter = ',', default_values_t = SearchConfig::BLOCKS)]
    #[arg(value_parser = parse_whole::<usize, 1>)]
    block: Vec<usize>,
}

/// The command line.
#[derive(Args)]
pub struct PlanArguments {
    #[command(flatten)]
    planned: PlannedArguments,
    /// Most candidates that are listed
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_whole::<usize, 1>)]
    list: usize,
    /// Also say what binds the fastest candidate, and what one more node, faster links or more memory would bring
    #[arg(long)]
    explain: bool,
    /// Also print the ranks of each host, their grid and the block for a program that gives all ranks equal parts, as `pdgemm` does
    #[arg(long)]
    scalapack: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &PlanArguments) -> Result<Answer, Failure> {
    let PlanArguments { planned, list, explain, scalapack, json } = arguments;
    let config = SearchConfig { explain: *explain, equal_ranks: *scalapack };
    let found = planned.load()?.search(&planned.problems()?, config)?;
    Answer::new(*json, &found, |found| {
        let plan = format_plan(&found.plan, output_width());
        let ranks = found.equal_ranks.as_ref().map(format_ranks).unwrap_or_default();
        let listed = tabulate(found.candidates.iter().take(*list));
        format!("{listed}\n{plan}{}{ranks}", format_explained(found))
    })
}

impl PlannedArguments {
    /// Reads the cluster.
    pub fn load(&self) -> Result<ModelledCluster, Error> {
        ModelledCluster::load(&self.platform, self.models.as_deref())
    }

    /// Lists the multiplication in each block size.
    pub fn problems(&self) -> Result<Vec<Problem>, Error> {
        let side = self.size.unwrap_or(0);
        let [m, n, k] = [self.m, self.n, self.k].map(|given| given.unwrap_or(side));
        list_problems([m, n, k], self.element, &self.block)
    }
}

fn format_ranks(ranks: &PlannedRanks) -> String {
    let PlannedRanks { block, rows, cols, compute_s, travel_s, hosts } = ranks;
    let mut table = TextTable::new(1, "host|ranks|threads");
    for HostRanks { host, ranks, threads } in hosts {
        let threads = threads.map_or("-".to_owned(), |threads| threads.to_string());
        table.add_row([host.clone(), ranks.to_string(), threads]);
    }
    format!(
        "\nequal parts: a grid of {rows}x{cols} by rows, blocks of {block}; arithmetic {compute_s:.3} s, messages {travel_s:.3} s\n{table}"
    )
}

/// Formats the binding resource of the fastest candidate and the changes that would help; empty without `--explain`.
fn format_explained(found: &PlanSearch) -> String {
    let (Some(fastest), false) = (found.candidates.first(), found.explained.is_empty()) else {
        return String::new();
    };
    let PlanCandidate { wall_s, compute_s, travel_s, .. } = fastest;
    let (binds, seconds) = if compute_s >= travel_s {
        ("the arithmetic of the slowest node", compute_s)
    } else {
        ("the messages of the busiest link", travel_s)
    };
    let mut text = format!("\nbinding: {binds}, {seconds:.3} of {wall_s:.3} s\n");
    for WhatIf { change, wall_s: then_s } in &found.explained {
        text += &format!("{change}: {then_s:.3} s, {:+.1} %\n", 100.0 * (then_s / wall_s - 1.0));
    }
    text
}

/// Tabulates candidates.
pub fn tabulate<'c>(candidates: impl Iterator<Item = &'c PlanCandidate>) -> TextTable {
    let mut table = TextTable::new(
        2,
        "parts|layout|block|panel|nodes|pred. s|9 of 10 runs|arithmetic s|messages s",
    );
    for candidate in candidates {
        let parts = match candidate.strategy {
            Strategy::Homogeneous => "equal",
            _ => "by models",
        };
        table.add_row([
            parts.to_owned(),
            candidate.layout.to_string(),
            candidate.block.to_string(),
            candidate.panel.to_string(),
            candidate.nodes.to_string(),
            format!("{:.3}", candidate.wall_s),
            format!("{:.3} to {:.3}", candidate.bounds_s[0], candidate.bounds_s[1]),
            format!("{:.3}", candidate.compute_s),
            format!("{:.3}", candidate.travel_s),
        ]);
    }
    table
}
