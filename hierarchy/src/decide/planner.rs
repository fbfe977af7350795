//! The step machine that leads to a decision.

use serde::{Deserialize, Serialize};

use super::{
    AllOfC, DecideError, Decision, Division, LeftOut, Models, SplitChoice, Work, decide,
    find_left_out,
};
use crate::balance::{
    BalanceError, BalanceStep, EndReason, Extent, Inpa, NodeBalance, Observation, Strategy,
};
use crate::layout::{Layout, LayoutError, Rect, arrange, columns};
use crate::predict::{Links, NodeRate, Way, choose_nodes, panel_traffic, reduction_traffic};

/// The panels must take more than this many times as long to travel as the sum of C before k is
/// considered, since nothing hides the sum. Otherwise k is no candidate: its seconds would be the only
/// ones without a measurement.
const CLEARLY_LESS: f64 = 2.0;

/// What a [`Planner`] wants to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanRequest {
    /// The seconds that a byte of a message takes from the arithmetic of each node.
    MessageCosts,
    /// The capacity of the links.
    Links {
        /// Predicted seconds of the run, which decide how much measuring is worth; 0 if unknown.
        run_s: f64,
    },
    /// The time of each node for an update of such a part of C, without messages.
    Times {
        /// The parts, by node; `0 × 0` for nodes without work.
        extents: Vec<Extent>,
        /// `true` if each node would compute it over its share of k alone.
        along_k: bool,
    },
    /// Whether all nodes have the memory for this division.
    Room(Division),
}

/// The answer to a [`PlanRequest`].
#[derive(Debug, Clone, PartialEq)]
pub enum PlanAnswer {
    /// Seconds, by node.
    MessageCosts(Vec<f64>),
    /// The capacity.
    Links(Links),
    /// The times, by node.
    Times(Vec<Observation>),
    /// `true` if there is room.
    Room(bool),
}

/// Decides how a multiplication is divided among nodes.
///
/// 1. The nodes are measured once on all of C if the caller wants k divided, or if that would make much
///    less travel. If k is then predicted to be the fastest, it is divided.
/// 2. [`Inpa`] balances the nodes in rectangles of C.
/// 3. Nodes that cost more than they help are left out, and the others balanced again.
/// 4. The ways to divide are compared ([`decide()`]).
///
/// # Example
/// ```
/// use isochron_hierarchy::balance::{BalanceConfig, BalanceStep, Observation, Strategy};
/// use isochron_hierarchy::decide::{PlanAnswer, PlanRequest, Planner, SplitChoice, Work};
/// use isochron_hierarchy::predict::Links;
///
/// let work = Work {
///     nodes: 2, m: 6400, n: 6400, k: 6400, block: 100,
///     element_bytes: 8, panel: 200, kernel_width: 100, hidden: 1.0,
///     split: SplitChoice::Auto, may_slice: true,
///     config: BalanceConfig::default(), strategy: Strategy::Fpm, reps: 3,
/// };
/// let mut planner = Planner::new(work)?;
/// let decision = loop {
///     let answer = match planner.step() {
///         BalanceStep::Done(decision) => break decision,
///         BalanceStep::Measure(request) => match request {
///             PlanRequest::MessageCosts => PlanAnswer::MessageCosts(vec![0.0; 2]),
///             PlanRequest::Links { .. } => PlanAnswer::Links(Links { latency_s: 1e-6, bytes_per_s: 1e10 }),
///             PlanRequest::Room(_) => PlanAnswer::Room(true),
///             PlanRequest::Times { extents, .. } => {
///                 // The second node is three times as fast.
///                 let nodes = extents.iter().zip([1e4, 3e4]);
///                 let times_s = nodes.map(|(extent, speed)| extent.area() as f64 / speed);
///                 PlanAnswer::Times(times_s.map(|t_s| Observation::measured(t_s, 3, 0.0)).collect())
///             }
///         },
///     };
///     planner.observe(answer)?;
/// };
/// assert_eq!(decision.division.layout().areas(), [1024, 3072]);
/// # Ok::<(), isochron_hierarchy::decide::DecideError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Planner {
    work: Work,
    known: Answers,
    phase: PlanPhase,
    next: BalanceStep<PlanRequest, Decision>,
}

/// The answers so far.
#[derive(Debug, Clone, Default)]
struct Answers {
    byte_s: Option<Vec<f64>>,
    /// The capacity of the links for each predicted run.
    links: Vec<(f64, Links)>,
    rooms: Vec<(Division, bool)>,
    of_all_c: Option<AllOfC>,
}

