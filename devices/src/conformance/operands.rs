//! The operands of the suite: small integers, so that every sum is exact in any order.

use crate::worker::{Depth, UpdateTime, Updates};
use crate::{DeviceError, Element, View, ViewMut};
use num_complex::Complex64;

/// What lies between the columns of the matrices: no worker may use or touch it.
const GAP: f64 = 12345.0;

/// A number; of one that is not complex its real part.
pub(super) fn number<T: Element>(re: f64, im: f64) -> T {
    T::of(Complex64::new(re, im))
}

/// A column-major matrix that owns its elements, with gaps between its columns.
pub(super) struct Matrix<T> {
    rows: usize,
    cols: usize,
    pub(super) ld: usize,
    pub(super) data: Vec<T>,
}

impl<T: Element> Matrix<T> {
    pub(super) fn new(rows: usize, cols: usize, pad: usize, at: fn(usize, usize) -> T) -> Self {
        let ld = (rows + pad).max(1);
        let element = |place: usize| match (place % ld, place / ld) {
            (i, j) if i < rows => at(i, j),
            _ => number(GAP, GAP),
        };
        Self {
            rows,
            cols,
            ld,
            data: (0..ld * cols).map(element).collect(),
        }
    }

    pub(super) fn view(&self) -> View<'_, T> {
        View::new(&self.data, self.rows, self.cols, self.ld)
    }

    pub(super) fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::new(&mut self.data, self.rows, self.cols, self.ld)
    }

    /// Multiplies what lies in the matrix, and not what lies between its columns.
    pub(super) fn scale(&mut self, factor: f64) {
        self.view_mut().scale(number(factor, 0.0));
    }

    /// Checks every element, and that the gaps are untouched.
    pub(super) fn assert_is(&self, what: &str, expected: impl Fn(usize, usize) -> T) {
        for (place, &found) in self.data.iter().enumerate() {
            let (i, j) = (place % self.ld, place / self.ld);
            let expected = if i < self.rows {
                expected(i, j)
            } else {
                number(GAP, GAP)
            };
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

/// The operands: small integers, so that every sum is exact in any order.
pub(super) struct Case<T> {
    pub(super) a: Matrix<T>,
    pub(super) b: Matrix<T>,
    pub(super) c: Matrix<T>,
}

pub(super) fn a_at<T: Element>(i: usize, p: usize) -> T {
    number(
        ((3 * i + 5 * p) % 7) as f64 - 3.0,
        ((i + p) % 5) as f64 - 2.0,
    )
}

pub(super) fn b_at<T: Element>(p: usize, j: usize) -> T {
    number(
        ((2 * p + 3 * j) % 5) as f64 - 2.0,
        ((p + 2 * j) % 3) as f64 - 1.0,
    )
}

pub(super) fn c_at<T: Element>(i: usize, j: usize) -> T {
    number(((i + 4 * j) % 9) as f64 - 4.0, ((2 * i + j) % 4) as f64)
}

pub(super) fn product_at<T: Element>(i: usize, j: usize, k: usize) -> T {
    (0..k).fold(T::ZERO, |sum, p| sum + a_at::<T>(i, p) * b_at(p, j))
}

/// `c(i, j) + Σ factor·(A·B)(i, j)` with the inner dimensions and the factors of some updates.
pub(super) fn updated_at<T: Element>(i: usize, j: usize, updates: &[(f64, usize)]) -> T {
    let add = |sum: T, &(factor, k): &(f64, usize)| {
        sum + number::<T>(factor, 0.0) * product_at::<T>(i, j, k)
    };
    updates.iter().fold(c_at(i, j), add)
}

impl<T: Element> Case<T> {
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
        worker: &mut dyn Updates<T>,
        alpha: T,
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
pub(super) fn valid<R>(result: Result<R, DeviceError>) -> R {
    result.unwrap_or_else(|error| panic!("a valid call failed: {error}"))
}
