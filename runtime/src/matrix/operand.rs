//! A factor of a product: a matrix as it is stored, or its transpose.

use isochron_devices::{Element, View, ViewMut};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

use super::copy::{Strides, copy_lines, replace};
use super::{HeldMatrix, Region};

/// Operation of a product on a stored matrix X: `op(X)`. Text may have a capital letter, as BLAS writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString)]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_operation)]
pub enum Op {
    /// X itself.
    #[default]
    #[serde(alias = "N")]
    N,
    /// Its transpose.
    #[serde(alias = "T")]
    T,
    /// Its conjugate transpose.
    #[serde(alias = "C")]
    C,
}

impl Op {
    /// Returns `true` if `op(X)` has as many rows as X has columns.
    pub fn transposes(self) -> bool {
        self != Op::N
    }
}

fn unknown_operation(text: &str) -> String {
    format!(
        "unknown operation `{text}`: use n (as stored), t (transposed) or c (conjugated and transposed)"
    )
}

/// `op(X)` of a distributed matrix X. Rows and columns are those of `op(X)`.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a, T = f64> {
    matrix: &'a HeldMatrix<'a, T>,
    op: Op,
}

impl<'a, T: Element> From<&'a HeldMatrix<'a, T>> for Operand<'a, T> {
    fn from(matrix: &'a HeldMatrix<'a, T>) -> Self {
        Self::new(matrix, Op::N)
    }
}

impl<'a, T: Element> Operand<'a, T> {
    /// Makes `op(matrix)`.
    pub fn new(matrix: &'a HeldMatrix<'a, T>, op: Op) -> Self {
        Self { matrix, op }
    }

    /// Returns the matrix X.
    pub(crate) fn matrix(&self) -> &'a HeldMatrix<'a, T> {
        self.matrix
    }

    /// Returns the operation.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Returns the number of rows of `op(X)`.
    pub fn rows(&self) -> usize {
        let stored = self.matrix.spread();
        if self.op.transposes() {
            stored.cols()
        } else {
            stored.rows()
        }
    }

    /// Returns the number of columns of `op(X)`.
    pub fn cols(&self) -> usize {
        let stored = self.matrix.spread();
        if self.op.transposes() {
            stored.rows()
        } else {
            stored.cols()
        }
    }

    /// Returns a rectangle of `op(X)`, which this rank holds, in place; `None` if it has to be transposed.
    ///
    /// # Panics
    /// If this rank does not hold it.
    pub(crate) fn in_place(&self, region: &Region) -> Option<View<'a, T>> {
        (!self.op.transposes()).then(|| self.view_stored(region))
    }

    /// Copies a rectangle of `op(X)`, which this rank holds, to `target`.
    ///
    /// # Panics
    /// If this rank does not hold it, or `target` is of another size.
    pub(crate) fn copy(&self, region: &Region, mut target: ViewMut<'_, T>) {
        let size = (region.rows, region.cols);
        assert_eq!((target.rows(), target.cols()), size, "the sizes of a copy");
        let (stored, strides) = if self.op.transposes() {
            let stored = self.view_stored(&region.transposed());
            (stored.data(), Strides::across(stored.ld()))
        } else {
            let stored = self.view_stored(region);
            (stored.data(), Strides::lines(stored.ld()))
        };
        let ld = target.ld();
        let target = (target.data_mut(), ld);
        match self.op {
            Op::N | Op::T => copy_lines(target, (stored, strides), size, &replace),
            Op::C => copy_lines(target, (stored, strides), size, &|to, value| {
                *to = value.conj();
            }),
        }
    }

    /// Calls `take` with the row, the column and the value of every element of `op(X)` that this rank holds.
    pub(crate) fn for_each(&self, mut take: impl FnMut(usize, usize, T)) {
        let Region { row, col, .. } = self.matrix.part();
        for (j, column) in self.matrix.columns().enumerate() {
            for (i, &element) in column.iter().enumerate() {
                match self.op {
                    Op::N => take(row + i, col + j, element),
                    Op::T => take(col + j, row + i, element),
                    Op::C => take(col + j, row + i, element.conj()),
                }
            }
        }
    }

    /// Returns a rectangle of X in this rank's memory.
    fn view_stored(&self, region: &Region) -> View<'a, T> {
        let local = region.relative_to(&self.matrix.part());
        self.matrix
            .local()
            .block(local.row_range(), local.col_range())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Generator, Matrix, Spread};
    use num_complex::Complex64;

    fn matrix(rows: usize, cols: usize) -> Matrix<Complex64> {
        Matrix::generate(
            Spread::whole(rows, cols),
            0,
            Generator::Integers { seed: 3 },
        )
        .unwrap()
    }

    fn element_of(stored: &Matrix<Complex64>, op: Op, row: usize, col: usize) -> Complex64 {
        match op {
            Op::N => stored.local().col(col)[row],
            Op::T => stored.local().col(row)[col],
            Op::C => stored.local().col(row)[col].conj(),
        }
    }

    #[test]
    fn copies_apply_the_operation() {
        let (rows, cols) = (70, 45);
        let stored = matrix(rows, cols);
        for op in [Op::N, Op::T, Op::C] {
            let operand = Operand::new(&stored, op);
            let some = Region::new(3..operand.rows() - 1, 2..operand.cols());
            let (m, n) = (some.rows, some.cols);
            let mut copied = vec![Complex64::ZERO; m * n];
            operand.copy(&some, ViewMut::new(&mut copied, m, n, m));
            for (at, &element) in copied.iter().enumerate() {
                let expected = element_of(&stored, op, 3 + at % m, 2 + at / m);
                assert_eq!(element, expected, "{op}");
            }
            let mut seen = 0;
            operand.for_each(|row, col, element| {
                assert_eq!(element, element_of(&stored, op, row, col));
                seen += 1;
            });
            assert_eq!(seen, rows * cols);
            let in_place = operand.in_place(&some);
            assert_eq!(in_place.is_some(), op == Op::N);
        }
    }

    #[test]
    fn operations_are_read_by_their_letters() {
        for op in [Op::N, Op::T, Op::C] {
            assert_eq!(op.to_string().parse(), Ok(op));
            assert_eq!(op.to_string().to_uppercase().parse(), Ok(op));
        }
        assert!("x".parse::<Op>().unwrap_err().contains("`x`"));
    }
}
