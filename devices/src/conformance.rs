//! One suite for every [`Worker`]: what the contract promises, checked.
//!
//! [`run`] is for workers that compute; [`run_contract`] is the part that also holds for a worker that only pretends
//! to, such as [`RecordedWorker`](crate::RecordedWorker). Both panic at the first promise that is broken, saying which.

use crate::worker::{Depth, Panels, UpdateTime, Worker};
use crate::{DeviceError, View, ViewMut};

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

/// What lies between the columns of the matrices: no worker may use or touch it.
const GAP: f64 = 12345.0;

/// A column-major matrix that owns its elements, with gaps between its columns.
struct Matrix {
    rows: usize,
    cols: usize,
    ld: usize,
    data: Vec<f64>,
}

impl Matrix {
    fn new(rows: usize, cols: usize, pad: usize, at: fn(usize, usize) -> f64) -> Self {
        let ld = (rows + pad).max(1);
        let element = |place: usize| match (place % ld, place / ld) {
            (i, j) if i < rows => at(i, j),
            _ => GAP,
        };
        Self {
            rows,
            cols,
            ld,
            data: (0..ld * cols).map(element).collect(),
        }
    }

    fn view(&self) -> View<'_, f64> {
        View::new(&self.data, self.rows, self.cols, self.ld)
    }

    fn view_mut(&mut self) -> ViewMut<'_, f64> {
        ViewMut::new(&mut self.data, self.rows, self.cols, self.ld)
    }

    /// Multiplies what lies in the matrix, and not what lies between its columns.
    fn scale(&mut self, factor: f64) {
        self.view_mut().scale(factor);
    }

    /// Checks every element, and that the gaps are untouched.
    fn assert_is(&self, what: &str, expected: impl Fn(usize, usize) -> f64) {
        for (place, &found) in self.data.iter().enumerate() {
            let (i, j) = (place % self.ld, place / self.ld);
            let expected = if i < self.rows { expected(i, j) } else { GAP };
            assert!(
                found == expected || (found.is_nan() && expected.is_nan()),
                "{what}: element ({i}, {j}) of {}x{} with ld {} is {found}, expected {expected}",
                self.rows,
                self.cols,
                self.ld
            );
        }
    }
}

/// The operands: small integers, so that every sum is exact in any order.
struct Case {
    a: Matrix,
    b: Matrix,
    c: Matrix,
}

fn a_at(i: usize, p: usize) -> f64 {
    ((3 * i + 5 * p) % 7) as f64 - 3.0
}

fn b_at(p: usize, j: usize) -> f64 {
    ((2 * p + 3 * j) % 5) as f64 - 2.0
}

fn c_at(i: usize, j: usize) -> f64 {
    ((i + 4 * j) % 9) as f64 - 4.0
}

fn product_at(i: usize, j: usize, k: usize) -> f64 {
    (0..k).map(|p| a_at(i, p) * b_at(p, j)).sum()
}

impl Case {
    fn new((rows, cols, k): (usize, usize, usize), pad: usize) -> Self {
        Self {
            a: Matrix::new(rows, k, pad, a_at),
            b: Matrix::new(k, cols, pad, b_at),
            c: Matrix::new(rows, cols, pad, c_at),
        }
    }

    fn k(&self) -> usize {
        self.a.cols
    }

    /// `begin`, as many updates, `finish`; the times of all.
    fn job(&mut self, worker: &mut dyn Worker, alpha: f64, updates: usize) -> Vec<UpdateTime> {
        let depth = Depth::of(self.k(), updates);
        let mut times = vec![valid(worker.begin(self.c.view_mut(), depth))];
        let updated = (0..updates)
            .map(|_| valid(worker.update(alpha, self.a.view(), self.b.view(), self.c.view_mut())));
        times.extend(updated);
        times.push(valid(worker.finish(self.c.view_mut())));
        times
    }
}

/// The value of a call that must not fail.
fn valid<T>(result: Result<T, DeviceError>) -> T {
    result.unwrap_or_else(|error| panic!("a valid call failed: {error}"))
}

