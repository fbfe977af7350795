//! The measurements behind a plan. The head rank steps a [`Planner`]; all ranks measure what it asks for.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 3.

mod look;
mod look_times;
mod node;
mod predictor;

use isochron_devices::internal::{Load, memory_bounds};
use isochron_devices::{DeviceTeam, MeasureConfig, MeasureTally, Scalar};
use isochron_hierarchy::balance::{BalanceConfig, BalanceStep, Rule, Strategy, imbalance};
use isochron_hierarchy::decide::{Decision, Division, PlanAnswer, PlanRequest, Planner};
use isochron_hierarchy::learn::FirstLook;
use isochron_hierarchy::predict::{Cluster, Links};
use isochron_hierarchy::times::Series;

use crate::comm::{Comm, LinkLadder, agree, share_outcome};
use crate::error::Error;
use crate::plan::host_memory::{MemoryNeed, share_memory};
use crate::plan::{KnownFrom, Plan, Problem};
use crate::store::KnownDevice;
use crate::watch::LongCall;
pub(crate) use node::NodeMeasurer;
use predictor::Predictor;

/// Part of the multiplication that one measurement may take.
const MEASUREMENT_SHARE: f64 = 0.035;

/// Messages between ranks of one host are not slower than this.
const SLOWEST_MEMORY: Links = Links { latency_s: 1e-4, bytes_per_s: 2e8 };

/// Links without a measurement.
const FREE: Links = Links { latency_s: 0.0, bytes_per_s: f64::INFINITY };

/// The measurements for the plan of one problem, with elements of its type.
pub(crate) struct PlanMeasurer<'a, T> {
    node: NodeMeasurer<'a, T>,
    /// Capacity of the links between ranks, as far as measured.
    ladder: LinkLadder,
    /// The load of this rank's host.
    load: Load,
    /// Knowledge that replaces the nodes' measurements, on the head rank; `None` if they are measured.
    predictor: Option<Predictor>,
    /// Knowledge of each rank's devices, on the head rank; empty without any.
    known: Vec<Vec<KnownDevice>>,
}

/// A decision, and this rank's part of it.
pub(crate) struct Decided {
    pub decision: Decision,
    /// Columns of this rank's devices.
    pub slices: Vec<usize>,
    /// Tally of this node's measurements.
    pub measured: MeasureTally,
    /// Capacity of the links between ranks; `None` if they were not measured.
    pub links: Option<Links>,
    /// The times behind it.
    pub ladder: LinkLadder,
    /// The look from which the run learns on; `None` if all is decided before it.
    pub look: Option<FirstLook>,
    /// The origin of the first models of this rank's devices; empty if there are none.
    pub known: Vec<KnownFrom>,
    /// The repetitions of every size that was measured, by device, on the head rank.
    pub seen: Vec<Vec<Series>>,
    /// `true` if times of this node or its devices fall with the size, and the partitioner needs times that grow.
    pub falls: bool,
}

/// The decision, and this rank's part of the first division.
struct Divided {
    decision: Decision,
    slices: Vec<usize>,
    look: Option<FirstLook>,
    falls: bool,
    seen: Vec<Vec<Series>>,
}

/// Returns `true` if the times of all devices hold without a measurement.
fn are_certain(ranks: &[Vec<KnownDevice>]) -> bool {
    ranks.iter().all(|devices| {
        !devices.is_empty()
            && devices.iter().all(|device| device.is_certain() && !device.points.is_empty())
    })
}

/// A problem to be planned on the ranks of a job, and the update that is measured for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanningTask {
    pub problem: Problem,
    pub cluster: Cluster,
    /// The caller's settings, with the repetitions and steps of this run. The strategy is [`Strategy::Homogeneous`] if
    /// nothing is to be computed or divided.
    pub config: BalanceConfig,
    /// Inner dimension of the updates that are measured.
    pub kernel_width: usize,
}

impl PlanningTask {
    /// Describes the planning of a problem by these settings of balancing and measuring.
    ///
    /// # Errors
    /// [`Error::Unreadable`] on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub fn new(
        comm: &dyn Comm,
        team: &DeviceTeam,
        problem: Problem,
        config: BalanceConfig,
        measure: MeasureConfig,
    ) -> Result<Self, Error> {
        let nodes = comm.size();
        // The steps of which the fewest repetitions are the share that measuring may take.
        let fewest = f64::from(measure.min_reps) / MEASUREMENT_SHARE;
        let kernel_width = problem.kernel_width(fewest.ceil() as usize, nodes);
        let hosts = comm.gather(&comm.host().to_owned())?;
        let is_one_host = hosts.iter().all(|host| *host == hosts[0]);
        let is_decided = problem.flop() == 0.0 || (nodes == 1 && team.len() == 1);
        let mut config = BalanceConfig { reps: measure.min_reps, ..config };
        if is_decided {
            config.strategy = Strategy::Homogeneous;
        }
        // Models answer at once, so that no answer costs more than it saves.
        config.steps = if config.rule().learns() {
            0
        } else {
            problem.k().div_ceil(kernel_width.max(1)) as u64
        };
        Ok(Self {
            problem,
            cluster: Cluster { nodes, hidden: if is_one_host { 0.0 } else { 1.0 } },
            config,
            kernel_width,
        })
    }
}

