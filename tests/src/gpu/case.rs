//! A multiplication whose result is known.

use isochron_devices::blas::Blas;
use isochron_devices::{DeviceError, EmbeddedBlas, View, ViewMut, Worker};

/// Small integers, so that every sum is exact in any order.
pub(super) fn integers(count: usize, seed: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * 7 + i / 11 + seed) % 9) as f64 - 4.0)
        .collect()
}

/// A multiplication in updates of `k` columns each: what a worker makes of it, and what it should.
pub(super) struct Case {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) k: usize,
    updates: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    expected: Vec<f64>,
}

impl Case {
    pub(super) fn new((rows, cols, k): (usize, usize, usize), updates: usize) -> Self {
        let all = k * updates;
        let (a, b) = (integers(rows * all, 1), integers(all * cols, 2));
        let mut expected = integers(rows * cols, 3);
        let c = ViewMut::new(&mut expected, rows, cols, rows);
        EmbeddedBlas.gemm(
            1.0,
            View::new(&a, rows, all, rows),
            View::new(&b, all, cols, all),
            c,
        );
        Self {
            rows,
            cols,
            k,
            updates,
            a,
            b,
            expected,
        }
    }

    /// Runs the whole multiplication on a worker.
    pub(super) fn run(&self, worker: &mut dyn Worker) -> Result<Vec<f64>, DeviceError> {
        Ok(self.run_timed(worker)?.0)
    }

    /// The same, with the busy time of each update in seconds.
    pub(super) fn run_timed(
        &self,
        worker: &mut dyn Worker,
    ) -> Result<(Vec<f64>, Vec<f64>), DeviceError> {
        let (rows, cols, all) = (self.rows, self.cols, self.k * self.updates);
        let mut c = integers(rows * cols, 3);
        let (a, b) = (
            View::new(&self.a, rows, all, rows),
            View::new(&self.b, all, cols, all),
        );
        worker.begin(ViewMut::new(&mut c, rows, cols, rows), self.k)?;
        let panels = |update: usize| {
            let k = update * self.k..(update + 1) * self.k;
            (a.columns(k.clone()), b.block(k, 0..cols))
        };
        let mut busy_s = Vec::new();
        for update in 0..self.updates {
            let (now, c) = (panels(update), ViewMut::new(&mut c, rows, cols, rows));
            // Some panels come ahead of their update, and some do not.
            let time = if update % 3 == 2 || update + 1 == self.updates {
                worker.update(1.0, now.0, now.1, c)?
            } else {
                worker.update_ahead(1.0, now, panels(update + 1), c)?
            };
            busy_s.push(time.busy_s);
        }
        worker.finish(ViewMut::new(&mut c, rows, cols, rows))?;
        Ok((c, busy_s))
    }

    pub(super) fn assert_exact(&self, found: &[f64], what: &str) {
        let wrong = found.iter().zip(&self.expected).position(|(f, e)| f != e);
        if let Some(at) = wrong {
            let place = (at % self.rows, at / self.rows);
            panic!(
                "{what}: C{place:?} is {}, expected {}",
                found[at], self.expected[at]
            );
        }
    }
}
