//! The GPU in jobs of several ranks: two that share it, and four of which one has it.

use serde_json::{Value, json};

use super::clock::Clock;
use super::jobs::{Device, Job, devices};
use super::record::figures;
use super::rows::Row;
use super::{Campaign, Part};
use crate::direct::Shape;
use crate::results::{list, number};
use crate::statistics::Spread;

/// The wall time by functional models is to be of the ideal one, at most.
const GOAL: f64 = 1.15;

/// The platforms, and what they are.
const PLATFORMS: [&str; 2] = ["two ranks share the GPU", "one of four ranks has the GPU"];
/// By functional models, and the same for all.
const STRATEGIES: [&str; 2] = ["fpm", "homogeneous"];

/// Both platforms with both strategies, in turn.
pub fn measure(campaign: &mut Campaign, clock: Clock) -> anyhow::Result<()> {
    let (host, rest) = campaign.card.divided_cores();
    // An even split would take long with all of it.
    let side = campaign.scale.side / 4 * 3;
    let shape = Shape {
        m: side,
        n: side,
        k: side,
    };
    campaign.record.results["ranks"] = json!({ "side": side, "host_cores": host, "cores": rest });
    let platforms = [
        ("shared", shared(&host, &rest)),
        ("unlike", unlike(&host, &rest)),
    ];
    for round in clock.rounds(campaign.rounds) {
        for turn in 0..PLATFORMS.len() * STRATEGIES.len() {
            // Every round starts with another one.
            let at = (round + turn) % (PLATFORMS.len() * STRATEGIES.len());
            let (platform, strategy) = (at / STRATEGIES.len(), STRATEGIES[at % STRATEGIES.len()]);
            let (name, nodes) = &platforms[platform];
            let job = Job {
                nodes,
                shape,
                block: campaign.scale.block,
                words: &["--strategy", strategy],
                log: "error",
            };
            let about = (PLATFORMS[platform], strategy);
            if campaign.record.has_failed(Part::Ranks, about) {
                continue;
            }
            let found = campaign.multiply(name, &job, clock);
            campaign.record.sample((Part::Ranks, round), about, || {
                Ok(json!({ "report": found?.0 }))
            })?;
        }
    }
    Ok(())
}

/// Two nodes with the same GPU, each with as many host cores as the GPU has by itself, as far as there are so many.
fn shared(host: &[u32], rest: &[u32]) -> Vec<Vec<Device>> {
    let others = rest.iter().take(host.len());
    let cores: Vec<u32> = host.iter().chain(others).copied().collect();
    let parts = spread(&cores, 2);
    let node = |cores: &Vec<u32>| {
        vec![Device {
            gpu: Some(true),
            ..Device::gpu("gpu", cores)
        }]
    };
    parts.iter().map(node).collect()
}

/// One node with the GPU, and three with the other cores.
fn unlike(host: &[u32], rest: &[u32]) -> Vec<Vec<Device>> {
    let cores = if rest.is_empty() { host } else { rest };
    let mut nodes = vec![vec![Device::gpu("gpu", host)]];
    let others = spread(cores, 3);
    nodes.extend(others.iter().map(|cores| vec![Device::cpu("cpu", cores)]));
    nodes
}

/// Cores in `count` parts of equal size but for one; where there are fewer, parts share.
fn spread(cores: &[u32], count: usize) -> Vec<Vec<u32>> {
    let at = |part: usize| part * cores.len() / count;
    let part = |part: usize| match at(part)..at(part + 1) {
        range if range.is_empty() => vec![cores[part % cores.len()]],
        range => cores[range].to_vec(),
    };
    (0..count).map(part).collect()
}

/// A row for each platform and strategy.
pub fn rows(results: &Value) -> Vec<Row> {
    if results["ranks"].is_null() {
        return Vec::new();
    }
    let mut rows = Vec::new();
    for platform in PLATFORMS {
        let of = |strategy: &str, figure: &dyn Fn(&Value) -> f64| {
            let figure = |sample: &Value| figure(&sample["report"]);
            figures(results, Part::Ranks, (platform, strategy), figure)
        };
        let walls = |strategy: &str| of(strategy, &|report| number(report, "/wall_s"));
        for strategy in STRATEGIES {
            let over = |report: &Value| number(report, "/wall_s") / number(report, "/ideal_s");
            let over_ideal = Spread::of(of(strategy, &over));
            let idle = |report: &Value| {
                devices(report)
                    .filter(|device| number(device, "/units") == 0.0)
                    .count() as f64
            };
            let name = if strategy == "fpm" {
                "IDPA and INPA by FPM"
            } else {
                "even split"
            };
            let row = Row::new(format!("{platform}, {name}"))
                .speed(
                    "GFLOP/s",
                    Spread::of(of(strategy, &|report| 1e9 * number(report, "/gflops"))),
                )
                .spread("wall / ideal", over_ideal, 2)
                .spread(
                    "wall / FPM's wall",
                    Spread::of_ratios(&walls(strategy), &walls("fpm")),
                    2,
                )
                .spread("ranks left out", Spread::of(of(strategy, &idle)), 0);
            let median = over_ideal.median;
            rows.push(if strategy == "fpm" {
                row.goal(format!("wall / ideal ≤ {GOAL}"), median, median <= GOAL)
            } else {
                row.no_goal("for comparison")
            });
        }
    }
    rows
}

/// What the table shows.
pub fn words(results: &Value) -> String {
    let about = &results["ranks"];
    format!(
        "**Ranks and the GPU.** m = n = k = {} on ranks of this host: two that share the GPU and its {} host core(s), and four of \
         which one has the GPU and the others {} core(s) together. Ideal is the work over the sum of the speeds that the devices \
         showed in the same multiplication; a rank that got nothing showed none.",
        about["side"],
        list(about, "host_cores").count(),
        list(about, "cores").count(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_has_a_core() {
        assert_eq!(
            spread(&[4, 5, 6, 7, 8], 3),
            [vec![4], vec![5, 6], vec![7, 8]]
        );
        assert_eq!(spread(&[1, 2], 3), [vec![1], vec![1], vec![2]]);
        let nodes = unlike(&[0], &[]);
        assert_eq!(nodes.len(), 4);
        assert!(nodes.iter().flatten().all(|device| device.cores == [0]));
        assert!(
            shared(&[0], &[1, 2])
                .iter()
                .flatten()
                .all(|device| device.gpu == Some(true))
        );
    }
}
