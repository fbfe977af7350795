//! The steps of a multiplication: what is computed, and what travels meanwhile.

use std::time::Instant;

use isochron_devices::{DeviceError, DeviceTeam, Element, UpdateTime};

use super::panels::{StepOperands, StepPanels, Volume};
use super::plan::{PartOfK, Plan};
use super::schedule::StepSchedule;
use super::{check_factors, check_part};
use crate::comm::{Comm, Pause, agree};
use crate::error::Error;
use crate::matrix::Matrix;

/// What makes a part of A and of B.
pub type MakePart<'m, T> = dyn FnMut(&PartOfK) -> Result<(Matrix<T>, Matrix<T>), Error> + 'm;

/// Where A and B come from.
pub(super) enum Factors<'f, 'm, T> {
    /// They are here.
    Held((&'f Matrix<T>, &'f Matrix<T>)),
    /// Their parts are made when it is their turn.
    Made(&'f mut MakePart<'m, T>),
}

/// The arithmetic of all steps.
pub(super) struct Summa<'a, 'f, 'm, T> {
    pub comm: &'a dyn Comm,
    pub team: &'a mut DeviceTeam,
    pub plan: &'a Plan,
    pub factors: Factors<'f, 'm, T>,
    pub alpha: T,
    pub busy_s: Vec<f64>,
    pub exposed_s: f64,
    pub parts_s: f64,
    /// The first failure of a device. The messages go on without the arithmetic, since the other ranks wait
    /// for them; the ranks agree on the failure at the end.
    pub failure: Option<Error>,
}

