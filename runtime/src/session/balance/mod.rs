//! INPA over IDPA, fed with measurements: the head rank steps the node machine, every node its device machine.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 3.

mod left_out;
mod node;
mod split;
mod ways;

use std::sync::Arc;
use std::time::Instant;

use isochron_devices::measure::UpdateOperands;
use isochron_devices::{Depth, DeviceTeam, Element, JobShape, MeasureConfig, MeasureTally};
use isochron_hierarchy::balance::{
    BalanceConfig, BalanceStep, Extent, Inpa, NodeBalance, Observation, Strategy,
};
use isochron_hierarchy::layout::{Layout, Rect};
use isochron_hierarchy::predict::{self, Links, Way};
use serde::{Deserialize, Serialize};

use super::load::Load;
use super::memory;
use crate::comm::{self, Comm, agree};
use crate::error::Error;
use crate::matrix::Spread;
use crate::multiply::{Found, Plan, Problem, Split, SplitChoice};
use node::NodeMemory;

/// What the head rank tells the others to do next.
#[derive(Serialize, Deserialize)]
enum HeadOrder {
    /// Balance your devices on a sub-matrix of this size, `0 × 0` for no work, and tell how long its update takes.
    Measure(Vec<Extent>),
    /// The nodes are balanced.
    Done(Box<NodeBalance>),
}

/// Balances nodes and devices for one problem, with elements of its type.
pub(super) struct Balancer<'a, T> {
    pub comm: &'a dyn Comm,
    pub team: &'a mut DeviceTeam,
    /// How often a measurement is repeated, as long as the run is long enough for it.
    pub measure: MeasureConfig,
    pub config: BalanceConfig,
    pub problem: Problem,
    /// Inner dimension of the updates that are measured.
    pub kernel_width: usize,
    pub operands: UpdateOperands<T>,
    /// How the measurements of this node went.
    pub measured: MeasureTally,
    /// When planning began.
    pub start: Instant,
    /// The inner dimension of what a node computes, in elements.
    pub k_total: usize,
    /// What the links between ranks carry, once that was measured.
    pub links: Option<Links>,
    /// What else goes on on this rank's host.
    pub load: Load,
    /// Seconds of the devices that a byte of a message costs each node, once that was measured; nothing before.
    pub byte_s: Vec<f64>,
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

