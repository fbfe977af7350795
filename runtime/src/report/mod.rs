//! The report of a run, as one JSON document.

mod overrun;

use std::sync::Arc;

use isochron_devices::{DeviceKind, ElementType, MeasureTally, ThreadPlace};
use isochron_hierarchy::balance::{BalanceOutcome, EndReason, imbalance};
use isochron_hierarchy::decide::LeftOut;
use isochron_hierarchy::layout::Arrangement;
use isochron_hierarchy::layout::Way;
use isochron_hierarchy::model::Fit;
use isochron_hierarchy::network::Network;
use isochron_hierarchy::partition::Partitioner;
use isochron_hierarchy::predict::Candidate;
use serde::{Deserialize, Serialize};

use self::overrun::describe_overrun;
use crate::comm::{Comm, NetworkOrigin};
use crate::error::Error;
use crate::matrix::redistribute::Moved;
use crate::matrix::{Op, Region};
pub use crate::plan::KnownFrom;
use crate::plan::{Making, Plan};
use crate::product::{Execution, Learnt};
use crate::session::Session;

/// Version of the report format.
pub const SCHEMA: u32 = 2;

/// The report of one multiplication. Times in seconds, units in `b×b` blocks of C.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Report {
    /// Version of the format.
    #[cfg_attr(feature = "schemars", schemars(extend("const" = SCHEMA)))]
    pub schema: u32,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Type of the elements.
    pub element: ElementType,
    /// Operations on A and B: `n` none, `t` the transpose, `c` the conjugate transpose.
    pub ops: [Op; 2],
    /// Block size b.
    pub block: usize,
    /// Width of the panels: the inner dimension of an update.
    pub panel: usize,
    /// Steps whose panels were there or on their way while one step was computed.
    pub lookahead: usize,
    /// Number of parts of k in which A and B were held, one after the other; 1 if they were held whole.
    pub k_parts: usize,
    /// Measured network between ranks, which decides the width of the panels, how far ahead they are sent, whether they are passed
    /// on, and where parts of C lie; `null` if it was not measured.
    pub network: Option<Arc<Network>>,
    /// Origin of `network`: `fresh` (measured), `store` (an earlier run), or `store+probe` (an earlier run, confirmed
    /// by a message); `null` without it or with a loaded plan.
    #[cfg_attr(
        feature = "schemars",
        schemars(extend("enum" = ["store", "store+probe", "fresh", null]))
    )]
    pub network_known: Option<KnownFrom>,
    /// The dimension that the shares were cut from.
    #[cfg_attr(feature = "schemars", schemars(extend("enum" = ["c", "k"])))]
    pub split: String,
    /// The divided matrix or dimension: `c` is C in rectangles, `m` C in slices of rows, `n` C in slices of columns,
    /// `k` k in shares.
    pub way: Way,
    /// The ways that were compared, fastest first; empty if the caller chose, or nothing was compared.
    pub candidates: Vec<Candidate>,
    /// The balancing strategy that made the plan.
    #[cfg_attr(feature = "schemars", schemars(with = "isochron_hierarchy::balance::Strategy"))]
    pub strategy: String,
    /// The file of the plan that was used; `null` if the plan was made in this run.
    pub loaded: Option<LoadedPlan>,
    /// Seconds of the multiplication alone, from the start of the first rank to the end of the last.
    pub wall_s: f64,
    /// Seconds of measuring and partitioning in this run.
    pub balance_s: f64,
    /// Work divided by the sum of the speeds that the devices showed while busy: the wall time of a perfect split
    /// without communication. Devices without work do not count.
    pub ideal_s: f64,
    /// `2·m·n·k / wall_s / 10⁹`; `8·m·n·k` for complex numbers.
    pub gflops: f64,
    /// `max │tᵢ - tⱼ│ / tᵢ` over the busy times of the devices with work.
    pub imbalance: f64,
    /// `true` if the result passed its check, and `false` if it is wrong; `null` without a check, and if the check cannot
    /// tell.
    pub verified: Option<bool>,
    /// Every node, by rank, with its rectangle of C at the end.
    pub nodes: Vec<NodeReport>,
    /// The way to the balance; `null` for a layout of the caller's own.
    pub balance: Option<BalanceReport>,
    /// Results of learning in the run; `null` if all was decided before it.
    pub learning: Option<Learnt>,
    /// The check of the result; `null` without one.
    pub verify: Option<VerifyReport>,
    /// The elements of the result that are beyond the range of their type, although all of A, B and C are finite; `null` if
    /// there are none, or a check has passed.
    pub overflow: Option<String>,
    /// Digest of the elements of the output file, which `isochron check` compares: 16 hexadecimal digits. `null`
    /// without a file.
    pub digest: Option<String>,
    /// Messages that all ranks sent during the multiplication.
    pub messages: u64,
    /// Bytes that all ranks sent during the multiplication.
    pub bytes: u64,
    /// Reading operands from files and writing the result. No elements travel if all ranks see the same `.npy` files.
    pub redistribution: Moved,
    /// Unusual facts about the operands and the prediction of a loaded plan, one line each.
    pub notices: Vec<String>,
    /// Time account of the first rank's process. Each moment counts in one phase, so the phases add up to
    /// `process_s`. `null` in the report of a program that keeps no account.
    pub account: Option<Account>,
    /// The message-passing library.
    pub mpi: String,
    /// Version of Isochron.
    pub version: String,
}

