//! The step machine that leads to a decision.

mod choices;
mod request;

pub use request::{PlanAnswer, PlanRequest};

use super::models::{AllOfC, Models};
use super::{DecideError, Decision, Division, LeftOut};
use crate::balance::{
    BalanceConfig, BalanceError, BalanceOutcome, BalanceStep, Extent, Inpa, NodeBalance, Rule,
};
use crate::layout::{Layout, LayoutError, Rect};
use crate::network::Network;
use crate::predict::Cluster;
use crate::problem::{Problem, Split};
use crate::times::Sample;

/// Decides how a multiplication is divided among nodes.
///
/// 1. The nodes are measured once on all of C if the caller wants k divided, or if that would make much
///    less travel. If k is then predicted to be the fastest, it is divided.
/// 2. [`Inpa`] balances the nodes in rectangles of C.
/// 3. Nodes that cost more than they help are left out, and the others balanced again.
/// 4. The ways to divide are compared.
///
/// # Example
/// ```
/// use isochron_hierarchy::balance::{BalanceConfig, BalanceStep, Strategy};
/// use isochron_hierarchy::decide::{PlanAnswer, PlanRequest, Planner};
/// use isochron_hierarchy::network::Network;
/// use isochron_hierarchy::predict::Cluster;
/// use isochron_hierarchy::problem::Problem;
/// use isochron_hierarchy::times::Sample;
///
/// let problem = Problem::new(6400, 6400, 6400, 100)?;
/// let cluster = Cluster { nodes: 2, hidden: 1.0 };
/// let config = BalanceConfig { strategy: Strategy::Fpm, steps: 64, ..BalanceConfig::default() };
/// let mut planner = Planner::new(problem, cluster, config, 100)?;
/// let decision = loop {
///     let answer = match planner.step() {
///         BalanceStep::Done(decision) => break decision,
///         BalanceStep::Measure(request) => match request {
///             PlanRequest::MessageCosts => PlanAnswer::MessageCosts(vec![0.0; 2]),
///             PlanRequest::Network { .. } => PlanAnswer::Network(Network::flat(1e-6, 1e10)),
///             PlanRequest::Room(_) => PlanAnswer::Room(true),
///             PlanRequest::Times { extents, .. } => {
///                 // The second node is three times as fast.
///                 let nodes = extents.iter().map(|extent| extent.area()).zip([1e4, 3e4]);
///                 let times = nodes.map(|(d, speed)| Sample::measured(d, d as f64 / speed, 3, 0.0));
///                 PlanAnswer::Times(times.collect())
///             }
///         },
///     };
///     planner.observe(answer)?;
/// };
/// assert_eq!(decision.division.layout().areas(), [1024, 3072]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Planner {
    pub(super) problem: Problem,
    pub(super) cluster: Cluster,
    pub(super) config: BalanceConfig,
    pub(super) kernel_width: usize,
    known: Answers,
    phase: PlanPhase,
    next: BalanceStep<PlanRequest, Decision>,
}

/// The answers so far.
#[derive(Debug, Clone, Default)]
struct Answers {
    byte_s: Option<Vec<f64>>,
    /// The network for each predicted run.
    networks: Vec<(f64, Network)>,
    rooms: Vec<(Division, bool)>,
    of_all_c: Option<AllOfC>,
}

#[derive(Debug, Clone)]
enum PlanPhase {
    /// Step 1.
    ConsiderK,
    /// Steps 2 and 3: some nodes are balanced; `left_out` says why not all are.
    Balance { nodes: Vec<usize>, machine: Box<Inpa>, left_out: Option<LeftOut> },
    /// Step 4.
    Compare { models: Box<Models>, left_out: Option<LeftOut> },
}

/// The reason why a phase stops.
enum PlanPause {
    Ask(PlanRequest),
    Done(Box<Decision>),
    Fail(DecideError),
}

impl PlanPause {
    fn end(decision: Decision) -> Self {
        Self::Done(Box::new(decision))
    }
}

impl From<LayoutError> for PlanPause {
    fn from(error: LayoutError) -> Self {
        Self::Fail(error.into())
    }
}

