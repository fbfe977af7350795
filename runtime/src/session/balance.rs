//! INPA over IDPA, fed with measurements: the head rank steps the node machine, every node its device machine.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 3.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use isochron_devices::measure::{InStep, Operands};
use isochron_devices::{
    Depth, DeviceTeam, MeasureConfig, MeasureOutcome, MeasureTally, Measurement, measure_team,
};
use isochron_hierarchy::balance::{
    BalanceConfig, DeviceBalance, Extent, Idpa, Inpa, NodeBalance, Observation, Step, Strategy,
};
use isochron_hierarchy::layout::Layout;
use isochron_hierarchy::partition::apportion;
use serde::{Deserialize, Serialize};

use super::memory;
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::Distribution;
use crate::multiply::{Found, Plan, Problem};

/// What the head rank tells the others to do next.
#[derive(Serialize, Deserialize)]
enum Order {
    /// Balance your devices on a sub-matrix of this size, `0 × 0` for no work, and tell how long its update takes.
    Measure(Vec<Extent>),
    /// The nodes are balanced.
    Done(Box<NodeBalance>),
}

/// Balances nodes and devices for one problem.
pub(super) struct Balancer<'a> {
    pub comm: &'a dyn Comm,
    pub team: &'a mut DeviceTeam,
    /// How often a measurement is repeated, as long as the run is long enough for it.
    pub measure: MeasureConfig,
    pub config: BalanceConfig,
    pub problem: Problem,
    /// Inner dimension of the updates that are measured.
    pub kernel_width: usize,
    pub operands: Operands,
    /// How the measurements of this node went.
    pub measured: MeasureTally,
}

/// A measurement as the balancing machines take it: the one place where it changes hands.
///
/// A measurement that was cut off is handed over as a floor.
fn observation(measurement: &Measurement) -> Observation {
    if measurement.bounded() {
        Observation::at_least(measurement.t_s)
    } else {
        Observation::measured(measurement.t_s, measurement.reps, measurement.ci_s)
            .costing(measurement.cost_s)
    }
}

/// Logs a measurement, and what is wrong with it more loudly.
fn tell(device: &str, rows: usize, columns: u64, measurement: &Measurement) {
    let Measurement {
        t_s,
        ci_s,
        reps,
        outliers,
        normal,
        outcome,
        ..
    } = *measurement;
    tracing::debug!(device, rows, columns, t_s, ci_s, reps, outliers, ?normal, %outcome, "measured");
    match outcome {
        MeasureOutcome::Bounded => {
            tracing::warn!(
                device,
                rows,
                columns,
                at_least_s = t_s,
                "hopeless: not measured"
            );
        }
        MeasureOutcome::OutOfRepetitions | MeasureOutcome::OutOfTime => {
            tracing::info!(device, rows, columns, t_s, ci_s, %outcome, "the precision was not reached");
        }
        MeasureOutcome::Idle | MeasureOutcome::Precise => {}
    }
    if normal == Some(false) {
        tracing::info!(
            device,
            rows,
            columns,
            reps,
            "the times are not normally distributed"
        );
    }
}

/// Takes the nodes' times into their models and divides anew, on the head rank.
fn partition(head: Option<&mut Inpa>, times: &[Observation]) -> Result<(), Error> {
    let Some(machine) = head else {
        return Ok(());
    };
    let span = tracing::info_span!("partition");
    let _entered = span.enter();
    tracing::debug!(?times, "the nodes' times");
    Ok(machine.observe(times)?)
}

/// Part of the multiplication that one measurement may take.
pub(super) const MEASUREMENT_SHARE: f64 = 0.035;

/// Fewer repetitions where the run is too short to win back the time that more would take. A repetition is one of the run's
/// updates, or `updates` of them where the team has a device that gathers so many.
fn affordable(measure: MeasureConfig, steps: u64, updates: usize) -> MeasureConfig {
    let reps = (MEASUREMENT_SHARE * steps as f64 / updates as f64) as u32;
    let max_reps = reps.clamp(measure.min_reps, measure.max_reps);
    MeasureConfig {
        max_reps,
        ..measure
    }
}

/// The rectangle of a node: sessions refuse layouts that give it two.
fn only(zone: &[Extent]) -> Extent {
    zone.first().copied().unwrap_or_default()
}

/// The update `C += A·B` that a node measures, in elements: C is `rows × cols`, A has `width` columns.
#[derive(Debug, Clone, Copy)]
struct Update {
    rows: usize,
    cols: usize,
    width: usize,
}

