//! Runs whose division changes, by what their steps teach or by the director of a test.

use std::sync::Arc;

use isochron_devices::JobNeeds;
use isochron_devices::internal::HostClock;

use super::director::{Director, TimedDirector};
use super::learning::{LearningDirector, LearningSettings};
use super::multiplication::Multiplication;
use super::run::RunSetup;
use super::step_log::cost_change;
use super::{
    ChangeCost, Element, Execution, Factors, Product, RunConfig, RunRecord, Scalars, Target,
};
use crate::comm::agree;
use crate::error::Error;
use crate::matrix::HeldMatrix;
use crate::plan::Plan;
use crate::plan::place::RunConditions;
use crate::session::Session;

/// A call that multiplies given matrices.
type RunPrepared<'r> = Box<dyn FnOnce(Multiplication<'_>) -> Result<Execution, Error> + 'r>;

/// Runs a product with a division that `director` changes, for tests.
///
/// # Errors
/// As [`Product::run`], and those of the director.
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

impl Session {
    /// Runs a product, and learns meanwhile if the plan leaves something to the run.
    pub(super) fn run_product<T: Element>(
        &mut self,
        run: RunSetup<'_, '_, T>,
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<Execution, Error> {
        let RunSetup {
            plan,
            scalars,
            source,
            memory,
            is_in_step,
            has_run,
            config,
            replay,
            director,
        } = run;
        let multiply =
            |run: Multiplication<'_>| T::run(run.in_step(is_in_step), memory, scalars, source, c);
        if let Some(director) = director {
            let needs = self.find_needs(plan)?;
            return self.run_directed(plan, config, director, &needs, Box::new(multiply));
        }
        // Too few steps for a decision teach nothing that the first run has not taught.
        let is_short = has_run && is_in_step && !plan.has_decisions();
        let learns = plan.look().is_some() && (!is_short || config.keeps_record);
        if learns || replay.is_some() {
            self.run_learning(plan, config, replay, Box::new(multiply))
        } else {
            multiply(self.multiplication(plan))
        }
    }

    fn multiplication<'s>(&'s mut self, plan: &'s Plan) -> Multiplication<'s> {
        Multiplication::new(self.comm.as_ref(), &mut self.node.team, plan)
            .with_observer(self.observer.as_deref())
    }

    fn run_directed(
        &mut self,
        plan: &Plan,
        config: RunConfig,
        director: &mut dyn Director,
        needs: &[JobNeeds],
        run: RunPrepared<'_>,
    ) -> Result<Execution, Error> {
        let together: Vec<usize> = needs.iter().map(|needs| needs.updates_per_visit).collect();
        let node = &self.node;
        let clock = HostClock::new(node.team.infos(), &together, &node.threads, node.load);
        let timed = TimedDirector { director, clock };
        let prepared = self.multiplication(plan).directed_by(timed);
        run(prepared.leaving_c(config.leaves_c))
    }

    fn run_learning(
        &mut self,
        plan: &Plan,
        config: RunConfig,
        replay: Option<RunRecord>,
        run: RunPrepared<'_>,
    ) -> Result<Execution, Error> {
        let comm = Arc::clone(&self.comm);
        let needs = self.find_needs(plan)?;
        let conditions = (self.find_resident_c(plan, &needs), self.node.load.share);
        let (keeps_c, core_shares) = comm.gather(&conditions)?.into_iter().unzip();
        let settings = LearningSettings {
            keeps_record: config.keeps_record,
            conditions: RunConditions { keeps_c, leaves_c: config.leaves_c, core_shares },
            replay,
        };
        let mut director = agree(comm.as_ref(), LearningDirector::new(plan, settings))?;
        let heat = self.node.heat.read();
        let mut execution = self.run_directed(plan, config, &mut director, &needs, run)?;
        director.check_repeated()?;
        let slowed = self.node.heat.find_slowed(&heat);
        let ranks = comm.gather(&(execution.changes.clone(), slowed))?;
        let (changes, slowed): (Vec<_>, Vec<_>) = ranks.into_iter().unzip();
        if comm.rank() == 0 {
            let (series, slowed) = (director.list_series(), slowed.concat());
            let words = self.models.store.as_mut().map(|store| {
                let words = store.explain_losses(&series, &director.list_stopped(), &slowed);
                store.keep_steps(plan.problem(), plan.panel(), series, &slowed);
                words
            });
            let (mut learnt, record) = director.finish(sum_changes(&changes));
            learnt.notices.extend(words.unwrap_or_default());
            (execution.learnt, execution.record) = (Some(learnt), record);
        }
        Ok(execution)
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
