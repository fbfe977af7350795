//! `C = alpha·A·B + beta·C` on unlike nodes: blocked heterogeneous SUMMA.
//!
//! In named layers: `multiply` (all steps, three sets of panels) → `step` (the messages of one step) →
//! [`DeviceTeam::update`] (every device its slice) → a worker's own update.
//!
//! # References
//! Clarke, Ilic, Lastovetsky and Sousa, "Hierarchical partitioning algorithm for scientific computing on highly
//! heterogeneous CPU + GPU clusters", Euro-Par 2012, section 4; van de Geijn and Watts, "SUMMA: scalable
//! universal matrix multiplication algorithm", 1997.

mod plan;
mod schedule;
mod step;

use std::time::Instant;

use isochron_devices::DeviceTeam;

pub(crate) use plan::Found;
pub use plan::{Plan, Problem};

use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::Matrix;
use schedule::Schedule;
use step::{Buffers, Operands, Panels, Volume};

/// Sets of panels: one is computed with, one is here for the next step, so that devices can copy it meanwhile, and one is on
/// its way.
const SETS: usize = 3;

/// What this rank measured while it multiplied.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// Seconds from the first rank's start to the last rank's end.
    pub wall_s: f64,
    /// Seconds each device of this rank was busy.
    pub busy_s: Vec<f64>,
    /// Messages this rank sent.
    pub messages: u64,
    /// Bytes this rank sent.
    pub bytes: u64,
}

/// The scalars of a multiplication.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalars {
    /// Factor of `A·B`; with 0, A and B are not read.
    pub alpha: f64,
    /// Factor of C; with 0, C is not read.
    pub beta: f64,
}

/// Multiplies: `C = alpha·A·B + beta·C`, all three spread as `plan` says.
///
/// # Errors
/// [`Error::Device`] or [`Error::Allocation`], on every rank, when a device of any rank fails; C is then
/// unspecified. [`Error::Shape`] when a matrix is not spread as the plan says.
///
/// # Collective
/// All ranks.
pub fn multiply(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    plan: &Plan,
    scalars: Scalars,
    operands: (&Matrix, &Matrix),
    c: &mut Matrix,
) -> Result<Execution, Error> {
    let span = tracing::info_span!("multiply", rank = comm.rank());
    let _entered = span.enter();
    agree(comm, check_parts(comm, plan, operands, c))?;
    let width = plan.problem().block().min(plan.problem().k());
    let buffers = (|| Ok([panels(c, width)?, panels(c, width)?, panels(c, width)?]))();
    let mut buffers = agree(comm, buffers)?;
    agree(comm, place(team, plan, c, &mut buffers))?;

    comm.barrier();
    tracing::info!(steps = plan.problem().steps(), "multiplying");
    let start = Instant::now();
    let schedule = Schedule::new(plan, comm.rank());
    let origin = (c.part().row, c.part().col);
    let operands = Operands {
        comm,
        schedule: &schedule,
        a: operands.0,
        b: operands.1,
        origin,
    };
    let mut summa = Summa {
        team,
        slices: plan.slices(),
        alpha: scalars.alpha,
        busy_s: Vec::new(),
        failure: None,
    };
    summa.busy_s.resize(plan.slices().len(), 0.0);
    summa.guard(|team, slices| team.scale(scalars.beta, c.local_mut(), slices));
    summa.guard(|team, slices| team.begin(c.local_mut(), slices, width));
    let steps = if scalars.alpha == 0.0 {
        0
    } else {
        plan.problem().steps()
    };
    let volume = summa.run(&operands, steps, &mut buffers, c);
    summa.guard(|team, slices| team.finish(c.local_mut(), slices));
    let (busy_s, failure) = (summa.busy_s, summa.failure);
    comm.barrier();
    let wall_s = start.elapsed().as_secs_f64();

    agree(comm, failure.map_or(Ok(()), Err))?;
    Ok(Execution {
        wall_s,
        busy_s,
        messages: volume.messages,
        bytes: 8 * volume.elements,
    })
}

fn panels(c: &Matrix, width: usize) -> Result<Panels, Error> {
    // A rank without a part of C takes part in no update and needs no panel.
    let part = c.part();
    let (rows, cols) = if part.is_empty() {
        (0, 0)
    } else {
        (part.rows, part.cols)
    };
    Panels::new(rows, cols, width)
}

/// Lets each device write its own columns of the panels of B first, so that they lie next to it.
fn place(
    team: &mut DeviceTeam,
    plan: &Plan,
    c: &Matrix,
    buffers: &mut [Panels; SETS],
) -> Result<(), Error> {
    if c.part().is_empty() {
        return Ok(());
    }
    for panels in buffers {
        team.scale(0.0, panels.b_room(), plan.slices())?;
    }
    Ok(())
}

fn check_parts(
    comm: &dyn Comm,
    plan: &Plan,
    operands: (&Matrix, &Matrix),
    c: &Matrix,
) -> Result<(), Error> {
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
struct Summa<'a> {
    team: &'a mut DeviceTeam,
    slices: &'a [usize],
    alpha: f64,
    busy_s: Vec<f64>,
    /// The first failure of a device. The messages go on without the arithmetic, since the other ranks wait
    /// for them; the ranks agree on the failure at the end.
    failure: Option<Error>,
}

impl Summa<'_> {
    /// Runs every step; while one computes, the panels of the next are here, and the messages of the one after travel.
    fn run(
        &mut self,
        operands: &Operands<'_>,
        steps: usize,
        buffers: &mut [Panels; SETS],
        c: &mut Matrix,
    ) -> Volume {
        let mut total = Volume::default();
        let mut add = |volume: Volume| {
            total.messages += volume.messages;
            total.elements += volume.elements;
        };
        let [mut now, mut next, mut coming] = buffers.each_mut();
        let mut memory = Buffers::default();
        for (step, panels) in [&mut *now, &mut *next].into_iter().enumerate().take(steps) {
            add(operands.fetch(step, panels, &mut memory, &mut |_progress| {}));
        }
        for step in 0..steps {
            let span = tracing::trace_span!("step", step);
            let _entered = span.enter();
            let ahead = (step + 1 < steps).then_some(&*next);
            if step + 2 < steps {
                add(
                    operands.fetch(step + 2, coming, &mut memory, &mut |progress| {
                        self.update(now, ahead, c, progress)
                    }),
                );
            } else {
                self.update(now, ahead, c, &mut || {});
            }
            (now, next, coming) = (next, coming, now);
        }
        total
    }

    fn update(
        &mut self,
        panels: &Panels,
        next: Option<&Panels>,
        c: &mut Matrix,
        progress: &mut dyn FnMut(),
    ) {
        if self.failure.is_some() || c.part().is_empty() {
            return;
        }
        match self.team.update(
            self.alpha,
            panels.both(),
            next.map(Panels::both),
            c.local_mut(),
            self.slices,
            progress,
        ) {
            Ok(times) => {
                tracing::trace!(?times, "updated");
                for (busy_s, time) in self.busy_s.iter_mut().zip(times) {
                    *busy_s += time.busy_s;
                }
            }
            Err(error) => self.failure = Some(error.into()),
        }
    }

    fn guard(
        &mut self,
        call: impl FnOnce(&mut DeviceTeam, &[usize]) -> Result<(), isochron_devices::DeviceError>,
    ) {
        if self.failure.is_none() {
            self.failure = call(self.team, self.slices).err().map(Error::from);
        }
    }
}
