//! What a campaign runs: a pure function of what it has run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::file::{Campaign, CampaignGoal};
use crate::history::{Cell, History, KnownValue, is_final, know};
use crate::point::Parameters;
use crate::reading::Values;
use crate::statistics::MedianInterval;

/// Failed rounds in a row after which a contender is given up at a point, or all rounds if they are fewer.
const MOST_FAILURES: u32 = 2;

/// The reason why a point is measured no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PointEnd {
    /// The intervals are narrow enough.
    Precise,
    /// The most rounds are run.
    Rounds,
    /// Every contender has failed.
    Failed,
    /// The time of the campaign is used up.
    Budget,
    /// The time of the campaign was used up before a contender ran there.
    NotMeasured,
}

/// A repetition to run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoundTask {
    pub cell: Cell,
    /// `None` to try the tuned values.
    pub round: Option<u32>,
    pub tuned: Parameters,
}

impl Campaign {
    /// Lists the trials of tuned values that a contender lacks at a point, which come before the rounds; none once these have
    /// begun. Each is run once, since no point has a value yet.
    pub(crate) fn list_trials(&self, history: &History, cell: Cell) -> Vec<RoundTask> {
        if self.contender_of(cell).tune.is_empty() || history.find_chosen(cell).is_some() {
            return Vec::new();
        }
        let trials =
            self.list_tunings(cell).into_iter().map(|tuned| RoundTask { cell, round: None, tuned });
        trials.filter(|trial| history.attempts_of(trial).is_empty()).collect()
    }

    /// Lists the repetitions of a round in their order, by the rounds before it. Every contender runs every point once, unless
    /// the point has ended or the contender was given up there. The contenders at a point follow each other, so that what
    /// disturbs the machine for a while disturbs all of them.
    pub(crate) fn list_round(&self, history: &History, round: u32) -> Vec<RoundTask> {
        // Each round has an order of its own.
        let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(round);
        let mut random = fastrand::Rng::with_seed(seed);
        let mut points: Vec<usize> = (0..self.points.len()).collect();
        random.shuffle(&mut points);
        let mut cells: Vec<Cell> = Vec::new();
        for point in points {
            let first = cells.len();
            cells.extend(self.cells_at(point));
            random.shuffle(&mut cells[first..]);
        }
        let open: Vec<bool> = (0..self.points.len())
            .map(|point| self.find_end(history, point, round).is_none())
            .collect();
        cells
            .into_iter()
            .filter(|cell| open[cell.point] && !self.is_given_up(history, *cell, round))
            .map(|cell| RoundTask {
                cell,
                round: Some(round),
                tuned: history.find_best(self, cell).unwrap_or_default(),
            })
            .collect()
    }

    /// Returns `true` if a task needs another attempt.
    pub(crate) fn needs_attempt(&self, history: &History, task: &RoundTask) -> bool {
        let again = task.round.map_or(0, |_| self.repeat.again);
        !is_final(history.attempts_of(task), again)
    }

    /// Returns `true` if a contender is given up at a point before a round: it has failed in rounds in a row, or none of its
    /// tuned values works.
    pub(crate) fn is_given_up(&self, history: &History, cell: Cell, round: u32) -> bool {
        let contender = self.contender_of(cell);
        let may_be_tuned = contender.tune.is_empty() || !self.list_trials(history, cell).is_empty();
        if !may_be_tuned && history.find_best(self, cell).is_none() {
            return true;
        }
        let most = MOST_FAILURES.min(self.repeat.max);
        let mut failed = 0;
        // Once given up, a contender stays so.
        history.list_counted(cell, round).any(|(_, counted)| {
            failed = if counted.is_done() { 0 } else { failed + 1 };
            failed == most
        })
    }

    /// Returns the reason why a point is not measured in a round; `None` if it is.
    pub(crate) fn find_end(&self, history: &History, point: usize, round: u32) -> Option<PointEnd> {
        if self.cells_at(point).all(|cell| self.is_given_up(history, cell, round)) {
            return Some(PointEnd::Failed);
        }
        if round >= self.repeat.max {
            return Some(PointEnd::Rounds);
        }
        let is_precise = round >= self.repeat.min
            && self.list_figures(history, point, round).iter().all(|figure| {
                let precision = figure.and_then(|figure| figure.precision());
                precision.is_some_and(|precision| precision <= self.repeat.precision)
            });
        is_precise.then_some(PointEnd::Precise)
    }

