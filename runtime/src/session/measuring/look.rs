//! The short look at all devices before a run that learns.
//!
//! The learner on the head rank asks for measurements, and all ranks measure them in step. Then the planner decides with times that
//! follow from what was seen, and the learner divides the first step.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use isochron_devices::{DeviceInfo, DeviceKind, Element, JobShape};
use isochron_hierarchy::adaptive::{Adaptive, AdaptiveConfig, AdaptivePart, FirstLook, Observed};
use isochron_hierarchy::balance::{EndReason, Extent, Observation, imbalance};
use isochron_hierarchy::decide::{Decision, Division, Work};
use isochron_hierarchy::layout::arrange;
use serde::{Deserialize, Serialize};

use super::node::NodeMeasurer;
use crate::comm::{MeasureRounds, agree};
use crate::error::Error;
use crate::multiply::{
    ChangeCosts, Making, Placed, Places, Plan, PlannedNode, Problem, RunConditions,
};
use crate::session::known::JobStore;
use crate::session::memory;

/// The fewest looks at the times of a run, and the least and the most steps from one to the next.
const FEWEST_DECISIONS: u64 = 16;
const LEAST_PAUSE: u64 = 4;
const MOST_PAUSE: u64 = 16;

/// Time up to which a look is repeated: one alone may be off by more than a whole block column of many layouts.
const SHORT_LOOK: Duration = Duration::from_millis(30);

/// Granules of each device's even share, at least.
const FINENESS: u64 = 64;

/// What the head rank knows of all devices.
pub(super) struct Looking {
    learner: Adaptive,
    pub look: FirstLook,
    /// The devices of each rank.
    devices: Vec<Range<usize>>,
    /// Elements of C, and updates of the measured width.
    total: (u64, u64),
    /// What is unusual about earlier times, one line each.
    pub words: Vec<String>,
}

/// The first division of a run that learns: the decision, the columns of every rank's devices, and what was seen of these.
pub(super) type FirstDivision = (Decision, Vec<Vec<usize>>, FirstLook);

/// Returns the settings for a run of so many steps by so many devices.
fn suit(config: AdaptiveConfig, work: &Work, steps: u64, devices: u64) -> AdaptiveConfig {
    let finest = (work.m * work.n) as u64 / (FINENESS * devices.max(1));
    let block = (work.block * work.block) as u64;
    AdaptiveConfig {
        granule: config.granule.max(block.min(finest)),
        check_every: steps.clamp(
            LEAST_PAUSE * FEWEST_DECISIONS,
            MOST_PAUSE * FEWEST_DECISIONS,
        ) / FEWEST_DECISIONS,
        ..config
    }
}

/// What a device is to the learner.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct DeviceClass {
    /// Devices of equal names are expected to be alike.
    name: String,
    /// It computes in host memory, of which a plan takes no more than there is: its speed will not fall at some size.
    has_memory: bool,
    /// The cores at full speed that it is likely to be worth.
    likely_cores: Option<f64>,
}

