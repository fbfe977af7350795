//! `isochron campaign run`: measures.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use isochron_campaign::{Campaign, Progress, describe_parameters, run as run_engine, run_nodes};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::options::RunArguments;
use super::status::format;
use crate::failure::Failure;
use crate::output::Answer;
use crate::terminal_line::TerminalLine;

/// Measures what a campaign lacks.
pub fn run(arguments: &RunArguments) -> Result<Answer, Failure> {
    let campaign = Campaign::read(&arguments.place.file)?;
    let folder = arguments.place.find_folder();
    let stop = stop_by_signals().map_err(Failure::run)?;
    let line = TerminalLine::of_rank(true);
    let mut observe = |progress: &Progress<'_>| line.show(&describe_progress(progress));
    let status = match arguments.nodes {
        Some(nodes) => run_nodes(&campaign, &folder, nodes, &stop, &mut observe),
        None => run_engine(&campaign, &folder, &stop, &mut observe),
    }?;
    line.clear();
    Answer::new(arguments.json, &status, format)
}

/// Returns a flag that signals set which ask the program to end.
fn stop_by_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Describes the repetition that begins.
fn describe_progress(progress: &Progress<'_>) -> String {
    let campaign = progress.campaign;
    let phase = match progress.round {
        Some(round) => format!(
            "round {} of {} to {}",
            round + 1,
            campaign.repeat.min,
            campaign.repeat.max
        ),
        None => "tuning".to_owned(),
    };
    format!(
        "{phase}, {} of {}: {} at {}",
        progress.number + 1,
        progress.of,
        campaign.contenders[progress.contender].name,
        describe_parameters(&campaign.points[progress.point].parameters)
    )
}
