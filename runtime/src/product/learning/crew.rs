//! The ranks that divide the same steps, and what is learnt of their devices.

use std::ops::Range;

use isochron_hierarchy::learn::{Adaptive, AdaptiveError, Observed, Request};
use isochron_hierarchy::times::Series;

use super::learnt::{Learnt, LearntChange, LearntDevice, LearntDrift};
use crate::error::Error;
use crate::plan::Assignment;
use crate::plan::Plan;
use crate::plan::place::Places;
use crate::product::seen_step::SeenStep;

/// Steps that count as one burst of measurements, which share disturbances.
const BURST: u64 = 16;

/// Ranks that divide the same steps: all if C is divided, and each alone if k is.
pub(super) struct Crew {
    pub ranks: Range<usize>,
    learner: Adaptive,
    /// Number of the burst of measurements, and the steps in it.
    burst: (u64, u64),
    /// The division that the last change leads to, until it was seen.
    ahead: Option<Vec<u64>>,
    /// The division of the steps seen last; empty before the first.
    now: Vec<u64>,
    changes: Vec<MadeChange>,
    /// For each division of the run, its steps and their seconds.
    spent: Vec<(u64, f64)>,
    /// Steps with times that nothing can be learnt from, and the first of them.
    unusable: (u64, String),
    /// The times of each device's updates, by size, and those of the first one in each division, which finds cold caches.
    steady: Vec<Vec<Series>>,
    first: Vec<Vec<Series>>,
    /// Devices whose cores something else had in some step.
    stopped: Vec<bool>,
    /// The division of the last update that was kept.
    kept: Vec<u64>,
}

/// A change, with the divisions before and after it.
struct MadeChange {
    change: LearntChange,
    from: Vec<u64>,
    to: Vec<u64>,
}

/// Returns the number of steps of these ranks.
fn count_steps(plan: &Plan, ranks: &Range<usize>) -> usize {
    ranks.clone().map(|rank| plan.steps(rank)).max().unwrap_or(0)
}

impl Crew {
    /// Returns the number of its steps.
    pub fn count_steps(&self, plan: &Plan) -> usize {
        count_steps(plan, &self.ranks)
    }

    /// Begins to learn of these ranks, whose devices are these of all `parts`.
    pub fn begin(plan: &Plan, ranks: Range<usize>, parts: Range<usize>) -> Result<Self, Error> {
        let look = plan.look().cloned().unwrap_or_default();
        let problem = plan.problem();
        let total = problem.m() as u64 * problem.n() as u64;
        let steps = count_steps(plan, &ranks) as u64;
        let factor = plan.panel() as f64 / plan.decision().kernel_width as f64;
        let devices = parts.len();
        let learner = look.begin(parts, total, steps, factor)?;
        Ok(Self {
            steady: vec![Vec::new(); devices],
            first: vec![Vec::new(); devices],
            stopped: vec![false; devices],
            kept: Vec::new(),
            ranks,
            learner,
            burst: (look.measurements.len() as u64, 0),
            ahead: None,
            now: Vec::new(),
            changes: Vec::new(),
            spent: vec![(0, 0.0)],
            unusable: (0, String::new()),
        })
    }