    /// Lists the figures of a point that decide when it has ended, by the rounds before `round`. These are the value of a single
    /// contender, or the ratios to the first one, with the values that are not compared, and the figures of the goals.
    fn list_figures(
        &self,
        history: &History,
        point: usize,
        round: u32,
    ) -> Vec<Option<MedianInterval>> {
        let (given_up, run): (Vec<Cell>, Vec<Cell>) =
            self.cells_at(point).partition(|&cell| self.is_given_up(history, cell, round));
        let has_reference = run.first().is_some_and(|cell| cell.contender == 0);
        let first = usize::from(has_reference && run.len() > 1);
        let mut figures: Vec<_> = run[first..]
            .iter()
            .map(|&cell| {
                let ratio = self.find_ratio(history, cell, round);
                ratio.or_else(|| self.find_value(history, cell, round))
            })
            .collect();
        if given_up.is_empty() {
            figures.extend(
                self.goals_at(point).map(|goal| self.find_figure(history, point, goal, round)),
            );
        }
        figures
    }

    /// Returns the median of a contender's value at a point, by the rounds before `round`.
    pub(crate) fn find_value(
        &self,
        history: &History,
        cell: Cell,
        round: u32,
    ) -> Option<MedianInterval> {
        let counted = history.list_counted(cell, round);
        let values = counted.filter_map(|(_, counted)| self.contender_of(cell).find_value(counted));
        MedianInterval::of(values, self.repeat.confidence)
    }

    /// Returns `true` if a contender is compared with the first one: its value is better in the same direction. A speed beside
    /// times stands alone.
    fn is_compared(&self, cell: Cell) -> bool {
        cell.contender > 0 && self.contender_of(cell).better == self.contenders[0].better
    }

    /// Returns the median of the ratio of a contender's value to the first contender's, within each round before `round`;
    /// `None` if they are not compared, or if a value is negative or divides by zero: such a ratio says not which is better.
    pub(crate) fn find_ratio(
        &self,
        history: &History,
        cell: Cell,
        round: u32,
    ) -> Option<MedianInterval> {
        if !self.is_compared(cell) {
            return None;
        }
        let first = Cell { contender: 0, ..cell };
        let ratios = history.list_counted(cell, round).filter_map(|(round, counted)| {
            let value = self.contender_of(cell).find_value(counted)?;
            let of_first = self.value_in(history, first, round)?;
            Some((value >= 0.0 && of_first > 0.0).then_some(value / of_first))
        });
        MedianInterval::of(ratios.collect::<Option<Vec<f64>>>()?, self.repeat.confidence)
    }

    /// Lists the goals that are judged at a point.
    pub(crate) fn goals_at(&self, point: usize) -> impl Iterator<Item = &CampaignGoal> {
        self.goals.iter().filter(move |goal| goal.points.contains(&point))
    }

    /// Returns the median of a goal's figure at a point, within each round before `round`.
    pub(crate) fn find_figure(
        &self,
        history: &History,
        point: usize,
        goal: &CampaignGoal,
        round: u32,
    ) -> Option<MedianInterval> {
        let rounds: BTreeSet<u32> = self
            .cells_at(point)
            .flat_map(|cell| history.list_counted(cell, round))
            .map(|(round, _)| round)
            .collect();
        let no_values = Values::new();
        let figures = rounds.into_iter().filter_map(|round| {
            let mut known = know(&self.points[point].parameters, &no_values);
            for cell in self.cells_at(point) {
                let contender = self.contender_of(cell);
                if let Some(counted) = history.counted(cell, round)
                    && counted.is_done()
                {
                    let values = contender.list_values(counted);
                    known.insert(&contender.name, KnownValue::Values(values));
                }
            }
            let above = goal.above.number(&known)?;
            match &goal.below {
                // Below zero, the ratio would turn its bound round.
                Some(below) => {
                    let below = below.number(&known);
                    below.filter(|it| *it > 0.0).map(|it| above / it)
                }
                None => Some(above),
            }
        });
        MedianInterval::of(figures.filter(|figure| figure.is_finite()), self.repeat.confidence)
    }

    /// Returns a contender's value in a round; `None` if it failed there or has not run.
    pub(crate) fn value_in(&self, history: &History, cell: Cell, round: u32) -> Option<f64> {
        self.contender_of(cell).find_value(history.counted(cell, round)?)
    }
}
