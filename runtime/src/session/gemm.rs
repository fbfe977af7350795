//! Products of matrices that the program has in its own memory.

mod agreement;
mod mover;

use std::ops::Deref;
use std::sync::Arc;

use isochron_hierarchy::balance::BalanceConfig;
use isochron_hierarchy::problem::Split;

use self::agreement::{fit_block, note_scattered, renumber, suit_plan};
use self::mover::{MatrixMover, PieceMoves, take_kept};
use super::{PlacedMatrices, Session};
use crate::comm::{CollectiveCall, Comm, Settings, add_fields, add_setting};
use crate::error::Error;
use crate::matrix::redistribute::{MessageBuffers, Moved};
use crate::matrix::{
    Distribution, HeldMatrix, LocalMemory, Matrix, Op, Order, Pieces, Spread, SpreadError, Stored,
    StoredMut,
};
use crate::multiply::{
    A, B, Element, Execution, Factors, Plan, Problem, RunMemory, Scalars, check_widths,
    describe_multiplication,
};

/// The operations of a product, and how it is planned.
#[derive(Debug, Clone, Copy)]
pub struct GemmConfig {
    /// The operations on A and B.
    pub ops: [Op; 2],
    /// Block size `b`; `None` chooses it by [`Problem::choose_block`]. The plan may take a part of it, but no less
    /// than 16, so that C is in whole blocks where it lies.
    pub block: Option<usize>,
    /// Width of the panels; `None` leaves it to the plan.
    pub panel: Option<usize>,
    /// The dimension that is divided among the nodes.
    pub split: Split,
    /// The way to a balanced division.
    pub balance: BalanceConfig,
}

impl GemmConfig {
    /// Checks the settings that are wrong for every product.
    ///
    /// # Errors
    /// [`Error::Parameter`] for blocks or panels of width 0, and for a tolerance that is not above 0.
    pub fn check(&self) -> Result<(), Error> {
        check_widths(self.block.unwrap_or(1), self.panel)?;
        check_epsilon(self.balance.epsilon)
    }

    /// Returns each setting as text.
    fn describe(&self) -> Settings {
        let Self {
            ops: [a, b],
            block,
            panel,
            split,
            balance,
        } = self;
        let mut settings = Settings::new();
        add_setting(&mut settings, "ops", &format!("{a}{b}").to_uppercase());
        add_setting(&mut settings, "block", block);
        add_setting(&mut settings, "panel", panel);
        add_setting(&mut settings, "split", &split.to_string());
        add_fields(&mut settings, balance);
        settings
    }
}

/// Checks a tolerance.
pub(super) fn check_epsilon(epsilon: f64) -> Result<(), Error> {
    if epsilon.is_finite() && epsilon > 0.0 {
        return Ok(());
    }
    let reason = "use a positive number, such as 0.05";
    Err(Error::parameter("epsilon", epsilon, reason))
}

impl Default for GemmConfig {
    /// Takes A and B as they are, and leaves the rest to the plan.
    fn default() -> Self {
        Self {
            ops: [Op::N; 2],
            block: None,
            panel: None,
            split: Split::Auto,
            balance: BalanceConfig::default(),
        }
    }
}