/// The repetitions that all nodes make in step.
///
/// Before each one every rank asks, once, and says whether it needs it; there is one as long as anybody does. When
/// nobody does the rounds are over, which all ranks learn from the same question, and none asks again.
struct Rounds<'a> {
    comm: &'a dyn Comm,
    over: bool,
}

impl<'a> Rounds<'a> {
    fn new(comm: &'a dyn Comm) -> Self {
        Self { comm, over: false }
    }

    /// Whether there is another round.
    ///
    /// # Collective
    /// All ranks, until it is false.
    fn another(&mut self, needed: bool) -> bool {
        if !self.over {
            let mut needing = [u64::from(needed)];
            self.comm.sum_u64(&mut needing);
            self.over = needing[0] == 0;
        }
        !self.over
    }
}

/// What IDPA found for the sub-matrices of this node, and the relative speeds of its devices in the last one.
#[derive(Default)]
struct NodeMemory {
    found: HashMap<(u64, u64), DeviceBalance>,
    prior: Option<Vec<f64>>,
}

impl Balancer<'_> {
    /// Measures until the nodes are balanced.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn plan(mut self) -> Result<Plan, Error> {
        let start = Instant::now();
        let (rows, cols) = self.problem.c_blocks();
        let mut head = if self.comm.rank() == 0 {
            Some(Inpa::new(self.config, self.comm.size(), rows, cols))
        } else {
            None
        };
        let mut memory = NodeMemory::default();
        let balance = loop {
            match self.next_order(head.as_ref())? {
                Order::Done(balance) => break *balance,
                Order::Measure(extents) => {
                    let extent = extents[self.comm.rank()];
                    let mine = self.node_time(extent, &mut memory)?;
                    let all = self.gather(&mine);
                    agree(self.comm, partition(head.as_mut(), &all))?;
                }
            }
        };
        let layout = Layout::try_from(balance.zones.clone());
        let layout = Arc::new(layout.map_err(|error| Error::Message(error.to_string()))?);
        let slices = self.slices(&layout, &memory);
        // The matrices are to have this memory.
        drop(std::mem::take(&mut self.operands));
        let balance_s = start.elapsed().as_secs_f64();
        let found = Found {
            layout,
            slices,
            balance,
            balance_s,
            measured: self.measured,
            kernel_width: self.kernel_width,
        };
        let plan = Plan::balanced(self.problem, found);
        let needed = self.memory_needed(&plan);
        let needed = agree(self.comm, needed)?;
        memory::check(self.comm, needed)?;
        Ok(plan)
    }

    /// Bytes that this rank needs for a plan: its own and its devices'.
    fn memory_needed(&mut self, plan: &Plan) -> Result<u64, Error> {
        let depth = self.depth(plan.panel());
        let rows = plan.c().part(self.comm.rank()).rows;
        let devices = self.team.memory_needed(rows, plan.slices(), depth)?;
        Ok(plan.memory_bytes(self.comm.rank()).saturating_add(devices))
    }

    /// The head machine's next step, on every rank.
    fn next_order(&self, head: Option<&Inpa>) -> Result<Order, Error> {
        let mut bytes = head.map_or_else(Vec::new, |machine| {
            let order = match machine.step() {
                Step::Measure(zones) => {
                    Order::Measure(zones.iter().map(|zone| only(zone)).collect())
                }
                Step::Done(balance) => Order::Done(Box::new(balance)),
            };
            serde_json::to_vec(&order).unwrap_or_default()
        });
        self.comm.broadcast(0, &mut bytes);
        serde_json::from_slice(&bytes).map_err(|error| Error::Message(error.to_string()))
    }

    /// Runs IDPA on a sub-matrix of this node; its time is the slowest device's.
    ///
    /// All nodes repeat their updates in step, as the multiplication will: a node that is done goes on until the last
    /// one is. So what nodes share (a host's memory bandwidth and caches) is loaded as it will be, and the
    /// time that the fast ones would wait makes their means surer.
    ///
    /// # Collective
    /// All ranks, each with its own extent.
    fn node_time(&mut self, extent: Extent, memory: &mut NodeMemory) -> Result<Observation, Error> {
        let (rows, cols) = self.elements(extent);
        let width = self.kernel_width;
        memory::check(self.comm, self.operands.missing_bytes(rows, cols, width))?;
        // Writing matrices would disturb whoever measures already.
        let prepared = self.operands.prepare(rows, cols, width);
        agree(self.comm, prepared.map_err(Error::from))?;
        let update = Update { rows, cols, width };
        let mut rounds = Rounds::new(self.comm);
        let outcome = self
            .balance_devices(update, memory.prior.as_deref(), &mut rounds)
            .and_then(|balance| self.accompany(update, balance, &mut rounds));
        // A node without work, or one that failed, takes part too.
        while rounds.another(false) {}
        let balance = agree(self.comm, outcome)?;
        let observed = balance.observation();
        if cols > 0 && rows > 0 {
            memory.prior = Some(balance.prior.clone());
            memory.found.insert((extent.rows, extent.cols), balance);
        }
        Ok(observed)
    }

    /// Repeats the slices that IDPA found for as long as any node measures.
    fn accompany(
        &mut self,
        update: Update,
        balance: DeviceBalance,
        rounds: &mut Rounds<'_>,
    ) -> Result<DeviceBalance, Error> {
        if update.rows == 0 || update.cols == 0 || self.config.strategy == Strategy::Homogeneous {
            return Ok(balance);
        }
        let mut in_step = |_needed| rounds.another(false);
        let times = self.measure(update, &balance.slices, &mut in_step)?;
        Ok(balance.refined(&times))
    }

    /// Rows and columns of a sub-matrix in elements.
    fn elements(&self, extent: Extent) -> (usize, usize) {
        let cut = |blocks: u64, limit: usize| {
            (blocks as usize)
                .saturating_mul(self.problem.block())
                .min(limit)
        };
        (
            cut(extent.rows, self.problem.m()),
            cut(extent.cols, self.problem.n()),
        )
    }

    fn balance_devices(
        &mut self,
        update: Update,
        prior: Option<&[f64]>,
        rounds: &mut Rounds<'_>,
    ) -> Result<DeviceBalance, Error> {
        let Update { rows, cols, .. } = update;
        let span = tracing::info_span!("model", rows, cols);
        let _entered = span.enter();
        let columns = if rows == 0 { 0 } else { cols as u64 };
        let mut machine = Idpa::new(self.config, self.team.len(), columns, prior);
        loop {
            match machine.step() {
                Step::Done(balance) => return Ok(balance),
                Step::Measure(columns) => {
                    // Another measurement may follow this one: its end is no end of the rounds.
                    let mut in_step = |needed| needed && rounds.another(true);
                    let times = self.measure(update, &columns, &mut in_step)?;
                    machine.observe(&times)?;
                }
            }
        }
    }

    /// Measures the devices together, each on its columns.
    fn measure(
        &mut self,
        Update { rows, width, .. }: Update,
        columns: &[u64],
        in_step: &mut InStep<'_>,
    ) -> Result<Vec<Observation>, Error> {
        let span = tracing::info_span!("measure", rows, ?columns);
        let _entered = span.enter();
        let slices: Vec<usize> = columns.iter().map(|&n| n as usize).collect();
        let depth = self.depth(width);
        let updates = self.team.updates_per_visit(rows, &slices, depth)?;
        let config = affordable(self.measure, self.config.steps, updates);
        let measured = measure_team(
            self.team,
            rows,
            &slices,
            depth,
            &config,
            &mut self.operands,
            in_step,
        )?;
        for (device, (measurement, &columns)) in measured.iter().zip(columns).enumerate() {
            self.measured.count(measurement);
            tell(&self.team.infos()[device].name, rows, columns, measurement);
        }
        Ok(measured.iter().map(observation).collect())
    }

    /// The run in updates of this width.
    fn depth(&self, k_max: usize) -> Depth {
        Depth {
            k_max,
            k_total: self.problem.k(),
        }
    }

    /// Every node's time on the head rank (and all others).
    fn gather(&self, mine: &Observation) -> Vec<Observation> {
        let bytes = serde_json::to_vec(mine).unwrap_or_default();
        let nothing = Observation::measured(f64::NAN, 0, 0.0);
        let all = self.comm.all_gather(&bytes);
        // What cannot be read becomes a time that INPA refuses.
        all.iter()
            .map(|bytes| serde_json::from_slice(bytes).unwrap_or(nothing))
            .collect()
    }

    /// The device slices for this node's final rectangle, in elements: as measured, or, where its size was not
    /// measured, in proportion to the devices' speeds in the last sub-matrix.
    fn slices(&self, layout: &Arc<Layout>, memory: &NodeMemory) -> Vec<usize> {
        let rect = layout.rects()[self.comm.rank()];
        let problem = &self.problem;
        let distribution =
            Distribution::new(problem.m(), problem.n(), problem.block(), layout.clone());
        let weights = match (memory.found.get(&(rect.rows, rect.cols)), &memory.prior) {
            (Some(found), _) => found.slices.iter().map(|&columns| columns as f64).collect(),
            (None, Some(speeds)) if self.config.strategy != Strategy::Homogeneous => speeds.clone(),
            (None, _) => vec![1.0; self.team.len()],
        };
        // The last block column may be cut short: the slices keep their proportions.
        let columns = distribution.part(self.comm.rank()).cols as u64;
        apportion(columns, &weights)
            .into_iter()
            .map(|columns| columns as usize)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::LocalComm;
    use isochron_devices::{
        DeviceError, DeviceInfo, DeviceKind, UpdateTime, View, ViewMut, Worker,
    };
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A device whose times never settle. It counts its updates, of which so many belong together.
    struct Restless {
        info: DeviceInfo,
        together: usize,
        updates: Arc<AtomicUsize>,
    }

    impl Worker for Restless {
        fn info(&self) -> &DeviceInfo {
            &self.info
        }

        fn memory_needed(&self, _rows: usize, _cols: usize, _depth: Depth) -> u64 {
            0
        }

        fn updates_per_visit(&self, _rows: usize, _cols: usize, _depth: Depth) -> usize {
            self.together
        }

        fn begin(
            &mut self,
            _c: ViewMut<'_, f64>,
            _depth: Depth,
        ) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime::default())
        }

        fn update(
            &mut self,
            _alpha: f64,
            _a: View<'_, f64>,
            _b: View<'_, f64>,
            _c: ViewMut<'_, f64>,
        ) -> Result<UpdateTime, DeviceError> {
            let visit = self.updates.fetch_add(1, Ordering::Relaxed) / self.together;
            let busy_s = [1.0, 1.5][visit % 2];
            Ok(UpdateTime { busy_s, cpu_s: 0.0 })
        }

        fn finish(&mut self, _c: ViewMut<'_, f64>) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime::default())
        }
    }

    /// Updates that one measurement takes in a run of `steps` steps.
    fn updates_measured(steps: usize, together: usize) -> usize {
        let updates = Arc::new(AtomicUsize::new(0));
        let worker = Restless {
            info: DeviceInfo {
                name: "restless".to_owned(),
                kind: DeviceKind::Cuda,
                blas: "none".to_owned(),
                paced: None,
                cores: Vec::new(),
                pinned: false,
                bus_id: None,
            },
            together,
            updates: updates.clone(),
        };
        let mut balancer = Balancer {
            comm: &LocalComm::new(),
            team: &mut DeviceTeam::new(vec![Box::new(worker)]).unwrap(),
            measure: MeasureConfig {
                max_reps: 1000,
                max_seconds: 1e9,
                ..MeasureConfig::default()
            },
            config: BalanceConfig {
                steps: steps as u64,
                ..BalanceConfig::default()
            },
            problem: Problem::new(64, 64, steps, 1).unwrap(),
            kernel_width: 1,
            operands: Operands::default(),
            measured: MeasureTally::default(),
        };
        let update = Update {
            rows: 64,
            cols: 64,
            width: 1,
        };
        balancer
            .measure(update, &[64], &mut |needed| needed)
            .unwrap();
        updates.load(Ordering::Relaxed)
    }

    #[test]
    fn repetitions_of_a_gathering_device_count_as_all_their_updates() {
        let plain = updates_measured(1000, 1);
        let gathering = updates_measured(1000, 8);
        // 3.5 % of the steps, and warming up.
        assert!((35..=37).contains(&plain), "{plain}");
        assert!((32..=48).contains(&gathering), "{gathering}");
    }

    #[test]
    fn short_runs_repeat_the_fewest_times() {
        let default = MeasureConfig::default();
        let reps = |steps, updates| affordable(default, steps, updates).max_reps;
        assert_eq!(reps(10, 1), default.min_reps);
        assert_eq!(reps(1000, 64), default.min_reps);
        assert_eq!(reps(400, 2), 7);
        assert_eq!(reps(u64::MAX, 1), default.max_reps);
    }
}
