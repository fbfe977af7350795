//! A factor of a product: a matrix as it is stored, or its transpose.

use std::fmt;
use std::str::FromStr;

use isochron_devices::{Element, View, ViewMut};
use serde::{Deserialize, Serialize};

use super::{Matrix, Region};

/// What a product takes of a stored matrix X: `op(X)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Op {
    /// X itself.
    #[default]
    N,
    /// Its transpose.
    T,
    /// Its conjugate transpose.
    C,
}

impl Op {
    /// Whether X is stored as `columns × rows` of what the product takes.
    pub fn transposes(self) -> bool {
        self != Op::N
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Op::N => "n",
            Op::T => "t",
            Op::C => "c",
        })
    }
}

impl FromStr for Op {
    type Err = String;

    /// Reads `n`, `t` or `c`, or a capital letter as BLAS writes it.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "n" | "N" => Ok(Op::N),
            "t" | "T" => Ok(Op::T),
            "c" | "C" => Ok(Op::C),
            _ => Err(format!(
                "unknown operation `{text}`: use n (as stored), t (transposed) or c (conjugated and transposed)"
            )),
        }
    }
}

/// `op(X)` of a distributed matrix X. Rows and columns are those of `op(X)`.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a, T = f64> {
    matrix: &'a Matrix<T>,
    op: Op,
}

/// Side of the squares that a transposition works on: one of the source and one of the target fit the first-level cache.
const SQUARE: usize = 32;

impl<'a, T: Element> From<&'a Matrix<T>> for Operand<'a, T> {
    fn from(matrix: &'a Matrix<T>) -> Self {
        Self::new(matrix, Op::N)
    }
}

impl<'a, T: Element> Operand<'a, T> {
    /// `op(matrix)`.
    pub fn new(matrix: &'a Matrix<T>, op: Op) -> Self {
        Self { matrix, op }
    }

    /// The matrix as it is stored.
    pub fn matrix(&self) -> &'a Matrix<T> {
        self.matrix
    }

    /// What is taken of it.
    pub fn op(&self) -> Op {
        self.op
    }

    /// Number of rows of `op(X)`.
    pub fn rows(&self) -> usize {
        let stored = self.matrix.spread();
        if self.op.transposes() {
            stored.cols()
        } else {
            stored.rows()
        }
    }

    /// Number of columns of `op(X)`.
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
        let stored = || self.view_stored(&region.transposed());
        match self.op {
            Op::N => target.copy_from(self.view_stored(region)),
            Op::T => transpose(stored(), target, |element| element),
            Op::C => transpose(stored(), target, T::conj),
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

/// Writes the transpose of `source`, each element as `map` makes it.
fn transpose<T: Element>(source: View<'_, T>, mut target: ViewMut<'_, T>, map: impl Fn(T) -> T) {
    let (rows, cols) = (target.rows(), target.cols());
    assert_eq!(
        (rows, cols),
        (source.cols(), source.rows()),
        "a transpose has as many rows as its matrix has columns"
    );
    for first_col in (0..cols).step_by(SQUARE) {
        let some_cols = first_col..cols.min(first_col + SQUARE);
        for first_row in (0..rows).step_by(SQUARE) {
            let some_rows = first_row..rows.min(first_row + SQUARE);
            for j in some_cols.clone() {
                let column = &mut target.col_mut(j)[some_rows.clone()];
                for (i, value) in some_rows.clone().zip(column) {
                    *value = map(source.col(i)[j]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Generator, Spread};
    use num_complex::Complex64;

    fn matrix(rows: usize, cols: usize) -> Matrix<Complex64> {
        Matrix::generate(
            Spread::whole(rows, cols),
            0,
            Generator::Integers { seed: 3 },
        )
        .unwrap()
    }

    #[test]
    fn copies_are_what_the_operation_says() {
        let (rows, cols) = (70, 45);
        let stored = matrix(rows, cols);
        for op in [Op::N, Op::T, Op::C] {
            let operand = Operand::new(&stored, op);
            let expected = |row, col| match op {
                Op::N => stored.at(row, col),
                Op::T => stored.at(col, row),
                Op::C => stored.at(col, row).conj(),
            };
            let some = Region::new(3..operand.rows() - 1, 2..operand.cols());
            let (m, n) = (some.rows, some.cols);
            let mut copied = vec![Complex64::ZERO; m * n];
            operand.copy(&some, ViewMut::new(&mut copied, m, n, m));
            for (at, &element) in copied.iter().enumerate() {
                assert_eq!(element, expected(3 + at % m, 2 + at / m), "{op}");
            }
            let mut seen = 0;
            operand.for_each(|row, col, element| {
                assert_eq!(element, expected(row, col));
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