/// A product `C = alpha·op(A)·op(B) + beta·C` that is planned once and run again and again, with matrices in the program's
/// own memory.
///
/// A matrix that lies as the plan has it is used in place, without a copy. On one rank that is every column-major matrix, and
/// every row-major one unless its complex conjugate is asked for. On several ranks the plan suits the matrices:
/// * C is divided as it lies, if each rank has one rectangle in whole blocks and no other division is faster even with the
///   move that leads to it;
/// * A and B stay where they are, if each rank has one rectangle and none then sends more.
///
/// What a process has of a block-cyclic matrix counts as one rectangle, because rows, columns and inner indices may be in any
/// order if the three matrices agree in it. Matrices as PBLAS takes them, on one grid of one row, of one column or square, are
/// so used in place on alike nodes.
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
/// let mut product: Gemm<f64> = session.prepare_gemm([&a, &b, &c], &GemmConfig::default())?;
/// let (a, b, mut c) = (vec![1.0; 64 * 40], vec![2.0; 64 * 50], vec![0.0; 64 * 50]);
/// for _ in 0..3 {
///     product.run(&mut session, Scalars::PRODUCT, (&a, 64), (&b, 64), (&mut c, 64))?;
/// }
/// assert_eq!(c[..60], [80.0; 60]);
/// # Ok::<(), isochron::Error>(())
/// ```
#[derive(Debug)]
pub struct Gemm<T: 'static> {
    plan: Plan,
    /// The plan and the type of the elements, as ranks compare them before each run.
    arguments: Settings,
    /// Distributions of A, B and C in the program, as the plan's problem has them.
    on: [Distribution; 3],
    /// The spreads of A, B and C in the plan.
    planned: [Spread; 3],
    /// `true` for each of A, B and C that is used where it lies.
    in_place: [bool; 3],
    /// `true` if the plan's problem is the transposed one: `Cᵀ = op(B)ᵀ·op(A)ᵀ`.
    is_transposed: bool,
    /// Memory for the matrices that are not used in place.
    rooms: [Option<Matrix<T>>; 3],
    /// The moves of A, B and C to the plan's layout, and of C from it.
    moves: [Option<PieceMoves<T>>; 4],
    buffers: MessageBuffers<T>,
    /// Memory of the multiplication, which the first run makes.
    memory: RunMemory<T>,
    has_run: bool,
}

/// Measurements of one run of a [`Gemm`].
#[derive(Debug, Clone, PartialEq)]
pub struct GemmRun {
    /// The multiplication.
    pub execution: Execution,
    /// The messages of this rank that brought A, B and C to the plan's layout, and C back. The seconds include those of
    /// [noted](Self::note_copies) copies.
    pub moved: Moved,
    /// `true` for each of A, B and C that was used in place on this rank.
    pub in_place: [bool; 3],
}

impl GemmRun {
    /// Takes note of matrices that the caller copied on this rank before the run, or back after it, and of the seconds for
    /// that. They were not used in place here.
    ///
    /// An interface to another language copies what [`OperandLines`](crate::matrix::OperandLines) tells it to.
    pub fn note_copies(&mut self, copied: [bool; 3], seconds: f64) {
        for (in_place, is_copied) in self.in_place.iter_mut().zip(copied) {
            *in_place &= !is_copied;
        }
        if copied.contains(&true) {
            self.moved.seconds += seconds;
        }
    }
}

impl Session {
    /// Plans a product of matrices of these distributions: A, B and C. Their shapes give m, n and k.
    ///
    /// # Errors
    /// On every rank: [`Error::Shape`] for shapes that do not fit together, [`Error::Settings`] for arguments that differ
    /// between ranks, [`Error::Spread`] for distributions over another number of ranks; and those of [`plan`](Self::plan).
    ///
    /// # Collective
    /// All ranks, with the same arguments.
    pub fn prepare_gemm<T: Element>(
        &mut self,
        on: [&Distribution; 3],
        config: &GemmConfig,
    ) -> Result<Gemm<T>, Error> {
        let _log = self.begin_log();
        let rank = self.comm.rank();
        check_distributions::<T>(self.comm.as_ref(), on, config.describe())?;
        let block = config.block.unwrap_or_else(|| {
            let [.., c] = on;
            Problem::choose_block(c.rows(), c.cols(), self.comm.size())
        });
        find_problem(on, config.ops, block)?;
        let (on, ops, is_transposed) = straighten::<T>(on, config.ops);
        let on = renumber(on, ops);
        let block = fit_block(block, &on[2]);
        let problem = find_problem(on.each_ref(), ops, block)?;
        let mut problem = problem.with_element(T::TYPE).with_split(config.split);
        if let Some(panel) = config.panel {
            problem = problem.with_panel(panel)?;
        }
        let places = PlacedMatrices {
            suit: &|plan| suit_plan(plan, &on),
            count_lent: &|plan| count_lent::<T>(plan, &on, rank),
        };
        let plan = self.plan_beside(problem, &config.balance, &places)?;
        Ok(Gemm::new(plan, on, is_transposed))
    }

