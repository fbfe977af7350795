//! INPA over IDPA, fed with measurements: the head rank steps the node machine, every node its device machine.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 3.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use isochron_devices::measure::{InStep, Operands};
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

/// Whether any node needs another repetition.
///
/// # Collective
/// All ranks.
fn anyone(comm: &dyn Comm, needed: bool) -> bool {
    let mut needing = [u64::from(needed)];
    comm.sum_u64(&mut needing);
    needing[0] > 0
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
        let width = self.problem.block().min(self.problem.k());
        let bytes = 8 * (leading_dimension(rows) * cols + width * (rows + cols)) as u64;
        memory::check(self.comm, bytes.saturating_sub(self.operands.held_bytes()))?;
        // Writing matrices would disturb whoever measures already.
        let prepared = self.operands.prepare(rows, cols, width);
        agree(self.comm, prepared.map_err(Error::from))?;
        let size = (rows, cols, width);
        let outcome = self.balance_devices(size, memory.prior.as_deref());
        let outcome = outcome.and_then(|balance| self.accompany(size, balance));
        // A node without work, or one that failed, keeps step too.
        while anyone(self.comm, false) {}
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
        (rows, cols, width): (usize, usize, usize),
        balance: DeviceBalance,
    ) -> Result<DeviceBalance, Error> {
        let comm = self.comm;
        if rows == 0 || cols == 0 || !anyone(comm, false) {
            return Ok(balance);
        }
        let mut granted = true;
        let times = self.measure((rows, width), &balance.slices, &mut |_| {
            std::mem::take(&mut granted) || anyone(comm, false)
        })?;
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
        let comm = self.comm;
        loop {
            match machine.step() {
                Step::Done(balance) => return Ok(balance),
                Step::Measure(columns) => {
                    // Once this measurement is done another one may follow, so nobody is told yet.
                    let mut in_step = |needed| needed && anyone(comm, true);
                    let times = self.measure((rows, width), &columns, &mut in_step)?;
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
        in_step: &mut InStep<'_>,
    ) -> Result<Vec<Observation>, Error> {
        let slices: Vec<usize> = columns.iter().map(|&n| n as usize).collect();
        let measured = measure_team(
            self.team,
            rows,
            &slices,
            width,
            &self.measure,
            &mut self.operands,
            in_step,
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