#[derive(Debug, Clone)]
enum PlanPhase {
    /// Step 1.
    ConsiderK,
    /// Steps 2 and 3: some nodes are balanced; `left_out` says why not all are.
    Balance {
        nodes: Vec<usize>,
        machine: Box<Inpa>,
        left_out: Option<LeftOut>,
    },
    /// Step 4.
    Compare {
        models: Box<Models>,
        left_out: Option<LeftOut>,
    },
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
    /// Starts the planning of a multiplication.
    ///
    /// # Errors
    /// [`DecideError`] if C has more blocks than can be counted.
    ///
    /// # Panics
    /// If there are no nodes.
    pub fn new(work: Work) -> Result<Self, DecideError> {
        let mut planner = Self {
            work,
            known: Answers::default(),
            phase: PlanPhase::ConsiderK,
            next: BalanceStep::Measure(PlanRequest::MessageCosts),
        };
        if planner.work.strategy == Strategy::Homogeneous {
            // No time is to be corrected.
            planner.known.byte_s = Some(vec![0.0; planner.work.nodes]);
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
    /// [`BalanceError::NotMeasuring`] if it answers another request, or none; else as [`Inpa::observe`].
    pub fn observe(&mut self, answer: PlanAnswer) -> Result<(), DecideError> {
        let BalanceStep::Measure(request) = &self.next else {
            return Err(BalanceError::NotMeasuring.into());
        };
        match (request.clone(), answer) {
            (PlanRequest::MessageCosts, PlanAnswer::MessageCosts(byte_s)) => {
                self.check_length(byte_s.len())?;
                self.known.byte_s = Some(byte_s);
            }
            (PlanRequest::Links { run_s }, PlanAnswer::Links(links)) => {
                self.known.links.push((run_s, links));
            }
            (PlanRequest::Room(division), PlanAnswer::Room(is_there)) => {
                self.known.rooms.push((division, is_there));
            }
            (PlanRequest::Times { extents, along_k }, PlanAnswer::Times(times)) => {
                self.check_length(times.len())?;
                match along_k {
                    true => self.known.of_all_c = Some(AllOfC::new(&self.work, &times)?),
                    false => self.observe_nodes(&extents, &times)?,
                }
            }
            _ => return Err(BalanceError::NotMeasuring.into()),
        }
        self.advance()
    }

    fn check_length(&self, got: usize) -> Result<(), BalanceError> {
        match self.work.nodes {
            wanted if wanted != got => Err(BalanceError::WrongLength { wanted, got }),
            _ => Ok(()),
        }
    }

    /// Adds the cost of messages to the times of the nodes that are balanced, and tells them INPA.
    fn observe_nodes(
        &mut self,
        extents: &[Extent],
        times: &[Observation],
    ) -> Result<(), BalanceError> {
        let PlanPhase::Balance { nodes, machine, .. } = &mut self.phase else {
            return Err(BalanceError::NotMeasuring);
        };
        let byte_s = self.known.byte_s.as_deref().unwrap_or_default();
        let busy = nodes.iter().map(|&node| {
            let messages_s = self
                .work
                .messages_s(byte_s[node], extents[node], nodes.len());
            times[node].plus_known(messages_s)
        });
        machine.observe(&busy.collect::<Vec<_>>())
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
                Ok(self.balance((0..self.work.nodes).collect(), None))
            }
            PlanPhase::Balance {
                nodes,
                machine,
                left_out,
            } => match machine.step() {
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
                let left_out = left_out
                    .clone()
                    .filter(|_| decision.division.shares().is_none());
                Err(PlanPause::end(Decision {
                    left_out,
                    ..decision
                }))
            }
        }
    }

    /// Divides k if the caller wants it or if it is predicted to be the fastest.
    ///
    /// All nodes are measured once, on all of C, which each would compute. The same speeds predict
    /// a division of C. If that, or a run on fewer nodes, is predicted to be faster, the nodes are balanced
    /// for C first, and k stays a candidate.
    fn consider_k(&self) -> Result<(), PlanPause> {
        let work = &self.work;
        if work.nodes < 2 || work.is_empty() || work.split == SplitChoice::C {
            return Ok(());
        }
        if work.split == SplitChoice::Auto && !self.is_worth_a_look()? {
            return Ok(());
        }
        let whole = self.times_of_all_c()?;
        let speeds = whole.speeds(work);
        let is_known = speeds.iter().any(|&speed| speed > 0.0);
        if work.split == SplitChoice::K || !is_known {
            return Err(PlanPause::end(Decision::along_k(work, whole, Vec::new())));
        }
        // Unlike nodes have unlike shares, and the largest has to fit too.
        if !self.has_room(whole.divide_k(work))? {
            return Ok(());
        }
        self.divide_k_if_fastest(whole, &speeds)
    }

