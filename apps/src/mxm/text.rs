//! The report of a multiplication, for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use isochron_core::plan::{KnownFrom, Making};
use isochron_core::report::{Account, Report};
use isochron_devices::MeasureTally;
use isochron_hierarchy::balance::EndReason;
use isochron_hierarchy::decide::LeftOut;
use isochron_hierarchy::layout::Layout;
use isochron_hierarchy::printable::escape;

use super::learnt::{describe_learning, list_changes, name_node, show_model};
use super::ways;
use crate::lines::{count, wrap};
use crate::table::TextTable;
use crate::topology::ranges_text;

/// Formats the report, with the layout, for people. Prose has at most `width` characters a line.
pub(super) fn format_report(report: &Report, layout: &Layout, width: usize) -> String {
    let above = describe_run(report) + &list_libraries(report);
    let below = format_summary(report) + &list_notes(report);
    let learnt = report.learning.as_ref();
    format!(
        "{}\n{}{}{}\n{}{}",
        wrap(&above, width),
        draw_first_layout(report, layout, width),
        fit_device_table(report, width),
        learnt.map_or_else(String::new, |learnt| list_changes(&report.nodes, learnt)),
        wrap(&below, width),
        format_result(report)
    )
}

/// Formats the result in one line.
pub(super) fn format_line(report: &Report) -> String {
    let (m, n, k) = (report.m, report.n, report.k);
    format!(
        "{m}×{n}×{k} {}: {:.3} s, {:.2} GFLOP/s, imbalance {:.1} %, {}\n",
        report.element,
        report.wall_s,
        report.gflops,
        100.0 * report.imbalance,
        verdict_word(report)
    )
}

/// Formats the result in a line that regular expressions read, in these words for all time.
fn format_result(report: &Report) -> String {
    let verified =
        report.verified.map_or_else(|| "none".to_owned(), |verified| verified.to_string());
    format!(
        "isochron.result gflops={:.6} wall_s={:.9} verified={verified}\n",
        report.gflops, report.wall_s
    )
}

/// Draws the layout of several nodes; one node needs no picture.
pub(super) fn draw_layout(layout: &Layout, width: usize) -> String {
    match layout.rects().len() {
        0 | 1 => String::new(),
        _ => layout.picture(width.min(80), 12) + "\n",
    }
}

/// Draws the layout, and says that it is the first one if parts of C have moved.
fn draw_first_layout(report: &Report, layout: &Layout, width: usize) -> String {
    let drawn = draw_layout(layout, width);
    let mut changes = report.learning.iter().flat_map(|learnt| &learnt.changes);
    if changes.any(|change| change.moves_c) {
        format!("{}layout of the first step\n\n", drawn.trim_end_matches('\n').to_owned() + "\n")
    } else {
        drawn
    }
}

fn describe_run(report: &Report) -> String {
    let (m, n, k) = (report.m, report.n, report.k);
    let nodes = match report.nodes.len() {
        1 => "1 node".to_owned(),
        nodes => {
            let divided = if report.split == "k" { "k" } else { "C" };
            format!("{divided} divided over {nodes} nodes")
        }
    };
    format!(
        "C {m}×{n} = A {m}×{k} · B {k}×{n} of {}, block {}, panels of {}\n{nodes}, strategy {}, MPI {}\n",
        report.element, report.block, report.panel, report.strategy, report.mpi
    )
}

/// Lists each BLAS with its devices; without them if all have the same.
fn list_libraries(report: &Report) -> String {
    let mut libraries: BTreeMap<&str, BTreeMap<&str, Vec<u32>>> = BTreeMap::new();
    for (rank, node) in (0..).zip(&report.nodes) {
        for device in &node.devices {
            libraries.entry(&device.blas).or_default().entry(&device.name).or_default().push(rank);
        }
    }
    if libraries.len() < 2 {
        return libraries.into_keys().map(|name| format!("BLAS {name}\n")).collect();
    }
    let mut text = String::new();
    for (name, devices) in libraries {
        let users = devices.into_iter();
        let users = users.map(|(device, ranks)| format!("{device} of {}", name_ranks(&ranks)));
        let users: Vec<_> = users.collect();
        let _ = writeln!(text, "BLAS of {}: {name}", users.join(", "));
    }
    text
}

fn list_notes(report: &Report) -> String {
    let mut text = String::new();
    if let Some(left_out) = report.balance.as_ref().and_then(|b| b.left_out.as_ref()) {
        let _ = writeln!(text, "note: {}", describe_left_out(left_out));
    }
    if let Some(why) = ways::explain_way(report.way, &report.candidates) {
        let _ = writeln!(text, "note: {why}");
    }
    // Of a result that fails its check, the error says it.
    let unchecked = report.overflow.as_ref().filter(|_| report.verified.is_none());
    if let Some(found) = unchecked {
        let _ = writeln!(text, "note: the result overflows {}: {found}", report.element);
    }
    for notice in &report.notices {
        let _ = writeln!(text, "note: {notice}");
    }
    for notice in report.learning.iter().flat_map(|learnt| &learnt.notices) {
        let _ = writeln!(text, "note: {notice}");
    }
    for (notice, ranks) in collect_notices(report) {
        let _ = writeln!(text, "note: {notice} ({})", name_ranks(&ranks));
    }
    text
}