impl DeviceClass {
    fn of(device: &DeviceInfo, likely_cores: Option<f64>) -> Self {
        let DeviceInfo {
            kind,
            blas,
            paced,
            clock,
            cores,
            ..
        } = device;
        Self {
            name: format!("{kind:?} {blas} {paced:?} {}", cores.len()),
            has_memory: *kind == DeviceKind::Cpu && clock.is_of_host(),
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
    /// Looks at nothing yet. `classes` are those of every rank's devices; `known` is the store, with the problem.
    fn new(
        work: &Work,
        classes: &[Vec<DeviceClass>],
        known: Option<(&JobStore, &Problem)>,
    ) -> Result<Self, Error> {
        let steps = work.k.div_ceil(work.kernel_width.max(1)) as u64;
        let total = ((work.m * work.n) as u64, steps);
        let mut parts = describe_parts(classes, total.0);
        let words =
            known.map(|(store, problem)| store.add_known(&mut parts, problem, work.kernel_width));
        let mut devices = Vec::new();
        for class in classes {
            let first = devices.last().map_or(0, |last: &Range<usize>| last.end);
            devices.push(first..first + class.len());
        }
        let look = FirstLook {
            config: suit(work.config.adaptive, work, steps, parts.len() as u64),
            parts,
            ..FirstLook::default()
        };
        let learner = look.begin(0..look.parts.len(), total, 1.0)?;
        Ok(Self {
            learner,
            look,
            devices,
            total,
            words: words.unwrap_or_default(),
        })
    }

    /// Returns the elements that each rank's devices shall measure; `None` if enough is known.
    fn request(&mut self) -> Result<Option<Vec<Vec<u64>>>, Error> {
        let Some(units) = self.learner.request_measurement()? else {
            return Ok(None);
        };
        let devices = self.devices.iter().cloned();
        Ok(Some(
            devices.map(|devices| units[devices].to_vec()).collect(),
        ))
    }

    fn observe(&mut self, seen: &[Vec<(u64, f64)>]) -> Result<(), Error> {
        let (units, times_s) = seen.iter().flatten().copied().unzip();
        let observed = Observed {
            is_measurement: true,
            burst: self.look.measurements.len() as u64,
            units,
            times_s,
        };
        tracing::debug!(?observed, "looked at all devices");
        self.learner.observe(&observed)?;
        self.look.measurements.push(observed);
        Ok(())
    }

    /// Predicts the nodes' times of an update of such parts of C.
    pub fn predict(&self, work: &Work, extents: &[Extent]) -> Result<Vec<Observation>, Error> {
        let mut times = Vec::new();
        for (devices, &extent) in self.devices.iter().zip(extents) {
            let (rows, cols) = work.size_in_elements(extent);
            let (_, time_s) = self
                .learner
                .divide_among(devices.clone(), (rows * cols) as u64)?;
            times.push(Observation::measured(time_s, work.reps, 0.0));
        }
        Ok(times)
    }

    /// Adds the seconds of messages to those of the measurements: what each element of C costs its node in this division.
    fn add_messages(&mut self, work: &Work, division: &Division) {
        let Division::C(layout) = division else {
            return;
        };
        let busy = layout
            .rects()
            .iter()
            .filter(|rect| !rect.is_empty())
            .count();
        let nodes = layout.rects().iter().zip(&self.look.byte_s);
        for (devices, (rect, &byte_s)) in self.devices.iter().zip(nodes) {
            let extent = Extent::from(rect);
            let (rows, cols) = work.size_in_elements(extent);
            let of_element_s =
                work.messages_s(byte_s, extent, busy) / ((rows * cols).max(1) as f64);
            for measured in &mut self.look.measurements {
                for device in devices.clone() {
                    measured.times_s[device] += measured.units[device] as f64 * of_element_s;
                }
            }
            let parts = self.look.parts[devices.clone()].iter_mut();
            for point in parts.flat_map(|part| &mut part.prior) {
                point.t_s += point.d as f64 * of_element_s;
            }
        }
    }

    /// Divides the first step as the planner has decided, no device further from what was seen than it may be.
    pub fn divide_first(
        &mut self,
        work: &Work,
        problem: Problem,
        mut decision: Decision,
    ) -> Result<FirstDivision, Error> {
        // Messages of a node count in the decision, and not in the learner's times: one that got nothing stays idle.
        let decided = Plan::of_division(problem, decision.division.clone(), &[]);
        for (rank, devices) in self.devices.iter().enumerate() {
            if decided.computed(rank).is_empty() {
                let parts = &mut self.look.parts[devices.clone()];
                parts.iter_mut().for_each(|part| part.capacity = Some(0));
            }
        }
        self.add_messages(work, &decision.division);
        self.learner = self.look.begin(0..self.look.parts.len(), self.total, 1.0)?;
        let slices = self.slice_by_models(problem, &decision)?;
        let nodes = slices
            .iter()
            .enumerate()
            .map(|(rank, slices)| PlannedNode::unnamed(rank, slices));
        let plan = Plan::new(
            problem,
            decision.clone(),
            None,
            nodes.collect(),
            Making::default(),
        );
        let first = match decision.division.shares() {
            None => self.place_first(&plan)?,
            Some(_) => None,
        };
        let Some(Placed {
            assignment,
            laid_out,
        }) = first
        else {
            self.describe_balance(&mut decision, None);
            return Ok((decision, slices, self.look.clone()));
        };
        decision.division = Division::C(assignment.layout);
        self.describe_balance(&mut decision, Some(&laid_out.units));
        Ok((decision, assignment.slices, self.look.clone()))
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
        let empty: Vec<Vec<usize>> = self
            .devices
            .iter()
            .map(|devices| vec![0; devices.len()])
            .collect();
        let plan = Plan::of_division(problem, decision.division.clone(), &empty);
        let mut slices = Vec::new();
        for (rank, devices) in self.devices.iter().enumerate() {
            let part = plan.computed(rank);
            let (units, _) = self
                .learner
                .divide_among(devices.clone(), part.len() as u64)?;
            let weights: Vec<f64> = units.iter().map(|&units| units as f64).collect();
            slices.push(super::node::apportion_columns(part.cols, &weights));
        }
        Ok(slices)
    }

    /// Describes the first division, of these elements for each device, instead of the planner's way to it.
    fn describe_balance(&self, decision: &mut Decision, units: Option<&[u64]>) {
        let Some(balance) = &mut decision.balance else {
            return;
        };
        if let Some(units) = units {
            let times_s = self.learner.predict_times(units);
            let nodes = self
                .devices
                .iter()
                .map(|devices| times_s[devices.clone()].iter());
            balance.times_s = nodes
                .map(|times_s| times_s.copied().fold(0.0, f64::max))
                .collect();
        }
        balance.imbalance = imbalance(&balance.times_s);
        balance.iterations = self.look.measurements.len() as u32;
        balance.converged = false;
        balance.why = EndReason::Predicted;
        balance.history.clear();
    }
}

impl<T: Element> NodeMeasurer<'_, T> {
    /// Takes a short look at the devices of all ranks. Returns what was seen, on the head rank.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn look_at_all(
        &mut self,
        store: Option<&JobStore>,
        problem: &Problem,
    ) -> Result<Option<Looking>, Error> {
        let comm = self.comm;
        let likely_cores = self.team.likely_cores();
        let infos = self.team.infos().iter().zip(likely_cores);
        let mine: Vec<DeviceClass> = infos
            .map(|(info, likely_cores)| DeviceClass::of(info, likely_cores))
            .collect();
        let classes = comm.gather(&mine)?;
        let known = store.map(|store| (store, problem));
        let head = (comm.rank() == 0).then(|| Looking::new(&self.work, &classes, known));
        let mut head = agree(comm, head.transpose())?;
        loop {
            let request = head.as_mut().map(Looking::request);
            let request = agree(comm, request.transpose())?;
            let Some(units) = comm.share(0, request)? else {
                return Ok(head);
            };
            let seen = comm.gather(&self.look(&units[comm.rank()])?)?;
            let observed = head.as_mut().map_or(Ok(()), |head| head.observe(&seen));
            agree(comm, observed)?;
        }
    }

