//! The plan of a multiplication: loaded and printed.

use std::path::Path;

use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::input::read_text;
use isochron::multiply::Split;
use isochron::session::SavedPlan;

use super::text::{describe_left_out, draw_layout};
use super::ways::{compare_candidates, describe_way};
use crate::lines::{count, wrap};
use crate::table::TextTable;

/// Reads the plan file on the head rank and sends it to all; `None` without a file.
///
/// # Errors
/// [`Error::File`] on every rank if it cannot be read.
///
/// # Collective
/// All ranks.
pub(super) fn load_plan(comm: &dyn Comm, path: Option<&Path>) -> Result<Option<SavedPlan>, Error> {
    let Some(path) = path else {
        return Ok(None);
    };
    let read = match comm.rank() {
        0 => read_text(path).map_err(|error| Error::file(path, error)),
        _ => Ok(String::new()),
    };
    let mut bytes = agree(comm, read)?.into_bytes();
    comm.broadcast(0, &mut bytes);
    let saved = serde_json::from_slice(&bytes);
    saved
        .map(Some)
        .map_err(|error| Error::file(path, format!("no plan: {error}")))
}

/// Formats the plan for people. Prose has at most `width` characters a line.
pub(super) fn format_plan(plan: &SavedPlan, width: usize) -> String {
    let problem = &plan.problem;
    let (m, n, k, block) = (problem.m(), problem.n(), problem.k(), problem.block());
    let ahead = match &plan.split {
        Split::C => format!(
            ", panels are sent {} ahead",
            count(plan.lookahead as u64, "step")
        ),
        // Panels are not sent.
        Split::K(_) => String::new(),
    };
    let in_parts = match plan.k_parts {
        1 => String::new(),
        parts => format!(", A and B are held in {parts} parts of k"),
    };
    let above = format!(
        "C {m}×{n} = A {m}×{k} · B {k}×{n} of {}, block {block}, panels of {}\n\
         {}{ahead}{in_parts}; {}\n{}",
        problem.element(),
        plan.panel,
        describe_way(plan.way()),
        describe_seconds(plan),
        compare_candidates(&plan.candidates)
    );
    let left_out = plan.left_out.as_ref().map_or_else(String::new, |left_out| {
        format!("note: {}\n", describe_left_out(left_out))
    });
    format!(
        "{}\n{}{}\n{}",
        wrap(&above, width),
        draw_layout(&plan.layout, width),
        node_table(plan),
        wrap(&(describe_needs(plan) + &left_out), width)
    )
}

/// Formats the predictions of the plan in one line.
pub(super) fn format_line(plan: &SavedPlan) -> String {
    format!("{}; {}", describe_seconds(plan), describe_needs(plan))
}

fn describe_seconds(plan: &SavedPlan) -> String {
    plan.predicted_s.map_or_else(
        || "nothing was measured".to_owned(),
        |seconds| format!("{seconds:.3} s of arithmetic predicted"),
    )
}

fn describe_needs(plan: &SavedPlan) -> String {
    let bytes: f64 = plan.nodes.iter().map(|node| node.bytes).sum();
    let messages: f64 = plan.nodes.iter().map(|node| node.messages).sum();
    let memory: f64 = plan.nodes.iter().map(|node| node.memory_bytes as f64).sum();
    format!(
        "{:.1} MiB in {}, {:.1} MiB of host memory\n",
        mib(bytes),
        count(messages.round() as u64, "message"),
        mib(memory)
    )
}

pub(super) fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

fn node_table(plan: &SavedPlan) -> TextTable {
    let heading = "node|device|k|cols|units|pred. s|MiB in|messages|MiB held";
    let mut table = TextTable::new(3, heading);
    for node in &plan.nodes {
        let [first, end] = node.k;
        table.add_row([
            format!("{} {}", node.rank, node.host),
            String::new(),
            format!("{first}..{end}"),
            String::new(),
            format!("{:.0}", node.units),
            node.predicted_s
                .map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.3}")),
            format!("{:.1}", mib(node.bytes)),
            format!("{:.0}", node.messages),
            format!("{:.1}", mib(node.memory_bytes as f64)),
        ]);
        for device in &node.devices {
            let columns = device.columns.to_string();
            let units = format!("{:.0}", device.units);
            let memory = format!("{:.1}", mib(device.memory_bytes as f64));
            let cells = ["", &device.name, "", &columns, &units, "", "", "", &memory];
            table.add_row(cells.map(str::to_owned));
        }
    }
    table
}
