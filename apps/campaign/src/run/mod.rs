//! The engine: measures what a campaign lacks.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::disturbance::HostState;
use crate::environment::describe_environment;
use crate::error::CampaignError;
use crate::file::Campaign;
use crate::folder::{CampaignFolder, find_part, prepare_parts};
use crate::gpus::Gpus;
use crate::history::{History, RoundTask};
use crate::process::{EndedProcess, KEPT, LOOK, ProcessEnd, end_left, run_process};
use crate::reading::{ResultRule, find_document};
use crate::record::{Repetition, SCHEMA, Status};
use crate::status::CampaignStatus;

/// Time in which a batch system that ends a job signals all of its processes.
const SIGNALS: Duration = Duration::from_millis(300);

/// The repetition that begins.
#[derive(Debug)]
pub struct CampaignProgress<'r> {
    /// The campaign.
    pub campaign: &'r Campaign,
    /// Number of the point.
    pub point: usize,
    /// Number of the contender.
    pub contender: usize,
    /// The round; `None` while values are tuned.
    pub round: Option<u32>,
    /// Number of the repetition in this round, from 0.
    pub number: usize,
    /// Repetitions of this round.
    pub of: usize,
}

/// Measures what a campaign lacks in its folder; returns its status at the end.
///
/// If its file says how many nodes points need, those of each number of nodes are a campaign of their own, in a folder within
/// `folder`, and they are measured one after the other.
///
/// `describer` is a command that calls [`describe_host`](crate::describe_host) with the folder that is added to its words, and
/// prints what it returns; the campaign's launchers start it on their hosts. If it is empty, only this host is described.
/// `observe` is called before each repetition. When `stop` is set, the repetition under way is killed and left out.
///
/// # Errors
/// Returns [`CampaignError::Stopped`] after `stop`; [`CampaignError::Held`] if another engine has the folder;
/// [`CampaignError::File`], [`CampaignError::Line`] and [`CampaignError::Write`] for files in it. In each case the
/// folder is as good as before, and the next run goes on.
pub fn run(
    campaign: &Campaign,
    folder: &Path,
    describer: &[String],
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&CampaignProgress<'_>),
) -> Result<CampaignStatus, CampaignError> {
    let parts = campaign.list_nodes();
    if parts.is_empty() {
        return run_part(campaign, folder, describer, stop, observe);
    }
    for nodes in parts {
        run_nodes(campaign, folder, nodes, describer, stop, observe)?;
    }
    CampaignStatus::read(folder)
}

/// Measures what a campaign lacks at the points that need this number of nodes; returns the status of these points. Engines
/// for several numbers of nodes may run at the same time.
///
/// # Errors
/// Returns [`CampaignError::Nodes`] if no point needs this number of nodes; [`CampaignError::Stopped`] after `stop`;
/// [`CampaignError::Held`] if another engine has the folder; [`CampaignError::File`], [`CampaignError::Line`] and
/// [`CampaignError::Write`] for files in it. In each case the folder is as good as before, and the next run goes on.
pub fn run_nodes(
    campaign: &Campaign,
    folder: &Path,
    nodes: u32,
    describer: &[String],
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&CampaignProgress<'_>),
) -> Result<CampaignStatus, CampaignError> {
    let known = campaign.list_nodes();
    if !known.contains(&nodes) {
        let reason = if known.is_empty() {
            "the file does not say how many nodes points need: add `nodes`".to_owned()
        } else {
            let known: Vec<String> = known.iter().map(u32::to_string).collect();
            let known = known.join(", ");
            format!("no point needs {nodes} nodes: known are {known}")
        };
        return Err(CampaignError::Nodes(reason));
    }
    prepare_parts(folder, campaign)?;
    let part = campaign.restrict(nodes);
    run_part(&part, &find_part(folder, nodes), describer, stop, observe)
}

/// Measures what a campaign lacks in a folder of its own.
fn run_part(
    campaign: &Campaign,
    folder: &Path,
    describer: &[String],
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&CampaignProgress<'_>),
) -> Result<CampaignStatus, CampaignError> {
    let (folder, repetitions) = CampaignFolder::open(folder, campaign)?;
    // An engine that was killed may have left a contender.
    end_left(folder.path());
    let mut engine = RunEngine {
        campaign,
        folder,
        history: History::new(campaign, repetitions),
        describer,
        environment: String::new(),
        gpus: Gpus::open(),
        stop,
    };
    let trials = campaign.cells();
    let trials = trials.flat_map(|cell| campaign.list_trials(&engine.history, cell));
    engine.run_tasks(&trials.collect::<Vec<_>>(), observe)?;
    for round in 0..campaign.repeat.max {
        let tasks = campaign.list_round(&engine.history, round);
        if tasks.is_empty() || !engine.run_tasks(&tasks, observe)? {
            break;
        }
    }
    engine.folder.check()?;
    Ok(CampaignStatus::of(campaign, &engine.history, Vec::new()))
}

struct RunEngine<'c> {
    campaign: &'c Campaign,
    folder: CampaignFolder,
    history: History,
    describer: &'c [String],
    /// Name of the environment, which is described before the first repetition.
    environment: String,
    gpus: Gpus,
    stop: &'c AtomicBool,
}

