//! The measurements behind a plan. The head rank steps a [`Planner`], which has two answerers: [`Ranks`] measure, and
//! models predict.
//!
//! # References
//! Clarke et al., Euro-Par 2012, section 3.

mod look;
mod look_times;
mod modelled;
mod ranks;
mod task;

use isochron_devices::{MeasureTally, Scalar};
use isochron_hierarchy::balance::{BalanceStep, Rule};
use isochron_hierarchy::decide::{Decision, PlanAnswer, PlanRequest, Planner, divide_by_points};
use isochron_hierarchy::learn::FirstLook;
use isochron_hierarchy::model::Point;
use isochron_hierarchy::network::Network;
use isochron_hierarchy::partition::Partitioner;
use isochron_hierarchy::times::Series;

use crate::comm::{NetworkProbe, agree, share_outcome};
use crate::error::Error;
use crate::plan::KnownFrom;
use crate::store::KnownTimes;
use crate::watch::LongCall;
pub(super) use look::note_prediction;
use modelled::NodeModels;
pub(crate) use ranks::Ranks;
pub(crate) use task::PlanningTask;
pub(super) use task::count_fewest_steps;

/// A decision, and this rank's part of it.
pub(crate) struct Decided {
    pub decision: Decision,
    /// Columns of this rank's devices.
    pub slices: Vec<usize>,
    /// Tally of this node's measurements.
    pub measured: MeasureTally,
    /// Network between the ranks; `None` if it was not measured.
    pub network: Option<Network>,
    /// The times behind it.
    pub probe: NetworkProbe,
    /// The look from which the run learns on; `None` if all is decided before it.
    pub look: Option<FirstLook>,
    /// The origin of the first models of this rank's devices; empty if there are none.
    pub known: Vec<KnownFrom>,
    /// The repetitions of every size that was measured, by device, on the head rank.
    pub seen: Vec<Vec<Series>>,
    /// `true` if times of this node or its devices fall with the size, and the partitioner needs times that grow.
    pub falls: bool,
}

/// Returns `true` if the times of all devices hold without a measurement.
fn are_certain(ranks: &[Vec<KnownTimes>]) -> bool {
    ranks.iter().all(|devices| {
        !devices.is_empty()
            && devices.iter().all(|device| device.is_certain() && !device.points.is_empty())
    })
}

/// Divides by HPOPTA, by the points that are known of all devices. Rank 0 divides.
///
/// # Collective
/// All ranks.
fn decide_by_points<T: Scalar>(
    mut ranks: Ranks<'_, T>,
    known: &[Vec<KnownTimes>],
) -> Result<Decided, Error> {
    let (comm, task, rank) = (ranks.comm, ranks.task, ranks.comm.rank());
    let found = (rank == 0).then(|| divide_points(&task, known));
    let (decision, mut slices) = share_outcome(comm, 0, found)?;
    ranks.measure_network(task.config.steps as f64 * decision.slowest_s().unwrap_or_default())?;
    Ok(Decided {
        slices: slices.swap_remove(rank),
        measured: ranks.measured,
        network: comm.share(0, (rank == 0).then(|| ranks.find_network()))?,
        look: None,
        known: known[rank].iter().map(|device| device.from).collect(),
        seen: Vec::new(),
        falls: false,
        decision,
        probe: ranks.probe,
    })
}

/// Divides the columns of C by HPOPTA.
///
/// # Errors
/// Returns [`Error::Parameter`] without measured times that divide C. It tells the command that measures them.
fn divide_points(
    task: &PlanningTask,
    known: &[Vec<KnownTimes>],
) -> Result<(Decision, Vec<Vec<usize>>), Error> {
    let _deciding = LongCall::begin(DECIDED_S);
    let PlanningTask { problem, config, kernel_width, .. } = task;
    let nodes = known.iter().map(|node| node.iter().map(|device| device.points.clone()).collect());
    let nodes: Vec<Vec<Vec<Point>>> = nodes.collect();
    let reason = if !known.is_empty() && are_certain(known) {
        match divide_by_points(problem, *config, *kernel_width, &nodes) {
            Ok(found) => return Ok(found),
            Err(error) => error.to_string(),
        }
    } else {
        "it takes measured times alone, and not all devices have some that hold".to_owned()
    };
    let ((rows, cols), block) = (problem.c_blocks(), problem.block());
    let reason = format!(
        "{reason}: measure columns of C by `isochron measure mxm --block {block} --height {rows} --from {rows} --to {} \
         --points {cols} --out DIR`, and give the folder by --models",
        rows * cols
    );
    Err(Error::parameter("partitioner", config.partitioner, reason))
}

