//! The preparation of products.

use std::sync::Arc;

use super::agreement::{fit_block, note_scattered, renumber, suit_plan};
use super::check::check_element;
use super::config::{ProductConfig, ProductOf, RunConfig};
use super::factors::{Factors, Target};
use super::{Element, Origin, Product, ProductRun, RunMemory, Scalars};
use crate::comm::{
    CollectiveCall, Settings, add_fields, add_long, add_setting, agree, hash_arguments,
};
use crate::error::Error;
use crate::matrix::{Distribution, Op, Order, SpreadError};
use crate::plan::{A, B, Plan, Problem};
use crate::session::{PlacedMatrices, Session};

impl Session {
    /// Prepares a product: plans it, and takes the memory that it needs beside its matrices. The first run takes the memory for
    /// matrices that move.
    ///
    /// * For [distributions](ProductOf::Matrices) of A, B and C it measures and partitions, as [`plan`](Self::plan) does.
    /// * A [plan](ProductOf::Plan) is used as it is. One that was read from a file must be for these hosts and devices, and
    ///   becomes leaner if memory is short: make its matrices after this call.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Shape`] for shapes that do not fit together, and for elements of another type
    /// than the plan's; [`Error::Settings`] for arguments that differ between ranks; [`Error::Spread`] for
    /// distributions or a plan of another number of ranks; [`Error::Plan`] with the difference for a plan of other
    /// hosts or devices; [`Error::Memory`] and [`Error::Allocation`] when memory is missing; and the errors of
    /// [`plan`](Self::plan).
    ///
    /// # Collective
    /// All ranks, with the same arguments.
    pub fn prepare<'p, T: Element>(
        &mut self,
        of: impl Into<ProductOf<'p>>,
        config: RunConfig,
    ) -> Result<Product<T>, Error> {
        let _log = self.begin_log();
        let comm = Arc::clone(self.comm());
        let of = of.into();
        let arguments = of.describe::<T>(config);
        let _call = CollectiveCall::new(comm.as_ref(), "preparing a product")
            .with_settings(arguments.clone())
            .enter()?;
        let mut product = match of {
            ProductOf::Matrices(on, settings) => {
                check_ranks(on, comm.size())?;
                self.plan_product(on, &settings, config, arguments)?
            }
            ProductOf::Plan(plan) => {
                let plan = if plan.file().is_some() && plan.predicted().is_none() {
                    self.fit_given(plan)?
                } else {
                    plan.check_ranks(comm.size())?;
                    plan
                };
                Product::of_plan(plan, config, arguments)?
            }
        };
        let made = T::make(&mut product.memory, self.team(), &product.plan, comm.rank());
        agree(comm.as_ref(), made)?;
        Ok(product)
    }

    /// Multiplies once: [prepares](Self::prepare) a product and [runs](Product::run) it. A product that comes again should be
    /// prepared.
    ///
    /// ```
    /// use isochron::prelude::*;
    ///
    /// let mut session = Session::builder().build(LocalComm::new())?;
    /// let square = Distribution::on_one(2, 2, 0, 1)?.row_major();
    /// let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
    /// let mut c = [1.0; 4];
    /// let scalars = Scalars { alpha: 1.0, beta: 10.0 };
    /// session.gemm([&square; 3], scalars, Factors::of((&a, 2), (&b, 2)), (&mut c, 2))?;
    /// assert_eq!(c, [29.0, 32.0, 53.0, 60.0]);
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`prepare`](Self::prepare) and [`Product::run`].
    ///
    /// # Collective
    /// All ranks, with the same arguments but for their memory.
    pub fn gemm<'p, 'm, T: Element>(
        &mut self,
        of: impl Into<ProductOf<'p>>,
        scalars: Scalars<T>,
        factors: Factors<'m, T>,
        c: impl Into<Target<'m, T>>,
    ) -> Result<ProductRun, Error> {
        let mut product = self.prepare(of, RunConfig::default())?;
        product.run(self, scalars, factors, c)
    }

    /// Plans a product of matrices of these distributions.
    fn plan_product<T: Element>(
        &mut self,
        on: [&Distribution; 3],
        settings: &ProductConfig,
        config: RunConfig,
        arguments: Settings,
    ) -> Result<Product<T>, Error> {
        let rank = self.comm().rank();
        let block = settings.block.unwrap_or_else(|| {
            let [.., c] = on;
            Problem::choose_block(c.rows(), c.cols(), self.comm().size())
        });
        // The shapes are checked before they are renumbered: errors are in the caller's words.
        find_problem(on, settings.ops, block)?;
        let straight = StraightProduct::new::<T>(on, settings.ops);
        let (on, ops) = (renumber(straight.on, straight.ops), straight.ops);
        let block = fit_block(block, &on[2]);
        let problem = find_problem(on.each_ref(), ops, block)?;
        let mut problem = problem.with_element(T::TYPE).with_split(settings.split);
        if let Some(panel) = settings.panel {
            problem = problem.with_panel(panel)?;
        }
        let places = PlacedMatrices {
            suit: &|plan| suit_plan(plan, &on),
            count_lent: &|plan| count_lent::<T>(plan, &on, rank),
        };
        let plan = self.plan_beside(problem, &settings.balance, &places)?;
        let is_transposed = straight.is_transposed;
        let origin = Origin::Matrices { is_transposed };
        let product = Product::new(plan, on, origin, config, arguments);
        Ok(Product { flips: straight.flips, ..product })
    }
}

