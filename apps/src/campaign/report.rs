//! `isochron campaign report`: writes what a campaign has found.

use isochron_campaign::Report;

use super::options::FolderArguments;
use crate::failure::Failure;
use crate::output::Answer;

/// Writes the report of a campaign into its folder, and prints it.
pub fn run(arguments: &FolderArguments) -> Result<Answer, Failure> {
    let report = Report::read(&arguments.dir)?;
    report.write(&arguments.dir)?;
    Answer::new(arguments.json, &report, Report::format_markdown)
}
