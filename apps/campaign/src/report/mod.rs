//! The report of a campaign.

mod csv;
mod html;
mod markdown;
mod runs;

pub use markdown::format_number;
use runs::{Runs, read_documents};

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::error::CampaignError;
use crate::expression::Expression;
use crate::file::{Better, Campaign, CampaignGoal};
use crate::files::replace_file;
use crate::folder::read_folder;
use crate::history::{Cell, History};
use crate::point::Parameters;
use crate::record::{Repetition, Status};
use crate::schedule::PointEnd;
use crate::statistics::MedianInterval;
use crate::status::{CampaignStatus, Failed, State};

/// What a campaign has found.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CampaignReport {
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = 1)))]
    pub schema: u32,
    /// Name of the campaign.
    pub name: String,
    /// Text for readers, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// State of the campaign.
    pub state: State,
    /// Confidence of the intervals; 1 of exact values.
    pub confidence: f64,
    /// Names of the parameters.
    pub parameters: Vec<String>,
    /// Contender below the line of the ratios; `None` if there is only one.
    pub reference: Option<String>,
    /// Names of the values that are computed from results.
    pub values: Vec<String>,
    /// A row for each contender at each point.
    pub rows: Vec<ReportRow>,
    /// A row for each goal at each point.
    pub goals: Vec<GoalRow>,
    /// Contenders that have failed.
    pub failures: Vec<Failed>,
    /// Descriptions of the environments by their names.
    pub environments: BTreeMap<String, Value>,
    /// Repetitions, for charts.
    #[serde(skip)]
    repetitions: Vec<ChartedRepetition>,
    /// Runs that contenders have described.
    #[serde(skip)]
    runs: Runs,
}

/// A contender at a point.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ReportRow {
    /// Name of the point.
    pub point: String,
    /// Parameters of the point.
    pub parameters: Parameters,
    /// Name of the contender.
    pub contender: String,
    /// The command line.
    pub command: String,
    /// Values that tuning chose.
    #[serde(skip_serializing_if = "Parameters::is_empty")]
    pub tuned: Parameters,
    /// The value by which contenders are compared, as the file has it.
    pub value_of: String,
    /// The direction in which it is better.
    pub better: Better,
    /// Median of the value; `None` if no repetition succeeded.
    pub value: Option<MedianInterval>,
    /// The ratio to the reference within a round.
    pub ratio: Option<MedianInterval>,
    /// The verdict of this ratio; `None` without one.
    pub standing: Option<ContenderStanding>,
    /// Medians of all results and computed values.
    pub results: BTreeMap<String, MedianInterval>,
    /// Repetitions that count and were disturbed.
    pub disturbed: usize,
    /// Failed repetitions.
    pub failed: usize,
    /// Reason why the point is measured no more; `None` while it is.
    pub end: Option<PointEnd>,
    /// The document of the repetition with the middle value; `None` if none is kept.
    #[serde(skip)]
    pub document: Option<Value>,
}

/// The place of a contender beside the reference, at one point and by its interval alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ContenderStanding {
    /// The whole interval is on the better side of 1.
    Better,
    /// The whole interval is on the worse side of 1.
    Worse,
    /// The interval holds 1 or is missing.
    Unclear,
}

/// A repetition as charts show it.
#[derive(Debug, Clone)]
struct ChartedRepetition {
    /// Number of its row.
    row: usize,
    /// The round; `None` for a trial of tuning.
    round: Option<u32>,
    start_s: f64,
    took_s: f64,
    value: Option<f64>,
    mark: PointMark,
    /// Reasons of a failure, or disturbances.
    note: String,
    /// Name of its environment.
    environment: String,
}

/// The mark of a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PointMark {
    Counted,
    /// It counts although it was disturbed.
    CountedDisturbed,
    /// It was disturbed, and repeated.
    Replaced,
    Failed,
    TimedOut,
}

/// A goal at a point.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct GoalRow {
    /// Parameters of the point.
    pub parameters: Parameters,
    /// The goal with its bound.
    pub goal: String,
    /// The figure within a round; `None` without a round in which all of it succeeded.
    pub ratio: Option<MedianInterval>,
    /// The outcome.
    pub outcome: GoalOutcome,
    /// `true` if the median meets the goal; `None` without one.
    pub meets_by_median: Option<bool>,
}

/// The outcome of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GoalOutcome {
    /// The whole interval meets the goal.
    Met,
    /// The whole interval misses the goal.
    Missed,
    /// The interval holds the bound or is missing.
    Unclear,
}

