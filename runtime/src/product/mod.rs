//! Products `C = alpha·op(A)·op(B) + beta·C` on unlike nodes: [`Session::prepare`] plans one, and [`Product::run`] runs it, once
//! or many times, by a blocked heterogeneous SUMMA.
//!
//! The layers, from the call down to the arithmetic:
//! 1. [`Product`] finds the places of the matrices, and moves those that the plan has elsewhere;
//! 2. `learning_run.rs` decides whether the run learns;
//! 3. `summa.rs` times the whole and runs the steps: `Summa::run_step` is the SUMMA step;
//! 4. `panels.rs` holds the panels of a step, sends and receives them;
//! 5. [`DeviceTeam::update`](isochron_devices::DeviceTeam::update) updates C, every device its own slice;
//! 6. a worker's own update does the arithmetic of one device.
//!
//! `director.rs` and `course.rs` change the parts in mid-run, by what `learning/` learns from the times of the steps;
//! `reduce.rs` sums C if k is divided. The [plan](crate::plan) has the parts, and the schedule of the messages.
//!
//! # References
//! Clarke, Ilic, Lastovetsky and Sousa, "Hierarchical partitioning algorithm for scientific computing on highly
//! heterogeneous CPU + GPU clusters", Euro-Par 2012, section 4; van de Geijn and Watts, "SUMMA: scalable
//! universal matrix multiplication algorithm", 1997.

mod agreement;
pub(crate) mod any;
mod check;
mod config;
mod course;
mod dialogue;
pub(crate) mod director;
mod element;
mod execution;
mod factors;
pub(crate) mod learning;
pub(crate) mod learning_run;
mod memory;
mod mover;
mod panels;
mod prepare;
mod reduce;
mod run;
mod seen_step;
mod step_log;
mod summa;

pub use crate::matrix::scalars::Scalars;
pub use config::{ProductConfig, ProductOf, RunConfig};
pub use director::Directive;
pub use element::Element;
pub use execution::{ChangeCost, Execution};
pub use factors::{Factors, Lent, Target};
pub use learning::{Learnt, LearntChange, LearntDevice, LearntDrift};
pub use seen_step::SeenStep;
pub use summa::MakePart;

use self::memory::RunMemory;
use self::mover::PieceMoves;
use crate::comm::Settings;
use crate::error::Error;
use crate::matrix::redistribute::{MessageBuffers, Moved};
use crate::matrix::{Distribution, Matrix, Spread};
use crate::plan::Plan;
use crate::session::Session;

/// A product that is planned once and run again and again.
///
/// It multiplies matrices in the program's own memory, or [matrices of the runtime](Matrix) that lie where the plan has them.
///
/// A matrix of the program that lies as the plan has it is used in place, without a copy. On one rank that is every matrix, row-
/// or column-major, unless the complex conjugate of a factor is asked for whose order is not that of C. On several ranks the plan
/// suits the matrices:
/// * C is divided as it lies, if each rank has one rectangle in whole blocks and no other division is faster even with the
///   move that leads to it;
/// * A and B stay where they are, if each rank has one rectangle and none then sends more.
///
/// The elements of a block-cyclic matrix on one process count as one rectangle, because rows, columns and inner indices may be in
/// any order if the three matrices agree in it. Matrices as PBLAS takes them, on one grid of one row, of one column or square,
/// are so used in place on alike nodes.
///
/// Other matrices are moved to the plan's layout in each run, and C back. The memory for that and for panels is kept between
/// runs.
///
/// ```
/// use isochron::prelude::*;
///
/// let mut session = Session::builder().build(connect()?)?;
/// let ranks = session.comm().size();
/// // As ScaLAPACK has them, with leading dimensions that are larger than needed.
/// let grid = ProcessGrid::by_rows(1, ranks);
/// let [a, b, c] = [(60, 40), (40, 50), (60, 50)]
///     .map(|(rows, cols)| BlockCyclic::new(rows, cols, 8, 8))
///     .map(|matrix| Distribution::block_cyclic(&matrix, grid, ranks));
/// let (a, b, c) = (a?, b?, c?);
/// let mut product: Product<f64> = session.prepare([&a, &b, &c], RunConfig::default())?;
/// let (a, b, mut c) = (vec![1.0; 64 * 40], vec![2.0; 64 * 50], vec![0.0; 64 * 50]);
/// for _ in 0..3 {
///     product.run(&mut session, Scalars::PRODUCT, Factors::of((&a, 64), (&b, 64)), (&mut c, 64))?;
/// }
/// assert_eq!(c[..60], [80.0; 60]);
/// # Ok::<(), isochron::Error>(())
/// ```
#[derive(Debug)]
pub struct Product<T: 'static> {
    plan: Plan,
    config: RunConfig,
    origin: Origin,
    /// The arguments of the preparation, as ranks compare them before each run.
    arguments: Settings,
    /// The number by which the arguments are compared.
    number: u64,
    /// Distributions of A, B and C in the program, as the plan's problem has them.
    on: [Distribution; 3],
    /// `true` for each of them that is the transposed one of the program's.
    flips: [bool; 3],
    /// The spreads of A, B and C in the plan.
    planned: [Spread; 3],
    /// `true` for each of A, B and C that the program has where the plan has it.
    in_place: [bool; 3],
    /// Memory for the matrices that are not used in place.
    rooms: [Option<Matrix<T>>; 3],
    /// The moves of A, B and C to the plan's layout, and of C from it.
    moves: [Option<PieceMoves<T>>; 4],
    buffers: MessageBuffers<T>,
    /// Memory of the multiplication.
    memory: RunMemory<T>,
    has_run: bool,
}

