//! The plan of a campaign: what a run would do.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, absolute};
use std::sync::LazyLock;

use regex::Regex;
use rustix::fs::statvfs;
use serde::Serialize;

use crate::error::CampaignError;
use crate::file::{Campaign, Repeat};
use crate::folder::{count_bytes, read_begun};
use crate::history::History;
use crate::point::Parameters;
use crate::statistics::least_values;
use crate::status::Forecast;

/// Bytes of a line of `points.jsonl`, about, before there is any.
const LINE_BYTES: f64 = 500.0;

/// What a run of a campaign would do.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CampaignPlan {
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = 1)))]
    pub schema: u32,
    /// Name of the campaign.
    pub name: String,
    /// Number of points.
    pub points: usize,
    /// Names of the contenders.
    pub contenders: Vec<String>,
    /// The number of rounds.
    pub repeat: Repeat,
    /// The repetitions that are left, and their time by those in the folder.
    pub left: Forecast,
    /// The same by the number of nodes that points need; empty if the file does not say it.
    pub parts: Vec<PlannedPart>,
    /// Bytes of memory that a program can still allocate on this host; `None` if the system does not tell.
    pub memory_available_bytes: Option<u64>,
    /// The disk that the folder takes.
    pub disk: PlannedDisk,
    /// The command of each contender at each point.
    pub commands: Vec<PlannedCommand>,
    /// What may be a mistake.
    pub notes: Vec<String>,
}

/// The points of a campaign that need one number of nodes.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlannedPart {
    /// The number of nodes.
    pub nodes: u32,
    /// Number of points.
    pub points: usize,
    /// The repetitions that are left.
    pub left: Forecast,
    /// Node-hours of the fewest repetitions; `None` if a contender has not run yet.
    pub least_node_hours: Option<f64>,
    /// Node-hours of the most repetitions. A contender that has not run yet takes as long as its limit.
    pub most_node_hours: f64,
}

/// The disk that a campaign's folder takes.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlannedDisk {
    /// Bytes of the files that are there.
    pub present_bytes: u64,
    /// Bytes that the most repetitions add, by the lines and documents so far.
    pub more_bytes: u64,
    /// `true` if documents will be kept that are not counted, because none is there yet.
    pub lacks_documents: bool,
    /// Free bytes of the file system; `None` if the system does not tell.
    pub free_bytes: Option<u64>,
}

/// A command of a contender at a point.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlannedCommand {
    /// Name of the point.
    pub point: String,
    /// Parameters of the point.
    pub parameters: Parameters,
    /// Name of the contender.
    pub contender: String,
    /// Combinations of tuned values that are tried first.
    pub trials: usize,
    /// The command line, with the first of the tuned values.
    pub command: String,
}

impl CampaignPlan {
    /// Plans a campaign whose folder is, or will be, `folder`, on a host with this memory available.
    ///
    /// # Errors
    /// Returns [`CampaignError::File`] and [`CampaignError::Line`] for a folder in which it cannot run.
    pub fn new(
        campaign: &Campaign,
        folder: &Path,
        memory_available_bytes: Option<u64>,
    ) -> Result<Self, CampaignError> {
        let history = History::new(campaign, read_begun(folder, campaign)?);
        let left = Forecast::of(campaign, &history);
        let mut points: BTreeMap<u32, usize> = BTreeMap::new();
        for nodes in campaign.points.iter().filter_map(|point| point.nodes) {
            *points.entry(nodes).or_default() += 1;
        }
        let parts = Forecast::by_nodes(campaign, &history).into_iter();
        let commands: Vec<PlannedCommand> = campaign
            .cells()
            .map(|cell| {
                let (point, contender) = (campaign.point_of(cell), campaign.contender_of(cell));
                let command = campaign.first_command(cell).map(|line| line.describe());
                PlannedCommand {
                    point: point.id.clone(),
                    parameters: point.parameters.clone(),
                    contender: contender.name.clone(),
                    trials: if contender.tune.is_empty() {
                        0
                    } else {
                        campaign.list_tunings(cell).len()
                    },
                    command: command.unwrap_or_default(),
                }
            })
            .collect();
        Ok(Self {
            schema: 1,
            name: campaign.name.clone(),
            points: campaign.points.len(),
            contenders: campaign
                .contenders
                .iter()
                .map(|contender| contender.name.clone())
                .collect(),
            repeat: campaign.repeat,
            left,
            parts: parts
                .filter_map(|(nodes, left)| Some((nodes?, left)))
                .map(|(nodes, left)| PlannedPart::new(nodes, points[&nodes], left))
                .collect(),
            memory_available_bytes,
            disk: PlannedDisk::new(campaign, &history, left.most, folder),
            commands,
            notes: list_notes(campaign),
        })
    }
}

