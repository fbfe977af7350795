//! The report of a multiplication, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use isochron::multiply::LeftOut;
use isochron::session::Report;
use isochron_devices::MeasureTally;
use isochron_hierarchy::balance::EndReason;

use super::plan::mib;
use super::ways;
use crate::table::TextTable;
use crate::topology::ranges_text;

/// Formats the report and the picture of its layout for people.
pub(super) fn format_report(report: &Report, picture: &str) -> String {
    let (m, n, k) = (report.m, report.n, report.k);
    let divided = if report.split == "k" { "k" } else { "C" };
    let n_nodes = report.nodes.len();
    let plural = if n_nodes == 1 { "" } else { "s" };
    let mut text = format!(
        "C {m}×{n} = A {m}×{k} · B {k}×{n} of {}, block {}, panels of {}, {divided} divided, strategy {}\n\
         {n_nodes} node{plural}, MPI {}\n\n{picture}\n{}\n{}\n",
        report.element,
        report.block,
        report.panel,
        report.strategy,
        report.mpi,
        device_table(report),
        format_summary(report)
    );
    if let Some(left_out) = report.balance.as_ref().and_then(|b| b.left_out.as_ref()) {
        let _ = writeln!(text, "note: {}", describe_left_out(left_out));
    }
    if let Some(why) = ways::explain_way(report.way, &report.candidates) {
        let _ = writeln!(text, "note: {why}");
    }
    for notice in &report.notices {
        let _ = writeln!(text, "note: {notice}");
    }
    for (notice, ranks) in collect_notices(report) {
        let _ = writeln!(text, "note: {notice} (rank {})", ranges_text(&ranks));
    }
    text
}

/// Names the nodes that were left out, with the predicted times with and without them.
pub(super) fn describe_left_out(left_out: &LeftOut) -> String {
    let ranks: Vec<u32> = left_out.ranks.iter().map(|&rank| rank as u32).collect();
    format!(
        "node {} got nothing: {:.3} s are predicted without, {:.3} s with everybody",
        ranges_text(&ranks),
        left_out.without_s,
        left_out.with_s
    )
}

/// Returns the notices about the hosts, each with its ranks.
fn collect_notices(report: &Report) -> BTreeMap<&str, Vec<u32>> {
    let mut notices: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (rank, node) in (0..).zip(&report.nodes) {
        for notice in &node.notices {
            notices.entry(notice).or_default().push(rank);
        }
    }
    notices
}

fn device_table(report: &Report) -> TextTable {
    let heading = "node|device|runs on|paced|units|share|GFLOP/s|busy s|waiting s";
    let mut table = TextTable::new(4, heading);
    let total: f64 = report.nodes.iter().map(|node| node.units).sum();
    let unit_flop = report.element.flop() * (report.block as f64).powi(2) * report.k as f64;
    for node in &report.nodes {
        for device in &node.devices {
            let speed = if device.busy_s > 0.0 {
                device.units * unit_flop / device.busy_s / 1e9
            } else {
                0.0
            };
            let name = if node.name.is_empty() {
                &node.host
            } else {
                &node.name
            };
            table.add_row([
                format!("{} {name}", node.rank),
                device.name.clone(),
                device.blas.clone(),
                device.paced.clone().unwrap_or_else(|| "-".to_string()),
                format!("{:.0}", device.units),
                format!(
                    "{:.1} %",
                    100.0 * device.units / total.max(f64::MIN_POSITIVE)
                ),
                format!("{speed:.2}"),
                format!("{:.3}", device.busy_s),
                format!("{:.3}", (report.wall_s - device.busy_s).max(0.0)),
            ]);
        }
    }
    table
}

fn format_summary(report: &Report) -> String {
    let share = 100.0 * report.balance_s / (report.balance_s + report.wall_s);
    let (iterations, why) = report
        .balance
        .as_ref()
        .map_or((0, ""), |b| (b.iterations, outcome_text(b.why)));
    let ratio = if report.ideal_s > 0.0 {
        report.wall_s / report.ideal_s
    } else {
        1.0
    };
    let check = match (&report.verify, report.verified) {
        (Some(verify), Some(passed)) => {
            let word = if passed { "verified" } else { "WRONG" };
            format!(
                "{word} by {}: largest residual {:.2e} of its bound",
                verify.method,
                verify.residual.unwrap_or(f64::INFINITY)
            )
        }
        _ => "not verified".to_string(),
    };
    format!(
        "balanced in {:.3} s ({share:.1} % of the run), {iterations} iterations: {why}\n\
         multiplied in {:.3} s, {:.2} × ideal ({:.3} s), {:.2} GFLOP/s, imbalance {:.1} %\n\
         sent {:.1} MiB in {} messages\n{}{}{}{check}",
        report.balance_s,
        report.wall_s,
        ratio,
        report.ideal_s,
        report.gflops,
        100.0 * report.imbalance,
        mib(report.bytes as f64),
        report.messages,
        parts_line(report),
        files_line(report),
        measurements_line(report),
    )
}

/// Reports the parts of A and B, and the time to make them.
fn parts_line(report: &Report) -> String {
    if report.k_parts == 1 {
        return String::new();
    }
    let longest_s = report.nodes.iter().map(|node| node.parts_s);
    format!(
        "A and B in {} parts of k: {:.3} s of the multiplication to make or read, and check, them\n",
        report.k_parts,
        longest_s.fold(0.0, f64::max)
    )
}

/// Reports the cost of reading and writing files.
fn files_line(report: &Report) -> String {
    let moved = report.redistribution;
    if moved.seconds == 0.0 {
        return String::new();
    }
    format!(
        "files read and written in {:.3} s, sent {:.1} MiB of them in {} messages\n",
        moved.seconds,
        mib(moved.bytes as f64),
        moved.messages
    )
}

/// Reports the deficiencies of the measurements.
fn measurements_line(report: &Report) -> String {
    let nodes = report.nodes.iter().map(|node| node.measured);
    let tally = nodes.fold(MeasureTally::default(), |all, node| {
        all.combined_with(&node)
    });
    if tally.imprecise + tally.bounds == 0 {
        return String::new();
    }
    format!(
        "of {} measurements {} did not reach their precision and {} were given up; {} repetitions were disturbed\n",
        tally.measurements, tally.imprecise, tally.bounds, tally.outliers
    )
}

/// Returns the reason why balancing ended, in words.
fn outcome_text(why: EndReason) -> &'static str {
    match why {
        EndReason::Balanced => "balanced",
        EndReason::NothingNew => "nothing more to learn",
        EndReason::NotWorthIt => "more would not pay for itself",
        EndReason::IterationLimit => "not balanced when the iterations ran out",
        EndReason::Predicted => "split by one measurement",
        EndReason::NotMeasured => "split evenly",
        EndReason::NoWork => "no work",
    }
}