    /// Measures each device once or twice, all at the same time, on about so many elements of C. Returns the elements and the
    /// shorter seconds, since disturbances only lengthen times.
    ///
    /// # Collective
    /// All ranks, each with its own elements.
    fn look(&mut self, asked: &[u64]) -> Result<Vec<(u64, f64)>, Error> {
        self.note_iteration();
        let rows = self.find_look_rows(asked.iter().sum());
        let columns = asked.iter().map(|&units| match units {
            0 => 0,
            units => (units / rows as u64).max(1),
        });
        let columns: Vec<u64> = columns.collect();
        let slices: Vec<usize> = columns.iter().map(|&columns| columns as usize).collect();
        let depth = self.depth(false);
        let job = JobShape::of::<T>((rows, slices.iter().sum()), depth);
        memory::prepare_operands(self.comm, self.team, &mut self.operands, (&job, &slices))?;
        let mut rounds = MeasureRounds::new(self.comm);
        let (mut asked, mut begin) = (0, Instant::now());
        let outcome = self.repeat_updates(rows, depth, &columns, &mut |_needed| {
            let is_needed = asked == 0 || (asked == 1 && begin.elapsed() < SHORT_LOOK);
            asked += 1;
            let is_asked = rounds.ask_for_round(is_needed);
            begin = Instant::now();
            is_asked
        });
        while rounds.ask_for_round(false) {}
        let measured = agree(self.comm, outcome)?;
        let seen = columns.iter().zip(measured);
        Ok(seen
            .map(|(&columns, measured)| {
                let time_s = if measured.is_bound() {
                    measured.t_s
                } else {
                    measured.fastest_s
                };
                (columns * rows as u64, time_s)
            })
            .collect())
    }

    /// Returns the height of a look at so many elements: a quarter of this node's part in an even layout, or more if its
    /// columns would be more than those of C.
    fn find_look_rows(&self, elements: u64) -> usize {
        let (rows, cols) = self.work.c_blocks();
        let even = arrange(
            self.work.config.layout,
            &vec![1.0; self.work.nodes],
            rows,
            cols,
        );
        let rect = even
            .ok()
            .and_then(|layout| layout.rects().get(self.comm.rank()).copied());
        let rows = rect
            .filter(|rect| !rect.is_empty())
            .map_or(rows, |rect| rect.rows);
        let (rows, _) = self.work.size_in_elements(Extent { rows, cols });
        let least = (elements as usize).div_ceil(self.work.n.max(1));
        rows.div_ceil(4).max(least).max(1)
    }
}
