//! Repetitions by point, contender and round.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::file::{Better, Campaign, CommandLine, Contender, TOOK};
use crate::point::{CampaignPoint, Parameter, Parameters, fingerprint};
use crate::reading::Values;
use crate::record::Repetition;
use crate::schedule::RoundTask;

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
    /// Number of nodes that each point needs.
    nodes: Vec<Option<u32>>,
    /// Seconds of all repetitions at the points that need each number of nodes.
    took_s: BTreeMap<Option<u32>, f64>,
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
        let contenders: HashMap<&str, usize> =
            contenders.map(|(number, contender)| (&*contender.name, number)).collect();
        let mut history = Self {
            nodes: campaign.points.iter().map(|point| point.nodes).collect(),
            ..Self::default()
        };
        for repetition in repetitions {
            let place = (points.get(&*repetition.point), contenders.get(&*repetition.contender));
            if let (Some(&point), Some(&contender)) = place {
                history.add(Cell { point, contender }, repetition);
            }
        }
        history
    }

    /// Adds a repetition.
    pub fn add(&mut self, cell: Cell, repetition: Repetition) {
        let nodes = self.nodes.get(cell.point).copied().flatten();
        *self.took_s.entry(nodes).or_default() += repetition.took_s;
        self.len += 1;
        let of_cell = self.cells.entry(cell).or_default();
        let attempts = match repetition.round {
            Some(round) => of_cell.rounds.entry(round).or_default(),
            None => of_cell.trials.entry(fingerprint(&repetition.tuned)).or_default(),
        };
        attempts.push(repetition);
    }

    /// Returns the number of repetitions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the seconds of all repetitions.
    pub fn took_s(&self) -> f64 {
        self.took_s.values().sum()
    }

    /// Returns the seconds of all repetitions at the points that need this number of nodes.
    pub fn took_on_nodes_s(&self, nodes: Option<u32>) -> f64 {
        self.took_s.get(&nodes).copied().unwrap_or(0.0)
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
        let last = self.cells.get(&cell).and_then(|of_cell| of_cell.rounds.last_key_value());
        last.map_or(0, |(round, _)| round.saturating_add(1))
    }

    /// Returns the attempts of a task.
    pub fn attempts_of(&self, task: &RoundTask) -> &[Repetition] {
        let of_cell = self.cells.get(&task.cell);
        let attempts = of_cell.and_then(|of_cell| match task.round {
            Some(round) => of_cell.rounds.get(&round),
            None => of_cell.trials.get(&fingerprint(&task.tuned)),
        });
        attempts.map_or(&[], Vec::as_slice)
    }

    /// Returns the repetition that counts in a round: the first undisturbed success, else the last success, else the last attempt.
    pub fn counted(&self, cell: Cell, round: u32) -> Option<&Repetition> {
        count_one(self.cells.get(&cell)?.rounds.get(&round)?)
    }

    /// Lists the rounds of a cell before `end`, each with the repetition that counts. Numbers of rounds may be missing.
    pub fn list_counted(&self, cell: Cell, end: u32) -> impl Iterator<Item = (u32, &Repetition)> {
        let of_cell = self.cells.get(&cell).into_iter();
        of_cell
            .flat_map(move |of_cell| of_cell.rounds.range(..end))
            .filter_map(|(&round, attempts)| Some((round, count_one(attempts)?)))
    }

    /// Returns the combination of tuned values that its rounds at a point have.
    pub fn find_chosen(&self, cell: Cell) -> Option<&Parameters> {
        let rounds = &self.cells.get(&cell)?.rounds;
        let first = rounds.values().flatten().next()?;
        Some(&first.tuned)
    }

    /// Returns the combination of tuned values that is best at a point, or that was best when its rounds began; `None` if every
    /// trial failed or is missing.
    pub fn find_best(&self, campaign: &Campaign, cell: Cell) -> Option<Parameters> {
        if let Some(chosen) = self.find_chosen(cell) {
            return Some(chosen.clone());
        }
        let contender = campaign.contender_of(cell);
        campaign
            .list_tunings(cell)
            .into_iter()
            .filter_map(|tuned| {
                let trials = &self.cells.get(&cell)?.trials;
                let trial = count_one(trials.get(&fingerprint(&tuned))?)?;
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
    let undisturbed = attempts.iter().find(|attempt| attempt.is_done() && !attempt.is_disturbed());
    let done = || attempts.iter().rfind(|attempt| attempt.is_done());
    undisturbed.or_else(done).or(attempts.last())
}

/// Returns `true` if a repetition needs no further attempt.
pub(crate) fn is_final(attempts: &[Repetition], again: u32) -> bool {
    attempts.len() as u32 > again || attempts.iter().any(|attempt| !attempt.is_disturbed())
}

/// A name in an expression: a parameter, a value, or in a goal a contender with its values.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum KnownValue<'r> {
    Parameter(&'r Parameter),
    Value(f64),
    Values(Values),
}

impl Contender {
    /// Returns the results of a repetition, with the time that it took, and the values computed from them.
    pub(crate) fn list_values(&self, repetition: &Repetition) -> Values {
        let mut values = repetition.values.clone();
        values.insert(TOOK.to_owned(), repetition.took_s);
        for computed in &self.computed {
            if let Some(value) = computed.expression.number(&know(&repetition.parameters, &values))
            {
                values.insert(computed.name.clone(), value);
            }
        }
        values
    }

    /// Returns the value of a repetition by which contenders are compared; `None` if it failed.
    pub(crate) fn find_value(&self, repetition: &Repetition) -> Option<f64> {
        let values = self.list_values(repetition);
        let value = self.value.number(&know(&repetition.parameters, &values));
        value.filter(|_| repetition.is_done())
    }
}

/// Returns the names that an expression over parameters and values may have.
pub(crate) fn know<'r>(
    parameters: &'r Parameters,
    values: &'r Values,
) -> BTreeMap<&'r str, KnownValue<'r>> {
    let parameters =
        parameters.iter().map(|(name, value)| (name.as_str(), KnownValue::Parameter(value)));
    let values = values.iter().map(|(name, &value)| (name.as_str(), KnownValue::Value(value)));
    parameters.chain(values).collect()
}

impl Campaign {
    /// Lists all points with the contenders that run there.
    pub(crate) fn cells(&self) -> impl Iterator<Item = Cell> {
        (0..self.points.len()).flat_map(|point| self.cells_at(point))
    }

    /// Lists the contenders that run at a point.
    pub(crate) fn cells_at(&self, point: usize) -> impl Iterator<Item = Cell> + Clone {
        let contenders = self.contenders.iter().enumerate();
        contenders
            .filter(move |(_, contender)| contender.points.contains(&point))
            .map(move |(contender, _)| Cell { point, contender })
    }

    /// Lists the combinations of tuned values of a contender at a point.
    pub(crate) fn list_tunings(&self, cell: Cell) -> Vec<Parameters> {
        let parameters = &self.point_of(cell).parameters;
        self.contender_of(cell).list_tunings(parameters)
    }

    /// Returns the command line of a contender at a point with the first of its tuned values.
    pub(crate) fn first_command(&self, cell: Cell) -> Option<CommandLine> {
        let tuned = self.list_tunings(cell).into_iter().next()?;
        let parameters = &self.point_of(cell).parameters;
        // Checked when the file was read.
        self.contender_of(cell).make_command(parameters, &tuned).ok()
    }

    pub(crate) fn point_of(&self, cell: Cell) -> &CampaignPoint {
        &self.points[cell.point]
    }

    pub(crate) fn contender_of(&self, cell: Cell) -> &Contender {
        &self.contenders[cell.contender]
    }
}
