//! One suite for every [`Worker`]: what the contract promises, checked.
//!
//! [`run`] is for workers that compute; [`run_contract`] is the part that also holds for a worker that only pretends
//! to, such as [`RecordedWorker`](crate::RecordedWorker). Both panic at the first promise that is broken, saying which.

mod ahead;
mod contract;
mod operands;
mod results;

use crate::worker::Worker;
use ahead::{
    announced_panels_are_used, announced_panels_that_do_not_come_are_forgotten,
    widths_may_be_irregular,
};
use contract::{
    info_is_filled, memory_is_counted, times_are_times, wrong_order_is_an_error,
    wrong_shapes_are_errors,
};
use results::{
    depths_need_not_be_exact, fewer_than_k_max_is_fine, job_without_updates_keeps_c,
    nan_propagates, results_are_exact, scaling_is_exact,
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

/// A worker to be tested.
type Make<'a> = &'a mut dyn FnMut() -> Box<dyn Worker>;

/// Checks everything that the contract of [`Worker`] promises, on workers that `make` returns.
///
/// # Panics
/// When a promise is broken.
pub fn run(make: Make<'_>) {
    run_contract(make);
    for &shape in SHAPES {
        for (alpha, pad) in [(1.0, 0), (0.0, 3), (-2.5, 3)] {
            results_are_exact(make().as_mut(), shape, alpha, pad);
        }
    }
    scaling_is_exact(make().as_mut());
    job_without_updates_keeps_c(make().as_mut());
    fewer_than_k_max_is_fine(make().as_mut());
    depths_need_not_be_exact(make().as_mut());
    widths_may_be_irregular(make().as_mut());
    nan_propagates(make().as_mut());
    announced_panels_are_used(make().as_mut());
    announced_panels_that_do_not_come_are_forgotten(make().as_mut());
}

/// Checks what holds for a worker without arithmetic too: that it says what it is, that times are times, and that
/// operands which do not fit are errors, not panics.
///
/// # Panics
/// When a promise is broken.
pub fn run_contract(make: Make<'_>) {
    info_is_filled(make().as_ref());
    for &shape in SHAPES {
        times_are_times(make().as_mut(), shape);
    }
    memory_is_counted(make().as_mut());
    wrong_shapes_are_errors(make().as_mut());
    wrong_order_is_an_error(make().as_mut());
}