impl CampaignReport {
    /// Makes the report of the campaign in a folder.
    ///
    /// # Errors
    /// Returns [`CampaignError::File`] if it is no folder of a campaign, [`CampaignError::Line`] if a file in it is
    /// damaged.
    pub fn read(folder: &Path) -> Result<Self, CampaignError> {
        let content = read_folder(folder)?;
        let names = content.repetitions.iter().map(|repetition| repetition.environment.clone());
        let environments = content.read_environments(names.collect())?;
        let campaign = content.campaign;
        let history = History::new(&campaign, content.repetitions);
        let mut rows = Vec::new();
        let mut runs = Runs::default();
        for (number, cell) in campaign.cells().enumerate() {
            let documents = read_documents(&content.folders, &campaign, &history, cell)?;
            runs.add_row(campaign.repeat.confidence, number, &documents);
            let middle = documents.get(documents.len() / 2);
            let document = middle.map(|(_, document)| document.clone());
            rows.push(ReportRow::new(&campaign, &history, cell, document));
        }
        let status = CampaignStatus::of(&campaign, &history, content.holders);
        let mut goals = Vec::new();
        for point in 0..campaign.points.len() {
            let here = campaign.goals_at(point);
            goals.extend(here.map(|goal| GoalRow::new(&campaign, &history, point, goal)));
        }
        // All points have the same names.
        let parameters = campaign.points.first().map(|point| &point.parameters);
        let has_reference = campaign.contenders.len() > 1;
        Ok(Self {
            schema: 1,
            name: campaign.name.clone(),
            about: campaign.about.clone(),
            values: campaign.values.clone(),
            state: status.state,
            confidence: campaign.repeat.confidence,
            parameters: parameters.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
            reference: has_reference.then(|| campaign.contenders[0].name.clone()),
            rows,
            goals,
            failures: status.failures,
            environments,
            repetitions: campaign
                .cells()
                .enumerate()
                .flat_map(|(row, cell)| ChartedRepetition::list(&campaign, &history, cell, row))
                .collect(),
            runs,
        })
    }

    /// Returns the number of points and goals with an outcome.
    fn count_goals(&self, outcome: GoalOutcome) -> usize {
        let goals = self.goals.iter();
        goals.filter(|row| row.outcome == outcome).count()
    }

    /// Writes `report.md`, `points.csv` and `report.html` into a folder.
    ///
    /// # Errors
    /// Returns [`CampaignError::File`] for one that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), CampaignError> {
        let page = self.format_html();
        let path = folder.join("report.html");
        let page = page.map_err(|error| CampaignError::file(&path, error))?;
        for (name, text) in [
            ("report.md", self.format_markdown()),
            ("points.csv", self.format_csv()),
            ("report.html", page),
        ] {
            let path = folder.join(name);
            replace_file(&path, text.as_bytes()).map_err(|error| match error {
                // Repetitions are not concerned.
                CampaignError::Write { reason, .. } => CampaignError::file(
                    &path,
                    format!("cannot be written: {reason}; a copy of the folder will do as well"),
                ),
                other => other,
            })?;
        }
        Ok(())
    }
}

impl ReportRow {
    fn new(campaign: &Campaign, history: &History, cell: Cell, document: Option<Value>) -> Self {
        let (point, contender) = (campaign.point_of(cell), campaign.contender_of(cell));
        let rounds = history.rounds_of(cell);
        let counted = history.list_counted(cell, rounds);
        let done: Vec<_> = counted
            .map(|(_, repetition)| repetition)
            .filter(|repetition| repetition.is_done())
            .collect();
        let tuned = history.find_best(campaign, cell).unwrap_or_default();
        let mut results: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (name, value) in done.iter().flat_map(|repetition| contender.list_values(repetition)) {
            results.entry(name).or_default().push(value);
        }
        let ratio = campaign.find_ratio(history, cell, rounds);
        let command = contender.make_command(&point.parameters, &tuned).map(|line| line.describe());
        Self {
            point: point.id.clone(),
            parameters: point.parameters.clone(),
            contender: contender.name.clone(),
            command: command.unwrap_or_default(),
            tuned,
            value_of: contender.value.source().to_owned(),
            value: campaign.find_value(history, cell, rounds),
            better: contender.better,
            standing: ratio.map(|ratio| contender.better.judge(&ratio)),
            ratio,
            results: results
                .into_iter()
                .filter_map(|(name, values)| {
                    let median = MedianInterval::of(values, campaign.repeat.confidence)?;
                    Some((name, median))
                })
                .collect(),
            disturbed: done.iter().filter(|repetition| repetition.is_disturbed()).count(),
            failed: history.of_cell(cell).filter(|repetition| !repetition.is_done()).count(),
            end: campaign.find_last_end(history, cell.point).map(|end| match end {
                // Of another contender.
                PointEnd::NotMeasured if rounds > 0 => PointEnd::Budget,
                end => end,
            }),
            document,
        }
    }
}