/// The origin of a plan that was loaded from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LoadedPlan {
    /// The file.
    pub file: String,
    /// Time, version and measurements of the plan's making.
    pub made: Making,
}

/// The time account of a process in a [`Report`]. Each moment counts in one phase, so the phases add up to `process_s`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Account {
    /// Starting: the program, MPI, and the look at the files that are named.
    pub start_s: f64,
    /// Finding or making the devices.
    pub devices_s: f64,
    /// Measuring and partitioning, or loading a plan.
    pub plan_s: f64,
    /// Reading or generating the matrices, also those parts of A and B that are made during the multiplication, and
    /// making the memory of panels.
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct NodeReport {
    /// Its rank.
    pub rank: usize,
    /// Its host.
    pub host: String,
    /// Its rectangle of C, in elements.
    #[serde(flatten)]
    pub part: Region,
    /// Its work: updates of a block of C over all of k, `rows·cols/b²` if C is divided and its part never changed.
    pub units: f64,
    /// Busy seconds of its slowest device.
    pub busy_s: f64,
    /// Seconds of the multiplication in which its slowest device was not busy: `max(wall_s - busy_s, 0)`. It counts
    /// the wait for late panels (`exposed_s`), the wait for slower nodes, the sum of C (`sum_s`), the making of parts
    /// of A and B (`parts_s`), the scaling of C by β, and the start of each update.
    ///
    /// Faster devices of the node that wait for its slowest one do not count: compare the `busy_s` of its devices.
    pub wait_s: f64,
    /// Part of `wait_s`: seconds in which the devices waited for the panels of a step, or for the decision about it.
    pub exposed_s: f64,
    /// Part of `wait_s`: seconds from its last update until the parts of C of all nodes were summed; 0 if C stays in
    /// place.
    pub sum_s: f64,
    /// Part of `wait_s`: seconds in which its parts of A and B were made or read, and shown to the check; 0 if A and B
    /// are held whole.
    pub parts_s: f64,
    /// Its devices.
    pub devices: Vec<DeviceReport>,
    /// Origin of the choice of its BLAS: `store` (an earlier run) or `fresh` (measured by this run); `null` if the
    /// library was named, by an option or by a plan.
    #[cfg_attr(
        feature = "schemars",
        schemars(extend("enum" = ["store", "fresh", null]))
    )]
    pub blas_known: Option<KnownFrom>,
    /// Its name in the platform file.
    pub name: String,
    /// Messages that it sent.
    pub messages: u64,
    /// Bytes that it sent.
    pub bytes: u64,
    /// Tally of its devices' measurements in this run.
    pub measured: MeasureTally,
    /// Unusual facts about its host and its devices, and their consequences, one line each.
    pub notices: Vec<String>,
}

/// One device of a [`NodeReport`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// BLAS that it called.
    pub blas: String,
    /// The pace that slowed it down on purpose; `null` at full speed.
    pub paced: Option<String>,
    /// The origin of its first model: `models` (given by hand), `store` (times of earlier runs), `store+probe` (times
    /// of earlier runs, scaled by a measurement because other conditions held), or `fresh` (measurements of this run
    /// alone); `null` if the run had nothing to learn or its plan was loaded.
    pub known: Option<KnownFrom>,
    /// Its work, in blocks of C.
    pub units: f64,
    /// Seconds that it was busy: its updates with their copies, and the copies of C to and from a GPU. The scaling of
    /// C by β, and waiting for panels, do not count.
    pub busy_s: f64,
    /// Logical cores of the host that it computed on.
    pub cores: Vec<u32>,
    /// `true` if its threads were bound to these cores.
    pub pinned: bool,
    /// Bus address of a GPU; `null` for other devices.
    pub bus_id: Option<String>,
    /// Its threads, with their binding as the system reports it and the cores on which they ran; empty for a GPU.
    pub threads: Vec<ThreadPlace>,
}

