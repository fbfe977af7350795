//! The answers from models of all devices, which the head rank gives without the other ranks.

use isochron_hierarchy::balance::Extent;
use isochron_hierarchy::decide::{self, Decision};
use isochron_hierarchy::network::Network;
use isochron_hierarchy::times::{Sample, Series};

use super::look::{FirstDivision, Looking, note_prediction};
use super::task::PlanningTask;
use crate::error::Error;
use crate::store::KnownTimes;

/// Models of all devices, which answer a planner.
pub(super) enum NodeModels {
    /// Of a look at all devices, from which the run learns on.
    Look(Box<Looking>),
    /// Of times that are known for certain.
    Known(Box<decide::Modelled>),
}

impl NodeModels {
    /// Makes the models of every rank's devices by what is known of them for certain.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the points of a device make no model.
    pub fn of_known(task: &PlanningTask, known: &[Vec<KnownTimes>]) -> Result<Self, Error> {
        let points = known
            .iter()
            .map(|devices| devices.iter().map(|device| device.points.clone()).collect())
            .collect();
        let config = task.config;
        decide::Modelled::new(task.problem, config, points)
            .map(|models| Self::Known(Box::new(models)))
            .map_err(|error| Error::parameter("fit", config.fit, error.to_string()))
    }

    /// Predicts the nodes' times of an update of such parts of C.
    pub fn predict(
        &mut self,
        task: &PlanningTask,
        parts: &[Extent],
        along_k: bool,
    ) -> Result<Vec<Sample>, Error> {
        match self {
            Self::Look(looking) => looking.predict(task, parts),
            Self::Known(modelled) => Ok(modelled.predict(parts, along_k)?),
        }
    }

    /// Divides every node's part among its devices as the planner has decided. A look may divide C anew.
    pub fn divide_first(
        &mut self,
        task: &PlanningTask,
        mut decision: Decision,
        network: Option<&Network>,
    ) -> Result<FirstDivision, Error> {
        match self {
            Self::Look(looking) => looking.divide_first(task, decision, network),
            Self::Known(modelled) => {
                note_prediction(&mut decision, 0);
                Ok(FirstDivision {
                    slices: modelled.slice(&decision.division),
                    decision,
                    look: None,
                    falls: modelled.falling(),
                })
            }
        }
    }

    /// Notes the seconds that a byte of a message takes from the arithmetic of each node.
    pub fn note_message_costs(&mut self, byte_s: &[f64]) {
        if let Self::Look(looking) = self {
            looking.look.byte_s = byte_s.to_vec();
        }
    }

    /// Returns the repetitions of every size that was measured, by device.
    pub fn into_seen(self) -> Vec<Vec<Series>> {
        match self {
            Self::Look(looking) => looking.seen,
            Self::Known(_) => Vec::new(),
        }
    }
}
