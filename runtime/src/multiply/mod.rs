//! `C = alpha·A·B + beta·C` on unlike nodes: blocked heterogeneous SUMMA.
//!
//! In named layers: `multiply` (all steps, several sets of panels) → `panels` (what one step needs, and the messages that
//! bring it) → [`DeviceTeam::update`] (every device its slice) → a worker's own update.
//!
//! # References
//! Clarke, Ilic, Lastovetsky and Sousa, "Hierarchical partitioning algorithm for scientific computing on highly
//! heterogeneous CPU + GPU clusters", Euro-Par 2012, section 4; van de Geijn and Watts, "SUMMA: scalable
//! universal matrix multiplication algorithm", 1997.

mod panels;
mod plan;
mod problem;
mod reduce;
mod schedule;
mod tree;

use std::time::Instant;

use isochron_devices::{Depth, DeviceError, DeviceTeam, Element, UpdateTime};

pub(crate) use plan::{Found, held_evenly};
pub use plan::{LeftOut, Plan, Split};
pub use problem::{Problem, SplitChoice};

use crate::comm::{Comm, Pause, agree};
use crate::error::Error;
use crate::matrix::{Distribution, Matrix, Part};
use panels::{Operands, Panels, Volume};
use schedule::Schedule;

/// The fewest steps whose panels are here or on their way while one is computed: those of the next one should be here, so
/// that devices can copy them meanwhile, and those of the one after travel.
const LEAST_LOOKAHEAD: usize = 2;
/// The most: each holds memory on every rank.
const MAX_LOOKAHEAD: usize = 8;

/// What this rank measured while it multiplied.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// Seconds from the first rank's start to the last rank's end.
    pub wall_s: f64,
    /// Seconds each device of this rank was busy: with the beginning of its job, its updates, and the end. A GPU that keeps
    /// C copies it there and back in them.
    pub busy_s: Vec<f64>,
    /// Seconds that the devices waited for panels: communication that no computation hid. What this rank packs and copies
    /// while they compute, and may not be done with when they are, is not in it.
    pub exposed_s: f64,
    /// Seconds from the last update of this rank until the ranks' parts of C were summed; 0 where C stays in place.
    pub sum_s: f64,
    /// Messages this rank sent.
    pub messages: u64,
    /// Bytes this rank sent.
    pub bytes: u64,
}

/// The scalars of a multiplication.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalars<T = f64> {
    /// Factor of `op(A)·op(B)`; with 0, A and B are not read.
    pub alpha: T,
    /// Factor of C; with 0, C is not read.
    pub beta: T,
}

/// Multiplies: `C = alpha·op(A)·op(B) + beta·C`, all three spread as `plan` says.
///
/// # Errors
/// [`Error::Device`] or [`Error::Allocation`], on every rank, when a device of any rank fails; C is then
/// unspecified. [`Error::Shape`] when a matrix is not spread as the plan says, or the plan is for another type of elements.
///
/// # Collective
/// All ranks.
pub fn multiply<T: Element>(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    plan: &Plan,
    scalars: Scalars<T>,
    operands: (&Matrix<T>, &Matrix<T>),
    c: &mut Matrix<T>,
) -> Result<Execution, Error> {
    let span = tracing::info_span!("multiply", rank = comm.rank());
    let _entered = span.enter();
    agree(comm, check_parts(comm, plan, operands, c))?;
    let (width, steps) = (plan.panel(), plan.steps());
    let schedule = Schedule::new(plan, comm.rank());
    let needed = plan.needs_panels(&schedule);
    let sets = (0..plan.sets()).map(|_| Panels::new(&schedule.c(), width, needed));
    let sets = agree(comm, sets.collect::<Result<Vec<_>, _>>())?;
    let depth = plan.depth(comm.rank());
    let room = (sets, depth);
    let mut sets = agree(comm, place(team, plan, &schedule.c(), room))?;
    // What this rank computes of a C that others hold parts of.
    let mut partial = agree(comm, partial(plan, comm.rank()))?;

    comm.barrier();
    tracing::info!(steps, width, "multiplying");
    let start = Instant::now();
    let operands = Operands {
        comm,
        schedule: &schedule,
        factors: plan.operands(operands),
        c: schedule.c(),
    };
    let mut summa = Summa {
        team,
        slices: plan.slices(),
        alpha: scalars.alpha,
        busy_s: vec![0.0; plan.slices().len()],
        exposed_s: 0.0,
        failure: None,
    };
    let mut sum_s = 0.0;
    let volume = match &mut partial {
        None => summa.job(&operands, scalars.beta, (steps, depth), &mut sets, c),
        Some(partial) => {
            if c.is_changed_by(scalars.beta) {
                c.local_mut().scale(scalars.beta);
            }
            let mut volume = summa.job(&operands, T::ZERO, (steps, depth), &mut sets, partial);
            let start = Instant::now();
            volume.add(reduce::reduce(comm, plan, partial.local(), c));
            sum_s = start.elapsed().as_secs_f64();
            volume
        }
    };
    let Summa {
        busy_s,
        exposed_s,
        failure,
        ..
    } = summa;
    comm.barrier();
    let wall_s = start.elapsed().as_secs_f64();

    agree(comm, failure.map_or(Ok(()), Err))?;
    Ok(Execution {
        wall_s,
        busy_s,
        exposed_s,
        sum_s,
        messages: volume.messages,
        bytes: size_of::<T>() as u64 * volume.elements,
    })
}

