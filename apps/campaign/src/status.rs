//! The status of a campaign: what is done, what is left.

use std::path::Path;

use serde::Serialize;

use crate::error::CampaignError;
use crate::file::Campaign;
use crate::folder::{Holder, read_folder};
use crate::history::{Cell, History};
use crate::point::Parameters;
use crate::schedule::PointEnd;
use crate::statistics::find_median;

/// The status of a campaign.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CampaignStatus {
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = 1)))]
    pub schema: u32,
    /// Name of the campaign.
    pub name: String,
    /// The state.
    pub state: State,
    /// The engines that run it: one, or one for each number of nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<Holder>,
    /// Number of points.
    pub points: usize,
    /// Points that have ended.
    pub points_ended: usize,
    /// Repetitions that are recorded, trials of tuning included.
    pub repetitions: usize,
    /// Seconds of these repetitions.
    pub took_s: f64,
    /// What is left.
    pub left: Forecast,
    /// Contenders that have failed, with the points.
    pub failures: Vec<Failed>,
}

/// The state of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// An engine runs it.
    Running,
    /// Something is left, and no engine runs.
    Open,
    /// All points have ended.
    Ended,
    /// The time of the campaign is used up.
    Budget,
}

/// The repetitions that are left, and their time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Forecast {
    /// Fewest repetitions.
    pub least: usize,
    /// Most repetitions, without those that repeat disturbed ones.
    pub most: usize,
    /// Seconds of the fewest, by what repetitions took so far; `None` if a contender has not run yet.
    pub least_s: Option<f64>,
    /// Seconds of the most, but not beyond the time of the campaign. A contender that has not run yet takes as long as its limit.
    pub most_s: f64,
}

/// A contender that has failed at a point.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Failed {
    /// Parameters of the point.
    pub parameters: Parameters,
    /// Name of the contender.
    pub contender: String,
    /// Number of failed repetitions.
    pub failed: usize,
    /// Number of all repetitions.
    pub of: usize,
    /// The last failure.
    pub reason: String,
    /// `true` if the contender is not run again at this point.
    pub is_given_up: bool,
}

impl CampaignStatus {
    /// Reads the status of the campaign in a folder, which an engine may be running in meanwhile.
    ///
    /// # Errors
    /// [`CampaignError::File`] if it is no folder of a campaign, [`CampaignError::Line`] if a file in it is damaged.
    pub fn read(folder: &Path) -> Result<Self, CampaignError> {
        let content = read_folder(folder)?;
        let history = History::new(&content.campaign, content.repetitions);
        Ok(Self::of(&content.campaign, &history, content.holders))
    }

    pub(crate) fn of(campaign: &Campaign, history: &History, engines: Vec<Holder>) -> Self {
        let left = Forecast::of(campaign, history);
        let points_ended = (0..campaign.points.len())
            .filter(|&point| campaign.find_last_end(history, point).is_some())
            .count();
        let state = if !engines.is_empty() {
            State::Running
        } else if left.most == 0 {
            State::Ended
        } else if points_ended == campaign.points.len() {
            State::Budget
        } else {
            State::Open
        };
        Self {
            schema: 1,
            name: campaign.name.clone(),
            state,
            engines,
            points: campaign.points.len(),
            points_ended,
            repetitions: history.len(),
            took_s: history.took_s(|_| true),
            left,
            failures: campaign
                .cells()
                .filter_map(|cell| Failed::find(campaign, history, cell))
                .collect(),
        }
    }
}

impl Failed {
    fn find(campaign: &Campaign, history: &History, cell: Cell) -> Option<Self> {
        let failures: Vec<_> = history
            .of_cell(cell)
            .filter(|repetition| !repetition.is_done())
            .collect();
        let last = failures.last()?;
        Some(Self {
            parameters: campaign.point_of(cell).parameters.clone(),
            contender: campaign.contender_of(cell).name.clone(),
            failed: failures.len(),
            of: history.of_cell(cell).count(),
            reason: last.describe_failure(),
            is_given_up: campaign.is_given_up(history, cell, history.rounds_of(cell)),
        })
    }
}

/// The repetitions of a contender at a point that are left.
struct Left {
    cell: Cell,
    least: u32,
    most: u32,
}

impl Forecast {
    pub(crate) fn of(campaign: &Campaign, history: &History) -> Self {
        let parts = campaign.list_nodes();
        if parts.is_empty() {
            return Self::of_nodes(campaign, history, None);
        }
        let parts: Vec<Self> = parts
            .into_iter()
            .map(|nodes| Self::of_nodes(campaign, history, Some(nodes)))
            .collect();
        Self {
            least: parts.iter().map(|part| part.least).sum(),
            most: parts.iter().map(|part| part.most).sum(),
            least_s: parts.iter().map(|part| part.least_s).sum(),
            most_s: parts.iter().map(|part| part.most_s).sum(),
        }
    }

