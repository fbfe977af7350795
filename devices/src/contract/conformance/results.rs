//! The results of a worker.

use super::SHAPES;
use super::operands::{GappedMatrix, TestJob, b_at, c_at, number, product_at, updated_at, valid};
use crate::contract::{Depth, Scalar, Updates};

pub(super) fn results_are_exact<T: Scalar>(
    worker: &mut dyn Updates<T>,
    rows: usize,
    cols: usize,
    k: usize,
    alpha: T,
    pad: usize,
) {
    let mut case = TestJob::new(rows, cols, k, pad);
    // Two jobs of two updates each: both accumulate.
    for updates in [2.0, 4.0] {
        case.run(worker, alpha, 2);
        case.c.assert_is(&format!("alpha = {alpha:?}, k = {k}"), |i, j| {
            c_at::<T>(i, j) + number::<T>(updates, 0.0) * alpha * product_at(i, j, k)
        });
    }
}

/// `beta = 0` overwrites C without reading it, and no beta changes the gaps between columns.
pub(super) fn scaling_is_exact<T: Scalar>(worker: &mut dyn Updates<T>) {
    fn before<T: Scalar>(i: usize, j: usize) -> T {
        if i > j { number(f64::NAN, f64::NAN) } else { c_at(i, j) }
    }
    for &(rows, cols, _) in SHAPES {
        for beta in [T::ZERO, T::ONE, number(-2.0, 0.5)] {
            let mut c = GappedMatrix::new(rows, cols, 3, before);
            worker.scale(beta, c.view_mut());
            c.assert_is("beta times C", |i, j| {
                if beta == T::ZERO { T::ZERO } else { beta * before(i, j) }
            });
        }
    }
}

pub(super) fn job_without_updates_keeps_c<T: Scalar>(worker: &mut dyn Updates<T>) {
    let mut case = TestJob::new(9, 7, 4, 2);
    case.run(worker, T::ONE, 0);
    case.c.assert_is("begin and finish", c_at);
}

pub(super) fn fewer_than_k_max_is_fine<T: Scalar>(worker: &mut dyn Updates<T>) {
    let mut case = TestJob::new(9, 7, 4, 0);
    case.run_announced(worker, Depth::of(64, 1), T::ONE, 1);
    case.c.assert_is("k < k_max", |i, j| updated_at(i, j, &[(1.0, 4)]));
}

/// There are more updates than announced, fewer, or none.
pub(super) fn depths_need_not_be_exact<T: Scalar>(worker: &mut dyn Updates<T>) {
    for (announced, updates) in [(1, 3), (2, 5), (3, 1), (usize::MAX, 3), (3, 0)] {
        let mut case = TestJob::new(11, 12, 4, 1);
        case.run_announced(worker, Depth::of(4, announced), T::ONE, updates);
        let what = format!("{updates} updates of {announced}");
        case.c.assert_is(&what, |i, j| updated_at(i, j, &[(updates as f64, 4)]));
    }
}

/// The columns of C lie between those of B and of a matrix that another thread writes meanwhile.
pub(super) fn operands_may_lie_between_each_other<T: Scalar>(worker: &mut dyn Updates<T>) {
    let (rows, cols, k) = (9, 14, 4);
    let operands = TestJob::new(rows, cols, k, 0);
    let all = rows + k + 5;
    let mut array = GappedMatrix::new(all, cols, 1, |_, _| T::ONE);
    let (mut c, below) = array.view_mut().split_at_row(rows);
    let (mut b, mut other) = below.split_at_row(k);
    c.copy_from(operands.c.view());
    b.copy_from(operands.b.view());
    std::thread::scope(|scope| {
        scope.spawn(|| other.scale(number(3.0, 0.0)));
        valid(worker.begin(c.reborrow(), Depth::of(k, 1)));
        valid(worker.update(T::ONE, operands.a.view(), b.rb(), c.reborrow()));
        valid(worker.finish(c));
    });
    array.assert_is("parts of one array", |i, j| {
        if i < rows {
            updated_at(i, j, &[(1.0, k)])
        } else if i < rows + k {
            b_at(i - rows, j)
        } else {
            number(3.0, 0.0)
        }
    });
}

pub(super) fn nan_propagates<T: Scalar>(worker: &mut dyn Updates<T>) {
    let mut case = TestJob::new(6, 5, 3, 0);
    // A(2, 1) makes row 2 of C undefined, and nothing else.
    case.a.data[2 + case.a.ld] = number(f64::NAN, 0.0);
    case.run(worker, T::ZERO, 1);
    case.c.assert_is("alpha = 0 with a NaN in A", c_at);
    case.run(worker, T::ONE, 1);
    case.c.assert_is("a NaN in A", |i, j| match i {
        2 => number(f64::NAN, 0.0),
        _ => updated_at(i, j, &[(1.0, 3)]),
    });
}
