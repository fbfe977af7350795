//! A multiplication whose result is known.

use isochron_devices::{Depth, DeviceError, EmbeddedBlas, JobShape, Scalar, View, ViewMut, Worker};
use num_complex::Complex64;

/// Small integers, so that every sum is exact in any order.
pub(crate) fn integers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 7 + i / 11 + seed) % 9) as f64 - 4.0).collect()
}

/// A number, with an imaginary part where it can have one.
fn number<T: Scalar>(real: f64) -> T {
    T::of(Complex64::new(real, 1.0 - real))
}

fn numbers<T: Scalar>(count: usize, seed: usize) -> Vec<T> {
    integers(count, seed).into_iter().map(number).collect()
}

/// A job: the sides of C, and the inner dimension of each update with its factor.
pub(crate) type Job<'a> = ((usize, usize), &'a [(usize, f64)]);

/// A multiplication in updates: what a worker makes of it, and what it should.
pub(crate) struct Case<T = f64> {
    rows: usize,
    cols: usize,
    updates: Vec<(usize, f64)>,
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
    expected: Vec<T>,
}

impl Case {
    /// Makes a multiplication in updates of `k` columns each.
    pub(crate) fn new((rows, cols, k): (usize, usize, usize), updates: usize) -> Self {
        Self::of_job(((rows, cols), &vec![(k, 1.0); updates]))
    }
}

impl<T: Scalar> Case<T> {
    pub(crate) fn of_job(((rows, cols), updates): Job<'_>) -> Self {
        let all = updates.iter().map(|update| update.0).sum::<usize>();
        let c = numbers(rows * cols, 3);
        let mut case = Self {
            rows,
            cols,
            updates: updates.to_vec(),
            a: numbers(rows * all, 1),
            b: numbers(all * cols, 2),
            expected: c.clone(),
            c,
        };
        let mut expected = std::mem::take(&mut case.expected);
        for (update, &(_, alpha)) in updates.iter().enumerate() {
            let (a, b) = case.panels(update);
            let c = ViewMut::new(&mut expected, rows, cols, rows);
            T::select_gemm(&EmbeddedBlas).gemm(number(alpha), a, b, c);
        }
        case.expected = expected;
        case
    }

    /// The whole multiplication's.
    pub(crate) fn depth(&self) -> Depth {
        let all = self.updates.iter().map(|update| update.0);
        Depth { k_max: all.clone().max().unwrap_or(0), k_total: all.sum() }
    }

    /// Returns the shape of the whole multiplication's job.
    pub(crate) fn shape(&self) -> JobShape {
        JobShape::of::<T>(self.rows, self.cols, self.depth())
    }

    /// The panels of an update.
    pub(crate) fn panels(&self, update: usize) -> (View<'_, T>, View<'_, T>) {
        let before: usize = self.updates[..update].iter().map(|update| update.0).sum();
        let (k, all) = (before..before + self.updates[update].0, self.depth().k_total);
        (
            View::new(&self.a, self.rows, all, self.rows).columns(k.clone()),
            View::new(&self.b, all, self.cols, all).block(k, 0..self.cols),
        )
    }

    /// Runs the whole multiplication on a worker.
    pub(crate) fn run(&self, worker: &mut dyn Worker) -> Result<Vec<T>, DeviceError> {
        Ok(self.run_timed(worker)?.0)
    }

    /// The same, with the busy time of each update in seconds.
    pub(crate) fn run_timed(
        &self,
        worker: &mut dyn Worker,
    ) -> Result<(Vec<T>, Vec<f64>), DeviceError> {
        let (rows, cols) = (self.rows, self.cols);
        let worker = T::updates(worker);
        let mut c = self.c.clone();
        worker.begin(ViewMut::new(&mut c, rows, cols, rows), self.depth())?;
        let mut busy_s = Vec::new();
        for (update, &(_, alpha)) in self.updates.iter().enumerate() {
            let c = ViewMut::new(&mut c, rows, cols, rows);
            let (alpha, now) = (number(alpha), self.panels(update));
            // Some panels come ahead of their update, and some do not.
            let is_announced = update % 3 != 2 && update + 1 < self.updates.len();
            let next = is_announced.then(|| self.panels(update + 1));
            let time = worker.update_ahead(alpha, now, next, c)?;
            busy_s.push(time.busy_s);
        }
        worker.finish(ViewMut::new(&mut c, rows, cols, rows))?;
        Ok((c, busy_s))
    }

    /// Runs the whole multiplication, which is exact.
    pub(crate) fn run_exactly(&self, worker: &mut dyn Worker, what: &str) {
        match self.run(worker) {
            Ok(found) => self.assert_exact(&found, what),
            Err(error) => panic!("{what}: {error}"),
        }
    }

    pub(crate) fn assert_exact(&self, found: &[T], what: &str) {
        let wrong = found.iter().zip(&self.expected).position(|(f, e)| f != e);
        if let Some(at) = wrong {
            let place = (at % self.rows, at / self.rows);
            panic!(
                "{}, {what}: C{place:?} is {:?}, expected {:?}",
                T::TYPE,
                found[at],
                self.expected[at]
            );
        }
    }
}