    /// Forecasts the points that need this number of nodes.
    pub(crate) fn of_nodes(campaign: &Campaign, history: &History, nodes: Option<u32>) -> Self {
        let left: Vec<Left> = campaign
            .cells()
            .filter(|cell| campaign.point_of(*cell).nodes == nodes)
            .map(|cell| Left::of(campaign, history, cell))
            .collect();
        let budget_s = (campaign.repeat.seconds - campaign.count_time_s(history, nodes)).max(0.0);
        let least_s: Option<f64> = left
            .iter()
            .filter(|left| left.least > 0)
            .map(|left| Some(f64::from(left.least) * campaign.expect_time_s(history, left.cell)?))
            .sum();
        let most_s: f64 = left
            .iter()
            .map(|left| {
                let time_s = campaign.expect_time_s(history, left.cell);
                f64::from(left.most)
                    * time_s.unwrap_or_else(|| campaign.contender_of(left.cell).limit_s)
            })
            .sum();
        Self {
            least: left.iter().map(|left| left.least as usize).sum(),
            most: left.iter().map(|left| left.most as usize).sum(),
            least_s: least_s.map(|time_s| time_s.min(budget_s)),
            most_s: most_s.min(budget_s),
        }
    }
}

impl Left {
    fn of(campaign: &Campaign, history: &History, cell: Cell) -> Self {
        let trials = campaign.count_trials_left(history, cell) as u32;
        let (done, whole) = (
            history.rounds_of(cell),
            campaign.count_rounds(history, cell.point),
        );
        let has_ended = campaign.find_end(history, cell.point, whole).is_some();
        let (least, most) = if has_ended || campaign.is_given_up(history, cell, done) {
            (0, 0)
        } else {
            // The round that has begun is finished.
            let least = campaign.repeat.min.max(whole + 1).saturating_sub(done);
            (least, campaign.repeat.max - done)
        };
        Self {
            cell,
            least: trials + least,
            most: trials + most,
        }
    }
}

impl Campaign {
    /// Returns the most repetitions that are left of contenders whose documents are kept.
    pub(crate) fn count_documents_left(&self, history: &History) -> usize {
        self.cells()
            .filter(|cell| self.contender_of(*cell).keep)
            .map(|cell| Left::of(self, history, cell).most as usize)
            .sum()
    }

    /// Returns `true` if the time of the campaign is used up at a point.
    pub(crate) fn is_budget_used(&self, history: &History, point: usize) -> bool {
        self.count_time_s(history, self.points[point].nodes) >= self.repeat.seconds
    }

    /// Returns the seconds of all repetitions at points that need this number of nodes.
    fn count_time_s(&self, history: &History, nodes: Option<u32>) -> f64 {
        history.took_s(|point| self.points[point].nodes == nodes)
    }

    /// Returns the reason why a point is measured no more; `None` while it is.
    pub(crate) fn find_last_end(&self, history: &History, point: usize) -> Option<PointEnd> {
        let rounds = self.count_rounds(history, point);
        let end = self.find_end(history, point, rounds);
        end.or_else(|| {
            self.is_budget_used(history, point)
                .then_some(PointEnd::Budget)
        })
    }

    /// Returns the number of whole rounds at a point.
    pub(crate) fn count_rounds(&self, history: &History, point: usize) -> u32 {
        let cells = self.cells_at(point);
        let open = |cell: &Cell| !self.is_given_up(history, *cell, history.rounds_of(*cell));
        let rounds = cells
            .clone()
            .filter(open)
            .map(|cell| history.rounds_of(cell))
            .min();
        let all = cells.map(|cell| history.rounds_of(cell)).max();
        rounds.or(all).unwrap_or(0)
    }

    /// Returns the time that a repetition takes by those so far, at this point or else at any.
    fn expect_time_s(&self, history: &History, cell: Cell) -> Option<f64> {
        let times = |cell: Cell| -> Vec<f64> {
            history
                .of_cell(cell)
                .map(|repetition| repetition.took_s)
                .collect()
        };
        let here = times(cell);
        let found = if here.is_empty() {
            (0..self.points.len())
                .flat_map(|point| times(Cell { point, ..cell }))
                .collect()
        } else {
            here
        };
        Some(find_median(found)).filter(|time_s| !time_s.is_nan())
    }
}
