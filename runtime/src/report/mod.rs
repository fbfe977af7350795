//! The report of a run, as one JSON document.

mod overrun;

use isochron_devices::{DeviceKind, ElementType, MeasureTally, ThreadPlace};
use isochron_hierarchy::balance::{BalanceOutcome, EndReason, imbalance};
use isochron_hierarchy::decide::LeftOut;
use isochron_hierarchy::layout::Method;
use isochron_hierarchy::layout::Way;
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::partition::Partitioner;
use isochron_hierarchy::predict::{Candidate, Links};
use serde::{Deserialize, Serialize};

use self::overrun::describe_overrun;
use crate::comm::{Comm, LinkOrigin};
use crate::error::Error;
use crate::matrix::redistribute::Moved;
use crate::matrix::{Op, Region};
pub use crate::plan::KnownFrom;
use crate::plan::{Making, Plan};
use crate::product::{Execution, Learnt};
use crate::session::Session;

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
    /// The operations on A and B: `n`, `t` or `c`.
    pub ops: [Op; 2],
    /// Block size b.
    pub block: usize,
    /// Width of the panels: the inner dimension of an update.
    pub panel: usize,
    /// Steps whose panels were here or under way while one was computed.
    pub lookahead: usize,
    /// Number of parts of k in which A and B were held, one after the other; 1 if they were held whole.
    pub k_parts: usize,
    /// Measured capacity of the links between ranks; `null` if they were not measured. It decides the panels' width,
    /// the lookahead, and if ranks pass panels on.
    pub links: Option<Links>,
    /// Origin of that capacity: `fresh` (measured), `store` (an earlier run), or `store+probe` (an earlier run,
    /// confirmed by a message); `null` without it or with a loaded plan.
    pub links_known: Option<KnownFrom>,
    /// The dimension divided among the nodes: `c` or `k`.
    pub split: String,
    /// The way of dividing: `c` (C in rectangles), `m` (C in slices of rows), `n` (C in slices of columns), or `k`.
    pub way: Way,
    /// The ways to divide that were compared, in order of their predicted seconds. Empty if the caller chose the way,
    /// or nothing was compared.
    pub candidates: Vec<Candidate>,
    /// The balancing strategy that made the plan.
    pub strategy: String,
    /// The file of a loaded plan, and its making; `null` if the plan was made in this run.
    pub loaded: Option<LoadedPlan>,
    /// Seconds of the multiplication alone, from the first rank's start to the last rank's end.
    pub wall_s: f64,
    /// Seconds of measuring and partitioning in this run.
    pub balance_s: f64,
    /// Work divided by the sum of the devices' speeds in their busy times: the seconds of a perfect split without
    /// communication. Devices without work showed no speed and do not count.
    pub ideal_s: f64,
    /// `2·m·n·k / wall_s / 10⁹`, with `8·m·n·k` for complex numbers.
    pub gflops: f64,
    /// `max |t_i - t_j| / t_i` over the busy times of the devices that had work.
    pub imbalance: f64,
    /// `true` if the result passed its check; `null` without a check, and if the check would not have found an error as large
    /// as a typical element.
    pub verified: Option<bool>,
    /// Every node, by rank.
    pub nodes: Vec<NodeReport>,
    /// The way to the balance; `null` on a layout of the caller's own.
    pub balance: Option<BalanceReport>,
    /// Results of learning in the run; `null` if all was decided before it.
    pub learning: Option<Learnt>,
    /// The result check.
    pub verify: Option<VerifyReport>,
    /// The elements of the result that are beyond the range of their type, although all of A, B and C are finite; `null` if
    /// there are none, or a check has passed.
    pub overflow: Option<String>,
    /// Digest of the elements of the output file: 16 hexadecimal digits, `null` without a file.
    pub digest: Option<String>,
    /// Messages that all ranks sent during the multiplication.
    pub messages: u64,
    /// Bytes that all ranks sent during the multiplication.
    pub bytes: u64,
    /// Reading operands from files and writing the result: seconds of the slowest rank, and the messages and bytes of
    /// elements that ranks sent each other for it. None are sent if all ranks see the same `.npy` files.
    pub redistribution: Moved,
    /// Unusual facts about the operands and the prediction of a loaded plan, one line each.
    pub notices: Vec<String>,
    /// Time account of the head rank's process; `null` if the program kept none.
    pub account: Option<Account>,
    /// The message-passing library.
    pub mpi: String,
    /// Version of Isochron.
    pub version: String,
}

