//! `isochron campaign run`: measures.

use std::env::args_os;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use isochron_campaign::{
    Campaign, CampaignProgress, describe_host, describe_parameters, run as run_engine, run_nodes,
};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};

use super::options::RunArguments;
use super::status::format;
use crate::failure::Failure;
use crate::output::Answer;
use crate::own_program::find_own_program;
use crate::terminal_line::TerminalLine;

/// The first word of the command line by which an engine has launchers describe their hosts.
const DESCRIBE: &str = "describe-host";

/// Measures what a campaign lacks.
pub fn run(arguments: &RunArguments) -> Result<Answer, Failure> {
    let campaign = Campaign::read(&arguments.place.file)?;
    let folder = arguments.place.find_folder();
    let stop = stop_by_signals().map_err(Failure::run)?;
    let line = TerminalLine::of_rank(true);
    let mut observe = |progress: &CampaignProgress<'_>| line.show(&describe_progress(progress));
    let describer = name_describer().unwrap_or_default();
    let status = match arguments.nodes {
        Some(nodes) => run_nodes(&campaign, &folder, nodes, &describer, &stop, &mut observe),
        None => run_engine(&campaign, &folder, &describer, &stop, &mut observe),
    }?;
    line.clear();
    let has_failed = status.failures.iter().any(|failed| failed.is_given_up);
    Ok(Answer::new(arguments.json, &status, format)?.checked(arguments.check && has_failed))
}

/// Returns the words by which launchers start this program to describe their hosts.
fn name_describer() -> Option<Vec<String>> {
    let program = find_own_program().ok()?.into_os_string().into_string().ok()?;
    Some(vec![program, DESCRIBE.to_owned()])
}

/// Describes this host if this process was started to do so; returns its exit status then.
pub fn describe_if_asked() -> Option<u8> {
    let words: Vec<OsString> = args_os().skip(1).collect();
    let [first, folder] = &words[..] else {
        return None;
    };
    let line = (first == DESCRIBE).then(|| describe_host(Path::new(folder)))?;
    Some(u8::from(writeln!(io::stdout(), "{line}").is_err()))
}

/// Returns a flag that signals set which would end the program, and leave its contender: those of a user, of a terminal that
/// closes, of a batch system and of limits. A signal that is ignored, as under `nohup`, stays ignored.
fn stop_by_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    for signal in [
        SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGXCPU, SIGVTALRM, SIGPROF,
        SIGIO,
    ] {
        if ignored & 1 << (signal - 1) == 0 {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
    }
    Ok(stop)
}

/// Describes the repetition that begins.
fn describe_progress(progress: &CampaignProgress<'_>) -> String {
    let campaign = progress.campaign;
    let phase = match progress.round {
        Some(round) => {
            format!("round {} of {} to {}", round + 1, campaign.repeat.min, campaign.repeat.max)
        }
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
