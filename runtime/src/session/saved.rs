//! Plans as documents, to print before anything is allocated, to keep, and to use again.

use isochron_devices::DeviceKind;
use isochron_hierarchy::balance::NodeBalance;
use isochron_hierarchy::layout::Layout;
use isochron_hierarchy::predict::{Candidate, Links, Way};
use serde::{Deserialize, Serialize};

use super::{Session, memory};
use crate::comm::agree;
use crate::error::Error;
use crate::matrix::Region;
use crate::multiply::{BalanceResult, LeftOut, Plan, Problem, Split};

/// Version of the document.
const SCHEMA: u32 = 1;

/// A plan of all ranks, as one JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedPlan {
    /// Version of this format, 1.
    pub schema: u32,
    /// Version of Isochron.
    pub version: String,
    /// The multiplication.
    pub problem: Problem,
    /// The dimension divided among the nodes.
    pub split: Split,
    /// The rectangle of C that every node holds, in blocks.
    pub layout: Layout,
    /// Width of the panels.
    pub panel: usize,
    /// Steps whose panels are here or under way while one is computed.
    pub lookahead: usize,
    /// Number of parts of k in which A and B are held, one after the other; 1 if they are held whole.
    pub k_parts: usize,
    /// Capacity of the links between ranks; `null` if they were not measured.
    pub links: Option<Links>,
    /// Inner dimension of the measured updates.
    pub kernel_width: usize,
    /// The balance of the nodes; `null` on a layout of the caller's own.
    pub balance: Option<NodeBalance>,
    /// The nodes that get nothing because the run is faster without them; `null` if every node helps.
    pub left_out: Option<LeftOut>,
    /// The ways to divide that were compared, in order of their predicted seconds.
    pub candidates: Vec<Candidate>,
    /// Predicted seconds of the arithmetic: number of updates times the slowest node's time of one. `null` if nothing was
    /// measured.
    pub predicted_s: Option<f64>,
    /// Every node, by rank.
    pub nodes: Vec<PlannedNode>,
}

/// One node of a [`SavedPlan`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Its rank.
    pub rank: usize,
    /// Its host.
    pub host: String,
    /// The rectangle of C that it holds, in elements.
    #[serde(flatten)]
    pub part: Region,
    /// The indices along k over which it computes: the first, and the one after the last.
    pub k: [usize; 2],
    /// Its work: updates of a block of C over all of k.
    pub units: f64,
    /// Predicted seconds of its arithmetic; `null` if nothing was measured.
    pub predicted_s: Option<f64>,
    /// Predicted bytes that it receives.
    pub bytes: f64,
    /// Predicted messages that it receives.
    pub messages: f64,
    /// Bytes of host memory that it needs, including those of its devices.
    pub memory_bytes: u64,
    /// Its devices.
    pub devices: Vec<PlannedDevice>,
}

/// One device of a [`PlannedNode`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedDevice {
    /// Its name.
    pub name: String,
    /// `cpu` or `cuda`.
    pub kind: DeviceKind,
    /// Columns of its node's part of C that it computes.
    pub columns: usize,
    /// Its work: updates of a block of C over all of k.
    pub units: f64,
    /// Bytes of device memory that it needs; 0 if it computes in host memory.
    pub memory_bytes: u64,
}

fn refuse_plan<R>(reason: String) -> Result<R, Error> {
    Err(Error::Plan(reason))
}

impl SavedPlan {
    /// Returns the way of dividing, as [`Plan::way`].
    pub fn way(&self) -> Way {
        match self.split {
            Split::C => Way::of(&self.layout),
            Split::K(_) => Way::K,
        }
    }
}

