//! The answers that all ranks measure: the times of nodes, by IDPA on the devices of each in step with the others, the
//! links, and the memory.

use isochron_devices::internal::memory_bounds;
use isochron_devices::measure::{InStep, UpdateOperands};
use isochron_devices::{
    Depth, DeviceTeam, JobShape, MeasureConfig, MeasureTally, Scalar, measure_team,
};
use isochron_hierarchy::balance::{BalanceStep, DeviceBalance, Extent, Rule, imbalance};
use isochron_hierarchy::decide::{Division, NodeDevices, PlanAnswer, PlanRequest};
use isochron_hierarchy::network::Network;
use isochron_hierarchy::times::{MeasureOutcome, Measurement, Sample, Series};

use super::task::{MEASUREMENT_SHARE, PlanningTask};
use crate::comm::{Comm, MeasureRounds, NetworkProbe, agree};
use crate::error::Error;
use crate::plan::Plan;
use crate::plan::host_memory::{self, MemoryNeed, share_memory};
use crate::progress::{DeviceCall, Observer, Progress, tell};
use crate::store::{KnownTimes, add_series};

/// Messages between ranks of one host are not slower than this.
const SLOWEST_MEMORY: (f64, f64) = (1e-4, 2e8);

/// Logs a measurement, and its problems at a higher level.
fn log_measurement(device: &str, rows: usize, columns: u64, measurement: &Measurement) {
    let normal = measurement.is_normal();
    let Measurement { sample: Sample { seconds: t_s, reps, .. }, ci_s, outliers, outcome, .. } =
        *measurement;
    tracing::debug!(device, rows, columns, t_s, ci_s, reps, outliers, ?normal, %outcome, "measured");
    match outcome {
        MeasureOutcome::Bounded => {
            tracing::warn!(device, rows, columns, at_least_s = t_s, "hopeless: not measured");
        }
        MeasureOutcome::OutOfRepetitions | MeasureOutcome::OutOfTime => {
            tracing::info!(device, rows, columns, t_s, ci_s, %outcome, "the precision was not reached");
        }
        MeasureOutcome::Idle | MeasureOutcome::Precise => {}
    }
    if normal == Some(false) {
        tracing::info!(device, rows, columns, reps, "the times are not normally distributed");
    }
}

/// Limits the repetitions to those that a run of `steps` steps can win back.
///
/// A repetition costs `updates` of the run's updates: several if a device of the team gathers them, less than one for a
/// part of a node's share.
fn limit_reps(measure: MeasureConfig, steps: u64, updates: f64) -> MeasureConfig {
    let reps = (MEASUREMENT_SHARE * steps as f64 / updates) as u32;
    let max_reps = reps.clamp(measure.min_reps, measure.max_reps);
    MeasureConfig { max_reps, ..measure }
}

/// Returns a network without a measurement.
fn free() -> Network {
    Network::flat(0.0, f64::INFINITY)
}

/// The ranks of a job, which measure in step. Each has the devices of its node.
pub(crate) struct Ranks<'a, T> {
    pub comm: &'a dyn Comm,
    pub team: &'a mut DeviceTeam,
    pub observer: Option<&'a dyn Observer>,
    /// Repetitions of a measurement; a short run allows fewer.
    pub measure: MeasureConfig,
    pub task: PlanningTask,
    /// The network between ranks, as far as measured.
    pub probe: NetworkProbe,
    /// Seconds of this node's devices for one of a core that handles a message.
    message_cost: f64,
    /// Tally of this node's measurements.
    pub measured: MeasureTally,
    pub(crate) operands: UpdateOperands<T>,
    devices: NodeDevices,
    /// Number of times that all nodes were measured.
    iterations: u32,
    /// `true` if times of a device fall with the size, and the partitioner needs times that grow.
    pub falls: bool,
    /// The repetitions of every size that was measured, by device.
    seen: Vec<Vec<Series>>,
}

