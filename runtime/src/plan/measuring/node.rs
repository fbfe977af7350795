//! The measurement of a node's time: IDPA on its devices, in step with the other nodes.

use isochron_devices::measure::{InStep, UpdateOperands};
use isochron_devices::{
    Depth, DeviceTeam, JobShape, MeasureConfig, MeasureTally, Scalar, measure_team,
};
use isochron_hierarchy::balance::{BalanceStep, DeviceBalance, Extent, Rule};
use isochron_hierarchy::decide::{Division, NodeDevices};
use isochron_hierarchy::times::{MeasureOutcome, Measurement, Sample, Series};

use super::{MEASUREMENT_SHARE, PlanningTask};
use crate::comm::{Comm, MeasureRounds, agree};
use crate::error::Error;
use crate::plan::host_memory;
use crate::progress::{DeviceCall, Observer, Progress, tell};
use crate::store::{KnownDevice, add_series};

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

/// The measurement of a node's devices.
pub(crate) struct NodeMeasurer<'a, T> {
    pub comm: &'a dyn Comm,
    pub team: &'a mut DeviceTeam,
    pub observer: Option<&'a dyn Observer>,
    /// Repetitions of a measurement; a short run allows fewer.
    pub measure: MeasureConfig,
    pub task: PlanningTask,
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

impl<'a, T: Scalar> NodeMeasurer<'a, T> {
    /// Prepares measurements for this task.
    pub(crate) fn new(
        comm: &'a dyn Comm,
        team: &'a mut DeviceTeam,
        observer: Option<&'a dyn Observer>,
        measure: MeasureConfig,
        task: PlanningTask,
    ) -> Self {
        Self {
            devices: NodeDevices::new(task.config, team.len()),
            seen: vec![Vec::new(); team.len()],
            comm,
            team,
            observer,
            measure,
            task,
            measured: MeasureTally::default(),
            operands: UpdateOperands::default(),
            iterations: 0,
            falls: false,
        }
    }

    /// Takes what is known of this rank's devices: balancing starts with their points, if all of them have some. An even division
    /// asks for no knowledge.
    pub(crate) fn take_known(&mut self, known: &[KnownDevice]) {
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
        if rows == 0 || cols == 0 || self.task.config.rule() == Rule::Even {
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
            let is_look = self.task.config.rule().learns();
            if is_look && measurement.outcome == MeasureOutcome::OutOfRepetitions {
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