/// Names the nodes that were left out, with the predicted times with and without them.
pub(super) fn describe_left_out(left_out: &LeftOut) -> String {
    let ranks: Vec<u32> = left_out.ranks.iter().map(|&rank| rank as u32).collect();
    format!(
        "{} got nothing: {:.3} s are predicted without, {:.3} s with all nodes",
        name_ranks(&ranks),
        left_out.without_s,
        left_out.with_s
    )
}

fn name_ranks(ranks: &[u32]) -> String {
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", ranges_text(ranks))
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

/// Says how many devices were known from earlier runs; empty if none was.
fn known_line(report: &Report) -> String {
    let known = report.nodes.iter().flat_map(|node| &node.devices);
    let known: Vec<KnownFrom> = known.filter_map(|device| device.known).collect();
    let counts = [
        (KnownFrom::Models, "known from given models"),
        (KnownFrom::Store, "known from the store"),
        (KnownFrom::StoreAndProbe, "known from the store and a probe"),
        (KnownFrom::Fresh, "fresh"),
    ]
    .map(|(kind, text)| (known.iter().filter(|&&of| of == kind).count(), text));
    if counts[3].0 == known.len() {
        return String::new();
    }
    let texts: Vec<String> =
        counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, text)| format!("{n} {text}")).collect();
    format!("devices: {}\n", texts.join(", "))
}

/// Formats the devices. The origin of their first models is left out where the lines have no room for it: the text below counts
/// it.
fn fit_device_table(report: &Report, width: usize) -> String {
    let mut devices = report.nodes.iter().flat_map(|node| &node.devices);
    let is_known = devices.any(|device| device.known.is_some());
    let table = device_table(report, is_known).to_string();
    if table.lines().all(|line| line.chars().count() <= width) {
        table
    } else {
        device_table(report, false).to_string()
    }
}

fn device_table(report: &Report, is_known: bool) -> TextTable {
    let mut devices = report.nodes.iter().flat_map(|node| &node.devices);
    let is_paced = devices.any(|device| device.paced.is_some());
    let n_words = 2 + usize::from(is_paced) + usize::from(is_known);
    let paced = if is_paced { "|paced" } else { "" };
    let known = if is_known { "|known" } else { "" };
    let learnt = report.learning.as_ref();
    let model = learnt.map_or("", |_| "|learnt");
    let heading = format!("node|device{paced}{known}|units|share|GFLOP/s{model}|busy s|wait s");
    let mut table = TextTable::new(n_words, &heading);
    let total: f64 = report.nodes.iter().map(|node| node.units).sum();
    let unit_flop = report.element.flop() * (report.block as f64).powi(2) * report.k as f64;
    for node in &report.nodes {
        for (index, device) in node.devices.iter().enumerate() {
            let speed = if device.busy_s > 0.0 {
                device.units * unit_flop / device.busy_s / 1e9
            } else {
                0.0
            };
            let mut cells = vec![name_node(node), device.name.clone()];
            let paced = device.paced.clone().unwrap_or_else(|| "-".to_string());
            cells.extend(is_paced.then_some(paced));
            let known = device.known.map(|known| known.to_string());
            cells.extend(is_known.then(|| known.unwrap_or_else(|| "-".to_owned())));
            let share = 100.0 * device.units / total.max(f64::MIN_POSITIVE);
            let wait_s = (report.wall_s - device.busy_s).max(0.0);
            cells.extend([
                format!("{:.0}", device.units),
                format!("{share:.1} %"),
                format!("{speed:.2}"),
            ]);
            cells.extend(learnt.map(|learnt| show_model(report, learnt, node.rank, index)));
            cells.extend([format!("{:.3}", device.busy_s), format!("{wait_s:.3}")]);
            table.add_row(cells);
        }
    }
    table
}

fn format_summary(report: &Report) -> String {
    let ratio = if report.ideal_s > 0.0 { report.wall_s / report.ideal_s } else { 1.0 };
    let learnt = report.learning.as_ref();
    format!(
        "{}multiplied in {:.3} s, {ratio:.2} × ideal ({:.3} s), {:.2} GFLOP/s\n{}{}{}{}{}{}{}",
        describe_planning(report),
        report.wall_s,
        report.ideal_s,
        report.gflops,
        learnt.map_or_else(String::new, |learnt| describe_learning(&report.nodes, learnt)),
        traffic_lines(report),
        parts_line(report),
        files_line(report),
        measurements_line(report) + &known_line(report),
        check_line(report),
        report.account.map_or_else(String::new, account_line),
    )
}

