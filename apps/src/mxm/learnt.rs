//! Text about what a run learnt.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use isochron_core::product::{Learnt, LearntChange, LearntDrift};
use isochron_core::report::{NodeReport, Report};
use isochron_hierarchy::learn::{ChangeReason, PartModel};

use crate::table::TextTable;

/// Most changes that are listed one by one.
const MOST_CHANGES: usize = 8;

/// Largest ratio of two factors, and distance of two steps, of devices that changed alike.
const ALIKE_FACTOR: f64 = 1.25;
const ALIKE_STEPS: usize = 3;

/// Names a node: by its rank, with its name in the platform file or its host.
pub(super) fn name_node(node: &NodeReport) -> String {
    let name = if node.name.is_empty() { &node.host } else { &node.name };
    format!("{} {name}", node.rank)
}

/// Tabulates the changes of the division; of many, the first and the last. Empty without any.
pub(super) fn list_changes(nodes: &[NodeReport], learnt: &Learnt) -> String {
    let (Some(first), Some(last)) = (learnt.changes.first(), learnt.changes.last()) else {
        return String::new();
    };
    let mut table = TextTable::new(2, "changed in the run|why|step|cost s|saved s");
    if learnt.changes.len() <= MOST_CHANGES {
        for change in &learnt.changes {
            table.add_row(describe_change(nodes, change));
        }
    } else {
        table.add_row(describe_change(nodes, first));
        table.add_row(sum_changes(&learnt.changes[1..learnt.changes.len() - 1]));
        table.add_row(describe_change(nodes, last));
    }
    format!("\n{table}")
}

fn describe_change(nodes: &[NodeReport], change: &LearntChange) -> [String; 5] {
    let node = change.rank.and_then(|rank| nodes.get(rank));
    let moved = match (change.moves_c, node) {
        (true, _) => "parts of C between nodes".to_owned(),
        (false, Some(node)) => format!("columns between devices of node {}", name_node(node)),
        (false, None) => "columns between devices".to_owned(),
    };
    [
        moved,
        name_reason(change.why).to_owned(),
        change.step.to_string(),
        show_seconds(change.cost_s),
        show_seconds(change.saved_s),
    ]
}

/// Describes all these changes in one row.
fn sum_changes(changes: &[LearntChange]) -> [String; 5] {
    let cost_s: f64 = changes.iter().map(|change| change.cost_s).sum();
    let saved_s: f64 = changes.iter().map(|change| change.saved_s).sum();
    [
        format!("{} more changes", changes.len()),
        String::new(),
        String::new(),
        show_seconds(cost_s),
        show_seconds(saved_s),
    ]
}

fn show_seconds(seconds: f64) -> String {
    // A tiny loss is no "-0.000".
    format!("{:.3}", if seconds.abs() < 0.0005 { 0.0 } else { seconds })
}

fn name_reason(why: ChangeReason) -> &'static str {
    match why {
        ChangeReason::First => "first",
        ChangeReason::Saving => "saving",
        ChangeReason::Drift => "drift",
        ChangeReason::Forced => "forced",
    }
}

/// Lists the devices that became slower or faster, and what learning cost.
pub(super) fn describe_learning(nodes: &[NodeReport], learnt: &Learnt) -> String {
    let mut text = String::new();
    for node in nodes {
        let drifts = learnt.drifts.iter().filter(|drift| drift.rank == node.rank);
        text += &describe_drifts(node, &drifts.collect::<Vec<_>>());
    }
    if !learnt.changes.is_empty() {
        let _ = writeln!(
            text,
            "learning in the run cost {:.3} s: {:.3} s of slower steps and {:.3} s of changes",
            learnt.late_s + learnt.changing_s,
            learnt.late_s,
            learnt.changing_s
        );
    }
    text
}

/// Describes the drifts of a node's devices: in one line those of all its devices that changed alike.
fn describe_drifts(node: &NodeReport, drifts: &[&LearntDrift]) -> String {
    let mut text = String::new();
    let mut rest = drifts;
    while let [first, ..] = rest {
        let alike = rest.iter().take_while(|drift| is_alike(first, drift));
        let (alike, others) = rest.split_at(alike.count());
        rest = others;
        let named = format!("node {}", name_node(node));
        let host = if node.name.is_empty() { String::new() } else { format!(" ({})", node.host) };
        if covers_node(node, alike) {
            let log: f64 = alike.iter().map(|drift| drift.factor.ln()).sum();
            let factor = (log / alike.len() as f64).exp();
            let _ = writeln!(text, "{named}{host} {}", describe_factor(factor, first.step));
            continue;
        }
        for drift in alike {
            let factor = describe_factor(drift.factor, drift.step);
            let _ = writeln!(text, "{} of {named}{host} {factor}", drift.device);
        }
    }
    text
}

/// Returns `true` if these drifts are one for each device of the node that had work.
fn covers_node(node: &NodeReport, drifts: &[&LearntDrift]) -> bool {
    let changed: BTreeSet<&str> = drifts.iter().map(|drift| drift.device.as_str()).collect();
    let busy = node.devices.iter().filter(|device| device.units > 0.0);
    changed.len() == drifts.len() && changed.len() >= busy.count()
}

