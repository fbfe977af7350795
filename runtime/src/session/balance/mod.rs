//! INPA over IDPA, fed with measurements. The head rank steps the machine of the nodes, every node that of its devices.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 3.

mod left_out;
mod node;
mod split;
mod ways;

use isochron_devices::measure::UpdateOperands;
use isochron_devices::{Depth, DeviceTeam, Element, JobShape, MeasureConfig, MeasureTally};
use isochron_hierarchy::balance::{
    BalanceConfig, BalanceStep, Extent, Inpa, NodeBalance, Observation, Strategy,
};
use isochron_hierarchy::decide::{BalanceOutcome, Decision, Division, SplitChoice};
use isochron_hierarchy::layout::{Layout, Rect};
use isochron_hierarchy::predict::{self, Links, Way};

use super::load::Load;
use crate::comm::{Comm, LinkLadder, agree};
use crate::error::Error;
use crate::multiply::Problem;
use crate::progress::Observer;
use node::NodeMemory;

/// Balances nodes and devices for one problem, with elements of its type.
pub(super) struct Balancer<'a, T> {
    pub comm: &'a dyn Comm,
    pub team: &'a mut DeviceTeam,
    /// Repetitions of a measurement; a short run allows fewer.
    pub measure: MeasureConfig,
    /// The caller's settings.
    pub asked: BalanceConfig,
    /// The same for this run.
    pub config: BalanceConfig,
    pub problem: Problem,
    /// Inner dimension of the updates that are measured.
    pub kernel_width: usize,
    pub operands: UpdateOperands<T>,
    /// Tally of this node's measurements.
    pub measured: MeasureTally,
    /// The inner dimension of a node's job, in elements.
    pub k_total: usize,
    /// Capacity of the links between ranks, as far as measured.
    pub ladder: LinkLadder,
    /// The load of this rank's host.
    pub load: Load,
    /// Seconds that a byte of a message costs each node's devices; empty until measured.
    pub byte_s: Vec<f64>,
    pub observer: Option<&'a dyn Observer>,
    /// Number of times that all nodes were measured.
    pub iterations: u32,
    /// `true` if times of this node or its devices fall with the size, and the partitioner needs times that grow.
    pub falls: bool,
}

/// A decision, and this rank's part of it.
pub(super) struct Decided {
    pub decision: Decision,
    /// Columns of this rank's devices.
    pub slices: Vec<usize>,
    /// Tally of this node's measurements.
    pub measured: MeasureTally,
    /// Capacity of the links between ranks; `None` if they were not measured.
    pub links: Option<Links>,
    /// `true` if times of this node or its devices fall with the size, and the partitioner needs times that grow.
    pub falls: bool,
}