impl Session<'_> {
    /// Describes the plan as a document, the same on every rank.
    ///
    /// # Errors
    /// [`Error::Device`] when the plan is another session's.
    ///
    /// # Collective
    /// All ranks, with the same plan.
    pub fn describe(&self, plan: &Plan) -> Result<SavedPlan, Error> {
        let mine = agree(self.comm, self.describe_node(plan))?;
        Ok(SavedPlan {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            problem: *plan.problem(),
            split: plan.split().clone(),
            layout: plan.layout().clone(),
            panel: plan.panel(),
            lookahead: plan.lookahead(),
            k_parts: plan.k_parts(),
            links: plan.found().links,
            kernel_width: plan.found().kernel_width,
            predicted_s: plan.predicted_s(),
            balance: plan.balance().cloned(),
            left_out: plan.found().left_out.clone(),
            candidates: plan.found().candidates.clone(),
            nodes: self.comm.gather(&mine)?,
        })
    }

    fn describe_node(&self, plan: &Plan) -> Result<PlannedNode, Error> {
        let rank = self.comm.rank();
        let k = plan.k_range(rank);
        let traffic = plan.traffic()[rank];
        let needs = self.team.job_needs(&plan.job_shape(rank), plan.slices())?;
        let of_devices: u64 = needs.iter().map(|needs| needs.host_bytes).sum();
        let devices = self.team.infos().iter().zip(plan.slices()).zip(&needs);
        let devices = devices.map(|((info, &columns), needs)| PlannedDevice {
            name: info.name.clone(),
            kind: info.kind,
            columns,
            units: plan.units_of(rank, columns),
            memory_bytes: needs.own_bytes,
        });
        Ok(PlannedNode {
            rank,
            host: self.comm.host().to_string(),
            part: plan.c().part(rank),
            k: [k.start, k.end],
            units: plan.units(rank),
            predicted_s: plan.node_s(rank),
            bytes: traffic.elements * plan.problem().element().bytes() as f64,
            messages: traffic.messages,
            memory_bytes: plan.memory_bytes(rank).saturating_add(of_devices),
            devices: devices.collect(),
        })
    }

    /// Makes the plan of a document again, for the ranks and devices it was made for. Nothing is measured.
    ///
    /// # Errors
    /// On every rank: [`Error::Plan`] when the document was made for others, or is broken; [`Error::Parameter`] when its
    /// multiplication has an impossible size; [`Error::Memory`] when the matrices do not fit.
    ///
    /// # Collective
    /// All ranks, with the same document.
    pub fn restore(&mut self, saved: &SavedPlan) -> Result<Plan, Error> {
        let plan = agree(self.comm, self.plan_of(saved))?;
        memory::fit_to_memory(self.comm, &mut self.team, plan)
    }

    fn plan_of(&self, saved: &SavedPlan) -> Result<Plan, Error> {
        if saved.schema != SCHEMA {
            return refuse_plan(format!("it is of version {}, not {SCHEMA}", saved.schema));
        }
        let (ranks, rank) = (self.comm.size(), self.comm.rank());
        if saved.nodes.len() != ranks || saved.layout.rects().len() != ranks {
            let found = saved.nodes.len();
            return refuse_plan(format!("it is for {found} ranks, and there are {ranks}"));
        }
        let devices = &saved.nodes[rank].devices;
        let planned: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
        let infos = self.team.infos().iter();
        let found: Vec<&str> = infos.map(|info| info.name.as_str()).collect();
        if planned != found {
            return refuse_plan(format!(
                "it is for the devices {} of rank {rank}, which has {}",
                planned.join(", "),
                found.join(", ")
            ));
        }
        saved.problem.check()?;
        if saved.kernel_width == 0 || !saved.links.as_ref().is_none_or(Links::is_sound) {
            return refuse_plan("its measurements make no sense".to_string());
        }
        let found = BalanceResult {
            layout: saved.layout.clone().into(),
            split: saved.split.clone(),
            rank,
            slices: devices.iter().map(|device| device.columns).collect(),
            balance: saved.balance.clone(),
            left_out: saved.left_out.clone(),
            candidates: saved.candidates.clone(),
            balance_s: 0.0,
            measured: Default::default(),
            kernel_width: saved.kernel_width,
            links: saved.links,
        };
        let plan = Plan::restore(saved.problem, found);
        // Short memory may have lowered the lookahead.
        plan.map(|plan| plan.with_lookahead(saved.lookahead))
            .and_then(|plan| plan.with_k_parts(saved.k_parts))
            .or_else(|error| refuse_plan(error.to_string()))
    }
}
