//! The problem that is planned.

use isochron_devices::{DeviceTeam, MeasureConfig};
use isochron_hierarchy::balance::{BalanceConfig, Rule, Strategy};
use isochron_hierarchy::predict::Cluster;

use crate::comm::Comm;
use crate::error::Error;
use crate::plan::Problem;

/// Part of the multiplication that one measurement may take.
pub(super) const MEASUREMENT_SHARE: f64 = 0.035;

/// A problem to be planned on the ranks of a job, and the update that is measured for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanningTask {
    pub problem: Problem,
    pub cluster: Cluster,
    /// The caller's settings, with the repetitions and steps of this run. The strategy is [`Strategy::Homogeneous`] if
    /// nothing is to be computed or divided.
    pub config: BalanceConfig,
    /// Inner dimension of the updates that are measured.
    pub kernel_width: usize,
}

/// Returns the fewest steps of a run of which a measurement of this many repetitions takes no more than its share.
pub(in crate::plan) fn count_fewest_steps(min_reps: u32) -> usize {
    (f64::from(min_reps) / MEASUREMENT_SHARE).ceil() as usize
}

impl PlanningTask {
    /// Returns the rule by which work is divided. If it learns in the run, a look at all devices is enough before that.
    pub fn rule(&self) -> Rule {
        self.config.rule()
    }

    /// Describes the planning of a problem by these settings of balancing and measuring.
    ///
    /// # Errors
    /// Returns [`Error::Unreadable`] on every rank.
    ///
    /// # Collective
    /// All ranks.
    pub fn new(
        comm: &dyn Comm,
        team: &DeviceTeam,
        problem: Problem,
        config: BalanceConfig,
        measure: MeasureConfig,
    ) -> Result<Self, Error> {
        let nodes = comm.size();
        let kernel_width = problem.kernel_width(count_fewest_steps(measure.min_reps), nodes);
        let hosts = comm.gather(&comm.host().to_owned())?;
        let is_one_host = hosts.iter().all(|host| *host == hosts[0]);
        let is_decided = problem.flop() == 0.0 || (nodes == 1 && team.len() == 1);
        let mut config = BalanceConfig { reps: measure.min_reps, ..config };
        if is_decided {
            config.strategy = Strategy::Homogeneous;
        }
        // Models answer at once, so that no answer costs more than it saves.
        let steps = problem.k().div_ceil(kernel_width.max(1)) as u64;
        config.steps = if config.rule().learns() { 0 } else { steps };
        Ok(Self {
            problem,
            cluster: Cluster { nodes, hidden: if is_one_host { 0.0 } else { 1.0 } },
            config,
            kernel_width,
        })
    }
}