fn info_is_filled(worker: &dyn Worker) {
    let info = worker.info();
    assert!(!info.name.is_empty(), "the name is empty");
    assert!(
        !info.blas.is_empty(),
        "{}: the BLAS is not named",
        info.name
    );
    assert!(
        !info.pinned || !info.cores.is_empty(),
        "{}: pinned to no core",
        info.name
    );
}

fn times_are_times(worker: &mut dyn Worker, shape: (usize, usize, usize)) {
    for time in Case::new(shape, 1).job(worker, 1.0, 2) {
        for t_s in [time.busy_s, time.cpu_s] {
            assert!(t_s.is_finite() && t_s >= 0.0, "{shape:?}: {time:?}");
        }
    }
}

/// What a job needs is known before, does not depend on the jobs before it, and is nothing where there is no C.
fn memory_is_counted(worker: &mut dyn Worker) {
    for &(rows, cols, k) in SHAPES {
        for updates in [1, 5] {
            let depth = Depth::of(k, updates);
            let needed = worker.memory_needed(rows, cols, depth);
            let together = worker.updates_per_visit(rows, cols, depth);
            valid(worker.reserve(rows, cols, depth));
            Case::new((rows, cols, k), 0).job(worker, 1.0, updates);
            assert_eq!(
                worker.memory_needed(rows, cols, depth),
                needed,
                "memory of {rows}x{cols}"
            );
            assert!(
                together <= updates && (together.is_power_of_two() || together == updates),
                "{rows}x{cols}: {together} of {updates} updates"
            );
            assert!(needed == 0 || rows * cols > 0, "memory for nothing");
        }
    }
    // A size beyond counting is no panic.
    let depth = Depth::endless(usize::MAX);
    let _ = worker.memory_needed(usize::MAX, usize::MAX, depth);
    let _ = worker.updates_per_visit(usize::MAX, usize::MAX, depth);
}

