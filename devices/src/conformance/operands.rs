//! The operands of the suite: small integers, so that every sum is exact in any order.

use crate::worker::{Depth, UpdateTime, Worker};
use crate::{DeviceError, View, ViewMut};

/// What lies between the columns of the matrices: no worker may use or touch it.
const GAP: f64 = 12345.0;

/// A column-major matrix that owns its elements, with gaps between its columns.
pub(super) struct Matrix {
    rows: usize,
    cols: usize,
    pub(super) ld: usize,
    pub(super) data: Vec<f64>,
}

impl Matrix {
    pub(super) fn new(rows: usize, cols: usize, pad: usize, at: fn(usize, usize) -> f64) -> Self {
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

    pub(super) fn view(&self) -> View<'_, f64> {
        View::new(&self.data, self.rows, self.cols, self.ld)
    }

    pub(super) fn view_mut(&mut self) -> ViewMut<'_, f64> {
        ViewMut::new(&mut self.data, self.rows, self.cols, self.ld)
    }

    /// Multiplies what lies in the matrix, and not what lies between its columns.
    pub(super) fn scale(&mut self, factor: f64) {
        self.view_mut().scale(factor);
    }

    /// Checks every element, and that the gaps are untouched.
    pub(super) fn assert_is(&self, what: &str, expected: impl Fn(usize, usize) -> f64) {
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
pub(super) struct Case {
    pub(super) a: Matrix,
    pub(super) b: Matrix,
    pub(super) c: Matrix,
}

pub(super) fn a_at(i: usize, p: usize) -> f64 {
    ((3 * i + 5 * p) % 7) as f64 - 3.0
}

pub(super) fn b_at(p: usize, j: usize) -> f64 {
    ((2 * p + 3 * j) % 5) as f64 - 2.0
}

pub(super) fn c_at(i: usize, j: usize) -> f64 {
    ((i + 4 * j) % 9) as f64 - 4.0
}

pub(super) fn product_at(i: usize, j: usize, k: usize) -> f64 {
    (0..k).map(|p| a_at(i, p) * b_at(p, j)).sum()
}

impl Case {
    pub(super) fn new((rows, cols, k): (usize, usize, usize), pad: usize) -> Self {
        Self {
            a: Matrix::new(rows, k, pad, a_at),
            b: Matrix::new(k, cols, pad, b_at),
            c: Matrix::new(rows, cols, pad, c_at),
        }
    }

    pub(super) fn k(&self) -> usize {
        self.a.cols
    }

    /// `begin`, as many updates, `finish`; the times of all.
    pub(super) fn job(
        &mut self,
        worker: &mut dyn Worker,
        alpha: f64,
        updates: usize,
    ) -> Vec<UpdateTime> {
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
pub(super) fn valid<T>(result: Result<T, DeviceError>) -> T {
    result.unwrap_or_else(|error| panic!("a valid call failed: {error}"))
}