/// Adds the nodes' times to their models and divides again, on the head rank.
fn observe_times(head: Option<&mut Inpa>, times: &[Observation]) -> Result<(), Error> {
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
    pub(super) fn decide(mut self) -> Result<Decided, Error> {
        if self.config.strategy != Strategy::Homogeneous {
            self.measure_messages();
        }
        let mut whole = self.consider_k()?;
        if let Some(found) = whole.take_if(|found| found.chosen) {
            return Ok(self.divide_k(found));
        }
        let all: Vec<usize> = (0..self.comm.size()).collect();
        let (mut balance, mut memory) = self.balance_nodes(&all)?;
        let left_out = self.find_left_out(&balance)?;
        if let Some(left_out) = &left_out {
            tracing::info!(?left_out, "some nodes help less than they cost");
            let mut nodes = all;
            nodes.retain(|rank| !left_out.ranks.contains(rank));
            (balance, memory) = self.balance_nodes(&nodes)?;
        }
        let mut candidates = Vec::new();
        if self.problem.split() == SplitChoice::Auto
            && let Some(ways) = self.best_way(&balance, whole.as_ref())?
        {
            if let Some(mut found) = whole.filter(|_| ways.way == Way::K) {
                found.candidates = ways.candidates;
                return Ok(self.divide_k(found));
            }
            balance = ways::move_to_layout(balance, &ways.layout);
            candidates = ways.candidates;
        }
        let slices = self.device_slices(&balance.layout, &memory);
        let (layout, balance) = BalanceOutcome::split(balance);
        let decision = Decision {
            left_out,
            candidates,
            ..self.decision(Division::C(layout), balance)
        };
        Ok(self.end(decision, slices))
    }

    /// Makes the decision for a division with these times.
    fn decision(&self, division: Division, balance: BalanceOutcome) -> Decision {
        Decision {
            division,
            balance: Some(balance),
            candidates: Vec::new(),
            left_out: None,
            config: self.asked,
            kernel_width: self.kernel_width,
        }
    }

    /// Ends measuring, which frees its memory.
    fn end(self, decision: Decision, slices: Vec<usize>) -> Decided {
        Decided {
            decision,
            slices,
            measured: self.measured,
            links: self.ladder.links(),
            falls: self.falls,
        }
    }

    /// Returns the capacity of the links between ranks, measured as precisely as a run of `run_s` predicted seconds allows;
    /// 0 if that is unknown.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn measured_links(&mut self, run_s: f64) -> Links {
        self.ladder.climb(self.comm, run_s);
        self.ladder.links().unwrap_or(Links {
            latency_s: 0.0,
            bytes_per_s: f64::INFINITY,
        })
    }

    /// Measures the cost of a byte of a message on each node.
    ///
    /// # Collective
    /// All ranks.
    fn measure_messages(&mut self) {
        if self.comm.largest(self.load.message_cost) <= 0.0 {
            return;
        }
        self.ladder.climb(self.comm, 0.0);
        let core_s = self.ladder.core_s_per_byte(self.comm);
        self.byte_s = vec![0.0; self.comm.size()];
        self.byte_s[self.comm.rank()] = core_s * self.load.message_cost;
        self.comm.sum_f64(&mut self.byte_s);
        tracing::debug!(core_s, devices_s = ?self.byte_s, "a byte of a message");
    }

    /// Returns the seconds that a byte of a message costs a node.
    fn byte_s(&self, rank: usize) -> f64 {
        self.byte_s.get(rank).copied().unwrap_or(0.0)
    }

    /// Returns the seconds that the messages of an update cost a node with a part of C of this extent, one of `nodes`
    /// parts.
    fn messages_s(&self, rank: usize, part: Extent, nodes: usize) -> f64 {
        let (rows, cols) = self.size_in_elements(part);
        let c = (self.problem.m(), self.problem.n());
        let elements = predict::count_exchanged((rows, cols), c, nodes) * self.kernel_width as f64;
        elements * size_of::<T>() as f64 * self.byte_s(rank)
    }

    /// Balances these nodes; the others get nothing. Returns the balance of all ranks.
    fn balance_nodes(&mut self, nodes: &[usize]) -> Result<(NodeBalance, NodeMemory), Error> {
        let (rows, cols) = self.problem.c_blocks();
        let rank = self.comm.rank();
        let mut head = (rank == 0).then(|| Inpa::new(self.config, nodes.len(), rows, cols));
        let mine = nodes.iter().position(|&node| node == rank);
        let mut memory = NodeMemory::default();
        let balance = loop {
            match self.comm.share(0, head.as_ref().map(Inpa::step))? {
                BalanceStep::Done(balance) => break balance,
                BalanceStep::Measure(extents) => {
                    // A node without work measures `0 × 0`.
                    let extent = mine.map_or_else(Extent::default, |index| extents[index]);
                    let update = self.node_time(extent, &mut memory)?;
                    let mine = update.plus_known(self.messages_s(rank, extent, nodes.len()));
                    let all = self.comm.gather(&mine)?;
                    let times: Vec<_> = nodes.iter().map(|&node| all[node]).collect();
                    agree(self.comm, observe_times(head.as_mut(), &times))?;
                }
            }
        };
        let balance = self.over_all_ranks(nodes, balance)?;
        self.falls |= balance.falling.contains(&rank);
        Ok((balance, memory))
    }

    /// Extends the balance of some nodes to all ranks; the others get nothing.
    fn over_all_ranks(&self, nodes: &[usize], balance: NodeBalance) -> Result<NodeBalance, Error> {
        let ranks = self.comm.size();
        if nodes.len() == ranks {
            return Ok(balance);
        }
        let layout = balance.layout;
        let mut rects = vec![Rect::default(); ranks];
        let (mut times_s, mut fixed_s) = (vec![0.0; ranks], vec![0.0; ranks]);
        for (index, &node) in nodes.iter().enumerate() {
            rects[node] = layout.rects()[index];
            times_s[node] = balance.times_s[index];
            fixed_s[node] = balance.fixed_s[index];
        }
        let falling = balance.falling.iter().map(|&index| nodes[index]);
        let layout = Layout::new(layout.rows(), layout.cols(), rects)?;
        Ok(NodeBalance {
            layout,
            times_s,
            fixed_s,
            falling: falling.collect(),
            ..balance
        })
    }

    /// Returns the rows and columns of a sub-matrix in elements.
    fn size_in_elements(&self, extent: Extent) -> (usize, usize) {
        let p = &self.problem;
        (
            p.block_end(extent.rows, p.m()),
            p.block_end(extent.cols, p.n()),
        )
    }

    /// Returns the shape of the run on a part of C with `rows` rows and these device slices, in the updates that are measured.
    fn job_shape(&self, rows: usize, slices: &[usize]) -> JobShape {
        let depth = Depth {
            k_max: self.kernel_width,
            k_total: self.k_total,
        };
        JobShape::of::<T>((rows, slices.iter().sum()), depth)
    }

    /// Returns the columns of this node's part of C, in elements.
    fn own_columns(&self, layout: &Layout) -> usize {
        let (rect, n) = (layout.rects()[self.comm.rank()], self.problem.n());
        let start = self.problem.block_end(rect.col, n);
        self.problem.block_end(rect.col + rect.cols, n) - start
    }

    /// Returns the device slices of this node's final rectangle, in elements. They are as measured, or by the
    /// devices' models if its size was not measured.
    fn device_slices(&self, layout: &Layout, memory: &NodeMemory) -> Vec<usize> {
        let rect = layout.rects()[self.comm.rank()];
        // The slices keep their proportions if the last block column is cut short.
        let columns = self.own_columns(layout);
        match memory.found.get(&(rect.rows, rect.cols)) {
            Some(found) => {
                let measured: Vec<f64> = found.slices.iter().map(|&cols| cols as f64).collect();
                node::apportion_columns(columns, &measured)
            }
            None => {
                let rows = self
                    .problem
                    .block_end(rect.row + rect.rows, self.problem.m())
                    - self.problem.block_end(rect.row, self.problem.m());
                memory.slice_columns((rows, columns), self.config, self.team.len())
            }
        }
    }
}
