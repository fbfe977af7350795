//! The plan of a multiplication, printed.

use isochron_hierarchy::printable::show_path;

use isochron_core::plan::{Plan, PredictedNode};

use super::text::{describe_left_out, describe_making, draw_layout, mib};
use super::ways::{compare_candidates, describe_way};
use crate::lines::{count, wrap};
use crate::table::TextTable;

/// Formats the plan for people. Prose has at most `width` characters a line.
pub fn format_plan(plan: &Plan, width: usize) -> String {
    let above = describe_division(plan);
    let left_out = plan.decision().left_out.as_ref();
    let left_out = left_out
        .map_or_else(String::new, |left_out| format!("note: {}\n", describe_left_out(left_out)));
    let strategy = plan.decision().config.strategy;
    let loaded = plan.file().map_or_else(String::new, |file| {
        let hosts = plan.nodes().iter().map(|node| node.host.as_str());
        let origin = describe_making(plan.made(), strategy, hosts);
        format!("plan loaded from {}, {origin}\n", show_path(file))
    });
    format!(
        "{}\n{}{}\n{}",
        wrap(&above, width),
        draw_layout(plan.layout(), width),
        node_table(plan),
        wrap(
            &(describe_needs(plan)
                + &describe_uplinks(plan)
                + &left_to_run(plan)
                + &left_out
                + &loaded),
            width
        )
    )
}

/// Lists the decisions left to the run, with their steps and the measurements so far; empty if all is decided.
fn left_to_run(plan: &Plan) -> String {
    let Some(look) = plan.look() else {
        return String::new();
    };
    let borders = plan
        .nodes()
        .iter()
        .any(|node| node.devices.len() > 1)
        .then_some("the borders between devices of a node");
    let moves = plan.nodes().len() > 1 && plan.division().shares().is_none();
    let layout = moves.then_some("the layout of C between nodes");
    let left: Vec<&str> = borders.into_iter().chain(layout).collect();
    let known = format!(
        "known now: {} of all devices in {:.3} s",
        count(look.measurements.len() as u64, "measurement"),
        plan.made().balance_s
    );
    let shares = match plan.division().shares() {
        Some(_) => "the shares of k stay; ",
        None => "",
    };
    if left.is_empty() {
        format!("nothing is left to the run: {shares}{known}\n")
    } else {
        format!(
            "left to the run: {}, decided at most {} apart; {shares}{known}\n",
            left.join(" and "),
            count(look.config.check_every, "step")
        )
    }
}

/// Describes the multiplication and its division.
fn describe_division(plan: &Plan) -> String {
    let problem = plan.problem();
    let (m, n, k, block) = (problem.m(), problem.n(), problem.k(), problem.block());
    let division = match plan.division().shares() {
        // Panels are not sent.
        _ if plan.nodes().len() == 1 => "1 node".to_owned(),
        Some(_) => describe_way(plan.way()).to_owned(),
        None => format!(
            "{}, panels are sent {} ahead",
            describe_way(plan.way()),
            count(plan.lookahead() as u64, "step")
        ),
    };
    let in_parts = match plan.k_parts() {
        1 => String::new(),
        parts => format!(", A and B are held in {parts} parts of k"),
    };
    format!(
        "C {m}×{n} = A {m}×{k} · B {k}×{n} of {}, block {block}, panels of {}\n\
         {division}{in_parts}; {}\n{}",
        problem.element(),
        plan.panel(),
        describe_seconds(plan),
        compare_candidates(&plan.decision().candidates)
    )
}

/// Formats the predictions of the plan in one line.
pub(super) fn format_line(plan: &Plan) -> String {
    format!("{}; {}", describe_seconds(plan), describe_needs(plan))
}

fn describe_seconds(plan: &Plan) -> String {
    plan.predicted_s().map_or_else(
        || "nothing was measured".to_owned(),
        |seconds| format!("{seconds:.3} s of arithmetic predicted"),
    )
}

fn describe_needs(plan: &Plan) -> String {
    let nodes = list_predicted(plan);
    let bytes: u64 = nodes.iter().map(|node| node.bytes).sum();
    let messages = nodes.iter().map(|node| node.messages).sum();
    let memory: f64 = nodes.iter().map(|node| node.memory_bytes as f64).sum();
    format!(
        "{:.1} MiB in {}, {:.1} MiB of host memory\n",
        mib(bytes as f64),
        count(messages, "message"),
        mib(memory)
    )
}

/// Tells what passes the uplinks of groups of nodes; nothing without groups.
fn describe_uplinks(plan: &Plan) -> String {
    let uplinks = plan.network().map_or(&[][..], |network| network.uplinks());
    let bytes = plan.predicted().map_or(&[][..], |predicted| &predicted.uplink_bytes);
    let lines = uplinks.iter().zip(bytes).map(|(uplink, &bytes)| {
        let (first, others) =
            (uplink.ranks.first().unwrap_or(&0), uplink.ranks.len().saturating_sub(1));
        format!(
            "{:.1} MiB at most each way through the uplink of node {first} and {}\n",
            mib(bytes as f64),
            count(others as u64, "other")
        )
    });
    lines.collect()
}

/// Returns the predictions for the nodes; none for a plan that no session has made.
fn list_predicted(plan: &Plan) -> &[PredictedNode] {
    plan.predicted().map_or(&[], |predicted| &predicted.nodes)
}

fn node_table(plan: &Plan) -> TextTable {
    let heading = "node|device|k|cols|units|pred. s|MiB in|messages|MiB held";
    let mut table = TextTable::new(3, heading);
    for (planned, node) in plan.nodes().iter().zip(list_predicted(plan)) {
        let [first, end] = node.k;
        table.add_row([
            format!("{} {}", planned.rank, planned.host),
            String::new(),
            format!("{first}..{end}"),
            String::new(),
            format!("{:.0}", node.units),
            node.arithmetic_s.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3}")),
            format!("{:.1}", mib(node.bytes as f64)),
            node.messages.to_string(),
            format!("{:.1}", mib(node.memory_bytes as f64)),
        ]);
        for (planned, device) in planned.devices.iter().zip(&node.devices) {
            let columns = planned.columns.to_string();
            let units = format!("{:.0}", device.units);
            let memory = format!("{:.1}", mib(device.memory_bytes as f64));
            let cells = ["", &planned.name, "", &columns, &units, "", "", "", &memory];
            table.add_row(cells.map(str::to_owned));
        }
    }
    table
}
