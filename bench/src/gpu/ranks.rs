//! The GPU in jobs of several ranks: two that share it, and four of which one has it.

use super::budget::TimeBudget;
use super::jobs::{MxmJob, PlatformDevice};
use super::part_records::RanksRecord;
use super::record::{GpuFigures, GpuResults};
use super::rows::TableRow;
use super::{GpuCampaign, GpuPart};
use crate::report::MxmReport;
use crate::shape::ProductShape;
use crate::statistics::MedianRange;

/// The goal of the wall time by functional models over the ideal one.
const GOAL: f64 = 1.15;

/// The platforms in words.
const PLATFORMS: [&str; 2] = ["two ranks share the GPU", "one of four ranks has the GPU"];
/// The strategies: by functional models, and the same for all.
const FPM: &str = "fpm";
const STRATEGIES: [&str; 2] = [FPM, "homogeneous"];

/// Measures both platforms with both strategies, in turn.
pub fn measure(campaign: &mut GpuCampaign, budget: TimeBudget) -> anyhow::Result<()> {
    let (host, rest) = campaign.card.split_cores();
    // An even split of the whole side would take long.
    let side = campaign.scale.side / 4 * 3;
    let platforms = [
        ("shared", make_shared_nodes(&host, &rest)),
        ("unlike", make_unlike_nodes(&host, &rest)),
    ];
    campaign.record.results.ranks = Some(RanksRecord {
        side,
        host_cores: host,
        cores: rest,
    });
    for round in budget.rounds(campaign.rounds) {
        for turn in 0..PLATFORMS.len() * STRATEGIES.len() {
            // Every round starts with another one.
            let at = (round + turn) % (PLATFORMS.len() * STRATEGIES.len());
            let (platform, strategy) = (at / STRATEGIES.len(), STRATEGIES[at % STRATEGIES.len()]);
            let (name, nodes) = &platforms[platform];
            let job = MxmJob {
                nodes,
                shape: ProductShape::square(side),
                block: campaign.scale.block,
                words: &["--strategy", strategy],
                log: "error",
            };
            let about = (PLATFORMS[platform], strategy);
            if campaign.record.has_failed(GpuPart::Ranks, about) {
                continue;
            }
            let found = campaign.multiply(name, &job, budget);
            campaign.record.sample((GpuPart::Ranks, round), about, || {
                Ok(GpuFigures::Run {
                    report: Box::new(found?.0),
                    iterations: None,
                })
            })?;
        }
    }
    Ok(())
}

/// Makes two nodes with the same GPU, each with as many host cores as the GPU has alone, as far as the cores reach.
fn make_shared_nodes(host: &[u32], rest: &[u32]) -> Vec<Vec<PlatformDevice>> {
    let others = rest.iter().take(host.len());
    let cores: Vec<u32> = host.iter().chain(others).copied().collect();
    split_cores(&cores, 2)
        .iter()
        .map(|cores| vec![PlatformDevice::shared_gpu("gpu", cores)])
        .collect()
}

/// Makes one node with the GPU, and three with the other cores.
fn make_unlike_nodes(host: &[u32], rest: &[u32]) -> Vec<Vec<PlatformDevice>> {
    let cores = if rest.is_empty() { host } else { rest };
    let mut nodes = vec![vec![PlatformDevice::gpu("gpu", host)]];
    let others = split_cores(cores, 3);
    nodes.extend(
        others
            .iter()
            .map(|cores| vec![PlatformDevice::cpu("cpu", cores)]),
    );
    nodes
}

/// Splits cores into `count` parts whose sizes differ by at most one; parts share cores if there are fewer.
fn split_cores(cores: &[u32], count: usize) -> Vec<Vec<u32>> {
    (0..count)
        .map(|part| {
            let first = part * cores.len() / count;
            let end = (part + 1) * cores.len() / count;
            match &cores[first..end] {
                [] => vec![cores[part % cores.len()]],
                own => own.to_vec(),
            }
        })
        .collect()
}

impl GpuResults {
    /// Returns a figure of the reports of a platform and strategy, by round.
    fn rank_figures(&self, about: (&str, &str), figure: fn(&MxmReport) -> Option<f64>) -> Vec<f64> {
        self.figures(GpuPart::Ranks, about, |figures| figure(figures.report()?))
    }
}

/// Makes a row for each platform and strategy.
pub fn make_rows(results: &GpuResults) -> Vec<TableRow> {
    if results.ranks.is_none() {
        return Vec::new();
    }
    let mut rows = Vec::new();
    for platform in PLATFORMS {
        let fpm_walls = results.rank_figures((platform, FPM), |report| Some(report.wall_s));
        for strategy in STRATEGIES {
            let about = (platform, strategy);
            let walls = results.rank_figures(about, |report| Some(report.wall_s));
            let speeds = results.rank_figures(about, |report| Some(1e9 * report.gflops?));
            let over_ideal = results.rank_figures(about, |report| Some(report.over_ideal()));
            let over_ideal = MedianRange::of(over_ideal);
            let left_out = results.rank_figures(about, |report| {
                let idle = report.devices().filter(|device| device.units == 0.0);
                Some(idle.count() as f64)
            });
            let name = if strategy == FPM {
                "IDPA and INPA by FPM"
            } else {
                "even split"
            };
            let row = TableRow::new(format!("{platform}, {name}"))
                .with_speed("GFLOP/s", MedianRange::of(speeds))
                .with_range("wall / ideal", over_ideal, 2)
                .with_range(
                    "wall / FPM's wall",
                    MedianRange::of_ratios(&walls, &fpm_walls),
                    2,
                )
                .with_range("ranks left out", MedianRange::of(left_out), 0);
            let median = over_ideal.median;
            rows.push(if strategy == FPM {
                row.with_goal(format!("wall / ideal ≤ {GOAL}"), median, median <= GOAL)
            } else {
                row.without_goal("for comparison")
            });
        }
    }
    rows
}

/// Describes the table.
pub fn describe(results: &GpuResults) -> String {
    let Some(about) = &results.ranks else {
        return String::new();
    };
    format!(
        "**Ranks and the GPU.** m = n = k = {} on ranks of this host: two that share the GPU and its {} host core(s), and four of \
         which one has the GPU and the others {} core(s) together. Ideal is the work over the sum of the speeds that the devices \
         showed in the same multiplication; a rank without work showed none.",
        about.side,
        about.host_cores.len(),
        about.cores.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_a_core() {
        assert_eq!(
            split_cores(&[4, 5, 6, 7, 8], 3),
            [vec![4], vec![5, 6], vec![7, 8]]
        );
        assert_eq!(split_cores(&[1, 2], 3), [vec![1], vec![1], vec![2]]);
        let nodes = make_unlike_nodes(&[0], &[]);
        assert_eq!(nodes.len(), 4);
        assert!(nodes.iter().flatten().all(|device| device.cores == [0]));
        let shared = make_shared_nodes(&[0], &[1, 2]);
        let mut devices = shared.iter().flatten();
        assert!(devices.all(|device| device.gpu_share == Some(true)));
    }
}