/// The origin of a plan that was loaded from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadedPlan {
    /// The file.
    pub file: String,
    /// Time, version and measurements of the plan's making.
    pub made: Making,
}

/// The time account of a process in a [`Report`]. Each moment counts in one phase, so the phases add up to `process_s`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Starting: the program, MPI, and the look at the files that are named.
    pub start_s: f64,
    /// Finding or making the devices.
    pub devices_s: f64,
    /// Measuring and partitioning, or loading a plan.
    pub plan_s: f64,
    /// Reading or generating the matrices, and making the memory of panels.
    pub matrices_s: f64,
    /// Multiplying, without the making and checking of parts of A and B.
    pub multiply_s: f64,
    /// Checking the result.
    pub check_s: f64,
    /// Writing the result and the plan, gathering the report and freeing the memory.
    pub write_s: f64,
    /// Ending MPI.
    pub end_s: f64,
    /// From the first line of the program to the end of MPI. Only the output of the report follows.
    pub process_s: f64,
}

/// One node of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its rank.
    pub rank: usize,
    /// Its host.
    pub host: String,
    /// Its rectangle of C, in elements.
    #[serde(flatten)]
    pub part: Region,
    /// Its work: updates of a block of C over all of k, `rows·cols/b²` if C is divided.
    pub units: f64,
    /// Busy seconds of its slowest device ([`DeviceReport::busy_s`]).
    pub busy_s: f64,
    /// Seconds of the multiplication in which its slowest device was not busy: `max(wall_s - busy_s, 0)`.
    ///
    /// It counts, from the start of the first rank to the end of the last one:
    /// * the wait for panels that communication brought too late (`exposed_s`, which is reported by itself too);
    /// * the wait for slower nodes after its own last update;
    /// * the sum of C over the nodes (`sum_s`) and the making of parts of A and B (`parts_s`), if there are any;
    /// * the scaling of C by beta, and the start of each update on the node's threads.
    ///
    /// Faster devices of the node that wait for its slowest one do not count: compare the `busy_s` of its devices.
    pub wait_s: f64,
    /// Part of `wait_s`: seconds in which the devices waited for the panels of a step.
    pub exposed_s: f64,
    /// Part of `wait_s`: seconds after its last update until all nodes' contributions to C were summed; 0 if C stays in
    /// place.
    pub sum_s: f64,
    /// Part of `wait_s`: seconds in which its parts of A and B were made or read, and shown to the check; 0 if A and B
    /// are held whole.
    pub parts_s: f64,
    /// Its devices.
    pub devices: Vec<DeviceReport>,
    /// The origin of the choice of its BLAS: `store` (an earlier run), or `fresh` (measured by this run); `null` if the
    /// library was named, by an option or by a plan.
    pub blas_known: Option<KnownFrom>,
    /// Name of the node in the platform file.
    pub name: String,
    /// Messages it sent.
    pub messages: u64,
    /// Bytes it sent.
    pub bytes: u64,
    /// Tally of its devices' measurements in this run.
    pub measured: MeasureTally,
    /// Unusual facts about its host and its devices, and their consequences, one line each.
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
    /// Its emulated pace; `null` if it was not slowed down.
    pub paced: Option<String>,
    /// The origin of its first model; `null` if the run had nothing to learn or its plan was loaded.
    pub known: Option<KnownFrom>,
    /// Work it did, in blocks of C.
    pub units: f64,
    /// Seconds it was busy: its updates with their copies, and the beginning and the end of its job. There a GPU that
    /// keeps its columns of C copies them in and back. The scaling of C by beta does not count, nor does the wait for
    /// panels.
    pub busy_s: f64,
    /// The host's logical cores it computed on.
    pub cores: Vec<u32>,
    /// `true` if its threads were pinned to them.
    pub pinned: bool,
    /// The address of a GPU on the buses of its host; `null` for other devices.
    pub bus_id: Option<String>,
    /// The binding of each of its threads, as the system reports it, and the cores on which it ran; empty for a GPU.
    pub threads: Vec<ThreadPlace>,
}