/// Returns `true` if two devices changed at the same time by the same factor.
fn is_alike(one: &LearntDrift, other: &LearntDrift) -> bool {
    let ratio = (one.factor / other.factor).ln().abs();
    ratio <= ALIKE_FACTOR.ln() && one.step.abs_diff(other.step) <= ALIKE_STEPS
}

fn describe_factor(factor: f64, step: usize) -> String {
    if factor > 1.0 {
        format!("became {factor:.1} × slower at step {step}")
    } else {
        format!("became {:.1} × faster at step {step}", 1.0 / factor)
    }
}

/// Shows the speed of a device at the end, as its model has it, with the half-width of its interval: GFLOP/s, and percent.
pub(super) fn show_model(report: &Report, learnt: &Learnt, rank: usize, device: usize) -> String {
    let mut of_node = learnt.devices.iter().filter(|device| device.rank == rank);
    let model = of_node.nth(device).and_then(|device| device.model.as_ref());
    model.map_or_else(
        || "-".to_owned(),
        |model| {
            let speed = model_gflops(report, model);
            // Three digits.
            let decimals = match speed {
                10.0.. => usize::from(speed < 100.0),
                _ => 2,
            };
            let percent = (100.0 * model.ci_s / model.time_s).ceil();
            format!("{speed:.decimals$}±{percent:.0}%")
        },
    )
}

fn model_gflops(report: &Report, model: &PartModel) -> f64 {
    let flop = model.units * report.panel as f64 * report.element.flop();
    flop / model.time_s / 1e9
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Makes a node with devices `a`, `b`, …, which have these units.
    fn make_node(rank: usize, units: &[f64]) -> NodeReport {
        let devices = ["a", "b", "c"].iter().zip(units).map(|(name, units)| {
            json!({"name": name, "kind": "cpu", "blas": "", "paced": null, "units": units, "busy_s": 1.0,
                   "cores": [], "pinned": false, "bus_id": null, "threads": []})
        });
        let measured = isochron_devices::MeasureTally::default();
        let node = json!({"rank": rank, "host": "vm", "name": "n", "row": 0, "col": 0, "rows": 1, "cols": 1,
            "units": 1.0, "busy_s": 1.0, "wait_s": 0.0, "exposed_s": 0.0, "sum_s": 0.0, "parts_s": 0.0,
            "messages": 0, "bytes": 0, "measured": measured, "notices": [],
            "devices": devices.collect::<Vec<_>>()});
        serde_json::from_value(node).expect("a node")
    }

    fn drift(device: &str, step: usize, factor: f64) -> LearntDrift {
        LearntDrift { rank: 1, host: "vm".to_owned(), device: device.to_owned(), step, factor }
    }

    /// Says what became of node 1, which has three devices and work for two.
    fn say(drifts: &[LearntDrift]) -> String {
        let nodes = [make_node(0, &[1.0]), make_node(1, &[1.0, 2.0, 0.0])];
        let learnt = Learnt { drifts: drifts.to_vec(), ..Learnt::default() };
        describe_learning(&nodes, &learnt)
    }

    #[test]
    fn a_node_whose_devices_changed_alike_is_named_once() {
        let all = [drift("a", 31, 4.0), drift("b", 32, 4.1)];
        assert_eq!(say(&all), "node 1 n (vm) became 4.0 × slower at step 31\n");
        assert_eq!(say(&all[..1]), "a of node 1 n (vm) became 4.0 × slower at step 31\n");
        let back = [drift("a", 60, 0.25), drift("b", 60, 0.25)];
        let said = say(&[all, back].concat());
        assert!(said.ends_with("\nnode 1 n (vm) became 4.0 × faster at step 60\n"), "{said}");
        assert_eq!(say(&[]), "");
    }

    #[test]
    fn unlike_changes_of_a_node_are_named_by_device() {
        let twice = [drift("a", 31, 4.0), drift("a", 33, 4.0)];
        assert_eq!(say(&twice).matches("a of node 1 n (vm) became").count(), 2);
        let said = say(&[drift("a", 31, 4.0), drift("b", 31, 0.5)]);
        assert!(said.ends_with("\nb of node 1 n (vm) became 2.0 × faster at step 31\n"), "{said}");
    }

    fn make_change(step: usize) -> LearntChange {
        LearntChange {
            step,
            rank: Some(0),
            why: ChangeReason::Saving,
            moves_c: step == 0,
            expected_cost_s: 0.5,
            cost_s: 0.25,
            expected_saving_s: 1.0,
            saved_s: 0.5,
        }
    }

    /// Lists this number of changes.
    fn list(count: usize) -> String {
        let learnt = Learnt { changes: (0..count).map(make_change).collect(), ..Learnt::default() };
        list_changes(&[make_node(0, &[1.0])], &learnt)
    }

    #[test]
    fn many_changes_are_summed() {
        assert_eq!(list(0), "");
        assert_eq!(list(8).lines().count(), 10);
        let many = list(10);
        let rows: Vec<&str> = many.lines().collect();
        assert_eq!(
            rows,
            [
                "",
                "changed in the run                   why     step  cost s  saved s",
                "parts of C between nodes             saving     0   0.250    0.500",
                "8 more changes                                      2.000    4.000",
                "columns between devices of node 0 n  saving     9   0.250    0.500",
            ]
        );
    }
}