    /// Divides k if that is predicted to be the fastest by the nodes' speeds on all of C.
    fn divide_k_if_fastest(&self, whole: &AllOfC, speeds: &[f64]) -> Result<(), PlanPause> {
        let work = &self.work;
        let rates = work.add_messages(speeds, self.byte_s());
        let models = self.predict_in_rectangles(speeds, rates.clone(), whole)?;
        let candidates = self.compare_ways(&models)?.candidates;
        let links = self.links(work.arithmetic_s(&rates))?;
        let some_nodes = choose_nodes(&work.over(links), &rates)?;
        // The least advantage decides, since all ways were predicted from one measurement. Fewer nodes,
        // which balancing may find, could do without messages.
        let best = candidates.first();
        match best.is_some_and(|best| best.way == Way::K && best.wall_s <= some_nodes.wall_s) {
            true => Err(PlanPause::end(Decision::along_k(work, whole, candidates))),
            false => Ok(()),
        }
    }

    /// Returns `true` if dividing k is worth measuring, since clearly less travels, and its memory is
    /// there.
    fn is_worth_a_look(&self) -> Result<bool, PlanPause> {
        let work = &self.work;
        let (even, held) = (vec![1.0; work.nodes], work.hold_evenly()?);
        let (rows, cols) = work.c_blocks();
        let layout = columns::br(&even, rows, cols)?;
        let divided = panel_traffic(&layout, work.block, work.k, work.panel);
        let summed = reduction_traffic(&held, work.block, &vec![true; work.nodes]);
        let links = self.links(0.0)?;
        let [sum_s, panels_s] =
            [&summed, &divided].map(|nodes| links.longest_s(nodes, work.element_bytes));
        Ok(CLEARLY_LESS * sum_s < panels_s && self.has_room(work.divide_k_evenly(held))?)
    }

    /// Predicts the nodes' times in rectangles of C by their speeds on all of C.
    fn predict_in_rectangles(
        &self,
        speeds: &[f64],
        rates: Vec<NodeRate>,
        whole: &AllOfC,
    ) -> Result<Models, LayoutError> {
        let (rows, cols) = self.work.c_blocks();
        let layout = arrange(self.work.config.layout, speeds, rows, cols)?;
        let balance = NodeBalance {
            times_s: vec![0.0; speeds.len()],
            imbalance: 0.0,
            iterations: 0,
            converged: false,
            why: EndReason::Predicted,
            history: Vec::new(),
            fixed_s: vec![0.0; speeds.len()],
            falling: Vec::new(),
            layout,
        };
        Ok(Models {
            balance,
            rates,
            of_all_c: Some(whole.clone()),
        })
    }

    /// Starts to balance these nodes.
    fn balance(&self, nodes: Vec<usize>, left_out: Option<LeftOut>) -> PlanPhase {
        let (rows, cols) = self.work.c_blocks();
        let machine = Inpa::new(self.work.balance_config(), nodes.len(), rows, cols);
        PlanPhase::Balance {
            nodes,
            machine: Box::new(machine),
            left_out,
        }
    }

    /// Returns the parts of all nodes; those that are not balanced have none.
    fn place_parts<T: Copy + Default>(&self, nodes: &[usize], parts: &[T]) -> Vec<T> {
        let mut all = vec![T::default(); self.work.nodes];
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
        let layout = &balance.layout;
        let rects: Vec<Rect> = self.place_parts(nodes, layout.rects());
        Ok(NodeBalance {
            layout: Layout::new(layout.rows(), layout.cols(), rects)?,
            times_s: self.place_parts(nodes, &balance.times_s),
            fixed_s: self.place_parts(nodes, &balance.fixed_s),
            falling: balance.falling.iter().map(|&index| nodes[index]).collect(),
            ..balance
        })
    }

