//! The head rank's knowledge of all devices, which answers a planner without the other ranks.

use isochron_hierarchy::balance::{EndReason, Extent};
use isochron_hierarchy::decide::{Decision, Modelled};
use isochron_hierarchy::learn::FirstLook;
use isochron_hierarchy::times::Sample;
use serde::{Deserialize, Serialize};

use super::PlanningTask;
use super::look::Looking;
use crate::error::Error;
use crate::store::KnownDevice;

/// The origin of predicted times.
pub(super) enum Predictor {
    /// A look at all devices, from which the run learns on.
    Look(Box<Looking>),
    /// Models that hold without a measurement.
    Models(Box<Modelled>),
}

/// The division with which a multiplication begins.
#[derive(Serialize, Deserialize)]
pub(super) struct FirstDivision {
    pub decision: Decision,
    /// Columns of every rank's devices.
    pub slices: Vec<Vec<usize>>,
    /// The look at the devices, from which the run learns on; `None` if all is decided before it.
    pub look: Option<FirstLook>,
    /// For every rank, `true` if times of its devices fall with the size, and the partitioner needs times that grow.
    pub falls: Vec<bool>,
}

impl Predictor {
    /// Makes the models of every rank's devices by what is known of them for certain.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the points of a device make no model.
    pub fn of_models(task: &PlanningTask, known: &[Vec<KnownDevice>]) -> Result<Self, Error> {
        let points = known
            .iter()
            .map(|devices| devices.iter().map(|device| device.points.clone()).collect())
            .collect();
        let config = task.config;
        Modelled::new(task.problem, config, points)
            .map(|models| Self::Models(Box::new(models)))
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
            Self::Models(modelled) => Ok(modelled.predict(parts, along_k)?),
        }
    }

    /// Divides every node's part among its devices as the planner has decided. A look may divide C anew.
    pub fn divide_first(
        &mut self,
        task: &PlanningTask,
        mut decision: Decision,
    ) -> Result<FirstDivision, Error> {
        match self {
            Self::Look(looking) => looking.divide_first(task, decision),
            Self::Models(modelled) => {
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
}

/// Says that a balance was predicted, after this number of measurements.
pub(super) fn note_prediction(decision: &mut Decision, measurements: u32) {
    if let Some(balance) = &mut decision.balance {
        balance.iterations = measurements;
        balance.converged = false;
        balance.why = EndReason::Predicted;
        balance.history.clear();
    }
}