impl Session {
    /// Tells where the links of a plan of this session are from.
    fn name_links(&self, plan: &Plan) -> Option<KnownFrom> {
        plan.links().filter(|_| plan.file().is_none())?;
        Some(match self.models.links.origin() {
            LinkOrigin::Measured => KnownFrom::Fresh,
            LinkOrigin::Recalled => KnownFrom::Store,
            LinkOrigin::Checked => KnownFrom::StoreAndProbe,
        })
    }
}

/// The way to the balance of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BalanceReport {
    /// The model made of the measured points, if the strategy is `fpm`.
    pub fit: Fit,
    /// The partition algorithm that used those models.
    pub partitioner: Partitioner,
    /// The method that laid out the nodes' areas.
    pub layout: Method,
    /// The imbalance to be reached.
    pub epsilon: f64,
    /// Number of times that all nodes were measured.
    pub iterations: u32,
    /// `true` if that imbalance was reached.
    pub converged: bool,
    /// Why balancing ended.
    pub why: EndReason,
    /// Imbalance of the nodes' times when it ended, as measured or predicted before the multiplication; `null` if
    /// nothing was measured.
    pub imbalance: Option<f64>,
    /// Predicted seconds without communication: steps times the slowest node's update; `null` if nothing was measured.
    pub predicted_s: Option<f64>,
    /// The nodes that got nothing because the run is faster without them; `null` if every node helped.
    pub left_out: Option<LeftOut>,
    /// Sum of the half perimeters of the nodes' rectangles, in blocks.
    pub half_perimeters: u64,
}

/// The result check of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// `probe` or `exact`.
    pub method: String,
    /// Largest residual in units of its bound: at most 1 if the check passed, 0 if it was exact. `null` if there is no
    /// such number, because the result is not finite or an exact check failed.
    pub residual: Option<f64>,
    /// Smallest error of one element of its row's typical size that the probe would have found in every row, as a part of
    /// the mean magnitude of the row's elements. `null` for an exact check, which finds any.
    pub finds: Option<f64>,
}

