//! `C = alpha·A·B + beta·C` on unlike nodes: blocked heterogeneous SUMMA.
//!
//! In named layers: `multiply` → `summa` (all steps, several sets of panels) → `panels` (what one step needs, and the messages that
//! bring it) → [`DeviceTeam::update`] (every device its slice) → a worker's own update.
//!
//! # References
//! Clarke, Ilic, Lastovetsky and Sousa, "Hierarchical partitioning algorithm for scientific computing on highly
//! heterogeneous CPU + GPU clusters", Euro-Par 2012, section 4; van de Geijn and Watts, "SUMMA: scalable
//! universal matrix multiplication algorithm", 1997.

mod order;
mod panels;
mod plan;
mod problem;
mod reduce;
mod schedule;
mod summa;
mod tree;

use std::time::Instant;

use isochron_devices::{DeviceTeam, Element};

pub(crate) use plan::{Found, held_evenly};
pub use plan::{LeftOut, PartOfK, Plan, Split};
pub use problem::{Problem, SplitChoice};
pub use summa::MakePart;

use crate::comm::{Comm, agree};
use crate::error::Error;
use crate::matrix::{Distribution, Matrix, Part};
use panels::StepPanels;
use schedule::StepSchedule;
use summa::{Factors, Summa};

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
    /// Seconds in which A and B were made, where they are held in parts, with all that their maker does; they are in `wall_s`.
    pub parts_s: f64,
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
/// unspecified. [`Error::Shape`] when a matrix is not spread as the plan says, or the plan is for another type of elements or
/// has A and B in parts.
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
    if plan.k_parts() > 1 {
        let reason = format!("the plan holds A and B in {} parts of k", plan.k_parts());
        return Err(Error::Shape(reason));
    }
    run(comm, team, plan, scalars, Factors::Held(operands), c)
}

/// Multiplies as [`multiply()`] does, with A and B in as many [parts](Plan::k_part) as the plan says: `make` is called for
/// each in turn, and gives what is held of A and B then, as [`PartOfK::a`] and [`PartOfK::b`] say or
/// [`alone`](Matrix::alone).
///
/// # Errors
/// As [`multiply()`]; and those of `make`, on every rank when it fails on any.
///
/// # Collective
/// All ranks; `make` is called on all of them at the same time, or, where `alpha` is 0, on none.
pub fn multiply_in_parts<T: Element>(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    plan: &Plan,
    scalars: Scalars<T>,
    make: &mut MakePart<'_, T>,
    c: &mut Matrix<T>,
) -> Result<Execution, Error> {
    run(comm, team, plan, scalars, Factors::Made(make), c)
}

fn run<T: Element>(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    plan: &Plan,
    scalars: Scalars<T>,
    factors: Factors<'_, '_, T>,
    c: &mut Matrix<T>,
) -> Result<Execution, Error> {
    let rank = comm.rank();
    let span = tracing::info_span!("multiply", rank);
    let _entered = span.enter();
    agree(
        comm,
        check_type::<T>(plan).and_then(|()| check_part("C", c, &plan.c(), rank)),
    )?;
    if let Factors::Held(operands) = &factors {
        agree(comm, check_factors(plan, *operands, rank))?;
    }
    let computed = plan.computed(rank);
    let needed = needed(plan, rank);
    let sets = (0..plan.sets()).map(|_| StepPanels::new(&computed, plan.panel(), needed));
    let mut sets = agree(comm, sets.collect::<Result<Vec<_>, _>>())?;
    prepare(plan, rank, &mut sets);
    let mut sets = agree(comm, place(team, plan, rank, sets))?;
    // What this rank computes of a C that others hold parts of.
    let mut partial = agree(comm, partial(plan, rank))?;

    comm.barrier();
    tracing::info!(steps = plan.steps(), width = plan.panel(), "multiplying");
    let start = Instant::now();
    let mut summa = Summa {
        comm,
        team,
        plan,
        factors,
        alpha: scalars.alpha,
        busy_s: vec![0.0; plan.slices().len()],
        exposed_s: 0.0,
        parts_s: 0.0,
        failure: None,
    };
    let mut sum_s = 0.0;
    let volume = match &mut partial {
        None => summa.job(scalars.beta, &mut sets, c)?,
        Some(partial) => {
            if c.is_changed_by(scalars.beta) {
                c.local_mut().scale(scalars.beta);
            }
            let mut volume = summa.job(T::ZERO, &mut sets, partial)?;
            let start = Instant::now();
            volume.add(reduce::reduce(comm, plan, partial.local(), c));
            sum_s = start.elapsed().as_secs_f64();
            volume
        }
    };
    let Summa {
        busy_s,
        exposed_s,
        parts_s,
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
        parts_s,
        sum_s,
        messages: volume.messages,
        bytes: size_of::<T>() as u64 * volume.elements,
    })
}

/// Whether a rank needs panels of A, and of B, in any part of k, as [`Plan::needs_panels`].
fn needed(plan: &Plan, rank: usize) -> [bool; 2] {
    let parts = plan.unlike_parts().into_iter();
    let parts = parts.map(|part| {
        part.plan()
            .needs_panels(&StepSchedule::new(part.plan(), rank))
    });
    parts.fold([false; 2], |any, part| {
        [any[0] || part[0], any[1] || part[1]]
    })
}

/// Lets each set of panels take what its steps need for messages.
fn prepare<T: Element>(plan: &Plan, rank: usize, sets: &mut [StepPanels<'_, T>]) {
    let count = sets.len();
    for part in plan.unlike_parts() {
        let schedule = StepSchedule::new(part.plan(), rank);
        for (index, panels) in sets.iter_mut().enumerate() {
            panels.prepare(&schedule, (index..part.plan().steps()).step_by(count));
        }
    }
}

/// Lets each device write its own columns of the panels of B first, so that they lie next to it, and take the memory that
/// it needs: what the clock is to show is the multiplication.
fn place<'a, T: Element>(
    team: &mut DeviceTeam,
    plan: &Plan,
    rank: usize,
    mut sets: Vec<StepPanels<'a, T>>,
) -> Result<Vec<StepPanels<'a, T>>, Error> {
    let job = plan.job_shape(rank);
    team.reserve(&job, plan.slices())?;
    for panels in &mut sets {
        if let Some(room) = panels.b_room(job.cols) {
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

fn check_type<T: Element>(plan: &Plan) -> Result<(), Error> {
    let (planned, found) = (plan.problem().element(), T::TYPE);
    if planned == found {
        return Ok(());
    }
    Err(Error::Shape(format!(
        "the plan is for matrices of {planned}, and these are of {found}"
    )))
}

fn check_factors<T: Element>(
    plan: &Plan,
    (a, b): (&Matrix<T>, &Matrix<T>),
    rank: usize,
) -> Result<(), Error> {
    check_part("A", a, &plan.a(), rank)?;
    check_part("B", b, &plan.b(), rank)
}

fn check_part<T: Element>(
    name: &str,
    matrix: &Matrix<T>,
    wanted: &Distribution,
    rank: usize,
) -> Result<(), Error> {
    let found = matrix.distribution();
    let shape = (found.rows(), found.cols());
    if shape == (wanted.rows(), wanted.cols()) && matrix.part() == wanted.part(rank) {
        return Ok(());
    }
    Err(Error::Shape(format!(
        "matrix {name} is not spread as the plan says"
    )))
}
