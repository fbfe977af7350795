//! The plan of a multiplication: made or loaded, saved and printed.

use std::fs;
use std::path::Path;

use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::multiply::{Plan, Problem, Split};
use isochron::session::{SavedPlan, Session};
use isochron_hierarchy::balance::BalanceConfig;

use super::text::describe_left_out;
use super::ways::{compare_candidates, describe_way};
use super::{MxmArguments, write_json};
use crate::failure::Failure;
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
        0 => fs::read(path).map_err(|error| cannot_read(path, error)),
        _ => Ok(Vec::new()),
    };
    let mut bytes = agree(comm, read)?;
    comm.broadcast(0, &mut bytes);
    let saved = serde_json::from_slice(&bytes);
    saved
        .map(Some)
        .map_err(|error| cannot_read(path, format!("no plan: {error}")))
}

fn cannot_read(path: &Path, reason: impl ToString) -> Error {
    Error::File {
        path: path.to_path_buf(),
        reason: reason.to_string(),
    }
}

/// Restores the plan of `saved`, or makes one for `problem`; saves it if asked for.
///
/// # Collective
/// All ranks.
pub(super) fn make_plan(
    session: &mut Session<'_>,
    arguments: &MxmArguments,
    saved: Option<&SavedPlan>,
    (problem, balance): (Problem, &BalanceConfig),
) -> Result<Plan, Error> {
    let plan = match saved {
        Some(saved) => session.restore(saved)?,
        None => session.plan(problem, balance)?,
    };
    if let Some(path) = &arguments.save_plan {
        let document = session.describe(&plan)?;
        let comm = session.comm();
        let written = match comm.rank() {
            0 => write_json(path, &document),
            _ => Ok(()),
        };
        agree(comm, written)?;
    }
    Ok(plan)
}

/// Formats the plan for people, or as JSON.
pub(super) fn format_plan(plan: &SavedPlan, json: bool) -> Result<String, Failure> {
    if json {
        let json = serde_json::to_string_pretty(plan).map_err(Failure::run)?;
        return Ok(json + "\n");
    }
    let problem = &plan.problem;
    let (m, n, k, block) = (problem.m(), problem.n(), problem.k(), problem.block());
    let split = describe_way(plan.way());
    let compared = compare_candidates(&plan.candidates);
    let ahead = match &plan.split {
        Split::C => format!(", sent {} steps ahead", plan.lookahead),
        // Panels are not sent.
        Split::K(_) => String::new(),
    };
    let in_parts = match plan.k_parts {
        1 => String::new(),
        parts => format!(", A and B are held in {parts} parts of k"),
    };
    let seconds = plan.predicted_s.map_or_else(
        || "nothing was measured".to_owned(),
        |seconds| format!("{seconds:.3} s of arithmetic predicted"),
    );
    let left_out = plan.left_out.as_ref().map_or_else(String::new, |left_out| {
        format!("note: {}\n", describe_left_out(left_out))
    });
    let bytes: f64 = plan.nodes.iter().map(|node| node.bytes).sum();
    let messages: f64 = plan.nodes.iter().map(|node| node.messages).sum();
    let memory: f64 = plan.nodes.iter().map(|node| node.memory_bytes as f64).sum();
    Ok(format!(
        "C {m}×{n} = A {m}×{k} · B {k}×{n} of {}, block {block}, panels of {}{ahead}\n\
         {split}{in_parts}; {seconds}\n{compared}\n{}\n{}\n\
         {:.1} MiB in {:.0} messages to receive, {:.1} MiB of host memory\n{left_out}",
        problem.element(),
        plan.panel,
        plan.layout.picture(40),
        node_table(plan),
        mib(bytes),
        messages,
        mib(memory),
    ))
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

fn node_table(plan: &SavedPlan) -> TextTable {
    let heading = "node|device|k|columns|units|predicted s|receives MiB|messages|memory MiB";
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
            table.add_row([
                String::new(),
                device.name.clone(),
                String::new(),
                device.columns.to_string(),
                format!("{:.0}", device.units),
                String::new(),
                String::new(),
                String::new(),
                format!("{:.1}", mib(device.memory_bytes as f64)),
            ]);
        }
    }
    table
}