impl<'a, T: Scalar> Ranks<'a, T> {
    /// Prepares measurements for this task.
    pub(crate) fn new(
        comm: &'a dyn Comm,
        team: &'a mut DeviceTeam,
        observer: Option<&'a dyn Observer>,
        measure: MeasureConfig,
        task: PlanningTask,
        (probe, message_cost): (NetworkProbe, f64),
    ) -> Self {
        Self {
            devices: NodeDevices::new(task.config, team.len()),
            seen: vec![Vec::new(); team.len()],
            comm,
            team,
            observer,
            measure,
            task,
            probe,
            message_cost,
            measured: MeasureTally::default(),
            operands: UpdateOperands::default(),
            iterations: 0,
            falls: false,
        }
    }

    /// Takes what is known of this rank's devices: balancing starts with their points, if all of them have some. An even division
    /// asks for no knowledge.
    pub(crate) fn take_known(&mut self, known: &[KnownTimes]) {
        if known.is_empty() || known.iter().any(|device| device.points.is_empty()) {
            return;
        }
        let points = known.iter().map(|device| device.points.clone()).collect();
        self.devices = NodeDevices::new(self.task.config, known.len()).with_points(points);
    }

    /// Gathers the repetitions that were measured, of all ranks' devices in order.
    ///
    /// # Collective
    /// All ranks.
    pub(crate) fn gather_seen(&mut self) -> Result<Vec<Vec<Series>>, Error> {
        Ok(self.comm.gather(&self.seen)?.concat())
    }

    /// Gives back the memory of measuring.
    pub(crate) fn free_operands(&mut self) {
        self.operands = UpdateOperands::default();
    }

