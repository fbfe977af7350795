//! The SUMMA step ([`Summa::run_step`]) and the loop over all steps.
//!
//! In a step every device updates its slice of C with the pivot panels of A and B, while the panels of later steps travel.
//!
//! # References
//! van de Geijn and Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997.

use std::time::Instant;

use isochron_devices::{DeviceError, DeviceTeam, Scalar, UpdateTime};

use super::check::check_part;
use super::course::{Course, MoveAim, PartMove, PreparedChange};
use super::director::TimedDirector;
use super::panels::{PanelRoom, StepOperands, StepPanels};
use super::{ChangeCost, Execution, RunMemory, Scalars, reduce};
use crate::comm::{Comm, Pause, agree};
use crate::error::Error;
use crate::matrix::redistribute::{Moved, replace};
use crate::matrix::{HeldMatrix, Matrix};
use crate::plan::schedule::StepSchedule;
use crate::plan::{PartOfK, Plan};
use crate::progress::{DeviceCall, Observer, Progress, tell};
use crate::watch::expect_work;

/// A job that computes less in a second, and of which no prediction is known, is taken for one that does not go on.
const SLOWEST_FLOP_S: f64 = 1e8;

/// Makes a part of A and of B.
pub type MakePart<'m, T> = dyn FnMut(&PartOfK) -> Result<(Matrix<T>, Matrix<T>), Error> + 'm;

/// The source of A and B.
pub enum FactorSource<'f, 'm, T: 'static> {
    /// This rank's whole shares of A and B are here.
    Held(&'f HeldMatrix<'f, T>, &'f HeldMatrix<'f, T>),
    /// Parts of k of A and B are made, each in its turn.
    Made(&'f mut MakePart<'m, T>),
}

/// A multiplication on this rank, from its first step to the sum over k.
pub struct Summa<'a, 'f, 'm, T: 'static> {
    comm: &'a dyn Comm,
    team: &'a mut DeviceTeam,
    observer: Option<&'a dyn Observer>,
    plan: &'a Plan,
    factors: FactorSource<'f, 'm, T>,
    scalars: Scalars<T>,
    /// C may stay where the last step was computed, if a director has moved it.
    leaves_c: bool,
    /// The columns of each device.
    slices: Vec<usize>,
    /// The devices' busy times, and the seconds of waiting and of making parts.
    times: Execution,
    sent: Moved,
    /// The first failure of a device. The messages go on without the arithmetic, since other ranks wait for them; the
    /// ranks agree on the failure at the end.
    failure: Option<Error>,
    /// `true` if C was lost while it moved: no device can go on.
    is_lost: bool,
    /// The steps that have begun, and all of them.
    steps: (usize, usize),
}

impl<'a, 'f, 'm, T: Copy> Summa<'a, 'f, 'm, T> {
    /// Takes the ranks, this rank's devices, the parts of all ranks, and the factors.
    pub(super) fn new(
        comm: &'a dyn Comm,
        team: &'a mut DeviceTeam,
        observer: Option<&'a dyn Observer>,
        plan: &'a Plan,
        factors: FactorSource<'f, 'm, T>,
        scalars: Scalars<T>,
        leaves_c: bool,
    ) -> Self {
        let slices = plan.slices(comm.rank());
        let times = Execution {
            busy_s: vec![0.0; slices.len()],
            products: vec![0.0; slices.len()],
            ..Execution::default()
        };
        Self {
            comm,
            team,
            observer,
            plan,
            factors,
            scalars,
            leaves_c,
            slices,
            times,
            sent: Moved::default(),
            failure: None,
            is_lost: false,
            steps: (0, 0),
        }
    }
}

