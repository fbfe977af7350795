//! The status of a campaign: what is done, what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use crate::error::CampaignError;
use crate::file::Campaign;
use crate::folder::{Holder, read_folder};
use crate::history::{Cell, History};
use crate::point::Parameters;
use crate::record::Repetition;
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
    /// Number of environments in which they were measured.
    pub environments: usize,
    /// The work that is left.
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
    /// Returns [`CampaignError::File`] if it is no folder of a campaign, [`CampaignError::Line`] if a file in it is
    /// damaged.
    pub fn read(folder: &Path) -> Result<Self, CampaignError> {
        let content = read_folder(folder)?;
        let history = History::new(&content.campaign, content.repetitions);
        Ok(Self::of(&content.campaign, &history, content.holders))
    }

    pub(crate) fn of(campaign: &Campaign, history: &History, engines: Vec<Holder>) -> Self {
        let left = Forecast::of(campaign, history);
        let repetitions = campaign.cells().flat_map(|cell| history.of_cell(cell));
        let environments = repetitions.map(|repetition| &repetition.environment);
        let points = 0..campaign.points.len();
        let ends = points.filter_map(|point| campaign.find_last_end(history, point));
        let ends: Vec<PointEnd> = ends.collect();
        let measured = ends.iter().filter(|end| **end != PointEnd::NotMeasured);
        let state = if !engines.is_empty() {
            State::Running
        } else if left.most == 0 {
            State::Ended
        } else if ends.len() == campaign.points.len() {
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
            points_ended: measured.count(),
            repetitions: history.len(),
            took_s: history.took_s(),
            environments: environments.collect::<BTreeSet<_>>().len(),
            left,
            failures: campaign
                .cells()
                .filter_map(|cell| Failed::find(campaign, history, cell))
                .collect(),
        }
    }
}

impl Failed {
    pub(crate) fn find(campaign: &Campaign, history: &History, cell: Cell) -> Option<Self> {
        let failures: Vec<_> =
            history.of_cell(cell).filter(|repetition| !repetition.is_done()).collect();
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

impl Forecast {
    pub(crate) fn of(campaign: &Campaign, history: &History) -> Self {
        let parts = Self::by_nodes(campaign, history);
        Self {
            least: parts.values().map(|part| part.least).sum(),
            most: parts.values().map(|part| part.most).sum(),
            least_s: parts.values().map(|part| part.least_s).sum(),
            most_s: parts.values().map(|part| part.most_s).sum(),
        }
    }

    /// Forecasts the points that need each number of nodes.
    pub(crate) fn by_nodes(campaign: &Campaign, history: &History) -> BTreeMap<Option<u32>, Self> {
        let median_s = |repetitions: &mut dyn Iterator<Item = &Repetition>| {
            let times = repetitions.map(|repetition| repetition.took_s);
            Some(find_median(times.collect())).filter(|time_s| !time_s.is_nan())
        };
        // The time of a contender at a point where it has not run yet.
        let anywhere_s: Vec<Option<f64>> = (0..campaign.contenders.len())
            .map(|contender| {
                let points = 0..campaign.points.len();
                let cells = points.map(|point| Cell { point, contender });
                median_s(&mut cells.flat_map(|cell| history.of_cell(cell)))
            })
            .collect();
        let mut parts: BTreeMap<Option<u32>, Self> = BTreeMap::new();
        for cell in campaign.cells() {
            let (least, most) = campaign.count_left(history, cell);
            let time_s = median_s(&mut history.of_cell(cell)).or(anywhere_s[cell.contender]);
            let limit_s = campaign.contender_of(cell).limit_s;
            let part = parts.entry(campaign.point_of(cell).nodes).or_insert(Self {
                least: 0,
                most: 0,
                least_s: Some(0.0),
                most_s: 0.0,
            });
            part.least += least as usize;
            part.most += most as usize;
            part.most_s += f64::from(most) * time_s.unwrap_or(limit_s);
            if least > 0 {
                let added_s = time_s.map(|time_s| f64::from(least) * time_s);
                part.least_s = [part.least_s, added_s].into_iter().sum();
            }
        }
        for (nodes, part) in &mut parts {
            let Some(seconds) = campaign.repeat.seconds else {
                continue;
            };
            let budget_s = (seconds - history.took_on_nodes_s(*nodes)).max(0.0);
            part.least_s = part.least_s.map(|time_s| time_s.min(budget_s));
            part.most_s = part.most_s.min(budget_s);
        }
        parts
    }
}

impl Campaign {
    /// Returns the fewest and the most repetitions of a contender at a point that are left.
    fn count_left(&self, history: &History, cell: Cell) -> (u32, u32) {
        let trials = self.list_trials(history, cell).len() as u32;
        let (done, whole) = (history.rounds_of(cell), self.count_rounds(history, cell.point));
        let has_ended = self.find_end(history, cell.point, whole).is_some();
        if has_ended || self.is_given_up(history, cell, done) {
            return (trials, trials);
        }
        // The round that has begun is finished.
        let least = self.repeat.min.max(whole + 1).saturating_sub(done);
        let most = self.repeat.max.saturating_sub(done);
        (trials.saturating_add(least), trials.saturating_add(most))
    }

    /// Returns `true` if the time of the campaign is used up at a point.
    pub(crate) fn is_budget_used(&self, history: &History, point: usize) -> bool {
        let took_s = history.took_on_nodes_s(self.points[point].nodes);
        self.repeat.seconds.is_some_and(|seconds| took_s >= seconds)
    }

    /// Returns the reason why a point is measured no more; `None` while it is.
    pub(crate) fn find_last_end(&self, history: &History, point: usize) -> Option<PointEnd> {
        let rounds = self.count_rounds(history, point);
        let end = self.find_end(history, point, rounds);
        if end.is_some() || !self.is_budget_used(history, point) {
            return end;
        }
        let is_measured = |cell| history.rounds_of(cell) > 0;
        Some(if self.cells_at(point).all(is_measured) {
            PointEnd::Budget
        } else {
            PointEnd::NotMeasured
        })
    }

    /// Returns the number of whole rounds at a point.
    pub(crate) fn count_rounds(&self, history: &History, point: usize) -> u32 {
        let cells = self.cells_at(point);
        let open = |cell: &Cell| !self.is_given_up(history, *cell, history.rounds_of(*cell));
        let rounds = cells.clone().filter(open).map(|cell| history.rounds_of(cell)).min();
        let all = cells.map(|cell| history.rounds_of(cell)).max();
        rounds.or(all).unwrap_or(0)
    }
}
