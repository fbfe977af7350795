//! What a run did, as one JSON document.

use isochron_devices::{DeviceInfo, DeviceKind, ElementType, MeasureTally, ThreadPlace};
use isochron_hierarchy::balance::{BalanceConfig, EndReason, NodeBalance, imbalance};
use isochron_hierarchy::layout::Method;
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::Partitioner;
use isochron_hierarchy::predict::{Candidate, Links, Way};
use serde::{Deserialize, Serialize};

use super::Session;
use crate::comm::Comm;
use crate::error::Error;
use crate::matrix::Op;
use crate::matrix::redistribute::Moved;
use crate::multiply::{Execution, LeftOut, Plan};

/// Version of the report format.
pub const SCHEMA: u32 = 1;

/// The report of one multiplication. Times in seconds, units in `b×b` blocks of C.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this format, 1.
    pub schema: u32,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Type of the elements: `f32`, `f64`, `c32` or `c64`.
    pub element: ElementType,
    /// What was taken of A and of B: `n`, `t` or `c`.
    pub ops: [Op; 2],
    /// Block size b.
    pub block: usize,
    /// Width of the panels: the inner dimension of an update.
    pub panel: usize,
    /// Steps whose panels were here or on their way while one was computed.
    pub lookahead: usize,
    /// In how many parts of k A and B were held, one after the other; 1 where they were held whole.
    pub k_parts: usize,
    /// What the links between ranks were measured to carry, which decides about the panels' width, how far ahead they are sent
    /// and whether they are passed on; `null` where they were not measured.
    pub links: Option<Links>,
    /// What the nodes' shares were cut from: `c`, or `k`.
    pub split: String,
    /// What was divided: `c` (C in rectangles), `m` (C in slices of rows), `n` (C in slices of columns), or `k`.
    pub way: Way,
    /// The ways to divide that were compared, and what each was predicted to take, in order of these seconds; empty where
    /// the caller said what to divide, or nothing was compared.
    pub candidates: Vec<Candidate>,
    /// The balancing strategy.
    pub strategy: String,
    /// The multiplication alone: from the first rank's start to the last rank's end.
    pub wall_s: f64,
    /// Measuring and partitioning.
    pub balance_s: f64,
    /// Work divided by the sum of the speeds that the devices showed in their busy times: the wall time of a perfect split
    /// without communication. Devices that got nothing showed no speed and are not in it.
    pub ideal_s: f64,
    /// `2·m·n·k / wall_s / 10⁹`; `8·m·n·k` of complex numbers.
    pub gflops: f64,
    /// `max |t_i - t_j| / t_i` over the busy times of the devices that had work.
    pub imbalance: f64,
    /// Whether the result passed its check; `null` without one.
    pub verified: Option<bool>,
    /// Every node, by rank.
    pub nodes: Vec<NodeReport>,
    /// How the balance was found; `null` on a layout of the caller's own.
    pub balance: Option<BalanceReport>,
    /// The result check.
    pub verify: Option<VerifyReport>,
    /// Messages that all ranks sent during the multiplication.
    pub messages: u64,
    /// Bytes that all ranks sent during the multiplication.
    pub bytes: u64,
    /// Reading operands from files and writing the result: seconds of the slowest rank, and the messages and bytes of
    /// elements that ranks sent each other for it. None are sent where all ranks see the same `.npy` files.
    pub redistribution: Moved,
    /// The message-passing library.
    pub mpi: String,
    /// Version of Isochron.
    pub version: String,
}

