//! INPA over IDPA, fed with measurements: the head rank steps the node machine, every node its device machine.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 3.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use isochron_devices::measure::Operands;
use isochron_devices::{DeviceTeam, MeasureConfig, Measurement, leading_dimension, measure_team};
use isochron_hierarchy::balance::{
    BalanceConfig, DeviceBalance, Extent, Idpa, Inpa, NodeBalance, Observation, Step, Strategy,
};
use isochron_hierarchy::partition::apportion;
use serde::{Deserialize, Serialize};

use super::memory;
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::Distribution;
use crate::multiply::{Plan, Problem};

/// What the head rank tells the others to do next.
#[derive(Serialize, Deserialize)]
enum Order {
    /// Balance your devices on a sub-matrix of this size and tell how long its update takes.
    Measure(Vec<Extent>),
    /// The nodes are balanced.
    Done(Box<NodeBalance>),
}

/// Balances nodes and devices for one problem.
pub(super) struct Balancer<'a> {
    pub comm: &'a dyn Comm,
    pub team: &'a mut DeviceTeam,
    pub measure: MeasureConfig,
    pub config: BalanceConfig,
    pub problem: Problem,
    pub operands: Operands,
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
                    let observed = match &mut head {
                        Some(machine) => machine.observe(&all).map_err(Error::from),
                        None => Ok(()),
                    };
                    agree(self.comm, observed)?;
                }
            }
        };
        let slices = self.slices(&balance, &memory);
        // The matrices are to have this memory.
        drop(std::mem::take(&mut self.operands));
        let plan = Plan::balanced(self.problem, balance, slices, start.elapsed().as_secs_f64());
        memory::check(self.comm, plan.memory_bytes(self.comm.rank()))?;
        Ok(plan)
    }

    /// The head machine's next step, on every rank.
    fn next_order(&self, head: Option<&Inpa>) -> Result<Order, Error> {
        let mut bytes = head.map_or_else(Vec::new, |machine| {
            let order = match machine.step() {
                Step::Measure(extents) => Order::Measure(extents),
                Step::Done(balance) => Order::Done(Box::new(balance)),
            };
            serde_json::to_vec(&order).unwrap_or_default()
        });
        self.comm.broadcast(0, &mut bytes);
        serde_json::from_slice(&bytes).map_err(|error| Error::Message(error.to_string()))
    }

    /// Runs IDPA on a sub-matrix of this node; its time is the slowest device's. Then the devices go on until the
    /// last node is done: while they compute together is how they will share what they share.
    ///
    /// # Collective
    /// All ranks, each with its own extent.
    fn node_time(&mut self, extent: Extent, memory: &mut NodeMemory) -> Result<Observation, Error> {
        let (rows, cols) = self.elements(extent);
        let width = self.problem.block().min(self.problem.k());
        let bytes = 8 * (leading_dimension(rows) * cols + width * (rows + cols)) as u64;
        memory::check(self.comm, bytes.saturating_sub(self.operands.held_bytes()))?;
        let size = (rows, cols, width);
        let prepared = self.operands.prepare(rows, cols, width);
        agree(self.comm, prepared.map_err(Error::from))?;
        let prior = memory.prior.as_deref();
        let outcome = self.balance_devices(size, prior);
        let mut arrival = self.comm.arrive();
        let mut others_measure = || !arrival.is_complete();
        let outcome =
            outcome.and_then(|balance| self.accompany(size, balance, &mut others_measure));
        drop(arrival);
        let balance = agree(self.comm, outcome)?;
        let observed = balance.observation();
        if cols > 0 && rows > 0 {
            memory.prior = Some(balance.prior.clone());
            memory.found.insert((extent.rows, extent.cols), balance);
        }
        Ok(observed)
    }

    /// Repeats the slices that IDPA found until the other nodes are done too.
    fn accompany(
        &mut self,
        (rows, cols, width): (usize, usize, usize),
        balance: DeviceBalance,
        others_measure: &mut dyn FnMut() -> bool,
    ) -> Result<DeviceBalance, Error> {
        if rows == 0 || cols == 0 || self.config.strategy == Strategy::Homogeneous {
            return Ok(balance);
        }
        let once = MeasureConfig {
            max_seconds: f64::MIN_POSITIVE,
            ..self.measure
        };
        if !others_measure() {
            return Ok(balance);
        }
        let times = self.measure((rows, width), &balance.slices, &once, others_measure)?;
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
        (rows, cols, width): (usize, usize, usize),
        prior: Option<&[f64]>,
    ) -> Result<DeviceBalance, Error> {
        let span = tracing::info_span!("balance devices", rows, cols);
        let _entered = span.enter();
        let columns = if rows == 0 { 0 } else { cols as u64 };
        let mut machine = Idpa::new(self.config, self.team.len(), columns, prior);
        let config = self.measure;
        loop {
            match machine.step() {
                Step::Done(balance) => return Ok(balance),
                Step::Measure(columns) => {
                    let times = self.measure((rows, width), &columns, &config, &mut || false)?;
                    machine.observe(&times)?;
                }
            }
        }
    }

    /// Measures the devices together, each on its columns.
    fn measure(
        &mut self,
        (rows, width): (usize, usize),
        columns: &[u64],
        config: &MeasureConfig,
        others_measure: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Observation>, Error> {
        let slices: Vec<usize> = columns.iter().map(|&n| n as usize).collect();
        let measured = measure_team(
            self.team,
            rows,
            &slices,
            width,
            config,
            &mut self.operands,
            others_measure,
        )?;
        tracing::debug!(?slices, times = ?measured, "measured");
        let observation = |m: &Measurement| Observation {
            t_s: m.t_s,
            reps: m.reps,
            ci_s: m.ci_s,
        };
        Ok(measured.iter().map(observation).collect())
    }

    /// Every node's time on the head rank (and all others).
    fn gather(&self, mine: &Observation) -> Vec<Observation> {
        let bytes = serde_json::to_vec(mine).unwrap_or_default();
        let nothing = Observation {
            t_s: f64::NAN,
            reps: 0,
            ci_s: 0.0,
        };
        let all = self.comm.all_gather(&bytes);
        // What cannot be read becomes a time that INPA refuses.
        all.iter()
            .map(|bytes| serde_json::from_slice(bytes).unwrap_or(nothing))
            .collect()
    }

    /// The device slices for this node's final rectangle, in elements: as measured, or, where its size was not
    /// measured, in proportion to the devices' speeds in the last sub-matrix.
    fn slices(&self, balance: &NodeBalance, memory: &NodeMemory) -> Vec<usize> {
        let layout = Arc::new(balance.layout.clone());
        let rect = layout.rects()[self.comm.rank()];
        let problem = &self.problem;
        let distribution = Distribution::new(problem.m(), problem.n(), problem.block(), layout);
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
