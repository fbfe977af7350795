//! The best plan without ranks, of all that are compared.

use isochron_hierarchy::balance::{BalanceConfig, Strategy};
use isochron_hierarchy::layout::{Arrangement, Grid, Method};
use isochron_hierarchy::predict::{EqualRanks, choose_fewest};
use isochron_hierarchy::problem::ElementType;
use serde::Serialize;

use super::{ModelledCluster, Plan, PlanAhead, Problem, WhatIf};
use crate::error::Error;

/// Version of the document.
const SCHEMA: u32 = 1;

/// Largest cluster, in nodes, for which grids of fewer nodes are compared, too.
const SEARCHED: usize = 64;

/// A way to multiply, and its plan.
#[derive(Debug, Clone)]
pub struct SearchedPlan {
    /// The nodes that it may use, by number in the platform file.
    nodes: Vec<usize>,
    /// The way.
    config: BalanceConfig,
    /// Its plan.
    pub ahead: PlanAhead,
}

/// Options of a search.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchConfig {
    /// `true` to predict changes of the cluster, too.
    pub explain: bool,
    /// `true` to choose the ranks for a program that gives all ranks equal parts, too.
    pub equal_ranks: bool,
}

impl SearchConfig {
    /// The block sizes that are compared if none are asked for.
    pub const BLOCKS: [usize; 4] = [32, 64, 128, 256];
}

/// Lists a multiplication of `m×k` by `k×n` matrices in each block size.
///
/// # Errors
/// Returns [`Error::Parameter`] for a size that is out of range.
pub fn list_problems(
    [m, n, k]: [usize; 3],
    element: ElementType,
    blocks: &[usize],
) -> Result<Vec<Problem>, Error> {
    let problems = blocks.iter().map(|&block| Problem::new(m, n, k, block));
    problems.map(|problem| Ok(problem?.with_element(element))).collect()
}

/// The candidates, and the plan of the first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlanSearch {
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = SCHEMA)))]
    schema: u32,
    /// The candidates by predicted seconds; within 1 % of the fastest, the one with fewest nodes comes first.
    pub candidates: Vec<PlanCandidate>,
    /// The plan of the first, as a [saved plan](#saved-plan).
    #[cfg_attr(
        feature = "schemars",
        schemars(with = "serde_json::Map<String, serde_json::Value>")
    )]
    pub plan: Plan,
    /// What changes of the cluster would bring, if asked for (`--explain`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<WhatIf>,
    /// The best ranks for equal parts, if asked for (`--scalapack`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equal_ranks: Option<PlannedRanks>,
}

/// Ranks for a program that gives all ranks equal parts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlannedRanks {
    /// Block size.
    pub block: usize,
    /// Rows of the grid.
    pub rows: usize,
    /// Columns of the grid.
    pub cols: usize,
    /// Predicted seconds of the arithmetic of the slowest host.
    pub compute_s: f64,
    /// Predicted seconds of the messages of the busiest link, without overlap.
    pub travel_s: f64,
    /// The hosts, in the order of their ranks. These fill the grid row by row.
    pub hosts: Vec<HostRanks>,
}

/// The ranks of a host.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct HostRanks {
    /// Its name, or its number if it has none.
    pub host: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Threads of each rank; `null` if its cores are not known.
    pub threads: Option<usize>,
}

/// A way to multiply, and its predicted seconds.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlanCandidate {
    /// `homogeneous` for equal parts, `fpm` for parts by the models.
    pub strategy: Strategy,
    /// How the parts are laid out, with the grid if it is given.
    pub layout: Arrangement,
    /// Block size.
    pub block: usize,
    /// Width of the panels.
    pub panel: usize,
    /// Nodes with work.
    pub nodes: usize,
    /// Predicted seconds of the whole.
    pub wall_s: f64,
    /// The seconds that nine of ten runs take: the least and the most.
    pub bounds_s: [f64; 2],
    /// Predicted seconds of the arithmetic of the slowest node.
    pub compute_s: f64,
    /// Predicted seconds of the messages of the busiest link.
    pub travel_s: f64,
}

