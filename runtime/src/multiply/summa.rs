//! The SUMMA step ([`Summa::run_step`]) and the loop over all steps.
//!
//! In a step every device updates its slice of C with the pivot panels of A and B, while the panels of later steps travel.
//!
//! # References
//! van de Geijn and Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997.

use std::time::Instant;

use isochron_devices::{DeviceError, DeviceTeam, Element, UpdateTime};

use super::panels::{StepOperands, StepPanels};
use super::plan::{PartOfK, Plan};
use super::schedule::StepSchedule;
use super::{Execution, check_factors, check_part};
use crate::comm::{Comm, Pause, agree};
use crate::error::Error;
use crate::matrix::Matrix;
use crate::matrix::redistribute::Moved;
use crate::progress::{Observer, Progress};

/// Makes a part of A and of B.
pub type MakePart<'m, T> = dyn FnMut(&PartOfK) -> Result<(Matrix<T>, Matrix<T>), Error> + 'm;

/// The source of A and B.
pub(crate) enum Factors<'f, 'm, T> {
    /// This rank's whole share is here.
    Held((&'f Matrix<T>, &'f Matrix<T>)),
    /// Their parts of k are made, each in its turn.
    Made(&'f mut MakePart<'m, T>),
}

/// The arithmetic of all steps.
pub(super) struct Summa<'a, 'f, 'm, T> {
    pub comm: &'a dyn Comm,
    pub team: &'a mut DeviceTeam,
    pub plan: &'a Plan,
    pub factors: Factors<'f, 'm, T>,
    pub alpha: T,
    /// The columns of each device.
    pub slices: Vec<usize>,
    /// The devices' busy times, and the seconds of waiting and of making parts.
    pub times: Execution,
    pub sent: Moved,
    /// The first failure of a device. The messages go on without the arithmetic, since other ranks wait for them; the
    /// ranks agree on the failure at the end.
    pub failure: Option<Error>,
    pub observer: Option<&'a dyn Observer>,
    /// The steps that have begun, and all of them.
    pub steps: (usize, usize),
}

