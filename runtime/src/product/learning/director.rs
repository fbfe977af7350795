//! The director that learns.

use std::time::Instant;

use isochron_hierarchy::times::Series;

use super::crew::Crew;
use super::learnt::Learnt;
use super::record::{RecordedDecision, RunRecord};
use crate::error::Error;
use crate::plan::Assignment;
use crate::plan::Plan;
use crate::plan::place::{ChangeCosts, Places, RunConditions};
use crate::product::director::{Directive, Director, StepTimes};
use crate::product::seen_step::SeenStep;

/// The settings of a [`LearningDirector`].
#[derive(Debug, Clone, Default)]
pub struct LearningSettings {
    /// Keeps times and decisions for [`LearningDirector::finish`].
    pub keeps_record: bool,
    /// Conditions that decide on the cost of changes.
    pub conditions: RunConditions,
    /// The decisions to repeat, with the times that led to them.
    pub replay: Option<RunRecord>,
}

/// Learns the devices' speeds from the steps of a multiplication, and divides the steps that follow by them.
///
/// Parts of C move between ranks, and columns between the devices of a rank. If k is split, columns alone do: A and B
/// of a share that moved would have to travel.
pub struct LearningDirector<'p> {
    plan: &'p Plan,
    crews: Vec<Crew>,
    /// Parts of C may move: no change has lacked memory yet.
    may_move: bool,
    costs: ChangeCosts,
    decisions: Vec<RecordedDecision>,
    settings: LearningSettings,
    /// The reason why a change that is to be repeated found no memory.
    lacking: Option<String>,
    learnt: Learnt,
}

impl<'p> LearningDirector<'p> {
    /// Begins with the plan, on the head rank; the other ranks need no times.
    ///
    /// # Errors
    /// [`Error::Adaptive`] if the plan's [first look](Plan::look) is not one at its devices.
    pub fn new(plan: &'p Plan, mut settings: LearningSettings) -> Result<Self, Error> {
        if let Some(record) = &settings.replay {
            settings.conditions = record.conditions().clone();
        }
        let firsts: Vec<usize> = plan
            .nodes()
            .iter()
            .map(|node| node.devices.len())
            .scan(0, |next, count| {
                *next += count;
                Some(*next - count)
            })
            .collect();
        let count = plan.nodes().iter().map(|node| node.devices.len()).sum();
        let ranks = plan.n_ranks();
        let crews = match plan.division().shares() {
            None => vec![Crew::begin(plan, 0..ranks, 0..count)?],
            Some(shares) => (0..ranks)
                .filter(|&rank| shares[rank] > 0)
                .map(|rank| {
                    let end = firsts.get(rank + 1).copied().unwrap_or(count);
                    Crew::begin(plan, rank..rank + 1, firsts[rank]..end)
                })
                .collect::<Result<_, _>>()?,
        };
        Ok(Self {
            plan,
            crews,
            may_move: true,
            costs: ChangeCosts::default(),
            decisions: Vec::new(),
            lacking: None,
            learnt: Learnt { replayed: settings.replay.is_some(), ..Learnt::default() },
            settings,
        })
    }

    /// Checks that every change so far was repeated, if changes are to be.
    ///
    /// # Errors
    /// [`Error::Record`] with the memory that one lacked, the same on every rank.
    pub fn check_repeated(&self) -> Result<(), Error> {
        self.lacking.clone().map_or(Ok(()), |reason| Err(Error::Record(reason)))
    }

    /// Returns the times of the steps of all devices, in the order of the ranks. A device that had no work has none,
    /// and no device has any if a record was repeated.
    pub fn list_series(&self) -> Vec<Vec<Series>> {
        self.list_devices(Crew::list_series)
    }

    /// Returns, for all devices in the order of the ranks, `true` if something else had its cores in some step. Those times are
    /// in no series.
    pub fn list_stopped(&self) -> Vec<bool> {
        self.list_devices(Crew::list_stopped)
    }

    /// Returns what crews saw of their devices, in the order of all ranks' devices.
    fn list_devices<V: Clone + Default>(&self, of_crew: fn(&Crew) -> Vec<V>) -> Vec<V> {
        let nodes = self.plan.nodes().iter();
        let mut all: Vec<Vec<V>> =
            nodes.map(|node| vec![V::default(); node.devices.len()]).collect();
        for crew in self.crews.iter().filter(|_| self.settings.replay.is_none()) {
            let mut seen = of_crew(crew).into_iter();
            for devices in &mut all[crew.ranks.clone()] {
                devices.iter_mut().zip(&mut seen).for_each(|(device, seen)| *device = seen);
            }
        }
        all.concat()
    }

