//! A multiplication whose result is known.

use isochron_devices::{
    Depth, DeviceError, Element, EmbeddedBlas, Gemm, JobShape, View, ViewMut, Worker,
};

/// Small integers, so that every sum is exact in any order.
pub(crate) fn integers(count: usize, seed: usize) -> Vec<f64> {
    (0..count)
        .map(|i| ((i * 7 + i / 11 + seed) % 9) as f64 - 4.0)
        .collect()
}

/// A multiplication in updates of `k` columns each: what a worker makes of it, and what it should.
pub(crate) struct Case {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) k: usize,
    updates: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    expected: Vec<f64>,
}

impl Case {
    pub(crate) fn new((rows, cols, k): (usize, usize, usize), updates: usize) -> Self {
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

    /// The whole multiplication's.
    pub(crate) fn depth(&self) -> Depth {
        Depth::of(self.k, self.updates)
    }

    /// Returns the shape of the whole multiplication's job.
    pub(crate) fn shape(&self) -> JobShape {
        JobShape::of::<f64>((self.rows, self.cols), self.depth())
    }

    /// The panels of an update.
    pub(crate) fn panels(&self, update: usize) -> (View<'_, f64>, View<'_, f64>) {
        let all = self.k * self.updates;
        let k = update * self.k..(update + 1) * self.k;
        (
            View::new(&self.a, self.rows, all, self.rows).columns(k.clone()),
            View::new(&self.b, all, self.cols, all).block(k, 0..self.cols),
        )
    }

    /// Runs the whole multiplication on a worker.
    pub(crate) fn run(&self, worker: &mut dyn Worker) -> Result<Vec<f64>, DeviceError> {
        Ok(self.run_timed(worker)?.0)
    }

    /// The same, with the busy time of each update in seconds.
    pub(crate) fn run_timed(
        &self,
        worker: &mut dyn Worker,
    ) -> Result<(Vec<f64>, Vec<f64>), DeviceError> {
        let (rows, cols) = (self.rows, self.cols);
        let worker = f64::updates(worker);
        let mut c = integers(rows * cols, 3);
        worker.begin(ViewMut::new(&mut c, rows, cols, rows), self.depth())?;
        let mut busy_s = Vec::new();
        for update in 0..self.updates {
            let (now, c) = (self.panels(update), ViewMut::new(&mut c, rows, cols, rows));
            // Some panels come ahead of their update, and some do not.
            let time = if update % 3 == 2 || update + 1 == self.updates {
                worker.update(1.0, now.0, now.1, c)?
            } else {
                worker.update_ahead(1.0, now, self.panels(update + 1), c)?
            };
            busy_s.push(time.busy_s);
        }
        worker.finish(ViewMut::new(&mut c, rows, cols, rows))?;
        Ok((c, busy_s))
    }

    pub(crate) fn assert_exact(&self, found: &[f64], what: &str) {
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
