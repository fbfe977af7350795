//! Tests of the [`Worker`] contract, for its implementers: one suite that every worker passes.
//!
//! [`run`] is for workers that compute. [`run_contract`] is the part that also holds for a worker without arithmetic,
//! such as [`RecordedWorker`](crate::paced::RecordedWorker). Both panic at the first broken promise, and name it.

mod ahead;
mod contract;
mod operands;
mod results;

use crate::contract::{Scalar, Worker};
use ahead::{
    announced_panels_are_used, announced_panels_that_do_not_come_are_forgotten,
    widths_may_be_irregular,
};
use contract::{
    a_job_has_one_type, info_is_filled, memory_is_counted, times_are_times,
    wrong_order_is_an_error, wrong_shapes_are_errors,
};
use num_complex::{Complex32, Complex64};
use operands::number;
use results::{
    depths_need_not_be_exact, fewer_than_k_max_is_fine, job_without_updates_keeps_c,
    nan_propagates, operands_may_lie_between_each_other, results_are_exact, scaling_is_exact,
};

/// Shapes `(rows, cols, k)`: the smallest, odd ones, empty ones, and more columns than threads.
const SHAPES: &[(usize, usize, usize)] = &[
    (1, 1, 1),
    (7, 13, 31),
    (31, 1, 7),
    (1, 29, 3),
    (64, 48, 300),
    (0, 5, 4),
    (5, 0, 4),
    (5, 4, 0),
    (0, 0, 0),
];

/// Makes a worker to be tested.
type MakeCase<'a> = &'a mut dyn FnMut() -> Box<dyn Worker>;

/// Checks all promises of the [`Worker`] contract on workers that `make` returns.
///
/// # Panics
/// If a promise is broken.
pub fn run(make: MakeCase<'_>) {
    run_contract(make);
    check_results::<f32>(make);
    check_results::<f64>(make);
    check_results::<Complex32>(make);
    check_results::<Complex64>(make);
}

/// Checks the promises that also hold for a worker without arithmetic: it describes itself, its times are times, and
/// operands that do not fit are errors, not panics.
///
/// # Panics
/// If a promise is broken.
pub fn run_contract(make: MakeCase<'_>) {
    info_is_filled(make().as_ref());
    a_job_has_one_type(make().as_mut());
    check_behaviour::<f32>(make);
    check_behaviour::<f64>(make);
    check_behaviour::<Complex32>(make);
    check_behaviour::<Complex64>(make);
}

/// Checks the contract for elements of one type, except the results.
fn check_behaviour<T: Scalar>(make: MakeCase<'_>) {
    for &(rows, cols, k) in SHAPES {
        times_are_times(T::updates(make().as_mut()), rows, cols, k);
    }
    memory_is_counted::<T>(make().as_mut());
    wrong_shapes_are_errors(T::updates(make().as_mut()));
    wrong_order_is_an_error(T::updates(make().as_mut()));
}

/// Checks the results with elements of one type.
fn check_results<T: Scalar>(make: MakeCase<'_>) {
    for &(rows, cols, k) in SHAPES {
        for (alpha, pad) in [(T::ONE, 0), (T::ZERO, 3), (number(-2.5, 1.5), 3)] {
            results_are_exact(T::updates(make().as_mut()), rows, cols, k, alpha, pad);
        }
    }
    let checks = [
        scaling_is_exact,
        job_without_updates_keeps_c,
        fewer_than_k_max_is_fine,
        depths_need_not_be_exact,
        widths_may_be_irregular,
        nan_propagates,
        operands_may_lie_between_each_other,
        announced_panels_are_used,
        announced_panels_that_do_not_come_are_forgotten,
    ];
    for check in checks {
        check(T::updates(make().as_mut()));
    }
}
