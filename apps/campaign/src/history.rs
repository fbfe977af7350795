//! Repetitions by point, contender and round.

use std::collections::{BTreeMap, HashMap};

use crate::file::{Better, Campaign, Contender, TOOK};
use crate::point::{Parameters, Point, fingerprint};
use crate::reading::Values;
use crate::record::Repetition;

/// A point and a contender of a campaign, by their numbers in the campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub point: usize,
    pub contender: usize,
}

/// The repetitions of a campaign.
#[derive(Debug, Default)]
pub(crate) struct History {
    cells: HashMap<Cell, CellHistory>,
    /// Seconds of all repetitions at each point.
    took_s: BTreeMap<usize, f64>,
    len: usize,
}

/// The repetitions of a contender at a point.
#[derive(Debug, Default)]
struct CellHistory {
    /// Attempts of each round.
    rounds: BTreeMap<u32, Vec<Repetition>>,
    /// Attempts to try each combination of tuned values, by its fingerprint.
    trials: BTreeMap<String, Vec<Repetition>>,
}

impl History {
    /// Sorts the repetitions of a campaign. Those of points or contenders that it no longer has are left out.
    pub fn new(campaign: &Campaign, repetitions: impl IntoIterator<Item = Repetition>) -> Self {
        let points = campaign.points.iter().enumerate();
        let points: HashMap<&str, usize> =
            points.map(|(number, point)| (&*point.id, number)).collect();
        let contenders = campaign.contenders.iter().enumerate();
        let contenders: HashMap<&str, usize> = contenders
            .map(|(number, contender)| (&*contender.name, number))
            .collect();
        let mut history = Self::default();
        for repetition in repetitions {
            let place = (
                points.get(&*repetition.point),
                contenders.get(&*repetition.contender),
            );
            if let (Some(&point), Some(&contender)) = place {
                history.add(Cell { point, contender }, repetition);
            }
        }
        history
    }

    /// Adds a repetition.
    pub fn add(&mut self, cell: Cell, repetition: Repetition) {
        *self.took_s.entry(cell.point).or_default() += repetition.took_s;
        self.len += 1;
        let of_cell = self.cells.entry(cell).or_default();
        let attempts = match repetition.round {
            Some(round) => of_cell.rounds.entry(round).or_default(),
            None => of_cell
                .trials
                .entry(fingerprint(&repetition.tuned))
                .or_default(),
        };
        attempts.push(repetition);
    }

    /// Returns the number of repetitions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the seconds of all repetitions at some points.
    pub fn took_s(&self, is_counted: impl Fn(usize) -> bool) -> f64 {
        let times = self.took_s.iter();
        times
            .filter(|(point, _)| is_counted(**point))
            .map(|(_, took_s)| took_s)
            .sum()
    }

    /// Returns all repetitions of a cell: its trials of tuning, then its rounds.
    pub fn of_cell(&self, cell: Cell) -> impl Iterator<Item = &Repetition> {
        self.cells
            .get(&cell)
            .into_iter()
            .flat_map(|of_cell| of_cell.trials.values().chain(of_cell.rounds.values()))
            .flatten()
    }

    /// Returns the number of rounds in which a cell was begun.
    pub fn rounds_of(&self, cell: Cell) -> u32 {
        let last = self
            .cells
            .get(&cell)
            .and_then(|of_cell| of_cell.rounds.last_key_value());
        last.map_or(0, |(round, _)| round + 1)
    }

    /// Returns the attempts of a cell in a round.
    pub fn attempts(&self, cell: Cell, round: u32) -> &[Repetition] {
        let attempts = self
            .cells
            .get(&cell)
            .and_then(|of_cell| of_cell.rounds.get(&round));
        attempts.map_or(&[], Vec::as_slice)
    }

    /// Returns the attempts to try a combination of tuned values.
    pub fn trials(&self, cell: Cell, tuned: &Parameters) -> &[Repetition] {
        let of_cell = self.cells.get(&cell);
        let attempts = of_cell.and_then(|of_cell| of_cell.trials.get(&fingerprint(tuned)));
        attempts.map_or(&[], Vec::as_slice)
    }

    /// Returns the repetition that counts in a round: the first one that was not disturbed, or else the last one.
    pub fn counted(&self, cell: Cell, round: u32) -> Option<&Repetition> {
        count_one(self.attempts(cell, round))
    }

    /// Returns the combination of tuned values that is best at a point; `None` if every trial failed or is missing.
    pub fn find_best(&self, cell: Cell, contender: &Contender) -> Option<Parameters> {
        contender
            .list_tunings()
            .into_iter()
            .filter_map(|tuned| {
                let trial = count_one(self.trials(cell, &tuned)).filter(|trial| trial.is_done())?;
                Some((contender.find_value(trial)?, tuned))
            })
            .min_by(|(a, _), (b, _)| match contender.better {
                Better::Less => a.total_cmp(b),
                Better::More => b.total_cmp(a),
            })
            .map(|(_, tuned)| tuned)
    }
}

/// Returns the attempt that counts.
fn count_one(attempts: &[Repetition]) -> Option<&Repetition> {
    let undisturbed = attempts
        .iter()
        .find(|attempt| attempt.is_done() && !attempt.is_disturbed());
    let done = || attempts.iter().rfind(|attempt| attempt.is_done());
    undisturbed.or_else(done).or(attempts.last())
}

/// Returns `true` if a repetition needs no further attempt.
pub(crate) fn is_final(attempts: &[Repetition], again: u32) -> bool {
    attempts.len() as u32 > again || attempts.iter().any(|attempt| !attempt.is_disturbed())
}

/// Returns the values of a repetition, with the time that it took.
pub(crate) fn all_values(repetition: &Repetition) -> Values {
    let mut values = repetition.values.clone();
    values.insert(TOOK.to_owned(), repetition.took_s);
    values
}

impl Contender {
    /// Returns the value of a repetition by which contenders are compared; `None` if it failed.
    pub(crate) fn find_value(&self, repetition: &Repetition) -> Option<f64> {
        let value = self.value.number(&all_values(repetition));
        value.filter(|_| repetition.is_done())
    }
}

impl Campaign {
    /// Lists all points with all contenders.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Cell> {
        let contenders = self.contenders.len();
        (0..self.points.len())
            .flat_map(move |point| (0..contenders).map(move |contender| Cell { point, contender }))
    }

    pub(crate) fn point_of(&self, cell: Cell) -> &Point {
        &self.points[cell.point]
    }

    pub(crate) fn contender_of(&self, cell: Cell) -> &Contender {
        &self.contenders[cell.contender]
    }
}
