//! Whether to divide C or k, and the division of k.
//!
//! Where k is long against m and n, the panels of A and B that travel while C stays outweigh C itself. Then every node
//! better computes all of C over its share of k, and the nodes' parts are summed at the end. What is predicted to take less
//! time is used, as [`predict`] says.

use std::sync::Arc;

use isochron_devices::Element;
use isochron_hierarchy::balance::{
    EndReason, Extent, NodeBalance, Observation, Strategy, imbalance, merge_alike,
};
use isochron_hierarchy::layout::{Layout, arrange, columns};
use isochron_hierarchy::partition::apportion;
use isochron_hierarchy::predict::{self, Candidate, Traffic, Way};

use super::{Balancer, NodeMemory};
use crate::error::Error;
use crate::multiply::{Found, Plan, Split, SplitChoice, even_slices};
use crate::session::memory::{self, MemoryNeed};

/// How often less than with panels must travel when k is split before it is looked at: the sum of C is hidden by nothing.
/// Where it is not, k is no candidate: its seconds would be the only ones that no node was measured for.
const CLEARLY_LESS: f64 = 2.0;

/// The division of k, looked at: every node was measured on all of C.
#[derive(Clone)]
pub(super) struct AlongK {
    /// Who holds C.
    pub held: Layout,
    /// How long every node takes for an update of all of C, by rank.
    times: Vec<Observation>,
    found: NodeMemory,
    /// Whether k is to be divided.
    pub chosen: bool,
    /// The ways that it was compared with, and itself.
    candidates: Vec<Candidate>,
}

impl AlongK {
    /// To be used, after it was compared with these and itself.
    pub fn chosen_of(self, candidates: Vec<Candidate>) -> Self {
        Self {
            chosen: true,
            candidates,
            ..self
        }
    }
}