    /// Measures for a request of the planner.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn answer(&mut self, request: PlanRequest) -> Result<PlanAnswer, Error> {
        let comm = self.comm;
        Ok(match request {
            PlanRequest::MessageCosts => PlanAnswer::MessageCosts(self.measure_messages()?),
            PlanRequest::Network { run_s } => PlanAnswer::Network(self.measure_network(run_s)?),
            PlanRequest::Times { extents, along_k } => {
                let mine = self.measure(extents[comm.rank()], along_k)?;
                let times = comm.gather(&mine)?;
                let times_s: Vec<f64> = times.iter().map(|time| time.seconds).collect();
                self.note_measured(&times_s, Some(imbalance(&times_s)));
                PlanAnswer::Times(times)
            }
            PlanRequest::Room(division) => PlanAnswer::Room(self.has_room(division)?),
        })
    }

    /// Returns the network if it is known as precisely as a run of `run_s` predicted seconds allows.
    pub(super) fn known_network(&self, run_s: f64) -> Option<Network> {
        self.probe.is_settled(run_s).then(|| self.find_network().unwrap_or_else(free))
    }

    /// Measures the network between ranks as precisely as a run of `run_s` predicted seconds allows. Without a measurement it costs
    /// nothing.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn measure_network(&mut self, run_s: f64) -> Result<Network, Error> {
        self.probe.measure(self.comm, run_s)?;
        Ok(self.find_network().unwrap_or_else(free))
    }

    /// Returns the network as far as measured. Ranks of one host copy messages in its memory: if that
    /// seems slower than any memory is, other programs had the cores.
    pub(super) fn find_network(&self) -> Option<Network> {
        let network = self.probe.network()?;
        if self.task.cluster.hidden > 0.0 {
            return Some(network);
        }
        let level = network.level(0);
        let (latency_s, bytes_per_s) = SLOWEST_MEMORY;
        Some(if level.latency_s() > latency_s || level.bytes_per_s() < bytes_per_s {
            Network::flat(level.latency_s().min(latency_s), level.bytes_per_s().max(bytes_per_s))
        } else {
            network
        })
    }

    /// Measures the seconds that a byte of a message takes from the arithmetic of each node.
    ///
    /// # Collective
    /// All ranks.
    fn measure_messages(&mut self) -> Result<Vec<f64>, Error> {
        let comm = self.comm;
        let mut byte_s = vec![0.0; comm.size()];
        byte_s[comm.rank()] = self.message_cost;
        comm.sum_f64(&mut byte_s)?;
        if byte_s.iter().all(|&cost| cost <= 0.0) {
            return Ok(byte_s);
        }
        self.probe.measure(comm, 0.0)?;
        let core_s = self.probe.measure_core_s(comm)?;
        for (cost, core_s) in byte_s.iter_mut().zip(&core_s) {
            *cost *= core_s;
        }
        tracing::debug!(?core_s, devices_s = ?byte_s, "a byte of a message");
        Ok(byte_s)
    }

    /// Returns `true` if every rank has the memory for a plan of this division, or for a [leaner](Plan::make_leaner)
    /// one. The memory of measuring is freed first.
    ///
    /// # Collective
    /// All ranks.
    fn has_room(&mut self, division: Division) -> Result<bool, Error> {
        self.free_operands();
        let comm = self.comm;
        let mut next = Some(Plan::of_division(self.task.problem, division, &[]));
        while let Some(plan) = next {
            let need =
                MemoryNeed { bytes: plan.memory_bytes(comm.rank()), ..MemoryNeed::default() };
            match share_memory(comm, need, &memory_bounds()) {
                Err(Error::Memory { .. }) => next = plan.make_leaner(),
                shared => return shared.map(|_| true),
            }
        }
        Ok(false)
    }

    /// Runs IDPA on a sub-matrix of this node and returns the node's time, that of its slowest device.
    ///
    /// All nodes repeat their updates in step, as the multiplication will. A node that has finished goes on until the
    /// last one has. So resources that nodes share, such as a host's memory bandwidth and caches, are loaded as in the
    /// run. The extra repetitions also make the means of fast nodes more precise.
    ///
    /// # Collective
    /// All ranks, each with its own extent.
    pub(crate) fn measure(&mut self, extent: Extent, along_k: bool) -> Result<Sample, Error> {
        self.note_iteration();
        let (rows, cols) = self.task.problem.size_in_elements(extent.rows, extent.cols);
        // IDPA will measure about these slices.
        let slices = self.devices.slice_columns(rows, cols, along_k);
        let depth = self.depth(along_k);
        let job = JobShape::of::<T>(rows, slices.iter().sum(), depth);
        host_memory::prepare_operands(self.comm, self.team, &mut self.operands, &job, &slices)?;
        let mut rounds = MeasureRounds::new(self.comm);
        let outcome = self
            .balance_devices(rows, cols, along_k, &mut rounds)
            .and_then(|balance| self.keep_repeating(rows, cols, depth, balance, &mut rounds));
        // A node without work, or one that failed, takes part too.
        while rounds.ask_for_round(false) {}
        let balance = agree(self.comm, outcome)?;
        let observed = balance.to_sample();
        self.falls |= !balance.falling.is_empty();
        if rows > 0 && cols > 0 {
            self.devices.keep(extent, along_k, balance);
        }
        Ok(observed)
    }

    /// Counts a measurement of all nodes, and tells the observer.
    pub(crate) fn note_iteration(&mut self) {
        self.iterations += 1;
        let iteration = self.iterations;
        tell(self.observer, Progress::Measuring { iteration });
    }

    /// Tells the observer which of these values of the nodes is largest, with their imbalance if they are the times of a
    /// division. Values of 0 are of nodes that were not measured.
    pub(crate) fn note_measured(&self, values: &[f64], imbalance: Option<f64>) {
        let slowest = (0..values.len())
            .filter(|&rank| values[rank] > 0.0)
            .max_by(|&a, &b| values[a].total_cmp(&values[b]));
        if let Some(slowest) = slowest {
            tell(self.observer, Progress::Measured { slowest, imbalance });
        }
    }

    /// Returns the inner dimensions of the updates that are measured.
    pub(crate) fn depth(&self, along_k: bool) -> Depth {
        let (nodes, k) = (self.task.cluster.nodes, self.task.problem.k());
        Depth { k_max: self.task.kernel_width, k_total: if along_k { k / nodes } else { k } }
    }

    /// Divides the columns of this node's part among its devices: as measured, or by their models if a part of this size was not
    /// measured.
    pub(crate) fn slice_part(&self, division: &Division) -> Vec<usize> {
        let (problem, rank) = (&self.task.problem, self.comm.rank());
        self.devices.slice_part(problem, division, rank)
    }

    /// Repeats the slices that IDPA found for as long as any node measures.
    fn keep_repeating(
        &mut self,
        rows: usize,
        cols: usize,
        depth: Depth,
        balance: DeviceBalance,
        rounds: &mut MeasureRounds<'_>,
    ) -> Result<DeviceBalance, Error> {
        if rows == 0 || cols == 0 || self.task.rule() == Rule::Even {
            return Ok(balance);
        }
        let times = self.measure_devices(rows, depth, &balance.slices, &mut |_needed| {
            rounds.ask_for_round(false)
        })?;
        Ok(balance.refine_times(&times))
    }

    fn balance_devices(
        &mut self,
        rows: usize,
        cols: usize,
        along_k: bool,
        rounds: &mut MeasureRounds<'_>,
    ) -> Result<DeviceBalance, Error> {
        let span = tracing::info_span!("model", rows, cols);
        let _entered = span.enter();
        let depth = self.depth(along_k);
        let mut machine = self.devices.begin(rows, cols, along_k);
        loop {
            match machine.step() {
                BalanceStep::Done(balance) => return Ok(balance),
                BalanceStep::Measure(columns) => {
                    // Another measurement may follow this one, so its end does not end the rounds.
                    let times = self.measure_devices(rows, depth, &columns, &mut |needed| {
                        needed && rounds.ask_for_round(true)
                    })?;
                    machine.observe(&times)?;
                }
            }
        }
    }

    fn measure_devices(
        &mut self,
        rows: usize,
        depth: Depth,
        columns: &[u64],
        in_step: &mut InStep<'_>,
    ) -> Result<Vec<Sample>, Error> {
        let measured = self.repeat_updates(rows, depth, columns, in_step)?;
        for (seen, measured) in self.seen.iter_mut().zip(&measured) {
            if let Some(series) = measured.to_series() {
                add_series(seen, series);
            }
        }
        Ok(measured.iter().map(|measured| measured.sample).collect())
    }

    /// Measures the devices together on a part of C with `rows` rows, each on its columns.
    pub(crate) fn repeat_updates(
        &mut self,
        rows: usize,
        depth: Depth,
        columns: &[u64],
        in_step: &mut InStep<'_>,
    ) -> Result<Vec<Measurement>, Error> {
        let span = tracing::info_span!("measure", rows, ?columns);
        let _entered = span.enter();
        let slices: Vec<usize> = columns.iter().map(|&n| n as usize).collect();
        let job = JobShape::of::<T>(rows, slices.iter().sum(), depth);
        let updates = self.team.updates_per_visit(&job, &slices)?;
        let problem = &self.task.problem;
        let even_share = (problem.m() * problem.n()) as f64 / self.task.cluster.nodes as f64;
        let area = job.rows as f64 * job.cols as f64;
        let part = (area / even_share).clamp(f64::MIN_POSITIVE, 1.0);
        let steps = self.task.config.steps;
        let config = limit_reps(self.measure, steps, updates as f64 * part);
        let call = DeviceCall::Measure { rows, k: job.depth.k_max };
        let cols = &slices;
        tell(self.observer, Progress::Calling { call, cols });
        let mut measured = measure_team(
            self.team,
            rows,
            &slices,
            job.depth,
            &config,
            &mut self.operands,
            in_step,
        )?;
        tell(self.observer, Progress::Called { times: &[] });
        for (device, (measurement, &columns)) in measured.iter_mut().zip(columns).enumerate() {
            // A look is a few repetitions, and no precision is asked for.
            if self.task.rule().learns() && measurement.outcome == MeasureOutcome::OutOfRepetitions
            {
                measurement.outcome = MeasureOutcome::Precise;
            }
            self.measured.count(measurement);
            log_measurement(&self.team.infos()[device].name, rows, columns, measurement);
        }
        Ok(measured)
    }
}

#[cfg(test)]
mod tests;