impl<'a, T: Scalar> PlanMeasurer<'a, T> {
    /// Prepares measurements by this node, with the load of its host, the known times of the links and, on the head
    /// rank, of every device.
    pub(crate) fn new(
        node: NodeMeasurer<'a, T>,
        load: Load,
        ladder: LinkLadder,
        known: Vec<Vec<KnownDevice>>,
    ) -> Self {
        Self { node, ladder, load, predictor: None, known }
    }

    /// Measures for the planner until it has decided. The memory of measuring is freed then.
    ///
    /// # Collective
    /// All ranks.
    pub(crate) fn decide(mut self) -> Result<Decided, Error> {
        let learns = self.node.task.config.rule().learns();
        let known = self.share_known()?;
        let rank = self.node.comm.rank();
        let is_modelled = !learns && are_certain(&known);
        if learns {
            let looking = self.node.look_at_all(&self.known.concat())?;
            self.predictor = looking.map(Box::new).map(Predictor::Look);
            self.node.free_operands();
        } else if is_modelled {
            let models = (rank == 0).then(|| Predictor::of_models(&self.node.task, &known));
            self.predictor = agree(self.node.comm, models.transpose())?;
        } else {
            self.node.take_known(&known[rank]);
        }
        let decision = self.drive_planner()?;
        let divided = if learns || is_modelled {
            self.divide_by_prediction(decision)?
        } else {
            self.divide_as_measured(decision)?
        };
        let decision = divided.decision;
        tracing::info!(division = %decision.division, candidates = ?decision.candidates,
            left_out = ?decision.left_out, "decided");
        let balance = decision.balance.as_ref();
        let node_falls = balance.is_some_and(|balance| balance.falling.contains(&rank));
        Ok(Decided {
            falls: divided.falls || node_falls,
            links: self.find_links(),
            ladder: self.ladder,
            known: known[rank].iter().map(|device| device.from).collect(),
            seen: divided.seen,
            slices: divided.slices,
            look: divided.look,
            measured: self.node.measured,
            decision,
        })
    }

    /// Shares the knowledge of each rank's devices with all ranks; nothing if all is decided without it.
    ///
    /// # Collective
    /// All ranks.
    fn share_known(&self) -> Result<Vec<Vec<KnownDevice>>, Error> {
        let comm = self.node.comm;
        if self.node.task.config.rule() == Rule::Even {
            return Ok(vec![Vec::new(); comm.size()]);
        }
        let mut known = comm.share(0, (comm.rank() == 0).then(|| self.known.clone()))?;
        known.resize(comm.size(), Vec::new());
        let mine = &mut known[comm.rank()];
        mine.resize(self.node.team.len(), KnownDevice::fresh());
        Ok(known)
    }

    /// Divides the first step by the head rank's predictions.
    ///
    /// # Collective
    /// All ranks.
    fn divide_by_prediction(&mut self, decision: Decision) -> Result<Divided, Error> {
        let comm = self.node.comm;
        let task = self.node.task;
        let first =
            self.predictor.as_mut().map(|predictor| predictor.divide_first(&task, decision));
        let mut first = share_outcome(comm, 0, first)?;
        Ok(Divided {
            decision: first.decision,
            slices: first.slices.swap_remove(comm.rank()),
            look: first.look,
            falls: first.falls[comm.rank()],
            seen: match self.predictor.take() {
                Some(Predictor::Look(looking)) => looking.seen,
                Some(Predictor::Models(_)) | None => Vec::new(),
            },
        })
    }

    /// Divides this node's part by what was measured.
    ///
    /// # Collective
    /// All ranks.
    fn divide_as_measured(&mut self, decision: Decision) -> Result<Divided, Error> {
        Ok(Divided {
            slices: self.node.slice_part(&decision.division),
            look: None,
            falls: self.node.falls,
            seen: self.node.gather_seen()?,
            decision,
        })
    }

    fn drive_planner(&mut self) -> Result<Decision, Error> {
        let comm = self.node.comm;
        let mut head = None;
        let mut next = (comm.rank() == 0).then(|| Ok(head.insert(self.begin_planner()?).step()));
        loop {
            match share_outcome(comm, 0, next)? {
                BalanceStep::Done(decision) => return Ok(decision),
                BalanceStep::Measure(request) => {
                    let answer = self.answer(request)?;
                    next = head.as_mut().map(|planner| {
                        observe(planner, answer)?;
                        self.answer_alone(planner)?;
                        Ok(planner.step())
                    });
                }
            }
        }
    }