/// The origin of a product's plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A plan of the program.
    Plan,
    /// Distributions of the program's matrices. The plan may be for the transposed product, `Cᵀ = op(B)ᵀ·op(A)ᵀ`.
    Matrices { is_transposed: bool },
}

/// Measurements of one run of a [`Product`].
#[derive(Debug, Clone, PartialEq)]
pub struct ProductRun {
    /// The multiplication.
    pub execution: Execution,
    /// The messages of this rank that brought A, B and C to the plan's layout, and C back.
    pub moved: Moved,
    /// `true` for each of A, B and C that was used in place on this rank.
    pub in_place: [bool; 3],
}

impl<T: Element> Product<T> {
    /// Returns the plan, which stays the same in all runs. If C is row-major, the plan may be for the transposed product. Rows,
    /// columns and inner indices of block-cyclic matrices are numbered process by process in it.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Makes this rank's part of a C of zeros where the plan has it, for `beta = 0`.
    ///
    /// Each device writes its own columns first, so that they lie in the memory next to it. With [`Matrix::zeros`] they
    /// would move there while the multiplication is timed. If the run may change the division, there is room for more
    /// columns on both sides, which takes addresses but no memory: the part then grows without being copied.
    ///
    /// # Errors
    /// On this rank alone, returns [`Error::Allocation`] when memory is missing; [`Error::Spread`] in a session of
    /// another number of ranks, and [`Error::Device`] in one with other devices.
    pub fn zeros(&self, session: &mut Session) -> Result<Matrix<T>, Error> {
        session.make_zeros(&self.plan)
    }

    /// Runs the product. `session` is the one that planned it, or another one of as many ranks.
    ///
    /// If `beta` is 0, C is not read. Memory between the lines of a local matrix is neither read nor written.
    ///
    /// ```
    /// use isochron::plan::PartOfK;
    /// use isochron::prelude::*;
    ///
    /// let mut session = Session::builder().build(LocalComm::new())?;
    /// let problem = Problem::new(96, 80, 640, 16)?.with_panel(64)?.in_parts();
    /// let plan = session.plan(problem, &BalanceConfig::default())?.with_k_parts(2)?;
    /// let mut product: Product<f64> = session.prepare(plan, RunConfig::default())?;
    /// let mut make = |part: &PartOfK| {
    ///     let a: Matrix = Matrix::generate(part.a(), 0, Generator::Uniform { seed: 1 })?;
    ///     let b = Matrix::generate(part.b(), 0, Generator::Uniform { seed: 2 })?;
    ///     Ok((a, b))
    /// };
    /// let mut c = product.zeros(&mut session)?;
    /// product.run(&mut session, Scalars::PRODUCT, Factors::made(&mut make), &mut c)?;
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Errors
    /// On every rank, returns [`Error::Spread`] for a session of another number of ranks; [`Error::Shape`] for memory
    /// that does not hold its part, for a matrix that is not spread as the plan says, and for whole factors where the
    /// plan has them in parts of k; [`Error::Settings`] if ranks have different products or scalars; [`Error::Device`]
    /// or [`Error::Allocation`] if a device of any rank fails, which leaves C unspecified; and the errors of making
    /// parts of k, if that fails on any rank.
    ///
    /// # Collective
    /// All ranks, with the same scalars. Parts of k are made on all ranks at the same time, or on none if `alpha` is 0.
    pub fn run<'m>(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
        factors: Factors<'m, T>,
        c: impl Into<Target<'m, T>>,
    ) -> Result<ProductRun, Error> {
        self.run_with(session, scalars, factors, c.into(), None)
    }
}

#[cfg(test)]
mod tests;
