//! `isochron campaign status`: what is done, and what is left.

use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use isochron_campaign::{CampaignStatus, State, describe_parameters};

use super::describe_time;
use super::options::StatusArguments;
use super::plan::describe_left;
use crate::failure::Failure;
use crate::output::{Answer, note};

/// Time between two looks at a campaign that is followed.
const LOOK: Duration = Duration::from_secs(1);

/// Shows the status of a campaign.
pub fn run(arguments: &StatusArguments) -> Result<Answer, Failure> {
    let folder = &arguments.folder;
    let mut status = CampaignStatus::read(&folder.dir)?;
    while arguments.follow && status.state == State::Running {
        note(&describe_course(&status));
        let told = status.repetitions;
        while status.state == State::Running && status.repetitions == told {
            thread::sleep(LOOK);
            status = CampaignStatus::read(&folder.dir)?;
        }
    }
    Answer::new(folder.json, &status, format)
}

/// Describes the course of a campaign in one line.
fn describe_course(status: &CampaignStatus) -> String {
    format!(
        "{} of {} points, {} repetitions; {}",
        status.points_ended,
        status.points,
        status.repetitions,
        describe_left(&status.left)
    )
}

/// Formats a status for people.
pub fn format(status: &CampaignStatus) -> String {
    let engines: Vec<String> = status.engines.iter().map(ToString::to_string).collect();
    let engines =
        if engines.is_empty() { String::new() } else { format!(" ({})", engines.join(", ")) };
    let mut text = format!(
        "{}: {}{engines}\n{} of {} points have ended, after {} repetitions in {}\n{}\n",
        status.name,
        status.state.describe(),
        status.points_ended,
        status.points,
        status.repetitions,
        describe_time(status.took_s),
        describe_left(&status.left)
    );
    if status.environments > 1 {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "note: measured in {} environments: the report tells how hosts, programs or variables differ",
            status.environments
        );
    }
    for failed in &status.failures {
        let given_up = if failed.is_given_up { ", given up" } else { "" };
        let _ = writeln!(
            text,
            "failed: {} at {}, {} of {} repetitions{given_up}: {}",
            failed.contender,
            describe_parameters(&failed.parameters),
            failed.failed,
            failed.of,
            failed.reason
        );
    }
    text
}