impl Planner {
    /// Starts the planning of a problem on a cluster. The updates that are measured have the inner dimension
    /// `kernel_width`; the problem is as many of them as `config` has steps.
    ///
    /// # Errors
    /// Returns [`DecideError`] if C has more blocks than can be counted, or if the configured grid does not fit the nodes, or
    /// k is to be divided.
    ///
    /// # Panics
    /// If there are no nodes.
    pub fn new(
        problem: Problem,
        cluster: Cluster,
        config: BalanceConfig,
        kernel_width: usize,
    ) -> Result<Self, DecideError> {
        config.layout.check(cluster.nodes)?;
        if let (Some(grid), Split::K) = (config.layout.grid, problem.split()) {
            return Err(LayoutError::GridAlongK(grid).into());
        }
        let mut planner = Self {
            problem,
            cluster,
            config,
            kernel_width,
            known: Answers::default(),
            phase: PlanPhase::ConsiderK,
            next: BalanceStep::Measure(PlanRequest::MessageCosts),
        };
        if config.rule() == Rule::Even {
            // No time is to be corrected.
            planner.known.byte_s = Some(vec![0.0; cluster.nodes]);
            planner.advance()?;
        }
        Ok(planner)
    }

    /// Returns the next request, or the decision. Asking twice changes nothing.
    pub fn step(&self) -> BalanceStep<PlanRequest, Decision> {
        self.next.clone()
    }

    /// Takes the answer to the request that [`step`](Self::step) returned.
    ///
    /// # Errors
    /// Returns [`BalanceError::NotMeasuring`] if it answers another request, or none; else as [`Inpa::observe`].
    pub fn observe(&mut self, answer: PlanAnswer) -> Result<(), DecideError> {
        let BalanceStep::Measure(request) = &self.next else {
            return Err(BalanceError::NotMeasuring.into());
        };
        match (request.clone(), answer) {
            (PlanRequest::MessageCosts, PlanAnswer::MessageCosts(byte_s)) => {
                self.check_length(byte_s.len())?;
                self.known.byte_s = Some(byte_s);
            }
            (PlanRequest::Network { run_s }, PlanAnswer::Network(network)) => {
                self.known.networks.push((run_s, network));
            }
            (PlanRequest::Room(division), PlanAnswer::Room(is_there)) => {
                self.known.rooms.push((division, is_there));
            }
            (PlanRequest::Times { extents, along_k }, PlanAnswer::Times(times)) => {
                self.check_length(times.len())?;
                if along_k {
                    self.known.of_all_c = Some(AllOfC::new(&self.problem, &times)?)
                } else {
                    self.observe_nodes(&extents, &times)?
                }
            }
            _ => return Err(BalanceError::NotMeasuring.into()),
        }
        self.advance()
    }

    fn check_length(&self, got: usize) -> Result<(), BalanceError> {
        match self.cluster.nodes {
            wanted if wanted != got => Err(BalanceError::WrongLength { wanted, got }),
            _ => Ok(()),
        }
    }

    /// Adds the cost of messages to the times of the nodes that are balanced, and tells them INPA.
    fn observe_nodes(&mut self, extents: &[Extent], times: &[Sample]) -> Result<(), BalanceError> {
        let PlanPhase::Balance { nodes, .. } = &self.phase else {
            return Err(BalanceError::NotMeasuring);
        };
        let busy: Vec<Sample> = nodes
            .iter()
            .map(|&node| {
                let byte_s = self.byte_s()[node];
                times[node].plus_known(self.messages_s(byte_s, extents[node], nodes.len()))
            })
            .collect();
        match &mut self.phase {
            PlanPhase::Balance { machine, .. } => machine.observe(&busy),
            _ => Err(BalanceError::NotMeasuring),
        }
    }

    /// Goes on until something is to be asked, or all is decided.
    fn advance(&mut self) -> Result<(), DecideError> {
        loop {
            match self.end_phase() {
                Ok(phase) => self.phase = phase,
                Err(PlanPause::Fail(error)) => return Err(error),
                Err(PlanPause::Ask(request)) => {
                    self.next = BalanceStep::Measure(request);
                    return Ok(());
                }
                Err(PlanPause::Done(decision)) => {
                    self.next = BalanceStep::Done(*decision);
                    return Ok(());
                }
            }
        }
    }

