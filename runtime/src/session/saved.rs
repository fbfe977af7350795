//! Plans as documents: to be printed before anything is allocated, kept, and used again.

use isochron_devices::DeviceKind;
use isochron_hierarchy::balance::NodeBalance;
use isochron_hierarchy::layout::Layout;
use isochron_hierarchy::predict::{Candidate, Links, Way};
use serde::{Deserialize, Serialize};

use super::{Session, memory};
use crate::comm::agree;
use crate::error::Error;
use crate::multiply::{Found, LeftOut, Plan, Problem, Split};

/// Version of the document.
const SCHEMA: u32 = 1;

/// A plan of all ranks, as one JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedPlan {
    /// Version of this format, 1.
    pub schema: u32,
    /// Version of Isochron.
    pub version: String,
    /// What is multiplied.
    pub problem: Problem,
    /// What the nodes' shares are cut from.
    pub split: Split,
    /// The rectangle of C that every node holds, in blocks.
    pub layout: Layout,
    /// Width of the panels.
    pub panel: usize,
    /// Steps whose panels are here or on their way while one is computed.
    pub lookahead: usize,
    /// In how many parts of k A and B are held, one after the other; 1 where they are held whole.
    pub k_parts: usize,
    /// What the links between ranks carry; `null` where they were not measured.
    pub links: Option<Links>,
    /// Inner dimension of the updates that were measured.
    pub kernel_width: usize,
    /// How the nodes were balanced; `null` on a layout of the caller's own.
    pub balance: Option<NodeBalance>,
    /// The nodes that get nothing because it is faster without them; `null` where everybody helps.
    pub left_out: Option<LeftOut>,
    /// The ways to divide that were compared, and what each is predicted to take, in order of these seconds.
    pub candidates: Vec<Candidate>,
    /// Predicted seconds of the arithmetic: updates times the slowest node's. `null` where nothing was measured.
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
    /// First row of the rectangle of C that it holds, in elements.
    pub row: usize,
    /// First column.
    pub col: usize,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// The indices along k that it computes over: the first, and the one behind the last.
    pub k: [usize; 2],
    /// Its work: updates of a block of C over all of k.
    pub units: f64,
    /// Predicted seconds of its arithmetic; `null` where nothing was measured.
    pub predicted_s: Option<f64>,
    /// Bytes that it is predicted to receive.
    pub bytes: f64,
    /// Messages that it is predicted to receive.
    pub messages: f64,
    /// Bytes of host memory that it needs, its devices' included.
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
    /// Columns of what its node computes.
    pub columns: usize,
    /// Its work: updates of a block of C over all of k.
    pub units: f64,
    /// Bytes of its own memory that it needs; 0 where it computes in host memory.
    pub memory_bytes: u64,
}

impl SavedPlan {
    /// What is divided, as [`Plan::way`].
    pub fn way(&self) -> Way {
        match self.split {
            Split::C => Way::of(&self.layout),
            Split::K(_) => Way::K,
        }
    }
}

impl Session<'_> {
    /// The plan as a document, the same on every rank.
    ///
    /// # Errors
    /// [`Error::Device`] when the plan is another session's.
    ///
    /// # Collective
    /// All ranks, with the same plan.
    pub fn describe(&mut self, plan: &Plan) -> Result<SavedPlan, Error> {
        let mine = self.describe_node(plan);
        let mine = agree(self.comm, mine)?;
        let nodes = self.comm.gather(&mine)?;
        let balance = plan.balance();
        Ok(SavedPlan {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_string(),
            problem: *plan.problem(),
            split: plan.split().clone(),
            layout: plan.layout().clone(),
            panel: plan.panel(),
            lookahead: plan.lookahead(),
            k_parts: plan.k_parts(),
            links: plan.links().copied(),
            kernel_width: plan.kernel_width(),
            predicted_s: plan.predicted_s(),
            balance: balance.cloned(),
            left_out: plan.left_out().cloned(),
            candidates: plan.candidates().to_vec(),
            nodes,
        })
    }

    fn describe_node(&mut self, plan: &Plan) -> Result<PlannedNode, Error> {
        let rank = self.comm.rank();
        let (part, k) = (plan.c().part(rank), plan.k_range(rank));
        let traffic = plan.traffic()[rank];
        let own = self.device_memory(plan)?;
        let devices = self.team.infos().iter().zip(plan.slices()).zip(own);
        let devices = devices.map(|((info, &columns), memory_bytes)| PlannedDevice {
            name: info.name.clone(),
            kind: info.kind,
            columns,
            units: plan.units_of(rank, columns),
            memory_bytes,
        });
        let devices = devices.collect();
        Ok(PlannedNode {
            rank,
            host: self.comm.host().to_string(),
            row: part.row,
            col: part.col,
            rows: part.rows,
            cols: part.cols,
            k: [k.start, k.end],
            units: plan.units(rank),
            predicted_s: plan.node_s(rank),
            bytes: traffic.elements * plan.problem().element().bytes() as f64,
            messages: traffic.messages,
            memory_bytes: self.memory_needed(plan)?,
            devices,
        })
    }

    /// The plan of a document, for the same ranks and devices as it was made for. Nothing is measured.
    ///
    /// # Errors
    /// On every rank: [`Error::Plan`] when the document was made for others, or is broken; [`Error::Memory`] when the
    /// matrices do not fit.
    ///
    /// # Collective
    /// All ranks, with the same document.
    pub fn restore(&mut self, saved: &SavedPlan) -> Result<Plan, Error> {
        let plan = self.plan_of(saved);
        let plan = agree(self.comm, plan)?;
        memory::fitted(self.comm, &mut self.team, plan)
    }

    fn plan_of(&self, saved: &SavedPlan) -> Result<Plan, Error> {
        let refused = |reason: String| Err(Error::Plan(reason));
        if saved.schema != SCHEMA {
            return refused(format!("it is of version {}, not {SCHEMA}", saved.schema));
        }
        let (ranks, rank) = (self.comm.size(), self.comm.rank());
        if saved.nodes.len() != ranks || saved.layout.rects().len() != ranks {
            let found = saved.nodes.len();
            return refused(format!("it is for {found} ranks, and there are {ranks}"));
        }
        let planned: Vec<&str> = saved.nodes[rank]
            .devices
            .iter()
            .map(|d| d.name.as_str())
            .collect();
        let found: Vec<&str> = self
            .team
            .infos()
            .iter()
            .map(|info| info.name.as_str())
            .collect();
        if planned != found {
            return refused(format!(
                "it is for the devices {} of rank {rank}, which has {}",
                planned.join(", "),
                found.join(", ")
            ));
        }
        saved.problem.check()?;
        if saved.kernel_width == 0 || !saved.links.as_ref().is_none_or(Links::is_sound) {
            return refused("its measurements make no sense".to_string());
        }
        let columns = saved.nodes[rank]
            .devices
            .iter()
            .map(|device| device.columns);
        let found = Found {
            layout: saved.layout.clone().into(),
            split: saved.split.clone(),
            rank,
            slices: columns.collect(),
            balance: saved.balance.clone(),
            left_out: saved.left_out.clone(),
            candidates: saved.candidates.clone(),
            balance_s: 0.0,
            measured: Default::default(),
            kernel_width: saved.kernel_width,
            links: saved.links,
        };
        let plan = Plan::restore(saved.problem, found);
        // A scarcity of memory may have chosen the lookahead.
        plan.map(|plan| plan.with_lookahead(saved.lookahead))
            .and_then(|plan| plan.with_k_parts(saved.k_parts))
            .or_else(|error| refused(error.to_string()))
    }
}