impl RunEngine<'_> {
    /// Runs what is missing of some tasks. Returns `false` if the time of the campaign is used up.
    fn run_tasks(
        &mut self,
        tasks: &[RoundTask],
        observe: &mut dyn FnMut(&CampaignProgress<'_>),
    ) -> Result<bool, CampaignError> {
        // Each task has a value before a disturbed one is repeated, for which the time may not suffice.
        for attempt in 0..=self.campaign.repeat.again {
            for (number, task) in tasks.iter().enumerate() {
                if self.history.attempts_of(task).len() as u32 > attempt
                    || !self.campaign.needs_attempt(&self.history, task)
                {
                    continue;
                }
                if self.campaign.is_budget_used(&self.history, task.cell.point) {
                    return Ok(false);
                }
                observe(&CampaignProgress {
                    campaign: self.campaign,
                    point: task.cell.point,
                    contender: task.cell.contender,
                    round: task.round,
                    number,
                    of: tasks.len(),
                });
                if self.environment.is_empty() {
                    self.environment = self.describe()?;
                }
                let repetition = self.run_once(task)?;
                self.folder.append(&repetition)?;
                self.history.add(task.cell, repetition);
            }
        }
        Ok(true)
    }

    /// Keeps a description of the environment; returns its name.
    fn describe(&self) -> Result<String, CampaignError> {
        let folder = self.folder.path();
        let facts = describe_environment(self.campaign, folder, self.describer, self.stop);
        if self.stop.load(Ordering::Relaxed) {
            // Launchers that were ended have told of no hosts.
            return Err(CampaignError::Stopped);
        }
        self.folder.keep_environment(&facts)
    }

    /// Runs a repetition.
    fn run_once(&self, task: &RoundTask) -> Result<Repetition, CampaignError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(CampaignError::Stopped);
        }
        let point = self.campaign.point_of(task.cell);
        let contender = self.campaign.contender_of(task.cell);
        let mut repetition = Repetition {
            schema: SCHEMA,
            campaign: self.campaign.name.clone(),
            point: point.id.clone(),
            parameters: point.parameters.clone(),
            contender: contender.name.clone(),
            definition: contender.definition.clone(),
            round: task.round,
            attempt: self.history.attempts_of(task).len() as u32,
            tuned: task.tuned.clone(),
            start_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            environment: self.environment.clone(),
            ..Repetition::default()
        };
        match contender.make_command(&point.parameters, &task.tuned) {
            Ok(line) => {
                let line = line.locate(self.folder.path());
                let before = HostState::read(&self.gpus);
                let limit = Duration::try_from_secs_f64(contender.limit_s).unwrap_or(Duration::MAX);
                let ended =
                    run_process(&line, &self.campaign.folder, self.folder.path(), limit, self.stop);
                let after = HostState::read(&self.gpus);
                repetition.warnings = after.list_disturbances(&before);
                if ended.unseen > 2 * LOOK {
                    let time_s = ended.unseen.as_secs_f64();
                    let warning = format!("disturbed: the engine stood still for {time_s:.1} s");
                    repetition.warnings.push(warning);
                }
                let document = contender.keep.then(|| find_document(&ended.stdout));
                note_end(&mut repetition, ended, &contender.result)?;
                if let (true, Some(document)) = (repetition.is_done(), document.flatten()) {
                    repetition.document = Some(self.folder.keep_document(&document)?);
                }
            }
            Err(reason) => repetition.reason = Some(reason),
        }
        if repetition.status == Status::Failed && self.is_stopped_soon() {
            return Err(CampaignError::Stopped);
        }
        Ok(repetition)
    }

    /// Returns `true` if the engine is, or is about to be, asked to stop: the program may have failed because its job ends.
    fn is_stopped_soon(&self) -> bool {
        if !self.stop.load(Ordering::Relaxed) {
            thread::sleep(SIGNALS);
        }
        self.stop.load(Ordering::Relaxed)
    }
}

/// Notes the end of a program and its results.
fn note_end(
    repetition: &mut Repetition,
    ended: EndedProcess,
    rule: &ResultRule,
) -> Result<(), CampaignError> {
    repetition.took_s = ended.took.as_secs_f64();
    match ended.end {
        ProcessEnd::Stopped => return Err(CampaignError::Stopped),
        ProcessEnd::NotStarted(reason) => repetition.reason = Some(reason),
        ProcessEnd::TimedOut => {
            repetition.status = Status::TimedOut;
            repetition.reason = ended.find_last_line();
        }
        ProcessEnd::Ended(status) => {
            (repetition.exit, repetition.signal) = (status.code(), status.signal());
            if !status.success() {
                repetition.reason = ended.find_last_line();
                return Ok(());
            }
            match rule.read(&ended.stdout) {
                Ok(values) => {
                    repetition.values = values;
                    repetition.status = Status::Done;
                }
                Err(reason) if ended.stdout.len() >= KEPT => {
                    let kept = KEPT / 1_000_000;
                    repetition.reason = Some(format!("{reason} in the last {kept} MB of it"));
                }
                Err(reason) => repetition.reason = Some(reason),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