    /// Balances fewer nodes if that is predicted to be faster. Else the ways to divide are to be compared.
    fn leave_nodes_out(
        &self,
        nodes: &[usize],
        balance: NodeBalance,
        left_out: Option<&LeftOut>,
    ) -> Result<PlanPhase, PlanPause> {
        let work = &self.work;
        let rates = work.balance_rates(&balance, self.byte_s());
        let known = rates.iter().filter(|node| node.speed > 0.0).count();
        if left_out.is_none() && known > 1 {
            let links = self.links(work.arithmetic_s(&rates))?;
            if let Some(left_out) = find_left_out(&rates, links, work)? {
                let mut rest = nodes.to_vec();
                rest.retain(|node| !left_out.ranks.contains(node));
                return Ok(self.balance(rest, Some(left_out)));
            }
        }
        let of_all_c = match &self.known.of_all_c {
            Some(whole) if self.has_room(whole.divide_k(work))? => Some(whole.clone()),
            _ => None,
        };
        let models = Models {
            balance,
            rates,
            of_all_c,
        };
        Ok(PlanPhase::Compare {
            models: Box::new(models),
            left_out: left_out.cloned(),
        })
    }

    /// Decides with the memory that there is: another layout than the balanced one may need too much.
    fn compare_ways(&self, models: &Models) -> Result<Decision, PlanPause> {
        let work = &self.work;
        if work.split != SplitChoice::Auto || !models.can_be_compared() {
            return Ok(decide(models, None, work)?);
        }
        let links = Some(self.links(work.arithmetic_s(&models.rates))?);
        let decision = decide(models, links, work)?;
        if decision.division.shares().is_some()
            || *decision.division.layout() == models.balance.layout
            || self.has_room(decision.division.clone())?
        {
            return Ok(decision);
        }
        let as_balanced = Work {
            may_slice: false,
            ..*work
        };
        Ok(decide(models, links, &as_balanced)?)
    }

    /// Returns the seconds that a byte of a message takes from the arithmetic of each node.
    fn byte_s(&self) -> &[f64] {
        self.known.byte_s.as_deref().unwrap_or_default()
    }

    /// Returns the capacity of the links, as precise as a run of these predicted seconds allows.
    fn links(&self, run_s: f64) -> Result<Links, PlanPause> {
        let known = self.known.links.iter().find(|(asked, _)| *asked == run_s);
        known
            .map(|(_, links)| *links)
            .ok_or(PlanPause::Ask(PlanRequest::Links { run_s }))
    }

    /// Returns `true` if all nodes have the memory for this division.
    fn has_room(&self, division: Division) -> Result<bool, PlanPause> {
        let known = self
            .known
            .rooms
            .iter()
            .find(|(asked, _)| *asked == division);
        let is_there = known.map(|(_, is_there)| *is_there);
        is_there.ok_or(PlanPause::Ask(PlanRequest::Room(division)))
    }

