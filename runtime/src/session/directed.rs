//! Multiplications whose parts change in mid-run, within the memory of the hosts.

use std::sync::Arc;

use isochron_devices::internal::{HostClock, memory_bounds};
use isochron_devices::{DeviceKind, JobNeeds, UpdateTime};
use isochron_hierarchy::times::Sample;

use super::Session;
use super::memory::{AvailableMemory, MemoryNeed, make_room, share_memory};
use crate::comm::{CollectiveCall, Comm, agree};
use crate::error::Error;
use crate::matrix::HeldMatrix;
use crate::multiply::{
    ChangeCost, Directive, Director, Element, Execution, Factors, LearningDirector,
    LearningSettings, MultiplyRun, Plan, RankStep, RunConditions, RunMemory, RunRecord, Scalars,
    StepTimes, enter_multiplication,
};

/// A director whose changes need the hosts' consent, and that reads times as this rank's host makes them.
struct HostKeeper<'d> {
    director: &'d mut dyn Director,
    clock: HostClock,
}

impl Director for HostKeeper<'_> {
    fn time_devices(&mut self, slices: &[usize], times: &[UpdateTime]) -> Option<Vec<Sample>> {
        self.clock.read(times, slices)
    }

    fn count_first_steps(&mut self) -> usize {
        self.director.count_first_steps()
    }

    fn decide(&mut self, at: &StepTimes<'_>) -> Result<Directive, Error> {
        self.director.decide(at)
    }

    fn note_last_steps(&mut self, ranks: &[Vec<RankStep>]) {
        self.director.note_last_steps(ranks);
    }

    fn check_memory(&mut self, comm: &dyn Comm, bytes: u64) -> Result<(), Error> {
        let need = MemoryNeed {
            bytes,
            ..MemoryNeed::default()
        };
        share_memory(comm, need, &memory_bounds())?;
        self.director.check_memory(comm, bytes)
    }

    fn note_refusal(&mut self, reason: &Error) {
        self.director.note_refusal(reason);
    }
}

/// Runs a multiplication of matrices that it holds.
type RunPrepared<'r> = Box<dyn FnOnce(MultiplyRun<'_>) -> Result<Execution, Error> + 'r>;

/// A plan, its scalars, and its factors.
type PlannedRun<'p, 'o, 'm, T> = (&'p Plan, Scalars<T>, Factors<'o, 'm, T>);

impl Session {
    /// Multiplies as [`multiply`](Self::multiply) and [`multiply_in_parts`](Self::multiply_in_parts) do, with parts
    /// that `director` changes in mid-run. A change for which a host has no memory is refused.
    ///
    /// ```
    /// use isochron::multiply::{Directive, Director, Factors, StepTimes};
    /// use isochron::prelude::*;
    ///
    /// /// Gives the last device the first one's columns, and the other way round.
    /// struct Swap;
    /// impl Director for Swap {
    ///     fn count_first_steps(&mut self) -> usize {
    ///         1
    ///     }
    ///     fn decide(&mut self, at: &StepTimes<'_>) -> Result<Directive, Error> {
    ///         let mut next = at.assignment.clone();
    ///         next.slices.iter_mut().for_each(|slices| slices.reverse());
    ///         let steps = at.steps;
    ///         Ok(Directive { change: Some(next), steps })
    ///     }
    /// }
    ///
    /// let mut session = Session::builder().build(LocalComm::new())?;
    /// let problem = Problem::new(96, 80, 160, 16)?.with_panel(16)?;
    /// let plan = session.plan(problem, &BalanceConfig::default())?;
    /// let a: Matrix = Matrix::generate(plan.a(), 0, Generator::Uniform { seed: 1 })?;
    /// let b = Matrix::generate(plan.b(), 0, Generator::Uniform { seed: 2 })?;
    /// let mut c = session.zeros(&plan)?;
    /// let factors = Factors::Held((&a, &b));
    /// let execution = session.multiply_directed(&plan, Scalars::PRODUCT, factors, &mut c, &mut Swap)?;
    /// assert!(execution.changes.len() <= 1);
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Errors
    /// As those; and those of the director.
    ///
    /// # Collective
    /// All ranks, with the same plan and scalars.
    pub fn multiply_directed<T: Element>(
        &mut self,
        plan: &Plan,
        scalars: Scalars<T>,
        factors: Factors<'_, '_, T>,
        c: &mut HeldMatrix<'_, T>,
        director: &mut dyn Director,
    ) -> Result<Execution, Error> {
        let _log = self.begin_log();
        let comm = Arc::clone(&self.comm);
        let _call = enter_multiplication(comm.as_ref(), plan, scalars)?;
        let mut memory = self.take_reserved();
        let needs = self.find_needs(plan)?;
        let multiply = |run: MultiplyRun<'_>| T::run(run, &mut memory, (scalars, factors), c);
        self.run_directed(plan, director, &needs, Box::new(multiply))
    }