impl ModelledCluster {
    /// Plans a multiplication, given in one block size or several, in every way that is compared: equal parts, and parts by the models, freely and in
    /// each grid of all nodes, and parts by the models in each grid of the fastest nodes alone.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] without a problem, or for equal ranks on nodes with GPUs, which programs of equal parts do not use; the
    /// errors of [`plan`](Self::plan).
    pub fn search(&self, problems: &[Problem], config: SearchConfig) -> Result<PlanSearch, Error> {
        let found = self.list_candidates(problems, |_| true)?;
        let [fastest, ..] = &found[..] else {
            return Err(Error::parameter("blocks", "[]", "give one block size or several"));
        };
        let explained = if config.explain {
            self.among(&fastest.nodes).explain(&fastest.ahead, &fastest.config)?
        } else {
            Vec::new()
        };
        let ranks = config.equal_ranks.then(|| self.plan_ranks(problems)).transpose()?;
        Ok(PlanSearch {
            schema: SCHEMA,
            candidates: found.iter().map(PlanCandidate::new).collect(),
            plan: fastest.ahead.plan.clone(),
            explained,
            equal_ranks: ranks.flatten(),
        })
    }

    /// Plans each wanted candidate of [`search`](Self::search). The fastest comes first, or one of fewer nodes within 1 %.
    ///
    /// # Errors
    /// Returns the errors of [`plan`](Self::plan).
    pub fn list_candidates(
        &self,
        problems: &[Problem],
        is_wanted: impl Fn(&BalanceConfig) -> bool,
    ) -> Result<Vec<SearchedPlan>, Error> {
        let mut found: Vec<SearchedPlan> = Vec::new();
        for &problem in problems {
            let ways = list_ways(&self.list_by_speed(problem)?).into_iter();
            for (nodes, config) in ways.filter(|(_, config)| is_wanted(config)) {
                let ahead = self.among(&nodes).plan(problem, &config)?;
                found.push(SearchedPlan { nodes, config, ahead });
            }
        }
        found.sort_by(|a, b| a.ahead.wall_s.total_cmp(&b.ahead.wall_s));
        let sizes: Vec<(f64, usize)> =
            found.iter().map(|it| (it.ahead.wall_s, it.count_busy())).collect();
        if let Some(place) = choose_fewest(&sizes) {
            found[..=place].rotate_right(1);
        }
        Ok(found)
    }

    /// Chooses the ranks for equal parts, and the block.
    fn plan_ranks(&self, problems: &[Problem]) -> Result<Option<PlannedRanks>, Error> {
        let found =
            problems.iter().map(|problem| Ok((problem.block(), self.choose_ranks(problem)?)));
        let found = found.collect::<Result<Vec<(usize, EqualRanks)>, Error>>()?;
        let best = found.into_iter().min_by(|a, b| a.1.wall_s().total_cmp(&b.1.wall_s()));
        Ok(best.map(|(block, EqualRanks { ranks, grid, compute_s, travel_s })| {
            let hosts = self.nodes.iter().zip(ranks).map(|(node, ranks)| {
                let cores = node.count_cores();
                let threads = (cores > 0 && ranks > 0).then(|| cores / ranks);
                let host =
                    if node.host.is_empty() { node.rank.to_string() } else { node.host.clone() };
                HostRanks { host, ranks, threads }
            });
            let (rows, cols) = (grid.rows, grid.cols);
            PlannedRanks { block, rows, cols, compute_s, travel_s, hosts: hosts.collect() }
        }))
    }
}

impl SearchedPlan {
    /// Counts the nodes with work.
    fn count_busy(&self) -> usize {
        let plan = &self.ahead.plan;
        (0..plan.n_ranks()).filter(|&rank| !plan.computed(rank).is_empty()).count()
    }
}

/// Lists the ways to compare, each with its nodes. `by_speed` has all nodes by falling speed.
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
    pub fn new(found: &SearchedPlan) -> Self {
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
