//! A multiplication on all ranks, from its first step to the sum over k.

use std::time::Instant;

use isochron_devices::{DeviceTeam, Scalar};

use super::course::Course;
use super::director::TimedDirector;
use super::panels::{PanelRoom, StepPanels};
use super::reduce;
use super::summa::{FactorSource, Summa};
use super::{Execution, RunMemory, Scalars};
use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::HeldMatrix;
use crate::matrix::redistribute::Moved;
use crate::plan::Plan;
use crate::progress::{Observer, Progress, tell};

/// A multiplication that is about to run on this rank.
pub struct Multiplication<'a> {
    comm: &'a dyn Comm,
    team: &'a mut DeviceTeam,
    plan: &'a Plan,
    observer: Option<&'a dyn Observer>,
    timed: Option<TimedDirector<'a>>,
    leaves_c: bool,
    is_in_step: bool,
}

impl<'a> Multiplication<'a> {
    /// Takes the ranks, this rank's devices, and the parts of all ranks.
    pub(crate) fn new(comm: &'a dyn Comm, team: &'a mut DeviceTeam, plan: &'a Plan) -> Self {
        Self { comm, team, plan, observer: None, timed: None, leaves_c: false, is_in_step: false }
    }

    /// Tells `observer`, if there is one, how far this rank has come.
    pub(crate) fn with_observer(self, observer: Option<&'a dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    /// Lets a director change the parts in mid-run. All ranks have one, or none has.
    pub(crate) fn directed_by(self, timed: TimedDirector<'a>) -> Self {
        let timed = Some(timed);
        Self { timed, ..self }
    }

    /// Leaves C where the last step was computed, if the director has moved it: [`HeldMatrix::spread`] tells where that is.
    pub(crate) fn leaving_c(self, leaves_c: bool) -> Self {
        Self { leaves_c, ..self }
    }

    /// Begins without waiting for the other ranks, if all are in step.
    pub(crate) fn in_step(self, is_in_step: bool) -> Self {
        Self { is_in_step, ..self }
    }

    /// Multiplies in this memory while all ranks do, and returns the measurements.
    ///
    /// # Errors
    /// On every rank: [`Error::Device`] or [`Error::Allocation`] when a device of any rank fails; C is then unspecified. Errors
    /// of the director, and of making parts of k.
    ///
    /// # Collective
    /// All ranks, with the same plan and scalars, after they have agreed on their matrices and memory.
    pub(crate) fn run_in<T: Scalar>(
        self,
        memory: &mut RunMemory<T>,
        scalars: Scalars<T>,
        factors: FactorSource<'_, '_, T>,
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<Execution, Error> {
        let Self { comm, team, plan, observer, timed, leaves_c, is_in_step } = self;
        let rank = comm.rank();
        let span = tracing::info_span!("multiply", rank);
        let _entered = span.enter();
        let rooms = std::mem::take(&mut memory.rooms);
        let size = rooms.first().map(PanelRoom::size).unwrap_or_default();
        let mut sets: Vec<_> = rooms.into_iter().map(StepPanels::new).collect();
        let partial = memory.partial.as_mut();
        let course = Course::begin(comm, plan, timed, c.frame(), size)?;
        let mut course = course.with_observer(observer);

        if !is_in_step {
            comm.barrier()?;
        }
        tracing::info!(steps = plan.steps(rank), width = plan.panel(), "multiplying");
        let start = Instant::now();
        let slices = plan.slices(rank);
        let mut summa = Summa {
            comm,
            team,
            plan,
            factors,
            alpha: scalars.alpha,
            times: Execution {
                busy_s: vec![0.0; slices.len()],
                products: vec![0.0; slices.len()],
                ..Execution::default()
            },
            slices,
            sent: Moved::default(),
            failure: None,
            is_lost: false,
            observer,
            leaves_c,
            steps: (0, 0),
        };
        match partial {
            None => summa.run_job(scalars.beta, &mut sets, c, &mut course)?,
            Some(partial) => {
                if c.is_changed_by(scalars.beta) {
                    c.local_mut().scale(scalars.beta);
                }
                summa.run_job(T::ZERO, &mut sets, partial, &mut course)?;
                tell(observer, Progress::Summing);
                let start = Instant::now();
                summa.sent = summa.sent.and(reduce::sum_c(comm, plan, partial, c)?);
                summa.times.sum_s = start.elapsed().as_secs_f64();
            }
        }
        tell(observer, Progress::AwaitingRanks);
        // The ranks wait for the last one here.
        let outcome = agree(comm, summa.failure.map_or(Ok(()), Err));
        let wall_s = start.elapsed().as_secs_f64();

        memory.keep(sets);
        outcome?;
        course.end()?;
        Ok(Execution {
            wall_s,
            messages: summa.sent.messages,
            bytes: summa.sent.bytes,
            part: c.part(),
            ..summa.times
        })
    }
}