    fn run_directed(
        &mut self,
        plan: &Plan,
        director: &mut dyn Director,
        needs: &[JobNeeds],
        run: RunPrepared<'_>,
    ) -> Result<Execution, Error> {
        let leaves_c = self.leaves_c;
        let together: Vec<usize> = needs.iter().map(|needs| needs.updates_per_visit).collect();
        let mut keeper = HostKeeper {
            director,
            clock: HostClock::new(self.devices(), &together, &self.threads, self.load.share),
        };
        let prepared = self.multiplication(plan).with_director(&mut keeper);
        run(prepared.leaving_c(leaves_c))
    }

    /// Keeps the times and decisions of the multiplications that follow, in [`Execution::record`].
    pub fn keep_records(&mut self) {
        self.keeps_records = true;
    }

    /// Lets the multiplications that follow leave C where their last step was computed, as
    /// [`MultiplyRun::leaving_c`](crate::multiply::MultiplyRun::leaving_c) does. Else a C that has moved returns to where
    /// the plan has it.
    pub fn leave_c(&mut self) {
        self.leaves_c = true;
    }

    /// Takes over the plan of a record, as [`adopt`](Self::adopt) does, and repeats the record's decisions in the next
    /// multiplication. A plan that lacks memory is refused, because a leaner one leads to other decisions.
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt).
    ///
    /// # Collective
    /// All ranks, with the same record.
    pub fn replay(&mut self, record: RunRecord) -> Result<Plan, Error> {
        let comm = Arc::clone(&self.comm);
        let _call = CollectiveCall::new(comm.as_ref(), "repeating a record")
            .with_long("record", "a record", &record)
            .enter()?;
        let (plan, rank) = (record.plan().clone(), self.comm.rank());
        self.check_given(&plan)?;
        let (job, slices) = (plan.job_shape(rank), plan.slices(rank));
        let bytes = plan.memory_bytes(rank);
        let planned = AvailableMemory::new();
        let team = &mut self.team;
        self.available = make_room(comm.as_ref(), team, bytes, &job, &slices, &planned)?;
        self.replay = Some(record);
        Ok(plan)
    }

    /// Multiplies as planned, and learns meanwhile if the plan leaves something to the run.
    pub(super) fn run<T: Element>(
        &mut self,
        (plan, scalars, factors): PlannedRun<'_, '_, '_, T>,
        c: &mut HeldMatrix<'_, T>,
        memory: &mut RunMemory<T>,
    ) -> Result<Execution, Error> {
        let _log = self.begin_log();
        let comm = Arc::clone(&self.comm);
        let _call = enter_multiplication(comm.as_ref(), plan, scalars)?;
        self.run_entered((plan, scalars, factors), c, memory, false)
    }

    /// Does the same after all ranks have agreed on plan and scalars and, if they are `in_step`, on matrices and memory.
    pub(super) fn run_entered<T: Element>(
        &mut self,
        (plan, scalars, factors): PlannedRun<'_, '_, '_, T>,
        c: &mut HeldMatrix<'_, T>,
        memory: &mut RunMemory<T>,
        in_step: bool,
    ) -> Result<Execution, Error> {
        // Too few steps for a decision teach nothing.
        let is_short = in_step && !plan.has_decisions() && !self.keeps_records;
        let multiply =
            |run: MultiplyRun<'_>| T::run(run.prepared(in_step), memory, (scalars, factors), c);
        if plan.look().is_none() || (is_short && self.replay.is_none()) {
            return multiply(self.multiplication(plan));
        }
        self.run_learning(plan, Box::new(multiply))
    }

    fn run_learning(&mut self, plan: &Plan, run: RunPrepared<'_>) -> Result<Execution, Error> {
        let needs = self.find_needs(plan)?;
        let conditions = (self.find_resident_c(plan, &needs), self.load.share);
        let (keeps_c, core_shares) = self.comm.gather(&conditions)?.into_iter().unzip();
        let settings = LearningSettings {
            keeps_record: self.keeps_records,
            conditions: RunConditions {
                keeps_c,
                leaves_c: self.leaves_c,
                core_shares,
            },
            replay: self.replay.take(),
        };
        let mut director = agree(self.comm.as_ref(), LearningDirector::new(plan, settings))?;
        let heat = self.heat.read();
        let mut execution = self.run_directed(plan, &mut director, &needs, run)?;
        director.check_repeated()?;
        let slowed = self.heat.find_slowed(&heat);
        let ranks = self.comm.gather(&(execution.changes.clone(), slowed))?;
        let (changes, slowed): (Vec<_>, Vec<_>) = ranks.into_iter().unzip();
        if self.comm.rank() == 0 {
            let steady = director.list_steady();
            let words = self.store.as_mut().map(|store| {
                let words = store.explain_losses(&steady, &slowed.concat());
                store.keep_steps(plan, steady, &slowed.concat());
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
        let needs = self
            .team
            .job_needs(&plan.job_shape(rank), &plan.slices(rank));
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
                device.kind == DeviceKind::Cuda && needs.own_bytes >= c_bytes
            })
            .collect()
    }
}