    /// Takes a plan that is made already, for matrices of these distributions: A, B and C of the plan's problem. A matrix
    /// that is distributed as [`Plan::a`], [`Plan::b`] or [`Plan::c`] is used in place.
    ///
    /// # Errors
    /// On every rank: [`Error::Shape`] if the distributions or the type of the elements are not those of the problem;
    /// [`Error::Settings`] and [`Error::Spread`] as [`prepare_gemm`](Self::prepare_gemm).
    ///
    /// # Collective
    /// All ranks, with the same arguments.
    pub fn prepare_planned<T: Element>(
        &mut self,
        plan: Plan,
        on: [&Distribution; 3],
    ) -> Result<Gemm<T>, Error> {
        let _log = self.begin_log();
        check_distributions::<T>(self.comm.as_ref(), on, Settings::new())?;
        let problem = plan.problem();
        let found = find_problem(on, problem.ops(), problem.block())?;
        let found = found.with_element(T::TYPE);
        let texts = [problem, &found].map(describe_shape);
        if texts[0] != texts[1] {
            let [planned, found] = texts;
            let reason = format!("the plan is for {planned}, and the matrices are {found}");
            return Err(Error::Shape(reason));
        }
        let on = on.map(Distribution::clone);
        Ok(Gemm::new(note_scattered(plan, &on), on, false))
    }

