//! `isochron plan`: a multiplication on a cluster that is somewhere else, before it runs.

use std::path::PathBuf;

use clap::Args;
use isochron_core::Error;
use isochron_core::plan::{ModelledCluster, Plan, PlanAhead, Problem, WhatIf};
use isochron_devices::ElementType;
use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::layout::{Arrangement, Grid, Method};
use isochron_hierarchy::predict::EqualRanks;
use serde::Serialize;

use crate::documents::FormatVersion;
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
    #[arg(long, value_name = "B,...", value_delimiter = ',', default_values_t = [32, 64, 128, 256])]
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

/// The candidates, and the plan of the first.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlanDocument {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// The candidates by predicted seconds; but the first is the one with fewest nodes of those within 1 % of the fastest.
    candidates: Vec<PlanCandidate>,
    /// The plan of the first, as a [saved plan](#saved-plan).
    #[cfg_attr(
        feature = "schemars",
        schemars(with = "serde_json::Map<String, serde_json::Value>")
    )]
    plan: Plan,
    /// What changes of the cluster would bring, with `--explain`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explained: Vec<WhatIf>,
    /// The best ranks for equal parts, with `--scalapack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    equal_ranks: Option<RanksDocument>,
}

/// Ranks for a program that gives all ranks equal parts.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct RanksDocument {
    /// Block size.
    block: usize,
    /// Rows of the grid.
    rows: usize,
    /// Columns of the grid.
    cols: usize,
    /// Predicted seconds of the arithmetic of the slowest host.
    compute_s: f64,
    /// Predicted seconds of the messages of the busiest link, without overlap.
    travel_s: f64,
    /// The hosts, in the order of their ranks. These fill the grid row by row.
    hosts: Vec<HostRanks>,
}

/// The ranks of a host.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct HostRanks {
    /// Its name, or its number if it has none.
    host: String,
    /// Number of ranks.
    ranks: usize,
    /// Threads of each rank; `null` if its cores are not known.
    threads: Option<usize>,
}

/// A way to multiply, and its predicted seconds.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlanCandidate {
    /// `homogeneous` for equal parts, `fpm` for parts by the models.
    strategy: Strategy,
    /// How the parts are laid out, with the grid if it is given.
    layout: Arrangement,
    /// Block size.
    block: usize,
    /// Width of the panels.
    panel: usize,
    /// Nodes with work.
    nodes: usize,
    /// Predicted seconds of the whole.
    pub wall_s: f64,
    /// The seconds that nine of ten runs take: the least and the most.
    bounds_s: [f64; 2],
    /// Predicted seconds of the arithmetic of the slowest node.
    compute_s: f64,
    /// Predicted seconds of the messages of the busiest link.
    travel_s: f64,
}

/// Runs the command.
pub fn run(arguments: &PlanArguments) -> Result<Answer, Failure> {
    let cluster = arguments.planned.load()?;
    let found = arguments.planned.compare(&cluster, |_| true)?;
    let Some(fastest) = found.first() else {
        return Err(Failure::input("--block: no block size"));
    };
    let explained = if arguments.explain {
        cluster.among(&fastest.nodes).explain(&fastest.ahead, &fastest.config)?
    } else {
        Vec::new()
    };
    let equal_ranks =
        arguments.scalapack.then(|| arguments.planned.choose_ranks(&cluster)).transpose()?;
    let candidates = found.iter().map(PlanCandidate::new);
    let document = PlanDocument {
        schema: FormatVersion,
        candidates: candidates.collect(),
        plan: fastest.ahead.plan.clone(),
        explained,
        equal_ranks,
    };
    Answer::new(arguments.json, &document, |document| {
        let listed = document.candidates.iter().take(arguments.list);
        let plan = format_plan(&document.plan, output_width());
        let ranks = document.equal_ranks.as_ref().map(RanksDocument::format).unwrap_or_default();
        format!("{}\n{plan}{}{ranks}", tabulate(listed), explain(document))
    })
}

impl PlannedArguments {
    /// Reads the cluster.
    pub fn load(&self) -> Result<ModelledCluster, Error> {
        ModelledCluster::load(&self.platform, self.models.as_deref())
    }

    /// Plans what is wanted of all that is compared, in each block size. The fastest comes first, or one of fewer nodes that takes nearly as long.
    pub fn compare(
        &self,
        cluster: &ModelledCluster,
        is_wanted: impl Fn(&BalanceConfig) -> bool,
    ) -> Result<Vec<Candidate>, Error> {
        let mut found = Vec::new();
        for &block in &self.block {
            let problem = self.problem(block)?;
            let ways = list_ways(&cluster.list_by_speed(problem)?).into_iter();
            for (nodes, config) in ways.filter(|(_, config)| is_wanted(config)) {
                let ahead = cluster.among(&nodes).plan(problem, &config)?;
                found.push(Candidate { nodes, config, ahead });
            }
        }
        found.sort_by(|a, b| a.ahead.wall_s.total_cmp(&b.ahead.wall_s));
        let least_s = found.first().map_or(0.0, |fastest| fastest.ahead.wall_s);
        let tied = found.iter().take_while(|other| other.ahead.wall_s <= (1.0 + TIE) * least_s);
        let fewest = tied.enumerate().min_by_key(|(_, other)| other.count_busy());
        if let Some((place, _)) = fewest {
            found[..=place].rotate_right(1);
        }
        Ok(found)
    }