/// Lets each device write its own columns of the panels of B first, so that they lie next to it, and take the memory that
/// it needs: what the clock is to show is the multiplication.
fn place<'a, T: Element>(
    team: &mut DeviceTeam,
    plan: &Plan,
    part: &Part,
    (mut sets, depth): (Vec<Panels<'a, T>>, Depth),
) -> Result<Vec<Panels<'a, T>>, Error> {
    team.reserve(part.rows, plan.slices(), depth, T::TYPE)?;
    for panels in &mut sets {
        if let Some(room) = panels.b_room(part.cols) {
            team.scale(T::ZERO, room, plan.slices())?;
        }
    }
    Ok(sets)
}

/// Room for all of C where `rank` computes a share of k, of no elements where its share is empty; `None` where C stays in
/// place.
fn partial<T: Element>(plan: &Plan, rank: usize) -> Result<Option<Matrix<T>>, Error> {
    if *plan.split() == Split::C {
        return Ok(None);
    }
    let Part { rows, cols, .. } = plan.computed(rank);
    Matrix::zeros(Distribution::whole(rows, cols), 0).map(Some)
}

fn check_parts<T: Element>(
    comm: &dyn Comm,
    plan: &Plan,
    operands: (&Matrix<T>, &Matrix<T>),
    c: &Matrix<T>,
) -> Result<(), Error> {
    let planned = plan.problem().element();
    if planned != T::TYPE {
        let found = T::TYPE;
        return Err(Error::Shape(format!(
            "the plan is for matrices of {planned}, and these are of {found}"
        )));
    }
    let rank = comm.rank();
    let matrices = [
        ("A", operands.0, plan.a()),
        ("B", operands.1, plan.b()),
        ("C", c, plan.c()),
    ];
    for (name, matrix, wanted) in matrices {
        let found = matrix.distribution();
        if (found.rows(), found.cols()) != (wanted.rows(), wanted.cols())
            || matrix.part() != wanted.part(rank)
        {
            return Err(Error::Shape(format!(
                "matrix {name} is not spread as the plan says"
            )));
        }
    }
    Ok(())
}

/// The arithmetic of all steps.
struct Summa<'a, T> {
    team: &'a mut DeviceTeam,
    slices: &'a [usize],
    alpha: T,
    busy_s: Vec<f64>,
    exposed_s: f64,
    /// The first failure of a device. The messages go on without the arithmetic, since the other ranks wait
    /// for them; the ranks agree on the failure at the end.
    failure: Option<Error>,
}

impl<T: Element> Summa<'_, T> {
    /// A job of every device: `C = beta·C`, and all steps on it.
    fn job<'a>(
        &mut self,
        operands: &Operands<'a, T>,
        beta: T,
        (steps, depth): (usize, Depth),
        sets: &mut [Panels<'a, T>],
        c: &mut Matrix<T>,
    ) -> Volume {
        if c.is_changed_by(beta) {
            self.guard(|team, slices| team.scale(beta, c.local_mut(), slices));
        }
        self.timed(|team, slices| team.begin(c.local_mut(), slices, depth));
        let steps = if self.alpha == T::ZERO { 0 } else { steps };
        let volume = self.run(operands, steps, sets, c);
        self.timed(|team, slices| team.finish(c.local_mut(), slices));
        volume
    }

    /// Runs every step. While one computes, this thread sends for the steps ahead that there are sets for, copies what needs no
    /// message, and makes all messages progress. Nobody waits for what is packed for a step but the first.
    fn run<'a>(
        &mut self,
        operands: &Operands<'a, T>,
        steps: usize,
        sets: &mut [Panels<'a, T>],
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
            let mut duty = |next: Option<&mut Panels<'a, T>>| {
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
    fn wait_for(&mut self, sets: &mut [Panels<'_, T>], operands: &Operands<'_, T>) {
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
        panels: isochron_devices::Panels<'_, T>,
        next: Option<isochron_devices::Panels<'_, T>>,
        c: &mut Matrix<T>,
        meanwhile: &mut dyn FnMut() -> bool,
    ) {
        if self.failure.is_some() {
            return;
        }
        let (c, slices) = (c.local_mut(), self.slices);
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
            let times = call(self.team, self.slices);
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
            self.failure = call(self.team, self.slices).err().map(Error::from);
        }
    }
}
