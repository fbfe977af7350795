//! Whether to divide C or k, and the division of k.
//!
//! Where k is long against m and n, the panels of A and B that travel while C stays outweigh C itself. Then every node
//! better computes all of C over its share of k, and the nodes' parts are summed at the end.

use std::sync::Arc;

use isochron_devices::Element;
use isochron_hierarchy::balance::{
    Extent, NodeBalance, Observation, Outcome, Strategy, alike, imbalance,
};
use isochron_hierarchy::layout::{Layout, columns};
use isochron_hierarchy::partition::apportion;
use isochron_hierarchy::predict::{self, Links, Traffic};

use super::balance::{Balancer, NodeMemory};
use super::memory::{self, Need};
use crate::error::Error;
use crate::multiply::{Found, Plan, Split, SplitChoice, held_evenly};

/// How often less than with panels must travel when k is split before it is looked at: the sum of C is hidden by nothing.
const CLEARLY_LESS: f64 = 2.0;

impl<T: Element> Balancer<'_, T> {
    /// The plan that splits k, where it is asked for or predicted to be faster than dividing C.
    ///
    /// All nodes are measured once, on all of C: that is what each of them computes, so that one time tells its speed.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn along_k(&mut self) -> Result<Option<Plan>, Error> {
        let problem = &self.problem;
        let ranks = self.comm.size();
        let asked = problem.split();
        let possible = ranks > 1 && problem.flop() > 0.0;
        if !possible || asked == SplitChoice::C {
            return Ok(None);
        }
        let held = held_evenly(problem, ranks)?;
        let summed = predict::reduction(&held, problem.block(), &vec![true; ranks]);
        let divided = self.divided_evenly()?;
        if asked == SplitChoice::Auto {
            let links = self.links();
            let [sum, panels] = [&summed, &divided].map(|nodes| self.longest_s(&links, nodes));
            if CLEARLY_LESS * sum >= panels || !self.fits(&held)? {
                return Ok(None);
            }
            let (times, found) = self.times_of_all_c()?;
            let sums = self.predicted_s(&times, &links, (&summed, 0.0));
            let panels = self.predicted_s(&times, &links, (&divided, self.hidden()));
            tracing::info!(sums, panels, "predicted: k is split, or C is divided");
            if panels <= sums {
                return Ok(None);
            }
            return self.shares_of_k(held, (&times, &found)).map(Some);
        }
        let (times, found) = self.times_of_all_c()?;
        self.shares_of_k(held, (&times, &found)).map(Some)
    }

    /// What every node would receive of panels, were C divided evenly.
    fn divided_evenly(&self) -> Result<Vec<Traffic>, Error> {
        let (rows, cols) = self.problem.c_blocks();
        let ranks = self.comm.size();
        let layout = columns::br(&vec![1.0; ranks], rows, cols);
        let layout = layout.map_err(|error| Error::Message(error.to_string()))?;
        let (block, k) = (self.problem.block(), self.problem.k());
        Ok(predict::panels(
            &layout,
            block,
            k,
            self.problem.panel(ranks),
        ))
    }

    fn longest_s(&self, links: &Links, nodes: &[Traffic]) -> f64 {
        let bytes = self.problem.element().bytes();
        let times = nodes.iter().map(|node| links.time_s(node, bytes));
        times.fold(0.0, f64::max)
    }

    /// Seconds of the multiplication when the nodes share the work by their times for an update of all of C.
    fn predicted_s(
        &self,
        times: &[Observation],
        links: &Links,
        (traffic, hidden): (&[Traffic], f64),
    ) -> f64 {
        let updates = self.problem.k() as f64 / self.kernel_width as f64;
        let speed: f64 = times.iter().map(|time| 1.0 / time.t_s).sum();
        predict::wall_s(updates / speed, self.longest_s(links, traffic), hidden)
    }

    /// The part of the messages that travels while something is computed: between hosts they do so by themselves, within
    /// one they are copied by the cores that compute.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn hidden(&self) -> f64 {
        let hosts = self.comm.all_gather(self.comm.host().as_bytes());
        if hosts.iter().all(|host| *host == hosts[0]) {
            0.0
        } else {
            1.0
        }
    }

    /// Whether every rank has the memory for an even division of k.
    fn fits(&self, held: &Layout) -> Result<bool, Error> {
        let shares = apportion(self.problem.k_blocks(), &vec![1.0; self.comm.size()]);
        let plan = self.plan_of(held.clone(), shares, &[], &NodeMemory::default());
        let need = Need {
            bytes: plan.memory_bytes(self.comm.rank()),
            ..Need::default()
        };
        match memory::share(self.comm, need, memory::available()) {
            Ok(_) => Ok(true),
            Err(Error::Memory { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// How long every node takes for an update of all of C, by rank.
    fn times_of_all_c(&mut self) -> Result<(Vec<Observation>, NodeMemory), Error> {
        let (rows, cols) = self.problem.c_blocks();
        let mut found = NodeMemory::default();
        self.k_total = self.problem.k() / self.comm.size();
        let mine = self.node_time(Extent { rows, cols }, &mut found);
        self.k_total = self.problem.k();
        Ok((alike(&self.gather(&mine?)), found))
    }

    /// The division of k by these times.
    fn shares_of_k(
        &mut self,
        held: Layout,
        (times, found): (&[Observation], &NodeMemory),
    ) -> Result<Plan, Error> {
        let speed = |time: &Observation| match self.config.strategy {
            Strategy::Homogeneous => 1.0,
            _ if time.t_s > 0.0 => 1.0 / time.t_s,
            _ => 0.0,
        };
        let speeds: Vec<f64> = times.iter().map(speed).collect();
        let shares = apportion(self.problem.k_blocks(), &speeds);
        let plan = self.plan_of(held, shares, times, found);
        drop(std::mem::take(&mut self.operands));
        memory::fitted(self.comm, self.team, plan)
    }

    fn plan_of(
        &self,
        held: Layout,
        shares: Vec<u64>,
        times: &[Observation],
        found: &NodeMemory,
    ) -> Plan {
        let rank = self.comm.rank();
        let blocks = self.problem.k_blocks().max(1) as f64;
        let per_update = shares.iter().zip(times);
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
            zones: held.clone().into(),
            imbalance: imbalance(&busy),
            times_s,
            iterations: u32::from(measured),
            converged: false,
            why: if measured {
                Outcome::Predicted
            } else {
                Outcome::NotMeasured
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
            balance_s: self.start.elapsed().as_secs_f64(),
            measured: self.measured,
            kernel_width: self.kernel_width,
            links: self.links,
        };
        Plan::balanced(self.problem, found)
    }
}