    /// Multiplies matrices in the program's own memory once. Each is given by its distribution, and the memory of this rank
    /// as [`Pieces`]. A product that comes again should be [prepared](Self::prepare_gemm).
    ///
    /// ```
    /// use isochron::prelude::*;
    ///
    /// let mut session = Session::builder().build(LocalComm::new())?;
    /// let square = Distribution::on_one(2, 2, 0, 1)?.row_major();
    /// let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
    /// let mut c = [1.0; 4];
    /// let scalars = Scalars { alpha: 1.0, beta: 10.0 };
    /// let (a, b) = ((&square, (&a, 2)), (&square, (&b, 2)));
    /// session.gemm(&GemmConfig::default(), scalars, a, b, (&square, (&mut c, 2)))?;
    /// assert_eq!(c, [29.0, 32.0, 53.0, 60.0]);
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`prepare_gemm`](Self::prepare_gemm) and [`Gemm::run`].
    ///
    /// # Collective
    /// All ranks, with the same distributions, scalars and configuration.
    pub fn gemm<'p, T: Element>(
        &mut self,
        config: &GemmConfig,
        scalars: Scalars<T>,
        a: (&Distribution, impl Into<Pieces<&'p [T]>>),
        b: (&Distribution, impl Into<Pieces<&'p [T]>>),
        c: (&Distribution, impl Into<Pieces<&'p mut [T]>>),
    ) -> Result<GemmRun, Error> {
        let mut product = self.prepare_gemm([a.0, b.0, c.0], config)?;
        product.run(self, scalars, a.1, b.1, c.1)
    }
}

impl<T: Element> Gemm<T> {
    fn new(plan: Plan, on: [Distribution; 3], is_transposed: bool) -> Self {
        let planned = [plan.a(), plan.b(), plan.c()];
        let [scattered_a, scattered_b] = plan.scattered();
        let is_like = |side: usize| on[side].is_like(&planned[side]);
        Self {
            arguments: describe_multiplication::<T>(&plan),
            in_place: [
                scattered_a || is_like(A),
                scattered_b || is_like(B),
                is_like(2),
            ],
            plan,
            on,
            planned,
            is_transposed,
            rooms: [None, None, None],
            moves: [None, None, None, None],
            buffers: Vec::new(),
            memory: RunMemory::default(),
            has_run: false,
        }
    }

    /// Returns the plan, which stays the same in all runs. If C is row-major, it may be that of the transposed product. Rows,
    /// columns and inner indices of block-cyclic matrices are numbered process by process in it.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the product. `session` is the one that planned it, or another one of as many ranks.
    ///
    /// If `beta` is 0, C is not read. What lies between the lines of a local matrix is neither read nor written.
    ///
    /// # Errors
    /// On every rank: [`Error::Spread`] for a session of another number of ranks, [`Error::Shape`] for memory that does
    /// not hold its part; and those of [`Session::multiply`]. C is unspecified if a device fails.
    ///
    /// # Collective
    /// All ranks, with the same scalars.
    pub fn run<'p>(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
        a: impl Into<Pieces<&'p [T]>>,
        b: impl Into<Pieces<&'p [T]>>,
        c: impl Into<Pieces<&'p mut [T]>>,
    ) -> Result<GemmRun, Error> {
        let _log = session.begin_log();
        let shared = Arc::clone(session.comm());
        let comm = shared.as_ref();
        self.plan.check_ranks(comm.size())?;
        let prepared = self.prepare_run(session, [a.into(), b.into()], c.into());
        let (_call, ([a, b], c)) = CollectiveCall::new(comm, "multiplying")
            .with_settings(self.arguments.clone())
            .with_scalars(scalars)
            .enter_with(prepared)?;
        let is_read = scalars.alpha != T::ZERO;
        let mut mover = MatrixMover {
            comm,
            buffers: &mut self.buffers,
            moved: Moved::default(),
        };
        let [room_a, room_b, room_c] = &mut self.rooms;
        let [moves_a, moves_b, moves_c @ ..] = &mut self.moves;
        let [of_a, of_b, of_c] = &self.planned;
        let a = mover.bring(a, &self.on[A], of_a, room_a, moves_a, is_read)?;
        let b = mover.bring(b, &self.on[B], of_b, room_b, moves_b, is_read)?;
        let work = PreparedRun {
            plan: &self.plan,
            scalars,
            factors: (&a, &b),
            memory: &mut self.memory,
            // Moving a matrix lets ranks begin at different times.
            is_in_step: self.in_place == [true; 3],
        };
        let execution = match c {
            Placed::Here(mut c) => {
                let execution = session.run_home(work, &mut c)?;
                c.return_to_lender();
                execution
            }
            Placed::Elsewhere(pieces) => {
                let room = take_kept(room_c, || session.zeros(&self.plan), comm)?;
                let places = (&self.on[2], of_c, moves_c);
                session.multiply_moved(work, places, pieces, room, &mut mover)?
            }
        };
        self.has_run = true;
        let mut in_place = self.in_place;
        if self.is_transposed {
            in_place.swap(A, B);
        }
        Ok(GemmRun {
            execution,
            moved: mover.moved,
            in_place,
        })
    }

    /// Checks the memory of this rank, and makes the memory of the multiplication. Returns A and B in the order of the plan's
    /// problem, and C, on this rank alone.
    fn prepare_run<'p>(
        &mut self,
        session: &mut Session,
        factors: [Pieces<&'p [T]>; 2],
        c: Pieces<&'p mut [T]>,
    ) -> Result<PlacedProduct<'p, T>, Error> {
        let rank = session.comm.rank();
        self.plan.check_whole()?;
        let ([a, b], c) = self.fit_memory(factors, c, rank)?;
        let placed = (
            [self.show_factor(A, a, rank)?, self.show_factor(B, b, rank)?],
            self.lend_c(c, rank)?,
        );
        let (memory, team) = (&mut self.memory, &mut session.team);
        if self.has_run {
            T::renew(memory, team, &self.plan, rank)?;
        } else {
            T::make(memory, team, &self.plan, rank)?;
        }
        Ok(placed)
    }

    /// Returns a factor that is used where it lies, or its pieces.
    fn show_factor<'p>(
        &self,
        side: usize,
        pieces: Vec<Stored<'p, T>>,
        rank: usize,
    ) -> Result<PlacedFactor<'p, T>, Error> {
        if !self.in_place[side] {
            return Ok(Placed::Elsewhere(pieces));
        }
        let (on, spread) = (&self.on[side], self.planned[side].clone());
        let piece = pieces
            .first()
            .map_or((&[][..], 1), |piece| (piece.data, piece.ld));
        let is_scattered = self.plan.scattered()[side];
        let shown = match on.only_spread().filter(|_| is_scattered) {
            Some(has) => HeldMatrix::show_scattered(spread, has, rank, piece),
            None => HeldMatrix::show(spread, rank, piece),
        };
        shown.map(Placed::Here)
    }

    /// Returns C in the program's own memory, which has it where the plan has it, or its pieces.
    fn lend_c<'p>(
        &self,
        pieces: Vec<StoredMut<'p, T>>,
        rank: usize,
    ) -> Result<PlacedC<'p, T>, Error> {
        if !self.in_place[2] {
            return Ok(Placed::Elsewhere(pieces));
        }
        let piece = pieces.into_iter().next();
        let piece = piece.map_or((&mut [][..], 1), |piece| (piece.data, piece.ld));
        HeldMatrix::lend(self.planned[2].clone(), rank, piece).map(Placed::Here)
    }

    /// Checks the memory of this rank. Returns that of A and B in the order of the plan's problem.
    fn fit_memory<'p>(
        &self,
        [a, b]: [Pieces<&'p [T]>; 2],
        c: Pieces<&'p mut [T]>,
        rank: usize,
    ) -> Result<FittedMemory<'p, T>, Error> {
        let turn = usize::from(self.is_transposed);
        let a = fit_pieces("A", a, &self.on[turn], rank)?;
        let b = fit_pieces("B", b, &self.on[1 - turn], rank)?;
        let c = fit_pieces("C", c, &self.on[2], rank)?;
        Ok(if self.is_transposed {
            ([b, a], c)
        } else {
            ([a, b], c)
        })
    }
}