impl<T: Element> Balancer<'_, T> {
    /// Measures until the nodes are balanced.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn make_plan(mut self) -> Result<Plan, Error> {
        if self.config.strategy != Strategy::Homogeneous {
            self.measure_messages();
        }
        let mut whole = self.along_k()?;
        if let Some(found) = whole.take_if(|found| found.chosen) {
            return self.shares_of_k(found);
        }
        let all: Vec<usize> = (0..self.comm.size()).collect();
        let (mut balance, mut memory) = self.balanced(&all)?;
        let left_out = self.left_out(&balance)?;
        if let Some(left_out) = &left_out {
            let nodes: Vec<usize> = all
                .into_iter()
                .filter(|rank| !left_out.ranks.contains(rank))
                .collect();
            tracing::info!(?left_out, "some nodes help less than they cost");
            (balance, memory) = self.balanced(&nodes)?;
        }
        let mut candidates = Vec::new();
        if self.problem.split() == SplitChoice::Auto
            && let Some(ways) = self.best_way(&balance, whole.as_ref())?
        {
            if let Some(found) = whole.filter(|_| ways.way == Way::K) {
                return self.shares_of_k(found.chosen_of(ways.candidates));
            }
            balance = ways::moved_to(balance, &ways.layout);
            candidates = ways.candidates;
        }
        let layout = Arc::new(balance.layout.clone());
        let slices = self.slices(&layout, &memory);
        // The matrices are to have this memory.
        drop(std::mem::take(&mut self.operands));
        let balance_s = self.start.elapsed().as_secs_f64();
        let found = Found {
            layout,
            split: Split::C,
            rank: self.comm.rank(),
            slices,
            balance: Some(balance),
            left_out,
            candidates,
            balance_s,
            measured: self.measured,
            kernel_width: self.kernel_width,
            links: self.links,
        };
        let plan = Plan::from_balance(self.problem, found);
        memory::fit_to_memory(self.comm, self.team, plan)
    }

    /// What the links between ranks carry, measured once.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn links(&mut self) -> Links {
        *self
            .links
            .get_or_insert_with(|| comm::measure_links(self.comm))
    }

    /// Measures what a byte of a message costs each node.
    ///
    /// # Collective
    /// All ranks.
    fn measure_messages(&mut self) {
        if self.comm.largest(self.load.message_cost) <= 0.0 {
            return;
        }
        let core_s = comm::core_s_per_byte(self.comm);
        self.byte_s = vec![0.0; self.comm.size()];
        self.byte_s[self.comm.rank()] = core_s * self.load.message_cost;
        self.comm.sum_f64(&mut self.byte_s);
        tracing::debug!(core_s, devices_s = ?self.byte_s, "a byte of a message");
    }

    /// Seconds that a byte of a message costs a node.
    fn byte_s(&self, rank: usize) -> f64 {
        self.byte_s.get(rank).copied().unwrap_or(0.0)
    }

    /// Seconds that the messages of an update cost a node when it has such a part of C, one of so many.
    fn messages_s(&self, rank: usize, part: Extent, nodes: usize) -> f64 {
        let (rows, cols) = self.elements(part);
        let c = (self.problem.m(), self.problem.n());
        let elements = predict::count_exchanged((rows, cols), c, nodes) * self.kernel_width as f64;
        elements * size_of::<T>() as f64 * self.byte_s(rank)
    }

    /// Balances these nodes; the others get nothing. Returns the balance of all ranks.
    fn balanced(&mut self, nodes: &[usize]) -> Result<(NodeBalance, NodeMemory), Error> {
        let (rows, cols) = self.problem.c_blocks();
        let rank = self.comm.rank();
        let mut head = (rank == 0).then(|| Inpa::new(self.config, nodes.len(), rows, cols));
        let mine = nodes.iter().position(|&node| node == rank);
        let mut memory = NodeMemory::default();
        let balance = loop {
            match self.next_order(head.as_ref())? {
                HeadOrder::Done(balance) => break *balance,
                HeadOrder::Measure(extents) => {
                    let extent = mine.map_or_else(Extent::default, |index| extents[index]);
                    let update = self.node_time(extent, &mut memory)?;
                    let mine = update.plus_known(self.messages_s(rank, extent, nodes.len()));
                    let all = self.comm.gather(&mine)?;
                    let times: Vec<_> = nodes.iter().map(|&node| all[node]).collect();
                    agree(self.comm, partition(head.as_mut(), &times))?;
                }
            }
        };
        Ok((self.over_all_ranks(nodes, balance)?, memory))
    }

    /// The balance of some nodes as one of all ranks, of which the others have nothing.
    fn over_all_ranks(&self, nodes: &[usize], balance: NodeBalance) -> Result<NodeBalance, Error> {
        let ranks = self.comm.size();
        if nodes.len() == ranks {
            return Ok(balance);
        }
        let layout = balance.layout;
        let mut rects = vec![Rect::default(); ranks];
        let mut times_s = vec![0.0; ranks];
        for (index, &node) in nodes.iter().enumerate() {
            rects[node] = layout.rects()[index];
            times_s[node] = balance.times_s[index];
        }
        let layout = Layout::new(layout.rows(), layout.cols(), rects)
            .map_err(|error| Error::Message(error.to_string()))?;
        Ok(NodeBalance {
            layout,
            times_s,
            ..balance
        })
    }

    /// Sees to it that `bytes` of this rank's host, and what its devices need for these slices, are there.
    ///
    /// # Collective
    /// All ranks.
    fn make_room(
        &mut self,
        bytes: u64,
        (rows, slices): (usize, &[usize]),
        width: usize,
    ) -> Result<(), Error> {
        let job = self.job_shape((rows, slices.iter().sum()), width);
        memory::make_room(self.comm, self.team, bytes, (&job, slices))
    }

    /// The head machine's next step, on every rank.
    fn next_order(&self, head: Option<&Inpa>) -> Result<HeadOrder, Error> {
        let order = head.map(|machine| match machine.step() {
            BalanceStep::Measure(extents) => HeadOrder::Measure(extents),
            BalanceStep::Done(balance) => HeadOrder::Done(Box::new(balance)),
        });
        self.comm.share(0, order)
    }

    /// Rows and columns of a sub-matrix in elements.
    fn elements(&self, extent: Extent) -> (usize, usize) {
        let problem = &self.problem;
        (
            problem.block_end(extent.rows, problem.m()),
            problem.block_end(extent.cols, problem.n()),
        )
    }

    /// Returns the depth of the run in updates of width `k_max`.
    fn depth(&self, k_max: usize) -> Depth {
        Depth {
            k_max,
            k_total: self.k_total,
        }
    }

    /// Returns the shape of the run on a `rows × cols` part of C, in updates of width `k_max`.
    fn job_shape(&self, size: (usize, usize), k_max: usize) -> JobShape {
        JobShape::of::<T>(size, self.depth(k_max))
    }

    /// The device slices for this node's final rectangle, in elements: as measured, or, where its size was not
    /// measured, in proportion to the devices' speeds in the last sub-matrix.
    fn slices(&self, layout: &Arc<Layout>, memory: &NodeMemory) -> Vec<usize> {
        let rect = layout.rects()[self.comm.rank()];
        let problem = &self.problem;
        let spread = Spread::on_layout(problem.m(), problem.n(), problem.block(), layout.clone());
        // The last block column may be cut short: the slices keep their proportions.
        let columns = spread.part(self.comm.rank()).cols;
        match memory.found.get(&(rect.rows, rect.cols)) {
            Some(found) => {
                let measured: Vec<f64> = found.slices.iter().map(|&cols| cols as f64).collect();
                node::apportioned(columns, &measured)
            }
            None => memory.slices(columns, self.config.strategy, self.team.len()),
        }
    }
}
