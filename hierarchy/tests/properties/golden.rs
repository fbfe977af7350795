//! Decisions about made-up times, compared with those that are kept in `tests/golden`. A change of the code that is no change
//! of behaviour leaves every line as it is.
//!
//! `ISOCHRON_WRITE_GOLDEN=1` writes the files.

use std::fs;
use std::path::Path;

use isochron_hierarchy::balance::{BalanceConfig, BalanceStep, Extent, Strategy};
use isochron_hierarchy::decide::{Decision, PlanAnswer, PlanRequest, Planner};
use isochron_hierarchy::learn::ChangeReason;
use isochron_hierarchy::network::Network;
use isochron_hierarchy::predict::Cluster;
use isochron_hierarchy::problem::{Problem, Split};
use isochron_hierarchy::rebalance::{LoopPart, RebalanceConfig};
use isochron_hierarchy::times::Sample;
use serde_json::{Value, json};
use strum::VariantArray as _;

use crate::learn::run::{SHARE, SimulatedPart, Simulation, draw_unlike, learn};
use crate::rebalance::SimulatedLoop;
use isochron_support::simulated::SplitMix;

/// Compares lines with those that are kept under this name.
fn check(name: &str, lines: &[Value]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.jsonl"));
    let found: Vec<String> = lines.iter().map(Value::to_string).collect();
    if std::env::var_os("ISOCHRON_WRITE_GOLDEN").is_some() {
        fs::write(&path, found.join("\n") + "\n").unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    for (found, kept) in found.iter().zip(kept.lines()) {
        assert_eq!(found, kept, "{name}");
    }
    assert_eq!(found.len(), kept.lines().count(), "{name}");
}

/// Seconds of a node for an update of this many blocks of C.
type NodeTime = fn(usize, f64) -> f64;

/// Nodes by their number and their times.
struct Nodes {
    name: &'static str,
    count: usize,
    time: NodeTime,
}

const CLUSTERS: [Nodes; 4] = [
    Nodes { name: "4 alike", count: 4, time: |_, blocks| 2e-6 * blocks },
    Nodes {
        name: "1 : 2 : 4 : 8",
        count: 4,
        time: |node, blocks| 1e-6 * blocks * (8 >> node) as f64,
    },
    Nodes {
        name: "a GPU and a memory cliff",
        count: 3,
        time: |node, blocks| match node {
            0 => 4e-4 + 1e-7 * blocks,
            1 => 1e-6 * (blocks + 9.0 * (blocks - 300.0).max(0.0)),
            _ => 2e-6 * blocks,
        },
    },
    Nodes {
        name: "7 unlike, one of them useless",
        count: 7,
        time: |node, blocks| 1e-6 * blocks * if node == 6 { 900.0 } else { 1.0 + node as f64 },
    },
];

const NETWORKS: [(&str, f64, f64); 2] = [("memory", 1e-6, 1e10), ("1 Gbit/s", 1e-4, 1.25e8)];

/// Shapes m, n, k.
const SHAPES: [[usize; 3]; 3] = [[4096, 4096, 4096], [512, 512, 65_536], [16_384, 1024, 1000]];

/// Width of panels, and of the updates that are measured.
const PANEL: usize = 256;

/// Plans by made-up times, and counts the questions of each kind.
fn plan(
    nodes: &Nodes,
    network: &Network,
    problem: Problem,
    hidden: f64,
    config: BalanceConfig,
) -> (Decision, [usize; 4]) {
    let cluster = Cluster { nodes: nodes.count, hidden };
    let mut planner = Planner::new(problem, cluster, config, PANEL).unwrap();
    let mut asked = [0; 4];
    loop {
        let request = match planner.step() {
            BalanceStep::Done(decision) => return (decision, asked),
            BalanceStep::Measure(request) => request,
        };
        let (kind, answer) = match &request {
            PlanRequest::MessageCosts => (0, PlanAnswer::MessageCosts(vec![1e-10; nodes.count])),
            PlanRequest::Network { .. } => (1, PlanAnswer::Network(network.clone())),
            PlanRequest::Room(_) => (2, PlanAnswer::Room(true)),
            PlanRequest::Times { extents, .. } => {
                (3, PlanAnswer::Times(answer_times(nodes, extents)))
            }
        };
        asked[kind] += 1;
        planner.observe(answer).unwrap();
    }
}

fn answer_times(nodes: &Nodes, extents: &[Extent]) -> Vec<Sample> {
    extents
        .iter()
        .enumerate()
        .map(|(node, extent)| match extent.area() {
            0 => Sample::default(),
            area => {
                let time_s = (nodes.time)(node, area as f64);
                Sample::measured(area, time_s, 3, 0.01 * time_s)
            }
        })
        .collect()
}

#[test]
fn plans_are_those_that_are_kept() {
    let mut lines = Vec::new();
    for nodes in &CLUSTERS {
        for (network, latency_s, bytes_per_s) in NETWORKS {
            for [m, n, k] in SHAPES {
                for &strategy in Strategy::VARIANTS {
                    for split in [Split::Auto, Split::C, Split::K] {
                        let config = BalanceConfig {
                            strategy,
                            steps: match strategy {
                                Strategy::Adaptive => 0,
                                _ => k.div_ceil(PANEL) as u64,
                            },
                            ..BalanceConfig::default()
                        };
                        let problem = Problem::new(m, n, k, 128)
                            .and_then(|problem| problem.with_split(split).with_panel(PANEL))
                            .unwrap();
                        let hidden = if network == "memory" { 0.0 } else { 0.9 };
                        let links = Network::flat(latency_s, bytes_per_s);
                        let (decision, asked) = plan(nodes, &links, problem, hidden, config);
                        lines.push(json!({
                            "nodes": nodes.name,
                            "network": network,
                            "m,n,k": [m, n, k],
                            "strategy": strategy,
                            "split": split,
                            "asked": asked,
                            "decision": describe(&decision),
                        }));
                    }
                }
            }
        }
    }
    check("plans", &lines);
}

/// Returns a decision without the settings that led to it.
fn describe(decision: &Decision) -> Value {
    let mut decision = serde_json::to_value(decision).unwrap();
    decision.as_object_mut().unwrap().remove("config");
    decision
}

/// Returns the divisions that differ from the one before, with their places.
fn list_changes(divisions: &[Vec<u64>]) -> Vec<(usize, Vec<u64>)> {
    let mut changes: Vec<(usize, Vec<u64>)> = Vec::new();
    for (place, units) in divisions.iter().enumerate() {
        if changes.last().is_none_or(|(_, last)| last != units) {
            changes.push((place, units.clone()));
        }
    }
    changes
}

/// Draws parts of which some have a small memory, start for long, or become slow.
fn draw_parts(kind: &str, random: &mut SplitMix) -> Vec<SimulatedPart> {
    let mut parts = draw_unlike(6, random);
    match kind {
        "cliffs" => parts.iter_mut().step_by(2).for_each(|part| {
            part.capacity = 0.8 * SHARE as f64;
            part.steeper = 9.0;
        }),
        "start-up" => parts[1].fixed_s = 0.4,
        "drift" => {
            parts[2].slow_from = 60;
            parts[2].slower = 3.0;
        }
        _ => {}
    }
    parts
}

#[test]
fn runs_that_learn_are_those_that_are_kept() {
    let mut lines = Vec::new();
    for kind in ["unlike", "cliffs", "start-up", "drift"] {
        for seed in 0..3 {
            for steps in [30, 150] {
                let parts = draw_parts(kind, &mut SplitMix::new(seed));
                let mut simulation = Simulation::new(parts, steps, seed);
                let learner = learn(&mut simulation);
                let reasons: Vec<&ChangeReason> =
                    learner.changes().iter().map(|change| &change.why).collect();
                lines.push(json!({
                    "parts": kind,
                    "seed": seed,
                    "steps": steps,
                    "changes": list_changes(&simulation.divisions),
                    "why": reasons,
                    "spent_s": simulation.spent_s,
                }));
            }
        }
    }
    check("learning", &lines);
}

#[test]
fn loops_are_those_that_are_kept() {
    let mut lines = Vec::new();
    for (name, unit_s) in [("alike", vec![1e-6; 3]), ("unlike", vec![1e-6, 2e-6, 5e-6, 1e-6])] {
        for noise in [0.0, 0.02, 0.1] {
            for seed in 0..3 {
                let parts = vec![LoopPart::default(); unit_s.len()];
                let config = RebalanceConfig::default();
                let mut run = SimulatedLoop::with_parts(config, parts, &unit_s, noise, seed);
                let mut divisions = Vec::new();
                for sweep in 0..120 {
                    if sweep == 60 {
                        run.unit_s[0] *= 4.0;
                    }
                    divisions.push(run.machine.units().to_vec());
                    run.run_sweep();
                }
                lines.push(json!({
                    "parts": name,
                    "noise": noise,
                    "seed": seed,
                    "changes": list_changes(&divisions),
                }));
            }
        }
    }
    check("loops", &lines);
}