impl PlannedPart {
    fn new(nodes: u32, points: usize, left: Forecast) -> Self {
        let node_hours = |time_s: f64| f64::from(nodes) * time_s / 3600.0;
        Self {
            nodes,
            points,
            left,
            least_node_hours: left.least_s.map(node_hours),
            most_node_hours: node_hours(left.most_s),
        }
    }
}

impl PlannedDisk {
    fn new(campaign: &Campaign, history: &History, most_left: usize, folder: &Path) -> Self {
        let [present_bytes, kept_bytes] = count_bytes(folder);
        let each_bytes =
            if history.len() > 0 { kept_bytes as f64 / history.len() as f64 } else { LINE_BYTES };
        let mut contenders = campaign.contenders.iter();
        Self {
            present_bytes,
            more_bytes: (each_bytes * most_left as f64) as u64,
            lacks_documents: history.len() == 0 && contenders.any(|contender| contender.keep),
            free_bytes: find_free_bytes(folder),
        }
    }
}

/// Returns the bytes that are free for a folder that may not be there yet.
fn find_free_bytes(folder: &Path) -> Option<u64> {
    let folder = absolute(folder).ok()?;
    let present = folder.ancestors().find(|folder| folder.exists())?;
    let system = statvfs(present).ok()?;
    Some(system.f_bavail * system.f_frsize)
}

/// Lists what may be a mistake.
fn list_notes(campaign: &Campaign) -> Vec<String> {
    let mut notes = Vec::new();
    let least = least_values(campaign.repeat.confidence);
    let percent = 100.0 * campaign.repeat.confidence;
    if !campaign.repeat.exact && (campaign.repeat.max as usize) < least {
        notes.push(format!(
            "a median has an interval of {percent} % from {least} rounds on: with at most {} there is none",
            campaign.repeat.max
        ));
    }
    let (mut programs, mut words) = (BTreeSet::new(), BTreeSet::new());
    let lines = campaign.cells().filter_map(|cell| campaign.first_command(cell));
    for line in lines {
        words.extend(find_shell_word(&line.text));
        // The program behind a launcher, too.
        programs.extend([0, line.launcher].map(|place| line.words.get(place).cloned()));
    }
    let programs = programs.into_iter().flatten();
    let missing = programs.filter(|program| !is_program(program, &campaign.folder));
    if let Some(names) = name_first(missing) {
        notes.push(format!("there is no program {names} on this host"));
    }
    if let Some(names) = name_first(words.into_iter()) {
        let advice = "write `sh -c '...'`, or quotation marks around it";
        notes.push(format!("no shell runs commands, and one has {names}: {advice}"));
    }
    notes
}

/// Names the first of some texts, with the number of the others; `None` without one.
fn name_first(mut texts: impl Iterator<Item = String>) -> Option<String> {
    let first = texts.next()?;
    Some(match texts.count() {
        0 => format!("`{first}`"),
        others => format!("`{first}` (and {others} like it)"),
    })
}

/// Returns a word of a command, outside of quotation marks, that a shell would not hand on as it is.
fn find_shell_word(text: &str) -> Option<String> {
    static EXPRESSIONS: LazyLock<Option<[Regex; 2]>> = LazyLock::new(|| {
        let quoted = Regex::new(r#"'[^']*'|"(?:[^"\\]|\\.)*"|\\."#).ok()?;
        Some([quoted, Regex::new(r"\S*[|<>&;*$`]\S*|(?:^|\s)[#~]\S*").ok()?])
    });
    let [quoted, words] = EXPRESSIONS.as_ref()?;
    let text = quoted.replace_all(text, "x");
    words.find(&text).map(|word| word.as_str().trim().to_owned())
}

fn is_program(name: &str, folder: &Path) -> bool {
    if name.contains('/') {
        return folder.join(name).is_file();
    }
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

#[cfg(test)]
mod tests;