impl Better {
    /// Judges a ratio to the reference.
    fn judge(self, ratio: &MedianInterval) -> ContenderStanding {
        let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
            return ContenderStanding::Unclear;
        };
        match self {
            Self::Less if high < 1.0 => ContenderStanding::Better,
            Self::More if low > 1.0 => ContenderStanding::Better,
            Self::Less if low > 1.0 => ContenderStanding::Worse,
            Self::More if high < 1.0 => ContenderStanding::Worse,
            _ => ContenderStanding::Unclear,
        }
    }
}

impl ChartedRepetition {
    fn list(
        campaign: &Campaign,
        history: &History,
        cell: Cell,
        row: usize,
    ) -> impl Iterator<Item = Self> {
        history.of_cell(cell).map(move |repetition| {
            let counts = |round| {
                let counted = history.counted(cell, round);
                counted.is_some_and(|counted| counted.attempt == repetition.attempt)
            };
            let value = campaign.contender_of(cell).find_value(repetition);
            Self {
                row,
                round: repetition.round,
                start_s: repetition.start_s,
                took_s: repetition.took_s,
                value,
                mark: PointMark::of(repetition, repetition.round.is_none_or(counts)),
                note: if repetition.is_done() {
                    repetition.warnings.join("; ")
                } else {
                    repetition.describe_failure()
                },
                environment: repetition.environment.clone(),
            }
        })
    }
}

impl PointMark {
    fn of(repetition: &Repetition, counts: bool) -> Self {
        match repetition.status {
            Status::Failed => Self::Failed,
            Status::TimedOut => Self::TimedOut,
            Status::Done if !repetition.is_disturbed() => Self::Counted,
            Status::Done if counts => Self::CountedDisturbed,
            Status::Done => Self::Replaced,
        }
    }
}

impl GoalRow {
    fn new(campaign: &Campaign, history: &History, point: usize, goal: &CampaignGoal) -> Self {
        let cells = campaign.cells_at(point);
        let rounds = cells.map(|cell| history.rounds_of(cell)).max();
        let ratio = campaign.find_figure(history, point, goal, rounds.unwrap_or(0));
        Self {
            parameters: campaign.points[point].parameters.clone(),
            goal: goal.describe(),
            outcome: ratio.map_or(GoalOutcome::Unclear, |ratio| goal.judge(&ratio)),
            meets_by_median: ratio.map(|ratio| goal.is_met_by(ratio.median)),
            ratio,
        }
    }
}

impl CampaignGoal {
    fn describe(&self) -> String {
        let quote = |side: &Expression| {
            let source = side.source();
            if source.contains(' ') { format!("({source})") } else { source.to_owned() }
        };
        let mut text = match (&self.name, &self.below) {
            (Some(name), _) => name.clone(),
            (None, Some(below)) => format!("{} / {}", quote(&self.above), quote(below)),
            (None, None) => self.above.source().to_owned(),
        };
        if let Some(bound) = self.at_least {
            text += &format!(" at least {bound}");
        }
        if let Some(bound) = self.at_most {
            text += &format!(" at most {bound}");
        }
        text
    }

    fn is_met_by(&self, figure: f64) -> bool {
        self.at_least.is_none_or(|least| figure >= least)
            && self.at_most.is_none_or(|most| figure <= most)
    }

    fn judge(&self, ratio: &MedianInterval) -> GoalOutcome {
        let (Some(low), Some(high)) = (ratio.low, ratio.high) else {
            return GoalOutcome::Unclear;
        };
        if self.is_met_by(low) && self.is_met_by(high) {
            GoalOutcome::Met
        } else if self.at_least.is_some_and(|least| high < least)
            || self.at_most.is_some_and(|most| low > most)
        {
            GoalOutcome::Missed
        } else {
            GoalOutcome::Unclear
        }
    }
}
