//! The GPU in jobs of several ranks: two that share it, and four of which one has it.

use super::budget::TimeBudget;
use super::jobs::{MxmJob, PlatformDevice};
use super::record::{GpuFigures, GpuResults};
use super::rows::{PartTable, TableRow};
use super::{GpuCampaign, GpuPart};
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
    let shared = campaign.write_platform("shared", &make_shared_nodes(&host, &rest))?;
    let unlike = campaign.write_platform("unlike", &make_unlike_nodes(&host, &rest))?;
    let mut abouts = Vec::new();
    let mut jobs = Vec::new();
    for (about, platform, ranks) in [(PLATFORMS[0], shared, 2), (PLATFORMS[1], unlike, 4)] {
        for strategy in STRATEGIES {
            abouts.push((about, strategy));
            jobs.push(MxmJob {
                platform: platform.clone(),
                ranks,
                shape: ProductShape::square(multiplied_side(campaign.scale.side)),
                block: campaign.scale.block,
                words: vec!["--strategy", strategy],
                log: "error",
            });
        }
    }
    let (rounds, launcher) = (budget.rounds(campaign.rounds), &campaign.launcher);
    let record = &mut campaign.record;
    record.sample_in_turn(GpuPart::Ranks, rounds, &abouts, |at, _| {
        Ok(GpuFigures::Run {
            report: Box::new(jobs[at].run(launcher, budget)?.0),
            iterations: None,
        })
    })
}

/// Returns the side of the product: an even split of the whole side would take long.
fn multiplied_side(whole: usize) -> usize {
    whole / 4 * 3
}

/// Makes two nodes with the same GPU, each with as many host cores as the GPU has alone, as far as the cores reach.
fn make_shared_nodes(host: &[u32], rest: &[u32]) -> Vec<Vec<PlatformDevice>> {
    let others = rest.iter().take(host.len());
    let cores: Vec<u32> = host.iter().chain(others).copied().collect();
    split_cores(&cores, 2)
        .iter()
        .map(|cores| vec![PlatformDevice::new("gpu", Some(true), cores)])
        .collect()
}

/// Makes one node with the GPU, and three with the other cores.
fn make_unlike_nodes(host: &[u32], rest: &[u32]) -> Vec<Vec<PlatformDevice>> {
    let cores = if rest.is_empty() { host } else { rest };
    let mut nodes = vec![vec![PlatformDevice::new("gpu", Some(false), host)]];
    let others = split_cores(cores, 3);
    nodes.extend(
        others
            .iter()
            .map(|cores| vec![PlatformDevice::new("cpu", None, cores)]),
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

/// Makes a row for each platform and strategy.
pub fn make_table(results: &GpuResults) -> PartTable {
    let mut rows = Vec::new();
    for platform in PLATFORMS {
        let part = GpuPart::Ranks;
        let fpm_walls = results.report_figures(part, (platform, FPM), |report| Some(report.wall_s));
        for strategy in STRATEGIES {
            let about = (platform, strategy);
            let walls = results.report_figures(part, about, |report| Some(report.wall_s));
            let speeds = results.report_figures(part, about, |report| Some(1e9 * report.gflops?));
            let over_ideal = MedianRange::of(
                results.report_figures(part, about, |report| Some(report.over_ideal())),
            );
            let left_out = results.report_figures(part, about, |report| {
                Some(
                    report
                        .devices()
                        .filter(|device| device.units == 0.0)
                        .count() as f64,
                )
            });
            let name = if strategy == FPM {
                "IDPA and INPA by FPM"
            } else {
                "even split"
            };
            let over_fpm = MedianRange::of_ratios(&walls, &fpm_walls);
            let row = TableRow::new(format!("{platform}, {name}"))
                .with_speed("GFLOP/s", MedianRange::of(speeds))
                .with_range("wall / ideal", over_ideal, 2)
                .with_range("wall / FPM's wall", over_fpm, 2)
                .with_range("ranks left out", MedianRange::of(left_out), 0);
            let median = over_ideal.median;
            rows.push(if strategy == FPM {
                row.with_goal(format!("wall / ideal ≤ {GOAL}"), median, median <= GOAL)
            } else {
                row.without_goal("for comparison")
            });
        }
    }
    let (host, others) = results.split_cores();
    let side = multiplied_side(results.scale.side);
    PartTable::new(
        format!(
            "**Ranks and the GPU.** m = n = k = {side} on ranks of this host: two that share the GPU and its {host} host \
             core(s), and four of which one has the GPU and the others {others} core(s) together. Ideal is the work over the \
             sum of the speeds that the devices showed in the same multiplication; a rank without work showed none."
        ),
        rows,
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
