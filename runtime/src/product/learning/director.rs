//! The director that learns.

use std::time::Instant;

use isochron_hierarchy::times::Series;

use super::crew::Crew;
use super::learnt::Learnt;
use crate::error::Error;
use crate::plan::Assignment;
use crate::plan::Plan;
use crate::plan::place::{ChangeCosts, Places, RunConditions};
use crate::product::director::{Directive, Director, StepTimes};
use crate::product::seen_step::SeenStep;

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
    conditions: RunConditions,
    learnt: Learnt,
}

impl<'p> LearningDirector<'p> {
    /// Begins with the plan, and conditions that decide on the cost of changes, on the head rank; the other ranks need no
    /// times.
    ///
    /// # Errors
    /// Returns [`Error::Adaptive`] if the plan's [first look](Plan::look) is not one at its devices.
    pub fn new(plan: &'p Plan, conditions: RunConditions) -> Result<Self, Error> {
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
            conditions,
            learnt: Learnt::default(),
        })
    }

    /// Returns the times of the steps of all devices, in the order of the ranks. A device that had no work has none.
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
        for crew in &self.crews {
            let mut seen = of_crew(crew).into_iter();
            for devices in &mut all[crew.ranks.clone()] {
                devices.iter_mut().zip(&mut seen).for_each(|(device, seen)| *device = seen);
            }
        }
        all.concat()
    }

    /// Returns what was learnt in a run with `changing_s` seconds of changes.
    pub fn finish(self, changing_s: f64) -> Learnt {
        let mut learnt = Learnt { changing_s, ..self.learnt };
        for crew in &self.crews {
            crew.add_to(&mut learnt, self.plan);
        }
        learnt.changes.sort_by_key(|change| change.step);
        learnt
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
                conditions: &self.conditions,
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
        let directive = self.learn(at)?;
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
        self.may_move = false;
        self.crews.iter_mut().for_each(Crew::forget_change);
        self.learnt.notices.push(format!("parts of C stay where they are: {reason}"));
    }
}