    /// Learns from the steps of all ranks since the last decision.
    pub fn observe(&mut self, plan: &Plan, ranks: &[Vec<SeenStep>]) -> Result<(), AdaptiveError> {
        for of_step in join_steps(&ranks[self.ranks.clone()]) {
            match self.read_step(plan, &of_step) {
                None => self.learner.skip_steps(1),
                Some(observed) => {
                    self.keep_times(&observed);
                    self.learn(&observed)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps the times of the steps that no decision follows.
    pub fn keep_last_steps(&mut self, plan: &Plan, ranks: &[Vec<SeenStep>]) {
        for of_step in join_steps(&ranks[self.ranks.clone()]) {
            if let Some(observed) = self.read_step(plan, &of_step) {
                self.keep_times(&observed);
            }
        }
    }

    /// Keeps the times of a step for later runs, unless something else had a device's cores.
    fn keep_times(&mut self, observed: &Observed) {
        let units = observed.list_units();
        let kept = if self.kept == units { &mut self.steady } else { &mut self.first };
        self.kept = units;
        let samples = observed.samples.iter().enumerate();
        for (device, sample) in samples.filter(|(_, sample)| sample.units > 0) {
            if sample.is_disturbed() {
                self.stopped[device] = true;
            } else {
                Series::add_time(&mut kept[device], sample.units, sample.seconds);
            }
        }
    }

    /// Returns the times of each device's steps; those of first steps, if a short run had no others.
    pub fn list_series(&self) -> Vec<Vec<Series>> {
        self.steady
            .iter()
            .zip(&self.first)
            .map(|(steady, first)| if steady.is_empty() { first } else { steady }.clone())
            .collect()
    }

    /// Returns `true` for each device whose cores something else had in some step.
    pub fn list_stopped(&self) -> Vec<bool> {
        self.stopped.clone()
    }

    fn learn(&mut self, observed: &Observed) -> Result<(), AdaptiveError> {
        self.learner.observe(observed)?;
        self.now = observed.list_units();
        let (burst, steps) = self.burst;
        self.burst = match steps + 1 {
            BURST => (burst + 1, 0),
            steps => (burst, steps),
        };
        if let Some((steps, seconds)) = self.spent.last_mut() {
            *steps += 1;
            let times_s = observed.samples.iter().map(|sample| sample.seconds);
            *seconds += times_s.fold(0.0, f64::max);
        }
        Ok(())
    }

    /// Returns the times of a step; `None` for one of other panels, of a division before the last change, or with
    /// unusable times.
    fn read_step(&mut self, plan: &Plan, ranks: &[&SeenStep]) -> Option<Observed> {
        if ranks.iter().any(|step| step.k != plan.panel()) {
            return None;
        }
        let mut samples = Vec::new();
        for (rank, step) in self.ranks.clone().zip(ranks) {
            for (device, sample) in step.samples.iter().enumerate() {
                let elements = step.count_elements(sample);
                let usable = sample.seconds > 0.0 && sample.seconds.is_finite();
                if elements > 0 && !usable {
                    self.note_unusable(plan, rank, device, sample.seconds);
                    return None;
                }
                samples.push(sample.counted_as(elements));
            }
        }
        let observed = Observed { is_measurement: false, burst: self.burst.0, samples };
        if self.ahead.as_ref().is_some_and(|ahead| *ahead != observed.list_units()) {
            return None;
        }
        if self.ahead.take().is_some() {
            self.burst = (self.burst.0 + 1, 0);
            self.spent.push((0, 0.0));
        }
        Some(Observed { burst: self.burst.0, ..observed })
    }

    fn note_unusable(&mut self, plan: &Plan, rank: usize, device: usize, time_s: f64) {
        self.unusable.0 += 1;
        if self.unusable.0 == 1 {
            let node = &plan.nodes()[rank];
            let name = &node.devices[device].name;
            self.unusable.1 = format!("device {name} of rank {rank} gave {time_s} s for a step");
            tracing::warn!(rank, device = name, time_s, "no time to learn from");
        }
    }

    /// Decides on the steps from `step` of the run on. Returns the assignment to change to, if any, and the steps until
    /// the next decision.
    pub fn decide(
        &mut self,
        places: &Places<'_>,
        step: usize,
    ) -> Result<(Option<Assignment>, u64), AdaptiveError> {
        if self.now.is_empty() {
            return Ok((None, 1));
        }
        let (request, placed) = places.ask(&mut self.learner)?;
        let Request::Steps { count, .. } = request else {
            return Ok((None, u64::MAX));
        };
        let change = self.learner.changes().last();
        let change = change.filter(|change| change.units != self.now);
        let Some((change, placed)) = change.zip(placed) else {
            return Ok((None, count));
        };
        self.changes.push(MadeChange {
            change: LearntChange {
                step,
                rank: (self.ranks.len() == 1).then_some(self.ranks.start),
                why: change.why,
                moves_c: placed.assignment.layout != places.now.layout,
                expected_cost_s: change.cost_s,
                cost_s: 0.0,
                expected_saving_s: change.saving_s,
                saved_s: 0.0,
            },
            from: self.now.clone(),
            to: change.units.clone(),
        });
        self.ahead = Some(change.units.clone());
        Ok((Some(placed.assignment), count))
    }

    /// Notes the seconds of the last change, and returns its expected cost.
    pub fn note_cost(&mut self, seconds: f64) -> Option<(bool, f64)> {
        let change = &mut self.changes.last_mut()?.change;
        if change.cost_s == 0.0 {
            change.cost_s = seconds;
        }
        Some((change.moves_c, change.expected_cost_s))
    }

    /// Forgets the last change, which found no memory.
    pub fn forget_change(&mut self) {
        if self.ahead.take().is_some() {
            self.changes.pop();
        }
    }

    /// Adds what was learnt of these ranks.
    pub fn add_to(&self, learnt: &mut Learnt, plan: &Plan) {
        let last_s = self.longest(&self.now);
        for &(steps, seconds) in &self.spent {
            learnt.late_s += (seconds - steps as f64 * last_s).max(0.0);
        }
        for (index, made) in self.changes.iter().enumerate() {
            let steps = self.spent.get(index + 1).map_or(0, |spent| spent.0);
            learnt.changes.push(LearntChange {
                saved_s: steps as f64 * (self.longest(&made.from) - self.longest(&made.to)),
                ..made.change.clone()
            });
        }
        if self.unusable.0 > 0 {
            let (count, first) = &self.unusable;
            learnt.notices.push(format!("{first}: nothing was learnt from {count} such steps"));
        }
        self.add_devices(learnt, plan);
    }

    fn add_devices(&self, learnt: &mut Learnt, plan: &Plan) {
        let names = self.ranks.clone().flat_map(|rank| {
            plan.nodes()[rank].devices.iter().map(move |device| (rank, &device.name))
        });
        let names: Vec<(usize, &String)> = names.collect();
        for drift in self.learner.drifts() {
            let (rank, device) = names[drift.part];
            learnt.drifts.push(LearntDrift {
                rank,
                host: plan.nodes()[rank].host.clone(),
                device: device.clone(),
                step: drift.step as usize,
                factor: drift.factor,
            });
        }
        let models = self.learner.describe_models();
        let devices = names.into_iter().zip(models).map(|((rank, name), model)| LearntDevice {
            rank,
            name: name.clone(),
            model,
        });
        learnt.devices.extend(devices);
    }

    fn longest(&self, units: &[u64]) -> f64 {
        self.learner.predict_times(units).into_iter().fold(0.0, f64::max)
    }
}

/// Joins the steps of ranks, as many as all of them have.
fn join_steps(ranks: &[Vec<SeenStep>]) -> Vec<Vec<&SeenStep>> {
    let steps = ranks.iter().map(Vec::len).min().unwrap_or(0);
    (0..steps).map(|step| ranks.iter().map(|steps| &steps[step]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::layout::slice_cols;
    use isochron_hierarchy::learn::{AdaptivePart, FirstLook};
    use isochron_hierarchy::times::{Quality, Sample};

    use super::*;
    use crate::plan::Problem;

    /// Returns a plan of two ranks with a device each, which leaves its division to the run.
    fn make_plan() -> Plan {
        let problem = Problem::new(64, 64, 64, 8).unwrap();
        let layout = slice_cols(8, &[4, 4]).unwrap();
        Plan::with_layout(problem, layout, &[vec![32], vec![32]]).unwrap().with_look(Some(
            FirstLook { parts: vec![AdaptivePart::default(); 2], ..FirstLook::default() },
        ))
    }

    fn make_step(plan: &Plan, seconds: f64) -> SeenStep {
        SeenStep { k: plan.panel(), rows: 64, samples: vec![Sample::measured(32, seconds, 1, 0.0)] }
    }

    fn list_seconds(series: &[Series]) -> Vec<Vec<f64>> {
        series.iter().map(|of| of.seconds.clone()).collect()
    }

    #[test]
    fn the_last_steps_are_kept_but_not_those_in_which_a_device_was_stopped() {
        let plan = make_plan();
        let mut crew = Crew::begin(&plan, 0..2, 0..2).unwrap();
        let times_s = [4.0, 1.0, 9.0, 1.1];
        let first = times_s.map(|seconds| make_step(&plan, seconds));
        let mut second = first.clone();
        second[2].samples[0].quality = Quality::Disturbed;
        crew.keep_last_steps(&plan, &[first.to_vec(), second.to_vec()]);
        assert_eq!(crew.list_stopped(), [false, true]);
        let kept = crew.list_series();
        assert_eq!(list_seconds(&kept[0]), [[1.0, 9.0, 1.1]]);
        assert_eq!(list_seconds(&kept[1]), [[1.0, 1.1]]);
    }

    #[test]
    fn first_steps_count_in_the_shortest_runs_alone() {
        let plan = make_plan();
        let mut crew = Crew::begin(&plan, 0..2, 0..2).unwrap();
        let mut keep = |seconds| {
            let step = make_step(&plan, seconds);
            crew.keep_last_steps(&plan, &[vec![step.clone()], vec![step]]);
            list_seconds(&crew.list_series()[0])
        };
        assert_eq!(keep(3.0), [[3.0]]);
        assert_eq!(keep(1.0), [[1.0]]);
    }
}