fn describe_planning(report: &Report) -> String {
    if let Some(loaded) = &report.loaded {
        let hosts = report.nodes.iter().map(|node| node.host.as_str());
        let origin = describe_making(&loaded.made, &report.strategy, hosts);
        let file = &loaded.file;
        return format!("plan loaded from {file}, {origin}: nothing measured before the run\n");
    }
    if let (Some(_), Some(balance)) = (&report.learning, &report.balance) {
        let measured = count(balance.iterations.into(), "measurement");
        return format!("looked at all devices in {:.3} s ({measured})\n", report.balance_s);
    }
    let (iterations, why) =
        report.balance.as_ref().map_or((0, ""), |b| (b.iterations, outcome_text(b.why)));
    let iterations = match iterations {
        0 => String::new(),
        _ => format!(", {}", count(iterations.into(), "iteration")),
    };
    format!("planned in {:.3} s{iterations}: {why}\n", report.balance_s)
}

/// Reports the imbalance of several devices and the messages of several nodes.
fn traffic_lines(report: &Report) -> String {
    let mut text = String::new();
    let devices = report.nodes.iter().map(|node| node.devices.len());
    if devices.sum::<usize>() > 1 {
        let percent = 100.0 * report.imbalance;
        let _ = writeln!(
            text,
            "imbalance {percent:.1} % (longest busy time over the shortest, less 1)"
        );
    }
    if report.messages > 0 {
        let (sent, messages) = (mib(report.bytes as f64), count(report.messages, "message"));
        let _ = writeln!(text, "sent {sent:.1} MiB in {messages}");
    }
    text
}

fn check_line(report: &Report) -> String {
    let Some(verify) = &report.verify else {
        return "not verified\n".to_owned();
    };
    if let Some(doubt) = &verify.doubt {
        return format!("not verified: {doubt}\n");
    }
    let finds = verify.finds.map(|finds| {
        if finds < 1.0 {
            format!(" to {finds:.1e} of a typical element")
        } else {
            // Numbers that cancel out leave nothing but rounding.
            format!(" to rounding, {finds:.1e} times a typical element")
        }
    });
    let residual = verify.residual.map(|residual| format!(", residual {residual:.3} of its bound"));
    format!(
        "{} by {}{}{}\n",
        verdict_word(report),
        verify.method,
        finds.unwrap_or_default(),
        residual.unwrap_or_default()
    )
}

fn verdict_word(report: &Report) -> String {
    match (report.verified, &report.overflow) {
        (None, _) => "not verified".to_owned(),
        (Some(true), _) => "verified".to_owned(),
        (Some(false), None) => "WRONG".to_owned(),
        (Some(false), Some(_)) => format!("OVERFLOWS {}", report.element),
    }
}

/// Reports where the time of the process went.
fn account_line(account: Account) -> String {
    let Account {
        start_s,
        devices_s,
        plan_s,
        matrices_s,
        multiply_s,
        check_s,
        write_s,
        end_s,
        process_s,
    } = account;
    format!(
        "process {process_s:.3} s: start\u{a0}{start_s:.3}, devices\u{a0}{devices_s:.3}, plan\u{a0}{plan_s:.3}, \
         matrices\u{a0}{matrices_s:.3}, multiply\u{a0}{multiply_s:.3}, check\u{a0}{check_s:.3}, write\u{a0}{write_s:.3}, \
         end\u{a0}{end_s:.3}\n"
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
        "files read and written in {:.3} s, sent {:.1} MiB of them in {}\n",
        moved.seconds,
        mib(moved.bytes as f64),
        count(moved.messages, "message")
    )
}

/// Reports the deficiencies of the measurements.
fn measurements_line(report: &Report) -> String {
    let tally = report
        .nodes
        .iter()
        .map(|node| node.measured)
        .fold(MeasureTally::default(), |all, node| all.combined_with(&node));
    if tally.imprecise + tally.bounds == 0 {
        return String::new();
    }
    format!(
        "{}: {} imprecise, {} given up, {} disturbed\n",
        count(tally.measurements, "measurement"),
        tally.imprecise,
        tally.bounds,
        count(tally.outliers, "repetition")
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

/// Says when a plan was made, by which version and strategy, and on which hosts.
pub(super) fn describe_making<'a>(
    made: &Making,
    strategy: impl std::fmt::Display,
    hosts: impl Iterator<Item = &'a str>,
) -> String {
    let hosts: BTreeSet<&str> = hosts.collect();
    let hosts = match hosts.len() {
        0..=3 => hosts.into_iter().collect::<Vec<_>>().join(", "),
        n => format!("{n} hosts"),
    };
    let at = made.at.as_deref().unwrap_or("an unknown moment");
    let making =
        format!("made at {at} by isochron {} with strategy {strategy} on {hosts}", made.version);
    escape(&making).into_owned()
}

pub(super) fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
