//! Plans as documents for readers, with their predictions, and plans of documents for the ranks that are here.

use std::sync::Arc;

use isochron_devices::MeasureTally;
use serde::{Deserialize, Serialize};

use super::Session;
use crate::comm::{CollectiveCall, agree};
use crate::error::Error;
use crate::matrix::Region;
use crate::multiply::{Plan, PlannedDevice, PlannedNode, find_difference};

/// A plan and what it predicts, as one JSON document. The predictions follow from the plan; [`Plan::load`] reads the
/// plan alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanDocument {
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// Its predictions.
    pub predicted: Prediction,
}

/// The predictions of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Predicted seconds of the arithmetic: number of updates times the slowest node's time of one. `null` if nothing
    /// was measured.
    pub arithmetic_s: Option<f64>,
    /// Every node, by rank.
    pub nodes: Vec<PredictedNode>,
}

/// The predictions for one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictedNode {
    /// The rectangle of C that it holds, in elements.
    #[serde(flatten)]
    pub part: Region,
    /// The indices along k over which it computes: the first, and the one after the last.
    pub k: [usize; 2],
    /// Its work: updates of a block of C over all of k.
    pub units: f64,
    /// Predicted seconds of its arithmetic; `null` if nothing was measured.
    pub arithmetic_s: Option<f64>,
    /// Bytes that it will receive.
    pub bytes: u64,
    /// Messages that it will receive.
    pub messages: u64,
    /// Bytes of host memory that it needs, including those of its devices.
    pub memory_bytes: u64,
    /// Its devices.
    pub devices: Vec<PredictedDevice>,
}

/// The predictions for one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictedDevice {
    /// Its work: updates of a block of C over all of k.
    pub units: f64,
    /// Bytes of device memory that it needs; 0 if it computes in host memory.
    pub memory_bytes: u64,
}

impl Session {
    /// Adds its predictions to a plan, the same on every rank.
    ///
    /// # Errors
    /// [`Error::Device`] when the plan is another session's.
    ///
    /// # Collective
    /// All ranks, with the same plan.
    pub fn describe(&self, plan: &Plan) -> Result<PlanDocument, Error> {
        let _call = CollectiveCall::new(self.comm.as_ref(), "describing a plan")
            .with_long("plan", "a plan", plan)
            .enter()?;
        plan.check_ranks(self.comm.size())?;
        let mine = agree(self.comm.as_ref(), self.predict_node(plan))?;
        let predicted = Prediction {
            arithmetic_s: plan.predicted_s(),
            nodes: self.comm.gather(&mine)?,
        };
        Ok(PlanDocument {
            plan: plan.clone(),
            predicted,
        })
    }

    fn predict_node(&self, plan: &Plan) -> Result<PredictedNode, Error> {
        let rank = self.comm.rank();
        let (k, slices) = (plan.k_range(rank), plan.slices(rank));
        let received = plan.count_received(rank);
        let needs = self.team.job_needs(&plan.job_shape(rank), &slices)?;
        let of_devices: u64 = needs.iter().map(|needs| needs.host_bytes).sum();
        let devices = slices.iter().zip(&needs);
        let devices = devices.map(|(&columns, needs)| PredictedDevice {
            units: plan.units_of(rank, columns),
            memory_bytes: needs.own_bytes,
        });
        Ok(PredictedNode {
            part: plan.c().part(rank),
            k: [k.start, k.end],
            units: plan.units(rank),
            arithmetic_s: plan.node_s(rank),
            bytes: received.bytes,
            messages: received.messages,
            memory_bytes: plan.memory_bytes(rank).saturating_add(of_devices),
            devices: devices.collect(),
        })
    }

    /// Takes over a plan that was [read](Plan::load), if it was made for these ranks and devices. Nothing is measured.
    ///
    /// # Errors
    /// On every rank: [`Error::Plan`] with the difference when the plan was made for other ranks, hosts, nodes or
    /// devices, and [`Error::Plan`] or [`Error::Parameter`] when it is impossible; [`Error::Memory`] when the matrices
    /// do not fit.
    ///
    /// # Collective
    /// All ranks, with the same plan.
    pub fn adopt(&mut self, plan: Plan) -> Result<Plan, Error> {
        let _log = self.begin_log();
        let comm = Arc::clone(&self.comm);
        let _call = CollectiveCall::new(comm.as_ref(), "adopting a plan")
            .with_long("plan", "a plan", &plan)
            .enter()?;
        self.check_given(&plan)?;
        self.fit_to_memory(plan, &|_| 0)
    }

    /// Checks that a plan is possible, and was made for these ranks and devices.
    ///
    /// # Errors
    /// On every rank: [`Error::Plan`], [`Error::Parameter`].
    ///
    /// # Collective
    /// All ranks, with the same plan.
    pub(super) fn check_given(&self, plan: &Plan) -> Result<(), Error> {
        plan.check()?;
        let slices = vec![0; self.team.len()];
        let mine = self.describe_node(&slices, MeasureTally::default());
        let here = self.comm.gather(&mine)?;
        find_difference(plan.nodes(), &here)
            .map_or(Ok(()), |difference| Err(Error::Plan(difference)))
    }

    /// Describes this rank's node with these columns for its devices.
    pub(super) fn describe_node(&self, slices: &[usize], measured: MeasureTally) -> PlannedNode {
        let devices = self.team.infos().iter().zip(slices);
        let devices = devices.map(|(info, &columns)| PlannedDevice::new(info, columns));
        PlannedNode {
            rank: self.comm.rank(),
            host: self.comm.host().to_owned(),
            name: self.node_name.clone(),
            measured,
            devices: devices.collect(),
        }
    }
}
