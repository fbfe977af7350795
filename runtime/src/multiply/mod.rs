//! `C = alpha·A·B + beta·C` on unlike nodes: blocked heterogeneous SUMMA.
//!
//! The layers, from the call down to the arithmetic:
//! 1. [`multiply()`] checks the matrices, takes the memory and times the whole;
//! 2. `summa.rs` runs the steps: `Summa::run_step` is the SUMMA step;
//! 3. `panels.rs` holds the panels of a step, sends and receives them;
//! 4. [`DeviceTeam::update`] updates C, every device its own slice;
//! 5. a worker's own update does the arithmetic of one device.
//!
//! The decisions behind the steps:
//! * `plan/`: the part of each rank and device;
//! * `schedule.rs`: the messages of a step;
//! * `order.rs`: the order in which a rank goes through k;
//! * `director.rs` and `course.rs`: changes of the parts in mid-run;
//! * `learning/`: what the times of the steps say about these changes;
//! * `tree.rs`: the relays of a piece that several ranks need;
//! * `reduce.rs`: the sum of C if k is divided.
//!
//! # References
//! Clarke, Ilic, Lastovetsky and Sousa, "Hierarchical partitioning algorithm for scientific computing on highly
//! heterogeneous CPU + GPU clusters", Euro-Par 2012, section 4; van de Geijn and Watts, "SUMMA: scalable
//! universal matrix multiplication algorithm", 1997.

mod course;
mod director;
mod element;
pub(crate) mod learning;
mod memory;
mod order;
mod panels;
pub(crate) mod plan;
mod reduce;
mod schedule;
mod step_log;
mod summa;
mod tree;

use std::time::Instant;

use isochron_devices::{DeviceTeam, Scalar};
pub use isochron_hierarchy::problem::Problem;
pub(crate) use isochron_hierarchy::problem::check_widths;
use serde::{Deserialize, Serialize};

pub use director::{Assignment, DeviceStep, Directive, Director, RankStep, StepTimes};
pub use element::Element;
pub(crate) use learning::{
    ChangeCosts, LearningDirector, LearningSettings, Placed, Places, RunConditions, SteadyTimes,
};
pub use learning::{Learnt, LearntChange, LearntDevice, LearntDrift, RecordedDecision, RunRecord};
pub(crate) use memory::RunMemory;
pub(crate) use plan::find_difference;
pub use plan::{KnownFrom, Making, PartOfK, Plan, PlannedDevice, PlannedNode};
pub use summa::{Factors, MakePart};

use crate::comm::{
    CollectiveCall, Comm, EnteredCall, Settings, add_fields, add_long, add_setting, agree,
};
use crate::error::Error;
use crate::matrix::redistribute::Moved;
use crate::matrix::{HeldMatrix, Region, Spread};
use crate::progress::Observer;
use course::Course;
use panels::{PanelRoom, StepPanels};
pub(crate) use schedule::{A, B};
use summa::Summa;

/// The fewest steps ahead whose panels are here or under way while one is computed. Devices can copy the panels of the
/// next step if they are here, while those of the step after it travel.
const LEAST_LOOKAHEAD: usize = 2;
/// The most steps ahead: each holds memory on every rank.
const MAX_LOOKAHEAD: usize = 8;

/// This rank's measurements of one multiplication.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Execution {
    /// Seconds from the first rank's start to the last rank's end.
    pub wall_s: f64,
    /// Busy seconds of each device of this rank, as [`DeviceReport::busy_s`](crate::session::DeviceReport::busy_s).
    pub busy_s: Vec<f64>,
    /// Seconds in which the devices waited for panels: communication that no computation hid. Packing and copying by
    /// this rank's thread do not count, even if they outlast the devices' update.
    pub exposed_s: f64,
    /// Seconds in which parts of A and B were made, as [`NodeReport::parts_s`](crate::session::NodeReport::parts_s).
    pub parts_s: f64,
    /// Seconds of the sum of C over the ranks, as [`NodeReport::sum_s`](crate::session::NodeReport::sum_s).
    pub sum_s: f64,
    /// Messages this rank sent.
    pub messages: u64,
    /// Bytes this rank sent.
    pub bytes: u64,
    /// The products of elements that each device of this rank computed.
    pub products: Vec<f64>,
    /// The part of C that this rank has at the end.
    pub part: Region,
    /// The changes of the assignment in mid-run, in their order. The last one returns C to where the caller has it, if
    /// it has moved and is not [left](MultiplyRun::leaving_c) there.
    pub changes: Vec<ChangeCost>,
    /// Seconds of all changes. The devices' times at the beginning and the end of their jobs count as busy too.
    pub changing_s: f64,
    /// The results of learning, on the head rank; `None` if all was decided before the run.
    pub learnt: Option<Learnt>,
    /// Its times and decisions, on the head rank, if the session was told to keep them.
    pub record: Option<RunRecord>,
}