impl<T: Element> Balancer<'_, T> {
    /// The division of k, where it is asked for or could be faster than dividing C.
    ///
    /// All nodes are measured once, on all of C: that is what each of them computes, so that one time tells its speed. The
    /// same speeds say what dividing C would take; where that is not clearly slower, the nodes are balanced for it.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn along_k(&mut self) -> Result<Option<AlongK>, Error> {
        let problem = &self.problem;
        let ranks = self.comm.size();
        let asked = problem.split();
        let possible = ranks > 1 && problem.flop() > 0.0;
        if !possible || asked == SplitChoice::C {
            return Ok(None);
        }
        let held = even_slices(problem, ranks)?;
        if asked == SplitChoice::Auto && !self.is_worth_a_look(&held)? {
            return Ok(None);
        }
        let (times, found) = self.times_of_all_c()?;
        let whole = AlongK {
            held,
            times,
            found,
            chosen: true,
            candidates: Vec::new(),
        };
        let speeds = self.speeds_of_all_c(&whole);
        let known = speeds.iter().any(|&speed| speed > 0.0);
        if asked == SplitChoice::K || !known {
            return Ok(Some(whole));
        }
        // Unlike nodes have unlike shares, and the largest has to fit too.
        let plan = self.plan_of(whole.clone(), self.shares(&whole));
        if !self.has_room_for(plan)? {
            return Ok(None);
        }
        let (rows, cols) = self.problem.c_blocks();
        let layout = arrange(self.config.layout, &speeds, rows, cols);
        let layout = layout.map_err(|error| Error::Message(error.to_string()))?;
        let nodes = self.with_messages(&speeds);
        let candidates = self.ways(&layout, &nodes, Some(&whole))?.candidates;
        let some_nodes = predict::choose_nodes(&self.work()?, &nodes);
        let some_nodes = some_nodes.map_err(|error| Error::Message(error.to_string()))?;
        // However little faster: one measurement is behind all of them. But fewer nodes, of which balancing will tell, may do
        // without any message.
        let is_fastest = |best: &Candidate| best.way == Way::K && best.wall_s <= some_nodes.wall_s;
        Ok(Some(AlongK {
            chosen: candidates.first().is_some_and(is_fastest),
            candidates,
            ..whole
        }))
    }

    /// Whether so much less travels when k is divided that it is worth measuring, and its memory is there.
    ///
    /// # Collective
    /// All ranks.
    fn is_worth_a_look(&mut self, held: &Layout) -> Result<bool, Error> {
        let everybody = vec![true; self.comm.size()];
        let summed = predict::reduction_traffic(held, self.problem.block(), &everybody);
        let divided = self.divided_evenly()?;
        let (links, bytes) = (self.links(), self.problem.element().bytes());
        let [sum, panels] = [&summed, &divided].map(|nodes| links.longest_s(nodes, bytes));
        Ok(CLEARLY_LESS * sum < panels && self.has_room_for(self.even_shares(held))?)
    }

    /// The nodes' speeds on all of C, as [`speeds`](Self::speeds).
    pub(super) fn speeds_of_all_c(&self, whole: &AlongK) -> Vec<f64> {
        let (rows, cols) = self.problem.c_blocks();
        let times_s: Vec<f64> = whole.times.iter().map(|time| time.t_s).collect();
        self.speeds(&vec![rows * cols; times_s.len()], &times_s)
    }

    /// What every node would receive of panels, were C divided evenly.
    fn divided_evenly(&self) -> Result<Vec<Traffic>, Error> {
        let (rows, cols) = self.problem.c_blocks();
        let ranks = self.comm.size();
        let layout = columns::br(&vec![1.0; ranks], rows, cols);
        let layout = layout.map_err(|error| Error::Message(error.to_string()))?;
        let (block, k) = (self.problem.block(), self.problem.k());
        Ok(predict::panel_traffic(
            &layout,
            block,
            k,
            self.problem.panel(ranks),
        ))
    }

    /// The part of the messages that travels while something is computed: between hosts they do so by themselves, within
    /// one they are copied by the cores that compute.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn hidden(&self) -> Result<f64, Error> {
        let hosts = self.comm.gather_hosts()?;
        let is_one_host = hosts.iter().all(|host| *host == hosts[0]);
        Ok(if is_one_host { 0.0 } else { 1.0 })
    }

    /// Whether every rank has the memory for this plan, or a [leaner](Plan::leaner) one; the memory of measuring is given back.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn has_room_for(&mut self, plan: Plan) -> Result<bool, Error> {
        drop(std::mem::take(&mut self.operands));
        let mut next = Some(plan);
        while let Some(plan) = next {
            if self.fits(&plan)? {
                return Ok(true);
            }
            next = plan.make_leaner();
        }
        Ok(false)
    }

    /// Whether every rank has the memory for this plan.
    ///
    /// # Collective
    /// All ranks.
    fn fits(&self, plan: &Plan) -> Result<bool, Error> {
        let need = MemoryNeed {
            bytes: plan.memory_bytes(self.comm.rank()),
            ..MemoryNeed::default()
        };
        match memory::share_memory(self.comm, need, memory::available_bytes()) {
            Ok(_) => Ok(true),
            Err(Error::Memory { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The plan that divides k evenly.
    fn even_shares(&self, held: &Layout) -> Plan {
        let shares = apportion(self.problem.k_blocks(), &vec![1.0; self.comm.size()]);
        let even = AlongK {
            held: held.clone(),
            times: Vec::new(),
            found: NodeMemory::default(),
            chosen: false,
            candidates: Vec::new(),
        };
        self.plan_of(even, shares)
    }

    /// How long every node takes for an update of all of C, by rank.
    fn times_of_all_c(&mut self) -> Result<(Vec<Observation>, NodeMemory), Error> {
        let (rows, cols) = self.problem.c_blocks();
        let mut found = NodeMemory::default();
        self.k_total = self.problem.k() / self.comm.size();
        let mine = self.node_time(Extent { rows, cols }, &mut found);
        self.k_total = self.problem.k();
        Ok((merge_alike(&self.comm.gather(&mine?)?), found))
    }

    /// The plan that divides k by the nodes' times.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn shares_of_k(mut self, whole: AlongK) -> Result<Plan, Error> {
        let shares = self.shares(&whole);
        let plan = self.plan_of(whole, shares);
        drop(std::mem::take(&mut self.operands));
        memory::fit_to_memory(self.comm, self.team, plan)
    }

    /// Blocks of k in proportion to the nodes' speeds.
    fn shares(&self, whole: &AlongK) -> Vec<u64> {
        let speed = |time: &Observation| match self.config.strategy {
            Strategy::Homogeneous => 1.0,
            _ if time.t_s > 0.0 => 1.0 / time.t_s,
            _ => 0.0,
        };
        let speeds: Vec<f64> = whole.times.iter().map(speed).collect();
        apportion(self.problem.k_blocks(), &speeds)
    }

    fn plan_of(&self, whole: AlongK, shares: Vec<u64>) -> Plan {
        let AlongK {
            held,
            times,
            found,
            candidates,
            ..
        } = whole;
        let rank = self.comm.rank();
        let blocks = self.problem.k_blocks().max(1) as f64;
        let per_update = shares.iter().zip(&times);
        let times_s: Vec<f64> = per_update
            .map(|(&share, time)| time.t_s * share as f64 / blocks)
            .collect();
        let busy: Vec<f64> = times_s.iter().copied().filter(|&time| time > 0.0).collect();
        let measured = !busy.is_empty();
        let columns = if shares[rank] == 0 {
            0
        } else {
            self.problem.n()
        };
        let slices = found.slices(columns, self.config.strategy, self.team.len());
        let balance = NodeBalance {
            layout: held.clone(),
            imbalance: imbalance(&busy),
            times_s,
            iterations: u32::from(measured),
            converged: false,
            why: if measured {
                EndReason::Predicted
            } else {
                EndReason::NotMeasured
            },
            history: Vec::new(),
        };
        let found = Found {
            layout: Arc::new(held),
            split: Split::K(shares),
            rank,
            slices,
            balance: Some(balance),
            left_out: None,
            candidates,
            balance_s: self.start.elapsed().as_secs_f64(),
            measured: self.measured,
            kernel_width: self.kernel_width,
            links: self.links,
        };
        Plan::from_balance(self.problem, found)
    }
}
