//! The short look at all devices before a run that learns.
//!
//! The learner on the head rank asks for measurements, and all ranks measure them in step. Then the planner decides
//! with times that follow from what was seen, and the learner divides the first step.

use std::collections::BTreeMap;
use std::ops::Range;

use isochron_devices::DeviceInfo;
use isochron_hierarchy::balance::{EndReason, Extent, imbalance};
use isochron_hierarchy::decide::{Decision, Division, apportion_columns};
use isochron_hierarchy::learn::{Adaptive, AdaptivePart, FirstLook, Observed, Tuning};
use isochron_hierarchy::network::Network;
use isochron_hierarchy::predict::messages_s;
use isochron_hierarchy::times::{Sample, Series};
use serde::{Deserialize, Serialize};

use super::task::PlanningTask;
use crate::error::Error;
use crate::plan::place::{ChangeCosts, Placed, Places, RunConditions};
use crate::plan::{Making, Plan, PlannedNode, Problem};
use crate::store::KnownTimes;

/// The looks at the times of a run, at least, and the least and the most steps from one to the next. The panels of the step that
/// a look is about wait for its answer.
const FEWEST_DECISIONS: u64 = 16;
const LEAST_PAUSE: u64 = 4;
const MOST_PAUSE: u64 = 16;

/// Granules of each device's even share, at least.
const FINENESS: u64 = 64;

/// The head rank's knowledge of all devices.
pub(super) struct Looking {
    learner: Adaptive,
    pub look: FirstLook,
    /// The devices of each rank.
    devices: Vec<Range<usize>>,
    /// Elements of C.
    total: u64,
    /// Updates of the measured width.
    steps: u64,
    /// Every time that was measured whole, by device, and the limits of the last request.
    pub seen: Vec<Vec<Series>>,
    limits_s: Vec<Option<f64>>,
}

/// The division with which a multiplication begins.
#[derive(Serialize, Deserialize)]
pub(super) struct FirstDivision {
    pub decision: Decision,
    /// Columns of every rank's devices.
    pub slices: Vec<Vec<usize>>,
    /// The look at the devices, from which the run learns on; `None` if all is decided before it.
    pub look: Option<FirstLook>,
    /// For every rank, `true` if times of its devices fall with the size, and the partitioner needs times that grow.
    pub falls: Vec<bool>,
}

/// Returns the settings for a run of this number of steps and devices.
fn suit(config: Tuning, problem: &Problem, steps: u64, devices: u64) -> Tuning {
    let finest = (problem.m() * problem.n()) as u64 / (FINENESS * devices.max(1));
    let block = (problem.block() * problem.block()) as u64;
    Tuning {
        granule: config.granule.max(block.min(finest)),
        check_every: steps.clamp(LEAST_PAUSE * FEWEST_DECISIONS, MOST_PAUSE * FEWEST_DECISIONS)
            / FEWEST_DECISIONS,
        ..config
    }
}

/// A request for a measurement of a device.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// Elements of C.
    pub units: u64,
    /// Seconds from which its speed has fallen for certain; `None` if it is not expected to fall.
    pub limit_s: Option<f64>,
}

impl Asked {
    /// Returns `true` if these seconds show that its speed has fallen.
    pub fn is_beyond(&self, time_s: f64) -> bool {
        self.limit_s.is_some_and(|limit_s| time_s > limit_s)
    }
}

/// A device as the learner sees it.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct DeviceClass {
    /// Devices of equal names are expected to be alike.
    name: String,
    /// It computes in host memory, of which a plan takes no more than there is: its speed will not fall at some size.
    has_memory: bool,
    /// The cores at full speed that it is likely to be worth.
    likely_cores: Option<f64>,
}

impl DeviceClass {
    pub fn of(device: &DeviceInfo, likely_cores: Option<f64>) -> Self {
        let DeviceInfo { kind, blas, paced, clock, cores, .. } = device;
        Self {
            name: format!("{kind:?} {blas} {paced:?} {}", cores.len()),
            has_memory: !kind.has_own_memory() && clock.is_of_host(),
            likely_cores,
        }
    }
}

/// Describes the devices of all ranks, which share this number of elements.
fn describe_parts(classes: &[Vec<DeviceClass>], total: u64) -> Vec<AdaptivePart> {
    let mut kinds = BTreeMap::new();
    let mut parts = Vec::new();
    for (node, class) in classes
        .iter()
        .enumerate()
        .flat_map(|(node, of_node)| of_node.iter().map(move |class| (node, class)))
    {
        let next = kinds.len();
        parts.push(AdaptivePart {
            node,
            kind: *kinds.entry(&class.name).or_insert(next),
            safe: if class.has_memory { total } else { 0 },
            likely_speed: class.likely_cores,
            ..AdaptivePart::default()
        });
    }
    parts
}