impl Execution {
    /// Returns the work of each device of `rank`, whose execution this is, as [`Plan::units`]: as planned, or as it was
    /// done if the assignment changed in mid-run.
    pub fn count_units(&self, plan: &Plan, rank: usize) -> Vec<f64> {
        if self.changes.is_empty() {
            return plan
                .slices(rank)
                .into_iter()
                .map(|cols| plan.units_of(rank, cols))
                .collect();
        }
        let problem = plan.problem();
        let unit = (problem.block() as f64).powi(2) * problem.k() as f64;
        self.products.iter().map(|done| done / unit).collect()
    }
}

/// The cost of a change of the assignment in mid-run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangeCost {
    /// The step of this rank that it came before; the number of steps if it came after the last.
    pub step: usize,
    /// Seconds it took on this rank, with the wait for ranks that came later.
    pub seconds: f64,
    /// Bytes of C this rank sent.
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

impl<T: Scalar> Scalars<T> {
    /// Scalars of a plain product, `C = op(A)·op(B)`.
    pub const PRODUCT: Self = Self {
        alpha: T::ONE,
        beta: T::ZERO,
    };

    /// Scalars of an update, `C = C + op(A)·op(B)`.
    pub const UPDATE: Self = Self {
        alpha: T::ONE,
        beta: T::ONE,
    };
}

/// Multiplies `C = alpha·op(A)·op(B) + beta·C`; all three matrices are spread as `plan` says.
///
/// # Errors
/// [`Error::Device`] or [`Error::Allocation`], on every rank, when a device of any rank fails; C is then
/// unspecified. [`Error::Settings`] on every rank when ranks have different plans or scalars. [`Error::Shape`] when a
/// matrix is not spread as the plan says, or the plan is for another element type or holds A and B in parts.
///
/// # Collective
/// All ranks.
pub fn multiply<T: Element>(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    plan: &Plan,
    scalars: Scalars<T>,
    operands: (&HeldMatrix<'_, T>, &HeldMatrix<'_, T>),
    c: &mut HeldMatrix<'_, T>,
) -> Result<Execution, Error> {
    MultiplyRun::new(comm, team, plan).run(scalars, Factors::Held(operands), c)
}

/// Multiplies as [`multiply()`] does, with A and B in as many [parts](Plan::k_part) as the plan says.
///
/// `make` is called for each part in turn. It returns this rank's share of the part of A and of B, spread as
/// [`PartOfK::a`] and [`PartOfK::b`] say or [`alone`](HeldMatrix::alone).
///
/// # Errors
/// As [`multiply()`]; and those of `make`, on every rank when it fails on any.
///
/// # Collective
/// All ranks. `make` is called on all of them at the same time, or on none if `alpha` is 0.
pub fn multiply_in_parts<T: Element>(
    comm: &dyn Comm,
    team: &mut DeviceTeam,
    plan: &Plan,
    scalars: Scalars<T>,
    make: &mut MakePart<'_, T>,
    c: &mut HeldMatrix<'_, T>,
) -> Result<Execution, Error> {
    MultiplyRun::new(comm, team, plan).run(scalars, Factors::Made(make), c)
}

/// A multiplication that is about to run.
pub struct MultiplyRun<'a> {
    comm: &'a dyn Comm,
    team: &'a mut DeviceTeam,
    plan: &'a Plan,
    observer: Option<&'a dyn Observer>,
    director: Option<&'a mut dyn Director>,
    leaves_c: bool,
    is_prepared: bool,
}

impl<'a> MultiplyRun<'a> {
    /// Takes the ranks, this rank's devices, and the parts of all ranks.
    pub fn new(comm: &'a dyn Comm, team: &'a mut DeviceTeam, plan: &'a Plan) -> Self {
        Self {
            comm,
            team,
            plan,
            observer: None,
            director: None,
            leaves_c: false,
            is_prepared: false,
        }
    }