impl<'a, T: Element> Summa<'a, '_, '_, T> {
    /// Runs the job of every device: `C = beta·C`, then all steps on it.
    ///
    /// # Errors
    /// The same on every rank.
    pub(super) fn run_job(
        &mut self,
        beta: T,
        sets: &mut [StepPanels<'a, T>],
        c: &mut Matrix<T>,
    ) -> Result<(), Error> {
        let depth = self.plan.depth(self.comm.rank());
        if c.is_changed_by(beta) {
            // Each device scales its own columns, which does not count as busy time.
            let scaled = self.team.scale(beta, c.local_mut(), &self.slices);
            self.failure = scaled.err().map(Error::from);
        }
        self.time_devices(|team, slices| team.begin(c.local_mut(), slices, depth));
        if self.alpha != T::ZERO {
            let parts = 0..self.plan.k_parts();
            self.steps.1 = parts
                .clone()
                .map(|part| self.plan.k_part(part).plan().steps(self.comm.rank()))
                .sum();
            for part in parts {
                self.run_part(part, sets, c)?;
                // Making the next part costs time, and is useless if a device of any rank has failed.
                let failed = f64::from(u8::from(self.failure.is_some()));
                if self.plan.k_parts() > 1 && self.comm.largest(failed) > 0.0 {
                    break;
                }
            }
        }
        self.time_devices(|team, slices| team.finish(c.local_mut(), slices));
        Ok(())
    }

    /// Runs the steps of a part of k.
    fn run_part(
        &mut self,
        index: usize,
        sets: &mut [StepPanels<'a, T>],
        c: &mut Matrix<T>,
    ) -> Result<(), Error> {
        let (comm, part) = (self.comm, self.plan.k_part(index));
        let made;
        let factors = match &mut self.factors {
            Factors::Held(factors) => *factors,
            Factors::Made(make) => {
                let start = Instant::now();
                let accepted = make(&part).and_then(|made| accept_part(made, &part, comm.rank()));
                made = agree(comm, accepted)?;
                self.times.parts_s += start.elapsed().as_secs_f64();
                (&made.0, &made.1)
            }
        };
        let plan = part.plan();
        let schedule = StepSchedule::new(plan, comm.rank());
        let operands = StepOperands {
            comm,
            schedule: &schedule,
            factors: plan.operands(factors),
        };
        let mut ahead = StepsAhead {
            operands: &operands,
            steps: plan.steps(comm.rank()),
            unsent: 0,
            sent: Moved::default(),
        };
        ahead.drive_messages(0, &mut sets[..1]);
        for step in 0..ahead.steps {
            // The sets in the order of their steps: this one, those ahead, and the one that has become free.
            sets.rotate_left(usize::from(step > 0));
            self.tell_progress();
            self.run_step(step, &mut ahead, sets, c);
        }
        self.sent = self.sent.and(ahead.sent);
        Ok(())
    }

    /// Tells the observer that another step begins.
    fn tell_progress(&mut self) {
        let (step, steps) = self.steps;
        if let Some(observer) = self.observer {
            observer.observe(Progress::Multiplying { step, steps });
        }
        self.steps.0 += 1;
    }

    /// Runs one SUMMA step: waits for its panels, then lets every device update its slice of C.
    ///
    /// Meanwhile this thread sends for the steps ahead that have a set of panels, copies the pieces that need no message,
    /// and makes all messages progress. Only the first step waits for the packing of its messages.
    fn run_step(
        &mut self,
        step: usize,
        ahead: &mut StepsAhead<'_, 'a, '_, T>,
        sets: &mut [StepPanels<'a, T>],
        c: &mut Matrix<T>,
    ) {
        let span = tracing::trace_span!("step", step);
        let _entered = span.enter();
        let operands = ahead.operands;
        self.wait_for_panels(sets, operands);
        let (now, later) = sets.split_at_mut(1);
        let panels = now[0].both_views(operands).into();
        let next_is_here = step + 1 < ahead.unsent && later[0].progress();
        let alpha = self.alpha;
        if operands.schedule.c().is_empty() {
            // There is nothing to compute, but other ranks need pieces that this rank holds.
        } else if next_is_here {
            let (next, later) = later.split_at_mut(1);
            let next = next[0].both_views(operands).into();
            self.time_devices(|team, slices| {
                let drive = &mut || ahead.drive_messages(step + 2, later);
                team.update(alpha, panels, Some(next), c.local_mut(), slices, drive)
            });
        } else {
            self.time_devices(|team, slices| {
                let drive = &mut || ahead.drive_messages(step + 1, later);
                team.update(alpha, panels, None, c.local_mut(), slices, drive)
            });
        }
        ahead.drive_messages(step + 1, later);
    }

    /// Waits for the panels of the first set, which should be here already. Messages that others wait for may pass through
    /// the sets of later steps, so those progress too. A rank that computes counts the wait as `exposed_s`.
    fn wait_for_panels(
        &mut self,
        sets: &mut [StepPanels<'_, T>],
        operands: &StepOperands<'_, '_, T>,
    ) {
        let start = Instant::now();
        let mut pause = Pause::default();
        while !sets[0].progress() {
            for later in &mut sets[1..] {
                later.progress();
            }
            pause.wait();
        }
        if !operands.schedule.c().is_empty() {
            self.times.exposed_s += start.elapsed().as_secs_f64();
        }
    }

    /// Runs a call of all devices and counts their busy times, or notes its failure. After a failure nothing runs.
    fn time_devices(
        &mut self,
        call: impl FnOnce(&mut DeviceTeam, &[usize]) -> Result<Vec<UpdateTime>, DeviceError>,
    ) {
        if self.failure.is_some() {
            return;
        }
        match call(self.team, &self.slices) {
            Ok(times) => {
                tracing::trace!(?times, "the devices' times");
                for (busy_s, time) in self.times.busy_s.iter_mut().zip(times) {
                    *busy_s += time.busy_s;
                }
            }
            Err(error) => self.failure = Some(error.into()),
        }
    }
}

/// The messages of the steps after the one that computes.
struct StepsAhead<'s, 'a, 'o, T> {
    operands: &'s StepOperands<'a, 'o, T>,
    steps: usize,
    /// The first step whose panels have not been sent for.
    unsent: usize,
    sent: Moved,
}

impl<'a, T: Element> StepsAhead<'_, 'a, '_, T> {
    /// Sends for the steps from `first` on, as far as there are sets for them, and makes their messages progress. Returns
    /// `true` while any are under way.
    fn drive_messages(&mut self, first: usize, sets: &mut [StepPanels<'a, T>]) -> bool {
        let mut under_way = false;
        for (step, panels) in (first..self.steps).zip(sets) {
            if step == self.unsent {
                self.sent = self.sent.and(panels.start(self.operands, step));
                self.unsent += 1;
            }
            under_way |= !panels.progress();
        }
        under_way
    }
}

/// Checks the matrices that were made for a part of k and returns them as matrices of their own.
fn accept_part<T: Element>(
    (a, b): (Matrix<T>, Matrix<T>),
    part: &PartOfK,
    rank: usize,
) -> Result<(Matrix<T>, Matrix<T>), Error> {
    // On their own, windows in different places look the same.
    for (name, matrix, wanted) in [("A", &a, part.a()), ("B", &b, part.b())] {
        if matrix.spread().is_window() {
            check_part(name, matrix, &wanted, rank)?;
        }
    }
    let factors = (a.alone(rank), b.alone(rank));
    check_factors(part.plan(), (&factors.0, &factors.1), rank)?;
    Ok(factors)
}