impl Session {
    /// Tells where the network of a plan of this session is from.
    fn name_network(&self, plan: &Plan) -> Option<KnownFrom> {
        plan.network().filter(|_| plan.file().is_none())?;
        Some(match self.models.network.origin() {
            NetworkOrigin::Measured => KnownFrom::Fresh,
            NetworkOrigin::Recalled => KnownFrom::Store,
            NetworkOrigin::Checked => KnownFrom::StoreAndProbe,
        })
    }
}

/// The way to the balance of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct BalanceReport {
    /// Model made of the points, if the strategy is `fpm`.
    pub fit: Fit,
    /// Partitioner that divided by these models.
    pub partitioner: Partitioner,
    /// Arrangement of the areas: the method, and the grid if one is given, as in `kl in 2x3`.
    pub layout: Arrangement,
    /// Wanted imbalance.
    pub epsilon: f64,
    /// Number of measurements of all nodes.
    pub iterations: u32,
    /// `true` if the wanted imbalance was reached.
    pub converged: bool,
    /// Why balancing ended. `balanced`: the last division was balanced, or the best that the models allow.
    /// `nothing-new`: the next division was measured before. `not-worth-it`: more measuring would cost more than it
    /// saves. `iteration-limit`: the iterations were used up. `predicted`: the result follows from a measurement and
    /// was not measured. `not-measured`: an even split. `no-work`: nothing to divide.
    pub why: EndReason,
    /// Imbalance of the nodes' times when balancing ended, measured or predicted before the multiplication; `null` if
    /// nothing was measured.
    pub imbalance: Option<f64>,
    /// Predicted wall time without communication, in seconds: steps times the slowest node's update; `null` if
    /// nothing was measured.
    pub predicted_s: Option<f64>,
    /// Nodes without work because the product is faster without them; `null` if all nodes help.
    pub left_out: Option<LeftOut>,
    /// Sum of the half-perimeters of the nodes' rectangles, in blocks.
    pub half_perimeters: u64,
}

/// The result check of a [`Report`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct VerifyReport {
    /// The check.
    #[cfg_attr(feature = "schemars", schemars(extend("enum" = ["probe", "exact"])))]
    pub method: String,
    /// Largest residual in units of its bound, or error of an element where the residual was above it: at most 1 if
    /// the check passed, and 0 for an exact check. `null` if there is no such number: the result is not finite, or an
    /// exact check failed.
    pub residual: Option<f64>,
    /// Smallest error of one element that the probe would have found wherever it is, as a part of the mean magnitude
    /// of the elements of its row. `null` for an exact check, which finds any, and if there is no such number.
    pub finds: Option<f64>,
    /// Reason why the check cannot tell whether the result is right; `null` if it can.
    pub doubt: Option<String>,
}

impl Report {
    /// Gathers the report of a finished multiplication. `wall_s` is this rank's own; the rest is the same on every
    /// rank.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] on every rank.
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
        let loaded = plan
            .file()
            .map(|file| LoadedPlan { file: file.display().to_string(), made: plan.made().clone() });
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
            network: plan.network().cloned(),
            network_known: session.name_network(plan),
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
            balance: decision.balance.as_ref().map(|balance| BalanceReport::new(plan, balance)),
            learning,
            verify,
            messages: nodes.iter().map(|node| node.messages).sum(),
            bytes: nodes.iter().map(|node| node.bytes).sum(),
            nodes,
            redistribution: Moved::default(),
            notices: describe_overrun(plan, execution.wall_s).into_iter().collect(),
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
    /// Returns [`Error::Unreadable`] on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub fn add_redistribution(&mut self, comm: &dyn Comm, mine: Moved) -> Result<(), Error> {
        let together =
            comm.gather(&mine)?.into_iter().fold(Moved::default(), |sum: Moved, one: Moved| {
                Moved { seconds: sum.seconds.max(one.seconds), ..sum.and(one) }
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
        let known = of_plan.map_or(&[][..], |node| &node.devices).iter().map(|device| device.known);
        let devices = devices.zip(shares).zip(known.chain(std::iter::repeat(None))).map(
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
