//! `isochron campaign script`: a job script for Slurm.

use std::path::absolute;

use isochron_campaign::{Campaign, JobScript};

use super::options::ScriptArguments;
use crate::failure::Failure;
use crate::output::Answer;
use crate::own_program::find_own_program;

/// Prints the job script of a campaign. Its paths are absolute: jobs start in the folder in which they are submitted.
pub fn run(arguments: &ScriptArguments) -> Result<Answer, Failure> {
    let place = &arguments.place;
    let script = JobScript {
        campaign: &Campaign::read(&place.file)?,
        file: &absolute(&place.file).map_err(Failure::run)?,
        folder: &absolute(place.find_folder()).map_err(Failure::run)?,
        program: &find_own_program().map_err(Failure::run)?,
        options: &arguments.options,
    };
    Ok(Answer::text(script.format()?))
}
