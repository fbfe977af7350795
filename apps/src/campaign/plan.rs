//! `isochron campaign plan`: what a run would do.

use std::fmt::Write as _;

use isochron_campaign::{Campaign, Forecast, Plan, describe_parameters};

use super::describe_time;
use super::options::FileArguments;
use crate::failure::Failure;
use crate::lines::count;
use crate::output::Answer;

/// Plans a campaign.
pub fn run(arguments: &FileArguments) -> Result<Answer, Failure> {
    let campaign = Campaign::read(&arguments.place.file)?;
    let plan = Plan::new(&campaign, &arguments.place.find_folder())?;
    Answer::new(arguments.json, &plan, format)
}

/// Formats a plan for people.
fn format(plan: &Plan) -> String {
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
        let _ = writeln!(text, "the campaign ends after {}", describe_time(seconds));
    }
    let _ = writeln!(
        text,
        "at most {:.0} kB on disk",
        plan.disk_bytes as f64 / 1e3
    );
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
    let time = match (left.least_s, left.most_s) {
        (Some(least_s), Some(most_s)) => {
            format!("{} to {}", describe_time(least_s), describe_time(most_s))
        }
        _ => "for a time that is known after a round".to_owned(),
    };
    format!(
        "{} to {} repetitions are left, {time}",
        left.least, left.most
    )
}

/// Writes a range of numbers with their noun.
fn describe_range(least: usize, most: usize, noun: &str) -> String {
    let most_of = count(most as u64, noun);
    if least == most {
        most_of
    } else {
        format!("{least} to {most_of}")
    }
}