impl Looking {
    /// Starts before the first look, with the classes of every rank's devices and the knowledge of each device.
    pub fn new(
        task: &PlanningTask,
        classes: &[Vec<DeviceClass>],
        known: &[KnownTimes],
    ) -> Result<Self, Error> {
        let problem = &task.problem;
        let steps = problem.k().div_ceil(task.kernel_width.max(1)) as u64;
        let total = (problem.m() * problem.n()) as u64;
        let mut parts = describe_parts(classes, total);
        for (part, known) in parts.iter_mut().zip(known) {
            known.add_to(part);
        }
        let mut devices = Vec::new();
        for class in classes {
            let first = devices.last().map_or(0, |last: &Range<usize>| last.end);
            devices.push(first..first + class.len());
        }
        let look = FirstLook {
            config: suit(task.config.adaptive, problem, steps, parts.len() as u64),
            parts,
            ..FirstLook::default()
        };
        let learner = look.begin(0..look.parts.len(), total, steps, 1.0)?;
        let seen = vec![Vec::new(); look.parts.len()];
        Ok(Self { learner, look, devices, total, steps, seen, limits_s: Vec::new() })
    }

    /// Returns the next measurements of each rank's devices; `None` if enough is known.
    pub fn request(&mut self) -> Result<Option<Vec<Vec<Asked>>>, Error> {
        let Some(units) = self.learner.request_measurement()? else {
            return Ok(None);
        };
        self.limits_s = self.learner.limit_measurement(&units);
        let asked: Vec<Asked> = (units.into_iter().zip(&self.limits_s))
            .map(|(units, &limit_s)| Asked { units, limit_s })
            .collect();
        let devices = self.devices.iter().cloned();
        Ok(Some(devices.map(|devices| asked[devices].to_vec()).collect()))
    }

    pub fn observe(&mut self, seen: &[Vec<Sample>]) -> Result<(), Error> {
        let observed = Observed {
            is_measurement: true,
            burst: self.look.measurements.len() as u64,
            samples: seen.concat(),
        };
        for ((all, sample), &limit_s) in
            (self.seen.iter_mut().zip(&observed.samples)).zip(&self.limits_s)
        {
            let Sample { units, seconds, .. } = *sample;
            // A time beyond its limit follows from updates with few rows of B.
            let is_whole = !Asked { units, limit_s }.is_beyond(seconds);
            all.extend((units > 0 && is_whole).then(|| Series::measured(units, vec![seconds])));
        }
        tracing::debug!(?observed, "looked at all devices");
        self.learner.observe(&observed)?;
        self.look.measurements.push(observed);
        Ok(())
    }

    /// Predicts the nodes' times of an update of such parts of C.
    pub fn predict(&self, task: &PlanningTask, extents: &[Extent]) -> Result<Vec<Sample>, Error> {
        let mut times = Vec::new();
        for (devices, &extent) in self.devices.iter().zip(extents) {
            let (rows, cols) = task.problem.size_in_elements(extent.rows, extent.cols);
            let units = (rows * cols) as u64;
            let (_, time_s) = self.learner.divide_among(devices.clone(), units)?;
            times.push(Sample::measured(units, time_s, task.config.reps, 0.0));
        }
        Ok(times)
    }

    /// Adds each node's seconds of messages in this division, per element of C, to the measured times.
    fn add_messages(&mut self, task: &PlanningTask, division: &Division) {
        let Division::C(layout) = division else {
            return;
        };
        let busy = layout.rects().iter().filter(|rect| !rect.is_empty()).count();
        let nodes = layout.rects().iter().zip(&self.look.byte_s);
        for (devices, (rect, &byte_s)) in self.devices.iter().zip(nodes) {
            let problem = &task.problem;
            let of_part_s = messages_s(problem, task.kernel_width, rect.into(), busy, byte_s);
            let (rows, cols) = problem.size_in_elements(rect.rows, rect.cols);
            let of_element_s = of_part_s / ((rows * cols).max(1) as f64);
            for measured in &mut self.look.measurements {
                for device in devices.clone() {
                    let sample = &mut measured.samples[device];
                    *sample = sample.plus_known(sample.units as f64 * of_element_s);
                }
            }
            for point in
                self.look.parts[devices.clone()].iter_mut().flat_map(|part| &mut part.prior)
            {
                point.t_s += point.d as f64 * of_element_s;
            }
        }
    }

