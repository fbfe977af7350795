//! The operands of the suite: small integers, so that every sum is exact in any order.

use crate::contract::{Depth, DeviceError, Scalar, UpdateTime, Updates, View, ViewMut};
use num_complex::Complex64;

/// The value between the columns of the matrices, which no worker may use or change.
const GAP: f64 = 12345.0;

/// Makes a number; a real type takes the real part.
pub(super) fn number<T: Scalar>(re: f64, im: f64) -> T {
    T::of(Complex64::new(re, im))
}

/// A column-major matrix that owns its elements, with gaps between its columns.
pub(super) struct GappedMatrix<T> {
    rows: usize,
    cols: usize,
    pub(super) ld: usize,
    pub(super) data: Vec<T>,
}

impl<T: Scalar> GappedMatrix<T> {
    pub(super) fn new(rows: usize, cols: usize, pad: usize, at: fn(usize, usize) -> T) -> Self {
        let ld = (rows + pad).max(1);
        Self {
            rows,
            cols,
            ld,
            data: (0..ld * cols)
                .map(|place| match (place % ld, place / ld) {
                    (i, j) if i < rows => at(i, j),
                    _ => number(GAP, GAP),
                })
                .collect(),
        }
    }

    pub(super) fn view(&self) -> View<'_, T> {
        View::new(&self.data, self.rows, self.cols, self.ld)
    }

    pub(super) fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(&mut self.data, self.rows, self.cols, self.ld)
    }

    /// Multiplies the elements of the matrix, and not the gaps.
    pub(super) fn scale(&mut self, factor: f64) {
        self.view_mut().scale(number(factor, 0.0));
    }

    /// Checks every element, and that the gaps are untouched.
    pub(super) fn assert_is(&self, what: &str, expected: impl Fn(usize, usize) -> T) {
        for (place, &found) in self.data.iter().enumerate() {
            let (i, j) = (place % self.ld, place / self.ld);
            let expected = if i < self.rows { expected(i, j) } else { number(GAP, GAP) };
            assert!(
                found == expected || (found.value().is_nan() && expected.value().is_nan()),
                "{what}: element ({i}, {j}) of a {}x{} of {} with ld {} is {found:?}, expected {expected:?}",
                self.rows,
                self.cols,
                T::TYPE,
                self.ld
            );
        }
    }
}

/// The operands of a job: small integers, so that every sum is exact in any order.
pub(super) struct TestJob<T> {
    pub(super) a: GappedMatrix<T>,
    pub(super) b: GappedMatrix<T>,
    pub(super) c: GappedMatrix<T>,
}

pub(super) fn a_at<T: Scalar>(i: usize, p: usize) -> T {
    number(((3 * i + 5 * p) % 7) as f64 - 3.0, ((i + p) % 5) as f64 - 2.0)
}

pub(super) fn b_at<T: Scalar>(p: usize, j: usize) -> T {
    number(((2 * p + 3 * j) % 5) as f64 - 2.0, ((p + 2 * j) % 3) as f64 - 1.0)
}

pub(super) fn c_at<T: Scalar>(i: usize, j: usize) -> T {
    number(((i + 4 * j) % 9) as f64 - 4.0, ((2 * i + j) % 4) as f64)
}

pub(super) fn product_at<T: Scalar>(i: usize, j: usize, k: usize) -> T {
    (0..k).fold(T::ZERO, |sum, p| sum + a_at::<T>(i, p) * b_at(p, j))
}

/// Returns `c(i, j) + Σ factor·(A·B)(i, j)`, summed over the factors and inner dimensions of `updates`.
pub(super) fn updated_at<T: Scalar>(i: usize, j: usize, updates: &[(f64, usize)]) -> T {
    updates.iter().fold(c_at(i, j), |sum, &(factor, k)| {
        sum + number::<T>(factor, 0.0) * product_at::<T>(i, j, k)
    })
}

impl<T: Scalar> TestJob<T> {
    pub(super) fn new(rows: usize, cols: usize, k: usize, pad: usize) -> Self {
        Self {
            a: GappedMatrix::new(rows, k, pad, a_at),
            b: GappedMatrix::new(k, cols, pad, b_at),
            c: GappedMatrix::new(rows, cols, pad, c_at),
        }
    }

    pub(super) fn k(&self) -> usize {
        self.a.cols
    }

    /// Runs a job of `updates` updates, and returns the times of all calls.
    pub(super) fn run(
        &mut self,
        worker: &mut dyn Updates<T>,
        alpha: T,
        updates: usize,
    ) -> Vec<UpdateTime> {
        self.run_announced(worker, Depth::of(self.k(), updates), alpha, updates)
    }

    /// Runs a job of `updates` updates that `depth` announces, rightly or not.
    pub(super) fn run_announced(
        &mut self,
        worker: &mut dyn Updates<T>,
        depth: Depth,
        alpha: T,
        updates: usize,
    ) -> Vec<UpdateTime> {
        let mut times = vec![valid(worker.begin(self.c.view_mut(), depth))];
        let updated = (0..updates)
            .map(|_| valid(worker.update(alpha, self.a.view(), self.b.view(), self.c.view_mut())));
        times.extend(updated);
        times.push(valid(worker.finish(self.c.view_mut())));
        times
    }
}

/// Returns the value of a call that must not fail.
pub(super) fn valid<R>(result: Result<R, DeviceError>) -> R {
    result.unwrap_or_else(|error| panic!("a valid call failed: {error}"))
}
