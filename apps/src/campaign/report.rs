//! `isochron campaign report`: writes what a campaign has found.

use isochron_campaign::{CampaignReport, GoalOutcome};
use isochron_hierarchy::printable::show_path;

use super::options::ReportArguments;
use crate::failure::Failure;
use crate::output::{Answer, note};

/// Writes the report of a campaign into its folder, and prints it.
pub fn run(arguments: &ReportArguments) -> Result<Answer, Failure> {
    let folder = &arguments.folder;
    let report = CampaignReport::read(&folder.dir)?;
    match report.write(&folder.dir) {
        Ok(()) => note(&format!("to look at: {}", show_path(&folder.dir.join("report.html")))),
        // A folder of others can be read all the same.
        Err(error) if folder.json => note(&error.to_string()),
        Err(error) => return Err(error.into()),
    }
    let is_missed = report.goals.iter().any(|goal| goal.outcome == GoalOutcome::Missed);
    Ok(Answer::new(folder.json, &report, CampaignReport::format_markdown)?
        .checked(arguments.check && is_missed))
}