/// Answers the planner until it has decided. `known` is what the head rank knows of each rank's devices; it is empty if nothing is.
/// The memory of measuring is freed then.
///
/// # Collective
/// All ranks.
pub(crate) fn decide<T: Scalar>(
    mut ranks: Ranks<'_, T>,
    known: Vec<Vec<KnownTimes>>,
) -> Result<Decided, Error> {
    let (comm, task, rank) = (ranks.comm, ranks.task, ranks.comm.rank());
    let known = share_known(&ranks, known)?;
    let is_measured_before = task.rule() == Rule::Functional { learns: false };
    if is_measured_before && task.config.partitioner == Partitioner::Hpopta {
        return decide_by_points(ranks, &known);
    }
    let learns = task.rule().learns();
    let is_modelled = learns || are_certain(&known);
    let mut modelled = None;
    if learns {
        modelled = ranks.look_at_all(&known.concat())?.map(Box::new).map(NodeModels::Look);
        ranks.free_operands();
    } else if is_modelled {
        let models = (rank == 0).then(|| NodeModels::of_known(&task, &known));
        modelled = agree(comm, models.transpose())?;
    } else {
        ranks.take_known(&known[rank]);
    }
    let decision = drive_planner(&mut ranks, modelled.as_mut())?;
    let mut decided = Decided {
        slices: Vec::new(),
        measured: ranks.measured,
        // Logarithms may differ between hosts in the last bit, and all must route alike.
        network: comm.share(0, (rank == 0).then(|| ranks.find_network()))?,
        look: None,
        known: known[rank].iter().map(|device| device.from).collect(),
        seen: Vec::new(),
        falls: false,
        decision,
        probe: NetworkProbe::default(),
    };
    if is_modelled {
        let first = modelled
            .as_mut()
            .map(|models| models.divide_first(&task, decided.decision, decided.network.as_ref()));
        let mut first = share_outcome(comm, 0, first)?;
        decided.decision = first.decision;
        decided.slices = first.slices.swap_remove(rank);
        decided.look = first.look;
        decided.falls = first.falls[rank];
        decided.seen = modelled.map(NodeModels::into_seen).unwrap_or_default();
    } else {
        decided.slices = ranks.slice_part(&decided.decision.division);
        decided.seen = ranks.gather_seen()?;
        decided.falls = ranks.falls;
    }
    let Decision { division, candidates, left_out, balance, .. } = &decided.decision;
    tracing::info!(%division, ?candidates, ?left_out, "decided");
    let balance = balance.as_ref();
    decided.falls |= balance.is_some_and(|balance| balance.falling.contains(&rank));
    decided.probe = ranks.probe;
    Ok(decided)
}

/// Shares the knowledge of each rank's devices with all ranks; nothing if all is decided without it.
///
/// # Collective
/// All ranks.
fn share_known<T: Scalar>(
    ranks: &Ranks<'_, T>,
    known: Vec<Vec<KnownTimes>>,
) -> Result<Vec<Vec<KnownTimes>>, Error> {
    let comm = ranks.comm;
    if ranks.task.rule() == Rule::Even {
        return Ok(vec![Vec::new(); comm.size()]);
    }
    let mut known = comm.share(0, (comm.rank() == 0).then_some(known))?;
    known.resize(comm.size(), Vec::new());
    let mine = &mut known[comm.rank()];
    mine.resize(ranks.team.len(), KnownTimes::fresh());
    Ok(known)
}

/// Steps the planner on the head rank, which has the models if there are some.
///
/// # Collective
/// All ranks.
fn drive_planner<T: Scalar>(
    ranks: &mut Ranks<'_, T>,
    mut modelled: Option<&mut NodeModels>,
) -> Result<Decision, Error> {
    let comm = ranks.comm;
    let PlanningTask { problem, cluster, config, kernel_width, .. } = ranks.task;
    let mut planner = None;
    let mut next = (comm.rank() == 0).then(|| {
        let planner = planner.insert(Planner::new(problem, cluster, config, kernel_width)?);
        answer_alone(ranks, modelled.as_deref_mut(), planner)
    });
    loop {
        match share_outcome(comm, 0, next)? {
            BalanceStep::Done(decision) => return Ok(decision),
            BalanceStep::Measure(request) => {
                let answer = ranks.answer(request)?;
                next = planner.as_mut().map(|planner| {
                    if let (PlanAnswer::MessageCosts(byte_s), Some(modelled)) =
                        (&answer, modelled.as_deref_mut())
                    {
                        modelled.note_message_costs(byte_s);
                    }
                    observe(planner, answer)?;
                    answer_alone(ranks, modelled.as_deref_mut(), planner)
                });
            }
        }
    }
}

/// Answers the planner on the head rank as long as no other rank is needed: with predicted times and known links. Returns its next
/// step.
fn answer_alone<T: Scalar>(
    ranks: &Ranks<'_, T>,
    mut modelled: Option<&mut NodeModels>,
    planner: &mut Planner,
) -> Result<BalanceStep<PlanRequest, Decision>, Error> {
    loop {
        let step = planner.step();
        let answer = match (&step, &mut modelled) {
            (BalanceStep::Measure(PlanRequest::Times { extents, along_k }), Some(modelled)) => {
                Some(PlanAnswer::Times(modelled.predict(&ranks.task, extents, *along_k)?))
            }
            (BalanceStep::Measure(PlanRequest::Network { run_s }), _) => {
                ranks.known_network(*run_s).map(PlanAnswer::Network)
            }
            _ => None,
        };
        match answer {
            Some(answer) => observe(planner, answer)?,
            None => return Ok(step),
        }
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