/// Returns the seconds of all changes, given those of each rank: for each change those of the rank that waited least
/// for others to move C, or the longest if C did not move.
fn sum_changes(ranks: &[Vec<ChangeCost>]) -> f64 {
    let count = ranks.iter().map(Vec::len).max().unwrap_or(0);
    let seconds = (0..count).map(|index| {
        let all = ranks.iter().filter_map(|changes| changes.get(index));
        all.clone()
            .filter(|change| change.bytes > 0)
            .map(|change| change.seconds)
            .reduce(f64::min)
            .unwrap_or_else(|| all.map(|change| change.seconds).fold(0.0, f64::max))
    });
    // The sum of no numbers is -0.
    0.0 + seconds.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::LocalComm;

    /// Has all memory, and changes nothing.
    struct Still;

    impl Director for Still {
        fn count_first_steps(&mut self) -> usize {
            1
        }

        fn decide(&mut self, _at: &StepTimes<'_>) -> Result<Directive, Error> {
            Err(Error::Shape("nothing is decided".to_owned()))
        }
    }

    #[test]
    fn a_change_that_no_host_has_memory_for_is_refused() {
        let comm = LocalComm::new();
        let mut keeper = HostKeeper {
            director: &mut Still,
            clock: HostClock::new(&[], &[], &[], 1.0),
        };
        assert!(keeper.check_memory(&comm, 1).is_ok());
        let refused = keeper.check_memory(&comm, u64::MAX / 2);
        assert!(
            memory_bounds().is_empty() || matches!(refused, Err(Error::Memory { .. })),
            "{refused:?}"
        );
    }
}