fn results_are_exact(
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
fn scaling_is_exact(worker: &mut dyn Worker) {
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

fn job_without_updates_keeps_c(worker: &mut dyn Worker) {
    let mut case = Case::new((9, 7, 4), 2);
    case.job(worker, 1.0, 0);
    case.c.assert_is("begin and finish", c_at);
}

fn fewer_than_k_max_is_fine(worker: &mut dyn Worker) {
    let mut case = Case::new((9, 7, 4), 0);
    valid(worker.begin(case.c.view_mut(), Depth::of(64, 1)));
    valid(worker.update(1.0, case.a.view(), case.b.view(), case.c.view_mut()));
    valid(worker.finish(case.c.view_mut()));
    case.c
        .assert_is("k < k_max", |i, j| c_at(i, j) + product_at(i, j, 4));
}

/// More updates than were announced, fewer, and none at all where some were.
fn depths_need_not_be_exact(worker: &mut dyn Worker) {
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

fn nan_propagates(worker: &mut dyn Worker) {
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

/// Panels with `k` columns of A and rows of B, `scale` times those of the other cases.
fn panels((rows, cols): (usize, usize), k: usize, scale: f64) -> (Matrix, Matrix) {
    let (mut a, b) = (Matrix::new(rows, k, 2, a_at), Matrix::new(k, cols, 1, b_at));
    a.scale(scale);
    (a, b)
}

fn both((a, b): &(Matrix, Matrix)) -> Panels<'_> {
    (a.view(), b.view())
}

/// Every update but the last announces the panels of the next one, of various k.
fn announced_panels_are_used(worker: &mut dyn Worker) {
    let shape = (11, 6);
    let mut c = Matrix::new(shape.0, shape.1, 3, c_at);
    let all = [(5, 1.0), (3, 2.0), (5, 4.0), (5, 8.0)].map(|(k, scale)| panels(shape, k, scale));
    valid(worker.begin(c.view_mut(), Depth::of(5, 4)));
    for pair in all.windows(2) {
        let [now, next] = [both(&pair[0]), both(&pair[1])];
        valid(worker.update_ahead(1.0, now, next, c.view_mut()));
    }
    let (a, b) = both(&all[3]);
    valid(worker.update(1.0, a, b, c.view_mut()));
    valid(worker.finish(c.view_mut()));
    c.assert_is("announced panels", |i, j| {
        c_at(i, j) + 13.0 * product_at(i, j, 5) + 2.0 * product_at(i, j, 3)
    });
}

/// Others than the announced ones come, or the same memory with other numbers, or ones that do not fit.
fn announced_panels_that_do_not_come_are_forgotten(worker: &mut dyn Worker) {
    let shape = (8, 9);
    let mut c = Matrix::new(shape.0, shape.1, 1, c_at);
    let (now, other) = (panels(shape, 4, 1.0), panels(shape, 4, 2.0));
    let mut announced = panels(shape, 4, 4.0);
    let too_wide = panels((8, 10), 4, 1.0);
    valid(worker.begin(c.view_mut(), Depth::of(4, 6)));
    let mut ahead = |c: &mut Matrix, next: &(Matrix, Matrix)| {
        valid(worker.update_ahead(1.0, both(&now), both(next), c.view_mut()));
    };
    ahead(&mut c, &announced);
    ahead(&mut c, &too_wide);
    ahead(&mut c, &announced);
    valid(worker.update(0.0, announced.0.view(), announced.1.view(), c.view_mut()));
    announced.0.scale(2.0);
    for (a, b) in [both(&announced), both(&other)] {
        valid(worker.update(1.0, a, b, c.view_mut()));
    }
    valid(worker.finish(c.view_mut()));
    c.assert_is("panels that were announced in vain", |i, j| {
        c_at(i, j) + (3.0 + 8.0 + 2.0) * product_at(i, j, 4)
    });
}

fn wrong_shapes_are_errors(worker: &mut dyn Worker) {
    const GOOD: (usize, usize, usize) = (4, 6, 3);
    let mut update = |what: &str, a: (usize, usize), b: (usize, usize), c: (usize, usize)| {
        let mut case = Case::new(GOOD, 0);
        valid(worker.begin(case.c.view_mut(), Depth::of(GOOD.2, 1)));
        let a = Matrix::new(a.0, a.1, 0, a_at);
        let b = Matrix::new(b.0, b.1, 0, b_at);
        let mut c = Matrix::new(c.0, c.1, 0, c_at);
        worker
            .update(1.0, a.view(), b.view(), c.view_mut())
            .err()
            .unwrap_or_else(|| panic!("{what}: accepted"))
    };
    let is_shape = |error| matches!(error, DeviceError::Shape { .. });
    assert!(is_shape(update(
        "C is not that of begin",
        (5, 3),
        (3, 6),
        (5, 6)
    )));
    assert!(is_shape(update(
        "A has too few rows",
        (3, 3),
        (3, 6),
        (4, 6)
    )));
    assert!(is_shape(update(
        "B has too many columns",
        (4, 3),
        (3, 7),
        (4, 6)
    )));
    assert!(is_shape(update(
        "A and B do not fit",
        (4, 3),
        (2, 6),
        (4, 6)
    )));
    assert!(matches!(
        update("k > k_max", (4, 4), (4, 6), (4, 6)),
        DeviceError::InnerDimension { k: 4, k_max: 3 }
    ));
    let (mut case, mut other) = (Case::new(GOOD, 0), Case::new((6, 4, 3), 0));
    valid(worker.begin(case.c.view_mut(), Depth::of(3, 1)));
    assert!(
        worker.finish(other.c.view_mut()).is_err_and(is_shape),
        "finish with another C: accepted"
    );
    // After an error the worker is as good as new.
    case.job(worker, 1.0, 1);
}

fn wrong_order_is_an_error(worker: &mut dyn Worker) {
    let is_order = |error| matches!(error, DeviceError::Order { .. });
    let mut case = Case::new((3, 2, 1), 0);
    for _ in 0..2 {
        let early = worker.update(1.0, case.a.view(), case.b.view(), case.c.view_mut());
        assert!(early.is_err_and(is_order), "update outside a job: accepted");
        let early = worker.finish(case.c.view_mut());
        assert!(early.is_err_and(is_order), "finish outside a job: accepted");
        // The second round comes after a job that was finished.
        case.job(worker, 1.0, 1);
    }
}
