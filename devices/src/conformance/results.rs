//! What a worker computes.

use super::SHAPES;
use super::operands::{Case, Matrix, c_at, product_at, valid};
use crate::worker::{Depth, Worker};

pub(super) fn results_are_exact(
    worker: &mut dyn Worker,
    shape: (usize, usize, usize),
    alpha: f64,
    pad: usize,
) {
    let mut case = Case::new(shape, pad);
    let k = case.k();
    // Two jobs of two updates each: both accumulate.
    for updates in [2.0, 4.0] {
        case.job(worker, alpha, 2);
        case.c
            .assert_is(&format!("alpha = {alpha}, k = {k}"), |i, j| {
                c_at(i, j) + updates * alpha * product_at(i, j, k)
            });
    }
}

/// `beta = 0` overwrites whatever C holds, and no beta touches what lies between the columns.
pub(super) fn scaling_is_exact(worker: &mut dyn Worker) {
    fn before(i: usize, j: usize) -> f64 {
        if i > j { f64::NAN } else { c_at(i, j) }
    }
    for &(rows, cols, _) in SHAPES {
        for beta in [0.0, 1.0, -2.0] {
            let mut c = Matrix::new(rows, cols, 3, before);
            worker.scale(beta, c.view_mut());
            c.assert_is("beta times C", |i, j| match beta {
                0.0 => 0.0,
                _ => beta * before(i, j),
            });
        }
    }
}

pub(super) fn job_without_updates_keeps_c(worker: &mut dyn Worker) {
    let mut case = Case::new((9, 7, 4), 2);
    case.job(worker, 1.0, 0);
    case.c.assert_is("begin and finish", c_at);
}

pub(super) fn fewer_than_k_max_is_fine(worker: &mut dyn Worker) {
    let mut case = Case::new((9, 7, 4), 0);
    valid(worker.begin(case.c.view_mut(), Depth::of(64, 1)));
    valid(worker.update(1.0, case.a.view(), case.b.view(), case.c.view_mut()));
    valid(worker.finish(case.c.view_mut()));
    case.c
        .assert_is("k < k_max", |i, j| c_at(i, j) + product_at(i, j, 4));
}

/// More updates than were announced, fewer, and none at all where some were.
pub(super) fn depths_need_not_be_exact(worker: &mut dyn Worker) {
    for (announced, updates) in [(1, 3), (2, 5), (3, 1), (usize::MAX, 3), (3, 0)] {
        let mut case = Case::new((11, 12, 4), 1);
        let depth = Depth::of(4, announced);
        valid(worker.begin(case.c.view_mut(), depth));
        for _ in 0..updates {
            valid(worker.update(1.0, case.a.view(), case.b.view(), case.c.view_mut()));
        }
        valid(worker.finish(case.c.view_mut()));
        let what = format!("{updates} updates of {announced}");
        case.c.assert_is(&what, |i, j| {
            c_at(i, j) + updates as f64 * product_at(i, j, 4)
        });
    }
}

pub(super) fn nan_propagates(worker: &mut dyn Worker) {
    let mut case = Case::new((6, 5, 3), 0);
    // A(2, 1) makes row 2 of C undefined, and nothing else.
    case.a.data[2 + case.a.ld] = f64::NAN;
    case.job(worker, 0.0, 1);
    case.c.assert_is("alpha = 0 with a NaN in A", c_at);
    case.job(worker, 1.0, 1);
    case.c.assert_is("a NaN in A", |i, j| match i {
        2 => f64::NAN,
        _ => c_at(i, j) + product_at(i, j, 3),
    });
}