impl ProductOf<'_> {
    /// Returns the arguments of a preparation as text.
    fn describe<T: Element>(&self, config: RunConfig) -> Settings {
        let mut settings = match self {
            Self::Matrices(on, settings) => {
                let mut settings = settings.describe();
                for (name, on) in ["A", "B", "C"].into_iter().zip(on) {
                    settings.insert(name.to_owned(), on.describe());
                }
                settings
            }
            Self::Plan(plan) => {
                let mut settings = Settings::new();
                add_fields(&mut settings, plan.problem());
                add_long(&mut settings, "plan", "a plan", plan);
                add_setting(&mut settings, "from a file", &plan.file().is_some());
                settings
            }
        };
        add_setting(&mut settings, "element", &T::TYPE);
        add_fields(&mut settings, &config);
        settings
    }
}

impl<T: Element> Product<T> {
    /// Takes a plan for matrices that the program has on these distributions.
    fn new(
        plan: Plan,
        on: [Distribution; 3],
        origin: Origin,
        config: RunConfig,
        mut arguments: Settings,
    ) -> Self {
        let planned = [plan.a(), plan.b(), plan.c()];
        let [scattered_a, scattered_b] = plan.scattered();
        let is_like = |side: usize| on[side].is_like(&planned[side]);
        // Two products of the same matrices may have unlike plans.
        add_long(&mut arguments, "plan", "a plan", &plan);
        Self {
            config,
            origin,
            number: hash_arguments(&arguments),
            arguments,
            in_place: [scattered_a || is_like(A), scattered_b || is_like(B), is_like(2)],
            plan,
            on,
            flips: [false; 3],
            planned,
            rooms: [None, None, None],
            moves: [None, None, None, None],
            buffers: Vec::new(),
            memory: RunMemory::default(),
            has_run: false,
        }
    }

    /// Takes a plan for matrices that lie where it has them.
    fn of_plan(plan: Plan, config: RunConfig, arguments: Settings) -> Result<Self, Error> {
        check_element::<T>(&plan)?;
        let on = [plan.a(), plan.b(), plan.c()].map(Distribution::from);
        let plan = note_scattered(plan, &on);
        Ok(Self::new(plan, on, Origin::Plan, config, arguments))
    }
}

/// Checks that distributions are over this number of ranks.
fn check_ranks(on: [&Distribution; 3], ranks: usize) -> Result<(), Error> {
    let mut others = on.iter().map(|on| on.n_ranks()).filter(|&spread| spread != ranks);
    match others.next() {
        Some(spread) => Err(SpreadError::Ranks { spread, ranks }.into()),
        None => Ok(()),
    }
}

/// Makes the problem of matrices of these distributions.
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

/// Counts the bytes of this rank's matrices that a plan uses in place.
fn count_lent<T>(plan: &Plan, on: &[Distribution; 3], rank: usize) -> u64 {
    let planned = [plan.a(), plan.b(), plan.c()];
    let lent = planned.iter().zip(on).zip([true, true, false]);
    let lent = lent.filter(
        |((spread, on), is_factor)| {
            if *is_factor { on.covers(spread) } else { on.is_like(spread) }
        },
    );
    let elements: usize = lent.map(|((spread, _), _)| spread.part(rank).len()).sum();
    (elements * size_of::<T>()) as u64
}

/// A product of column-major matrices, as far as that needs no complex conjugate: a row-major matrix is the transposed one,
/// column-major.
struct StraightProduct {
    on: [Distribution; 3],
    ops: [Op; 2],
    /// `true` for each matrix that is transposed.
    flips: [bool; 3],
    /// `true` if C was row-major, so that the product is the transposed one.
    is_transposed: bool,
}

impl StraightProduct {
    fn new<T: Element>([a, b, c]: [&Distribution; 3], [op_a, op_b]: [Op; 2]) -> Self {
        let transposed = [(b, op_b), (a, op_a)].map(|(on, op)| straighten::<T>(on, op, true));
        if let (Order::Rows, [Some(first), Some(second)]) = (c.order(), transposed) {
            return Self::of([first, second], c.transposed(), true);
        }
        let factors = [(a, op_a), (b, op_b)].map(|(on, op)| {
            straighten::<T>(on, op, false).unwrap_or_else(|| StraightFactor {
                on: on.clone(),
                op,
                is_flipped: false,
            })
        });
        Self::of(factors, c.clone(), false)
    }

    fn of([first, second]: [StraightFactor; 2], c: Distribution, is_transposed: bool) -> Self {
        Self {
            ops: [first.op, second.op],
            flips: [first.is_flipped, second.is_flipped, is_transposed],
            on: [first.on, second.on, c],
            is_transposed,
        }
    }
}

/// A factor in column-major memory.
struct StraightFactor {
    on: Distribution,
    op: Op,
    /// `true` if the program has the transposed matrix, row-major.
    is_flipped: bool,
}

/// Returns the factor `op(X)`, or its transpose, as an operation on a column-major matrix; `None` if it would be the complex
/// conjugate alone.
fn straighten<T: Element>(
    on: &Distribution,
    op: Op,
    is_transposed: bool,
) -> Option<StraightFactor> {
    let is_flipped = on.order() == Order::Rows;
    let on = if is_flipped { on.transposed() } else { on.clone() };
    // Two transpositions cancel each other.
    let op = if is_flipped == is_transposed { op } else { transpose_op::<T>(op)? };
    Some(StraightFactor { on, op, is_flipped })
}

/// Returns the operation on X that gives the transpose of `op(X)`; `None` if it would be the complex conjugate alone.
fn transpose_op<T: Element>(op: Op) -> Option<Op> {
    match op {
        Op::N => Some(Op::T),
        Op::T => Some(Op::N),
        Op::C => (!T::TYPE.is_complex()).then_some(Op::N),
    }
}