    /// Chooses the ranks for equal parts, and the block.
    fn choose_ranks(&self, cluster: &ModelledCluster) -> Result<RanksDocument, Failure> {
        let mut found = Vec::new();
        for &block in &self.block {
            found.push((block, cluster.choose_ranks(&self.problem(block)?)?));
        }
        let best = found.into_iter().min_by(|a, b| a.1.wall_s().total_cmp(&b.1.wall_s()));
        let (block, EqualRanks { ranks, grid, compute_s, travel_s }) =
            best.ok_or_else(|| Failure::input("--block: no block size"))?;
        let hosts = cluster.list_hosts().into_iter().zip(ranks).map(|((host, cores), ranks)| {
            let threads = (cores > 0 && ranks > 0).then(|| cores / ranks);
            HostRanks { host, ranks, threads }
        });
        let hosts = hosts.collect();
        Ok(RanksDocument { block, rows: grid.rows, cols: grid.cols, compute_s, travel_s, hosts })
    }

    fn problem(&self, block: usize) -> Result<Problem, Error> {
        let side = self.size.unwrap_or(0);
        let [m, n, k] = [self.m, self.n, self.k].map(|given| given.unwrap_or(side));
        Ok(Problem::new(m, n, k, block)?.with_element(self.element))
    }
}

/// Part of the least time within which fewer nodes win.
const TIE: f64 = 0.01;

/// Largest cluster, in nodes, for which grids of fewer nodes are compared, too.
const SEARCHED: usize = 64;

/// A way to multiply, and its plan.
pub struct Candidate {
    /// The nodes that it may use, by number in the platform file.
    nodes: Vec<usize>,
    /// The way.
    config: BalanceConfig,
    /// Its plan.
    pub ahead: PlanAhead,
}

impl Candidate {
    /// Counts the nodes with work.
    fn count_busy(&self) -> usize {
        let plan = &self.ahead.plan;
        (0..plan.n_ranks()).filter(|&rank| !plan.computed(rank).is_empty()).count()
    }
}

/// Lists what is compared, with the nodes that may be used, which are given by falling speed: equal parts, and parts by the models, freely and in
/// each grid of all nodes; and parts by the models in each grid of the fastest nodes alone.
fn list_ways(by_speed: &[usize]) -> Vec<(Vec<usize>, BalanceConfig)> {
    let of = |strategy, layout| BalanceConfig { strategy, layout, ..BalanceConfig::default() };
    let all: Vec<usize> = (0..by_speed.len()).collect();
    let free = [Method::Br, Method::Cartesian, Method::Recursive].map(Arrangement::from);
    let mut ways: Vec<(Vec<usize>, BalanceConfig)> = free
        .into_iter()
        .map(|layout| of(Strategy::Fpm, layout))
        .chain([of(Strategy::Homogeneous, Arrangement::default())])
        .map(|config| (all.clone(), config))
        .collect();
    let fewest = if all.len() > SEARCHED { all.len() } else { 1 };
    for count in fewest..=all.len() {
        for rows in (1..=count).filter(|rows| count.is_multiple_of(*rows)) {
            let grid = Some(Grid { rows, cols: count / rows });
            let layout = Arrangement { method: Method::Kl, grid };
            if count < all.len() {
                ways.push((by_speed[..count].to_vec(), of(Strategy::Fpm, layout)));
                continue;
            }
            ways.push((all.clone(), of(Strategy::Homogeneous, layout)));
            ways.push((all.clone(), of(Strategy::Fpm, layout)));
        }
    }
    ways
}

impl PlanCandidate {
    /// Describes a candidate.
    pub fn new(found: &Candidate) -> Self {
        let PlanAhead { plan, wall_s, bounds_s, compute_s, travel_s } = &found.ahead;
        Self {
            strategy: found.config.strategy,
            layout: found.config.layout,
            block: plan.problem().block(),
            panel: plan.panel(),
            nodes: found.count_busy(),
            wall_s: *wall_s,
            bounds_s: *bounds_s,
            compute_s: *compute_s,
            travel_s: *travel_s,
        }
    }
}

impl RanksDocument {
    fn format(&self) -> String {
        let Self { block, rows, cols, compute_s, travel_s, hosts } = self;
        let mut table = TextTable::new(1, "host|ranks|threads");
        for HostRanks { host, ranks, threads } in hosts {
            let threads = threads.map_or("-".to_owned(), |threads| threads.to_string());
            table.add_row([host.clone(), ranks.to_string(), threads]);
        }
        format!(
            "\nequal parts: a grid of {rows}x{cols} by rows, blocks of {block}; arithmetic {compute_s:.3} s, messages {travel_s:.3} s\n{table}"
        )
    }
}

/// Says what binds the fastest candidate and what would help; nothing unless that was asked for.
fn explain(document: &PlanDocument) -> String {
    let (Some(fastest), false) = (document.candidates.first(), document.explained.is_empty())
    else {
        return String::new();
    };
    let PlanCandidate { wall_s, compute_s, travel_s, .. } = fastest;
    let (binds, seconds) = if compute_s >= travel_s {
        ("the arithmetic of the slowest node", compute_s)
    } else {
        ("the messages of the busiest link", travel_s)
    };
    let mut text = format!("\nbinding: {binds}, {seconds:.3} of {wall_s:.3} s\n");
    for WhatIf { change, wall_s: then_s } in &document.explained {
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
