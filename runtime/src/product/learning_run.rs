//! Runs whose division changes, by what their steps teach or by the director of a test.

use isochron_devices::JobNeeds;
use isochron_devices::internal::HostClock;

use super::director::{Director, TimedDirector};
use super::learning::{LearningDirector, Learnt};
use super::run::RunSetup;
use super::step_log::cost_change;
use super::summa::Summa;
use super::{ChangeCost, Element, Execution, Factors, Product, Scalars, Target};
use crate::comm::agree;
use crate::error::Error;
use crate::matrix::HeldMatrix;
use crate::plan::Plan;
use crate::plan::place::RunConditions;
use crate::session::Session;

/// Runs a product with a division that `director` changes, for tests.
///
/// # Errors
/// Returns the errors of [`Product::run`] and of the director.
///
/// # Collective
/// All ranks, each with a director.
pub fn run_directed<'m, T: Element>(
    product: &mut Product<T>,
    session: &mut Session,
    scalars: Scalars<T>,
    factors: Factors<'m, T>,
    c: impl Into<Target<'m, T>>,
    director: &mut dyn Director,
) -> Result<Execution, Error> {
    product.run_with(session, scalars, factors, c.into(), Some(director)).map(|run| run.execution)
}

/// The learning of a run.
struct Learning<'p> {
    director: LearningDirector<'p>,
    /// The counts of the heat sensors before the run.
    heat: Vec<u64>,
}

impl Session {
    /// Runs a product, and learns meanwhile if the plan leaves something to the run and no director is given.
    pub(super) fn run_product<T: Element>(
        &mut self,
        run: RunSetup<'_, '_, T>,
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<Execution, Error> {
        let RunSetup { plan, is_in_step, leaves_c, .. } = run;
        // Too few steps for a decision teach nothing that the first run has not taught.
        let is_short = run.has_run && is_in_step && !plan.has_decisions();
        let learns = run.director.is_none() && plan.look().is_some() && !is_short;
        let is_directed = learns || run.director.is_some();
        let needs = if is_directed { self.find_needs(plan)? } else { Vec::new() };
        let mut learning =
            if learns { Some(self.begin_learning(plan, &needs, leaves_c)?) } else { None };
        let director = match &mut learning {
            Some(learning) => Some(&mut learning.director as &mut dyn Director),
            None => run.director,
        };
        let timed =
            director.map(|director| TimedDirector { director, clock: self.start_clock(&needs) });
        let (comm, team) = (self.comm.as_ref(), &mut self.node.team);
        let observer = self.observer.as_deref();
        let summa = Summa::new(comm, team, observer, plan, run.source, run.scalars, leaves_c);
        let mut execution = T::multiply(summa, timed, is_in_step, run.memory, c)?;
        if let Some(learning) = learning {
            execution.learnt = self.end_learning(plan, learning, &execution.changes)?;
        }
        Ok(execution)
    }

    fn start_clock(&self, needs: &[JobNeeds]) -> HostClock {
        let together: Vec<usize> = needs.iter().map(|needs| needs.updates_per_visit).collect();
        let node = &self.node;
        HostClock::new(node.team.infos(), &together, &node.threads, node.load)
    }

    fn begin_learning<'p>(
        &self,
        plan: &'p Plan,
        needs: &[JobNeeds],
        leaves_c: bool,
    ) -> Result<Learning<'p>, Error> {
        let comm = self.comm.as_ref();
        let conditions = (self.find_resident_c(plan, needs), self.node.load.share);
        let (keeps_c, core_shares) = comm.gather(&conditions)?.into_iter().unzip();
        let conditions = RunConditions { keeps_c, leaves_c, core_shares };
        let director = agree(comm, LearningDirector::new(plan, conditions))?;
        Ok(Learning { director, heat: self.node.heat.read() })
    }

    /// Keeps what was learnt in a run with these changes on this rank, and returns it on the head rank.
    fn end_learning(
        &mut self,
        plan: &Plan,
        learning: Learning<'_>,
        changes: &[ChangeCost],
    ) -> Result<Option<Learnt>, Error> {
        let Learning { director, heat } = learning;
        let slowed = self.node.heat.find_slowed(&heat);
        let ranks = self.comm.gather(&(changes.to_vec(), slowed))?;
        if self.comm.rank() != 0 {
            return Ok(None);
        }
        let (changes, slowed): (Vec<_>, Vec<_>) = ranks.into_iter().unzip();
        let (series, slowed) = (director.list_series(), slowed.concat());
        let words = self.models.store.as_mut().map(|store| {
            let words = store.explain_losses(&series, &director.list_stopped(), &slowed);
            store.keep_steps(plan.problem(), plan.panel(), series, &slowed);
            words
        });
        let mut learnt = director.finish(sum_changes(&changes));
        learnt.notices.extend(words.unwrap_or_default());
        Ok(Some(learnt))
    }

    /// Finds the memory that this rank's devices need for a plan.
    ///
    /// # Collective
    /// All ranks.
    fn find_needs(&self, plan: &Plan) -> Result<Vec<JobNeeds>, Error> {
        let rank = self.comm.rank();
        let needs = (self.node.team).job_needs(&plan.job_shape(rank), &plan.slices(rank));
        agree(self.comm.as_ref(), needs.map_err(Error::from))
    }

    /// Finds the devices of this rank that keep their columns of C in their own memory, given the memory that each needs.
    fn find_resident_c(&self, plan: &Plan, needs: &[JobNeeds]) -> Vec<bool> {
        let rank = self.comm.rank();
        let rows = plan.job_shape(rank).rows;
        self.devices()
            .iter()
            .zip(needs)
            .zip(plan.slices(rank))
            .map(|((device, needs), cols)| {
                let c_bytes = (rows * cols * plan.problem().element().bytes()) as u64;
                device.kind.has_own_memory() && needs.own_bytes >= c_bytes
            })
            .collect()
    }
}

/// Returns the seconds of all changes, given those of each rank.
fn sum_changes(ranks: &[Vec<ChangeCost>]) -> f64 {
    let count = ranks.iter().map(Vec::len).max().unwrap_or(0);
    let seconds = (0..count).map(|index| {
        let all = ranks.iter().filter_map(|changes| changes.get(index));
        cost_change(all.map(|change| (change.seconds, change.bytes > 0)))
    });
    // The sum of no numbers is -0.
    0.0 + seconds.sum::<f64>()
}