    /// Returns what was learnt in a run with `changing_s` seconds of changes, and its record if it was to be kept.
    pub fn finish(mut self, changing_s: f64) -> (Learnt, Option<RunRecord>) {
        let mut learnt = std::mem::take(&mut self.learnt);
        learnt.changing_s = changing_s;
        for crew in &self.crews {
            crew.add_to(&mut learnt, self.plan);
        }
        learnt.changes.sort_by_key(|change| change.step);
        let record = (self.settings.keeps_record)
            .then(|| RunRecord::new(self.plan.clone(), self.settings.conditions, self.decisions));
        (learnt, record)
    }

    /// Learns from the steps since the last decision, and decides.
    fn learn(&mut self, at: &StepTimes<'_>) -> Result<Directive, Error> {
        self.note_cost(at.changing_s);
        let mut next = at.assignment.clone();
        let mut fewest = usize::MAX;
        for crew in &mut self.crews {
            crew.observe(self.plan, &at.ranks)?;
            let places = Places {
                plan: self.plan,
                now: at.assignment,
                ranks: crew.ranks.clone(),
                conditions: &self.settings.conditions,
                may_move: self.may_move,
                costs: self.costs,
            };
            let (change, steps) = crew.decide(&places, at.step)?;
            if let Some(change) = change {
                take_ranks(&mut next, change, crew.ranks.clone());
            }
            // A crew with fewer steps than others is as far in the run after a part of them.
            let mine = crew.count_steps(self.plan).max(1) as u64;
            let steps = steps.saturating_mul(at.steps as u64) / mine;
            fewest = fewest.min(usize::try_from(steps).unwrap_or(usize::MAX));
        }
        Ok(Directive { change: (next != *at.assignment).then_some(next), steps: fewest })
    }

    /// Corrects the expected cost of changes by the seconds of the last one; 0 without a change.
    fn note_cost(&mut self, seconds: f64) {
        for crew in self.crews.iter_mut().filter(|_| seconds > 0.0) {
            if let Some((moves_c, expected_s)) = crew.note_cost(seconds) {
                self.costs.learn(moves_c, expected_s, seconds);
            }
        }
    }

    /// Repeats a recorded decision, with the times that led to it.
    fn repeat(&mut self, at: &StepTimes<'_>) -> Result<RecordedDecision, Error> {
        self.check_repeated()?;
        let recorded = self.settings.replay.as_ref();
        let index = self.learnt.decisions - 1;
        let recorded = recorded.and_then(|record| record.decision(index)).cloned();
        let Some(recorded) = recorded.filter(|recorded| recorded.step == at.step) else {
            return Err(Error::Record(format!("it has no decision on step {}", at.step)));
        };
        let directive = self.learn(&StepTimes {
            ranks: recorded.ranks.clone(),
            changing_s: recorded.changing_s,
            ..*at
        })?;
        if directive != recorded.directive {
            return Err(Error::Record(format!(
                "its times lead to another decision on step {}",
                at.step
            )));
        }
        if recorded.is_refused {
            self.forget_change();
        }
        Ok(recorded)
    }

    fn forget_change(&mut self) {
        self.may_move = false;
        self.crews.iter_mut().for_each(Crew::forget_change);
    }
}

/// Takes the parts of some ranks from a change.
fn take_ranks(next: &mut Assignment, change: Assignment, ranks: std::ops::Range<usize>) {
    next.layout = change.layout;
    for (rank, slices) in change.slices.into_iter().enumerate() {
        if ranks.contains(&rank) {
            next.slices[rank] = slices;
        }
    }
}

impl Director for LearningDirector<'_> {
    fn count_first_steps(&mut self) -> usize {
        1
    }

    fn decide(&mut self, at: &StepTimes<'_>) -> Result<Directive, Error> {
        let start = Instant::now();
        self.learnt.decisions += 1;
        let decision = match self.settings.replay {
            Some(_) => self.repeat(at)?,
            None => RecordedDecision {
                directive: self.learn(at)?,
                step: at.step,
                ranks: at.ranks.clone(),
                changing_s: at.changing_s,
                is_refused: false,
            },
        };
        let directive = decision.to_obey();
        if self.settings.keeps_record {
            self.decisions.push(decision);
        }
        self.learnt.deciding_s += start.elapsed().as_secs_f64();
        Ok(directive)
    }

    fn note_last_steps(&mut self, ranks: &[Vec<SeenStep>], changing_s: f64) {
        self.note_cost(changing_s);
        for crew in &mut self.crews {
            crew.keep_last_steps(self.plan, ranks);
        }
    }

    fn note_refusal(&mut self, reason: &Error) {
        if self.settings.replay.is_some() {
            self.lacking = Some(format!("a change of it finds no memory: {reason}"));
        }
        self.forget_change();
        self.learnt.notices.push(format!("parts of C stay where they are: {reason}"));
        if let Some(last) = self.decisions.last_mut() {
            last.is_refused = true;
        }
    }
}