    /// Divides the first step as the planner has decided, within the learner's limits on growth of each device's part.
    pub fn divide_first(
        &mut self,
        task: &PlanningTask,
        mut decision: Decision,
        network: Option<&Network>,
    ) -> Result<FirstDivision, Error> {
        let problem = task.problem;
        // Messages of a node count in the decision, and not in the learner's times: one that got nothing stays idle.
        let decided = Plan::of_division(problem, decision.division.clone(), &[]);
        for (rank, devices) in self.devices.iter().enumerate() {
            if decided.computed(rank).is_empty() {
                let parts = &mut self.look.parts[devices.clone()];
                parts.iter_mut().for_each(|part| part.capacity = Some(0));
            }
        }
        self.add_messages(task, &decision.division);
        let parts = 0..self.look.parts.len();
        self.learner = self.look.begin(parts, self.total, self.steps, 1.0)?;
        let slices = self.slice_by_models(problem, &decision)?;
        let nodes =
            slices.iter().enumerate().map(|(rank, slices)| PlannedNode::unnamed(rank, slices));
        let network = network.cloned();
        let plan =
            Plan::new(problem, decision.clone(), network, nodes.collect(), Making::default());
        let first = match decision.division.shares() {
            None => self.place_first(&plan)?,
            Some(_) => None,
        };
        let Some(Placed { assignment, laid_out }) = first else {
            self.describe_balance(&mut decision, None);
            return Ok(self.begin_with(decision, slices));
        };
        decision.division = Division::C(assignment.layout);
        self.describe_balance(&mut decision, Some(&laid_out.units));
        Ok(self.begin_with(decision, assignment.slices))
    }

    fn begin_with(&self, decision: Decision, slices: Vec<Vec<usize>>) -> FirstDivision {
        FirstDivision {
            decision,
            falls: vec![false; slices.len()],
            slices,
            look: Some(self.look.clone()),
        }
    }

    /// Lets the learner divide the first step; `None` if it has nothing to divide.
    fn place_first(&mut self, plan: &Plan) -> Result<Option<Placed>, Error> {
        let now = plan.assignment();
        let conditions = RunConditions::default();
        let places = Places {
            plan,
            now: &now,
            ranks: 0..plan.n_ranks(),
            conditions: &conditions,
            may_move: true,
            costs: ChangeCosts::default(),
        };
        let (_, first) = places.ask(&mut self.learner)?;
        Ok(first)
    }

    /// Divides the columns of each rank's part among its devices, however little was seen of them.
    fn slice_by_models(
        &self,
        problem: Problem,
        decision: &Decision,
    ) -> Result<Vec<Vec<usize>>, Error> {
        let empty: Vec<Vec<usize>> =
            self.devices.iter().map(|devices| vec![0; devices.len()]).collect();
        let plan = Plan::of_division(problem, decision.division.clone(), &empty);
        let mut slices = Vec::new();
        for (rank, devices) in self.devices.iter().enumerate() {
            let part = plan.computed(rank);
            let (units, _) = self.learner.divide_among(devices.clone(), part.len() as u64)?;
            let weights: Vec<f64> = units.iter().map(|&units| units as f64).collect();
            slices.push(apportion_columns(part.cols, &weights));
        }
        Ok(slices)
    }

    /// Describes the first division, of these elements for each device, instead of the planner's way to it.
    fn describe_balance(&self, decision: &mut Decision, units: Option<&[u64]>) {
        note_prediction(decision, self.look.measurements.len() as u32);
        let Some(balance) = &mut decision.balance else {
            return;
        };
        if let Some(units) = units {
            let times_s = self.learner.predict_times(units);
            let nodes = self.devices.iter().map(|devices| times_s[devices.clone()].iter());
            balance.times_s = nodes.map(|times_s| times_s.copied().fold(0.0, f64::max)).collect();
        }
        balance.imbalance = imbalance(&balance.times_s);
    }
}

/// Says that a balance was predicted, after this number of measurements.
pub(in crate::plan) fn note_prediction(decision: &mut Decision, measurements: u32) {
    if let Some(balance) = &mut decision.balance {
        balance.iterations = measurements;
        balance.converged = false;
        balance.why = EndReason::Predicted;
        balance.history.clear();
    }
}