impl<'a, T: Scalar> Summa<'a, '_, '_, T> {
    /// Multiplies in this memory, and returns the measurements. A director may change the parts in mid-run; all ranks have one,
    /// or none has. Ranks that are not in step wait for each other first.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Device`] or [`Error::Allocation`] when a device of any rank fails; C is then
    /// unspecified. Errors of the director and of making parts of k are returned as they are.
    ///
    /// # Collective
    /// All ranks, with the same plan and scalars, after they have agreed on their matrices and memory.
    pub(super) fn multiply(
        mut self,
        timed: Option<TimedDirector<'a>>,
        is_in_step: bool,
        memory: &mut RunMemory<T>,
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<Execution, Error> {
        let (comm, plan) = (self.comm, self.plan);
        let rank = comm.rank();
        let span = tracing::info_span!("multiply", rank);
        let _entered = span.enter();
        let rooms = std::mem::take(&mut memory.rooms);
        let size = rooms.first().map(PanelRoom::size).unwrap_or_default();
        let mut sets: Vec<_> = rooms.into_iter().map(StepPanels::new).collect();
        let course = Course::begin(comm, plan, timed, c.frame(), size)?;
        let mut course = course.with_observer(self.observer);
        if !is_in_step {
            comm.barrier()?;
        }
        tracing::info!(steps = plan.steps(rank), width = plan.panel(), "multiplying");
        let start = Instant::now();
        match memory.partial.as_mut() {
            None => self.run_job(self.scalars.beta, &mut sets, c, &mut course)?,
            Some(partial) => self.sum_job(partial, &mut sets, c, &mut course)?,
        }
        tell(self.observer, Progress::AwaitingRanks);
        // The ranks wait for the last one here.
        let outcome = agree(comm, self.failure.map_or(Ok(()), Err));
        let wall_s = start.elapsed().as_secs_f64();
        memory.keep(sets);
        outcome?;
        course.end()?;
        Ok(Execution {
            wall_s,
            messages: self.sent.messages,
            bytes: self.sent.bytes,
            part: c.part(),
            ..self.times
        })
    }

    /// Multiplies this rank's share of k, and adds all shares to C.
    fn sum_job(
        &mut self,
        partial: &mut Matrix<T>,
        sets: &mut [StepPanels<'a, T>],
        c: &mut HeldMatrix<'_, T>,
        course: &mut Course<'a, T>,
    ) -> Result<(), Error> {
        let beta = self.scalars.beta;
        if c.is_changed_by(beta) {
            c.local_mut().scale(beta);
        }
        self.run_job(T::ZERO, sets, partial, course)?;
        tell(self.observer, Progress::Summing);
        let start = Instant::now();
        self.sent = self.sent.and(reduce::sum_c(self.comm, self.plan, partial, c)?);
        self.times.sum_s = start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Runs the job of every device: `C = beta·C`, then all steps on it.
    ///
    /// # Errors
    /// Returns the errors of messages, of the director, and of making parts of k.
    fn run_job(
        &mut self,
        beta: T,
        sets: &mut [StepPanels<'a, T>],
        c: &mut HeldMatrix<'_, T>,
        course: &mut Course<'a, T>,
    ) -> Result<(), Error> {
        let depth = self.plan.depth(self.comm.rank());
        if c.is_changed_by(beta) {
            // Each device scales its own columns, which does not count as busy time.
            let scaled = self.team.scale(beta, c.local_mut(), &self.slices);
            self.failure = scaled.err().map(Error::from);
        }
        self.time_devices(DeviceCall::Begin, |team, slices| {
            team.begin(c.local_mut(), slices, depth)
        });
        let done = self.run_parts(sets, c, course);
        self.time_devices(DeviceCall::Finish, |team, slices| team.finish(c.local_mut(), slices));
        let returned =
            if course.layouts() > 0 && !self.leaves_c { self.return_c(c) } else { Ok(()) };
        done.and(returned)
    }

    /// Runs the steps of all parts of k.
    fn run_parts(
        &mut self,
        sets: &mut [StepPanels<'a, T>],
        c: &mut HeldMatrix<'_, T>,
        course: &mut Course<'a, T>,
    ) -> Result<(), Error> {
        if self.scalars.alpha == T::ZERO {
            return Ok(());
        }
        let parts = 0..self.plan.k_parts();
        self.steps.1 =
            parts.clone().map(|part| self.plan.k_part(part).plan().steps(self.comm.rank())).sum();
        for part in parts {
            self.run_part(part, sets, c, course)?;
            // Making the next part costs time, and is useless if a device of any rank has failed.
            let failed = f64::from(u8::from(self.failure.is_some()));
            if self.plan.k_parts() > 1 && self.comm.largest(failed)? > 0.0 {
                break;
            }
        }
        Ok(())
    }

    /// Runs the steps of a part of k.
    fn run_part(
        &mut self,
        index: usize,
        sets: &mut [StepPanels<'a, T>],
        c: &mut HeldMatrix<'_, T>,
        course: &mut Course<'a, T>,
    ) -> Result<(), Error> {
        let (comm, part) = (self.comm, self.plan.k_part(index));
        let made;
        let (a, b) = match &mut self.factors {
            FactorSource::Held(a, b) => (*a, *b),
            FactorSource::Made(make) => {
                let start = Instant::now();
                let accepted = make(&part).and_then(|(a, b)| accept_part(a, b, &part, comm.rank()));
                made = agree(comm, accepted)?;
                self.times.parts_s += start.elapsed().as_secs_f64();
                (&made.0, &made.1)
            }
        };
        self.expect_steps();
        let plan = part.plan();
        let operands = StepOperands {
            comm,
            observer: self.observer,
            factors: plan.operands(a, b),
            first_step: self.steps.0,
        };
        let mut ahead = StepsAhead::new(&operands, plan, course);
        ahead.drive_messages(0, &mut sets[..1]);
        for step in 0..ahead.steps {
            // The sets in the order of their steps: this one, those ahead, and the one that has become free.
            sets.rotate_left(usize::from(step > 0));
            self.tell_progress();
            self.wait_until(c, || ahead.is_decided(step, sets))?;
            if let Some(change) = ahead.course.take_change(ahead.first + step) {
                self.change_assignment(change, ahead.course, c)?;
            }
            self.run_step(step, &mut ahead, sets, c)?;
        }
        ahead.decide_rest();
        self.sent = self.sent.and(ahead.sent);
        if let Some(error) = ahead.failure {
            self.failure.get_or_insert(error);
        }
        Ok(())
    }

    /// Changes to an assignment that all ranks have made room for: moves C if its part changes, and gives the devices their
    /// new columns.
    fn change_assignment(
        &mut self,
        change: PreparedChange<T>,
        course: &mut Course<'a, T>,
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<(), Error> {
        let (start, sent) = (Instant::now(), self.sent.bytes);
        let mut depth = self.plan.depth(self.comm.rank());
        depth.k_total = depth.k_total.saturating_sub(course.k_done());
        let moves = change.part_move.is_some();
        tell(self.observer, Progress::Changing { moves_c: moves });
        match change.part_move {
            Some(part_move) => {
                self.time_devices(DeviceCall::Finish, |team, slices| {
                    team.finish(c.local_mut(), slices)
                });
                self.slices = change.slices;
                let moved = self.move_c(part_move, c);
                self.is_lost = moved.is_err();
                moved?;
                self.time_devices(DeviceCall::Begin, |team, slices| {
                    team.begin(c.local_mut(), slices, depth)
                });
            }
            None => {
                let old = std::mem::replace(&mut self.slices, change.slices);
                self.time_devices(DeviceCall::Redivide, |team, slices| {
                    team.redivide(c.local_mut(), [&old, slices], depth)
                });
                if let Some(spread) = change.spread {
                    c.respread(spread, self.comm.rank());
                }
            }
        }
        // The step that begins has been told already.
        let seconds = self.note_change(self.steps.0 - 1, start, sent);
        course.log_change(seconds, moves);
        Ok(())
    }

    /// Moves C to another spread: within its memory, or to new memory, which the devices write first.
    fn move_c(&mut self, part_move: PartMove<T>, c: &mut HeldMatrix<'_, T>) -> Result<(), Error> {
        let PartMove { mut movement, aim } = part_move;
        let moved = match aim {
            MoveAim::Here(spread) => c.move_within(self.comm, spread, movement)?,
            MoveAim::New(mut target) => {
                if self.failure.is_none() {
                    let placed = self.team.scale(T::ZERO, target.local_mut(), &self.slices);
                    self.failure = placed.err().map(Error::from);
                }
                let moved = movement.run(self.comm, c.local(), target.local_mut(), &replace)?;
                c.replace_by(*target);
                moved
            }
        };
        self.sent = self.sent.and(moved);
        Ok(())
    }

    /// Moves C back to where the caller has it.
    fn return_c(&mut self, c: &mut HeldMatrix<'_, T>) -> Result<(), Error> {
        let (start, sent) = (Instant::now(), self.sent.bytes);
        let (comm, rank, home) = (self.comm, self.comm.rank(), self.plan.c());
        let stays = home.part(rank) == c.part();
        tell(self.observer, Progress::Changing { moves_c: !stays });
        if stays {
            agree(comm, Ok(()))?;
            c.respread(home, rank);
        } else {
            let part_move = PartMove::plan(comm, c.spread(), home, c.frame(), Matrix::zeros);
            let part_move = agree(comm, part_move)?;
            self.slices = self.plan.slices(rank);
            self.move_c(part_move, c)?;
        }
        self.note_change(self.steps.0, start, sent);
        Ok(())
    }

    /// Notes a change before `step` that began at `start`, when this rank had sent `sent` bytes. Returns its seconds.
    fn note_change(&mut self, step: usize, start: Instant, sent: u64) -> f64 {
        let seconds = start.elapsed().as_secs_f64();
        let bytes = self.sent.bytes - sent;
        tell(self.observer, Progress::Changed { bytes });
        let change = ChangeCost { step, seconds, bytes };
        tracing::debug!(?change, "the assignment has changed");
        self.times.changes.push(change);
        self.times.changing_s += seconds;
        seconds
    }

    /// Notes the time that this rank's steps take by the plan's prediction, for the watch over silent ranks.
    fn expect_steps(&self) {
        let balance = self.plan.decision().balance.as_ref();
        let work_s = balance.and_then(|balance| balance.times_s.get(self.comm.rank()));
        match work_s.copied().filter(|&work_s| work_s > 0.0) {
            Some(work_s) => expect_work(work_s / self.steps.1.max(1) as f64, work_s),
            None => expect_work(0.0, self.plan.problem().flop() / SLOWEST_FLOP_S),
        }
    }

    /// Tells the observer that another step begins.
    fn tell_progress(&mut self) {
        let (step, steps) = self.steps;
        tell(self.observer, Progress::Multiplying { step, steps });
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
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<(), Error> {
        let span = tracing::trace_span!("step", step);
        let _entered = span.enter();
        let operands = ahead.operands;
        self.wait_until(c, || ahead.are_here(sets))?;
        let (now, later) = sets.split_at_mut(1);
        let panels = now[0].both_views(operands).into();
        let k = now[0].k();
        // Panels for another part of C have no devices yet.
        let next_fits = step + 1 < ahead.unsent && !ahead.moves_at(step + 1);
        let next_is_here = next_fits && later[0].progress()?;
        let alpha = self.scalars.alpha;
        let rows = c.part().rows;
        let call = DeviceCall::Update { step: ahead.first + step, rows, k };
        let times = if c.part().is_empty() {
            // There is nothing to compute, but other ranks need pieces that this rank holds.
            Some(Vec::new())
        } else if next_is_here {
            let (next, later) = later.split_at_mut(1);
            let next = next[0].both_views(operands).into();
            self.time_devices(call, |team, slices| {
                let drive = &mut || ahead.drive_messages(step + 2, later);
                team.update(alpha, panels, Some(next), c.local_mut(), slices, drive)
            })
        } else {
            self.time_devices(call, |team, slices| {
                let drive = &mut || ahead.drive_messages(step + 1, later);
                team.update(alpha, panels, None, c.local_mut(), slices, drive)
            })
        };
        ahead.drive_messages(step + 1, later);
        for (products, &cols) in self.times.products.iter_mut().zip(&self.slices) {
            *products += (rows * cols * k) as f64;
        }
        ahead.course.log_step(k, rows, &self.slices, times.as_deref());
        Ok(())
    }

    /// Waits until `is_ready` says that a step can go on. A rank that computes counts the wait as `exposed_s`.
    fn wait_until(
        &mut self,
        c: &HeldMatrix<'_, T>,
        mut is_ready: impl FnMut() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let start = Instant::now();
        if !is_ready()? {
            tell(self.observer, Progress::AwaitingPanels);
            let mut pause = Pause::default();
            while !is_ready()? {
                pause.wait();
            }
        }
        if !c.part().is_empty() {
            self.times.exposed_s += start.elapsed().as_secs_f64();
        }
        Ok(())
    }

    /// Runs a call of all devices, counts their busy times and returns them, or notes its failure. After a failure nothing
    /// runs.
    fn time_devices(
        &mut self,
        call: DeviceCall,
        run: impl FnOnce(&mut DeviceTeam, &[usize]) -> Result<Vec<UpdateTime>, DeviceError>,
    ) -> Option<Vec<UpdateTime>> {
        if self.failure.is_some() || self.is_lost {
            return None;
        }
        let cols = &self.slices;
        tell(self.observer, Progress::Calling { call, cols });
        match run(self.team, cols) {
            Ok(times) => {
                tell(self.observer, Progress::Called { times: &times });
                tracing::trace!(?times, "the devices' times");
                for (busy_s, time) in self.times.busy_s.iter_mut().zip(&times) {
                    *busy_s += time.busy_s;
                }
                Some(times)
            }
            Err(error) => {
                self.failure = Some(error.into());
                None
            }
        }
    }
}

/// The messages of the steps after the one that computes, and the decisions on those steps.
struct StepsAhead<'s, 'a, 'o, T: 'static> {
    operands: &'s StepOperands<'a, 'o, T>,
    plan: &'s Plan,
    course: &'s mut Course<'a, T>,
    /// The schedule of the steps that have not been sent for.
    schedule: StepSchedule,
    /// The steps of all parts of k before this one.
    first: usize,
    steps: usize,
    /// The first step whose panels have not been sent for.
    unsent: usize,
    sent: Moved,
    /// The error of a decision. The steps go on, since panels are under way.
    failure: Option<Error>,
    /// The error of a message. It ends the steps.
    lost: Option<Error>,
}

impl<'s, 'a, 'o, T: Scalar> StepsAhead<'s, 'a, 'o, T> {
    /// Makes the messages of a part of k.
    fn new(
        operands: &'s StepOperands<'a, 'o, T>,
        plan: &'s Plan,
        course: &'s mut Course<'a, T>,
    ) -> Self {
        let mut ahead = Self {
            operands,
            schedule: course.make_schedule(plan),
            steps: plan.steps(operands.comm.rank()),
            plan,
            course,
            first: operands.first_step,
            unsent: 0,
            sent: Moved::default(),
            failure: None,
            lost: None,
        };
        ahead.open_span(0);
        ahead
    }

    /// Sends for the steps from `first` on, as far as there are sets for them, and makes their messages progress. Returns
    /// `true` while any are under way.
    fn drive_messages(&mut self, first: usize, sets: &mut [StepPanels<'a, T>]) -> bool {
        self.try_messages(first, sets).unwrap_or_else(|error| {
            self.lost.get_or_insert(error);
            false
        })
    }

    /// Does the work of [`drive_messages`](Self::drive_messages).
    fn try_messages(
        &mut self,
        first: usize,
        sets: &mut [StepPanels<'a, T>],
    ) -> Result<bool, Error> {
        let mut under_way = false;
        for (step, panels) in (first..self.steps).zip(sets) {
            if step == self.unsent {
                if !self.decide(step) {
                    return Ok(true);
                }
                let room = self.course.take_room(panels.layout());
                panels.enter_layout(self.course.layouts(), room);
                let sent = panels.start(self.operands, &self.schedule, step)?;
                self.sent = self.sent.and(sent);
                self.unsent += 1;
            }
            under_way |= !panels.progress()?;
        }
        Ok(under_way)
    }

    /// Returns `true` once it is decided how this step is computed, in the first set. On every rank, the panels of the same
    /// steps are then sent for, so that a move of C is a message after them.
    fn is_decided(&mut self, step: usize, sets: &mut [StepPanels<'a, T>]) -> Result<bool, Error> {
        if self.unsent <= step {
            let sent = if step == 0 { 1 } else { sets.len() - 1 };
            self.drive_messages(step, &mut sets[..sent]);
        }
        self.lost.take().map_or(Ok(self.unsent > step), Err)
    }

    /// Returns `true` once the panels of the first set are here, which they should be already. Messages that others wait for
    /// may pass through the sets of later steps, so those progress too, and so does a question to the director.
    fn are_here(&mut self, sets: &mut [StepPanels<'a, T>]) -> Result<bool, Error> {
        let (now, later) = sets.split_at_mut(1);
        let are_here = now[0].progress()?;
        if !are_here {
            for panels in later {
                panels.progress()?;
            }
            self.course.drive_question();
        }
        Ok(are_here)
    }

    /// Takes the decisions that are due before a step is sent for. Returns `false` while the director's answer is under way.
    fn decide(&mut self, step: usize) -> bool {
        // A question tells the same steps whether the answer before it came soon or late.
        let seen = self.first + step.saturating_sub(self.plan.lookahead());
        let is_due = self.course.is_due(self.first + step);
        while self.course.is_due(self.first + step) {
            if !self.course.is_answered(seen) {
                return false;
            }
            match self.course.decide(self.first + step) {
                Ok(true) => self.schedule = self.course.make_schedule(self.plan),
                Ok(false) => {}
                Err(error) => self.failure = Some(error),
            }
        }
        if is_due {
            self.open_span(step);
        }
        // The next question and its answer travel while the panels of this step do; none of them outlives a part of k.
        if step + 1 < self.steps && self.course.is_due(self.first + step + 1) {
            self.course.ask(seen);
        }
        true
    }

    /// Takes the decisions that other ranks take in steps that this rank does not have.
    fn decide_rest(&mut self) {
        let last = self.first + self.steps == self.course.count_steps();
        let mut pause = Pause::default();
        while last && self.course.is_due(usize::MAX) {
            if !self.course.is_answered(usize::MAX) {
                pause.wait();
            } else if let Err(error) = self.course.decide(usize::MAX) {
                self.failure = Some(error);
            }
        }
    }

    /// Adds the steps from `step` to the next decision to the schedule. Without a director all steps are one span.
    fn open_span(&mut self, step: usize) {
        let end = self.course.count_decided().saturating_sub(self.first);
        let end = end.min(self.steps);
        if self.course.is_directed() && step < end {
            self.schedule.add_span(step..end);
        }
    }

    /// Returns `true` if the layout changes before this step.
    fn moves_at(&self, step: usize) -> bool {
        self.course.moves_at(self.first + step)
    }
}

/// Checks the matrices that were made for a part of k and returns them as matrices of their own.
fn accept_part<T: Scalar>(
    a: Matrix<T>,
    b: Matrix<T>,
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
    check_part("A", &factors.0, &part.plan().a(), rank)?;
    check_part("B", &factors.1, &part.plan().b(), rank)?;
    Ok(factors)
}