impl<'a, T: Element> Summa<'a, '_, '_, T> {
    /// A job of every device: `C = beta·C`, and all steps on it. An error is one of all ranks.
    pub(super) fn job(
        &mut self,
        beta: T,
        sets: &mut [StepPanels<'a, T>],
        c: &mut Matrix<T>,
    ) -> Result<Volume, Error> {
        let depth = self.plan.depth(self.comm.rank());
        if c.is_changed_by(beta) {
            self.guard(|team, slices| team.scale(beta, c.local_mut(), slices));
        }
        self.timed(|team, slices| team.begin(c.local_mut(), slices, depth));
        let mut volume = Volume::default();
        if self.alpha != T::ZERO {
            for part in 0..self.plan.k_parts() {
                volume.add(self.part(part, sets, c)?);
                // What is not held has to be made, at a cost, which is in vain when a device has failed.
                if self.plan.k_parts() > 1 && self.comm.largest(self.has_failed()) > 0.0 {
                    break;
                }
            }
        }
        self.timed(|team, slices| team.finish(c.local_mut(), slices));
        Ok(volume)
    }

    fn has_failed(&self) -> f64 {
        f64::from(u8::from(self.failure.is_some()))
    }

    /// The steps of a part of k.
    fn part(
        &mut self,
        index: usize,
        sets: &mut [StepPanels<'a, T>],
        c: &mut Matrix<T>,
    ) -> Result<Volume, Error> {
        let (comm, part) = (self.comm, self.plan.k_part(index));
        let made;
        let factors = match &mut self.factors {
            Factors::Held(factors) => *factors,
            Factors::Made(make) => {
                let start = Instant::now();
                made = agree(
                    comm,
                    make(&part).and_then(|made| alone(made, &part, comm.rank())),
                )?;
                self.parts_s += start.elapsed().as_secs_f64();
                (&made.0, &made.1)
            }
        };
        let plan = part.plan();
        let schedule = StepSchedule::new(plan, comm.rank());
        let operands = StepOperands {
            comm,
            schedule: &schedule,
            factors: plan.operands(factors),
            c: schedule.c(),
        };
        Ok(self.run(&operands, plan.steps(), sets, c))
    }

    /// Runs every step. While one computes, this thread sends for the steps ahead that there are sets for, copies what needs no
    /// message, and makes all messages progress. Nobody waits for what is packed for a step but the first.
    fn run(
        &mut self,
        operands: &StepOperands<'a, '_, T>,
        steps: usize,
        sets: &mut [StepPanels<'a, T>],
        c: &mut Matrix<T>,
    ) -> Volume {
        let mut total = Volume::default();
        let mut add = |volume: Volume| total.add(volume);
        let mut sent_for = steps.min(1);
        if sent_for > 0 {
            add(sets[0].start(operands, 0));
        }
        for step in 0..steps {
            let span = tracing::trace_span!("step", step);
            let _entered = span.enter();
            // The sets in the order of their steps: this one, those ahead, and the one that has become free.
            sets.rotate_left(usize::from(step > 0));
            self.wait_for(sets, operands);
            let (now, ahead) = sets.split_at_mut(1);
            let (next, later) = ahead.split_at_mut(1);
            let next_is_here = step + 1 < sent_for && next[0].progress();
            // Whether anything is still under way.
            let mut duty = |next: Option<&mut StepPanels<'a, T>>| {
                let first = step + 2 - usize::from(next.is_some());
                let mut more = false;
                for (ahead, panels) in (first..steps).zip(next.into_iter().chain(&mut *later)) {
                    if ahead == sent_for {
                        add(panels.start(operands, ahead));
                        sent_for += 1;
                    }
                    more |= !panels.progress();
                }
                more
            };
            if operands.c.is_empty() {
                // There is nothing to compute, but others need what this rank holds.
            } else if next_is_here {
                let next = next[0].both(operands).into();
                self.update(now[0].both(operands).into(), Some(next), c, &mut || {
                    duty(None)
                });
            } else {
                self.update(now[0].both(operands).into(), None, c, &mut || {
                    duty(Some(&mut next[0]))
                });
            }
            duty(Some(&mut next[0]));
        }
        total
    }

    /// Waits for the panels of the first of these sets, which it should not need to. What others wait for may pass through
    /// the sets of later steps.
    fn wait_for(&mut self, sets: &mut [StepPanels<'_, T>], operands: &StepOperands<'_, '_, T>) {
        let start = Instant::now();
        let mut pause = Pause::default();
        while !sets[0].progress() {
            for later in &mut sets[1..] {
                later.progress();
            }
            pause.wait();
        }
        if !operands.c.is_empty() {
            self.exposed_s += start.elapsed().as_secs_f64();
        }
    }

    fn update(
        &mut self,
        panels: isochron_devices::PanelPair<'_, T>,
        next: Option<isochron_devices::PanelPair<'_, T>>,
        c: &mut Matrix<T>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) {
        if self.failure.is_some() {
            return;
        }
        let (c, slices) = (c.local_mut(), self.plan.slices());
        let times = self
            .team
            .update(self.alpha, panels, next, c, slices, meanwhile);
        self.count(times);
    }

    /// The beginning or the end of the devices' jobs.
    fn timed(
        &mut self,
        call: impl FnOnce(&mut DeviceTeam, &[usize]) -> Result<Vec<UpdateTime>, DeviceError>,
    ) {
        if self.failure.is_none() {
            let times = call(self.team, self.plan.slices());
            self.count(times);
        }
    }

    /// Adds what a call took to the devices' busy times.
    fn count(&mut self, times: Result<Vec<UpdateTime>, DeviceError>) {
        match times {
            Ok(times) => {
                tracing::trace!(?times, "the devices' times");
                for (busy_s, time) in self.busy_s.iter_mut().zip(times) {
                    *busy_s += time.busy_s;
                }
            }
            Err(error) => self.failure = Some(error.into()),
        }
    }

    fn guard(&mut self, call: impl FnOnce(&mut DeviceTeam, &[usize]) -> Result<(), DeviceError>) {
        if self.failure.is_none() {
            self.failure = call(self.team, self.plan.slices()).err().map(Error::from);
        }
    }
}

/// What was made of a part of k, as matrices of their own.
fn alone<T: Element>(
    (a, b): (Matrix<T>, Matrix<T>),
    part: &PartOfK,
    rank: usize,
) -> Result<(Matrix<T>, Matrix<T>), Error> {
    // Alone, windows in another place would look the same.
    for (name, matrix, wanted) in [("A", &a, part.a()), ("B", &b, part.b())] {
        if matrix.distribution().is_window() {
            check_part(name, matrix, &wanted, rank)?;
        }
    }
    let factors = (a.alone(rank), b.alone(rank));
    check_factors(part.plan(), (&factors.0, &factors.1), rank)?;
    Ok(factors)
}