    /// Makes the planner on the head rank.
    fn begin_planner(&mut self) -> Result<Planner, Error> {
        let PlanningTask { problem, cluster, config, kernel_width } = self.node.task;
        let mut planner = Planner::new(problem, cluster, config, kernel_width)?;
        self.answer_alone(&mut planner)?;
        Ok(planner)
    }

    /// Answers the planner on the head rank as long as no other rank is needed: with predicted times and known links.
    fn answer_alone(&mut self, planner: &mut Planner) -> Result<(), Error> {
        while let BalanceStep::Measure(request) = planner.step() {
            let answer = match (request, &mut self.predictor) {
                (PlanRequest::Times { extents, along_k }, Some(predictor)) => {
                    PlanAnswer::Times(predictor.predict(&self.node.task, &extents, along_k)?)
                }
                (PlanRequest::Links { run_s }, _) if self.ladder.is_settled(run_s) => {
                    PlanAnswer::Links(self.find_links().unwrap_or(FREE))
                }
                _ => return Ok(()),
            };
            observe(planner, answer)?;
        }
        Ok(())
    }

    /// Measures for a request of the planner.
    ///
    /// # Collective
    /// All ranks.
    fn answer(&mut self, request: PlanRequest) -> Result<PlanAnswer, Error> {
        let comm = self.node.comm;
        Ok(match request {
            PlanRequest::MessageCosts => {
                let byte_s = self.measure_messages()?;
                if let Some(Predictor::Look(looking)) = &mut self.predictor {
                    looking.look.byte_s.clone_from(&byte_s);
                }
                PlanAnswer::MessageCosts(byte_s)
            }
            PlanRequest::Links { run_s } => PlanAnswer::Links(self.measure_links(run_s)?),
            PlanRequest::Times { extents, along_k } => {
                let mine = self.node.measure(extents[comm.rank()], along_k)?;
                let times = comm.gather(&mine)?;
                let times_s: Vec<f64> = times.iter().map(|time| time.seconds).collect();
                self.node.note_measured(&times_s, Some(imbalance(&times_s)));
                PlanAnswer::Times(times)
            }
            PlanRequest::Room(division) => PlanAnswer::Room(self.has_room(division)?),
        })
    }

    /// Measures the capacity of the links between ranks as precisely as a run of `run_s` predicted seconds allows.
    /// Links without a measurement cost nothing.
    ///
    /// # Collective
    /// All ranks.
    fn measure_links(&mut self, run_s: f64) -> Result<Links, Error> {
        self.ladder.climb(self.node.comm, run_s)?;
        Ok(self.find_links().unwrap_or(FREE))
    }

    /// Returns the capacity of the links as far as measured. Ranks of one host copy messages in its memory: if that
    /// seems slower than any memory is, other programs had the cores.
    fn find_links(&self) -> Option<Links> {
        let links = self.ladder.links()?;
        Some(if self.node.task.cluster.hidden > 0.0 {
            links
        } else {
            Links {
                latency_s: links.latency_s.min(SLOWEST_MEMORY.latency_s),
                bytes_per_s: links.bytes_per_s.max(SLOWEST_MEMORY.bytes_per_s),
            }
        })
    }

    /// Measures the seconds that a byte of a message takes from the arithmetic of each node.
    ///
    /// # Collective
    /// All ranks.
    fn measure_messages(&mut self) -> Result<Vec<f64>, Error> {
        let comm = self.node.comm;
        let mut byte_s = vec![0.0; comm.size()];
        byte_s[comm.rank()] = self.load.message_cost;
        comm.sum_f64(&mut byte_s)?;
        if byte_s.iter().all(|&cost| cost <= 0.0) {
            return Ok(byte_s);
        }
        self.ladder.climb(comm, 0.0)?;
        let core_s = self.ladder.measure_core_s(comm)?;
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
        self.node.free_operands();
        let comm = self.node.comm;
        let mut next = Some(Plan::of_division(self.node.task.problem, division, &[]));
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
}

/// Seconds that a decision may take: the search of HPOPTA over many sizes is one computation.
const DECIDED_S: f64 = 60.0;

/// Tells the planner an answer.
fn observe(planner: &mut Planner, answer: PlanAnswer) -> Result<(), Error> {
    let span = tracing::info_span!("partition");
    let _entered = span.enter();
    tracing::debug!(?answer, "measured for the plan");
    let _deciding = LongCall::begin(DECIDED_S);
    Ok(planner.observe(answer)?)
}
