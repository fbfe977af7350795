//! Promises that also hold for a worker without arithmetic.

use super::SHAPES;
use super::operands::{GappedMatrix, TestJob, a_at, b_at, c_at, valid};
use crate::contract::{Depth, DeviceError, JobShape, Scalar, Updates, Worker};

pub(super) fn info_is_filled(worker: &dyn Worker) {
    let info = worker.info();
    assert!(!info.name.is_empty(), "the name is empty");
    assert!(!info.blas.is_empty(), "{}: the BLAS is not named", info.name);
    assert!(!info.pinned || !info.cores.is_empty(), "{}: pinned to no core", info.name);
}

pub(super) fn times_are_times<T: Scalar>(
    worker: &mut dyn Updates<T>,
    rows: usize,
    cols: usize,
    k: usize,
) {
    for time in TestJob::new(rows, cols, k, 1).run(worker, T::ONE, 2) {
        for t_s in [time.busy_s, time.cpu_s] {
            assert!(t_s.is_finite() && t_s >= 0.0, "{rows}x{cols}, k = {k}: {time:?}");
        }
    }
}

/// The needs of a job are known before it, do not depend on earlier jobs, and are nothing without a C.
pub(super) fn memory_is_counted<T: Scalar>(worker: &mut dyn Worker) {
    for &(rows, cols, k) in SHAPES {
        for updates in [1, 5] {
            let job = JobShape::of::<T>(rows, cols, Depth::of(k, updates));
            let needs = worker.job_needs(&job);
            valid(worker.reserve(&job));
            TestJob::new(rows, cols, k, 0).run(T::updates(worker), T::ONE, updates);
            let after = worker.job_needs(&job);
            assert_eq!(after, needs, "needs of {rows}x{cols} after a job");
            let together = needs.updates_per_visit;
            assert!(
                together <= updates && (together.is_power_of_two() || together == updates),
                "{rows}x{cols}: {together} of {updates} updates"
            );
            let is_nothing = needs.host_bytes == 0 && needs.own_bytes == 0;
            assert!(is_nothing || rows * cols > 0, "memory for nothing");
        }
    }
    // A size beyond counting is no panic.
    let depth = Depth::endless(usize::MAX);
    let _ = worker.job_needs(&JobShape::of::<T>(usize::MAX, usize::MAX, depth));
}

pub(super) fn wrong_shapes_are_errors<T: Scalar>(worker: &mut dyn Updates<T>) {
    let misfits = [
        ("C is not that of begin", [(5, 3), (3, 6), (5, 6)]),
        ("A has too few rows", [(3, 3), (3, 6), (4, 6)]),
        ("B has too many columns", [(4, 3), (3, 7), (4, 6)]),
        ("A and B do not fit", [(4, 3), (2, 6), (4, 6)]),
    ];
    for (what, sizes) in misfits {
        let error = refused_update(worker, what, sizes);
        assert!(is_shape(&error), "{what}: {error}");
    }
    assert!(matches!(
        refused_update(worker, "k > k_max", [(4, 4), (4, 6), (4, 6)]),
        DeviceError::InnerDimension { k: 4, k_max: 3 }
    ));
    let (mut case, mut other) = (make_job(), TestJob::new(6, 4, 3, 0));
    valid(worker.begin(case.c.view_mut(), Depth::of(3, 1)));
    assert!(
        worker.finish(other.c.view_mut()).is_err_and(|error| is_shape(&error)),
        "finish with another C: accepted"
    );
    // After an error the worker computes as before.
    case.run(worker, T::ONE, 1);
}

/// Makes a job with a C of 4 × 6 elements and k = 3.
fn make_job<T: Scalar>() -> TestJob<T> {
    TestJob::new(4, 6, 3, 0)
}

/// Returns the error of an update with A, B and C of these sizes, in the job of [`make_job`].
fn refused_update<T: Scalar>(
    worker: &mut dyn Updates<T>,
    what: &str,
    [a, b, c]: [(usize, usize); 3],
) -> DeviceError {
    let mut case = make_job();
    let depth = Depth::of(case.k(), 1);
    valid(worker.begin(case.c.view_mut(), depth));
    let a = GappedMatrix::new(a.0, a.1, 0, a_at);
    let b = GappedMatrix::new(b.0, b.1, 0, b_at);
    let mut c = GappedMatrix::new(c.0, c.1, 0, c_at);
    worker
        .update(T::ONE, a.view(), b.view(), c.view_mut())
        .err()
        .unwrap_or_else(|| panic!("{what}: accepted"))
}

fn is_shape(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Shape { .. })
}

fn is_order(error: DeviceError) -> bool {
    matches!(error, DeviceError::Order { .. })
}

pub(super) fn wrong_order_is_an_error<T: Scalar>(worker: &mut dyn Updates<T>) {
    let mut case = TestJob::new(3, 2, 1, 0);
    for _ in 0..2 {
        let early = worker.update(T::ONE, case.a.view(), case.b.view(), case.c.view_mut());
        assert!(early.is_err_and(is_order), "update outside a job: accepted");
        let early = worker.finish(case.c.view_mut());
        assert!(early.is_err_and(is_order), "finish outside a job: accepted");
        // The second round comes after a job that was finished.
        case.run(worker, T::ONE, 1);
    }
}

/// A job has one type, and the next one may have another.
pub(super) fn a_job_has_one_type(worker: &mut dyn Worker) {
    fn is_element<R>(result: Result<R, DeviceError>) {
        let error = result.err().unwrap_or_else(|| panic!("another type: accepted"));
        assert!(matches!(error, DeviceError::Element { .. }), "{error}");
    }
    let mut single = TestJob::<f32>::new(5, 4, 3, 0);
    let mut double = TestJob::<f64>::new(5, 4, 3, 0);
    let (a, b) = (double.a.view(), double.b.view());
    valid(f32::updates(worker).begin(single.c.view_mut(), Depth::of(3, 1)));
    is_element(f64::updates(worker).update(1.0, a, b, double.c.view_mut()));
    valid(f32::updates(worker).begin(single.c.view_mut(), Depth::of(3, 1)));
    is_element(f64::updates(worker).finish(double.c.view_mut()));
    single.run(f32::updates(worker), 1.0, 1);
    double.run(f64::updates(worker), 1.0, 1);
}