/// The pieces of A and B, and of C, on this rank.
type FittedMemory<'p, T> = ([Vec<Stored<'p, T>>; 2], Vec<StoredMut<'p, T>>);

/// A matrix of a product on this rank.
enum Placed<M, P> {
    /// It is used where it lies.
    Here(M),
    /// Its pieces are moved to the plan's layout and, for C, back.
    Elsewhere(P),
}

type PlacedFactor<'p, T> = Placed<HeldMatrix<'p, T>, Vec<Stored<'p, T>>>;
type PlacedC<'p, T> = Placed<HeldMatrix<'p, T>, Vec<StoredMut<'p, T>>>;
type PlacedProduct<'p, T> = ([PlacedFactor<'p, T>; 2], PlacedC<'p, T>);

/// A product whose ranks have agreed on plan, scalars and memory, with factors in the plan's layout.
struct PreparedRun<'w, T: 'static> {
    plan: &'w Plan,
    scalars: Scalars<T>,
    factors: (&'w HeldMatrix<'w, T>, &'w HeldMatrix<'w, T>),
    memory: &'w mut RunMemory<T>,
    /// The ranks have just agreed.
    is_in_step: bool,
}

impl Session {
    /// Multiplies in memory of the plan's layout, to which C is moved first if it is read, and from which it returns.
    fn multiply_moved<T: Element>(
        &mut self,
        work: PreparedRun<'_, T>,
        (on, spread, [moves, returns]): (&Distribution, &Spread, &mut [Option<PieceMoves<T>>; 2]),
        pieces: Vec<StoredMut<'_, T>>,
        room: &mut Matrix<T>,
        mover: &mut MatrixMover<'_, T>,
    ) -> Result<Execution, Error> {
        if work.scalars.beta != T::ZERO {
            let shown: Vec<_> = pieces.iter().map(show_piece).collect();
            mover.gather(on, shown, spread, room, moves)?;
        }
        let execution = self.run_home(work, room)?;
        mover.scatter(spread, room, on, pieces, returns)?;
        Ok(execution)
    }

    /// Multiplies, and returns C to where the plan has it.
    fn run_home<T: Element>(
        &mut self,
        work: PreparedRun<'_, T>,
        c: &mut HeldMatrix<'_, T>,
    ) -> Result<Execution, Error> {
        let PreparedRun {
            plan,
            scalars,
            factors,
            memory,
            is_in_step,
        } = work;
        let leaves_c = std::mem::replace(&mut self.leaves_c, false);
        let work = (plan, scalars, Factors::Held(factors));
        let done = self.run_entered(work, c, memory, is_in_step);
        self.leaves_c = leaves_c;
        done
    }
}

/// Returns the same memory, to be read.
fn show_piece<'s, T>(piece: &'s StoredMut<'_, T>) -> Stored<'s, T> {
    Stored {
        data: piece.data,
        ld: piece.ld,
        order: piece.order,
    }
}

fn fit_pieces<T, D: Deref<Target = [T]> + Default>(
    name: &str,
    pieces: Pieces<D>,
    on: &Distribution,
    rank: usize,
) -> Result<Vec<LocalMemory<D>>, Error> {
    pieces
        .fit_to(on, rank)
        .map_err(|error| Error::Shape(format!("the memory of {name}: {error}")))
}