    /// Tells `observer`, if there is one, how far this rank has come.
    #[must_use]
    pub fn with_observer(self, observer: Option<&'a dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    /// Lets `director` change the parts in mid-run. All ranks have one, or none has.
    #[must_use]
    pub fn with_director(self, director: &'a mut dyn Director) -> Self {
        let director = Some(director);
        Self { director, ..self }
    }

    /// Leaves C where the last step was computed, if the director has moved it: [`HeldMatrix::spread`] tells where that is.
    #[must_use]
    pub fn leaving_c(self, leaves_c: bool) -> Self {
        Self { leaves_c, ..self }
    }

    /// Begins at once, if all ranks have just agreed that the matrices suit the plan and that the memory is there.
    #[must_use]
    pub(crate) fn prepared(self, is_prepared: bool) -> Self {
        Self {
            is_prepared,
            ..self
        }
    }

    /// Checks the matrices and takes the memory, multiplies while all ranks do, and returns the measurements.
    ///
    /// # Errors
    /// As [`multiply()`] and [`multiply_in_parts`]; and those of the director.
    ///
    /// # Collective
    /// All ranks, with the same plan and scalars.
    pub fn run<T: Element>(
        self,
        scalars: Scalars<T>,
        factors: Factors<'_, '_, T>,
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<Execution, Error> {
        let _call = enter_multiplication(self.comm, self.plan, scalars)?;
        T::run(self, &mut RunMemory::default(), (scalars, factors), c)
    }

    /// Does the same in memory that is kept for the next run, after [`enter_multiplication`].
    pub(crate) fn run_in<T: Scalar>(
        self,
        memory: &mut RunMemory<T>,
        (scalars, factors): (Scalars<T>, Factors<'_, '_, T>),
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<Execution, Error> {
        let Self {
            comm,
            team,
            plan,
            observer,
            director,
            leaves_c,
            is_prepared,
        } = self;
        let rank = comm.rank();
        let span = tracing::info_span!("multiply", rank);
        let _entered = span.enter();
        if !is_prepared {
            let made = check_matrices(plan, &factors, c, rank);
            agree(comm, made.and_then(|()| memory.make(team, plan, rank)))?;
        }
        let rooms = std::mem::take(&mut memory.rooms);
        let size = rooms.first().map(PanelRoom::size).unwrap_or_default();
        let mut sets: Vec<_> = rooms.into_iter().map(StepPanels::new).collect();
        let partial = memory.partial.as_mut();
        let course = Course::begin(comm, plan, director, c.frame(), size)?;
        let mut course = course.with_observer(observer);

        if !is_prepared {
            comm.barrier()?;
        }
        tracing::info!(
            steps = plan.steps(rank),
            width = plan.panel(),
            "multiplying"
        );
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
                let start = Instant::now();
                summa.sent = summa.sent.and(reduce::sum_c(comm, plan, partial, c)?);
                summa.times.sum_s = start.elapsed().as_secs_f64();
            }
        }
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

/// Enters a multiplication, if all ranks have the same plan and scalars.
///
/// # Errors
/// On every rank: [`Error::Settings`], and [`Error::Spread`] for a plan of another number of ranks.
///
/// # Collective
/// All ranks.
pub(crate) fn enter_multiplication<'c, T: Scalar>(
    comm: &'c dyn Comm,
    plan: &Plan,
    scalars: Scalars<T>,
) -> Result<EnteredCall<'c>, Error> {
    let call = CollectiveCall::new(comm, "multiplying")
        .with_settings(describe_multiplication::<T>(plan))
        .with_scalars(scalars)
        .enter()?;
    plan.check_ranks(comm.size())?;
    Ok(call)
}

/// Describes the plan and the type of the elements, as ranks compare them.
pub(crate) fn describe_multiplication<T: Scalar>(plan: &Plan) -> Settings {
    let mut settings = Settings::new();
    add_fields(&mut settings, plan.problem());
    add_long(&mut settings, "plan", "a plan", plan);
    add_setting(&mut settings, "element", &T::TYPE);
    settings
}

fn check_element<T: Scalar>(plan: &Plan) -> Result<(), Error> {
    let (planned, found) = (plan.problem().element(), T::TYPE);
    if planned == found {
        return Ok(());
    }
    let reason = format!("the plan is for matrices of {planned}, and these are of {found}");
    Err(Error::Shape(reason))
}

fn check_matrices<T: Scalar>(
    plan: &Plan,
    factors: &Factors<'_, '_, T>,
    c: &HeldMatrix<'_, T>,
    rank: usize,
) -> Result<(), Error> {
    check_element::<T>(plan)?;
    check_part("C", c, &plan.c(), rank)?;
    match factors {
        Factors::Held(operands) => {
            plan.check_whole()?;
            check_factors(plan, *operands, rank)
        }
        Factors::Made(_) => Ok(()),
    }
}

fn check_factors<T: Scalar>(
    plan: &Plan,
    (a, b): (&HeldMatrix<'_, T>, &HeldMatrix<'_, T>),
    rank: usize,
) -> Result<(), Error> {
    check_part("A", a, &plan.a(), rank)?;
    check_part("B", b, &plan.b(), rank)
}

fn check_part<T: Scalar>(
    name: &str,
    matrix: &HeldMatrix<'_, T>,
    wanted: &Spread,
    rank: usize,
) -> Result<(), Error> {
    let found = matrix.spread();
    let shape = (found.rows(), found.cols());
    if shape == (wanted.rows(), wanted.cols()) && matrix.part() == wanted.part(rank) {
        return Ok(());
    }
    let reason = format!("matrix {name} is not spread as the plan says");
    Err(Error::Shape(reason))
}