/// One node of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its rank.
    pub rank: usize,
    /// Its host.
    pub host: String,
    /// First row of its rectangle of C, in elements.
    pub row: usize,
    /// First column.
    pub col: usize,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Its work: updates of a block of C over all of k, `rows·cols/b²` where C is divided.
    pub units: f64,
    /// Busy time of its slowest device.
    pub busy_s: f64,
    /// Wall time less busy time: communication, and waiting for the others.
    pub wait_s: f64,
    /// Part of it in which the devices waited for the panels of a step.
    pub exposed_s: f64,
    /// Seconds after its last update until all nodes' parts of C were summed; 0 where C stays in place.
    pub sum_s: f64,
    /// Seconds in which its A and B were made or read, and shown to the check, where they are held in parts of k.
    pub parts_s: f64,
    /// Its devices.
    pub devices: Vec<DeviceReport>,
    /// Name of the node in the platform file.
    pub name: String,
    /// Messages it sent.
    pub messages: u64,
    /// Bytes it sent.
    pub bytes: u64,
    /// How the measurements of its devices went.
    pub measured: MeasureTally,
    /// What is unusual about its host and what it means, one line each.
    pub notices: Vec<String>,
}

/// One device of a [`NodeReport`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// `cpu` or `cuda`.
    pub kind: DeviceKind,
    /// The BLAS it called.
    pub blas: String,
    /// How it was slowed down; `null` when it was not.
    pub paced: Option<String>,
    /// Work it did, in blocks of C.
    pub units: f64,
    /// Seconds it was busy: its updates with the copies in them, and the beginning and the end of its job, where a GPU that
    /// keeps its columns of C copies them there and back. The scaling of C by beta is no part of it, nor are panels that
    /// it waited for.
    pub busy_s: f64,
    /// The host's logical cores it computed on.
    pub cores: Vec<u32>,
    /// Whether its threads were pinned to them.
    pub pinned: bool,
    /// The address of a GPU on the buses of its host; `null` for other devices.
    pub bus_id: Option<String>,
    /// Where its threads were bound, as the system says, and where they ran; empty for a GPU.
    pub threads: Vec<ThreadPlace>,
}

/// How a [`Report`]'s balance was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BalanceReport {
    /// What the measured points were made into, where the strategy is `fpm`.
    pub fit: Fit,
    /// What divided by those models.
    pub partitioner: Partitioner,
    /// How the nodes' areas were laid out.
    pub layout: Method,
    /// The wanted imbalance.
    pub epsilon: f64,
    /// How often all nodes were measured.
    pub iterations: u32,
    /// Whether the wanted imbalance was reached.
    pub converged: bool,
    /// Why balancing ended.
    pub why: EndReason,
    /// Imbalance of the nodes' times when it ended, as measured or predicted before the multiplication; `null` where
    /// nothing was measured.
    pub imbalance: Option<f64>,
    /// Predicted wall time without communication: steps times the slowest node's update; `null` where nothing was
    /// measured.
    pub predicted_s: Option<f64>,
    /// The nodes that got nothing because it is faster without them; `null` where everybody helped.
    pub left_out: Option<LeftOut>,
    /// Sum of the half perimeters of the nodes' rectangles, in blocks.
    pub half_perimeters: u64,
}

/// The result check of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// `probe` or `exact`.
    pub method: String,
    /// Largest residual in units of its bound; at most 1 when the check passed, 0 when it was exact. `null` when
    /// there is no such number: the result is not finite, or an exact check failed.
    pub residual: Option<f64>,
}

impl Report {
    /// Gathers the report of a finished multiplication. The times of the whole (`wall_s`, `balance_s`) are those that
    /// this rank saw, the rest is the same on every rank.
    ///
    /// # Errors
    /// [`Error::Unreadable`] on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub fn gather(
        session: &Session<'_>,
        plan: &Plan,
        config: &BalanceConfig,
        execution: &Execution,
        verify: Option<(VerifyReport, bool)>,
    ) -> Result<Self, Error> {
        let comm = session.comm();
        let nodes = comm.gather(&NodeReport::new(session, plan, execution))?;
        let problem = plan.problem();
        let devices = || {
            nodes
                .iter()
                .flat_map(|node| &node.devices)
                .filter(|device| device.busy_s > 0.0)
        };
        let work: f64 = devices().map(|device| device.units).sum();
        let speed: f64 = devices().map(|device| device.units / device.busy_s).sum();
        let busy: Vec<f64> = devices().map(|device| device.busy_s).collect();
        let (verify, verified) = verify.unzip();
        Ok(Self {
            schema: SCHEMA,
            m: problem.m(),
            n: problem.n(),
            k: problem.k(),
            element: problem.element(),
            ops: problem.ops(),
            block: problem.block(),
            panel: plan.panel(),
            lookahead: plan.lookahead(),
            k_parts: plan.k_parts(),
            links: plan.links().copied(),
            split: plan.split().to_string(),
            way: plan.way(),
            candidates: plan.candidates().to_vec(),
            strategy: config.strategy.to_string(),
            wall_s: execution.wall_s,
            balance_s: plan.balance_s(),
            ideal_s: if speed > 0.0 { work / speed } else { 0.0 },
            gflops: problem.flop() / execution.wall_s / 1e9,
            imbalance: imbalance(&busy),
            verified,
            balance: plan
                .balance()
                .map(|balance| BalanceReport::new(plan, balance, config)),
            verify,
            messages: nodes.iter().map(|node| node.messages).sum(),
            bytes: nodes.iter().map(|node| node.bytes).sum(),
            nodes,
            redistribution: Moved::default(),
            mpi: comm.implementation().to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
        })
    }
}