/// Checks that all ranks give the same arguments, `settings` among them, and that the distributions are over these ranks.
///
/// # Errors
/// On every rank: [`Error::Settings`], [`Error::Spread`].
///
/// # Collective
/// All ranks.
fn check_distributions<T: Element>(
    comm: &dyn Comm,
    on: [&Distribution; 3],
    settings: Settings,
) -> Result<(), Error> {
    let [a, b, c] = on.map(Distribution::describe);
    let _call = CollectiveCall::new(comm, "preparing a product")
        .with_settings(settings)
        .with_text("A", a)
        .with_text("B", b)
        .with_text("C", c)
        .with("type", &T::TYPE)
        .enter()?;
    let ranks = comm.size();
    let mut others = on
        .iter()
        .map(|on| on.n_ranks())
        .filter(|&spread| spread != ranks);
    match others.next() {
        Some(spread) => Err(SpreadError::Ranks { spread, ranks }.into()),
        None => Ok(()),
    }
}

/// Makes the problem of matrices of these distributions.
///
/// # Errors
/// [`Error::Shape`], [`Error::Parameter`].
fn find_problem(on: [&Distribution; 3], ops: [Op; 2], block: usize) -> Result<Problem, Error> {
    let shapes = on.map(|on| (on.rows(), on.cols()));
    let [a, b] = [0, 1].map(|side| match (shapes[side], ops[side].transposes()) {
        ((rows, cols), true) => (cols, rows),
        (shape, false) => shape,
    });
    let c = shapes[2];
    if a.1 != b.0 || c != (a.0, b.1) {
        let texts = [a, b, c].map(|(rows, cols)| format!("{rows}×{cols}"));
        let [a, b, c] = texts;
        let reason = format!("op(A) is {a}, op(B) is {b}, and C is {c}");
        return Err(Error::Shape(reason));
    }
    Ok(Problem::new(a.0, b.1, a.1, block)?.with_ops(ops))
}

fn describe_shape(problem: &Problem) -> String {
    let (m, n, k) = (problem.m(), problem.n(), problem.k());
    format!("{m}×{n}×{k} of {}", problem.element())
}

/// Counts the bytes of this rank's matrices that a plan uses in place.
fn count_lent<T>(plan: &Plan, on: &[Distribution; 3], rank: usize) -> u64 {
    let planned = [plan.a(), plan.b(), plan.c()];
    let lent = planned.iter().zip(on).zip([true, true, false]);
    let lent = lent.filter(|((spread, on), is_factor)| {
        if *is_factor {
            on.covers(spread)
        } else {
            on.is_like(spread)
        }
    });
    let elements: usize = lent.map(|((spread, _), _)| spread.part(rank).len()).sum();
    (elements * size_of::<T>()) as u64
}

/// Describes the same product with column-major memory, as far as that needs no complex conjugate: a row-major matrix is the
/// transposed one, column-major. If C is row-major, the product is the transposed one, which is told.
fn straighten<T: Element>(
    [a, b, c]: [&Distribution; 3],
    [op_a, op_b]: [Op; 2],
) -> ([Distribution; 3], [Op; 2], bool) {
    let flipped = (c.order(), transpose_op::<T>(op_a), transpose_op::<T>(op_b));
    let (mut factors, c, is_transposed) = match flipped {
        (Order::Rows, Some(flip_a), Some(flip_b)) => {
            let factors = [(b.clone(), flip_b), (a.clone(), flip_a)];
            (factors, c.transposed(), true)
        }
        _ => ([(a.clone(), op_a), (b.clone(), op_b)], c.clone(), false),
    };
    for (on, op) in &mut factors {
        if let (Order::Rows, Some(flipped)) = (on.order(), transpose_op::<T>(*op)) {
            (*on, *op) = (on.transposed(), flipped);
        }
    }
    let [(a, op_a), (b, op_b)] = factors;
    ([a, b, c], [op_a, op_b], is_transposed)
}

/// Returns the operation on X that gives the transpose of `op(X)`; `None` if it would be the complex conjugate alone.
fn transpose_op<T: Element>(op: Op) -> Option<Op> {
    match op {
        Op::N => Some(Op::T),
        Op::T => Some(Op::N),
        Op::C => (!T::TYPE.is_complex()).then_some(Op::N),
    }
}

#[cfg(test)]
mod tests;
