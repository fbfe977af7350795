//! `isochron campaign plan`: what a run would do.

use std::fmt::Write as _;

use isochron_campaign::{
    Campaign, CampaignPlan, Forecast, PlannedDisk, PlannedPart, describe_parameters,
};
use isochron_devices::memory_available_bytes;
use isochron_devices::topology::size_text;

use super::describe_time;
use super::options::FileArguments;
use crate::failure::Failure;
use crate::lines::count;
use crate::output::Answer;
use crate::table::TextTable;

/// Plans a campaign.
pub fn run(arguments: &FileArguments) -> Result<Answer, Failure> {
    let campaign = Campaign::read(&arguments.place.file)?;
    let plan =
        CampaignPlan::new(&campaign, &arguments.place.find_folder(), memory_available_bytes())?;
    Answer::new(arguments.json, &plan, format)
}

/// Formats a plan for people.
fn format(plan: &CampaignPlan) -> String {
    let mut text = String::new();
    let mut point = None;
    // Writing to a String cannot fail.
    for planned in &plan.commands {
        if point != Some(&planned.point) {
            let _ = writeln!(text, "{}", describe_parameters(&planned.parameters));
            point = Some(&planned.point);
        }
        let trials = if planned.trials > 0 {
            format!(" (the best of {})", planned.trials)
        } else {
            String::new()
        };
        let _ = writeln!(text, "  {}{trials}: {}", planned.contender, planned.command);
    }
    let repeat = &plan.repeat;
    let end = if repeat.confidence < 1.0 {
        format!(
            ", until the interval at {} % is ±{} %",
            100.0 * repeat.confidence,
            100.0 * repeat.precision
        )
    } else {
        " of exact values".to_owned()
    };
    let _ = writeln!(
        text,
        "\n{} and {}, {}{end}\n{}",
        count(plan.points as u64, "point"),
        count(plan.contenders.len() as u64, "contender"),
        describe_range(repeat.min as usize, repeat.max as usize, "round"),
        describe_left(&plan.left),
    );
    if let Some(seconds) = repeat.seconds {
        let what = if plan.parts.len() > 1 {
            "the points of each number of nodes end"
        } else {
            "the campaign ends"
        };
        let _ = writeln!(text, "{what} after {}", describe_time(seconds));
    }
    if repeat.again > 0 && plan.left.most > 0 {
        let times = count(u64::from(repeat.again), "time");
        let _ = writeln!(text, "a disturbed repetition is repeated at most {times}");
    }
    if !plan.parts.is_empty() {
        let _ = write!(text, "\n{}\n", format_parts(&plan.parts));
    }
    if let Some(bytes) = plan.memory_available_bytes {
        let _ = writeln!(text, "memory: {} free on this host", size_text(bytes));
    }
    let _ = writeln!(text, "disk: {}", describe_disk(&plan.disk));
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// Describes what is left of a campaign.
pub fn describe_left(left: &Forecast) -> String {
    if left.most == 0 {
        return "nothing is left".to_owned();
    }
    let repetitions = describe_range(left.least, left.most, "repetition");
    let are = if left.most == 1 { "is" } else { "are" };
    format!("{repetitions} {are} left, {}", describe_duration(left))
}

/// Describes the time that repetitions take, and what tells it.
fn describe_duration(left: &Forecast) -> String {
    let most = describe_time(left.most_s);
    match left.least_s.map(describe_time) {
        Some(least) if least == most => format!("{most} by those so far"),
        Some(least) => format!("{least} to {most} by those so far"),
        None => {
            format!("at most {most} by limits: some contender has not run yet")
        }
    }
}

/// Formats a table of the points by the number of nodes that they need, and their sum.
fn format_parts(parts: &[PlannedPart]) -> String {
    let mut table = TextTable::new(0, "nodes|points|repetitions|node-hours");
    for part in parts {
        table.add_row([
            part.nodes.to_string(),
            part.points.to_string(),
            show_range(part.left.least, part.left.most),
            show_node_hours(part.least_node_hours, part.most_node_hours),
        ]);
    }
    table.add_row([
        "all".to_owned(),
        parts.iter().map(|part| part.points).sum::<usize>().to_string(),
        show_range(
            parts.iter().map(|part| part.left.least).sum(),
            parts.iter().map(|part| part.left.most).sum(),
        ),
        show_node_hours(
            parts.iter().map(|part| part.least_node_hours).sum(),
            parts.iter().map(|part| part.most_node_hours).sum(),
        ),
    ]);
    table.to_string()
}

/// Shows node-hours: only the most if a contender has not run yet.
fn show_node_hours(least: Option<f64>, most: f64) -> String {
    match least {
        Some(least) => format!("{least:.1} to {most:.1}"),
        None => format!("at most {most:.1}"),
    }
}

/// Describes the disk that a folder takes.
fn describe_disk(disk: &PlannedDisk) -> String {
    let mut text = format!(
        "{} taken, about {} more",
        size_text(disk.present_bytes),
        size_text(disk.more_bytes)
    );
    if disk.lacks_documents {
        text += " and the documents, whose size is known after the first ones";
    }
    if let Some(bytes) = disk.free_bytes {
        text += &format!("; {} free", size_text(bytes));
    }
    text
}

/// Writes a range of numbers with their noun.
fn describe_range(least: usize, most: usize, noun: &str) -> String {
    let most_of = count(most as u64, noun);
    if least == most { most_of } else { format!("{least} to {most_of}") }
}

/// Shows a range of numbers.
fn show_range(least: usize, most: usize) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}
