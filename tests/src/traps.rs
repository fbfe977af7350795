//! Traps that multiplications are known to fall into without a word, each by its name, for every type of elements.

use isochron::comm::Comm;
use isochron::matrix::Op;
use isochron::multiply::{Plan, Problem, Scalars};
use isochron_devices::Element;
use num_complex::{Complex32, Complex64};

use crate::cases::{Case, integers, layouts, plan_along_k, plan_on, team};
use crate::moving;

/// A trap: collective; it panics if the multiplication falls into it, and returns the number of cases.
pub type Trap = fn(&dyn Comm) -> usize;

/// The traps by their names.
pub const TRAPS: [(&str, Trap); 5] = [
    ("beta-0-reads-c", beta_0_reads_c),
    ("k-0-leaves-c-unscaled", k_0_leaves_c_unscaled),
    ("conjugate-transpose", conjugate_transpose),
    ("small-blocks", small_blocks),
    ("submatrix-offsets", moving::embedded),
];

/// With `beta = 0` C is written and never read, also where there is nothing to add to it.
fn beta_0_reads_c(comm: &dyn Comm) -> usize {
    fn of<T: Element>(comm: &dyn Comm) -> usize {
        let scalars = Scalars {
            alpha: T::ONE,
            beta: T::ZERO,
        };
        let shapes = [(13, 11, 17), (13, 11, 0)];
        let run = |&(m, n, k): &(usize, usize, usize)| {
            let plans = plans::<T>(comm, Problem::new(m, n, k, 4).unwrap(), Op::N);
            let nan = T::of(Complex64::new(f64::NAN, f64::NAN));
            exact(comm, plans, scalars, |case| case.c.fill(|_, _| nan))
        };
        shapes.iter().map(run).sum()
    }
    of::<f32>(comm) + of::<f64>(comm) + of::<Complex32>(comm) + of::<Complex64>(comm)
}

/// With `k = 0`, or `alpha = 0` over anything, what is left is `C = beta·C`.
fn k_0_leaves_c_unscaled(comm: &dyn Comm) -> usize {
    fn of<T: Element>(comm: &dyn Comm) -> usize {
        let scalars = |alpha| Scalars {
            alpha,
            beta: T::of(Complex64::new(-2.0, 3.0)),
        };
        let empty = plans::<T>(comm, Problem::new(13, 11, 0, 4).unwrap(), Op::N);
        let full = plans::<T>(comm, Problem::new(13, 11, 9, 4).unwrap(), Op::T);
        exact(comm, empty, scalars(T::ONE), |_| ())
            + exact(comm, full, scalars(T::ZERO), |case| {
                case.a.fill(|_, _| T::of(Complex64::new(f64::NAN, 0.0)));
                case.b
                    .fill(|_, _| T::of(Complex64::new(f64::INFINITY, 0.0)));
            })
    }
    of::<f32>(comm) + of::<f64>(comm) + of::<Complex32>(comm) + of::<Complex64>(comm)
}

/// The conjugate transpose is neither the transpose nor the conjugate.
fn conjugate_transpose(comm: &dyn Comm) -> usize {
    fn of<T: Element>(comm: &dyn Comm) -> usize {
        let scalars = Scalars {
            alpha: T::of(Complex64::new(1.0, -2.0)),
            beta: T::ONE,
        };
        let plans = plans::<T>(comm, Problem::new(10, 14, 12, 4).unwrap(), Op::C);
        exact(comm, plans, scalars, |_| ())
    }
    of::<f32>(comm) + of::<f64>(comm) + of::<Complex32>(comm) + of::<Complex64>(comm)
}

/// Blocks and panels of one row and column.
fn small_blocks(comm: &dyn Comm) -> usize {
    fn of<T: Element>(comm: &dyn Comm) -> usize {
        let scalars = Scalars {
            alpha: T::ONE,
            beta: T::ONE,
        };
        let problem = Problem::new(7, 9, 8, 1).unwrap().with_panel(1).unwrap();
        exact(comm, plans::<T>(comm, problem, Op::N), scalars, |_| ())
    }
    of::<f32>(comm) + of::<f64>(comm) + of::<Complex32>(comm) + of::<Complex64>(comm)
}

/// The problem for matrices of this type with this operation on both factors: C divided in every kind of layout, and k.
fn plans<T: Element>(comm: &dyn Comm, problem: Problem, op: Op) -> Vec<Plan> {
    let problem = problem.with_element(T::TYPE).with_ops([op, op]);
    let (rows, cols) = problem.c_blocks();
    let layouts = layouts(comm.size(), rows, cols).into_iter();
    let mut plans: Vec<Plan> = layouts
        .map(|layout| plan_on(comm, problem, layout))
        .collect();
    plans.push(plan_along_k(comm, problem));
    plans
}

/// Multiplies whole numbers as planned, after `spoil` has changed what must not be read.
fn exact<T: Element>(
    comm: &dyn Comm,
    plans: Vec<Plan>,
    scalars: Scalars<T>,
    spoil: impl Fn(&mut Case<T>),
) -> usize {
    let mut team = team();
    let count = plans.len();
    for plan in plans {
        let mut case = Case::new(comm, plan, integers);
        spoil(&mut case);
        case.multiply(comm, &mut team, scalars);
        case.assert_reference(scalars, comm);
    }
    count
}