impl Report {
    /// Adds what all ranks have moved from files or to them, `mine` on this one.
    ///
    /// # Errors
    /// [`Error::Unreadable`] on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub fn add_redistribution(&mut self, comm: &dyn Comm, mine: Moved) -> Result<(), Error> {
        let all = comm.gather(&mine)?.into_iter();
        let together = all.fold(Moved::default(), |sum: Moved, one: Moved| Moved {
            seconds: sum.seconds.max(one.seconds),
            ..sum.and(one)
        });
        self.redistribution = self.redistribution.and(together);
        Ok(())
    }
}

impl NodeReport {
    fn new(session: &Session<'_>, plan: &Plan, execution: &Execution) -> Self {
        let comm = session.comm();
        let rank = comm.rank();
        let part = plan.c().part(rank);
        let mut threads = session.threads().into_iter();
        let device = |((info, &cols), &busy_s): ((&DeviceInfo, &usize), &f64)| DeviceReport {
            threads: threads.next().unwrap_or_default(),
            ..DeviceReport::new(info.clone(), plan.units_of(rank, cols), busy_s)
        };
        let busy_s = execution.busy_s.iter().copied().fold(0.0, f64::max);
        Self {
            rank,
            host: comm.host().to_string(),
            row: part.row,
            col: part.col,
            rows: part.rows,
            cols: part.cols,
            units: plan.units(rank),
            busy_s,
            wait_s: (execution.wall_s - busy_s).max(0.0),
            exposed_s: execution.exposed_s,
            sum_s: execution.sum_s,
            parts_s: execution.parts_s,
            devices: session
                .devices()
                .iter()
                .zip(plan.slices())
                .zip(&execution.busy_s)
                .map(device)
                .collect(),
            name: session.node_name().to_string(),
            messages: execution.messages,
            bytes: execution.bytes,
            measured: *plan.measured(),
            notices: session.notices().to_vec(),
        }
    }
}

impl DeviceReport {
    fn new(info: DeviceInfo, units: f64, busy_s: f64) -> Self {
        let DeviceInfo {
            name,
            kind,
            blas,
            paced,
            clock: _,
            cores,
            pinned,
            bus_id,
        } = info;
        Self {
            name,
            kind,
            blas,
            paced,
            units,
            busy_s,
            cores,
            pinned,
            bus_id,
            threads: Vec::new(),
        }
    }
}

impl BalanceReport {
    fn new(plan: &Plan, balance: &NodeBalance, config: &BalanceConfig) -> Self {
        let predicted_s = plan.predicted_s();
        Self {
            fit: config.fit,
            partitioner: config.partitioner,
            layout: config.layout,
            epsilon: config.epsilon,
            iterations: balance.iterations,
            converged: balance.converged,
            why: balance.why,
            imbalance: predicted_s.map(|_| balance.imbalance),
            predicted_s,
            left_out: plan.left_out().cloned(),
            half_perimeters: plan.layout().half_perimeter_sum(),
        }
    }
}
