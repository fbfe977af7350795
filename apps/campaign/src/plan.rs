//! The plan of a campaign: what a run would do.

use std::env;
use std::path::Path;

use serde::Serialize;

use crate::error::CampaignError;
use crate::file::{Campaign, Repeat};
use crate::folder::{FILE, read_folder};
use crate::history::History;
use crate::point::Parameters;
use crate::statistics::least_values;
use crate::status::Forecast;

/// Bytes of a line of `points.jsonl` besides the parameters and results.
const LINE_BYTES: usize = 400;

/// What a run of a campaign would do.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Version of the document.
    pub schema: u32,
    /// Name of the campaign.
    pub name: String,
    /// Number of points.
    pub points: usize,
    /// Names of the contenders.
    pub contenders: Vec<String>,
    /// The number of rounds.
    pub repeat: PlannedRounds,
    /// The repetitions that are left, and their time by those in the folder.
    pub left: Forecast,
    /// Bytes of `points.jsonl` after the most repetitions.
    pub disk_bytes: usize,
    /// The command of each contender at each point.
    pub commands: Vec<PlannedCommand>,
    /// What may be a mistake.
    pub notes: Vec<String>,
}

/// The number of rounds of a campaign.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PlannedRounds {
    /// Fewest rounds.
    pub min: u32,
    /// Most rounds.
    pub max: u32,
    /// Half-width of the interval over the median at which a point ends.
    pub precision: f64,
    /// Confidence of the interval.
    pub confidence: f64,
    /// Seconds of all repetitions together; `None` without a limit.
    pub seconds: Option<f64>,
}

/// A command of a contender at a point.
#[derive(Debug, Clone, Serialize)]
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

impl From<Repeat> for PlannedRounds {
    fn from(repeat: Repeat) -> Self {
        Self {
            min: repeat.min,
            max: repeat.max,
            precision: repeat.precision,
            confidence: repeat.confidence,
            seconds: repeat.seconds.is_finite().then_some(repeat.seconds),
        }
    }
}

impl Plan {
    /// Plans a campaign whose folder is, or will be, `folder`.
    ///
    /// # Errors
    /// [`CampaignError::File`] and [`CampaignError::Line`] for a folder that is there and cannot be read.
    pub fn new(campaign: &Campaign, folder: &Path) -> Result<Self, CampaignError> {
        let is_begun = folder.join(FILE).exists();
        let repetitions = if is_begun {
            read_folder(folder)?.repetitions
        } else {
            Vec::new()
        };
        let left = Forecast::of(campaign, &History::new(campaign, repetitions));
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
        let cells = commands.len();
        let bytes: usize = commands
            .iter()
            .map(|command| LINE_BYTES + command.command.len())
            .sum();
        Ok(Self {
            schema: 1,
            name: campaign.name.clone(),
            points: campaign.points.len(),
            contenders: campaign
                .contenders
                .iter()
                .map(|contender| contender.name.clone())
                .collect(),
            repeat: campaign.repeat.into(),
            left,
            disk_bytes: bytes / cells.max(1) * left.most,
            commands,
            notes: list_notes(campaign),
        })
    }
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
    let mut missing = Vec::new();
    let lines = campaign
        .cells()
        .filter_map(|cell| campaign.first_command(cell));
    for program in lines.filter_map(|line| line.words.into_iter().next()) {
        if !is_program(&program, &campaign.folder) && !missing.contains(&program) {
            missing.push(program);
        }
    }
    notes.extend(
        missing
            .into_iter()
            .map(|program| format!("there is no program `{program}` on this host")),
    );
    notes
}

fn is_program(name: &str, folder: &Path) -> bool {
    if name.contains('/') {
        return folder.join(name).is_file();
    }
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}
