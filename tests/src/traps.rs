//! Traps that multiplications are known to fall into without a word, each by its name, for every type of elements.

use std::sync::Arc;

use isochron::comm::Comm;
use isochron::matrix::Op;
use isochron::plan::Problem;
use isochron::product::{Element, Scalars};
use isochron_hierarchy::problem::ProblemError;
use num_complex::Complex64;

use crate::cases::{Case, integers, open, plan_along_k, plans_on_all, scale};
use crate::moving;

/// A trap: collective; it panics if the multiplication falls into it, and returns the number of cases.
pub type Trap = fn(&Arc<dyn Comm>) -> usize;

/// The traps by their names.
pub const TRAPS: [(&str, Trap); 5] = [
    ("beta-0-reads-c", beta_0_reads_c),
    ("k-0-leaves-c-unscaled", k_0_leaves_c_unscaled),
    ("conjugate-transpose", conjugate_transpose),
    ("small-blocks", small_blocks),
    ("submatrix-offsets", moving::embedded),
];

/// With `beta = 0` C is written and never read, also where there is nothing to add to it.
fn beta_0_reads_c(comm: &Arc<dyn Comm>) -> usize {
    fn of<T: Element>(comm: &Arc<dyn Comm>) -> usize {
        let scalars = scale(T::ONE, T::ZERO);
        exact(comm, Problem::new(13, 11, 17, 4), Op::N, scalars)
            + exact(comm, Problem::new(13, 11, 0, 4), Op::N, scalars)
    }
    by_type!(of(comm))
}

/// With `k = 0`, or `alpha = 0` over anything, the rest is `C = beta·C`.
fn k_0_leaves_c_unscaled(comm: &Arc<dyn Comm>) -> usize {
    fn of<T: Element>(comm: &Arc<dyn Comm>) -> usize {
        let beta = T::of(Complex64::new(-2.0, 3.0));
        exact(comm, Problem::new(13, 11, 0, 4), Op::N, scale(T::ONE, beta))
            + exact(comm, Problem::new(13, 11, 9, 4), Op::T, scale(T::ZERO, beta))
    }
    by_type!(of(comm))
}

/// The conjugate transpose is neither the transpose nor the conjugate.
fn conjugate_transpose(comm: &Arc<dyn Comm>) -> usize {
    fn of<T: Element>(comm: &Arc<dyn Comm>) -> usize {
        let scalars = scale(T::of(Complex64::new(1.0, -2.0)), T::ONE);
        exact(comm, Problem::new(10, 14, 12, 4), Op::C, scalars)
    }
    by_type!(of(comm))
}

/// Blocks and panels of one row and column.
fn small_blocks(comm: &Arc<dyn Comm>) -> usize {
    fn of<T: Element>(comm: &Arc<dyn Comm>) -> usize {
        let problem = Problem::new(7, 9, 8, 1).unwrap().with_panel(1);
        exact(comm, problem, Op::N, scale(T::ONE, T::ONE))
    }
    by_type!(of(comm))
}

/// Multiplies whole numbers with this operation on both factors: C divided in every kind of layout, and k. Matrices
/// that must not be read are spoiled.
fn exact<T: Element>(
    shared: &Arc<dyn Comm>,
    problem: Result<Problem, ProblemError>,
    op: Op,
    scalars: Scalars<T>,
) -> usize {
    let comm = shared.as_ref();
    let mut session = open(shared);
    let problem = problem.unwrap().with_element(T::TYPE).with_ops([op, op]);
    let mut plans = Vec::from(plans_on_all(comm, problem));
    plans.push(plan_along_k(comm, problem));
    let count = plans.len();
    for plan in plans {
        let mut case = Case::new(comm, plan, integers);
        case.spoil_unread(scalars);
        case.multiply(&mut session, scalars);
        case.assert_reference(scalars, comm);
    }
    count
}