    /// Returns the next phase if the answers so far end this one. Without an answer it stops and is begun
    /// again once that is known.
    fn end_phase(&self) -> Result<PlanPhase, PlanPause> {
        match &self.phase {
            PlanPhase::ConsiderK => {
                self.consider_k()?;
                Ok(self.balance((0..self.cluster.nodes).collect(), None))
            }
            PlanPhase::Balance { nodes, machine, left_out } => match machine.step() {
                BalanceStep::Measure(extents) => Err(PlanPause::Ask(PlanRequest::Times {
                    extents: self.place_parts(nodes, &extents),
                    along_k: false,
                })),
                BalanceStep::Done(balance) => {
                    let balance = self.extend_to_all(nodes, balance)?;
                    self.leave_nodes_out(nodes, balance, left_out.as_ref())
                }
            },
            PlanPhase::Compare { models, left_out } => {
                let decision = self.compare_ways(models)?;
                let left_out = left_out.clone().filter(|_| decision.division.shares().is_none());
                Err(PlanPause::end(Decision { left_out, ..decision }))
            }
        }
    }

    /// Starts to balance these nodes.
    fn balance(&self, nodes: Vec<usize>, left_out: Option<LeftOut>) -> PlanPhase {
        let (rows, cols) = self.problem.c_blocks();
        let machine = Inpa::new(self.config, nodes.len(), rows, cols);
        PlanPhase::Balance { nodes, machine: Box::new(machine), left_out }
    }

    /// Returns the parts of all nodes; those that are not balanced have none.
    fn place_parts<T: Copy + Default>(&self, nodes: &[usize], parts: &[T]) -> Vec<T> {
        let mut all = vec![T::default(); self.cluster.nodes];
        for (&node, &part) in nodes.iter().zip(parts) {
            all[node] = part;
        }
        all
    }

    /// Extends the balance of some nodes to all; the others get nothing.
    fn extend_to_all(
        &self,
        nodes: &[usize],
        balance: NodeBalance,
    ) -> Result<NodeBalance, LayoutError> {
        let (layout, outcome) = (&balance.layout, balance.outcome);
        let rects: Vec<Rect> = self.place_parts(nodes, layout.rects());
        Ok(NodeBalance {
            layout: Layout::new(layout.rows(), layout.cols(), rects)?,
            fixed_s: self.place_parts(nodes, &balance.fixed_s),
            outcome: BalanceOutcome {
                times_s: self.place_parts(nodes, &outcome.times_s),
                falling: outcome.falling.iter().map(|&index| nodes[index]).collect(),
                ..outcome
            },
        })
    }

    /// Returns the seconds that a byte of a message takes from the arithmetic of each node.
    pub(super) fn byte_s(&self) -> &[f64] {
        self.known.byte_s.as_deref().unwrap_or_default()
    }

    /// Returns the network, at least as precise as a run of these predicted seconds allows.
    fn network(&self, run_s: f64) -> Result<&Network, PlanPause> {
        self.known
            .networks
            .iter()
            .filter(|(asked, _)| *asked >= run_s)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, network)| network)
            .ok_or(PlanPause::Ask(PlanRequest::Network { run_s }))
    }

    /// Returns `true` if all nodes have the memory for this division.
    fn has_room(&self, division: Division) -> Result<bool, PlanPause> {
        self.known
            .rooms
            .iter()
            .find(|(asked, _)| *asked == division)
            .map(|(_, is_there)| *is_there)
            .ok_or(PlanPause::Ask(PlanRequest::Room(division)))
    }

    /// Returns the times of all of C.
    fn times_of_all_c(&self) -> Result<&AllOfC, PlanPause> {
        let (rows, cols) = self.problem.c_blocks();
        self.known.of_all_c.as_ref().ok_or_else(|| {
            PlanPause::Ask(PlanRequest::Times {
                extents: vec![Extent { rows, cols }; self.cluster.nodes],
                along_k: true,
            })
        })
    }
}

#[cfg(test)]
pub(super) mod tests;