impl Report {
    /// Gathers the report of a finished multiplication. `wall_s` is this rank's own; the rest is the same on every
    /// rank.
    ///
    /// # Errors
    /// [`Error::Unreadable`] on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub fn gather(
        session: &Session,
        plan: &Plan,
        execution: &Execution,
        verify: Option<(VerifyReport, Option<bool>)>,
    ) -> Result<Self, Error> {
        let comm = session.comm();
        plan.check_ranks(comm.size())?;
        let nodes = comm.gather(&NodeReport::new(session, plan, execution))?;
        let learning = (comm.rank() == 0).then(|| execution.learnt.clone());
        let learning = comm.share(0, learning)?;
        let (problem, decision) = (plan.problem(), plan.decision());
        let loaded = plan.file().map(|file| LoadedPlan {
            file: file.display().to_string(),
            made: plan.made().clone(),
        });
        let (mut work, mut speed, mut busy) = (0.0, 0.0, Vec::new());
        for device in nodes.iter().flat_map(|node| &node.devices) {
            if device.busy_s > 0.0 {
                work += device.units;
                speed += device.units / device.busy_s;
                busy.push(device.busy_s);
            }
        }
        let (verify, verified) = verify.unzip();
        let verified = verified.flatten();
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
            links: plan.links(),
            links_known: session.name_links(plan),
            split: plan.division().to_string(),
            way: plan.way(),
            candidates: decision.candidates.clone(),
            strategy: decision.config.strategy.to_string(),
            wall_s: execution.wall_s,
            balance_s: match &loaded {
                None => plan.made().balance_s,
                Some(_) => 0.0,
            },
            loaded,
            ideal_s: if speed > 0.0 { work / speed } else { 0.0 },
            gflops: problem.flop() / execution.wall_s / 1e9,
            imbalance: imbalance(&busy),
            verified,
            balance: decision
                .balance
                .as_ref()
                .map(|balance| BalanceReport::new(plan, balance)),
            learning,
            verify,
            messages: nodes.iter().map(|node| node.messages).sum(),
            bytes: nodes.iter().map(|node| node.bytes).sum(),
            nodes,
            redistribution: Moved::default(),
            notices: describe_overrun(plan, execution.wall_s)
                .into_iter()
                .collect(),
            overflow: None,
            digest: None,
            account: None,
            mpi: comm.implementation().to_string(),
            version: env!("CARGO_PKG_VERSION").to_string(),
        })
    }

    /// Adds the movement from files and to files on all ranks; `mine` is that of this rank.
    ///
    /// # Errors
    /// [`Error::Unreadable`] on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub fn add_redistribution(&mut self, comm: &dyn Comm, mine: Moved) -> Result<(), Error> {
        let together =
            comm.gather(&mine)?
                .into_iter()
                .fold(Moved::default(), |sum: Moved, one: Moved| Moved {
                    seconds: sum.seconds.max(one.seconds),
                    ..sum.and(one)
                });
        self.redistribution = self.redistribution.and(together);
        Ok(())
    }
}

impl NodeReport {
    fn new(session: &Session, plan: &Plan, execution: &Execution) -> Self {
        let comm = session.comm();
        let rank = comm.rank();
        let units = execution.count_units(plan, rank);
        let shares = units.iter().zip(&execution.busy_s);
        let devices = session.devices().iter().zip(session.node.team.threads());
        let of_plan = plan.nodes().get(rank).filter(|_| plan.file().is_none());
        let known = of_plan
            .map_or(&[][..], |node| &node.devices)
            .iter()
            .map(|device| device.known);
        let devices = devices
            .zip(shares)
            .zip(known.chain(std::iter::repeat(None)))
            .map(
                |(((info, threads), (&units, &busy_s)), known)| DeviceReport {
                    known,
                    name: info.name.clone(),
                    kind: info.kind,
                    blas: info.blas.clone(),
                    paced: info.paced.clone(),
                    units,
                    busy_s,
                    cores: info.cores.clone(),
                    pinned: info.pinned,
                    bus_id: info.bus_id.clone(),
                    threads,
                },
            );
        let busy_s = execution.busy_s.iter().copied().fold(0.0, f64::max);
        Self {
            rank,
            host: comm.host().to_string(),
            part: execution.part,
            units: units.iter().sum(),
            busy_s,
            wait_s: (execution.wall_s - busy_s).max(0.0),
            exposed_s: execution.exposed_s,
            sum_s: execution.sum_s,
            parts_s: execution.parts_s,
            devices: devices.collect(),
            blas_known: session.models.blas_known,
            name: session.node.name().to_owned(),
            messages: execution.messages,
            bytes: execution.bytes,
            measured: match plan.file() {
                None => plan.nodes()[rank].measured,
                Some(_) => MeasureTally::default(),
            },
            notices: [session.notices().to_vec(), session.node.team.notices()].concat(),
        }
    }
}

impl BalanceReport {
    fn new(plan: &Plan, balance: &BalanceOutcome) -> Self {
        let (predicted_s, config) = (plan.predicted_s(), &plan.decision().config);
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
            left_out: plan.decision().left_out.clone(),
            half_perimeters: plan.layout().half_perimeter_sum(),
        }
    }
}
