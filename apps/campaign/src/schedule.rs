//! What a campaign runs: a pure function of what it has run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::file::Campaign;
use crate::history::{Cell, History, all_values, is_final};
use crate::point::Parameters;
use crate::statistics::MedianInterval;

/// Failed rounds in a row after which a contender is given up at a point.
const MOST_FAILURES: u32 = 2;

/// The reason why a point is measured no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// A repetition to run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Task {
    pub cell: Cell,
    /// `None` to try the tuned values.
    pub round: Option<u32>,
    pub tuned: Parameters,
}

impl Campaign {
    /// Lists the trials of tuned values, which come before the rounds.
    pub(crate) fn list_trials(&self) -> Vec<Task> {
        self.cells()
            .flat_map(|cell| self.list_trials_of(cell))
            .collect()
    }

    fn list_trials_of(&self, cell: Cell) -> Vec<Task> {
        let contender = self.contender_of(cell);
        if contender.tune.is_empty() {
            return Vec::new();
        }
        let tunings = contender.list_tunings().into_iter();
        tunings
            .map(|tuned| Task {
                cell,
                round: None,
                tuned,
            })
            .collect()
    }

    /// Returns the number of trials of tuned values that a contender lacks at a point.
    pub(crate) fn count_trials_left(&self, history: &History, cell: Cell) -> usize {
        let trials = self.list_trials_of(cell).into_iter();
        trials
            .filter(|task| self.needs_attempt(history, task))
            .count()
    }

    /// Lists the repetitions of a round in their order, by the rounds before it. Every contender runs every point once, unless
    /// the point has ended or the contender was given up there.
    pub(crate) fn list_round(&self, history: &History, round: u32) -> Vec<Task> {
        let mut cells: Vec<Cell> = self.cells().collect();
        // Each round has an order of its own.
        fastrand::Rng::with_seed(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(round))
            .shuffle(&mut cells);
        let open: Vec<bool> = (0..self.points.len())
            .map(|point| self.find_end(history, point, round).is_none())
            .collect();
        cells
            .into_iter()
            .filter(|cell| open[cell.point] && !self.is_given_up(history, *cell, round))
            .map(|cell| Task {
                cell,
                round: Some(round),
                tuned: history
                    .find_best(cell, self.contender_of(cell))
                    .unwrap_or_default(),
            })
            .collect()
    }

    /// Returns `true` if a task needs another attempt.
    pub(crate) fn needs_attempt(&self, history: &History, task: &Task) -> bool {
        let attempts = match task.round {
            Some(round) => history.attempts(task.cell, round),
            None => history.trials(task.cell, &task.tuned),
        };
        !is_final(attempts, self.repeat.again)
    }

    /// Returns `true` if a contender is given up at a point before a round: it has failed in rounds in a row, or none of its
    /// tuned values works.
    pub(crate) fn is_given_up(&self, history: &History, cell: Cell, round: u32) -> bool {
        let contender = self.contender_of(cell);
        let may_be_tuned = contender.tune.is_empty() || self.count_trials_left(history, cell) > 0;
        if !may_be_tuned && history.find_best(cell, contender).is_none() {
            return true;
        }
        let has_failed = |round| {
            history
                .counted(cell, round)
                .is_some_and(|counted| !counted.is_done())
        };
        // Once given up, a contender stays so.
        (MOST_FAILURES..=round).any(|end| (end - MOST_FAILURES..end).all(has_failed))
    }

    /// Returns the reason why a point is not measured in a round; `None` if it is.
    pub(crate) fn find_end(&self, history: &History, point: usize, round: u32) -> Option<PointEnd> {
        let mut cells = (0..self.contenders.len()).map(|contender| Cell { point, contender });
        if cells.all(|cell| self.is_given_up(history, cell, round)) {
            return Some(PointEnd::Failed);
        }
        if round >= self.repeat.max {
            return Some(PointEnd::Rounds);
        }
        let is_precise = round >= self.repeat.min
            && self
                .list_figures(history, point, round)
                .iter()
                .all(|figure| {
                    let precision = figure.and_then(|figure| figure.precision());
                    precision.is_some_and(|precision| precision <= self.repeat.precision)
                });
        is_precise.then_some(PointEnd::Precise)
    }

    /// Lists the figures of a point that decide when it has ended, by the rounds before `round`. These are the value of a single
    /// contender, or the ratios to the first one, and those of the goals.
    fn list_figures(
        &self,
        history: &History,
        point: usize,
        round: u32,
    ) -> Vec<Option<MedianInterval>> {
        let cell = |contender| Cell { point, contender };
        let is_given_up = |contender| self.is_given_up(history, cell(contender), round);
        let compared = (1..self.contenders.len()).filter(|&contender| !is_given_up(contender));
        let mut figures: Vec<_> = if is_given_up(0) {
            compared
                .map(|contender| self.find_value(history, cell(contender), round))
                .collect()
        } else {
            compared
                .map(|contender| self.find_ratio(history, cell(contender), round))
                .collect()
        };
        if figures.is_empty() && !is_given_up(0) {
            figures.push(self.find_value(history, cell(0), round));
        }
        if !(0..self.contenders.len()).any(is_given_up) {
            figures.extend(
                (0..self.goals.len()).map(|goal| self.find_goal_ratio(history, point, goal, round)),
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
        let values = (0..round).filter_map(|round| self.value_in(history, cell, round));
        MedianInterval::of(values, self.repeat.confidence)
    }

    /// Returns the median of the ratio of a contender's value to the first contender's, within each round before `round`.
    pub(crate) fn find_ratio(
        &self,
        history: &History,
        cell: Cell,
        round: u32,
    ) -> Option<MedianInterval> {
        let first = Cell {
            contender: 0,
            ..cell
        };
        let ratios = (0..round).filter_map(|round| {
            Some(self.value_in(history, cell, round)? / self.value_in(history, first, round)?)
        });
        MedianInterval::of(
            ratios.filter(|ratio| ratio.is_finite()),
            self.repeat.confidence,
        )
    }

    /// Returns the median of a goal's ratio at a point, within each round before `round`.
    pub(crate) fn find_goal_ratio(
        &self,
        history: &History,
        point: usize,
        goal: usize,
        round: u32,
    ) -> Option<MedianInterval> {
        let goal = &self.goals[goal];
        let ratios = (0..round).filter_map(|round| {
            let values = self
                .contenders
                .iter()
                .enumerate()
                .filter_map(|(contender, named)| {
                    let counted = history.counted(Cell { point, contender }, round)?;
                    counted
                        .is_done()
                        .then(|| (named.name.as_str(), all_values(counted)))
                });
            let values: BTreeMap<_, _> = values.collect();
            Some(goal.above.number(&values)? / goal.below.number(&values)?)
        });
        MedianInterval::of(
            ratios.filter(|ratio| ratio.is_finite()),
            self.repeat.confidence,
        )
    }

    /// Returns a contender's value in a round; `None` if it failed there or has not run.
    pub(crate) fn value_in(&self, history: &History, cell: Cell, round: u32) -> Option<f64> {
        self.contender_of(cell)
            .find_value(history.counted(cell, round)?)
    }
}
