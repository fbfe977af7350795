//! INPA over IDPA, fed with measurements: the head rank steps the node machine, every node its device machine.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 3.

mod node;

use std::sync::Arc;
use std::time::Instant;

use isochron_devices::measure::Operands;
use isochron_devices::{Depth, DeviceInfo, DeviceKind, DeviceTeam, MeasureConfig, MeasureTally};
use isochron_hierarchy::balance::{
    BalanceConfig, Extent, Inpa, NodeBalance, Observation, Step, Strategy,
};
use isochron_hierarchy::layout::Layout;
use isochron_hierarchy::partition::apportion;
use serde::{Deserialize, Serialize};

use super::memory::{self, Need};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::Distribution;
use crate::multiply::{Found, Plan, Problem};
use node::NodeMemory;

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

/// The rectangle of a node: sessions refuse layouts that give it two.
fn only(zone: &[Extent]) -> Extent {
    zone.first().copied().unwrap_or_default()
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
        let rank = self.comm.rank();
        let rows = plan.c().part(rank).rows;
        self.make_room(plan.memory_bytes(rank), (rows, plan.slices()), plan.panel())?;
        Ok(plan)
    }

    /// Sees to it that `bytes` of this rank's host and what its devices need for these slices are there, before any of it
    /// is taken. Devices that gather in host memory make do with what the matrices leave, whatever they had before.
    ///
    /// # Errors
    /// [`Error::Memory`] on every rank, where not even the least that the devices need is left.
    ///
    /// # Collective
    /// All ranks.
    fn make_room(
        &mut self,
        bytes: u64,
        (rows, slices): (usize, &[usize]),
        width: usize,
    ) -> Result<(), Error> {
        let is_gpu = |device: &&DeviceInfo| device.kind == DeviceKind::Cuda;
        let need = Need {
            bytes,
            held: self.team.memory_held(),
            gathering: self.team.infos().iter().filter(is_gpu).count(),
        };
        let each = memory::share(self.comm, need)?;
        self.team.limit_memory(each);
        let devices = self.team.memory_needed(rows, slices, self.depth(width));
        let devices = agree(self.comm, devices.map_err(Error::from))?;
        let need = Need {
            bytes: bytes.saturating_add(devices),
            ..need
        };
        memory::share(self.comm, need).map(|_| ())
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