    /// Returns the times of all of C.
    fn times_of_all_c(&self) -> Result<&AllOfC, PlanPause> {
        let (rows, cols) = self.work.c_blocks();
        self.known.of_all_c.as_ref().ok_or_else(|| {
            PlanPause::Ask(PlanRequest::Times {
                extents: vec![Extent { rows, cols }; self.work.nodes],
                along_k: true,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::tests::small;
    use super::*;
    use crate::predict::Candidate;

    /// Nodes of made-up speeds, in blocks of one element per second of an update.
    struct Cluster {
        speeds: Vec<f64>,
        byte_s: Vec<f64>,
        links: Links,
        /// Returns `true` for a division that fits the memory.
        has_room: fn(&Division) -> bool,
        /// The requests so far.
        asked: Vec<PlanRequest>,
    }

    impl Cluster {
        fn new(speeds: &[f64], bytes_per_s: f64) -> Self {
            Self {
                speeds: speeds.to_vec(),
                byte_s: vec![0.0; speeds.len()],
                links: Links {
                    latency_s: 0.0,
                    bytes_per_s,
                },
                has_room: |_| true,
                asked: Vec::new(),
            }
        }

        fn answer(&self, request: &PlanRequest) -> PlanAnswer {
            match request {
                PlanRequest::MessageCosts => PlanAnswer::MessageCosts(self.byte_s.clone()),
                PlanRequest::Links { .. } => PlanAnswer::Links(self.links),
                PlanRequest::Room(division) => PlanAnswer::Room((self.has_room)(division)),
                PlanRequest::Times { extents, .. } => {
                    let nodes = extents.iter().zip(&self.speeds);
                    let times = nodes.map(|(extent, speed)| match extent.area() {
                        0 => Observation::default(),
                        area => Observation::measured(area as f64 / speed, 3, 0.0),
                    });
                    PlanAnswer::Times(times.collect())
                }
            }
        }

        fn decide(&mut self, work: Work) -> Decision {
            let mut planner = Planner::new(work).unwrap();
            loop {
                match planner.step() {
                    BalanceStep::Done(decision) => return decision,
                    BalanceStep::Measure(request) => {
                        planner.observe(self.answer(&request)).unwrap();
                        self.asked.push(request);
                    }
                }
            }
        }

        fn measures_all_of_c(&self) -> bool {
            let mut asked = self.asked.iter();
            asked.any(|request| matches!(request, PlanRequest::Times { along_k: true, .. }))
        }
    }

    fn list_ways(candidates: &[Candidate]) -> Vec<Way> {
        candidates.iter().map(|candidate| candidate.way).collect()
    }

    #[test]
    fn unlike_nodes_get_unlike_rectangles() {
        let mut cluster = Cluster::new(&[1e4, 3e4], 1e12);
        let decision = cluster.decide(small(2, 64));
        assert_eq!(decision.division.layout().areas(), [1024, 3072]);
        assert_eq!((decision.left_out, decision.kernel_width), (None, 1));
        let balance = decision.balance.unwrap();
        assert!(balance.converged && balance.times_s.iter().all(|&time_s| time_s > 0.0));
        assert!(!cluster.measures_all_of_c(), "{:?}", cluster.asked);
    }

    #[test]
    fn the_settings_are_those_of_the_caller() {
        let mut work = small(2, 64);
        work.config.steps = 7;
        work.config.reps = 9;
        work.strategy = Strategy::Homogeneous;
        let config = work.config;
        let mut cluster = Cluster::new(&[1e4, 3e4], 1e12);
        let decision = cluster.decide(work);
        assert_eq!(decision.config, config);
        assert_eq!(decision.division.layout().areas(), [2048, 2048]);
        let mut asked = cluster.asked.iter();
        assert!(!asked.any(|request| matches!(request, PlanRequest::Times { .. })));
    }

    #[test]
    fn a_long_k_is_divided_if_much_less_travels_and_there_is_room() {
        let long = small(2, 1 << 16);
        let mut cluster = Cluster::new(&[1e7, 3e7], 1e8);
        let decision = cluster.decide(long);
        assert_eq!(decision.division.shares(), Some(&[1 << 14, 3 << 14][..]));
        assert_eq!(list_ways(&decision.candidates)[0], Way::K);
        assert_eq!(decision.balance.unwrap().why, EndReason::Predicted);
        // An even share fits, and the larger one does not: k is no candidate.
        cluster.has_room = |division| {
            division
                .shares()
                .is_none_or(|shares| shares[0] == shares[1])
        };
        let decision = cluster.decide(long);
        assert_eq!(decision.division.shares(), None);
        assert!(
            !list_ways(&decision.candidates).contains(&Way::K),
            "{decision:?}"
        );
        // Not even that fits: nothing is measured for it.
        let mut short = Cluster {
            has_room: |_| false,
            ..Cluster::new(&[1e7, 3e7], 1e8)
        };
        short.decide(long);
        assert!(!short.measures_all_of_c());
        let c = Work {
            split: SplitChoice::C,
            ..long
        };
        let decision = Cluster::new(&[1e7, 3e7], 1e8).decide(c);
        assert_eq!(
            (decision.division.shares(), decision.candidates),
            (None, Vec::new())
        );
    }

    #[test]
    fn k_is_divided_if_the_caller_wants_it() {
        let asked = Work {
            split: SplitChoice::K,
            ..small(3, 64)
        };
        let decision = Cluster::new(&[1e4, 1e4, 2e4], 1e12).decide(asked);
        assert_eq!(decision.division.shares(), Some(&[16, 16, 32][..]));
        let even = Work {
            strategy: Strategy::Homogeneous,
            ..asked
        };
        let decision = Cluster::new(&[0.0; 3], 1e12).decide(even);
        // Nobody knows a time.
        assert_eq!(decision.division.shares().unwrap().iter().sum::<u64>(), 64);
    }

    #[test]
    fn a_node_that_costs_more_than_it_helps_is_left_out() {
        let work = Work {
            split: SplitChoice::C,
            ..small(3, 64)
        };
        let mut cluster = Cluster::new(&[1e6, 1e6, 5e4], 1e9);
        cluster.links.latency_s = 5e-3;
        let decision = cluster.decide(work);
        let left_out = decision.left_out.unwrap();
        assert!(left_out.ranks == [2] && left_out.without_s < left_out.with_s);
        let areas = decision.division.layout().areas();
        assert_eq!((areas[2], areas.iter().sum::<u64>()), (0, 4096));
        assert_eq!(decision.balance.unwrap().times_s[2], 0.0);
        let fast = Cluster::new(&[1e7, 1e7, 1e7], 1e12).decide(work);
        assert_eq!(fast.left_out, None);
    }

    #[test]
    fn a_node_whose_messages_cost_computing_time_gets_less() {
        let work = Work {
            split: SplitChoice::C,
            hidden: 1.0,
            ..small(2, 64)
        };
        let mut cluster = Cluster::new(&[1e6, 1e6], 1e12);
        cluster.byte_s[1] = 1e-6;
        let areas = cluster.decide(work).division.layout().areas();
        assert!(areas[1] < areas[0] && areas[1] > 0, "{areas:?}");
    }

    #[test]
    fn another_layout_than_the_balanced_one_needs_room() {
        // In two rows and two columns half of the long A would travel, and slices of rows keep it.
        let mut work = Work {
            m: 512,
            n: 32,
            k: 32,
            block: 8,
            ..small(4, 32)
        };
        let balance = NodeBalance {
            layout: crate::layout::kl(&[1.0; 4], &[vec![0, 1], vec![2, 3]], 64, 4).unwrap(),
            times_s: vec![1e-3; 4],
            imbalance: 0.0,
            iterations: 1,
            converged: true,
            why: EndReason::Balanced,
            history: Vec::new(),
            fixed_s: vec![0.0; 4],
            falling: Vec::new(),
        };
        let rates = work.node_rates(&balance.layout, &balance.times_s, &[0.0; 4]);
        let models = Models {
            balance,
            rates,
            of_all_c: None,
        };
        let links = Some(Links {
            latency_s: 1e-6,
            bytes_per_s: 1e4,
        });
        let free = decide(&models, links, &work).unwrap();
        assert_eq!((free.division.way(), free.candidates.len()), (Way::M, 3));
        assert_eq!(free, decide(&models, links, &work).unwrap());
        work.may_slice = false;
        let bound = decide(&models, links, &work).unwrap();
        assert_eq!(
            (bound.division.layout(), bound.candidates.len()),
            (&models.balance.layout, 0)
        );
        assert_eq!(decide(&models, None, &work).unwrap(), bound);
    }

    #[test]
    fn ten_thousand_nodes_are_planned_the_same_twice() {
        let speeds: Vec<f64> = (0..10_000)
            .map(|node| 1e6 * (1 + node % 7) as f64)
            .collect();
        let work = Work {
            m: 4000,
            n: 4000,
            k: 4000,
            block: 2,
            ..small(10_000, 4000)
        };
        let decisions = [0, 1].map(|_| Cluster::new(&speeds, 1e15).decide(work));
        assert_eq!(decisions[0], decisions[1]);
        let areas = decisions[0].division.layout().areas();
        assert_eq!(areas.iter().sum::<u64>(), 2000 * 2000);
        // A fast node has about seven times as much as a slow one.
        let of = |kind: usize| areas.iter().skip(kind).step_by(7).sum::<u64>() as f64;
        let ratio = of(6) / of(0);
        assert!((6.0..8.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn answers_that_were_not_asked_for_are_refused() {
        let mut planner = Planner::new(small(2, 64)).unwrap();
        assert_eq!(
            planner.step(),
            BalanceStep::Measure(PlanRequest::MessageCosts)
        );
        for wrong in [PlanAnswer::Room(true), PlanAnswer::MessageCosts(vec![0.0])] {
            assert!(planner.observe(wrong).is_err());
        }
        planner
            .observe(PlanAnswer::MessageCosts(vec![0.0; 2]))
            .unwrap();
        let one = Work {
            nodes: 1,
            ..small(1, 64)
        };
        let mut done = Planner::new(Work {
            strategy: Strategy::Homogeneous,
            ..one
        })
        .unwrap();
        assert!(matches!(done.step(), BalanceStep::Done(_)));
        let refused = done.observe(PlanAnswer::Room(true)).unwrap_err();
        assert_eq!(refused, BalanceError::NotMeasuring.into());
    }
}
